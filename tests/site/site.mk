# The documentation as a site, and the ring that reads it. Included by the Makefile (after VENV and BIN).
.PHONY: site site-check

site: $(VENV)/.docs       ## the documentation as pages, in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

site-check: $(VENV)/.docs  ## the built site's links, and the pages' commands run against a daemon
	$(BIN)/python -m pytest -q tests/site

$(VENV)/.docs: $(VENV)/.dev
	@$(ADD) docs
	@touch $@
