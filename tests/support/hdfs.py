"""HDFS on loopback, as Hadoop's own MiniDFSCluster serves it, in a process of its own (`tests/spark/hdfs/MiniHdfs.java`)."""

from __future__ import annotations

import getpass
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / ".cache" / "spark" / "hdfs"
MAIN = ROOT / "tests" / "spark" / "hdfs" / "MiniHdfs.java"


class Hdfs:
    """A NameNode and a DataNode over `root`. `kill` and `start` may be called in turn; address and files stay."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = ""
        self._port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        assert list(JARS.glob("hadoop-client-minicluster-*.jar")), f"{JARS}: run `make spark-hdfs`"
        # The user whom Spark is, who is not HDFS's superuser.
        with (self.root.parent / f"{self.root.name}.log").open("a") as log:
            self._process = subprocess.Popen(
                ["java", "-cp", f"{JARS}/*", str(MAIN), str(self.root), getpass.getuser(), str(self._port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        words = self._answer().split()
        assert words[:1] == ["ready"], f"HDFS does not start, see {self.root}.log"
        self.url = words[1]
        self._port = int(self.url.rpartition(":")[2])

    def say(self, command: str) -> None:
        """See MiniHdfs.java."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        assert self._answer() == "done", command

    def _answer(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        """As by kill -9; a second call does nothing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
