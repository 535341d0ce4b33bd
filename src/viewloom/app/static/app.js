"use strict";
// Progress of a job, and the text of study.toml beside its form. Every page works without.

const progress = document.getElementById("progress");
if (progress) {
  const source = new EventSource(progress.dataset.events);
  source.onmessage = (message) => {
    const job = JSON.parse(message.data);
    if (job.state !== "running") {
      source.close();
      location.reload();
      return;
    }
    const stage = document.getElementById("stage");
    if (stage.textContent !== job.stage) stage.textContent = job.stage;
    document.getElementById("detail").textContent = job.detail;
    const said = document.getElementById("said");
    if (said.textContent !== job.said) said.textContent = job.said;
    said.hidden = !job.said;
    const bar = document.getElementById("bar");
    if (job.total) {
      bar.max = job.total;
      bar.value = job.done;
    } else {
      bar.removeAttribute("value");
    }
  };
}

const form = document.getElementById("study-form");
if (form) {
  const text = document.getElementById("text");
  const said = document.getElementById("live");
  let timer;
  let typed = false;
  text.addEventListener("input", () => { typed = true; });
  const show = async () => {
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch(form.dataset.live, { method: "POST", body });
    if (!answer.ok || typed) return;
    const found = await answer.json();
    text.value = found.text;
    said.textContent = found.all.length ? found.all[0] : "Not saved yet.";
    for (const field of form.querySelectorAll(".field")) {
      const error = field.querySelector(".error");
      const line = found.errors[field.dataset.field] || "";
      error.textContent = line;
      error.hidden = !line;
      field.classList.toggle("wrong", Boolean(line));
    }
  };
  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(show, 300); });
}
