"""Speed and memory where kernels are dense, as ratios measured in one run.

    python benchmarks/speed.py [--data DIR] [--only iteration,convergence,...] [--threads 1,2] [--json FILE]

Every measurement runs in a process of its own, with one BLAS thread and again with two.

iteration
    An outer iteration (one Gaussian view, n = 5000, k = 10, otherwise the default) against the bare
    product ``G @ K`` that it cannot avoid. The two take turns, so that both see the same machine.
    From a random start no sample has settled yet, and all take all inner steps.
convergence
    Time to come within 0.1 % of the best objective that either finds, against the literal
    transcription (n = 2000, three Gaussian views). Both minimise the same function, Eq. 4 without
    calibration, on the same kernels and graphs, whose construction neither is charged for: once as
    published (memberships non-negative, lam = theta = 1) and once in the well-posed form
    (probabilities, sharpness 0.5, lam = 10, theta = 0.1), where both can reach the same minimum.
    The graph is the neighbour graph: under the published one, whose Laplacian is not normalised,
    the minimum is to belong to all clusters alike. The transcription is Algorithm 1 as
    `tests/naive.py` has it, with loops over entries turned into matrix products and the norms of
    ``L``, which never change, computed beforehand; it starts at random and takes one plain step per
    iteration. Ours pays for its start and takes ten accelerated steps. Where the transcription does
    not get there within its time, the ratio is a lower bound.
digits
    The whole default fit on handwritten digits (n = 2000, six views) against each installed peer of
    the quality benchmark, which gets scaled views; a simulated stand-in where the set is not there.
spectral
    The whole default fit on every set with at least 1000 samples against scikit-learn's
    ``SpectralClustering(affinity="nearest_neighbors")`` on the concatenated, standardised features: CPU
    seconds, the best of three, taking turns.
versions
    The whole default fit on every set of the development half of `quality.py` against that of another
    version, whose folder ``src`` the variable ``VIEWLOOM_EARLIER`` names; nothing where it is not set. CPU
    seconds, the better of two processes of each version, which take turns; of all sets, and of that with
    the largest ratio.
import
    ``import viewloom`` against ``import sklearn.cluster, pandas`` in new interpreters, the best of
    several, taking turns.
start
    CPU seconds of ``viewloom --version`` and ``viewloom --help``, the best of several, against the bound of
    0.3 seconds.
memory
    Peak memory of a fit (three Gaussian views, n = 4000) above what was there before, against the
    bytes of its three kernels.
threads
    Exact fits with the threads that every user has by default, against the better of one thread and as many
    as there are cores, both set by hand (BLAS and OpenMP) and without the limits that viewloom sets; alone,
    and beside a process that keeps one core busy. Each fit runs in a process of its own, the three take
    turns, and the best of three counts. A fit is ended when it takes five times as long as the fastest so far
    and half a minute. Rows are also printed when they are known.
importance
    Importance of 20 000 features of one of three views under the default kernel (n = 400), in CPU seconds,
    against a minute; and of 500 features against placing samples anew with every column permuted.
reading
    A table of text (345 x 3000, ids checked, codes for missing values told apart) against
    ``pandas.read_csv``, and genotypes (345 x 20 000, PLINK) against `bed_reader` alone; larger tables in
    CSV, Parquet, Excel and SPSS files, in CPU seconds of all processes; PLINK 2, VCF and BGEN (5000 x 2000)
    against pgenlib, cyvcf2 and cbgen.
genotypes
    5000 x 500 000 calls of PLINK 1 and 2, of which a twentieth is common: CPU seconds with filters, and with
    pruning, against a bare pass of bed_reader and pgenlib, the best of three turns each; peak memory against
    5 bytes per call that is kept and 100 MiB.
codes
    Diagnosis codes of 100 000 subjects (10 000 codes, 2 million rows): CPU seconds against
    ``pandas.read_csv``, the best of three turns each, and peak memory against that of a dense table.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Array = np.ndarray
Course = list[tuple[float, float]]  # objectives, and seconds since the start
BLAS_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
CLOSE = 1.001  # times the best objective found
PATIENCE = 90.0  # seconds that the transcription may take
DIGITS = "handwritten_mfeat6"
LONGEST_FIT, SLOWEST = 30.0, 5.0  # seconds, and times the fastest fit, after which one is ended
START = 0.3  # CPU seconds in which the command line answers
LARGE_SET = 1000  # samples of the sets that are compared with spectral clustering
NO_TARGET = float("nan")
TURNS = 3  # of which the best counts: memory that the system gives for the first time can cost seconds
EARLIER = "VIEWLOOM_EARLIER"  # names the source folder of another version
# The first fit, of noise, imports what fits need.
DEFAULT_FITS = """
import json, sys, time, warnings
from pathlib import Path
import numpy as np
from viewloom import KernelMultiviewNMF
warnings.simplefilter("ignore")
KernelMultiviewNMF(2, random_state=0).fit([np.random.default_rng(a).normal(size=(40, 3)) for a in range(2)])
found = []
for path in sorted(Path(sys.argv[1]).glob("*.npz")):
    with np.load(path) as content:
        views = [content[name] for name in content.files]
    model = KernelMultiviewNMF(int(path.stem.split("-")[1]), random_state=0)
    began = time.process_time()
    model.fit(views)
    found.append(time.process_time() - began)
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Row:
    """One comparison; its target is a bound from above, or from below where more is better."""

    measure: str
    what: str
    ours: float
    against: float
    unit: str
    ratio: float
    target: float = NO_TARGET
    more_is_better: bool = False

    @property
    def reached(self) -> str:
        """Whether the target holds."""
        if np.isnan(self.target):
            return "-"
        return "yes" if (self.ratio >= self.target) == self.more_is_better else "no"


