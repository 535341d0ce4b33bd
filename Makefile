# The two commands at the top of the README, and their relatives. Everything is installed into .venv.
# PYTHON=... names an interpreter; without, any Python of at least 3.11 is taken (scripts/find-python.sh).
PYTHON ?=
BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE # or every process that a test starts would compile the package anew

.PHONY: demo test environments lint bench docs clean

demo: .venv/installed ## run the main job on built-in data and write figures
	$(BIN)/viewloom demo --output demo-output

test: .venv/installed lint ## everything that CI runs
	sh scripts/install-chromium.sh
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder  # or long files of few tests would come last

environments: .venv/installed ## built archives, no extras, each extra alone, the oldest versions allowed, other Pythons
	$(BIN)/python scripts/environments.py

lint: .venv/installed ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/installed ## quality on the real sets in VIEWLOOM_DATA
	$(BIN)/python benchmarks/quality.py

docs: .venv/installed ## the documentation site, in docs/_build/html; no network but for missing packages
	$(BIN)/python -c "import grimp, myst_nb, numpydoc, pydata_sphinx_theme, sphinx_design, sphinx_gallery" 2>/dev/null || \
		$(BIN)/pip install --quiet -e ".[docs]"
	$(BIN)/sphinx-build -W --keep-going -q -E -b html docs docs/_build/html

.venv/installed: pyproject.toml
	python=$$(sh scripts/find-python.sh $(if $(PYTHON),"$(PYTHON)")) && "$$python" -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e ".[dev]"
	$(BIN)/pip install --quiet --no-deps "axe-playwright-python>=0.1.8"  # for its copy of axe-core; playwright is not used
	touch $@

clean:
	rm -rf .venv demo-output docs/_build docs/_generated docs/gallery .pytest_cache .mypy_cache .ruff_cache
