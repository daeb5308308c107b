from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from support.fake_filesystem import FakeFileSystem
from tidelog.storage.exceptions import CorruptCheckpointError
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.log.partition_metadata import (
    decode_uuid,
    encode_uuid,
    read_partition_metadata,
    write_partition_metadata,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "storage"
PATH = "/t-0/partition.metadata"
SOME_ID = UUID("59268fa8-7dc3-4ca2-9f90-11878727279c")


@pytest.fixture
def system() -> FakeFileSystem:
    system = FakeFileSystem()
    system.make_directory("/t-0")
    return system


def test_reads_and_writes_kafkas_file(system: FakeFileSystem) -> None:
    metadata = read_partition_metadata(RealFileSystem(), GOLDEN)
    assert metadata is not None
    assert metadata.version == 0
    assert metadata.topic_id.version == 4
    write_partition_metadata(system, "/t-0", metadata.topic_id)
    assert system.read_bytes(PATH) == (GOLDEN / "partition.metadata").read_bytes()


def test_uuids_as_kafka_spells_them() -> None:
    assert encode_uuid(SOME_ID) == "WSaPqH3DTKKfkBGHhycnnA"
    assert decode_uuid("WSaPqH3DTKKfkBGHhycnnA") == SOME_ID
    for text in (
        "",
        "WSaPqH3DTKKfkBGHhycnn",
        "WSaPqH3DTKKfkBGHhycnnB",
        "WSaPqH3DTKKfkBGHhycnnA=",
        "WSaPqH3DTKKfkBGHhycn+A",
    ):
        with pytest.raises(ValueError, match="base64"):
            decode_uuid(text)


def test_no_file(system: FakeFileSystem) -> None:
    assert read_partition_metadata(system, "/t-0") is None


def test_every_prefix_is_refused(system: FakeFileSystem) -> None:
    write_partition_metadata(system, "/t-0", SOME_ID)
    whole = system.read_bytes(PATH)
    for length in range(len(whole)):
        system.put(PATH, whole[:length])
        with pytest.raises(CorruptCheckpointError, match=r"partition\.metadata"):
            read_partition_metadata(system, "/t-0")


@pytest.mark.parametrize(
    "content",
    [
        b"version: x\ntopic_id: WSaPqH3DTKKfkBGHhycnnA",
        b"version: -1\ntopic_id: WSaPqH3DTKKfkBGHhycnnA",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\ntopic_id: WSaPqH3DTKKfkBGHhycnnA\nmore",
        b"\xff\xfe",
        bytes(43),
        b"version: 0\ntopic_id: " + b"A" * 70_000,
    ],
)
def test_nonsense_is_refused(system: FakeFileSystem, content: bytes) -> None:
    system.put(PATH, content)
    with pytest.raises(CorruptCheckpointError):
        read_partition_metadata(system, "/t-0")


def test_later_versions_and_a_last_newline_are_read(system: FakeFileSystem) -> None:
    system.put(PATH, b"version: 1\ntopic_id: WSaPqH3DTKKfkBGHhycnnA\n")
    assert read_partition_metadata(system, "/t-0") == (SOME_ID, 1)
