# The compat ring: real clients by package name against one daemon. Included by the Makefile (after VENV and BIN).
# What it needs (kcat, a JDK, Maven, Go, jars, modules) is installed or fetched here, into .cache; what cannot be had is an error.
CACHE := .cache/compat
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
APT_COMPAT := kcat mvn:maven javac:default-jdk-headless

.PHONY: compat compat-tools compat-java compat-go compat-kafka

compat: $(VENV)/.compat compat-tools compat-java compat-go compat-kafka  ## every client: librdkafka, kafka-python, aiokafka, Java, kcat, Go
	$(BIN)/python -m pytest -q tests/compat

$(VENV)/.compat: $(VENV)/.dev
	@$(BIN)/pip install --quiet --editable '.[dev,compat]'
	@touch $@

compat-tools:
	@missing=; for pair in $(APT_COMPAT); do command -v "$${pair%%:*}" >/dev/null || missing="$$missing $${pair##*:}"; done; \
	if [ -n "$$missing" ]; then \
	  command -v apt-get >/dev/null || { echo "the compat ring needs$$missing: install them (no apt-get here)" >&2; exit 1; }; \
	  echo "installing$$missing ..." >&2; \
	  $(SUDO) apt-get update -qq && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends $$missing >/dev/null \
	    || { echo "could not install$$missing: run 'apt-get install$$missing' as root, then again" >&2; exit 1; }; \
	fi
	@command -v go >/dev/null || { echo "the compat ring needs Go >= 1.21 in PATH, which fetches the newer one that go.mod names (https://go.dev/doc/install)" >&2; exit 1; }

compat-java: $(CACHE)/java/classes/Compat.class

$(CACHE)/java/lib/.fetched: tests/compat/java/pom.xml | compat-tools
	@rm -rf $(@D) && mkdir -p $(@D)
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(abspath $(@D))
	@touch $@

$(CACHE)/java/classes/Compat.class: tests/compat/java/Compat.java $(CACHE)/java/lib/.fetched
	javac -encoding UTF-8 -Xlint:all -Werror -cp '$(CACHE)/java/lib/*' -d $(@D) $<

compat-kafka: $(VENV)/.compat | compat-tools  # Apache Kafka itself, fetched here so that no test's time has it
	@$(BIN)/python benchmarks/kafka_peer.py jars >/dev/null

compat-go: $(CACHE)/go/compat

$(CACHE)/go/compat: $(wildcard tests/compat/go/*) | compat-tools
	cd tests/compat/go && go build -trimpath -o $(abspath $@) .
