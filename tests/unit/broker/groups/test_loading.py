"""What a log of offsets means, record by record: transactions, tombstones, other protocols, damage."""

from __future__ import annotations

import pytest
from tidelog.broker.coordinator.internal_topic import ReplayBatch
from tidelog.broker.groups.classic.metadata import EMPTY, GroupMetadata
from tidelog.broker.groups.classic.records import group_value
from tidelog.broker.groups.loading import load_partition
from tidelog.broker.groups.store.records import OffsetAndMetadata, group_key, offset_key, offset_value

COMMIT, ABORT = b"\x00\x00\x00\x01", b"\x00\x00\x00\x00"
TOPIC_ID = b"t" * 16


class Log:
    """Builds batches with rising offsets."""

    def __init__(self):
        self.batches = []
        self.offset = 0

    def add(self, *records, producer_id=-1, transactional=False, control=False):
        numbered = [(self.offset + i, key, value) for i, (key, value) in enumerate(records)]
        self.batches.append(ReplayBatch(self.offset, producer_id, transactional, control, numbered))
        self.offset += max(1, len(records))
        return self

    def commit(self, offset, partition=0, group="g", **batch):
        value = offset_value(OffsetAndMetadata(offset, 1, "", 10, topic_id=TOPIC_ID))
        return self.add((offset_key(group, "t", partition), value), **batch)

    def forget(self, partition=0, group="g", **batch):
        return self.add((offset_key(group, "t", partition), None), **batch)

    def end(self, producer_id, marker):
        return self.add(
            (marker, b"\x00\x00\x00\x00\x00\x00"), producer_id=producer_id, transactional=True, control=True
        )

    def load(self):
        return load_partition("test-0", self.batches, 99)


def offset(loaded, partition=0, group="g"):
    committed = loaded.offsets.get(group, "t", partition)
    return None if committed is None else committed.offset


def is_simple(group):
    """A group that only stores offsets: nobody has ever joined it."""
    return group.protocol_type is None and group.state is EMPTY and not group.pending_join_members


def in_transaction(producer_id):
    return {"producer_id": producer_id, "transactional": True}


def test_the_last_commit_counts():
    loaded = Log().commit(1).commit(2).commit(3, partition=1).commit(4).load()
    assert (offset(loaded), offset(loaded, 1)) == (4, 3)
    assert loaded.offsets.count == 2
    assert is_simple(loaded.groups["g"])
    assert loaded.groups["g"].state_timestamp_ms == 99


def test_tombstones():
    loaded = Log().commit(1).commit(2, 1).forget().forget(7).load()
    assert offset(loaded) is None
    assert loaded.offsets.count == 1
    loaded = Log().commit(1).forget().load()
    assert loaded.groups == {}
    assert list(loaded.offsets.group_ids()) == []
    assert offset(Log().commit(1).forget().commit(5).load()) == 5


def test_a_deleted_group():
    group = GroupMetadata("g", 5)
    group.protocol_type = "consumer"
    log = Log().add((group_key("g"), group_value(group, {})))
    assert log.load().groups["g"].protocol_type == "consumer"
    log.commit(1).forget().add((group_key("g"), None))
    assert log.load().groups == {}
    log.commit(2)
    assert is_simple(log.load().groups["g"])


@pytest.mark.parametrize(("marker", "expected"), [(COMMIT, 7), (ABORT, 1)])
def test_transactional_commits(marker, expected):
    log = Log().commit(1).commit(7, **in_transaction(9))
    loaded = log.load()
    assert offset(loaded) == 1
    assert loaded.offsets.has_pending("g", "t", 0)
    assert loaded.offsets.open_transactions == 1
    loaded = log.end(9, marker).load()
    assert offset(loaded) == expected
    assert loaded.offsets.open_transactions == 0


def test_a_group_that_only_an_open_transaction_knows():
    assert "g" in Log().commit(7, **in_transaction(9)).load().groups


def test_a_later_plain_commit_wins_over_a_transaction_that_ends_after_it():
    assert offset(Log().commit(7, **in_transaction(9)).commit(8).end(9, COMMIT).load()) == 8
    assert offset(Log().commit(7, **in_transaction(9)).forget().end(9, COMMIT).load()) is None


def test_of_two_transactions_the_later_record_wins():
    log = Log().commit(7, **in_transaction(1)).commit(8, **in_transaction(2))
    assert offset(log.end(2, COMMIT).end(1, COMMIT).load()) == 8
    log = Log().commit(7, **in_transaction(1)).commit(8, **in_transaction(2))
    assert offset(log.end(1, COMMIT).end(2, COMMIT).load()) == 8
    log = Log().commit(7, **in_transaction(1)).commit(8, **in_transaction(2))
    assert offset(log.end(2, ABORT).end(1, COMMIT).load()) == 7


def test_markers_of_nothing_and_emptied_ones():
    log = Log().commit(1).end(5, COMMIT)
    log.add(producer_id=5, transactional=True, control=True)
    assert offset(log.load()) == 1


def test_records_that_are_not_ours(caplog):
    caplog.set_level("INFO")
    loaded = Log().add((b"\x00\x63\x00\x01g", b"x"), (None, b"y")).commit(1).load()
    assert (loaded.skipped, loaded.broken, offset(loaded)) == (2, 0, 1)
    assert "left 2 records" in caplog.text


def test_records_that_cannot_be_read(caplog):
    log = Log().commit(1)
    log.add((offset_key("g", "t", 0), b"\x00\x09??"), (b"\x00\x02\x7f\xff", b""), (group_key("g"), b"\x00\x03"))
    log.commit(2, partition=1)
    loaded = log.load()
    assert loaded.broken == 3
    assert (offset(loaded), offset(loaded, 1)) == (1, 2)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "offset 1 " in caplog.text


def test_old_versions_of_keys_and_values():
    key = b"\x00\x00" + offset_key("g", "t", 0)[2:]
    value = b"\x00\x00" + (5).to_bytes(8, "big") + b"\x00\x01m" + (9).to_bytes(8, "big")
    loaded = Log().add((key, value)).load()
    assert loaded.offsets.get("g", "t", 0) == OffsetAndMetadata(5, -1, "m", 9)
