# The Spark ring: the pipeline in a real local session. Included by the Makefile, after compat.mk, which has Java.
.PHONY: spark spark-connector bench-pipeline

SPARK_CONNECTOR := .cache/spark/connector

# `make test` leaves the views' properties out where the extra is not installed.
spark: $(VENV)/.spark compat-tools spark-connector  ## the pipeline under a local Spark
	$(BIN)/python -m pytest -q tests/spark tests/property/test_pipeline_views.py

$(VENV)/.spark: $(VENV)/.dev
	@echo "installing PySpark (about 450 MB, once) ..." >&2
	@$(BIN)/pip install --quiet --editable '.[dev,pipeline]'
	@touch $@

spark-connector: $(SPARK_CONNECTOR)/.fetched

$(SPARK_CONNECTOR)/.fetched: tests/spark/pom.xml | compat-tools
	@rm -rf $(@D) && mkdir -p $(@D)
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(abspath $(@D))
	@touch $@

bench-pipeline: $(VENV)/.spark compat-tools spark-connector  ## Spark over tidelog: the connector, files and TCP (BENCH="--quick" for some minutes)
	$(BIN)/python benchmarks/bench_pipeline.py $(BENCH)
