"""docs/examples/message_set_fetch.c: the client in another language that docs/MESSAGE_SET.md promises, built and run."""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon import Daemon
from support.wire_client import WireClient
from tidelog.clients.message_set_client import MessageSetClient
from tidelog.protocol.message_set import LATEST, NewRecord
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.records.attributes import Compression

SOURCE = Path(__file__).parents[2] / "docs" / "examples" / "message_set_fetch.c"
STRICT = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsanitize=address,undefined"]
VERSIONS = {0: "0.9.0", 1: "0.10.2", 2: "3.0-IV1"}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    assert compiler is not None, "cc is what the daemon's own kernels were compiled with"
    target = tmp_path_factory.mktemp("c") / "message_set_fetch"
    subprocess.run([compiler, *STRICT, "-fno-sanitize-recover=all", "-o", target, SOURCE], check=True, timeout=60)
    return target


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Topics `v0` to `v2`, in these formats, and `packed`."""
    settings = {"message.set.listeners": "tcp://127.0.0.1:0"}
    with Daemon(tmp_path_factory.mktemp("message-set-c") / "data", settings) as running:
        topics = {f"v{magic}": version for magic, version in VERSIONS.items()} | {"packed": VERSIONS[2]}
        with WireClient(running.address) as client:
            for name, version in topics.items():
                config = CreatableTopicConfig(name="message.format.version", value=version)
                topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1, configs=[config])
                client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 4, CreateTopicsResponse)
        yield running


def run(program: Path, address: tuple[str, int], topic: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    host, port = address
    command = [str(program), host, str(port), topic, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("magic", VERSIONS)
def test_it_prints_a_partition_of_any_format(program: Path, served: Daemon, magic: int) -> None:
    topic, address = f"v{magic}", served.message_set_address
    new = [NewRecord(b"value %d" % index * (index % 50 + 1), b"key %d" % index) for index in range(1000)]
    new += [NewRecord(None, b"deleted"), NewRecord(b"", None), NewRecord(b"x" * 300_000, b"larger than a fetch")]
    with MessageSetClient(*address) as client:
        for start in range(0, len(new), 7):
            client.produce(topic, 0, new[start : start + 7], magic=magic)
    lines = [
        b"%d\t%s\t%s\n" % (offset, *(b"(null)" if part is None else part for part in (record.key, record.value)))
        for offset, record in enumerate(new)
    ]
    for offset in (0, 3, 500, len(new) - 1, len(new)):
        found = run(program, address, topic, 0, offset)
        assert (found.returncode, found.stderr, found.stdout) == (0, b"", b"".join(lines[offset:]))
    assert run(program, address, topic, 0).stdout == b"".join(lines), "from the earliest"
    assert run(program, address, topic, 0, LATEST).stdout == b""
    assert run(program, address, topic, 1).stdout == b""


def test_it_says_what_is_wrong(program: Path, served: Daemon) -> None:
    address = served.message_set_address
    with MessageSetClient(*address) as client:
        client.produce("packed", 0, [NewRecord(b"v")], compression=Compression.GZIP)
    for arguments, text in [
        (("packed", 0), b"this client reads no codec; there is one at offset (0)"),
        (("packed", 0, 7), b"the broker answers with Kafka's error (1)"),
        (("nowhere", 0), b"the broker answers with Kafka's error (3)"),
    ]:
        found = run(program, address, *arguments)  # type: ignore[arg-type]
        assert (found.returncode, found.stdout, found.stderr) == (1, b"", b"message_set_fetch: " + text + b"\n")
    assert run(program, address, "v2").returncode == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[:2]
    assert run(program, free, "v2", 0).stderr == b"message_set_fetch: nothing answers there (0)\n"


def test_it_survives_any_answer(program: Path, served: Daemon) -> None:
    """Bent sets, with the checksums of what they were or without a whole entry: it prints or complains, and ends."""
    chance = random.Random(5)
    with MessageSetClient(*served.message_set_address) as client:
        sets = [client.message_set([NewRecord(b"v" * 20, b"k")] * 3, magic=magic) for magic in VERSIONS]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        for _ in range(60):
            data = bytearray(b"\0\0" + b"".join(chance.choices(sets, k=2)))
            for _ in range(chance.choice([1, 2, 5])):
                at = chance.randrange(len(data))
                data[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
            if chance.random() < 0.2:
                del data[chance.randrange(2, len(data)) :]
            if chance.random() < 0.9:
                data[:2] = b"\0\0"
            total = chance.choice([len(data)] * 9 + [-1, 0, 1, (1 << 31) - 1])
            answers = [struct.pack(">i", total) + data, b"\0\0\0\2\0\0"]  # then the end of the log
            thread = threading.Thread(target=_serve, args=(listening, answers))
            thread.start()
            found = run(program, listening.getsockname()[:2], "t", 0, 0)
            thread.join()
            assert found.returncode in (0, 1), found.stderr
            assert b"ERROR" not in found.stderr
            assert b"runtime error" not in found.stderr


def _serve(listening: socket.socket, answers: list[bytes]) -> None:
    connection = listening.accept()[0]
    with connection, contextlib.suppress(ConnectionError):  # it may hang up with half an answer unread
        for answer in answers:
            if not connection.recv(4096):
                return
            connection.sendall(answer)