def measure_iteration(folder: Path) -> Iterator[Row]:
    """An outer iteration against the product with the kernel."""
    import viewloom as vl
    from viewloom.models.fitting import Parameters, build, solve_exactly

    views, _ = vl.simulate.blobs_views(5000, 1, 10, n_features=20, separation=5.0, random_state=0)
    for start in ("kkmeans", "random"):
        model = vl.KernelMultiviewNMF(10, kernel="gaussian", init=start, max_iter=30, tol=0.0, random_state=0)
        p = Parameters.of(model)
        problem = build(views, p)
        K, G = problem.operators[0].K, np.random.default_rng(0).uniform(size=(10, 5000))
        products: list[float] = []
        solution = solve_exactly(problem, p, lambda *_: products.append(seconds_of(lambda: G @ K)))  # noqa: B023
        ours, product = (float(np.median(values)) for values in (solution.history["seconds"], products))
        yield Row("iteration", f"{start} start", 1e3 * ours, 1e3 * product, "ms", ours / product, 1.15)


def measure_convergence(folder: Path) -> Iterator[Row]:
    """Time to nearly the best objective against the literal transcription."""
    from viewloom.data import simulated as simulate
    from viewloom.solver.start import random_memberships
    from viewloom.solver.updates import PROJECTIONS

    views, _ = simulate.blobs_views(2000, 3, 10, n_features=20, separation=5.0, random_state=0)
    published = {"membership": "nonnegative", "sharpness": 0.0, "lam": 1.0, "theta": 1.0}
    for what, form in {"Eq. 4 as published": published, "Eq. 4 well posed": {"sharpness": 0.5}}.items():
        ours, problem, model = our_course(views, form)
        K = [operator.K for operator in problem.operators]
        L = [np.eye(len(k)) - view.laplacian.adjacency.K for k, view in zip(K, problem.views, strict=True)]
        algorithm = Literal(K, L, model.lam, model.theta, PROJECTIONS[model.membership], model.sharpness)
        start = random_memberships(2000, 10, np.random.RandomState(0), model.membership)
        theirs = algorithm.course(start, PATIENCE)
        best = CLOSE * min(ours + theirs)[0]
        mine, literal = arrival(ours, best), arrival(theirs, best)
        note = what if theirs[-1][0] <= best else f"{what} (not reached by the transcription)"
        yield Row("convergence", note, mine, literal, "s", literal / mine, 20.0, True)


def arrival(course: Course, goal: float) -> float:
    """Seconds until the objective is as low as the goal, or until the end."""
    return next((clock for found, clock in course if found <= goal), course[-1][1])


def our_course(views: Any, form: dict[str, Any]) -> tuple[Course, Any, Any]:
    """The course of our fit since its kernels were built, the problem and the model."""
    from viewloom import KernelMultiviewNMF
    from viewloom.models.fitting import Parameters, build, solve_exactly

    settings = {"kernel": "gaussian", "calibrate": False, "max_iter": 100, "tol": 0.0, "random_state": 0}
    model = KernelMultiviewNMF(10, **settings, **form)
    problem = build(views, Parameters.of(model))
    began = time.perf_counter()
    history = solve_exactly(problem, Parameters.of(model)).history
    whole = time.perf_counter() - began
    clocks = np.cumsum(history["seconds"])
    clocks += whole - clocks[-1]  # what came before the first iteration
    return list(zip(history["objective"], clocks.tolist(), strict=True)), problem, model


class Literal:
    """Algorithm 1 of the paper, line by line, in matrix form."""

    def __init__(
        self,
        K: list[Array],
        L: list[Array],
        lam: float,
        theta: float,
        project: Callable[[Array], Array],
        rho: float,
    ) -> None:
        self.K, self.L, self.lam, self.theta, self.project, self.rho = K, L, lam, theta, project, rho
        self.norms = [float(np.linalg.eigvalsh(matrix)[-1]) for matrix in L]

    def course(self, start: Array, patience: float) -> Course:
        """Iterations for so many seconds."""
        G, G_star = [start for _ in self.K], start
        beta, found, began = np.full(len(G), 1.0 / len(G)), [], time.perf_counter()
        while time.perf_counter() - began < patience:
            P = [g.T @ np.linalg.inv(self.gram(g)) for g in G]  # Eq. 5
            G = [self.step(a, g, p, G_star) for a, (g, p) in enumerate(zip(G, P, strict=True))]  # Eq. 6
            weights = beta**2 * self.lam
            G_star = sum(w * g for w, g in zip(weights, G, strict=True)) / weights.sum()  # Eq. 7
            q = np.array([self.loss(a, g, p, G_star) for a, (g, p) in enumerate(zip(G, P, strict=True))])
            beta = (1.0 / q) / (1.0 / q).sum()  # Eq. 8 with gamma = 2
            found.append((float((beta**2 * q).sum()), time.perf_counter() - began))
        return found

    def gram(self, G: Array) -> Array:
        """``G G^T``, mixed with ``diag(G 1)`` in the well-posed form."""
        return (1.0 - self.rho) * G @ G.T + self.rho * np.diag(G.sum(axis=1))

    def step(self, a: int, G: Array, P: Array, G_star: Array) -> Array:
        """One projected gradient step (Eq. 6)."""
        A = P.T @ self.K[a] @ P
        attraction = P.T @ self.K[a] - self.rho / 2.0 * np.diagonal(A)[:, None]
        A = (1.0 - self.rho) * A
        gradient = A @ G - attraction + self.lam * (G - G_star) + self.theta * G @ self.L[a]
        return self.project(G - gradient / (np.linalg.norm(A, 2) + self.lam + self.theta * self.norms[a]))

    def loss(self, a: int, G: Array, P: Array, G_star: Array) -> float:
        """``q`` of one view (Eq. 4)."""
        PtK = P.T @ self.K[a]
        error = np.trace(self.K[a]) - 2.0 * np.vdot(PtK, G) + np.vdot(PtK @ P, self.gram(G))
        smoothness = np.vdot(G @ self.L[a], G)
        return float(error + self.lam * np.sum((G - G_star) ** 2) + self.theta * smoothness)


