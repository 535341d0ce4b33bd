"""Files of earlier releases are read by this one, and mean what they meant.

``tests/compatibility`` holds models saved by releases, new samples, and where the release put them.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import viewloom as vl

FOLDER = Path(__file__).parent / "compatibility"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.safetensors")), ids=lambda path: path.stem)
def test_models_of_earlier_releases_place_new_samples_where_they_did(path):
    expected = json.loads((FOLDER / f"expected-{path.stem.rpartition('-')[2]}.json").read_text())
    new = {name: np.array(X) for name, X in expected["new"].items()}
    model = vl.load(path)
    np.testing.assert_allclose(model.transform(new), expected[path.stem], atol=1e-6)


def test_there_are_files_of_a_release():
    assert len(list(FOLDER.glob("*.safetensors"))) >= 2


def test_citation_names_this_version():
    assert f"version: {vl.__version__}\n" in (Path(__file__).parents[1] / "CITATION.cff").read_text()
