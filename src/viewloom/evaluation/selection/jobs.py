"""Units of work that run in parallel, show progress, and are not done twice."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from pickle import PicklingError
from typing import Any

import joblib
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from viewloom.data.views import Views
from viewloom.runtime.errors import InputError
from viewloom.runtime.files import atomic_write, special
from viewloom.runtime.memory import return_freed_memory
from viewloom.runtime.threads import one_thread
from viewloom.runtime.workers import explain_lost_processes, watched

OptionalPath = str | os.PathLike[str] | None
Record = dict[str, Any]  # what a unit found out: numbers and lists of numbers, nothing about single samples


class Checkpoint:
    """Numbers of finished units in a JSON file, which is replaced as a whole or not at all.

    Parameters
    ----------
    path : path
    key : str
        `fingerprint` of data and settings; a file of another key is refused.
    """

    def __init__(self, path: str | os.PathLike[str], key: str) -> None:
        self.path, self.key = Path(path), key

    def load(self) -> dict[str, Record]:
        """Units finished earlier, none if there is no file."""
        if not self.path.exists():
            return {}
        if kind := special(self.path):
            raise InputError(f"{self.path} is {kind}, not a checkpoint of viewloom; choose another file.")
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            key, units = content["key"], content["units"]
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{self.path} is not a checkpoint of viewloom; choose another file.") from None
        if key != self.key:
            raise InputError(
                f"The checkpoint {self.path} was written for other data, settings or versions. Delete it "
                "to start again, or name another file."
            )
        return dict(units)

    def save(self, units: Mapping[str, Record]) -> None:
        """Write all finished units."""
        content = {"key": self.key, "units": units}
        with atomic_write(self.path) as part:
            part.write_text(json.dumps(content, sort_keys=True), encoding="utf-8")


def open_checkpoint(path: OptionalPath, views: Views, *settings: Any) -> Checkpoint | None:
    """The checkpoint of these data and settings, if a path is given."""
    return None if path is None else Checkpoint(path, fingerprint(views, *settings))


def fingerprint(views: Views, *settings: Any) -> str:
    """A hash of data, settings and version; names and identifiers of samples play no part."""
    try:
        return str(
            joblib.hash((views.blocks, views.present, views.names, settings, version("viewloom")), "sha1")
        )
    except (PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            "A checkpoint needs settings that can be pickled; define kernel functions at the top of a "
            f"module, not as lambdas ({error})."
        ) from None


class Jobs:
    """Runs units by name and keeps their records, in memory and in a checkpoint.

    Parameters
    ----------
    n_jobs : int or None
        Processes, as in joblib. Each computes with one thread, so that results do not depend on their number.
    checkpoint : Checkpoint or None
    tick : callable
        Called with the number of units that have just been finished.
    """

    def __init__(
        self, n_jobs: int | None, checkpoint: Checkpoint | None, tick: Callable[[int], None]
    ) -> None:
        self.n_jobs, self.checkpoint, self.tick = n_jobs, checkpoint, tick
        self.records: dict[str, Record] = {} if checkpoint is None else checkpoint.load()
        tick(len(self.records))

    def pending(self, names: Sequence[str]) -> list[str]:
        """Units still to be done."""
        return [name for name in names if name not in self.records]

    def run(self, function: Callable[..., Record], units: Mapping[str, Sequence[Any]]) -> None:
        """Call ``function(*arguments)`` for every unit that is pending."""
        calls = (delayed(watched)(_named, name, function, units[name]) for name in self.pending(list(units)))
        finished = Parallel(self.n_jobs, batch_size=1, return_as="generator_unordered")(calls)
        with explain_lost_processes():
            for name, record in finished:
                self.records[name] = record
                if self.checkpoint is not None:
                    self.checkpoint.save(self.records)
                self.tick(1)
        return_freed_memory()


def _named(name: str, function: Callable[..., Record], arguments: Sequence[Any]) -> tuple[str, Record]:
    with quiet():
        record = function(*arguments)
    return_freed_memory()  # a process waits for its next unit with what the last one has left
    return name, record


@contextmanager
def quiet() -> Iterator[None]:
    """One thread, and no warnings about single fits: a search makes many bad ones on purpose."""
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield
