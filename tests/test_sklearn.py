"""scikit-learn's own checks, and its tools on Views."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from viewloom import KernelMultiviewNMF, PerView, Views

MODELS = [
    KernelMultiviewNMF(n_clusters=3, random_state=0),
    KernelMultiviewNMF(n_clusters=3, kernel="gaussian", random_state=0),
    KernelMultiviewNMF(n_clusters=3, kernel="linear", theta=0.0, random_state=0),
]


@parametrize_with_checks(MODELS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
