# Needs python3 (3.11 to 3.13) with pip. Where make is missing, README.md has the same commands to type.

PYTHON ?= python3
VENV ?= .venv

.PHONY: demo test check lint types tests docs coverage clean

demo: $(VENV)/installed
	$(VENV)/bin/llmtrace stats sample_traces/year --output demo --force

# With -j2 types are checked beside the tests. The tests hold the documentation fresh, too: every example on every page is run.
test: types tests

check: lint types

lint: $(VENV)/installed-test
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check

types: lint
	$(VENV)/bin/mypy

tests: lint
	$(VENV)/bin/python -m pytest -q -n auto

docs: $(VENV)/installed-test
	$(VENV)/bin/python docs/regenerate.py

coverage: $(VENV)/installed-test
	$(VENV)/bin/coverage run -m pytest -q
	$(VENV)/bin/coverage report

# pip installs into the environment from outside, so that python3-venv need not bring a pip of its own.
$(VENV)/bin/python:
	$(PYTHON) -m venv --without-pip $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(PYTHON) -m pip --python $(VENV) install --disable-pip-version-check -e .
	touch $@

$(VENV)/installed-test: pyproject.toml | $(VENV)/bin/python
	$(PYTHON) -m pip --python $(VENV) install --disable-pip-version-check -e '.[test]'
	touch $(VENV)/installed $@

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
