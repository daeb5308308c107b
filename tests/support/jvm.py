"""One JVM for all examples of a test session: the reader in Java, driven line by line through `Dump.java`."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.columns import Row

LEAST, MOST = -(1 << 63), (1 << 63) - 1


class JvmError(Exception):
    """The reader's exception. `kind` is the class's name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Jvm:
    """A running `tidelog.log.Dump`; a context manager. One thread; blocks."""

    def __init__(self, class_path: str) -> None:
        command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", class_path, "tidelog.log.Dump"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Jvm:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _ask(self, *fields: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(map(str, fields)) + "\n")
        self._process.stdin.flush()

    def _line(self) -> Any:
        assert self._process.stdout is not None
        found = json.loads(self._process.stdout.readline())
        if isinstance(found, dict):
            raise JvmError(found["error"], found["message"])
        return found

    def value(self, command: str, *fields: object) -> Any:
        """Answer of one line."""
        self._ask(command, *fields)
        return self._line()

    def rows(
        self, home: Path, topic: str, partition: int, first: int, end: int, *, columns: str = "kvht", least: int = LEAST,
        most: int = MOST, how: str = "",
    ) -> list[Row]:  # fmt: skip
        """Rows of [first, end); JvmError, and then no rows."""
        return list(self.stream(home, topic, partition, first, end, columns=columns, least=least, most=most, how=how))

    def stream(
        self, home: Path, topic: str, partition: int, first: int, end: int, *, columns: str = "kvht", least: int = LEAST,
        most: int = MOST, how: str = "",
    ) -> Iterator[Row]:  # fmt: skip
        """The rows as they come: the reader waits when a pipe is full. To be gone through to the end."""
        self._ask("read", home, topic, partition, first, end, columns, least, most, how)
        return self._rows()

    def _rows(self) -> Iterator[Row]:
        while line := self._line():
            offset, timestamp, kind, key, value, headers = line
            pairs = tuple((_bytes(name) or b"", _bytes(content)) for name, content in headers)
            yield Row(offset, timestamp, kind, _bytes(key), _bytes(value), pairs)

    def count(self, home: Path, topic: str, partition: int, first: int, end: int, *, how: str = "") -> int:
        return int(self.value("count", home, topic, partition, first, end, "", LEAST, MOST, how)[0])


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
