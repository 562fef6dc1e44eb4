# From a fresh clone with python3.11 (its venv and pip) and git alone: `make demo`, `make test`. Everything is
# installed into .venv by hash from the lock files; a second run finds it ready and goes straight on.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH := .venv-bench
UV := $(BIN)/uv pip
COMPILE := --generate-hashes --no-emit-index-url --universal --python-version 3.11 --no-header --quiet
RECORDINGS ?= ../shared/notion-recordings

.DEFAULT_GOAL := help
.PHONY: help demo test check crash sim mutants model bench likeness migration lock clean

help: ## this list
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(READY) ## the main job on a local board, in half a minute (ARGS="--fresh" forgets the last one)
	$(BIN)/hermes-poll demo $(ARGS)

test: $(READY) ## every test (ARGS="-k name" for some)
	$(BIN)/pytest -n 4 --dist loadgroup $(ARGS)

check: $(READY) ## ruff, mypy, import-linter, pytest
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 4 --dist loadgroup $(ARGS)

crash: $(READY) ## the long campaign: kills, suspensions, database restarts, rivals (ARGS="--only siege --seed 3")
	$(BIN)/python tests/crash/campaign.py $(ARGS)

bench: $(BENCH)/.ready ## beside huey, procrastinate, DBOS and Temporal (ARGS="--help", ARGS="drain --rounds 3 --out results")
	$(BENCH)/bin/python -W ignore -m bench.run $(ARGS)

sim: $(READY) ## deterministic simulation, 1,000 seeds (ARGS="--seed 7 --trace" for one)
	$(BIN)/python tests/sim/simulate.py $(ARGS)

mutants: $(READY) ## each protection of the engine is taken out and a test must fail (ARGS="Durable" for some, by name)
	$(BIN)/python tests/protections/remove.py $(or $(ARGS),engine_table durable_table)

model: $(READY) ## the claim protocol explored exhaustively (ARGS='--case "guard W" --trace' for one case)
	$(BIN)/python tests/model/explore.py $(or $(ARGS),--all)

likeness: $(READY) ## the local board against recorded Notion traffic (RECORDINGS=folder)
	$(BIN)/python tests/sources/board/likeness.py $(RECORDINGS) --check $(ARGS)

migration: $(READY) ## write the migration that store/tables now need (WHAT="what changes", or WHAT=--first)
	PATH="$(BIN):$$PATH" $(BIN)/python -m store.migrations.write "$(WHAT)"

lock: $(READY) ## write the lock files anew from pyproject.toml (ARGS="--upgrade" for newer versions)
	$(UV) compile pyproject.toml --group dev $(COMPILE) $(ARGS) --output-file requirements.lock
	$(UV) compile pyproject.toml --group bench $(COMPILE) $(ARGS) --output-file requirements-bench.lock
	echo uv | $(UV) compile - $(COMPILE) --no-annotate $(ARGS) --output-file requirements-setup.lock

clean: ## remove the environment and what tools left; never anybody's data
	rm -rf $(VENV) $(BENCH) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# pip installs uv, uv installs the rest: by itself pip takes minutes where uv takes seconds. What is installed is
# compiled at once: where Python may not write bytecode, each process would do so again, which takes seconds.
$(READY): requirements.lock requirements-setup.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not here: install Python 3.11 (or PYTHON=...)"; exit 1; }
	@echo "Setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || { echo "on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-setup.lock
	$(UV) sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock
	$(UV) install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q hermes sources evaluators store
	@touch $@

$(BENCH)/.ready: $(READY) requirements-bench.lock
	@echo "Setting up $(BENCH) ..."
	@$(PYTHON) -m venv --without-pip $(BENCH)
	$(UV) sync --quiet --compile-bytecode --python $(BENCH)/bin/python --require-hashes requirements-bench.lock
	@touch $@
