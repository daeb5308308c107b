# Defects put into a copy of the tree, one at a time, and the tests that have to notice each. Included by the Makefile (after BIN).
.PHONY: mutations

mutations: $(VENV)/.dev   ## defects put in on purpose, each of which a test has to notice; writes docs/reports/mutations.md
	@PYTHONPATH=tests nice $(BIN)/python -m mutations.run $(MUTATIONS)
