"""Files of earlier releases are read by this one, and mean what they meant.

``tests/models/compatibility`` holds models saved by releases, new samples, and where the release put them.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

import viewloom as vl
from viewloom.models import persistence
from viewloom.runtime.stored import REGISTRY

FOLDER = Path(__file__).parent / "compatibility"


FILES = sorted(FOLDER.glob("*.safetensors"))
EXPECTED = {
    version: json.loads((FOLDER / f"expected-{version}.json").read_text()) for version in ("0.1.0", "0.2.0")
}


def told(path):
    """New samples, and what the release that wrote a file said of them."""
    expected = EXPECTED[path.stem.rpartition("-")[2]]
    details = expected.get("details", {}).get(path.stem, {})
    if "new" in details:  # a model of views of its own
        return {path.stem.partition("-")[0]: np.array(details["new"], dtype=float)}, details["transform"], {}
    return {name: np.array(X) for name, X in expected["new"].items()}, expected[path.stem], details


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
class TestModelsOfEarlierReleases:
    def test_place_new_samples_where_they_did(self, path):
        new, expected, _ = told(path)
        np.testing.assert_allclose(vl.load(path).transform(new), expected, atol=1e-6)

    def test_say_what_they_said(self, path):
        new, _, details = told(path)
        if not details:
            pytest.skip("only memberships were kept of this file")
        model, last = vl.load(path), list(new)[-1]
        np.testing.assert_allclose(model.transform({last: new[last]}), details["absent"], atol=1e-6)
        assert model.score(new) == pytest.approx(details["score"], abs=1e-6)
        np.testing.assert_array_equal(model.view_weights_, details["weights"])
        # parameters that differ from today's defaults are shown; the default of theta was 0.1
        assert repr(model).replace(", theta=0.1", "") == details["repr"]
        assert hasattr(model, "labels_") == (details["labels"] is not None)
        if details["labels"] is not None:
            np.testing.assert_array_equal(model.labels_, details["labels"])
        importance = model.feature_importance(next(iter(new)))["importance"]
        np.testing.assert_allclose(importance, details["importance"], atol=1e-6)

    def test_are_saved_in_the_format_of_today(self, path, tmp_path):
        new, _, _ = told(path)
        model = vl.load(path)
        store = "auto" if hasattr(model, "labels_") else "landmarks"
        model.save(tmp_path / "again.safetensors", store=store)
        again = vl.load(tmp_path / "again.safetensors")
        np.testing.assert_array_equal(again.transform(new), model.transform(new))
        assert again.score(new) == model.score(new)
        assert format_of(path) == "1"
        assert format_of(tmp_path / "again.safetensors") == str(persistence.VERSION)


def metadata(path):
    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()[persistence.KEY])


def format_of(path):
    return metadata(path)["version"]


def test_names_of_classes_are_no_part_of_the_format(tmp_path):
    views, _ = vl.simulate.blobs_views(30, n_views=2, random_state=0)
    vl.KernelMultiviewNMF(3, random_state=0).fit(views).save(tmp_path / "m.safetensors")
    words = set(re.findall(r"\w+", metadata(tmp_path / "m.safetensors")["model"]))
    assert "kernel" in words
    assert not words & {cls.__name__ for cls in REGISTRY.values()}


def test_there_are_files_of_a_release():
    assert len(list(FOLDER.glob("*.safetensors"))) >= 2


def test_citation_names_this_version():
    assert f"version: {vl.__version__}\n" in (Path(__file__).parents[2] / "CITATION.cff").read_text()
