# The prometheus ring: Debian's Prometheus against live daemons. Included by the Makefile (after VENV and BIN).
# The package is unpacked into .cache and not installed: installing it would start a server on the machine.
PROMETHEUS := .cache/prometheus/usr/bin

.PHONY: prometheus

prometheus: $(VENV)/.operate $(PROMETHEUS)/prometheus  ## metrics, alert rules and dashboards against Debian's Prometheus
	$(BIN)/python -m pytest -q tests/operations

$(VENV)/.operate: $(VENV)/.dev
	@$(ADD) operate
	@touch $@

$(PROMETHEUS)/prometheus:
	@command -v apt-get >/dev/null || { echo "the prometheus ring needs Debian's prometheus in $(PROMETHEUS) (no apt-get here)" >&2; exit 1; }
	@rm -rf .cache/prometheus && mkdir -p .cache/prometheus
	@cd .cache/prometheus && { apt-get download -qq prometheus 2>/dev/null || { $(SUDO) apt-get update -qq && apt-get download -qq prometheus; }; } \
	  && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb && touch -c usr/bin/prometheus \
	  || { echo "could not get Debian's package prometheus: run 'apt-get update' as root, then again" >&2; exit 1; }
