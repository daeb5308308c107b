"""A driver of a standalone cluster with the jar of `format("tidelog-files")` on its own class path; its executors have it or not.

    python jar_driver.py JSON      {"master", "home", "path", "jar", "other"}      path: log.dirs with the topic t

Prints one JSON object: how many records executors count with the same jar, and what is said of another one, and of none.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession


def main() -> None:
    job = json.loads(sys.argv[1])
    told = {}
    for name, settings in (
        ("same", {"spark.executor.extraClassPath": job["jar"]}),
        ("other", {"spark.executor.extraClassPath": job["other"]}),
        (
            "none",
            {"spark.executor.extraClassPath": ""},
        ),  # what a process's first session was given is there in the next ones
    ):
        told[name] = counted(job, settings)
    print(json.dumps(told))


def counted(job: Mapping[str, str], settings: Mapping[str, str]) -> int | str:
    """Records, or in one line what a user is told."""
    given: dict[str, Any] = {
        "spark.driver.host": "127.0.0.1", "spark.driver.memory": "768m", "spark.executor.memory": "512m",
        "spark.ui.enabled": "false", "spark.task.maxFailures": "1", "spark.local.dir": job["home"],
        "spark.driver.extraClassPath": job["jar"], **settings,
    }  # fmt: skip
    builder = SparkSession.builder.master(job["master"])
    for name, value in given.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        frame = spark.read.format("tidelog-files").options(path=job["path"], subscribe="t").load()
        return len(frame.select("value").collect())
    except Exception as error:  # of the JVM
        found = re.search(r"^.*?Lost task [^)]*\)[^:]*: (.*)$", str(error), re.MULTILINE)
        return found[1] if found else str(error)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
