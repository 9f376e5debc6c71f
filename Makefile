# Region Director. `make help` lists the targets.
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.ready
PYTHON ?= python3

.PHONY: help setup run test check format benchmark faults clean lock

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP) ## the environment, in .venv, with .venv/bin/director

# The stamp is written last: a venv that failed half-way leaves .venv/bin/python behind.
$(STAMP): requirements/lock.txt pyproject.toml
	@bash scripts/setup.sh "$(PYTHON)" "$(VENV)"
	@touch $(STAMP)

run: $(STAMP) ## the whole thing: embedded Postgres, a small live fleet, HTTP on 8080, DNS on 8053
	@$(VENV)/bin/director demo

test: $(STAMP) ## every test, fast ones first
	@bash scripts/test.sh

check: $(STAMP) ## format, lint, types, import contracts: seconds
	@bash scripts/check.sh

format: $(STAMP) ## rewrite the code in the project's format
	@$(VENV)/bin/ruff format . && $(VENV)/bin/ruff check --fix -q .

benchmark: $(STAMP) ## speed and memory, as ratios in one run (minutes)
	@bash benchmarks/run.sh

faults: $(STAMP) ## kill and freeze parts of a live tree and watch the promises hold (minutes)
	@DIRECTOR_FAULT_ROUNDS=40 DIRECTOR_FAULT_SEED=$${SEED:-$$RANDOM} $(PY) -m pytest -q tests/faults

lock: ## resolve pyproject.toml into requirements/lock.txt (needs uv)
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --extra dev -p 3.11 pyproject.toml -o requirements/lock.txt

clean: ## remove everything that was built
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache demo-data build dist
	find . -name __pycache__ -prune -exec rm -rf {} +
