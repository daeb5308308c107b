"""Random logs of formats 0 and 1, wrappers and plain messages mixed, cleaned: a dict is the oracle."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tidelog.cleaner.kernel import mixed_formats as legacy
from tidelog.cleaner.kernel._kernel import OffsetMap, RecordFilter, Transactions
from tidelog.cleaner.kernel.results import Stop
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.legacy_record import build_legacy_set, iterate_legacy_messages, iterate_legacy_records
from tidelog.protocol.records.record_batch import Record

CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
SETS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(CODECS),
        st.lists(
            st.tuples(st.sampled_from([None, b"", b"a", b"b", b"c"]), st.sampled_from([None, b"", b"v", b"x" * 90])),
            min_size=1,
            max_size=5,
        ),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(SETS, st.booleans(), st.integers(1, 6), st.sampled_from([20, 300, 100_000]))
def test_the_last_record_of_each_key_survives_in_its_format(
    sets: list[tuple[int, Compression, list[tuple[bytes | None, bytes | None]], int]],
    retain_deletes: bool,
    entries: int,
    room: int,
) -> None:
    data = b""
    written: list[tuple[int, Record]] = []  # format and record
    offset = 0
    for magic, codec, pairs, gap in sets:
        offset += gap
        records = [Record(offset + n, 7000 + n if magic else -1, *pair) for n, pair in enumerate(pairs)]
        data += build_legacy_set(records, magic=magic, base_offset=offset, compression=codec)
        written += [(magic, record) for record in records]
        offset += len(records)

    map_ = OffsetMap(24 * entries, 1.0)
    map_.reset(bytes(16))
    step = legacy.build(map_, data, 0, len(data), 0, offset, Transactions())
    map_end = step.full_at if step.stopped is Stop.MAP_FULL else offset
    last: dict[bytes, int] = {}
    for _, record in written:
        if record.key is not None and record.offset < map_end:
            last[record.key] = record.offset
    assert len(last) <= entries
    assert map_.entries == len(last)
    expected = [
        (magic, record)
        for magic, record in written
        if record.offset >= map_end
        or (
            record.key is not None
            and last[record.key] == record.offset
            and (record.value is not None or retain_deletes)
        )
    ]

    mixed = legacy.MixedFilter(RecordFilter(map_, map_end, Transactions(), 1, 1), map_, map_end)
    mixed.retain_deletes = retain_deletes
    output = bytearray(room)
    survivors, position = b"", 0
    while position < len(data):
        filtered = mixed.filter(data, position, len(data), output)
        survivors += output[: filtered.produced]
        position += filtered.consumed
        if filtered.stopped is Stop.OUTPUT and not filtered.produced:
            output = bytearray(filtered.needed)
    left = [
        (message.magic, record)
        for message in iterate_legacy_messages(survivors)
        for record in iterate_legacy_records(message)
    ]
    assert left == expected
    counts = mixed.take_counts()
    assert (counts.records_read, counts.records_kept) == (len(written), len(expected))
    assert counts.records_read == counts.records_kept + counts.removed
