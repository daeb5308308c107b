"""The text files; see test_dump_log and test_dump_index for the others, golden/test_dump_golden for Kafka's word."""

from __future__ import annotations

import gc

import pytest
from support.fake_filesystem import FakeFileSystem
from tidelog.storage.exceptions import StorageError
from tidelog.storage.inspect.dump import explain, heading
from tidelog.storage.inspect.part import Part, printable
from tidelog.storage.io.checkpoint_copy import COPIED_CHECKPOINTS, write_checkpoint
from tidelog.storage.io.checkpoint_room import without_room
from tidelog.storage.log.stop_record import LogFiles, write_stop_record


def parts_of(name: str, data: bytes) -> list[Part]:
    """The parts of a file, checked to follow one another without a gap."""
    system = FakeFileSystem()
    system.put(f"/{name}", data)
    parts = list(explain(system, f"/{name}"))
    position = 0
    for part in parts:
        assert part.position == position
        position += part.size
    assert position == len(data)
    return parts


def problems(name: str, data: bytes) -> list[str]:
    return [part.problem for part in parts_of(name, data) if part.problem]


def test_offset_checkpoint() -> None:
    parts = parts_of("recovery-point-offset-checkpoint", b"0\n2\norders 0 42\na-b.c 17 9223372036854775807\n")
    assert [part.text for part in parts if part.kind != "room"] == [
        "version: 0",
        "entries: 2",
        "topic: orders partition: 0 offset: 42",
        "topic: a-b.c partition: 17 offset: 9223372036854775807",
    ]
    assert not any(part.problem for part in parts)


def test_damaged_bytes_are_told_by_their_name() -> None:
    (part,) = parts_of("00000000000000000056.1234.60-69.damaged", b"whatever")
    assert part.text == (
        "offsets 60 to 69 were lost to damage: bytes that stood at position 1234 of segment 56 and were damaged"
    )
    assert part.fields == {"segment": 56, "position": 1234, "firstOffset": 60, "lastOffset": 69}
    (part,) = parts_of("00000000000000000060.0.60-69.damaged", b"")
    assert part.text == "offsets 60 to 69 were lost to damage: nothing is left of them"


def test_a_copy_of_a_checkpoint_is_the_checkpoint_behind_its_checksum() -> None:
    system = FakeFileSystem()
    for name in COPIED_CHECKPOINTS:
        write_checkpoint(system, "", name, {("orders", 0): 42})
        data = system.contents()[f"/tidelog-{name}"]
        seal, *parts = parts_of(f"tidelog-{name}", data)
        lines = [part.text for part in parts if part.kind != "room"]
        assert lines == [part.text for part in parts_of(name, b"0\n1\norders 0 42\n")]
        assert (seal.text, seal.problem) == (f"sealed: {data[:18].decode()}", "")
        assert problems(f"tidelog-{name}", data.replace(b"42", b"43")) == ["not the checksum of what follows"]
        assert problems(f"tidelog-{name}", without_room(data)[:-1]) == [
            "not the checksum of what follows",
            "the line is cut off",
        ]
        assert problems(f"tidelog-{name}", b"") == ["not the checksum of what follows"]


def test_zeros_in_the_first_line_of_a_copy_begin_what_is_behind_it() -> None:
    header, *_, room = parts_of("tidelog-log-start-offset-checkpoint", b"tidelog \x1a\0\0 2ab4b801h\n0\n0\n")
    assert (header.size, header.problem) == (9, "not the checksum of what follows")
    assert (room.kind, room.position) == ("room", 9)


