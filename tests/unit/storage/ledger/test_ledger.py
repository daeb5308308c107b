"""Single steps; any history of them is tests/property/test_ledger.py."""

from __future__ import annotations

import json

import pytest
from tidelog.storage.ledger.ledger import Entry, Ledger, Pending, SegmentExtent, decode, encode

THREE = [SegmentExtent(5, 10, 100), SegmentExtent(10, 20, 200), SegmentExtent(20, 22, 20)]


def test_a_log_without_a_file_is_whole_and_what_lies_before_it_is_retentions() -> None:
    ledger = Ledger().gone(5)
    assert ledger.removed == {"retention": 5}
    assert (ledger.appended(22), ledger.live(22)) == (22, 17)
    assert ledger.is_balanced


def test_a_swap_is_booked_when_it_is_confirmed() -> None:
    ledger = (
        Ledger().gone(5).begin_swap(THREE[:2], [(5, 3, 90), (12, 4, 95)], {"superseded": 7, "keyless": 0, "aborted": 1})
    )
    assert ledger.pending == Pending(
        20, {5: 100, 10: 200}, {5: Entry(4, 90), 12: Entry(4, 95)}, {"superseded": 7, "aborted": 1}
    )
    assert ledger.live(22) == 17
    done = ledger.confirmed()
    assert done.removed == {"retention": 5, "superseded": 7, "aborted": 1}
    assert (done.live(22), done.is_balanced) == (9, True)
    assert done.live_of(SegmentExtent(5, 12, 90)) == 3
    assert ledger.withdrawn() == Ledger().gone(5)


def test_what_was_missing_before_a_pass_and_no_cause_tells_went_elsewhere() -> None:
    ledger = Ledger(first=5, begin=5).begin_swap(THREE[:1], [(5, 2, 90)], {"superseded": 2}).confirmed()
    assert ledger.removed == {"superseded": 2, "elsewhere": 1}


@pytest.mark.parametrize(
    ("sizes", "is_done"),
    [({5: 100, 10: 200}, False), ({5: 90}, True), ({}, True), ({10: 200}, False), ({5: 100}, False)],
)
def test_the_directory_shows_whether_a_swap_came_about(sizes: dict[int, int], is_done: bool) -> None:
    ledger = Ledger(first=5, begin=5).begin_swap(THREE[:2], [(5, 8, 90)], {"superseded": 7})
    here = [SegmentExtent(base, 0, size) for base, size in sizes.items()]
    assert ledger.resolved_swap([*here, THREE[2]]) == (ledger.confirmed() if is_done else ledger.withdrawn())


def test_where_names_and_sizes_are_the_same_only_a_count_tells() -> None:
    ledger = Ledger(first=5, begin=5)
    assert ledger.begin_swap(THREE[:1], [(5, 3, 100)], {"aborted": 2}).resolved_swap(THREE) is None
    assert ledger.begin_swap(THREE[:1], [(5, 5, 100)], {}).resolved_swap(THREE) == ledger


def test_what_goes_with_its_segment_has_two_causes() -> None:
    ledger = Ledger().counted(SegmentExtent(0, 10, 50), 4).counted(SegmentExtent(20, 30, 50), 9)
    gone = ledger.begin_deletion(15).gone(25)
    assert gone.removed == {"elsewhere": 7, "delete-records": 9, "retention": 9}
    assert gone.is_balanced
    assert ledger.begin_deletion(0).gone(10).removed == {"elsewhere": 7, "retention": 4}
    assert ledger.begin_deletion(99).gone(10).removed == {"elsewhere": 7, "delete-records": 4}
    assert gone.gone(25) is gone


def test_a_cut_gives_offsets_out_again() -> None:
    ledger = Ledger().counted(SegmentExtent(0, 10, 50), 4).counted(SegmentExtent(10, 20, 50), 9).at(20)
    cut = ledger.cut(5, 0, 3)
    assert (cut.appended(5), cut.live(5), cut.removed) == (9, 2, {"elsewhere": 7})
    assert cut.is_balanced
    assert (cut.reused, cut.checkpoint) == (4, 5)
    assert ledger.cut(5, 0, 0).segments == {}


def test_a_count_replaces_all_that_was_known() -> None:
    ledger = Ledger(first=5, begin=5).begin_swap(THREE[:1], [(5, 3, 90)], {"superseded": 2}).confirmed()
    found = ledger.recounted(THREE, {5: 3, 10: 6, 20: 2})
    assert found.removed == {"superseded": 2, "elsewhere": 4}
    assert found.segments == {5: Entry(2, 100), 10: Entry(4, 200)}
    back = found.gone(20).recounted(THREE, {5: 3, 10: 6, 20: 2})
    assert (back.live(22), back.is_balanced) == (11, True)


FULL = (
    Ledger(first=5, begin=5)
    .counted(THREE[0], 4)
    .begin_deletion(3)
    .begin_swap(THREE[:2], [(5, 7, 90)], {"tombstone": 1})
    .at(20)
)


def test_the_file() -> None:
    assert decode(encode(FULL)) == FULL
    assert json.loads(encode(FULL)) == {
        "version": 1, "begin": 5, "first": 5, "reused": 0, "checkpoint": 20, "deleting": 3,
        "removed": {"elsewhere": 1}, "segments": {"5": [1, 100]},
        "pending": {"end": 20, "old": {"5": 100, "10": 200}, "new": {"5": [8, 90]}, "removed": {"tombstone": 1, "elsewhere": 6}},
    }  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{}", b'{"version":2}', b"[" * 100_000, b"\xff",
        encode(FULL).replace(b'"begin":5', b'"begin":"x"'), encode(FULL).replace(b'"begin":5', b'"begin":6'),
        encode(FULL).replace(b'"begin":5', b'"begin":true'), encode(FULL).replace(b"[1,100]", b"[1]"),
        encode(FULL).replace(b'"5":100,"10":200', b""), encode(FULL).replace(b'"5":[1', b'"x":[1'),
        encode(FULL).replace(b":20", b":99999999999999999999"),
    ],
)  # fmt: skip
def test_what_is_not_understood_or_does_not_add_up(data: bytes) -> None:
    assert decode(data) is None
