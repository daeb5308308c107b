"""Releases of Apache Kafka that we are held to, from benchmarks/kafka-peer/versions."""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "kafka-peer" / "versions"


def versions(text: str) -> dict[str, str]:
    """Name → release of lines `NAME = RELEASE`; ValueError for another line that is no comment."""
    found = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, equals, release = line.partition("=")
        if not equals or not release.strip():
            raise ValueError(f"{FILE}: {line!r} is not NAME = RELEASE")
        found[name.strip()] = release.strip()
    return found


_VERSIONS = versions(FILE.read_text())
NEWEST = _VERSIONS["KAFKA_NEWEST"]
"""Clients and server."""
PREVIOUS = _VERSIONS["KAFKA_PREVIOUS"]
"""Clients and server."""
TOOLS = _VERSIONS["KAFKA_TOOLS"]
"""Newest kafka-tools, kafka-streams and connect-* on Maven."""


def numbers(release: str) -> tuple[int, ...]:
    """What releases are ordered by."""
    return tuple(map(int, release.split(".")))
