"""A model file gives back the model, carries no code, and says when it is damaged."""

import json
import pickle
import zipfile

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import viewloom as vl
from viewloom.kernels.diffusion import Diffusion
from viewloom.kernels.nystroem import Nystroem
from viewloom.kernels.pairwise import Gaussian, PairwiseKernel
from viewloom.models import persistence
from viewloom.models.persistence import DamagedFile

KERNELS = ["diffusion", "gaussian", "linear", "polynomial", "cosine", Nystroem("gaussian", rank=20)]


def cohort(n=90, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    views = {f"v{d}": rng.standard_normal((3, d))[y] * 2 + rng.standard_normal((n, d)) for d in (4, 7)}
    counts = rng.poisson(rng.gamma(0.3, 1.0, (3, 150))[y])
    return {**views, "counts": counts.astype(float)}


def halves(views):
    return {k: X[:60] for k, X in views.items()}, {k: X[60:] for k, X in views.items()}


@pytest.fixture
def saved(tmp_path):
    train, _ = halves(cohort())
    path = tmp_path / "model.safetensors"
    vl.KernelMultiviewNMF(3, random_state=0).fit(train).save(path)
    return path


class TestRoundTrip:
    @pytest.mark.parametrize("kernel", KERNELS, ids=str)
    @pytest.mark.parametrize("graph", ["knn", "gaussian", None])
    def test_everything_is_the_same_to_the_bit(self, tmp_path, kernel, graph):
        train, new = halves(cohort())
        model = vl.KernelMultiviewNMF(3, kernel=kernel, graph=graph, random_state=0).fit(train)
        model.save(tmp_path / "m.safetensors")
        loaded = vl.load(tmp_path / "m.safetensors")
        np.testing.assert_array_equal(loaded.transform(new), model.transform(new))
        np.testing.assert_array_equal(loaded.predict({"v4": new["v4"]}), model.predict({"v4": new["v4"]}))
        assert loaded.score(new) == model.score(new)
        assert repr(loaded) == repr(model)
        np.testing.assert_array_equal(loaded.labels_, model.labels_)
        assert loaded.history_["objective"] == model.history_["objective"]
        np.testing.assert_array_equal(
            loaded.feature_importance("v4").to_numpy(), model.feature_importance("v4").to_numpy()
        )

    def test_absent_views_precomputed_kernels_and_settings_per_view(self, tmp_path):
        train, new = halves(cohort())
        train["v7"][::4] = np.nan
        K = train["v4"] @ train["v4"].T
        views = {"gram": K, "v7": train["v7"]}
        kernel = {"gram": "precomputed", "v7": Gaussian(2.0)}
        model = vl.KernelMultiviewNMF(3, kernel=kernel, lam=[1.0, 2.0], random_state=0).fit(views)
        model.save(tmp_path / "m.safetensors")
        samples = {"gram": new["v4"] @ train["v4"].T, "v7": new["v7"]}
        np.testing.assert_array_equal(
            vl.load(tmp_path / "m.safetensors").transform(samples), model.transform(samples)
        )

    def test_what_travels_with_a_model(self, tmp_path):
        train, _ = halves(cohort())
        model = vl.KernelMultiviewNMF(3, random_state=0).fit(train)
        path = tmp_path / "m.safetensors"
        persistence.save(model, path, extra={"site": "a"}, arrays={"median": np.arange(3.0)})
        _, extra, arrays = persistence.load_with(path)
        assert extra == {"site": "a"}
        np.testing.assert_array_equal(arrays["median"], np.arange(3.0))

    def test_the_same_model_gives_the_same_bytes(self, saved, tmp_path):
        vl.load(saved).save(tmp_path / "again.safetensors")
        assert (tmp_path / "again.safetensors").read_bytes() == saved.read_bytes()


class TestPrivacy:
    def test_the_header_says_what_is_held(self, saved):
        assert b'\\"holds\\":\\"training rows\\"' in saved.read_bytes()

    def test_landmarks_only(self, tmp_path):
        train = {k: X for k, X in cohort(900).items() if k != "counts"}
        model = vl.KernelMultiviewNMF(3, factored=100, random_state=0).fit(train)
        path = tmp_path / "m.safetensors"
        model.save(path, store="landmarks")
        loaded = vl.load(path)
        assert not hasattr(loaded, "labels_")
        np.testing.assert_array_equal(loaded.predict(train), model.predict(train))
        scaled = model.fitted_model_.scaled(model.aligned(train)).scaled.values()
        for stored in load_file(path).values():
            assert 900 not in stored.shape
            for X in scaled:
                if stored.ndim == 2 and stored.shape[1] == X.shape[1]:
                    nearest = np.linalg.norm(stored[:, None] - X[None], axis=2).min(axis=1)
                    assert np.quantile(nearest, 0.01) > 1e-6

    def test_exact_models_cannot_be_stored_without_rows(self, saved, tmp_path):
        with pytest.raises(ValueError, match="factored"):
            vl.load(saved).save(tmp_path / "n.safetensors", store="landmarks")
        assert not (tmp_path / "n.safetensors").exists()


class TestRefusals:
    def test_functions_are_code(self, tmp_path):
        train, _ = halves(cohort())
        model = vl.KernelMultiviewNMF(3, kernel=lambda X, Y: X @ Y.T, random_state=0).fit(train)
        with pytest.raises(TypeError, match="functions are code"):
            model.save(tmp_path / "m.safetensors")
        assert list(tmp_path.iterdir()) == []

    def test_unfitted(self, tmp_path):
        with pytest.raises(ValueError, match="not fitted"):
            vl.KernelMultiviewNMF(3).save(tmp_path / "m.safetensors")

    def test_no_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"nothing\.safetensors"):
            vl.load(tmp_path / "nothing.safetensors")

    @pytest.mark.parametrize("disguise", ["pickle", "zip", "text", "empty", "long header", "foreign"])
    def test_other_files(self, tmp_path, disguise):
        path = tmp_path / "m.safetensors"
        if disguise == "pickle":
            path.write_bytes(pickle.dumps({"a": 1}))
        elif disguise == "zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("model", "x")
        elif disguise == "long header":
            path.write_bytes((2**62).to_bytes(8, "little") + b"{}")
        elif disguise == "foreign":
            save_file({"w": np.eye(2)}, path)
        else:
            path.write_text("" if disguise == "empty" else "model")
        with pytest.raises(DamagedFile):
            vl.load(path)

    @pytest.mark.parametrize("seed", range(40))
    def test_flipped_bits_and_cut_files(self, saved, seed):
        rng = np.random.default_rng(seed)
        content = bytearray(saved.read_bytes())
        if seed % 4 == 0:
            content = content[: int(rng.integers(len(content)))]
        else:
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        saved.write_bytes(content)
        with pytest.raises(DamagedFile):
            vl.load(saved)

    def test_later_versions_say_so(self, saved):
        rewrite(saved, version="3")
        with pytest.raises(DamagedFile, match="later version of viewloom"):
            vl.load(saved)

    @pytest.mark.parametrize(
        "structure",
        [
            {"tag": "Popen", "version": 1, "state": {"args": "ls"}},
            {"tag": ["list"], "version": 1, "state": {}},
            {"tag": "estimator.kernel_multiview_nmf", "version": 1, "state": {"__class__": "x"}},
            {"tag": "estimator.kernel_multiview_nmf", "version": 2, "state": {}},
            {"tag": "kernel.gaussian", "version": 1, "state": {"sigma": 1, "__class__": "x"}},
            {"tag": "kernel.gaussian", "version": 1, "state": {"sigma": {"tensor": "999"}}},
            {"tag": "kernel.gaussian", "version": 1, "state": {"sigma": 1}, "more": 1},
            {"tag": "kernel.gaussian", "version": 1, "state": {"sigma": 1}},
            {"is": "KernelMultiviewNMF"},
            {
                "sparse": [2, 2],
                "data": {"tensor": "0"},
                "indices": {"tensor": "0"},
                "indptr": {"tensor": "0"},
            },
            {"what": 1},
            {"number": "1e5x"},
        ],
    )
    def test_structures_that_no_model_has(self, saved, structure):
        rewrite(saved, model=json.dumps(structure))
        with pytest.raises(DamagedFile):
            vl.load(saved)

    def test_nesting_without_end(self, saved):
        rewrite(saved, model="[" * 500 + "]" * 500)
        with pytest.raises(DamagedFile):
            vl.load(saved)


