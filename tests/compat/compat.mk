# The compat ring: real clients by package name against one daemon. Included by the Makefile (after VENV and BIN).
# What it needs (kcat, a JDK, Maven, Go, jars, modules) is installed or fetched here, into .cache; what cannot be had is an error.
CACHE := .cache/compat
# KAFKA_NEWEST, KAFKA_PREVIOUS, KAFKA_TOOLS: the releases of Apache Kafka.
KAFKA_VERSIONS := benchmarks/kafka-peer/versions
include $(KAFKA_VERSIONS)
KAFKA_RELEASES := $(sort $(KAFKA_NEWEST) $(KAFKA_PREVIOUS))
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
APT_COMPAT := kcat mvn:maven javac:default-jdk-headless

# What Kafka's newest release on Maven has and we have not: warn, or fail.
NEWEST_KAFKA ?= warn

OLD := $(CACHE)/old
OLD_JAVA := 0.10.2.2 1.0.2
OLD_JAVA_ALL := 0.8.2.2 0.9.0.1 0.11.0.3 2.0.1
PYTHON2 = $(shell command -v python2.7 >/dev/null 2>&1 && python2.7 -c 'import sys; print(sys.executable)' 2>/dev/null || ls -d $$HOME/.pyenv/versions/2.7*/bin/python 2>/dev/null | tail -1)

.PHONY: compat compat-tools compat-java compat-streams compat-go compat-kafka compat-node compat-sarama compat-connect \
  compat-report compat-old compat-old-all compat-newest old-clients

compat: $(VENV)/.compat compat-tools compat-java compat-streams compat-go compat-kafka compat-node compat-sarama compat-old compat-newest  ## every client: librdkafka, Python, Java, kcat, Go, Node
	$(BIN)/python -m pytest -q --newest-kafka $(NEWEST_KAFKA) tests/compat

$(VENV)/.compat: $(VENV)/.dev
	@$(ADD) compat
	@touch $@

compat-tools:    ## what `make compat` needs of the system: a JDK, Maven, kcat, Go
	@missing=; for pair in $(APT_COMPAT); do command -v "$${pair%%:*}" >/dev/null || missing="$$missing $${pair##*:}"; done; \
	if [ -n "$$missing" ]; then \
	  command -v apt-get >/dev/null || { echo "the compat ring needs$$missing: install them (no apt-get here)" >&2; exit 1; }; \
	  echo "installing$$missing ..." >&2; \
	  $(SUDO) apt-get update -qq && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends $$missing >/dev/null \
	    || { echo "could not install$$missing: run 'apt-get install$$missing' as root, then again" >&2; exit 1; }; \
	fi
	@command -v go >/dev/null || { echo "the compat ring needs Go >= 1.21 in PATH, which fetches the newer one that go.mod names (https://go.dev/doc/install)" >&2; exit 1; }

compat-java:     ## Java's clients and programs for each release of Kafka
compat-java: $(KAFKA_RELEASES:%=$(CACHE)/java/%/classes/Compat.class) $(CACHE)/java/$(KAFKA_NEWEST)/classes/Share.class \
  $(CACHE)/java/$(KAFKA_NEWEST)/classes/Topology.class

# One release of Kafka's clients, and the programs compiled with it: $(call java-clients,RELEASE).
define java-clients
$(CACHE)/java/$(1)/lib/.fetched: tests/compat/java/pom.xml | compat-tools
	@rm -rf $$(@D) && mkdir -p $$(@D)
	mvn -q -B -f $$< -Dkafka=$(1) dependency:copy-dependencies -DoutputDirectory=$$(abspath $$(@D))
	@touch $$@

$(CACHE)/java/$(1)/classes/%.class: tests/compat/java/%.java $(CACHE)/java/$(1)/lib/.fetched
	@mkdir -p $$(@D)
	javac -encoding UTF-8 -Xlint:all -Werror -cp '$(CACHE)/java/$(1)/lib/*' -d $$(@D) $$<
endef
$(foreach release,$(KAFKA_RELEASES),$(eval $(call java-clients,$(release))))

# The newest release that there is, whatever is named above: its messages are compared with ours. Without Maven, the one of before.
compat-newest: | compat-tools  ## the newest release's messages, from Maven
	@rm -rf $(CACHE)/newest.new; \
	mvn -q -B dependency:copy -Dartifact=org.apache.kafka:kafka-clients:RELEASE -DoutputDirectory=$(abspath $(CACHE))/newest.new \
	  && rm -rf $(CACHE)/newest && mv $(CACHE)/newest.new $(CACHE)/newest \
	  || echo "Maven was not asked for a newer Kafka: it can't be reached" >&2

compat-streams: $(CACHE)/streams/classes/Orders.class  ## Kafka Streams

$(CACHE)/streams/lib/.fetched: tests/compat/streams/pom.xml $(KAFKA_VERSIONS) | compat-tools
	@rm -rf $(@D) && mkdir -p $(@D)
	mvn -q -B -f $< -Dkafka=$(KAFKA_TOOLS) dependency:copy-dependencies -DoutputDirectory=$(abspath $(@D))
	@touch $@

$(CACHE)/streams/classes/Orders.class: tests/compat/streams/Orders.java $(CACHE)/streams/lib/.fetched
	@mkdir -p $(@D)
	javac -encoding UTF-8 -Xlint:all -Werror -cp '$(CACHE)/streams/lib/*' -d $(@D) $<

