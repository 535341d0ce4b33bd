"""Many fits at a time, the same work many times over, and many predictions through one model."""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import psutil
import pytest

import viewloom as vl
from viewloom.data.simulated import adni_like

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import load

WARM, CYCLES = 30, 90
MOST_GROWTH = 8.0  # KiB a cycle: less than any of the arrays of a fit
MOST_SECONDS = 0.1  # of the processor, for one subject


def test_fits_side_by_side():
    with ProcessPoolExecutor(2, get_context("forkserver")) as pool:
        digests = list(pool.map(load.fitted, [0, 1, 0, 0]))
    assert digests[0] == digests[2] == digests[3] == load.fitted(0)
    assert digests[0] != digests[1]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_memory_stays_flat(tmp_path):
    views, _ = vl.simulate.blobs_views(30, n_views=2, random_state=0)
    path, kept = tmp_path / "model.safetensors", []
    for _ in range(CYCLES):
        vl.KernelMultiviewNMF(3, kernel="linear", random_state=0, max_iter=3).fit(views).save(path)
        vl.load(path).predict(views)
        kept.append(psutil.Process(os.getpid()).memory_info().rss / 1024)
    slope, error = load.line(np.array(kept[WARM:]))
    assert slope - 3.0 * error < MOST_GROWTH


def test_single_subjects_through_a_loaded_model(tmp_path):
    cohort = adni_like(30, 35, 40, random_state=0).views
    vl.KernelMultiviewNMF(3, random_state=0).fit(cohort).save(tmp_path / "model.safetensors")
    model = vl.load(tmp_path / "model.safetensors")
    together = model.predict(cohort)
    began = time.process_time()
    alone = [int(model.predict(cohort[i])[0]) for i in range(25)]
    assert (time.process_time() - began) / 25 < MOST_SECONDS
    assert alone == together[:25].tolist()


def test_a_line_and_its_error():
    rng = np.random.default_rng(0)
    slope, error = load.line(2.5 * np.arange(200) + rng.standard_normal(200))
    assert abs(slope - 2.5) < 3.0 * error
    assert error == pytest.approx(np.sqrt(12.0 / 200**3), rel=0.2)
