"""A Spark session that works where it is started: the right Python, an address that workers reach, folders of its own.

The most frequent mistakes are reported in one line: Java is missing, PySpark is missing or too old. A session of a cluster is
made the same way, with `master` and the settings that the cluster needs: see docs/PIPELINE.md.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .exceptions import PipelineError

#: Versions that exist together, see docs/PIPELINE.md: streams with admission control are Spark's since 4.2.
OLDEST_SPARK = (4, 1)
OLDEST_JAVA = 17


#: The source in Java (`jvm/src`): `make jar` builds it, and wheels bring it that were built beside a JDK.
JAR = Path(__file__).resolve().parent / "jvm" / "tidelog-spark.jar"

#: Options that Spark must not show in plans and on its pages, beside what it hides by itself (passwords, secrets, tokens).
HIDDEN_OPTIONS = "jaas|ssl.key|auth.user.info"
_REDACTION = "spark.sql.redaction.options.regex"
#: Comparisons of partition, offset and timestamp reach the source where this is true; Spark's default is false.
_PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


class SetupError(PipelineError):
    """Something that Spark needs is not there."""


def session(
    name: str = "tidelog",
    *,
    master: str = "local[*]",
    directory: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Any:
    """A `SparkSession` with `format("tidelog")`; the running one if there is one. Driver. SetupError.

    A new one has `format("tidelog-files")` too, if this installation has its jar: a running session cannot get it any more.

    `directory`: for Spark's temporary files and its warehouse; a new one in the system's by default. `settings` beat ours.
    """
    check_spark()
    check_java()
    from pyspark.sql import SparkSession

    from . import register

    home = directory or tempfile.mkdtemp(prefix="tidelog-spark-")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in with_jar({**default_settings(master, home), **(settings or {})}).items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    register(made)
    return made


def hide_secrets(spark: Any) -> None:
    """Widens what the session hides of options, which of itself knows no `sasl.jaas.config`. Driver.

    Warns when the session lets nobody change that setting, as managed services do.
    """
    try:
        # With a default of ours Spark would give that, and not its own, which hides addresses with passwords in them.
        pattern = spark.conf.get(_REDACTION) or ""
    except Exception:  # as below
        pattern = ""
    if HIDDEN_OPTIONS in pattern:
        return
    try:
        spark.conf.set(_REDACTION, f"{pattern}|(?i){HIDDEN_OPTIONS}" if pattern else f"(?i){HIDDEN_OPTIONS}")
    except Exception as error:  # of the JVM, of Spark Connect or of a service: they share no class
        warnings.warn(
            f"this session does not let {_REDACTION} be set ({type(error).__name__}): its plans show "
            "the options sasl.jaas.config, ssl.key.* and schema.registry.basic.auth.user.info as they are; have its "
            "administrator add them",
            stacklevel=3,
        )


def push_filters_down(spark: Any) -> None:
    """Lets comparisons reach the source, unless somebody turned push-down off for this session. Driver.

    The source reads without push-down too (`BatchReader.pushFilters`), so a session that refuses the setting is left as it is.
    """
    with contextlib.suppress(Exception):  # of the JVM, of Spark Connect or of a service: they share no class
        if spark.conf.get(_PUSH_DOWN, None) is None:
            spark.conf.set(_PUSH_DOWN, "true")


def cores_of(spark: Any) -> int:
    """Tasks that the cluster of a session runs at once, as far as it knows now; 0 where it does not say. Driver."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # of Spark Connect or of a service, which have no context: they share no class
        return 0


def make_active(spark: Any) -> None:
    """Makes this the active session of the calling thread, in the JVM too. Driver; nothing to do over Spark Connect.

    Spark looks the sink of `df.write` and `df.writeStream` up in the active session of the JVM thread that serves the caller.
    A Python thread other than the session's has a JVM thread of its own, and so has the shell after Ctrl-C: none is active
    there, and `format("tidelog")` is answered with DATA_SOURCE_NOT_FOUND.
    """
    made = getattr(spark, "_jsparkSession", None)
    if made is not None:
        spark._jvm.SparkSession.setActiveSession(made)


def default_settings(master: str, home: str) -> dict[str, str]:
    """Default settings of a session. A cluster finds the driver by itself; on one machine it is this one."""
    found = {
        "spark.local.dir": os.path.join(home, "spark"),
        "spark.sql.warehouse.dir": os.path.join(home, "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        _PUSH_DOWN: "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):
        found |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        }
    return found


def with_jar(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with the jar of `format("tidelog-files")` among `spark.jars`, if this installation has one."""
    if not JAR.is_file():
        return dict(settings)
    jars = [jar for jar in settings.get("spark.jars", "").split(",") if jar]
    return {**settings, "spark.jars": ",".join([*jars, str(JAR)])}


def jar() -> str:
    """Path of that jar. SetupError: this installation has none."""
    if not JAR.is_file():
        raise SetupError(
            f"this installation has no {JAR.name}: say `make jar` in a checkout, which needs a JDK, or install a wheel that was "
            'built with one; format("tidelog") reads the same rows without it'
        )
    return str(JAR)


def check_spark() -> None:
    """SetupError, with what to install."""
    try:
        import pyspark
    except ImportError:
        raise SetupError("PySpark is missing: pip install 'tidelog[pipeline]'") from None
    version = parse_version(pyspark.__version__)
    if version < OLDEST_SPARK:
        wanted = ".".join(map(str, OLDEST_SPARK))
        raise SetupError(
            f"PySpark {pyspark.__version__} is too old: {wanted} or newer, pip install 'tidelog[pipeline]'"
        )


def check_state() -> None:
    """SetupError where PySpark cannot hand a stream's state to Python: 4.1 counts rows in floats there, which pyarrow takes no
    more from 26 on.
    """
    import pyarrow
    import pyspark

    if parse_version(pyspark.__version__) < (4, 2) and parse_version(pyarrow.__version__) >= (26, 0):
        raise SetupError(
            f"pyarrow {pyarrow.__version__} is too new for a stream with state under PySpark {pyspark.__version__}: "
            "pip install 'pyarrow<26' where the driver and the executors run, or PySpark 4.2"
        )


def parse_version(text: str) -> tuple[int, int]:
    """The first two numbers of a version."""
    numbers = [int("".join(filter(str.isdecimal, part)) or 0) for part in text.split(".")[:2]]
    return numbers[0], numbers[1] if len(numbers) > 1 else 0


def check_java(environment: Mapping[str, str] = os.environ) -> int:
    """The major version of the Java that Spark will start. SetupError."""
    home = environment.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java", path=environment.get("PATH"))
    if not java or not os.access(java, os.X_OK):
        where = (
            f"JAVA_HOME is {home}, where there is none" if home else "there is none on PATH, and JAVA_HOME is not set"
        )
        raise SetupError(
            f"Spark needs Java {OLDEST_JAVA} or newer: {where}. Debian, Ubuntu: apt-get install openjdk-17-jre-headless"
        )
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    version = java_version(said)
    if version < OLDEST_JAVA:
        raise SetupError(f"{java} is Java {version}; Spark needs {OLDEST_JAVA} or newer. Set JAVA_HOME to one")
    return version


def java_version(text: str) -> int:
    """Parse the output of `java -version`: `openjdk version "17.0.15"`, `java version "1.8.0_402"`; 0 for anything
    else.
    """
    parts = text.split('"')
    if len(parts) < 2:
        return 0
    numbers = parts[1].replace("-", ".").replace("_", ".").split(".")
    major = numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0]
    return int(major) if major.isdecimal() else 0