def measure_digits(folder: Path) -> Iterator[Row]:
    """The default fit against peers."""
    from methods import DEFAULT
    from registry import GROUPS
    from runner import Task, Worker
    from scenarios import CLEAN
    from sets import File

    with tempfile.TemporaryDirectory() as scratch, Worker() as worker:
        path = digits(folder, Path(scratch))

        def seconds(name: str) -> float:
            return min(worker.run(Task(File(path), 10, name, CLEAN, 0), 300.0).seconds for _ in range(2))

        ours = seconds(DEFAULT)
        for peer in GROUPS["peers"]:
            if peer.installed:
                theirs = seconds(peer.name)
                yield Row("digits", f"{path.stem}: {peer.name}", ours, theirs, "s", ours / theirs)


def measure_spectral(folder: Path) -> Iterator[Row]:
    """The whole default fit against spectral clustering of the concatenated features, in CPU seconds."""
    from sets import find_sets
    from sklearn.cluster import SpectralClustering
    from sklearn.preprocessing import StandardScaler

    from viewloom import KernelMultiviewNMF

    for found in find_sets(folder, ["sets"])[0]:
        if found.n_samples < LARGE_SET or found.is_kernel:
            continue
        views, k = found.source.views(), found.n_clusters
        X = StandardScaler().fit_transform(np.hstack(views))
        model = KernelMultiviewNMF(k, random_state=0)
        peer = SpectralClustering(k, affinity="nearest_neighbors", random_state=0)
        turns = [
            (cpu_seconds_of(lambda: model.fit(views)), cpu_seconds_of(lambda: peer.fit(X)))  # noqa: B023
            for _ in range(3)
        ]
        mine, theirs = (min(values) for values in zip(*turns, strict=True))
        note = f"{found.name}: {len(X)} x {len(views)}, k = {k}"
        yield Row("spectral", note, mine, theirs, "s CPU", mine / theirs, 6.0 if k >= 100 else 3.0)


def measure_versions(folder: Path) -> Iterator[Row]:
    """The whole default fit against that of another version, in CPU seconds."""
    from sets import GROUPS, find_sets

    if not (earlier := os.environ.get(EARLIER)):
        return
    found = [one for one in find_sets(folder, list(GROUPS), "development")[0] if not one.is_kernel]
    with tempfile.TemporaryDirectory() as scratch:
        for number, one in enumerate(found):
            np.savez(Path(scratch, f"{number:03}-{one.n_clusters}.npz"), *one.source.views())
        own = str(Path(__file__).parents[1] / "src")
        turns = [[default_fits(source, scratch) for source in (own, earlier)] for _ in range(2)]
    mine, theirs = np.min(turns, axis=0)
    ratios = mine / theirs
    worst, what = int(np.argmax(ratios)), f"{len(found)} sets, median ratio {np.median(ratios):.2f}"
    yield Row("versions", what, mine.sum(), theirs.sum(), "s CPU", mine.sum() / theirs.sum(), 1.3)
    yield Row("versions", f"worst: {found[worst].name}", mine[worst], theirs[worst], "s CPU", ratios[worst])


def default_fits(source: str, scratch: str) -> Array:
    """CPU seconds of the default fit on each file of a folder, with the version in a source folder."""
    environment = {**os.environ, "PYTHONPATH": source}
    command = [sys.executable, "-c", DEFAULT_FITS, scratch]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    return np.array(json.loads(done.stdout))


def digits(folder: Path, scratch: Path) -> Path:
    """The real set, or as many simulated samples in as many views."""
    path = folder / f"{DIGITS}.npz"
    if path.is_file():
        return path
    from viewloom.data.simulated import blobs_views

    views, y = blobs_views(2000, 6, 10, n_features=100, separation=6.0, random_state=0)
    path = scratch / "simulated digits.npz"
    np.savez(path, y=y, **{f"view{a}": X for a, X in enumerate(views.blocks)})
    return path


