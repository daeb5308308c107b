# The Spark ring: the pipeline in a real local session. Included by the Makefile, after compat.mk, which has Java.
.PHONY: spark

spark: $(VENV)/.spark compat-tools  ## the pipeline under a local Spark
	$(BIN)/python -m pytest -q tests/spark

$(VENV)/.spark: $(VENV)/.dev
	@echo "installing PySpark (about 450 MB, once) ..." >&2
	@$(BIN)/pip install --quiet --editable '.[dev,pipeline]'
	@touch $@
