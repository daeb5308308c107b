"""Messages between a cleaner thread and its process: each comes out as it went in, and nothing else is taken for one."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.cleaner.exceptions import CleaningAborted, CleaningError, PassProcessError
from tidelog.cleaner.kernel.results import FilterCounts
from tidelog.cleaner.process import messages
from tidelog.cleaner.process.messages import (
    HEAD,
    PART,
    Began,
    Done,
    Failed,
    Go,
    Limit,
    Message,
    Orders,
    Progress,
    ProtocolError,
    Ready,
    decode,
    encode,
)
from tidelog.cleaner.walk import BuildReport, FilterOrder, GroupReport, SegmentPart, WalkPlan
from tidelog.protocol.records.exceptions import CorruptRecordError, InvalidRecordError
from tidelog.storage.exceptions import CorruptIndexError, DataDirectoryError
from tidelog.storage.index.time_index import TimestampOffset
from tidelog.storage.index.transaction_index import AbortedTxn
from tidelog.storage.segment.swap import CleanedSegment

MESSAGES: list[Message] = [
    Ready(),
    Began(),
    Progress(1, 2, 3, 4, -1, 0.5, True),
    Go(-1),
    Limit(100),
    Done(),
    Failed("OSError", [28, "No space left on device", None]),
    BuildReport(-1, True, 5, 10, 0.5),
    Orders(None),
    Orders(FilterOrder(100, 2, 99, 0, 1_700_000_000_000, [(7, 42, 0), (2**62, -1, 3)])),
    GroupReport(0, 2, FilterCounts(superseded=3, records_read=5, records_kept=2), None, 0),
    GroupReport(
        0,
        2,
        FilterCounts(*range(19)),
        [CleanedSegment(0, 100, 1, TimestampOffset(5, 9), 2), CleanedSegment(7, 0, -1, TimestampOffset(-1, 7), 0)],
        100,
    ),
    WalkPlan(
        "t-0", "/data/t-0", [SegmentPart(0, 500, 6), SegmentPart(6, 0, 6)], 3, 6, 120, [AbortedTxn(7, 1, 4, 0)], bytes(range(16)),
        1_700_000_000_000, 86_400_000, 1 << 30, 10 << 20, 4096,
    ),
    WalkPlan("t-0", "/d\udcff/t-0", [], 0, 0, 0, [], b"\xff" * 16, 0, 0, 0, 0, 0),
]  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_each_comes_out_as_it_went_in(message: Message) -> None:
    frame = encode(message)
    assert HEAD.unpack_from(frame) == (len(frame) - HEAD.size,)
    found = decode(frame[HEAD.size :])
    assert found == message
    assert type(found) is type(message)


@given(st.binary())
def test_bytes_are_no_message(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(data)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=25,
)
NAMES = st.sampled_from(sorted({type(message).__name__ for message in MESSAGES}))


@given(NAMES, st.lists(VALUES, max_size=14))
def test_wrong_values_are_no_other_exception(name: str, values: list[object]) -> None:
    try:
        found = decode(json.dumps([name, *values]).encode())
    except ProtocolError:
        return
    if isinstance(found, Failed):
        try:
            assert isinstance(found.error(), Exception)
        except ProtocolError:
            return
    else:
        assert type(found).__name__ == name


@pytest.mark.parametrize(
    "error",
    [
        CleaningAborted("the log was truncated"),
        CleaningError("can't be"),
        CorruptRecordError("batch at 5"),
        CorruptIndexError("version 9"),
        InvalidRecordError("no key", 3),
        DataDirectoryError("/data", "is full", "make room"),
        MemoryError("of the map"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_keeps_its_class_and_text(error: Exception) -> None:
    found = Failed.of(error, "/data/t-0").error()
    assert type(found) is type(error)
    assert str(found) == str(error)


def test_an_error_of_the_system_keeps_its_class_and_gets_the_whole_path() -> None:
    found = Failed.of(FileNotFoundError(errno.ENOENT, "No such file", "0.log"), "/data/t-0").error()
    assert type(found) is FileNotFoundError
    assert (found.errno, found.filename) == (errno.ENOENT, "/data/t-0/0.log")
    assert str(Failed.of(OSError(errno.EIO, "Input/output error"), "/d").error()) == "[Errno 5] Input/output error"


def test_any_other_exception_is_a_defect_that_is_named() -> None:
    found = Failed.of(LookupError("no such thing"), "/data/t-0").error()
    assert type(found) is PassProcessError
    assert str(found) == "LookupError: no such thing"


@pytest.mark.parametrize("count", [0, 1, PART - 1, PART, PART + 1, 2 * PART, 5 * PART + 7])
def test_long_messages_are_written_in_parts(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of the encoder lets no other thread run: the loop would wait for all of a pass's producers or segments."""
    plan = WalkPlan(
        "t-0", "/data/t-0", [SegmentPart(n, 500, n + 1) for n in range(count)], 0, 6, 0,
        [AbortedTxn(n, n, n, n) for n in range(count)], bytes(16), 0, 0, 0, 0, 0,
    )  # fmt: skip
    orders = Orders(FilterOrder(100, 2, 99, 0, 0, [(n, n, 0) for n in range(count)]))
    whole, calls = messages._DUMP, list[int]()

    def counted(value: Any) -> str:
        calls.append(len(text := whole(value)))
        return text

    monkeypatch.setattr(messages, "_DUMP", counted)
    frames = [encode(message) for message in (plan, orders)]
    assert max(calls) < 40 * PART, "40 characters for each entry are more than they have"
    assert len(calls) < 3 * (count // PART + 1) + 40, "nor one for each entry"
    assert [decode(frame[HEAD.size :]) for frame in frames] == [plan, orders]
