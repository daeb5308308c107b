"""Settings: Java properties, TOML, and all of a configuration file into a configuration."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from fuzz.target import target
from tidelog.config.exceptions import ConfigError
from tidelog.config.loader import load_config, parse_properties, toml_settings

DIRECTORY = tempfile.TemporaryDirectory(prefix="fuzz-settings-")
FILE = Path(DIRECTORY.name) / "server.properties"


def properties() -> Iterator[bytes]:
    yield b"# comment\nlog.dirs=/a,\\\n  /b\nname : v\\u0041\\t\nother value\n!x\r\nlast"
    yield b"listeners=INSIDE://127.0.0.1:9092,OUTSIDE://[::1]:0\nlistener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"
    yield b"log.retention.ms=-1\nlog.segment.bytes=1048576\nlog.cleanup.policy=compact,delete\ncompression.type=zstd"
    yield b"process.roles=broker,controller\nnode.id=1\nnum.network.threads=3\ncontroller.quorum.voters=1@localhost:9093"
    yield b"listener.name.a.b.ssl.client.auth=required\nmax.connections.per.ip.overrides=127.0.0.1:5"


@target(ValueError, seeds=properties)
def properties_text(data: bytes) -> None:
    """What was read, written with everything escaped, is read the same."""
    pairs = list(parse_properties(data.decode("utf-8", "replace")))

    def escaped(text: str) -> str:
        return "".join(f"\\u{unit:04x}" for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"))

    again = "\n".join(f"{escaped(name)}={escaped(value)}" for name, value in pairs if name)
    assert list(parse_properties(again)) == [(name, value) for name, value in pairs if name]


def toml() -> Iterator[bytes]:
    yield b'[log]\ndirs = ["/a", "/b"]\nretention.ms = -1\nx = true\ny = 1.5\n'
    yield b"a = [1]\n"
    yield b"a = 1979-05-27\n"


@target(ValueError, seeds=toml)
def toml_text(data: bytes) -> None:
    found = toml_settings(data.decode("utf-8", "replace"))
    assert all(isinstance(value, str) for value in found.values())


@target(ConfigError, seeds=properties)
def configuration(data: bytes) -> None:
    """A whole file: a configuration, or all that is wrong with it."""
    FILE.write_bytes(data)
    load_config(FILE, {}, [])
