# The backup ring: stores of objects as others serve them. Included by the Makefile (after VENV, BIN and ADD).
# versitygw, a server of S3 over a directory, is built by Go; what cannot be had is an error.
VERSITYGW := v1.8.0
# How often the machine is lost, in each of two stores (tests/backup/test_lost_machine.py).
LOST_ROUNDS ?= 0

.PHONY: backup

# A server that ignores If-None-Match. Without Node its test is left out: moto, made as forgetful, has the same.
S3RVER := 3.7.1

backup: $(VENV)/.objects .cache/backup/versitygw-$(VERSITYGW) $(if $(shell command -v npm),.cache/backup/s3rver/.$(S3RVER))  ## backups in S3 as moto and versitygw serve it
	$(BIN)/python -m pytest -q --timeout 0 tests/backup --lost-rounds $(LOST_ROUNDS)

$(VENV)/.objects: $(VENV)/.dev
	@$(ADD) objects
	@touch $@

# The name of the mark has the version: another one is built anew.
.cache/backup/versitygw-$(VERSITYGW):
	@command -v go >/dev/null || { echo "versitygw, for backups and archives in buckets, is built by Go, which is not in PATH (https://go.dev/doc/install)" >&2; exit 1; }
	@mkdir -p $(@D)
	GOBIN=$(abspath $(@D)) go install -trimpath github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW)
	@touch $@

.cache/backup/s3rver/.$(S3RVER):
	@rm -rf $(@D) && mkdir -p $(@D)
	@cd $(@D) && npm install --silent --no-audit --no-fund --omit=optional --ignore-scripts --no-package-lock s3rver@$(S3RVER)
	@touch $@