def rewrite(path, **changes):
    """Change metadata and mend the digest, as somebody would who means harm."""
    metadata, arrays = persistence._read(path)
    metadata.update(changes)
    metadata["digest"] = persistence._digest(metadata, arrays)
    save_file(arrays, path, {persistence.KEY: json.dumps(metadata)})


class Laplace(PairwiseKernel, tag="kernel.test.laplace", version=2):
    """A kernel of a user, which once had another parameter."""

    def __init__(self, width=1.0):
        self.width = width

    def matrix(self, samples):
        return np.exp(-np.sqrt(samples.squared_distances) / self.width)

    def diagonal(self, samples):
        return np.ones(samples.size)

    @classmethod
    def upgraded(cls, state, version):
        return {"width": 1.0 / state["rate"]}


class Untagged(Laplace):
    """It has no tag of its own."""


class TestKernelsOfUsers:
    def test_are_stored_by_their_parameters(self, tmp_path):
        train, new = halves(cohort())
        model = vl.KernelMultiviewNMF(3, kernel=Laplace(3.0), random_state=0).fit(train)
        model.save(tmp_path / "m.safetensors")
        loaded = vl.load(tmp_path / "m.safetensors")
        assert loaded.kernel.get_params() == {"width": 3.0}
        np.testing.assert_array_equal(loaded.transform(new), model.transform(new))

    def test_read_what_earlier_versions_wrote(self, tmp_path):
        train, new = halves(cohort())
        model = vl.KernelMultiviewNMF(3, kernel=Laplace(4.0), random_state=0).fit(train)
        path = tmp_path / "m.safetensors"
        model.save(path)
        text = persistence._read(path)[0]["model"]
        width = '"version":2,"state":{"width":{"number":"0x1.0000000000000p+2"}}'
        rate = '"version":1,"state":{"rate":{"number":"0x1.0000000000000p-2"}}'
        assert width in text
        rewrite(path, model=text.replace(width, rate))
        np.testing.assert_array_equal(vl.load(path).transform(new), model.transform(new))

    def test_need_a_tag_of_their_own(self, tmp_path):
        train, _ = halves(cohort())
        model = vl.KernelMultiviewNMF(3, kernel=Untagged(), random_state=0).fit(train)
        with pytest.raises(TypeError, match="holds a Untagged cannot be saved"):
            model.save(tmp_path / "m.safetensors")

    def test_two_classes_cannot_share_a_tag(self):
        with pytest.raises(
            TypeError, match=r"'kernel\.gaussian' belongs to viewloom\.kernels\.pairwise\.Gaussian"
        ):
            type("Other", (PairwiseKernel,), {}, tag="kernel.gaussian")


def test_kernel_objects_come_back_as_they_were(tmp_path):
    train, _ = halves(cohort())
    model = vl.KernelMultiviewNMF(3, kernel=Diffusion(time=3.5, rank=9), random_state=0).fit(train)
    model.save(tmp_path / "m.safetensors")
    assert vl.load(tmp_path / "m.safetensors").kernel.get_params() == Diffusion(time=3.5, rank=9).get_params()
