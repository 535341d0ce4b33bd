"""All files of a folder and its subfolders, in order of their names."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from viewloom.runtime.files import PAGE_FOLDER

RESULTS = "run.json"  # identifies a folder with results of viewloom
MOST_FILES = 200_000
DEEPEST = 12


@dataclass
class Tree:
    """The files of a folder.

    Attributes
    ----------
    files : list of Path
        Grouped by folder, in order of their names.
    passed : Counter
        Reasons why other files are skipped, with counts.
    """

    files: list[Path] = field(default_factory=list)
    passed: Counter[tuple[str, str]] = field(default_factory=Counter)


def walk(folder: Path) -> Tree:
    """Files in a folder and its subfolders; hidden files and results of viewloom are only counted."""
    tree = Tree()
    for path in _below(folder, folder, tree, 0):
        if len(tree.files) == MOST_FILES:
            tree.passed["...", f"beyond the first {MOST_FILES} files: skipped"] += 1
            break
        tree.files.append(path)
    return tree


def _below(place: Path, root: Path, tree: Tree, depth: int) -> Iterator[Path]:
    label = place.relative_to(root).as_posix()
    try:
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    except OSError:
        tree.passed[f"{label}/", "a folder without read permission"] += 1
        return
    if any(entry.name == RESULTS for entry in entries):
        tree.passed[f"{label}/", "results of viewloom"] += 1
        return
    folders = []
    for entry in entries:
        if entry.name == PAGE_FOLDER:
            continue
        if entry.name.startswith("."):
            tree.passed["hidden", "hidden files and folders (names that begin with a dot)"] += 1
        elif entry.is_dir(follow_symlinks=False):
            folders.append(entry)
        elif os.path.isdir(entry.path):  # does not raise, even for cyclic links
            tree.passed[f"{_joined(label, entry.name)}/", "a link to a folder: not followed"] += 1
        else:
            yield place / entry.name
    for entry in folders:
        if depth == DEEPEST:
            tree.passed[f"{_joined(label, entry.name)}/", "nested too deeply: skipped"] += 1
        else:
            yield from _below(place / entry.name, root, tree, depth + 1)


def _joined(label: str, name: str) -> str:
    return name if label == "." else f"{label}/{name}"