def measure_import(folder: Path) -> Iterator[Row]:
    """Importing the library against importing what it cannot do without."""
    ours, needed = "viewloom", "sklearn.cluster, pandas"
    found = [(import_seconds(ours), import_seconds(needed)) for _ in range(7)]
    mine, theirs = (1e3 * min(values) for values in zip(*found, strict=True))
    yield Row("import", f"import {ours}", mine, theirs, "ms", mine / theirs, 1.3)


def import_seconds(modules: str) -> float:
    """Seconds that importing takes in a new interpreter."""
    code = f"import time; t = time.perf_counter(); import {modules}; print(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


def measure_start(folder: Path) -> Iterator[Row]:
    """CPU time of the command line before it computes anything."""
    for option in ("--version", "--help"):
        mine = min(cpu_seconds_of_command(sys.executable, "-m", "viewloom", option) for _ in range(7))
        yield Row("start", f"viewloom {option}", mine, START, "s", mine / START, 1.0)


def cpu_seconds_of_command(*command: str) -> float:
    """CPU seconds of a command in a process of its own, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure_memory(folder: Path) -> Iterator[Row]:
    """Peak memory of a fit against the bytes of its kernels."""
    from viewloom import KernelMultiviewNMF
    from viewloom.data import simulated as simulate

    n = 4000
    for graph in ("knn", "gaussian"):
        views, _ = simulate.blobs_views(n, 3, 5, n_features=20, random_state=0)
        model = KernelMultiviewNMF(5, kernel="gaussian", graph=graph, random_state=0)
        model.fit(views[:200])  # what is loaded when first used is not the fit's
        before = reset_peak()
        model.fit(views)
        used, kernels = (size / 2**20 for size in (peak_bytes() - before, 3 * 8 * n**2))
        yield Row("memory", f"graph={graph!r}", used, kernels, "MiB", used / kernels, 1.5)
        del model


THREAD_PROBLEMS: dict[str, dict[str, Any]] = {  # samples, views, clusters, and what is not the default
    "200 x 3, k = 2": {"n": 200, "v": 3, "k": 2},
    "694 x 12, k = 27": {"n": 694, "v": 12, "k": 27},
    "2000 x 3, k = 100": {"n": 2000, "v": 3, "k": 100},
    "5000 x 1, k = 10, Gaussian": {"n": 5000, "v": 1, "k": 10, "kernel": "gaussian"},
    "20000 x 2, k = 10": {"n": 20_000, "v": 2, "k": 10},
}
FIT = """
import json, sys, time, warnings
import viewloom as vl
from viewloom.runtime import threads
warnings.simplefilter("ignore")
given = json.loads(sys.argv[1])
if given.pop("unlimited"):
    threads._LIBRARIES.of = lambda api: []
