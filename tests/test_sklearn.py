"""scikit-learn's own checks, and its tools on Views."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from viewloom import KernelMultiviewNMF

MODELS = [
    KernelMultiviewNMF(n_clusters=3, random_state=0),
    KernelMultiviewNMF(n_clusters=3, kernel="gaussian", random_state=0),
    KernelMultiviewNMF(n_clusters=3, kernel="linear", theta=0.0, random_state=0),
]


@parametrize_with_checks(MODELS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
