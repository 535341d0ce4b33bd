"""Entry point of the command ``viewloom`` and of ``python -m viewloom``."""

from __future__ import annotations

import os
import sys

import viewloom
from viewloom.runtime import streams
from viewloom.runtime.workers import before_last_line, end_children, exit_code, interrupted, stop_on_signals


def main() -> int:
    """Run the command line; return its exit code."""
    streams.prepare()
    stop_on_signals()
    try:
        code = _run()
    except BaseException as error:  # before a command could handle it
        if not interrupted(error):
            raise
        before_last_line()
        print("Error: interrupted.", file=sys.stderr)
        code = exit_code()
    if code > 128:
        end_children()
    return streams.close(code)


def _run() -> int:
    if sys.argv[1:] == ["--version"]:  # without the command line, which takes five times as long to import
        print(f"viewloom {viewloom.__version__}")
        return 0
    os.environ["MPLBACKEND"] = "Agg"  # figures are only written to files
    from viewloom.cli.commands import app

    try:
        app(prog_name="viewloom")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
