# The two commands at the top of the README, and their relatives. Everything is installed into .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
export OMP_NUM_THREADS ?= 1

.PHONY: demo test lint bench docs clean

demo: .venv/installed ## run the main job on built-in data and write figures
	$(BIN)/viewloom demo --output demo-output

test: .venv/installed lint ## everything that CI runs
	sh scripts/install-chromium.sh
	$(BIN)/pytest -n 2 --dist loadfile

lint: .venv/installed ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/installed ## quality on the real sets in VIEWLOOM_DATA
	$(BIN)/python benchmarks/quality.py

docs: .venv/installed ## the documentation site, in docs/_build/html
	$(BIN)/pip install --quiet -e ".[docs]"
	$(BIN)/sphinx-build -W -b html docs docs/_build/html

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e ".[dev]"
	touch $@

clean:
	rm -rf .venv demo-output docs/_build .pytest_cache .mypy_cache .ruff_cache
