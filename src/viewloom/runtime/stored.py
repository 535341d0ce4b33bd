"""Objects that can be saved: a class declares a tag, a version and the state that restores an object.

`viewloom.models.persistence` writes the tag, the version and the state. Names of classes and modules are not
part of the format, so code can be moved and renamed.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator

from viewloom.runtime.errors import InputError, InputTypeError

REGISTRY: dict[str, type[Stored]] = {}


class Stored:
    """Base class of objects that can be saved.

    Parameters
    ----------
    tag : str
        Name of the class in files. A class without its own tag cannot be saved, even if its base class
        can.
    version : int, default=1
        Increase it when the meaning of the state changes, and let `upgraded` convert earlier states.
    fields : tuple of str
        Attributes that make up the state; the constructor takes them by the same names.

    Examples
    --------
    >>> class Shift(Stored, tag="doctest.shift", fields=("by",)):
    ...     def __init__(self, by):
    ...         self.by = by
    >>> Shift.from_state(Shift(2.0).state()).by
    2.0
    >>> tag_of(Shift(2.0))
    'doctest.shift'
    >>> del REGISTRY["doctest.shift"]
    """

    TAG: ClassVar[str | None] = None
    STATE_VERSION: ClassVar[int] = 1
    FIELDS: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(
        cls, tag: str | None = None, version: int = 1, fields: tuple[str, ...] | None = None, **settings: Any
    ) -> None:
        super().__init_subclass__(**settings)
        cls.TAG, cls.STATE_VERSION = tag, version
        if fields is not None:
            cls.FIELDS = fields
        if tag is not None:
            _register(tag, cls)

    def state(self) -> dict[str, Any]:
        """The state that `from_state` restores the object from."""
        return {name: getattr(self, name) for name in self.FIELDS}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Restore an object from its state."""
        return cls(**state)

    @classmethod
    def upgraded(cls, state: dict[str, Any], version: Any) -> dict[str, Any]:
        """Convert a state of another version; classes with several versions override this method."""
        raise InputError(f"Only version {cls.STATE_VERSION} of {cls.TAG!r} is known.")


class StoredParameters(Stored, BaseEstimator):
    """An object whose state is its scikit-learn parameters, such as a kernel or a graph."""

    def state(self) -> dict[str, Any]:
        """The parameters."""
        return dict(self.get_params(deep=False))


def tag_of(value: Any) -> str | None:
    """The tag of an object that can be saved, None for any other."""
    return type(value).TAG if isinstance(value, Stored) else None


def _register(tag: str, cls: type[Stored]) -> None:
    other = REGISTRY.setdefault(tag, cls)
    if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        raise InputTypeError(
            f"The tag {tag!r} belongs to {other.__module__}.{other.__qualname__}; choose another."
        )
    REGISTRY[tag] = cls  # the module was reloaded
