# The front door. `make run` serves, `make test` proves; everything they need is set up by them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The packages' folders, which setup.py installs as tidelog.<folder>.
FOLDERS := backup broker cleaner cli clients config pipeline protocol storage testing
BUILT := .venv* build dist *.egg-info .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
KERNELS := $(shell find $(FOLDERS) -name '_*.pyx' -o -name '_*.h' -o -name '_*.pxi')
EXTRAS :=
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: run setup test check slow adversary lint demo demo-backup demo-pipeline bench docs clean help

help:            ## this list
	@sed -nE 's/^([a-z-]+):.*## *(.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

run: $(VENV)/.installed   ## serve on 127.0.0.1:9092 (message sets: 9093), data in ./data
	@echo "for the command line, in another terminal:  export PATH=\"$(CURDIR)/$(BIN):\$$PATH\"" >&2
	@exec $(BIN)/tidelog serve --set log.dirs=./data --set message.set.listeners=tcp://127.0.0.1:9093

setup: $(VENV)/.dev       ## own virtual environment, compiled kernels, test tools

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"tidelog needs Python 3.11 or newer; {sys.executable} is {v.major}.{v.minor}. Say PYTHON=python3.12, for example.")'
	@command -v cc >/dev/null || { echo "tidelog compiles a few small kernels: install a C compiler (cc), e.g. apt-get install gcc" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One call of pip, in which the kernels are compiled once, side by side: of `make run` for the daemon alone, of all else for $(EXTRAS) too.
$(VENV)/.installed: $(BIN)/python pyproject.toml setup.py $(KERNELS)
	@echo "setting up $(VENV) (the first time $(if $(EXTRAS),37,27) s were measured on two cores) ..." >&2
	@$(BIN)/pip install --quiet --editable '.$(if $(EXTRAS),[$(EXTRAS)])'
	@touch $@
	@$(if $(EXTRAS),touch $(VENV)/.$(EXTRAS))

# What extras name is added without compiling anything again.
ADD := $(BIN)/python tests/support/install_extras.py

$(VENV)/.dev: EXTRAS := dev
$(VENV)/.dev: $(VENV)/.installed
	@[ $@ -nt $(VENV)/.installed ] || $(ADD) dev
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

demo-backup: $(VENV)/.demo  ## flights in, the machine lost, restored to the moment before a mistake, checked row by row (a minute)
	@$(BIN)/python benchmarks/demo_backup.py

demo-pipeline: $(VENV)/.demo $(VENV)/.spark cluster-archive  ## the same flights through a cluster of Spark: archive, latest, delays, replay, audit (some minutes)
	@$(BIN)/python benchmarks/demo_pipeline.py --archive $(EXECUTORS)/environment.tar.gz

$(VENV)/.demo: $(VENV)/.installed
	@$(ADD) demo
	@touch $@

docs: $(VENV)/.installed  ## regenerate what docs/ has from the code
	$(BIN)/python -m tidelog.config.render
	PYTHONPATH=docs $(BIN)/python -m generate.formats_page
	PYTHONPATH=docs $(BIN)/python -m generate.metrics_page
	PYTHONPATH=docs $(BIN)/python -m generate.permissions_page
	PYTHONPATH=docs $(BIN)/python -m generate.command_line_page
	$(BIN)/python docs/pictures/draw.py
	$(BIN)/python docs/adr/list.py

include tests/simulation/simulate.mk tests/compat/compat.mk tests/explore/explore.mk tests/backup/backup.mk tests/operations/prometheus.mk tests/browser/browser.mk tests/site/site.mk tests/spark/spark.mk tests/fuzz/fuzz.mk tests/mutations/mutations.mk benchmarks/bench.mk release/release.mk

clean:           ## remove what was built, fetched and measured: all but what git has and ./data
	@# Some rings work as root.
	rm -rf $(VENV) $(BUILT) 2>/dev/null || $(SUDO) rm -rf $(VENV) $(BUILT)
	find . -name '.venv*' -prune -o -path ./data -prune -o -path ./.git -prune -o \( -name __pycache__ -o -name node_modules \) -prune -print \
	  | xargs rm -rf
	find $(FOLDERS) \( -name '*.so' -o -name '*.jar' -o -name '_*.c' \) -exec rm -f {} +
