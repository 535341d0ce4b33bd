"""Views with numeric and categorical columns: codes of levels, until an encoding is fitted to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from viewloom.data.naming import listed, name_text
from viewloom.runtime.errors import InputError

Array = np.ndarray


class NotNumbersError(InputError, AttributeError):
    """A view with categorical columns is used where numbers are needed."""


@dataclass(frozen=True)
class Levels:
    """The levels of a categorical column, as text.

    Attributes
    ----------
    names : tuple of str
        In their order, if they have one.
    ordered : bool
        Whether the column is ordinal; a nominal column otherwise.
    declared : bool
        Whether the data say that the column is categorical; it was text otherwise.
    """

    names: tuple[str, ...]
    ordered: bool = False
    declared: bool = True


@dataclass(frozen=True, eq=False)
class MixedBlock:
    """The matrix of a view with categorical columns.

    Rows and columns can be selected. Anything else is refused with the name of the view, so that codes of
    levels are never used as numbers; `viewloom.data.mixed_encoding.MixedEncoder` turns them into numbers.

    Attributes
    ----------
    cells : (n, d) array of float
        Numbers, and codes of levels in categorical columns; NaN where missing.
    levels : tuple
        The `Levels` of each column, None for numeric columns.
    columns : array of str
        Names of the columns.
    name : str
        Name of the view.
    """

    cells: Array
    levels: tuple[Levels | None, ...]
    columns: Array
    name: str

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and columns."""
        return self.cells.shape[0], self.cells.shape[1]

    @property
    def ndim(self) -> int:
        """Always 2."""
        return 2

    @property
    def dtype(self) -> Any:
        """Type of the numbers and codes."""
        return self.cells.dtype

    @property
    def categorical(self) -> list[int]:
        """Positions of the categorical columns."""
        return [j for j, levels in enumerate(self.levels) if levels is not None]

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, key: Any) -> MixedBlock:
        """``block[rows]`` or ``block[rows, columns]``."""
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        chosen = np.atleast_1d(np.arange(len(self.levels))[columns])
        levels = tuple(self.levels[j] for j in chosen)
        return replace(self, cells=self.cells[rows][:, chosen], levels=levels, columns=self.columns[chosen])

    @property
    def numeric(self) -> list[int]:
        """Positions of the numeric columns."""
        return [j for j, levels in enumerate(self.levels) if levels is None]

    def with_numbers(self, values: Array) -> MixedBlock:
        """The same block with other numbers (n x number of numeric columns)."""
        cells = self.cells.copy()
        cells[:, self.numeric] = values
        return replace(self, cells=cells)

    def scattered(self, rows: Array, n: int) -> MixedBlock:
        """A block of n rows with these ones in place; other rows are NaN."""
        full = np.full((n, self.shape[1]), np.nan)
        full[rows] = self.cells
        return replace(self, cells=full)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        self._refuse()

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # protocols of other libraries
            raise AttributeError(attribute)
        self._refuse()

    def _refuse(self, *others: Any) -> NoReturn:
        names = [self.columns[j] for j in self.categorical]
        raise NotNumbersError(
            f"View {self.name!r} has {len(names)} categorical columns: {listed(names)}. Numbers are needed "
            "here: use Views(...).encoded() and scale=None, or leave these columns out."
        )

    __iter__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = _refuse
    __add__ = __sub__ = __mul__ = __truediv__ = __matmul__ = __pow__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rmatmul__ = _refuse


def numbers(X: Any) -> Any:
    """The numbers and codes of a mixed block, to count or to check them; other blocks unchanged."""
    return X.cells if isinstance(X, MixedBlock) else X


def numeric_part(X: Any) -> Any:
    """The numeric columns of a mixed block, as an array; other blocks unchanged."""
    return X.cells[:, X.numeric] if isinstance(X, MixedBlock) else X


def with_numbers(X: Any, values: Any) -> Any:
    """A block with other values in its numeric columns, which are all columns unless it is mixed."""
    return X.with_numbers(values) if isinstance(X, MixedBlock) else values


def is_categorical(column: pd.Series[Any]) -> bool:
    """Whether a column has levels: categories, or text that is not a number.

    >>> is_categorical(pd.Series(["a", None])), is_categorical(pd.Series(["a", "5"]))
    (True, False)
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        return bool(column.cat.categories.dtype.kind not in "mMc")
    if not (pd.api.types.is_string_dtype(column.dtype) or pd.api.types.is_object_dtype(column.dtype)):
        return False
    found = column.dropna().unique()
    return len(found) > 0 and all(isinstance(value, str) and not _is_number(value) for value in found)


def coded(frame: pd.DataFrame) -> pd.DataFrame:
    """A table with the codes of levels instead of categories, NaN where missing; numbers are unchanged.

    >>> coded(pd.DataFrame({"age": [60.0, 70.0], "sex": pd.Categorical(["m", None])})).to_numpy().tolist()
    [[60.0, 0.0], [70.0, nan]]
    """
    found = [name for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.CategoricalDtype)]
    codes = {str(name): frame[name].cat.codes.where(frame[name].notna()).astype(np.float64) for name in found}
    return frame.assign(**codes) if codes else frame


def mixed_block(frame: pd.DataFrame, name: str) -> MixedBlock:
    """The view of a table with categorical columns, whose other columns must be numeric."""
    columns = np.asarray([name_text(column) for column in frame.columns], dtype=object)
    coded = [_coded(frame.iloc[:, j], name) for j in range(frame.shape[1])]
    values = np.column_stack([values for values, _ in coded])
    return MixedBlock(values, tuple(levels for _, levels in coded), columns, name)


def level_text(level: Any) -> str:
    """A level as text; whole numbers are alike whether they were stored as integers or not.

    >>> level_text(2.0), level_text("II"), level_text(True)
    ('2', 'II', 'True')
    """
    whole = isinstance(level, (float, np.floating)) and float(level).is_integer()
    return str(int(level)) if whole else name_text(level)


def _coded(column: pd.Series[Any], view: str) -> tuple[Array, Levels | None]:
    """Numbers of a column, or codes of its levels."""
    if not is_categorical(column):
        filled = column.where(column.notna(), np.nan) if column.dtype == object else column
        return filled.to_numpy(dtype=np.float64, na_value=np.nan), None
    declared = isinstance(column.dtype, pd.CategoricalDtype)
    category = column if declared else column.astype("category")
    names = tuple(map(level_text, category.cat.categories))
    if len(set(names)) < len(names):
        raise InputError(f"View {view!r}: column {column.name!r} has two levels with the same text.")
    codes = category.cat.codes.to_numpy(dtype=np.float64)
    codes[codes < 0] = np.nan
    return codes, Levels(names, bool(category.cat.ordered), declared)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_levels(X: MixedBlock) -> None:
    """Raise an error for text columns that look like identifiers, before an encoding is fitted."""
    for j in X.categorical:
        levels, codes = X.levels[j], X.cells[:, j]
        if levels is None or levels.declared:
            continue
        distinct = len(np.unique(codes))
        if 2 * distinct > len(codes) and distinct > 2:
            raise InputError(
                f"View {X.name!r}: text column {X.columns[j]!r} has {distinct} different values in "
                f"{len(codes)} rows, like an identifier. Leave it out, or make it categorical: "
                "frame[column].astype('category')."
            )
