# What is released, and what tries it (RELEASING.md). Included by the Makefile (after VENV, BIN, ADD and SUDO).
.PHONY: wheels wheels-check deb deb-check release-check release-tools package-check first-record
# What of it every change passes: the wheel of Debian 12's Python for this processor, and the package that is made of it.
PACKAGED := build/packaged

wheels: $(VENV)/.release $(if $(shell command -v javac),$(JAR))  ## manylinux wheels of every Python for x86_64 and aarch64, in dist (WHEELS="--only cp313-aarch64" for some)
	$(BIN)/python release/wheels.py $(WHEELS)

wheels-check: wheels      ## each wheel in a bare Debian root without a compiler (as root): served, produced, fetched
	$(SUDO) $(BIN)/python release/try_wheel.py

deb: $(VENV)/.release     ## a Debian package with an environment of its own, in dist (DEB="--suite trixie" for another)
	$(BIN)/python release/deb.py $(DEB)

deb-check: deb            ## the package's life in a Debian (as root): install, serve, upgrade, remove, purge
	$(SUDO) $(BIN)/python release/try_deb.py

package-check: $(PACKAGED)/.built  ## a wheel in a Debian without a compiler, to the first record; a package's life, upgrade and way back (as root)
	$(SUDO) $(BIN)/python release/first_record.py $(PACKAGED)
	$(SUDO) $(BIN)/python release/try_deb.py $(PACKAGED)/tidelog_*.deb

first-record: $(PACKAGED)/.built  ## writes docs/reports/first-record.md: from the wheel to the first record, every command with its time (as root)
	$(SUDO) $(BIN)/python release/first_record.py $(PACKAGED) --report docs/reports/first-record.md

# Always anew: what it is made of is all that git has. -Zgzip is quick; what is released is packed by xz.
.PHONY: $(PACKAGED)/.built
$(PACKAGED)/.built: $(VENV)/.release release-tools
	@rm -rf $(PACKAGED)
	$(BIN)/python release/wheels.py --only cp311-$(shell uname -m) --out $(PACKAGED)
	$(BIN)/python release/deb.py --wheel $(PACKAGED)/tidelog-*.whl --quickly --out $(PACKAGED)

release-tools:  ## what wheels, packages and their roots need of the system: debootstrap, iproute2, keys of Debian
	@lacking=; for program in debootstrap dpkg-deb unshare ip; do command -v $$program >/dev/null || lacking="$$lacking $$program"; done; \
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || lacking="$$lacking debian-archive-keyring"; \
	[ -n "$$lacking" ] || exit 0; \
	command -v apt-get >/dev/null || { echo "packages are tried on Debian or Ubuntu: no apt-get here" >&2; exit 1; }; \
	echo "installing$$lacking ..." >&2; \
	$(SUDO) apt-get update -qq && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends \
	  debootstrap debian-archive-keyring iproute2 dpkg util-linux >/dev/null \
	  || { echo "could not install debootstrap: as root, run 'apt-get install debootstrap debian-archive-keyring iproute2', then again" >&2; exit 1; }

release-check: $(VENV)/.release  ## all of a release but the upload (RELEASING.md): builds everything into dist, tries it, SHA256SUMS
	$(BIN)/python release/check.py

$(VENV)/.release: $(VENV)/.dev
	@$(ADD) release
	@touch $@
