# What is released, and what tries it (RELEASING.md). Included by the Makefile (after VENV, BIN, ADD and SUDO).
.PHONY: wheels wheels-check deb deb-check release-check

wheels: $(VENV)/.release  ## manylinux wheels of every Python for x86_64 and aarch64, in dist (WHEELS="--only cp313-aarch64" for some)
	$(BIN)/python release/wheels.py $(WHEELS)

wheels-check: wheels      ## each wheel in a bare Debian root without a compiler (as root): served, produced, fetched
	$(SUDO) $(BIN)/python release/try_wheel.py

deb: $(VENV)/.release     ## a Debian package with an environment of its own, in dist (DEB="--suite trixie" for another)
	$(BIN)/python release/deb.py $(DEB)

deb-check: deb            ## the package's life in a Debian (as root): install, serve, upgrade, remove, purge
	$(SUDO) $(BIN)/python release/try_deb.py

release-check: $(VENV)/.release  ## all of a release but the upload (RELEASING.md): builds everything into dist, tries it, SHA256SUMS
	$(BIN)/python release/check.py

$(VENV)/.release: $(VENV)/.dev
	@$(ADD) release
	@touch $@