compat-kafka: $(CACHE)/tools/classes/Tools.class  ## Apache Kafka itself, each release that is compared with
	@for release in $(KAFKA_RELEASES); do $(BIN)/python benchmarks/kafka_peer.py --release $$release jars >/dev/null || exit 1; done

# Apache Kafka itself, each release fetched here so that no test's time has it, and what runs its programs.
$(CACHE)/tools/classes/Tools.class: tests/compat/java/Tools.java $(KAFKA_VERSIONS) $(VENV)/.compat | compat-tools
	@mkdir -p $(@D)
	javac -encoding UTF-8 -Xlint:all -Werror -cp "$$($(BIN)/python benchmarks/kafka_peer.py --release $(KAFKA_TOOLS) jars)/*" -d $(@D) $<

compat-node: $(CACHE)/node/.installed  ## Node's clients

$(CACHE)/node/.installed: $(wildcard tests/compat/node/*)
	@command -v npm >/dev/null || { echo "the compat ring needs node and npm in PATH" >&2; exit 1; }
	@rm -rf $(@D) && mkdir -p $(@D) && cp $^ $(@D)
	@cd $(@D) && npm install --silent --no-audit --no-fund --omit=optional --ignore-scripts
	@touch $@

compat-sarama: $(CACHE)/sarama/sarama.test  ## Sarama's own tests

$(CACHE)/sarama/sarama.test: tests/compat/sarama/build.py | compat-tools
	$(PYTHON) $< $(@D)

compat-connect: $(CACHE)/connect/.fetched  ## Kafka Connect

$(CACHE)/connect/.fetched: tests/compat/connect/pom.xml $(KAFKA_VERSIONS) | compat-tools
	@rm -rf $(@D) && mkdir -p $(@D)
	mvn -q -B -f $< -Dkafka=$(KAFKA_TOOLS) dependency:copy-dependencies -DoutputDirectory=$(abspath $(@D))
	@touch $@

compat-report: $(VENV)/.compat compat-tools compat-java compat-go compat-kafka compat-node compat-sarama compat-connect  ## the same cases against Apache Kafka: docs/COMPATIBILITY.md
	$(BIN)/python tests/support/client_suites.py --write

compat-go: $(CACHE)/go/compat  ## Go's clients

$(CACHE)/go/compat: $(wildcard tests/compat/go/*) | compat-tools
	cd tests/compat/go && go build -trimpath -o $(abspath $@) .

# Clients of 2013 to 2018, by package name: one of each message format for `make check`, all of them for `make slow`.
compat-old:      ## one client of each message format before 2019
compat-old: $(OLD)/kafka-python/.installed $(OLD)/classes/Old.class $(OLD_JAVA:%=$(OLD)/java-%/.fetched)

compat-old-all:  ## all clients of before 2019
compat-old-all: $(VENV)/.compat compat-old $(OLD)/pykafka/.installed $(OLD)/kafka-python-0.9/.installed $(OLD)/node/.installed \
  $(OLD_JAVA_ALL:%=$(OLD)/java-%/.fetched)

old-clients: compat-old-all  ## every client of before 2019, and the tables of docs/COMPATIBILITY.md
	$(BIN)/python -m pytest -q tests/compat/test_old_clients.py tests/compat/test_written_by_read_by.py \
	  --old-clients all --write-compatibility

$(OLD)/kafka-python/.installed:
	@rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	@$(@D)/bin/pip install --quiet kafka-python==1.4.7 python-snappy lz4 xxhash
	@touch $@

$(OLD)/pykafka/.installed:
	@rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	@$(@D)/bin/pip install --quiet pykafka==2.8.0 'setuptools<81'
	@touch $@

$(OLD)/kafka-python-0.9/.installed:  # for Python 2.7 alone: where there is none, this client is left out
	@rm -rf $(@D) && mkdir -p $(@D)/lib
	@if [ -n "$(PYTHON2)" ]; then \
	  $(PYTHON2) -m pip install --quiet --target $(@D)/lib kafka-python==0.9.5 2>/dev/null && \
	  printf '#!/bin/sh\nPYTHONPATH=%s exec %s "$$@"\n' $(abspath $(@D))/lib $(PYTHON2) >$(@D)/python && chmod +x $(@D)/python; \
	else echo "no Python 2.7: kafka-python 0.9.5 is left out" >&2; fi
	@touch $@

$(OLD)/node/.installed: tests/compat/old/package.json tests/compat/old/old.js
	@command -v npm >/dev/null || { echo "kafka-node needs node and npm in PATH" >&2; exit 1; }
	@rm -rf $(@D) && mkdir -p $(@D) && cp $^ $(@D)
	@cd $(@D) && npm install --silent --no-audit --no-fund --omit=optional --ignore-scripts
	@touch $@

$(OLD)/java-%/.fetched: tests/compat/old/pom.xml | compat-tools
	@rm -rf $(@D) && mkdir -p $(@D)
	mvn -q -B -f $< -Dkafka=$* dependency:copy-dependencies -DoutputDirectory=$(abspath $(@D))
	@touch $@

$(OLD)/classes/Old.class: tests/compat/old/Old.java $(OLD)/java-0.10.2.2/.fetched
	@mkdir -p $(@D)
	javac -encoding UTF-8 -nowarn -Xlint:-options -cp '$(OLD)/java-0.10.2.2/*' -d $(@D) $<
