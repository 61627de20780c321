# Needs make, Python 3.11 or newer and a package index; no root, no servers.
# `make` alone says what there is.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# One pip at a time.
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help demo demo-check test test-slow lint types bench clean

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.installed-demo ## start the example site with everything around it; Ctrl-C ends it
	$(BIN)/python -m example_site.demo

demo-check: $(VENV)/.installed-demo ## schedule a page in it without a person, and judge what is sent
	$(BIN)/python -m example_site.demo --check

test: $(VENV)/.installed-test ## run the whole suite; ARGS="-k name" goes to pytest
	$(BIN)/python -m pytest --numprocesses auto $(ARGS)

test-slow: $(VENV)/.installed-test ## run the tests that take their time: faults of workers, brokers, databases
	$(BIN)/python -m pytest -m slow $(ARGS)

lint: $(VENV)/.installed-lint ## look for mistakes, formatting and imports against the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.installed-test $(VENV)/.installed-types ## check the types
	$(BIN)/mypy

bench: $(VENV)/.installed-test ## run the benchmarks, on SQLite or DATABASE=postgres; ARGS="publishing" chooses
	$(if $(filter postgres,$(DATABASE)),$(INSTALL) 'psycopg[binary]>=3.2')
	$(BIN)/python -m tests.benchmarks $(ARGS)

clean: ## remove the environment and what the demo and the tools wrote
	rm -rf $(VENV) example_site/var build dist *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Dependency groups came with pip 25.1, later than Python 3.11 and 3.12 bring along.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "This needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV); the first time takes a minute."
	$(INSTALL) --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.installed-%: $(VENV)/.made pyproject.toml
	$(INSTALL) --editable . --group $*
	@touch $@
