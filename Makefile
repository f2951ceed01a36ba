# Every target sets up what it needs; the first one on a machine takes a few minutes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
PINS := .ci/constraints.txt
READY := $(VENV)/ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format bench fuzz clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: $(READY) ## Make the virtual environment .venv with everything but vLLM

# torch alone and first, with its pin: left to the resolver, a build with several GB of CUDA
# libraries is taken on machines without a GPU. torchvision lies apart, for tests only: see
# tests/torchvision_stub.py.
$(READY): pyproject.toml $(PINS)
	@echo "Setting up $(VENV) (once; takes a few minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -c $(PINS) torch
	@$(PIP) install -c $(PINS) -e '.[hf,quant,serve,postgres,arena,perturb,dev]'
	@$(PIP) install --no-deps --upgrade --target $(VENV)/torchvision-only torchvision==0.28.0
	@touch $@

demo: $(READY) ## Run a small evaluation from start to report, without a network
	@$(BIN)/mmconv demo

test: $(READY) ## Run the tests
	@$(BIN)/python -m pytest -q

check: $(READY) ## Check format, style, types, import direction, sizes and words
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_size.py tests/test_words.py

format: $(READY) ## Format the code and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## Run the measurements in tests/bench
	@for script in $(basename $(notdir $(wildcard tests/bench/[!_]*.py))); do \
		echo "== $$script"; $(BIN)/python -m tests.bench.$$script || exit 1; \
	done

fuzz: $(READY) ## Send the served API random requests for ten minutes
	@$(BIN)/python -m tests.mmconv.service.fuzz 600

clean: ## Remove the virtual environment, caches and build products
	rm -rf $(VENV) build dist *.egg-info .*_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
