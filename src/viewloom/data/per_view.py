"""Scikit-learn transformers applied to every view separately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from viewloom.data.alignment import align, check_observed
from viewloom.data.matrix import as_block, scatter_rows
from viewloom.data.naming import naming_view
from viewloom.data.views import Views
from viewloom.runtime.errors import InputError


class PerView(TransformerMixin, BaseEstimator):
    """Apply a scikit-learn transformer to every view separately, fitted on observed rows.

    Parameters
    ----------
    transformer : transformer, or dict of view name to transformer
        Cloned for each view. Views that are not in a dict are passed through unchanged, as are those
        whose transformer is None or "passthrough".

    Attributes
    ----------
    transformers_ : dict of str to fitted transformer

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from viewloom import PerView
    >>> scaled = PerView(StandardScaler()).fit_transform({"a": [[1.0], [3.0]], "b": [[0.0], [10.0]]})
    >>> scaled["b"].ravel().tolist()
    [-1.0, 1.0]
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> PerView:
        """Fit one clone of the transformer per view."""
        views = Views(X, allow_nan=True)
        chosen = self._chosen(views.names)
        self.transformers_ = {}
        for a, (name, block) in enumerate(views.items()):
            if chosen[name] is not None:
                check_observed(views, a, 1)
                with naming_view(name):
                    self.transformers_[name] = clone(chosen[name]).fit(block[views.rows(a)])
        self.view_names_, self.view_features_ = views.names, views.feature_names
        self.n_features_in_ = views.shape[1]
        return self

    def transform(self, X: Any) -> Views:
        """Transform every view; missing rows stay missing, and a view that no sample has is left out."""
        check_is_fitted(self)
        views = align(X, self.view_names_, self.view_features_, allow_nan=True)
        views = views.select([name for a, name in enumerate(views.names) if views.present[:, a].any()])
        blocks, features = [], []
        for a, (name, block) in enumerate(views.items()):
            fitted, names = self.transformers_.get(name), views.feature_names[name]
            if fitted is not None:
                rows = views.rows(a)
                with naming_view(name):
                    transformed = fitted.transform(block[rows])
                block = scatter_rows(as_block(transformed, name), rows, len(views))
                names = _transformed_names(fitted, names, block.shape[1])
            blocks.append(block)
            features.append(names)
        return views.replaced(blocks=blocks, feature_names=dict(zip(views.names, features, strict=True)))

    def _chosen(self, names: Sequence[str]) -> dict[str, Any]:
        """The transformer of each view, or None."""
        if not isinstance(self.transformer, Mapping):
            return dict.fromkeys(names, _or_none(self.transformer))
        unknown = [name for name in self.transformer if name not in names]
        if unknown:
            raise InputError(f"transformer names views {unknown}, but the data has {list(names)}.")
        return {name: _or_none(self.transformer.get(name)) for name in names}


def _or_none(transformer: Any) -> Any:
    """None for "passthrough", else the transformer."""
    return None if isinstance(transformer, str) and transformer == "passthrough" else transformer


def _transformed_names(fitted: Any, names: np.ndarray, width: int) -> np.ndarray:
    try:
        return np.asarray(fitted.get_feature_names_out(names), dtype=object)
    except (AttributeError, ValueError):
        kept = width == len(names)
        return names if kept else np.asarray([f"x{j}" for j in range(width)], dtype=object)
