"""docs/MESSAGE_SET.md tells the truth: its session is sent and answered byte for byte, and its tables are the code's."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon import Daemon
from support.message_sets import message_set_address
from support.patience import PATIENCE_S
from support.wire_client import WireClient
from tidelog.broker.message_set.fetch import MAX_FETCHES
from tidelog.broker.message_set.produce import MAX_PRODUCES
from tidelog.broker.runtime.error_codes import error_code
from tidelog.config.log_config import LogConfig
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.message_set.wire import RequestType
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.records import exceptions as record_errors
from tidelog.protocol.records.legacy_record import HEADER_V0, HEADER_V1
from tidelog.protocol.records.record_batch import HEADER, MAGIC_AT, OVERHEAD
from tidelog.testing import Broker

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "MESSAGE_SET.md").read_text(encoding="utf-8")
_LINE = re.compile(r"^    ([<>]) ((?:[0-9a-f]{2})+(?: (?:[0-9a-f]{2})+)*)(?:  +.*)?$")


def session(heading: str = "A session", *, has_rulers: bool = False) -> list[tuple[str, bytes]]:
    """What is sent and answered under a heading, a frame each, in order."""
    chapter = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    streams: list[tuple[str, bytearray]] = []
    for line in chapter.splitlines():
        found = _LINE.match(line)
        if found is None:
            assert has_rulers or not line.startswith("    "), f"not a line of the session: {line!r}"
            continue
        data = bytes.fromhex(found[2])
        if not streams or streams[-1][0] != found[1]:
            streams.append((found[1], bytearray()))
        streams[-1][1].extend(data)
    return [(mark, bytes(data)) for mark, data in streams]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = {"message.set.listeners": "tcp://127.0.0.1:0"}
    with Daemon(tmp_path_factory.mktemp("document") / "data", settings) as running:
        with WireClient(running.address) as client:
            topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
            client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 4, CreateTopicsResponse)
        yield running


def test_the_session_is_what_the_daemon_says(daemon: Daemon) -> None:
    steps = session()
    assert [mark for mark, _ in steps] == [">", "<"] * (len(steps) // 2)
    kinds = {struct.unpack_from(">h", frame, 4)[0] for mark, frame in steps if mark == ">"}
    assert kinds == {*RequestType, 9} - {RequestType.AUTHENTICATE}, "every request is shown"
    with (
        socket.create_connection(daemon.message_set_address, timeout=PATIENCE_S) as connection,
        connection.makefile("rb") as answers,
    ):
        for mark, frame in steps:
            assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
            if mark == ">":
                connection.sendall(frame)
            else:
                assert answers.read(len(frame)).hex(" ") == frame.hex(" ")


def test_the_way_in_is_what_the_daemon_says() -> None:
    steps = session("Getting in", has_rulers=True)
    assert [mark for mark, _ in steps] == [">", "<"]
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="secret";'
    settings = {
        "message.set.listeners": "tcp://127.0.0.1:0",
        "message.set.authentication": "plain",
        "listener.name.tcp.plain.sasl.jaas.config": jaas,
    }
    with (
        Broker(settings) as broker,
        socket.create_connection(message_set_address(broker), timeout=PATIENCE_S) as connection,
    ):
        connection.sendall(steps[0][1])
        assert connection.makefile("rb").read(len(steps[1][1])) == steps[1][1]


def test_make_run_serves_it_where_the_page_says() -> None:
    address = "message.set.listeners=tcp://127.0.0.1:9093"
    assert address in TEXT
    (recipe,) = re.findall(r"^run:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f" --set {address}" in recipe


def test_the_errors_are_kafkas_and_complete() -> None:
    chapter = TEXT.partition("## Errors")[2]
    rows = re.findall(r"^\| ([−\d, ]+) \| ([A-Z_, ]+) \|", chapter, re.MULTILINE)
    told = {
        int(code.replace("−", "-")): name
        for codes, names in rows
        for code, name in zip(codes.split(", "), names.split(", "), strict=True)
    }
    assert told == {code: ErrorCode(code).name for code in told}
    raised = [
        kind("") for kind in vars(record_errors).values()
        if isinstance(kind, type) and issubclass(kind, Exception) and kind is not record_errors.RecordError
    ]  # fmt: skip
    assert {int(error_code(error)[0]) for error in raised} <= told.keys()


def test_the_rulers_are_the_codes() -> None:
    chapter = TEXT.partition("## Messages")[2].partition("\n## ")[0]
    for magic, header in ((0, HEADER_V0), (1, HEADER_V1), (2, HEADER)):
        ruler = re.search(rf"    magic {magic}   (.*?)(?=\n    (?:magic|record)|\n\n)", chapter, re.DOTALL)
        assert ruler is not None
        lines = [line.strip() for line in ruler[1].splitlines()]
        fields = [int(size) for line in lines[::2] for size in re.findall(r"[a-zA-Z]+ (\d)(?= |$)", line)]
        offsets = [int(offset) for line in lines[1::2] for offset in line.split()]
        sums = [sum(fields[:index]) for index in range(len(fields) + 1)]
        assert offsets == sums[: len(offsets)]
        assert header.size in sums
        assert (offsets[2], sums[fields_before_magic(lines)]) == (OVERHEAD.size, MAGIC_AT)


def fields_before_magic(lines: list[str]) -> int:
    return len(re.findall(r"[a-zA-Z]+ \d(?= |$)", lines[0].partition("magic 1")[0]))


def test_numbers_in_the_text_are_the_codes() -> None:
    flat = " ".join(TEXT.split())
    assert f"at most {MAX_FETCHES:,} fetches" in flat
    assert f"a MULTIPRODUCE has at most {MAX_PRODUCES:,} sets" in flat
    assert f"{LogConfig().max_message_bytes:,} unless set" in flat
    for kind in RequestType:
        assert f"    {kind.name} {kind.value} " in TEXT
    lines = len((ROOT / "docs" / "examples" / "message_set_fetch.c").read_text().splitlines())
    assert lines < 200
    assert f"in {lines} lines of C" in TEXT
