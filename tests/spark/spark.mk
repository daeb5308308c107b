# The Spark ring: the pipeline in a real local session. Included by the Makefile, after compat.mk, which has Java.
.PHONY: spark spark-connector spark-tables bench-pipeline

SPARK_CONNECTOR := .cache/spark/connector
# Delta and Iceberg have no jars for PySpark 4.2 yet: what needs them is tried under the newest that both are made for.
OLDER_SPARK := .cache/spark/pyspark-4.1.3
TABLE_JARS := .cache/spark/tables

# `make test` leaves the views' properties out where the extra is not installed.
spark: $(VENV)/.spark compat-tools spark-connector spark-tables  ## the pipeline under a local Spark
	$(BIN)/python -m pytest -q tests/spark tests/property/test_pipeline_views.py

$(VENV)/.spark: $(VENV)/.dev
	@echo "installing PySpark (about 450 MB, once) ..." >&2
	@$(ADD) pipeline
	@$(BIN)/pip install --quiet 'pyspark[connect]'  # the ring has a session of Spark Connect; the version is the extra's
	@touch $@

spark-connector: $(SPARK_CONNECTOR)/.fetched  ## Spark's connector for Kafka

$(SPARK_CONNECTOR)/.fetched: tests/spark/pom.xml | compat-tools
	@rm -rf $(@D) && mkdir -p $(@D)
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(abspath $(@D))
	@touch $@

spark-tables: $(VENV)/.spark $(OLDER_SPARK)/.installed $(TABLE_JARS)/.fetched  ## upsert and latest into Delta and Iceberg, under PySpark 4.1
	PYTHONPATH=$(abspath $(OLDER_SPARK)) $(BIN)/python -m pytest -q tests/tables

$(OLDER_SPARK)/.installed: | $(VENV)/.dev
	@echo "installing PySpark 4.1.3 beside it (about 450 MB, once) ..." >&2
	@rm -rf $(@D) && $(BIN)/pip install --quiet --no-deps --target $(@D) pyspark==4.1.3 py4j==0.10.9.9
	@touch $@

$(TABLE_JARS)/.fetched: tests/tables/pom.xml | compat-tools
	@rm -rf $(@D) && mkdir -p $(@D)
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(abspath $(@D))
	@touch $@

bench-pipeline: $(VENV)/.spark compat-tools spark-connector  ## Spark over tidelog: the connector, files and TCP (BENCH="--quick" for some minutes)
	$(BIN)/python benchmarks/bench_pipeline.py $(BENCH)