def test_the_record_of_the_last_stop() -> None:
    system = FakeFileSystem()
    write_stop_record(system, "", {("orders", 0): LogFiles((0, 4096), {4096: 7})})
    data = system.contents()["/tidelog-last-stop"]
    seal, content = parts_of("tidelog-last-stop", data)
    assert not seal.problem + content.problem
    assert content.fields == {"version": 1, "logs": [["orders", 0, [0, 4096], {"4096": 7}]]}
    assert problems("tidelog-last-stop", data[:-1]) == ["not the checksum of what follows", "not a JSON object"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"1\n0\n", "version 1 is unknown"),
        (b"x\n0\n", "'x' is no number"),
        (b"0\n2\norders 0 42\n", "2 lines announced, 1 there"),
        (b"0\n1\norders 0 42\norders 1 42\n", "line 2 of 1"),
        (b"0\n1\norders 0 42", "the line is cut off"),
        (b"0\n1\norders 0 -1\n", "'-1' is no offset"),
        (b"0\n1\norders 0 9223372036854775808\n", "'9223372036854775808' is no offset"),
        (b"0\n1\norders 0 " + b"0" * 5000 + b"\n", f"'{'0' * 40}' is no offset"),
        (b"0\n1\norders " + b"0" * 19 + b"123 0\n", f"'{'0' * 19}123' is no partition"),
        (b"0\n1\norders 0\n", "not `topic partition offset`"),
        (b"0\n1\n\xff\xfe 0 1\n", "not text"),
    ],
)
def test_broken_offset_checkpoint(data: bytes, problem: str) -> None:
    assert problem in problems("cleaner-offset-checkpoint", data)


def test_leader_epochs() -> None:
    assert [part.text for part in parts_of("leader-epoch-checkpoint", b"0\n1\n3 100\n")] == [
        "version: 0",
        "entries: 1",
        "epoch: 3 startOffset: 100",
    ]
    assert problems("leader-epoch-checkpoint", b"0\n1\n3 x\n") == ["'x' is no startOffset"]


def test_partition_metadata() -> None:
    whole = b"version: 0\ntopic_id: WSaPqH3DTKKfkASHybcnlA"
    assert [part.text for part in parts_of("partition.metadata", whole)] == [
        "version: 0",
        "topic_id: WSaPqH3DTKKfkASHybcnlA",
    ]
    assert problems("partition.metadata", whole[:-1]) != []
    assert problems("partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA") == ["the id is zero"]
    assert problems("partition.metadata", b"hello") == ["not `name:value`"]


def test_meta_properties() -> None:
    data = b"#\n#Sat Nov 21\nnode.id=1\nversion=1\ncluster.id=abc\n"
    assert [part.kind for part in parts_of("meta.properties", data)] == ["comment", "comment", *["property"] * 3]
    assert problems("meta.properties", data) == []
    assert problems("meta.properties", b"node.id=1") == ["the line is cut off"]


def test_json_files() -> None:
    assert [part.text for part in parts_of(".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":12}')] == [
        "version: 0 brokerEpoch: 12"
    ]
    assert parts_of(".kafka_cleanshutdown", b"") == []  # as before Kafka 4
    assert [part.kind for part in parts_of("tidelog-cleaner.json", b'{"version":1}')] == ["mark"]
    assert problems("quorum-state", b"{") == ["not a JSON object"]
    gc.collect()  # what earlier tests have left is not to be finalized where no further call fits on the stack
    assert problems("quorum-state", b"[" * 100_000) == ["not a JSON object"]


def test_a_foreign_file() -> None:
    with pytest.raises(StorageError, match="not a file of a log"):
        explain(FakeFileSystem(), "/notes.txt")


def test_headings() -> None:
    assert heading("/a/00000000000000000042.log") == "Log starting offset: 42"
    assert heading("00000000000000000042.log.deleted") == "Log starting offset: 42"
    assert heading("00000000000000000042.index") == ""
    assert heading("00000000000000000042-0000000007.checkpoint") == "Snapshot end offset: 42, epoch: 7"
    assert heading("bootstrap.checkpoint") == "KRaft bootstrap snapshot"


def test_a_terminal_is_not_controlled_by_what_is_printed() -> None:
    assert printable("a\x1b[31m\nb\u202e") == "a\\x1b[31m\\nb\\u202e"
    assert printable("日本 🙂 �") == "日本 🙂 �"
