"""Methods by name and by group, with those of a file of variants."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path

from methods import ABLATION, DEFAULT, OURS, PAPER, SINGLE_VIEWS, STEPS, Method
from peers import QUICK_PEERS, SLOW_PEERS

GROUPS: dict[str, list[Method]] = {
    "ours": OURS,
    "quick peers": QUICK_PEERS,
    "slow peers": SLOW_PEERS,
    "peers": [*QUICK_PEERS, *SLOW_PEERS],
    "paper": PAPER,
    "paper steps": STEPS,
    "all": [*OURS, *QUICK_PEERS, *SLOW_PEERS, *PAPER],
}
STANDARD = [*OURS[:2], *QUICK_PEERS]  # without the Gaussian kernel

# Regret is measured against the best of these on each set.
REFERENCES = [
    DEFAULT,
    "viewloom linear",
    "k-means (concatenated)",
    "spectral (mean graph)",
    "NEMO",
    "SNF",
]


@lru_cache
def variants_of(path: Path | None) -> tuple[Method, ...]:
    """`METHODS` of a Python file, none where there is no file."""
    if path is None:
        return ()
    spec = importlib.util.spec_from_file_location("variants", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return tuple(module.METHODS)


@lru_cache
def methods_by_name(variants: Path | None) -> dict[str, Method]:
    """All methods that a task may name."""
    known = [*GROUPS["all"], *STEPS, *ABLATION, SINGLE_VIEWS, *variants_of(variants)]
    return {method.name: method for method in reversed(known)}


def method_named(name: str, variants: Path | None = None) -> Method:
    """A method by its name."""
    return methods_by_name(variants)[name]


def chosen(names: list[str] | None, ablation: bool, variants: Path | None) -> list[Method]:
    """Methods by name or group, in the order of the registries; variants of a file always."""
    known = ABLATION if ablation else list({m.name: m for m in [*GROUPS["all"], *STEPS]}.values())
    standard = ABLATION if ablation else STANDARD
    further = list(variants_of(variants))
    wanted = {method.name for method in standard} if names is None else _expanded(names)
    if unknown := sorted(wanted - {method.name for method in [*known, *further]}):
        there = ", ".join([*GROUPS, *(method.name for method in known)])
        raise ValueError(f"No method is called {', '.join(unknown)}. There are: {there}.")
    return [*(method for method in known if method.name in wanted), *further]


def _expanded(names: list[str]) -> set[str]:
    return {method.name for name in names for method in GROUPS.get(name, ())} | set(names) - set(GROUPS)
