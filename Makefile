# Every target sets up what it needs: a machine with Python >=3.10 (with venv) and make is enough.
# Versions are those of constraints.txt; PYTHON chooses the interpreter for a new environment.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test slow coverage lint format types layers check bench cdk mutate clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: $(READY) ## make .venv with the exact versions of constraints.txt

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("dynamodb-outbox needs Python 3.10 or later, and $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (once) ..." >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt hatchling editables
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[local,cli,dev]'
	@touch $@

demo: $(READY) ## orders, events and faults, end to end, beside two dual writes (ARGS="--orders 200 --seed 7")
	@$(BIN)/outbox demo $(ARGS)

test: $(READY) ## the tests; ARGS="tests/relay -x" runs a part
ifeq ($(strip $(ARGS)),)
	@$(BIN)/pytest --numprocesses 3 --dist worksteal
else
	@$(BIN)/pytest $(ARGS)
endif

slow: $(READY) ## the tests that CI has no time for: whole demos and workers that are killed (some 6 minutes)
	@$(BIN)/pytest -m slow --numprocesses 2 --dist worksteal

coverage: $(READY) ## the tests, with branch coverage of src (at least 95 %)
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -m "slow or not slow" --numprocesses 3 --dist worksteal
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

lint: $(READY) ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: $(READY) ## rewrite the code in the project's format
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

types: $(READY) ## strict type check of src and tests
	@$(BIN)/mypy

layers: $(READY) ## imports go down only
	@$(BIN)/lint-imports

check: lint types layers test ## everything that a change must pass

bench: $(READY) ## ratios against a named rival, in the same run
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'aws-lambda-powertools>=3.37'
	@$(BIN)/python -m bench $(ARGS)

cdk: $(READY) ## the CDK construct, synthesized for real (needs node; installs 430 MB)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'aws-cdk-lib>=2.170'
	@$(BIN)/pytest -q tests/infra/cdk_synth.py

MUTANTS ?=

mutate: $(READY) ## change core/ on purpose and see which tests notice: docs/mutation.md (half an hour; MUTANTS="*codec.size*" runs a part)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'mutmut>=3.8'
	@$(BIN)/mutmut run --max-children 1 $(foreach each,$(MUTANTS),'$(each)')
	@$(BIN)/mutmut results | grep -v ': not checked$$' || true

clean: ## remove what the targets made
	rm -rf $(VENV) .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist mutants
