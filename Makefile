# The front door. `make run` serves, `make test` proves; everything they need is set up by them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The packages' folders, which setup.py installs as tidelog.<folder>.
FOLDERS := broker cleaner cli clients config pipeline protocol storage testing
KERNELS := $(shell find $(FOLDERS) -name '_*.pyx' -o -name '_*.h' -o -name '_*.pxi')
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: run setup test check slow adversary lint demo demo-pipeline bench docs clean help

help:            ## this list
	@grep -E '^[a-z-]+: .*##' Makefile | sed -E 's/:.*##/\t/' | expand -t 12

run: $(VENV)/.installed   ## serve on 127.0.0.1:9092 (message sets: 9093), data in ./data
	@exec $(BIN)/tidelog serve --set log.dirs=./data --set message.set.listeners=tcp://127.0.0.1:9093

setup: $(VENV)/.dev       ## own virtual environment, compiled kernels, test tools

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"tidelog needs Python 3.11 or newer; {sys.executable} is {v.major}.{v.minor}. Say PYTHON=python3.12, for example.")'
	@command -v cc >/dev/null || { echo "tidelog compiles a few small kernels: install a C compiler (cc), e.g. apt-get install gcc" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml setup.py $(KERNELS)
	@echo "setting up $(VENV) (about half a minute the first time) ..." >&2
	@$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	@$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@

test: $(VENV)/.dev        ## unit, property, golden, a crash slice, one real client; `make check` has all examples
	@# Compiled tests are kept, whatever the environment says: to compile them is half a minute for each of two processes.
	PYTHONDONTWRITEBYTECODE= HYPOTHESIS_PROFILE=slice $(BIN)/python -m pytest -n 2 --dist worksteal -q \
	  tests/unit tests/property tests/golden tests/crash tests/client --crash-every 9

lint: $(VENV)/.dev        ## ruff, mypy --strict, import-linter, bandit
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml $(FOLDERS)

check: $(VENV)/.dev       ## a bounded slice of every other ring: packaging, real clients, kill -9, the image
	$(BIN)/python tests/support/rings.py check

slow: $(VENV)/.dev        ## the full rings: hours
	$(BIN)/python tests/support/rings.py slow

adversary: $(VENV)/.dev   ## attacks with 10,000 connections; writes docs/SECURITY.md (some minutes, on a quiet machine)
	$(BIN)/python -m pytest -q -s --timeout 1500 tests/adversary --adversary-connections 10000 --adversary-seconds 15 \
	  --adversary-report docs/SECURITY.md

demo: $(VENV)/.demo       ## all flights of New York in 2013 through a daemon, checked byte for byte (a minute)
	@$(BIN)/python benchmarks/demo.py

demo-pipeline: $(VENV)/.demo $(VENV)/.spark  ## the same flights through Spark: archive, latest, delays, replay, audit (some minutes)
	@$(BIN)/python benchmarks/demo_pipeline.py

$(VENV)/.demo: $(VENV)/.installed
	@$(BIN)/pip install --quiet --editable '.[demo]'
	@touch $@

docs: $(VENV)/.installed  ## regenerate what docs/ has from the code
	$(BIN)/python -m tidelog.config.render
	PYTHONPATH=docs $(BIN)/python -m generate.formats_page
	PYTHONPATH=docs $(BIN)/python -m generate.metrics_page
	PYTHONPATH=docs $(BIN)/python -m generate.permissions_page
	PYTHONPATH=docs $(BIN)/python -m generate.command_line_page
	$(BIN)/python docs/pictures/draw.py
	$(BIN)/python docs/adr/list.py

include tests/compat/compat.mk tests/operations/prometheus.mk tests/browser/browser.mk tests/site/site.mk tests/spark/spark.mk tests/fuzz/fuzz.mk tests/mutations/mutations.mk benchmarks/bench.mk

clean:           ## remove what was built (data stays)
	rm -rf $(VENV) build *.egg-info
	find $(FOLDERS) -name '*.so' -o -name '_*.c' -o -name __pycache__ | xargs rm -rf
