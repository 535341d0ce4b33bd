"""Conversion of model files of format 1, written by viewloom 0.1.0 and 0.2.0, to format 2.

In format 1 an object is ``{"is": class, field: value, ...}``, with the names that classes and their
attributes had then. This module depends only on the tags of current classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viewloom.runtime.errors import InputError

Json = dict[str, Any]
DEEPEST = 40
TAGS = {
    "Problem": "problem",
    "FittedView": "view",
    "Columns": "scaler.columns",
    "CentredGram": "scaler.gram",
    "UnitRows": "scaler.unit",
    "StandardScaler": "scaler.standard",
    "Geometry": "geometry",
    "GramGeometry": "geometry.gram",
    "FittedKNN": "graph.knn.fitted",
    "FittedGaussianGraph": "graph.gaussian.fitted",
    "FittedLinear": "kernel.linear.fitted",
    "FittedPairwise": "kernel.pairwise.fitted",
    "FittedDiffusion": "kernel.diffusion.fitted",
    "FittedNystroem": "kernel.nystroem.fitted",
    "Linear": "kernel.linear",
    "Cosine": "kernel.cosine",
    "Polynomial": "kernel.polynomial",
    "Gaussian": "kernel.gaussian",
    "Diffusion": "kernel.diffusion",
    "Precomputed": "kernel.precomputed",
    "Nystroem": "kernel.nystroem",
    "KNN": "graph.knn",
    "GaussianGraph": "graph.gaussian",
    "Factored": "factor",
    "Walk": "walk",
    "Weft": "shared_graph",
    "Standing": "reliability",
    "Fusion": "fusion",
    "Part": "fusion.part",
    "ViewMessage": "codebook",
    "LargeProblem": "landmarks of format 1",  # part of a model, not a model by itself
    "KernelMultiviewNMF": "estimator.kernel_multiview_nmf",
}
RESULTS = (
    *("labels_", "memberships_", "view_memberships_", "n_features_in_", "feature_names_in_"),
    *("history_", "objective_", "n_iter_", "converged_"),
)
OF_THE_MODEL = ("view_names_", "view_features_", "view_weights_", "_problem", "_message", "_range_per_sample")


def upgraded(value: Any, depth: int = 0) -> Any:
    """Convert a structure of format 1 to format 2; raise ValueError or KeyError if it is invalid."""
    if depth > DEEPEST:
        raise InputError("nested too deeply")
    if isinstance(value, list):
        return [upgraded(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if "tag" in value:
        raise InputError("format 1 has no tags")
    if "is" not in value:
        return {key: upgraded(inner, depth + 1) for key, inner in value.items()}
    name = value["is"]
    state = {key: upgraded(inner, depth + 1) for key, inner in value.items() if key != "is"}
    return _tagged(TAGS[name], CHANGED.get(name, dict)(state))


def _tagged(tag: str, state: Json) -> Json:
    return {"tag": tag, "version": 1, "state": state}


def _geometry(state: Json) -> Json:
    return {**_without(state, "_neighbours"), "neighbours": state.get("_neighbours")}


def _diffusion(state: Json) -> Json:
    """Move the factor, which was stored next to the walk, into the walk."""
    walk = state["walk"]
    walk = _tagged(walk["tag"], {**walk["state"], "Z": state["operator"]["state"]["Z"]})
    return {**_without(state, "operator"), "walk": walk}


def _nystroem(state: Json) -> Json:
    factoring = _tagged("kernel.nystroem.factoring", _without(state, "operator"))
    return {"factoring": factoring, "operator": state["operator"]}


def _precomputed(state: Json) -> Json:
    return {**_without(state, "gram_"), "gram": state.get("gram_")}


def _problem(state: Json) -> Json:
    return {**_without(state, "weft"), "shared_graph": state["weft"]}


def _shared_graph(state: Json) -> Json:
    """Drop the weights, which are those of the reliability."""
    return {**_without(state, "weights", "standing"), "reliability": state["standing"]}


def _estimator(state: Json) -> Json:
    """Split a state into parameters, results and a fitted model."""
    parameters = _without(state, *RESULTS, *OF_THE_MODEL)
    results = {name: state[name] for name in RESULTS if name in state}
    return {"parameters": _dict(parameters), "results": _dict(results), "model": _model(state)}


def _model(state: Json) -> Json:
    shared = {
        "names": state["view_names_"],
        "features": state["view_features_"],
        "codebooks": state["_message"],
        "weights": state["view_weights_"],
        "loss_range": state["_range_per_sample"],
        "membership": state["membership"],
        "sharpness": state["sharpness"],
    }
    problem = state["_problem"]
    if problem["tag"] != TAGS["LargeProblem"]:
        return _tagged("model.exact", {**shared, "problem": problem})
    ties, landmarks = _without(problem["state"], "landmarks"), problem["state"]["landmarks"]
    return _tagged("model.landmarks", {**shared, **ties, "problem": landmarks})


def _dict(values: Json) -> Json:
    return {"dict": [[key, value] for key, value in values.items()]}


def _without(state: Json, *names: str) -> Json:
    return {key: value for key, value in state.items() if key not in names}


CHANGED: dict[str, Callable[[Json], Json]] = {
    "Geometry": _geometry,
    "GramGeometry": _geometry,
    "FittedDiffusion": _diffusion,
    "FittedNystroem": _nystroem,
    "Precomputed": _precomputed,
    "Problem": _problem,
    "Weft": _shared_graph,
    "KernelMultiviewNMF": _estimator,
}
