"""Records from an offset to the high watermark, counted block by block, against reading all of them."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from support.cleaning import CleaningWorld, Producer, data_records, keyed
from tidelog.storage.log.record_counts import RecordCounts

KEYS = st.binary(min_size=1, max_size=1)
STEP = st.one_of(
    st.tuples(st.just("put"), st.lists(KEYS, min_size=1, max_size=5), st.sampled_from([0, 1, 4])),
    st.tuples(st.just("send"), st.lists(KEYS, min_size=1, max_size=3), st.just(0)),
    st.tuples(st.just("end"), st.booleans(), st.just(0)),
    st.tuples(st.just("clean"), st.none(), st.just(0)),
    st.tuples(st.just("ask"), st.floats(0, 1), st.booleans()),
)


@settings(max_examples=120, deadline=None)
@given(st.lists(STEP, max_size=40), st.integers(1, 400), st.integers(61, 500))
def test_a_count_is_what_a_reader_would_be_handed(
    steps: list[tuple[str, object, object]], block_bytes: int, window_bytes: int
) -> None:
    """Holes of compaction, empty batches, markers, compressed batches, offsets in the middle of a batch, cleaning between two
    questions, and questions that run out of time."""
    world = CleaningWorld()
    world.start(segment_bytes=2000)
    log, producer = world.log(), Producer(7)
    counts = RecordCounts(block_bytes, window_bytes)
    for kind, what, how in steps:
        match kind:
            case "put":
                keyed(log, *((key, b"v" * 20) for key in what), compression=how)  # type: ignore[attr-defined]
            case "send":
                producer.send(log, *((key, b"t") for key in what))  # type: ignore[attr-defined]
            case "end":
                producer.end(log, commit=bool(what))
            case "clean":
                world.roll_and_clean()
            case _:
                offset = round(float(what) * log.log_end_offset)  # type: ignore[arg-type]
                expected = sum(offset <= record.offset < log.high_watermark for record in data_records(log))
                asked = 0
                in_haste = bool(how)
                while (found := counts.count(log, offset, lambda in_haste=in_haste: in_haste)) is None:  # type: ignore[misc]
                    asked += 1
                    assert asked <= log.size, "each question must come further"
                assert found == expected
                if random.Random(asked).random() < 0.5:
                    counts.forget_others()
    world.stop()
