"""What pages say of the scrubber: when all was last read, what is damaged, what to do; bounded, with nothing taken for markup."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.scrubs import MIB, damage, scrubber, status
from tidelog.broker.cleaning.scrub_facts import ScrubFacts
from tidelog.broker.http.console.pages.damage import (
    MAX_DAMAGE,
    damage_card,
    directory_damage,
    directory_facts,
    scrub_facts,
    whole_text,
)
from tidelog.storage.inspect.verify_report import RULES
from tidelog.storage.scrub.status import ScrubState, ScrubStatus

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
LOG: Any = SimpleNamespace(topic="t", partition=0, name="t-0", directory="/data/t-0")
OFF = status(directory="/off", state=ScrubState.OFF, bytes_per_second=0)


def text(parts: list[Any]) -> str:
    return "".join(str(part) for part in parts if part is not None)


def card_text(*statuses: ScrubStatus) -> str:
    return str(damage_card(ScrubFacts(statuses), LOG))


@pytest.mark.parametrize(
    ("statuses", "said"),
    [
        ([], "never"),
        ([status(state=ScrubState.OFF, done_bytes=0, total_bytes=0)], "not yet, 0 % so far"),
        ([OFF], "never (tidelog.log.scrub.bytes.per.second)"),
        ([status()], "not yet, 50 % so far"),
        ([status(done_bytes=0, total_bytes=0)], "not yet, 0 % so far"),
        ([status(done_bytes=1999, total_bytes=2000)], "not yet, 99 % so far"),
        ([status(done_bytes=12 * MIB)], "not yet, 100 % so far"),
        ([status(whole_ms=NOW_MS - 3 * DAY_MS)], "2023-11-11 22:13:20, 3 days ago"),
        ([status(whole_ms=NOW_MS), status(whole_ms=NOW_MS - 9 * DAY_MS)], "2023-11-05 22:13:20, 9 days ago"),
        ([status(whole_ms=NOW_MS), status(done_bytes=MIB)], "not yet, 10 % so far"),
        ([OFF._replace(whole_ms=NOW_MS - 40 * DAY_MS)], "2023-10-05 22:13:20, 40 days ago"),
    ],
)
def test_when_all_was_last_read_is_when_the_last_directory_was(statuses: list[ScrubStatus], said: str) -> None:
    assert whole_text(statuses, NOW_MS) == said


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (OFF, "off (tidelog.log.scrub.bytes.per.second)"),
        (status(state=ScrubState.OFF), "it begins soon"),
        (status(), "now, up to 1.0 MB/s"),
        (status(state=ScrubState.WAITING), "the next pass begins later"),
        (status(state=ScrubState.FAILED, reason="EIO"), "failed: EIO"),
    ],
)
def test_what_the_scrubber_of_a_directory_does(found: ScrubStatus, said: str) -> None:
    pairs = directory_facts(found, NOW_MS + 7_200_000)
    assert pairs[0] == ("read for damage", said)
    passes = [str(value) for name, value in pairs if name == "this pass, begun 2 hours ago"]
    if found.state is ScrubState.READING:
        assert "5.0 MiB of 10.0 MiB" in passes[0]
    else:
        assert passes == []


def test_a_partition_without_damage_has_no_card() -> None:
    assert damage_card(ScrubFacts([status([damage("u"), damage("t", 1)])]), LOG) is None


def test_each_remedy_is_said_once() -> None:
    indexes = [damage(file="00000000000000000000.index", rule="index-position", position=8 * n) for n in range(3)]
    said = card_text(status([damage(), damage(position=5000), *indexes]))
    assert "2 damaged files. " in said
    assert said.count(RULES["batch-crc"].remedy) == 1
    assert said.count("What to do: ") == 2


def test_what_is_mended_is_said_to_be_so() -> None:
    said = card_text(status([damage(still_there=False)]))
    assert "What was damaged is mended." in said
    assert '<span class="badge good">mended</span>' in said
    assert "What to do" not in said


def test_ten_thousand_damages_are_a_bounded_page_and_a_count() -> None:
    found = [damage(position=61 + number) for number in range(10_000)]
    card, directory = card_text(status(found)), text(directory_damage(status(found, omitted=5)))
    assert card.count("<tr>") == directory.count("<tr>") == MAX_DAMAGE + 1
    assert f"{10_000 - MAX_DAMAGE:,} more places" in card
    assert f"{10_005 - MAX_DAMAGE:,} more places" in directory


def test_a_directory_links_to_its_partitions() -> None:
    assert directory_damage(status()) == []
    said = text(directory_damage(status([damage("a.b", 7)])))
    assert '<a href="/topics/a.b/7">a.b-7</a>' in said
    assert "1 damaged file. " in said


def test_what_is_told_of_a_damage_is_no_markup() -> None:
    said = card_text(status([damage(detail="<img src=x onerror=alert(1)>", file="<b>.log")]))
    assert "<img" not in said
    assert "<b>" not in said


def test_the_state_of_the_console_is_asked_for_statuses() -> None:
    state: Any = SimpleNamespace(services=SimpleNamespace(scrubber=scrubber(status(), OFF)))
    assert [one.directory for one in scrub_facts(state).statuses] == ["/data", "/off"]
