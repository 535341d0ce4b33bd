"use strict";
// Tables that sort by their headings and, where long, can be filtered. Without this script they are still read.
(() => {
  const FILTERED = 9; // rows from which a table gets a filter
  const words = new Intl.Collator(undefined, { numeric: true });

  const make = (tag, text, parent) => {
    const element = document.createElement(tag);
    element.textContent = text;
    parent.append(element);
    return element;
  };

  // Numbers before words; cells without a number stay last either way.
  const compare = (a, b, sign) => {
    const [x, y] = [a.dataset.v, b.dataset.v];
    if (x !== undefined && y !== undefined) return sign * (x - y);
    if (x !== undefined || y !== undefined) return x !== undefined ? -1 : 1;
    return sign * words.compare(a.textContent, b.textContent);
  };

  const sort = (table, column) => {
    const heads = [...table.tHead.rows[0].cells];
    const up = heads[column].getAttribute("aria-sort") !== "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => compare(a.cells[column], b.cells[column], up ? 1 : -1));
    table.tBodies[0].append(...rows);
  };

  const filter = (table) => {
    const rows = [...table.tBodies[0].rows];
    const bar = document.createElement("div");
    bar.className = "filter";
    const label = make("label", "Filter ", bar);
    const input = make("input", "", label);
    input.type = "search";
    input.setAttribute("aria-controls", table.id);
    const count = make("span", `${rows.length} rows`, bar);
    count.setAttribute("role", "status");
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      rows.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
      const shown = rows.filter((row) => !row.hidden).length;
      count.textContent = wanted ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
    });
    table.parentElement.before(bar);
  };

  for (const table of document.querySelectorAll("section.table table")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const label = head.textContent;
      head.textContent = "";
      const button = make("button", label, head);
      button.type = "button";
      button.addEventListener("click", () => sort(table, column));
    });
    if (table.tBodies[0].rows.length >= FILTERED) filter(table);
  }
})();
