# The browser ring: the console in headless Chromium. Included by the Makefile (after VENV, BIN and SUDO).
# Playwright is a package; the browser that it drives is Debian's, which gets security updates and needs no download of its own.
.PHONY: browser browser-tools

browser: $(VENV)/.browser browser-tools  ## the console's pages in headless Chromium; pictures of them in build/screenshots
	$(BIN)/python -m pytest -q tests/browser

$(VENV)/.browser: $(VENV)/.dev
	@$(ADD) browser
	@touch $@

browser-tools:  ## what `make browser` needs of the system: Chromium
	@command -v chromium >/dev/null && exit 0; \
	command -v apt-get >/dev/null || { echo "the browser ring needs chromium in PATH (no apt-get here)" >&2; exit 1; }; \
	echo "installing chromium ..." >&2; \
	$(SUDO) apt-get update -qq && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends chromium >/dev/null \
	  || { echo "could not install chromium: run 'apt-get install chromium' as root, then again" >&2; exit 1; }
