# Benchmarks, ours and Apache Kafka's side by side (docs/benchmarks/README.md). Included by the Makefile.
# They need Java 17 and, the first time, Maven; bench.py says so when one is missing.
.PHONY: bench bench-quick

bench: $(VENV)/.bench     ## all benchmarks against Apache Kafka, half an hour; BENCH="--only produce" for some
	$(BIN)/python benchmarks/bench.py $(BENCH)

bench-quick: $(VENV)/.bench   ## the same in three minutes, with short rounds
	$(BIN)/python benchmarks/bench.py --quick $(BENCH)

$(VENV)/.bench: $(VENV)/.installed
	@$(ADD) bench
	@touch $@
