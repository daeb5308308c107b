"""The state that batches behind a snapshot lead to."""

from __future__ import annotations

import struct

from support.fake_filesystem import FakeFileSystem
from support.mock_time import START_MS, MockTime
from tidelog.protocol.records._kernel import crc32c, read_header
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.producers.entry import BatchMetadata, ProducerStateEntry
from tidelog.storage.producers.replay import ProducerReplay
from tidelog.storage.producers.state import ProducerStateManager


def emptied(data: bytes) -> bytes:
    """What cleaning leaves of a batch of which it keeps the header alone."""
    head = bytearray(data[:61])
    struct.pack_into(">i", head, 8, 61 - 12)
    struct.pack_into(">i", head, 57, 0)
    struct.pack_into(">I", head, 17, crc32c(head[21:]))
    return bytes(head)


def test_a_control_batch_that_cleaning_has_emptied_ends_its_transaction() -> None:
    """Else it is open for good where the snapshot behind it is lost, and readers of committed records stand still."""
    producers = ProducerStateManager("/t-0", FakeFileSystem(), MockTime())
    for producer_id, first in ((7, 3), (8, 5)):
        last = (BatchMetadata(0, first, 0, START_MS),)
        producers.load_entries([ProducerStateEntry(producer_id, 2, -1, START_MS, first, last)])
    marker = [Record(0, START_MS, b"\0\0\0\1", b"\0\0\0\0\0\0")]
    batch = emptied(
        build_batch(
            marker,
            base_offset=9,
            producer_id=7,
            producer_epoch=2,
            base_sequence=-1,
            is_transactional=True,
            is_control=True,
        )
    )
    replay = ProducerReplay(None, producers, MockTime())  # type: ignore[arg-type]  # it opens no file
    replay.add(read_header(batch, 0, len(batch)), batch)
    assert producers.first_unstable_offset == 5
    assert not producers.has_open_transaction(7, 2)
    assert producers.has_open_transaction(8, 2)
