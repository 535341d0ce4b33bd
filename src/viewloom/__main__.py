"""``python -m viewloom``: the command line, where the command itself is not on the path."""

from viewloom.cli import app

if __name__ == "__main__":
    app(prog_name="viewloom")
