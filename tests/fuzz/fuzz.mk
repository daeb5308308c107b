# The fuzz ring: what is known again, then new inputs; the kernels under gcc's sanitizers. Included by the Makefile (after VENV, BIN).
# The random part ends by the clock: FUZZ_SECONDS for all groups of targets together, on two cores.
# FUZZ_SEED other than 0: the same inputs each time, as far as the time goes.
FUZZ_SECONDS ?= 60
FUZZ_SEED ?= 0
SANITIZED := .cache/sanitized
SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=undefined
COVERAGE := -fsanitize-coverage=trace-pc,trace-cmp

.PHONY: fuzz fuzz-replay fuzz-keep sanitize sanitize-check audit

fuzz: fuzz-replay         ## decoders against the kept inputs, then new ones (FUZZ_SECONDS=60)
	$(BIN)/python tests/fuzz/run.py explore --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

fuzz-replay: $(VENV)/.fuzz  ## decoders against the kept inputs alone
	$(BIN)/python tests/fuzz/run.py replay

fuzz-keep: $(VENV)/.fuzz  ## explores, and adds what reaches new code to tests/fuzz/corpus
	$(BIN)/python tests/fuzz/run.py keep --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

$(VENV)/.fuzz: $(VENV)/.dev
	@$(ADD) fuzz
	@touch $@

sanitize: $(VENV)/.fuzz $(SANITIZED)/.built  ## the kernels with AddressSanitizer and UBSan: their tests, the corpus, new inputs
	tests/fuzz/sanitized $(CURDIR)/$(SANITIZED) $(BIN)/python $(FUZZ_SECONDS)

# A copy of all packages, with kernels of its own: those in the tree stay as they are.
# What has changed since is built or copied again.
.PHONY: $(SANITIZED)/.built
$(SANITIZED)/.built: $(VENV)/.fuzz
	@echo "building the kernels with sanitizers (some minutes the first time) ..." >&2
	@mkdir -p $(SANITIZED)
	@CFLAGS="-g -O1 -fno-omit-frame-pointer $(SANITIZERS) $(COVERAGE)" LDFLAGS="-fsanitize=address,undefined" TIDELOG_KERNEL_FLAGS="-O1" \
	  $(BIN)/python setup.py --quiet build --build-base $(SANITIZED)/build --build-lib $(SANITIZED)/lib build_ext --parallel 2 >/dev/null
	@$(CC) -O1 -shared -fPIC -o $(SANITIZED)/counters.so tests/fuzz/counters.c -ldl

# Without optimizing and without counters they are built in a fraction of the time.
sanitize-check: $(VENV)/.fuzz   ## the same without new inputs (a minute)
	@mkdir -p $(SANITIZED)-check
	@CFLAGS="-g1 -O0 -fno-omit-frame-pointer $(SANITIZERS)" LDFLAGS="-fsanitize=address,undefined" TIDELOG_KERNEL_FLAGS="-O0" \
	  $(BIN)/python setup.py --quiet build --build-base $(SANITIZED)-check/build --build-lib $(SANITIZED)-check/lib build_ext --parallel 2 >/dev/null
	@$(CC) -O1 -shared -fPIC -o $(SANITIZED)-check/counters.so tests/fuzz/counters.c -ldl
	tests/fuzz/sanitized $(CURDIR)/$(SANITIZED)-check $(BIN)/python 0

audit: $(VENV)/.dev       ## installed packages: known vulnerabilities (where the advisories can be had), licences
	@$(ADD) audit
	@$(BIN)/python tests/packaging/audit.py
