"""The builder of batches from columns: Kafka's hash, where rows go, and what it refuses."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from support.batches import Row, binary, columns_of, murmur2, numbers
from tidelog.protocol.records._batches import BatchBuilder
from tidelog.protocol.records._batches import murmur2 as compiled
from tidelog.protocol.records.exceptions import RecordTooLargeError
from tidelog.protocol.records.record_batch import iterate_records, read_batch_header

NOW = 1_700_000_000_000
# Known to every client of Kafka; as signed numbers.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def builder(partitions: int = 1, **settings: Any) -> BatchBuilder:
    return BatchBuilder(partitions, itertools.cycle(range(partitions)).__next__, **settings)


def add(to: BatchBuilder, rows: list[Row], now: int = NOW) -> None:
    to.add(len(rows), **columns_of(rows), now=now)


@pytest.mark.parametrize(("key", "known"), KNOWN.items())
def test_keys_hash_as_kafkas_clients_hash_them(key: bytes, known: int) -> None:
    assert compiled(key) == murmur2(key) == known & 0xFFFFFFFF


def test_rows_go_where_they_say_else_by_key_else_all_to_one() -> None:
    one = builder(5)
    add(one, [Row(b"21", b"a"), Row(b"21", b"b", partition=4), Row(None, b"c"), Row(None, b"d"), Row(b"", b"e")])
    found = {
        record.value: partition
        for partition, _, data in one.take(True)
        for record in iterate_records(data, 0, len(data))
    }
    assert found == {
        b"a": (murmur2(b"21") & 0x7FFFFFFF) % 5,
        b"b": 4,
        b"c": 0,
        b"d": 0,
        b"e": (murmur2(b"") & 0x7FFFFFFF) % 5,
    }


def test_rows_without_a_key_change_partition_when_a_batch_is_full() -> None:
    one = builder(3, batch_bytes=1000)
    add(one, [Row(None, bytes(400))] * 5)
    assert [(partition, count) for partition, count, _ in one.take(True)] == [(0, 2), (1, 2), (2, 1)]


def test_timestamps_are_rounded_down_and_now_where_there_is_none() -> None:
    one = builder()
    add(one, [Row(None, b"", timestamp=us) for us in (1_999, -1, -1000, -1001, None)])
    ((_, _, data),) = one.take(True)
    assert [record.timestamp for record in iterate_records(data, 0, len(data))] == [1, -1, -1, -2, NOW]
    assert read_batch_header(data).max_timestamp == NOW


def test_sequences_go_on_per_partition() -> None:
    one = builder(2, producer_id=9, epoch=3, transactional=True)
    headers = []
    for _ in range(2):
        add(one, [Row(None, b"x", partition=p) for p in (0, 1, 1)])
        headers += [(partition, read_batch_header(data)) for partition, _, data in one.take(True)]
    assert [(p, h.base_sequence, h.record_count) for p, h in headers] == [(0, 0, 1), (1, 0, 2), (0, 1, 1), (1, 2, 2)]
    assert all((h.producer_id, h.producer_epoch, h.is_transactional) == (9, 3, True) for _, h in headers)


def test_a_record_that_is_too_large_is_refused_and_those_before_it_stay() -> None:
    one = builder(max_record=100)
    with pytest.raises(RecordTooLargeError, match=r"row 1 makes a record beyond the 100 bytes"):
        add(one, [Row(b"k", bytes(99)), Row(b"k", bytes(100))])
    assert [count for _, count, _ in one.take(True)] == [1]


@pytest.mark.parametrize("partition", [-1, 2, 2**31 - 1])
def test_a_partition_that_there_is_not_is_refused(partition: int) -> None:
    with pytest.raises(ValueError, match=rf"row 0 names partition {partition}; the topic has 0 to 1"):
        add(builder(2), [Row(None, b"", partition=partition)])


def test_buffers_that_are_not_the_rows_are_refused() -> None:
    good, beyond, backwards = binary([b"abc", b"d"]), b"\0\0\0\0\x03\0\0\0\x05\0\0\0", b"\0\0\0\0\x03\0\0\0\x01\0\0\0"
    for values in ((None, beyond, good[2], 0), (None, backwards, good[2], 0), (None, good[1][:-1], good[2], 0)):
        with pytest.raises(ValueError, match="positions"):
            builder().add(2, values, now=NOW)
    with pytest.raises(ValueError, match="validity"):
        builder().add(9, (b"\0", b"\0" * 40, b"", 0), now=NOW)
    with pytest.raises(ValueError, match="8 bytes for 2 rows of 8"):
        builder().add(2, good, timestamps=numbers([1], "q"), now=NOW)
    with pytest.raises(ValueError, match="from row -1 on"):
        builder().add(2, (*good[:3], -1), now=NOW)


def test_the_fingerprint_is_of_the_rows_and_not_of_their_order_or_batches() -> None:
    rows = [Row(b"k", b"v"), Row(None, b"v"), Row(b"k", None), Row(b"k", b"v", ((b"h", b"x"),)), Row(b"k", b"v")]
    prints = set()
    for order in itertools.permutations(rows):
        one = builder(3, batch_bytes=100)
        add(one, list(order))
        prints.add(one.fingerprint)
    assert len(prints) == 1
    for other in (
        rows[:-1],
        [*rows[:-1], Row(b"kv", b"")],
        [*rows[:-1], Row(b"k", b"v", partition=0)],
        [*rows[:-1], Row(b"k", b"v", timestamp=0)],
        [*rows[:-1], Row(b"k", b"v", ((b"hx", b""),))],
        [*rows[:-1], Row(b"k", b"v", ((b"h", None),))],
    ):
        one = builder(3)
        add(one, list(other))
        assert one.fingerprint not in prints