n, v, k = (given.pop(name) for name in "nvk")
views, _ = vl.simulate.blobs_views(n, v, k, n_features=20, separation=3.0, random_state=0)
vl.KernelMultiviewNMF(2, random_state=0).fit(views[:40])
began = time.perf_counter()
vl.KernelMultiviewNMF(k, random_state=0, factored=False, **given).fit(views)
print(time.perf_counter() - began)
"""


def measure_threads(folder: Path) -> Iterator[Row]:
    """Default threads against the better of one and all; the three take turns."""
    for busy in (False, True):
        with busy_process() if busy else nullcontext():
            for what, problem in THREAD_PROBLEMS.items():
                row = threads_row(f"{what}{', beside a busy process' if busy else ''}", problem)
                print(f"{row.what}: {row.ours:.2f} s, ratio {row.ratio:.2f}", file=sys.stderr, flush=True)
                yield row


def threads_row(what: str, problem: dict[str, Any]) -> Row:
    """The best of three turns by default, with one thread, and with all."""
    found: dict[int | None, float] = dict.fromkeys((None, 1, os.cpu_count() or 1), float("inf"))
    for _ in range(3):
        for threads in found:
            fastest = min(min(found.values()), LONGEST_FIT * 10)
            found[threads] = min(
                found[threads], fit_seconds(problem, threads, LONGEST_FIT + SLOWEST * fastest)
            )
    default, *others = found.values()
    shown = [f"{seconds:.2f} s" if np.isfinite(seconds) else "ended" for seconds in others]
    note = f"{what} (one thread {shown[0]}, all {shown[-1]})"
    return Row("threads", note, default, min(others), "s", default / min(others), 1.15)


def fit_seconds(problem: dict[str, Any], threads: int | None, patience: float) -> float:
    """Seconds that a fit takes with so many threads, without a limit of ours, or by default (None).

    Infinite if it does not end in time.
    """
    environment = {name: value for name, value in os.environ.items() if name not in BLAS_THREADS}
    if threads is not None:
        environment.update(dict.fromkeys(BLAS_THREADS, str(threads)))
    given = json.dumps({**problem, "unlimited": threads is not None})
    command = [sys.executable, "-c", FIT, given]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return float("inf")
    return float(done.stdout)


@contextmanager
def busy_process() -> Iterator[None]:
    """Another process that keeps one core busy."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measure_importance(folder: Path) -> Iterator[Row]:
    """Importance of many features against a minute, and of some against the plain computation."""
    from viewloom import KernelMultiviewNMF
    from viewloom.models.fitted import ExactModel

    def model_of(d: int) -> Any:
        rng, y = np.random.default_rng(0), np.arange(400) % 3
        views = [0.1 * rng.standard_normal((3, c))[y] + rng.standard_normal((400, c)) for c in (d, 50, 20)]
        return KernelMultiviewNMF(3, random_state=0).fit(views)

    few, many = model_of(500), model_of(20_000)
    mine = cpu_seconds_of(lambda: few.feature_importance(0))
    updates, ExactModel._column_updates = ExactModel._column_updates, lambda self, view: None
    plain = cpu_seconds_of(lambda: few.feature_importance(0))
    ExactModel._column_updates = updates
    yield Row("importance", "500 features, placed anew", mine, plain, "s CPU", mine / plain)
    mine = cpu_seconds_of(lambda: many.feature_importance(0))
    yield Row("importance", "20 000 features", mine, 60.0, "s CPU", mine / 60.0, 1.0)


def measure_reading(folder: Path) -> Iterator[Row]:
    """Files of a study against the bare libraries that read them."""
    import table_files
    from bed_reader import open_bed, to_bed

    from viewloom.study.readers.plink import read_bed
    from viewloom.study.readers.tables import read_table

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as scratch:
        table, genotypes = Path(scratch, "table.csv"), Path(scratch, "genotypes.bed")
        frame = pd.DataFrame(rng.normal(size=(345, 3000)), index=[f"s{i:03d}" for i in range(345)])
        frame.rename_axis("id").to_csv(table, float_format="%.6f")
        names = {"iid": list(frame.index), "sid": [f"rs{j}" for j in range(20_000)]}
        to_bed(genotypes, rng.integers(3, size=(345, 20_000)).astype(float), properties=names)
        pairs = {
            "table": (lambda: read_table(table, id="id", missing_codes=[-4]), lambda: pd.read_csv(table)),
            "genotypes": (lambda: read_bed(genotypes), lambda: open_bed(genotypes).read()),
        }
        for what, (ours, bare) in pairs.items():
            yield reading(what, ours, bare, 2.0 if what == "genotypes" else NO_TARGET)
        for what, ours, bare in table_files.pairs(Path(scratch)):
            yield reading(what, ours, bare, 2.0, clock=cpu_seconds_of_all)
        yield from genotype_rows(Path(scratch))


