"""Agreement of each view with the consensus of the others."""

import numpy as np
import pytest

import viewloom as vl
from viewloom.evaluation import agreement
from viewloom.evaluation.agreement import view_agreement


def fitted(views, k=3, **settings):
    return vl.KernelMultiviewNMF(k, random_state=0, **settings).fit(views)


def clusters(n=150, noise=(1.0, 1.0, 3.0), seed=0):
    """Views of the same clusters with more and more noise, and one of nothing else."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    centres = 4.0 * np.eye(3)
    views = {f"noise {s:g} #{i}": centres[y] + s * rng.standard_normal((n, 3)) for i, s in enumerate(noise)}
    return {**views, "nothing": rng.standard_normal((n, 3))}


@pytest.mark.parametrize("kernel", ["diffusion", "linear", "gaussian"])
def test_views_are_ranked_by_what_they_share(kernel):
    views = clusters(noise=(1.0, 1.0, 1.0, 3.0))
    found = view_agreement(fitted(views, kernel=kernel), n_resamples=50)
    assert found["agreement"].iloc[:3].min() > 0.7
    assert found["agreement"].iloc[3] < found["agreement"].iloc[:3].min()
    assert found["agreement"].idxmin() == "nothing"
    assert found["agreement"].iloc[4] < 0.05
    assert ((found["lower"] <= found["agreement"]) & (found["agreement"] <= found["upper"])).all()
    assert found.index.name == "view"


def test_what_no_third_view_confirms_counts_less(monkeypatch):
    """Two readings of the same variation beside an independent view, which loses nothing."""
    rng = np.random.default_rng(0)
    y, own = np.arange(300) % 2, 2.0 * rng.standard_normal((300, 4))
    scans = {f"scan {i}": 2.0 * y[:, None] + own + rng.standard_normal((300, 4)) for i in range(2)}
    model = fitted({**scans, "blood": 2.0 * y[:, None] + 1.5 * rng.standard_normal((300, 4))}, k=2)
    found = view_agreement(model, n_resamples=1)["agreement"]
    monkeypatch.setattr(agreement, "dependence", lambda Z, *_: np.eye(len(Z)))
    plain = view_agreement(model, n_resamples=1)["agreement"]
    assert (found[list(scans)] < 0.75 * plain[list(scans)]).all()
    assert found["blood"] == pytest.approx(plain["blood"], rel=0.1)


def test_precise_views_stay_ahead_of_a_noisy_one():
    found = view_agreement(fitted(clusters(noise=(1.0, 1.0, 3.0))), n_resamples=1)["agreement"]
    assert found.iloc[:2].min() > found.iloc[2] > found.iloc[3]


def test_two_views_agree_as_much_with_each_other():
    views = clusters(noise=(1.0, 2.0))
    del views["nothing"]
    found = view_agreement(fitted(views), n_resamples=5)
    assert found["agreement"].iloc[0] == pytest.approx(found["agreement"].iloc[1])


def test_a_view_of_noise_has_no_agreement_in_most_samples():
    """The interval of a view of noise reaches to (nearly) zero."""
    lowest = [
        view_agreement(fitted(clusters(90, noise=(1.0, 1.0), seed=seed)), n_resamples=40).loc[
            "nothing", "lower"
        ]
        for seed in range(10)
    ]
    assert np.mean(np.array(lowest) < 0.01) >= 0.9


def test_intervals_narrow_with_the_number_of_samples():
    """By about the root: four times the samples, half the width."""
    widths = []
    for n in (90, 360):
        found = view_agreement(fitted(clusters(n, noise=(2.0, 2.0))), n_resamples=100)
        widths.append((found["upper"] - found["lower"]).iloc[:2].mean())
    assert 0.3 < widths[1] / widths[0] < 0.75


def test_missing_views_landmarks_and_loaded_models(tmp_path):
    views = clusters(noise=(1.0, 1.0))
    lacking = {name: X.copy() for name, X in views.items()}
    lacking["noise 1 #0"][:40] = np.nan
    model = fitted(lacking)
    found = view_agreement(model, n_resamples=20)
    assert found["agreement"].iloc[:2].min() > 0.8
    model.save(tmp_path / "model.safetensors")
    again = view_agreement(vl.load(tmp_path / "model.safetensors"), n_resamples=20)
    np.testing.assert_allclose(again, found, atol=1e-9)
    tied = view_agreement(fitted(views, factored=60), n_resamples=20)
    assert tied["agreement"].idxmin() == "nothing"


def test_one_view_agrees_with_none():
    found = view_agreement(fitted({"scans": clusters()["nothing"]}))
    assert found.isna().all(axis=None)
    assert found.shape == (1, 3)


def test_mistakes():
    model = fitted(clusters())
    with pytest.raises(TypeError, match="needs a KernelMultiviewNMF"):
        view_agreement(vl.MultiviewNMF())
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        view_agreement(model, level=95)
    with pytest.raises(ValueError, match="n_resamples must be at least 1"):
        view_agreement(model, n_resamples=0)
