# The Spark rings: the pipeline in a real local session, and on a standalone cluster. Included by the Makefile, after compat.mk, which has Java,
# and backup.mk, which has a server of S3.
.PHONY: airflow jar spark spark-older spark-connector spark-connector-older spark-tables spark-hdfs cluster cluster-all cluster-archive bench-pipeline

SPARK_CONNECTOR := .cache/spark/connector
# Delta and Iceberg have no jars for PySpark 4.2 yet: what needs them is tried under the newest that both are made for.
OLDER_SPARK := .cache/spark/pyspark-4.1.3
OLDER_CONNECTOR := .cache/spark/connector-4.1
TABLE_JARS := .cache/spark/tables
HDFS := .cache/spark/hdfs
EXECUTORS := .cache/spark/executors

# The reader in the JVM, compiled against the oldest Spark that is supported.
JAR := pipeline/jvm/tidelog-spark.jar

jar: $(JAR)               ## the jar of format("tidelog-files"), which wheels bring along (needs a JDK)

$(JAR): release/jar.py $(shell find pipeline/jvm/src -name '*.java') | $(OLDER_SPARK)/.installed
	$(BIN)/python release/jar.py $(OLDER_SPARK)

# `make test` leaves the views' properties out where the extra is not installed. Two sessions side by side: much of a test is waiting
# for a process of Spark's to start. Files come in the order of tests/spark/conftest.py.
SPARK_TESTS := -n 2 --dist loadfile --no-loadscope-reorder \
  tests/spark tests/jvm tests/property/test_pipeline_views.py tests/unit/pipeline/jobs/test_buckets.py

spark: $(VENV)/.spark compat-tools $(JAR) spark-connector spark-tables spark-hdfs .cache/backup/versitygw-$(VERSITYGW)  ## the pipeline under a local Spark
	$(BIN)/python -m pytest -q $(SPARK_TESTS)

spark-older: $(VENV)/.spark compat-tools $(JAR) $(OLDER_SPARK)/.installed spark-connector-older spark-hdfs .cache/backup/versitygw-$(VERSITYGW)  ## the same under PySpark 4.1
	PYTHONPATH=$(abspath $(OLDER_SPARK)) $(BIN)/python -m pytest -q $(SPARK_TESTS)

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

spark-connector-older: $(OLDER_CONNECTOR)/.fetched  ## the same for PySpark 4.1

$(OLDER_CONNECTOR)/.fetched: tests/spark/pom.xml | compat-tools
	@rm -rf $(@D) && mkdir -p $(@D)
	mvn -q -B -f $< dependency:copy-dependencies -Dspark.version=4.1.3 -DoutputDirectory=$(abspath $(@D))
	@touch $@

spark-hdfs: $(HDFS)/.fetched  ## HDFS in one process, to have archives in

$(HDFS)/.fetched: tests/spark/hdfs/pom.xml | compat-tools
	@rm -rf $(@D) && mkdir -p $(@D)
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(abspath $(@D))
	@touch $@

spark-tables: $(VENV)/.spark $(OLDER_SPARK)/.installed $(TABLE_JARS)/.fetched spark-hdfs  ## upsert and latest into Delta and Iceberg, under PySpark 4.1
	PYTHONPATH=$(abspath $(OLDER_SPARK)) $(BIN)/python -m pytest -q -n 2 --dist loadfile tests/tables

$(OLDER_SPARK)/.installed: | $(VENV)/.dev
	@echo "installing PySpark 4.1.3 beside it (about 450 MB, once) ..." >&2
	@# With pyarrow as tidelog[tables] has it: PySpark 4.1 hands a stream's state over as no newer one takes it.
	@rm -rf $(@D) && $(BIN)/pip install --quiet --no-deps --target $(@D) pyspark==4.1.3 py4j==0.10.9.9 'pyarrow<26'
	@touch $@

$(TABLE_JARS)/.fetched: tests/tables/pom.xml | compat-tools
	@rm -rf $(@D) && mkdir -p $(@D)
	mvn -q -B -f $< dependency:copy-dependencies -DoutputDirectory=$(abspath $(@D))
	@touch $@

cluster: $(VENV)/.spark compat-tools $(JAR) cluster-archive .cache/backup/versitygw-$(VERSITYGW)  ## a standalone cluster of Spark on loopback, its executors with an archive alone
	$(BIN)/python -m pytest -q tests/cluster $(CLUSTER)

cluster-all: cluster $(OLDER_SPARK)/.installed  ## the same under PySpark 4.1 too
	PYTHONPATH=$(abspath $(OLDER_SPARK)) $(BIN)/python -m pytest -q tests/cluster

cluster-archive: $(EXECUTORS)/environment.tar.gz  ## what the executors get, by the recipe of docs/PIPELINE.md

# The package is compiled for it: its wheel is made again when anything that it holds has changed.
$(EXECUTORS)/environment.tar.gz: pyproject.toml setup.py $(KERNELS) $(shell find $(FOLDERS) -name '*.py') | $(VENV)/.dev
	@echo "packing an environment for executors (about a minute) ..." >&2
	@$(ADD) cluster
	@rm -rf $(@D) && mkdir -p $(@D)
	@$(BIN)/python -m venv $(@D)/environment
	@$(@D)/environment/bin/pip install --quiet '.[executor,backup]'
	@$(BIN)/venv-pack --quiet --compress-level 1 --prefix $(@D)/environment --output $@

# Airflow's own constraints are no package: what pip finds for this version is taken.
AIRFLOW := .cache/airflow

airflow: $(VENV)/.spark $(AIRFLOW)/.installed  ## the DAG of docs/examples, loaded and run by Airflow
	$(BIN)/python -m pytest -q tests/airflow

$(AIRFLOW)/.installed:
	@echo "installing Airflow in an environment of its own (about 460 MB, once) ..." >&2
	@rm -rf $(@D) && $(BIN)/python -m venv $(@D) && $(@D)/bin/pip install --quiet apache-airflow==3.3.2
	@touch $@

bench-pipeline: $(VENV)/.spark compat-tools $(JAR) spark-connector  ## Spark over tidelog: the connector, files and TCP (BENCH="--quick" for some minutes)
	$(BIN)/python benchmarks/bench_pipeline.py $(BENCH)