def genotype_rows(folder: Path) -> Iterator[Row]:
    """Other files of genotypes, where their libraries are installed."""
    try:
        import cbgen  # noqa: F401
        import cyvcf2  # noqa: F401
        from simulated_genotypes import pairs
    except ImportError:
        return
    for what, ours, bare in pairs(folder, 5000, 2000):
        yield reading(what, ours, bare, 2.0)


def reading(
    what: str,
    ours: Callable[[], Any],
    bare: Callable[[], Any],
    target: float = NO_TARGET,
    clock: Callable[[Callable[[], Any]], float] | None = None,
) -> Row:
    """The best of several turns, in seconds or by another clock."""
    clock = clock or seconds_of
    turns = [(clock(ours), clock(bare)) for _ in range(5)]
    mine, theirs = (1e3 * min(values) for values in zip(*turns, strict=True))
    return Row("reading", what, mine, theirs, "ms", mine / theirs, target)


def measure_genotypes(folder: Path) -> Iterator[Row]:
    """Time and peak memory of 5000 x 500 000 calls, filtered and pruned, against a bare pass."""
    from simulated_genotypes import pass_over, pass_over_bed, write_bed, write_pgen

    from viewloom.study.readers.genetics import read_pgen
    from viewloom.study.readers.plink import read_bed

    n, d, rng = 5000, 500_000, np.random.default_rng(0)
    ids = [f"s{i:05d}" for i in range(n)]
    common = (rng.random((1000, n)) < 0.3).astype(np.int8) + (rng.random((1000, n)) < 0.3)
    rare = (rng.random((1000, n)) < 0.002).astype(np.int8)
    files: list[tuple[str, Callable[..., None], Callable[..., Any], Callable[..., Any]]] = [
        ("bed", write_bed, read_bed, pass_over_bed),
        ("pgen", write_pgen, read_pgen, pass_over),
    ]
    for ext, write, read, bare_pass in files:
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch, f"calls.{ext}")
            write(path, ids, ((common if j % 20 == 0 else rare) for j in range(d // 1000)), d)
            bare = min(cpu_seconds_of(lambda: bare_pass(path, n, d)) for _ in range(TURNS))  # noqa: B023
            yield from _filtered(ext, lambda **options: read(path, **options), n, bare)  # noqa: B023


def _filtered(ext: str, read: Callable[..., pd.DataFrame], n: int, bare: float) -> Iterator[Row]:
    """CPU seconds, the best of several turns, and peak memory with filters, and with pruning."""
    for what, options in {
        "min_maf": {"min_maf": 0.01},
        "min_maf, ld_prune": {"min_maf": 0.01, "ld_prune": {"window": 50, "step": 5, "r2": 0.2}},
    }.items():
        before, kept = reset_peak(), [0]
        turns = (cpu_seconds_of(lambda: kept.append(read(**options).shape[1])) for _ in range(TURNS))  # noqa: B023
        ours = min(turns)
        used = (peak_bytes() - before) / 2**20
        yield Row("genotypes", f".{ext}, {what}", ours, bare, "s CPU", ours / bare, 2.0)
        bound = (5 * n * kept[-1] + 100 * 2**20) / 2**20
        yield Row("genotypes", f".{ext}, {what}: {kept[-1]} kept", used, bound, "MiB", used / bound, 1.5)


def measure_codes(folder: Path) -> Iterator[Row]:
    """Time and peak memory of reading codes of 100 000 subjects (10 000 codes, 2 million rows)."""
    from viewloom.study.readers.codes import read_codes

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "codes.csv")
        rows = pd.DataFrame(
            {"eid": np.repeat(np.arange(100_000), 20), "code": rng.integers(10_000, size=2_000_000)}
        )
        rows.assign(code="C" + rows["code"].astype(str)).to_csv(path, index=False)
        bare = min(cpu_seconds_of(lambda: pd.read_csv(path, dtype=str)) for _ in range(TURNS))
        before = reset_peak()
        ours = min(cpu_seconds_of(lambda: read_codes(path, id="eid", code="code")) for _ in range(TURNS))
        used = (peak_bytes() - before) / 2**20
        yield Row("codes", "100 000 x 10 000", ours, bare, "s CPU", ours / bare, 2.0)
        dense = 4e9 / 2**20  # in single precision
        yield Row("codes", "memory against a dense table", used, dense, "MiB", used / dense, NO_TARGET)


MEASURES: dict[str, Callable[[Path], Iterator[Row]]] = {
    "iteration": measure_iteration,
    "convergence": measure_convergence,
    "digits": measure_digits,
    "spectral": measure_spectral,
    "versions": measure_versions,
    "import": measure_import,
    "start": measure_start,
    "memory": measure_memory,
    "threads": measure_threads,
    "importance": measure_importance,
    "codes": measure_codes,
    "reading": measure_reading,
    "genotypes": measure_genotypes,
}


def seconds_of(work: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def cpu_seconds_of(work: Callable[[], Any]) -> float:
    """CPU seconds that a call takes, which another busy process hardly changes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def cpu_seconds_of_all(work: Callable[[], Any]) -> float:
    """CPU seconds of a call, with those of the processes that it starts."""

    def now() -> float:
        own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime

    began = now()
    work()
    return now() - began


def peak_bytes() -> int:
    """Most memory that this process has held at a time since it began or `reset_peak` (Linux)."""
    return _status("VmHWM")


def reset_peak() -> int:
    """Forget the peak so far; the memory held now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


def in_new_process(script: str, *arguments: str, threads: int | None = None) -> Any:
    """What a script prints as JSON on its last line, run with so many BLAS threads."""
    environment = {name: value for name, value in os.environ.items() if name not in BLAS_THREADS}
    if threads is not None:
        environment.update(dict.fromkeys(BLAS_THREADS, str(threads)))
    done = subprocess.run(
        [sys.executable, script, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{Path(script).name} {' '.join(arguments)} ended with {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def write_json(path: Path, content: Any) -> None:
    """Written whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1))
    partial.replace(path)


def listed(text: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Options of the command line."""
    from sets import default_folder

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=default_folder(), help="folder of .npz files")
    parser.add_argument("--only", type=listed, default=list(MEASURES), help="measurements; all by default")
    parser.add_argument("--threads", type=listed, default=["1", "2"], help="numbers of BLAS threads")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--measure", choices=list(MEASURES), help=argparse.SUPPRESS)  # in the new process
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; 2 where an unknown measurement is asked for."""
    options = parse(argv)
    if options.measure:
        warnings.simplefilter("ignore")
        print(json.dumps([asdict(row) for row in MEASURES[options.measure](options.data)]))
        return 0
    if unknown := sorted(set(options.only) - set(MEASURES)):
        print(f"No measurement is called {', '.join(unknown)}. There are: {', '.join(MEASURES)}.")
        return 2
    frame = measured(options)
    import tables

    tables.show(tables.make_console(), "Ours against what it is measured by", shown(frame))
    if options.json:
        write_json(options.json, json.loads(frame.to_json(orient="records")))
    return 0


def measured(options: argparse.Namespace) -> pd.DataFrame:
    """One row per comparison and number of threads."""
    records = []
    for name in options.only:
        for threads in [1] if name == "threads" else map(int, options.threads):  # which sets its own
            print(f"{name}, {threads} BLAS threads", file=sys.stderr)
            arguments = ("--measure", name, "--data", str(options.data))
            for row in in_new_process(__file__, *arguments, threads=threads):
                records.append({"threads": threads, **row, "reached": Row(**row).reached})
    return pd.DataFrame(records)


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns of the table."""
    bound = np.where(frame["more_is_better"], ">= ", "<= ") + frame["target"].map("{:g}".format)
    return frame.assign(target=np.where(frame["target"].isna(), "-", bound))[
        ["measure", "what", "threads", "ours", "against", "unit", "ratio", "target", "reached"]
    ]


if __name__ == "__main__":
    sys.exit(main())
