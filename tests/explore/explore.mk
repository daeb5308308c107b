# The exploring ring: clients of many releases under schedules of faults (ADR 87). Included by the Makefile.
.PHONY: explore explore-all explore-clients

EXPLORE := .cache/explore
# What tests/explore/test_defects.py and test_current.py name: releases with a published defect, what is current; then those that
# `make explore` leaves out, which take long or have mended a defect.
EXPLORE_OLD := aiokafka-0.12.0 confluent-kafka-2.2.0
EXPLORE_CURRENT := aiokafka-0.14.0 confluent-kafka-2.16.1 kafka-python-3.0.12
EXPLORE_SLOW := kafka-python-2.0.1 kafka-python-2.2.3 aiokafka-0.13.0 confluent-kafka-2.3.0 kafka-python-2.0.2 kafka-python-2.2.4

# PACKAGE==VERSION of a folder's name.
release_of = $(shell echo '$(1)' | sed 's/-\([0-9.]*\)$$/==\1/')

explore: $(VENV)/.dev explore-clients  ## known defects of old clients from seeds, and current clients (a slice)
	$(BIN)/python -m pytest -q tests/explore

explore-all: $(VENV)/.dev explore-clients $(EXPLORE_SLOW:%=$(EXPLORE)/%/.installed)  ## the same with 500 seeds for each case of a current client
	$(BIN)/python -m pytest -q --timeout 0 tests/explore --explore-seeds 500 --explore-all

explore-clients: $(EXPLORE_OLD:%=$(EXPLORE)/%/.installed) $(EXPLORE_CURRENT:%=$(EXPLORE)/%/.installed)  ## clients of many releases, each in an environment of its own

$(EXPLORE)/%/.installed: | $(VENV)/.dev
	@rm -rf $(@D) && $(PYTHON) -m venv --without-pip $(@D)
	@$(BIN)/python -m pip --python $(@D)/bin/python install --quiet --only-binary :all: '$(call release_of,$*)'
	@touch $@
