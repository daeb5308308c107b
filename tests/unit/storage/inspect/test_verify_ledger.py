from __future__ import annotations

import pytest
from support.cleaning import CleaningWorld, put
from support.fake_filesystem import FakeFileSystem
from support.logs import ROOT
from tidelog.storage.inspect.verify import verify
from tidelog.storage.inspect.verify_partition import LedgerCheck
from tidelog.storage.inspect.verify_report import Report
from tidelog.storage.ledger.ledger import LEDGER_FILE, Ledger, SegmentExtent, decode, encode

PATH = f"{ROOT}/t-0/{LEDGER_FILE}"


def compacted() -> FakeFileSystem:
    world = CleaningWorld()
    world.start(segment_bytes=300)
    for number in range(40):
        put(world.log(), f"k{number % 4}", "x" * 20)
    world.log().roll()
    world.clean_all()
    put(world.log(), "k0", "active")
    world.stop()
    return world.fake


def found(system: FakeFileSystem) -> list[tuple[str, str]]:
    return [(finding.rule, finding.what) for finding in verify(system, ROOT) if finding.rule != "leftover"]


def test_a_sound_one_and_one_whose_swap_is_pending() -> None:
    system = compacted()
    assert found(system) == []
    ledger = decode(system.contents()[PATH])
    assert ledger is not None
    base = min(ledger.segments)
    old = [SegmentExtent(base, 40, 1000)]
    pending = ledger.withdrawn().begin_swap(old, [(base, 4, ledger.segments[base].size)], {})
    system.put(PATH, encode(pending))
    assert found(system) == []


@pytest.mark.damaged("a segment is replaced by one with other records")
def test_a_segment_that_has_other_records() -> None:
    system = compacted()
    ledger = decode(system.contents()[PATH])
    assert ledger is not None
    (base, (missing, size)) = next(iter(ledger.segments.items()))
    wrong = Ledger(checkpoint=40).counted(SegmentExtent(base, base + missing, size), 1)
    system.put(PATH, encode(wrong))
    faults = found(system)
    assert {rule for rule, _ in faults} == {"ledger-differs"}
    assert faults[0][1].startswith(f"segment {base} has ")


def test_who_cleaned_elsewhere_leaves_a_note() -> None:
    system = compacted()
    system.put(PATH, encode(Ledger()))
    assert found(system) == [("ledger-foreign", "segments are not those that it was kept for")]


def test_what_a_daemon_writes_meanwhile_is_left_to_it() -> None:
    system, report = FakeFileSystem(), Report()
    system.put(PATH, b"{")
    check = LedgerCheck(system, f"{ROOT}/t-0", report)
    system.put(PATH, encode(Ledger()))
    check.finish([SegmentExtent(0, 3, 9)], {0: 2}, None)
    assert list(report.drain()) == []
