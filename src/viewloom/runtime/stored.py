"""Objects that can be saved: a class declares a tag, a version and the state that makes the object again.

`viewloom.models.persistence` writes the tag, the version and the state. Names of classes and modules are no
part of the format, so that code can be moved and renamed.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator

from viewloom.runtime.errors import InputError, InputTypeError

REGISTRY: dict[str, type[Stored]] = {}


class Stored:
    """Base of classes whose objects can be saved.

    Parameters
    ----------
    tag : str
        What the class is called in files. A class without a tag of its own cannot be saved, even if its
        base can.
    version : int, default=1
        Raise it when the meaning of the state changes, and let `upgraded` read what earlier versions wrote.
    fields : tuple of str
        Attributes that are the state; the constructor takes them by the same names.

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
        """What makes the object again."""
        return {name: getattr(self, name) for name in self.FIELDS}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The object of a state."""
        return cls(**state)

    @classmethod
    def upgraded(cls, state: dict[str, Any], version: Any) -> dict[str, Any]:
        """A state of another version in the form of this one; a class that has had others says how."""
        raise InputError(f"Version {cls.STATE_VERSION} of {cls.TAG!r} is the only one that is known.")


class StoredParameters(Stored, BaseEstimator):
    """An object whose state is its parameters, in the sense of scikit-learn: a kernel, a graph."""

    def state(self) -> dict[str, Any]:
        """The parameters."""
        return dict(self.get_params(deep=False))


def tag_of(value: Any) -> str | None:
    """The tag of an object that can be saved, None of any other."""
    return type(value).TAG if isinstance(value, Stored) else None


def _register(tag: str, cls: type[Stored]) -> None:
    other = REGISTRY.setdefault(tag, cls)
    if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        raise InputTypeError(
            f"The tag {tag!r} belongs to {other.__module__}.{other.__qualname__}; choose another."
        )
    REGISTRY[tag] = cls  # the module was loaded again
