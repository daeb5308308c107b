"""Compiles pipeline/jvm/src to pipeline/jvm/tidelog-spark.jar, against the jars of a PySpark: of the oldest that is supported.

    .venv/bin/python release/jar.py .cache/spark/pyspark-4.1.3

Needs `javac` of a JDK 17 or newer. Entries are sorted and have one time, so that the same compiler makes the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

JVM = Path(__file__).resolve().parents[1] / "pipeline" / "jvm"
JAR = JVM / "tidelog-spark.jar"
#: The oldest Java that Spark runs on. Spark's jars name others that it does not ship: no path is looked at for that.
RELEASE = "17"
FLAGS = ("--release", RELEASE, "-encoding", "UTF-8", "-Xlint:all,-path", "-Werror")
SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"


def build(pyspark: Path, jar: Path = JAR) -> None:
    """Write the jar. `pyspark`: the folder that has `pyspark/jars`. CalledProcessError, and javac's words on stderr."""
    sources = sorted(map(str, (JVM / "src").rglob("*.java")))
    with tempfile.TemporaryDirectory() as classes:
        classpath = str(pyspark / "pyspark" / "jars" / "*")
        subprocess.run(["javac", *FLAGS, "-cp", classpath, "-d", classes, *sources], check=True)
        files = {str(path.relative_to(classes)): path.read_bytes() for path in Path(classes).rglob("*.class")}
    files["tidelog/spark/version"] = version(sources).encode()
    files["META-INF/MANIFEST.MF"] = b"Manifest-Version: 1.0\r\n\r\n"
    files[SERVICE] = b"tidelog.spark.FilesSource\n"
    made = jar.with_suffix(".part")
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name)  # of 1980
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, files[name])
    os.replace(made, jar)


def version(sources: Sequence[str]) -> str:
    """Of the package, and of these files, whoever compiles them: driver and executors must have the same."""
    package = tomllib.loads((JVM.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    content = hashlib.sha256()
    for source in sources:
        data = Path(source).read_bytes()
        content.update(b"%s %d\n%s" % (Path(source).name.encode(), len(data), data))
    return f"{package}+{content.hexdigest()[:12]}"


def main(arguments: list[str]) -> int:
    if shutil.which("javac") is None:
        print("jar: there is no javac: Debian, Ubuntu: apt-get install openjdk-17-jdk-headless", file=sys.stderr)
        return 1
    build(Path(*arguments))
    print(f"jar: {JAR}, {JAR.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
