# The two commands of the README, from a fresh clone with Python 3.11+ and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AXE := tests/node_modules/axe-core/axe.min.js

.PHONY: demo test check lint types pytest docs docs-serve numbers wheel dist test-matrix clean

demo: $(VENV)/installed
	$(BIN)/adaptivek bench --preset demo --out runs/demo

test: lint types pytest

# every few minutes: linter, types and the tests that are fast
check: lint types
	$(BIN)/python -m pytest --fast -q --numprocesses auto

lint: $(VENV)/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/installed
	$(BIN)/mypy

pytest: $(VENV)/installed $(AXE)
	$(BIN)/python -m pytest --numprocesses auto

# for the tests of the pages; without npm these are skipped
$(AXE): tests/package-lock.json
	npm ci --silent --ignore-scripts --prefix tests && touch $@ || echo "no axe-core: its tests are skipped"

# the site, in build/site; --strict: a link that leads nowhere is an error
docs: $(VENV)/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(VENV)/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --open

# which numbers in the documents are older than the code they describe
numbers: $(VENV)/installed
	$(BIN)/python benchmarks/doc_numbers.py

wheel: $(VENV)/installed
	$(BIN)/python -m build --wheel --no-isolation

# what is uploaded: built, and looked at by twine and check-wheel-contents
dist: $(VENV)/release
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

# the tests on every Python that is here, and on the oldest libraries; ARGS go to pytest
SESSIONS ?= tests-3.11 tests-3.12 tests-3.13 oldest
test-matrix: $(VENV)/release
	$(BIN)/nox --session $(SESSIONS) -- $(ARGS)

$(VENV)/release: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[release]'
	touch $@

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,dev]'
	touch $@

clean:
	rm -rf $(VENV) .nox tests/node_modules build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
