"""The decoder into columns gives, for any batches and any wish, what the records say that were put into them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.columns import Row, rows_of
from support.record_strategies import TIMESTAMPS, batch_arguments, records
from tidelog.protocol.records._columns import ColumnBuilder
from tidelog.protocol.records.attributes import TimestampType
from tidelog.protocol.records.builder import build_batch

MOST_US, LEAST_US = 2**63 - 1, -(2**63)


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[bytes], list[Row]]:
    """Batches with gaps between and within them, and their rows."""
    batches, rows, end = [], [], draw(st.integers(0, 100))
    for _ in range(draw(st.integers(0, 5))):
        content = draw(records(min_size=0, max_size=12))
        deltas = sorted(draw(st.sets(st.integers(0, 40), min_size=len(content), max_size=len(content))))
        kind, append_time = draw(st.sampled_from(TimestampType)), draw(st.integers(0, 2**41))
        last = end + max([*deltas, 0])
        batches.append(
            build_batch(
                content,
                base_offset=end,
                offsets=[end + delta for delta in deltas],
                last_offset=last,
                timestamp_type=kind,
                append_time=append_time,
                delete_horizon=draw(st.none() | st.integers(0, 2**41)),
                **draw(batch_arguments()),
            )
        )
        for record, delta in zip(content, deltas, strict=True):
            time = append_time if kind is TimestampType.LOG_APPEND_TIME else record.timestamp
            us = min(max(time * 1000, LEAST_US), MOST_US)
            rows.append(Row(end + delta, us, int(kind), record.key, record.value, record.headers))
        end = last + 1 + draw(st.integers(0, 9))
    return batches, rows


@given(
    logs(), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 200), st.integers(0, 200), TIMESTAMPS, st.data()
)
def test_columns_have_the_rows_that_are_wanted(
    log: tuple[list[bytes], list[Row]], keys: bool, values: bool, headers: bool, first: int, span: int, earliest: int,
    data: st.DataObject,
) -> None:  # fmt: skip
    batches, rows = log
    whole = data.draw(st.booleans())
    limits = {} if whole else {"first_offset": first, "end_offset": first + span, "min_timestamp": earliest}
    builder = ColumnBuilder(keys=keys, values=values, headers=headers, **limits)
    found: list[Row] = []
    for batch in batches:
        before, after = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
        buffer = bytes(before) + batch + bytes(after)
        builder.add_batch(buffer, before, before + len(batch))
        if data.draw(st.booleans()):
            found += rows_of(builder.take())
    found += rows_of(builder.take())
    wanted = [
        row._replace(
            key=row.key if keys else None, value=row.value if values else None, headers=row.headers if headers else ()
        )
        for row in rows
        if whole or (first <= row.offset < first + span and row.timestamp >= min(earliest * 1000, MOST_US))
    ]
    assert found == wanted
