# Every target creates .venv first if it is missing, which takes a few minutes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
PINS := .ci/constraints.txt
READY := $(VENV)/ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format bench interop fuzz clean

help: ## List these targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: $(READY) ## Create .venv with all extras except vLLM and Inspect

# torch alone and first, with its pin: otherwise the resolver installs several GB of CUDA libraries
# on machines without a GPU. torchvision has a folder of its own, for tests only: see
# tests/torchvision_stub.py.
$(READY): pyproject.toml $(PINS)
	@echo "Setting up $(VENV) (once; takes 2 to 6 minutes): torch ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -c $(PINS) torch
	@echo "mmconv and its other dependencies ..."
	@$(PIP) install -c $(PINS) -e '.[hf,quant,ray,anthropic,google,serve,postgres,arena,perturb,dev]'
	@$(PIP) install --no-deps --upgrade --target $(VENV)/torchvision-only torchvision==0.28.0
	@touch $@
	@echo "Ready: $(BIN)/mmconv demo"

demo: $(READY) ## Evaluate a small model on drawn images, offline
	@$(BIN)/mmconv demo

# Four workers on two cores too: many tests wait for servers and browsers.
test: $(READY) ## Run the tests
	@$(BIN)/python -m pytest -q -n 4 --dist loadfile

check: $(READY) ## Check format, lint, types, import direction, file sizes and words
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_size.py tests/test_words.py

format: $(READY) ## Format the code and fix lint errors that can be fixed automatically
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## Run the benchmarks of speed and memory in tests/bench
	@for script in $(basename $(notdir $(wildcard tests/bench/[!_]*.py))); do \
		echo "== $$script"; $(BIN)/python -m tests.bench.$$script || exit 1; \
	done

interop: $(READY) ## Test exports and replays with the real packages of other tools
	@tests/interop/run

fuzz: $(READY) ## Fuzz the HTTP API with random requests for ten minutes
	@$(BIN)/python -m tests.mmconv.service.fuzz 600

clean: ## Remove the virtual environment, caches and build products
	rm -rf $(VENV) build dist *.egg-info .*_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
