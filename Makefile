# The two commands of the README, from a fresh clone with Python 3.11+ and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check lint types pytest docs docs-serve numbers wheel clean

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

pytest: $(VENV)/installed
	$(BIN)/python -m pytest --numprocesses auto

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

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
