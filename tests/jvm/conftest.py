"""The reader in Java, compiled with what Spark ships beside it, and one JVM for the whole ring."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.jvm import Jvm

ROOT = Path(__file__).resolve().parents[2]
#: Directory of Spark's jars, where PySpark is not installed.
SPARK_JARS = "TIDELOG_SPARK_JARS"
CODECS = ("snappy-java-*.jar", "lz4-java-*.jar", "zstd-jni-*.jar")


def codec_jars() -> list[str]:
    """Jars of the codecs, of the PySpark that is there. Skips the test without them or a JDK."""
    if shutil.which("javac") is None:
        pytest.skip("needs a JDK (javac) to compile the reader")
    folder = os.environ.get(SPARK_JARS)
    if folder is None:
        spec = find_spec("pyspark")
        if spec is None or spec.origin is None:
            pytest.skip("needs the jars of PySpark, for the codecs")
        folder = str(Path(spec.origin).parent / "jars")
    return [str(jar) for name in CODECS for jar in sorted(Path(folder).glob(name))]


@pytest.fixture(scope="session")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jvm]:
    jars = codec_jars()
    classes = tmp_path_factory.mktemp("classes")
    sources = [*(ROOT / "pipeline/jvm/src/tidelog/log").glob("*.java"), ROOT / "tests/jvm/Dump.java"]
    command = ["javac", "--release", "17", "-Xlint:all", "-Werror", "-cp", os.pathsep.join(jars), "-d", str(classes)]
    subprocess.run([*command, *map(str, sources)], check=True)
    with Jvm(os.pathsep.join([str(classes), *jars])) as running:
        yield running
