"""What the scrubber found, in words and as JSON: by partition, bounded, with what to do."""

from __future__ import annotations

import html
import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scrubs import MIB, damage, scrubber, status
from tidelog.broker.cleaning.scrub_facts import (
    KINDS,
    NOT_SCRUBBED,
    ScrubFacts,
    damage_text,
    damaged_files,
    describe_damage,
    kind_of,
)
from tidelog.broker.http.console.pages.damage import damage_card
from tidelog.broker.monitoring.health import _damaged_files
from tidelog.cli.log.verify import print_findings
from tidelog.cli.why import scrub_lines
from tidelog.storage.inspect.verify_report import RULES, Finding
from tidelog.storage.scrub.status import ScrubDamage, ScrubState

FILES = {
    "00000000000000000000.log": "log",
    "00000000000000000007.index": "index",
    "00000000000000000007.timeindex": "timeindex",
    "00000000000000000007.txnindex": "txnindex",
    "00000000000000000007.snapshot": "snapshot",
    "leader-epoch-checkpoint": "other",
    "7.log": "other",
}
DAMAGE = st.builds(
    damage,
    st.sampled_from(["t", "u", "t-1"]), st.integers(0, 2), st.sampled_from(sorted(FILES)),
    rule=st.sampled_from(sorted(RULES)), position=st.integers(-1, 2**40), still_there=st.booleans(),
)  # fmt: skip


def log(topic: str, partition: int, directory: str = "/data") -> Any:
    return SimpleNamespace(topic=topic, partition=partition, directory=f"{directory}/{topic}-{partition}")


@given(st.lists(DAMAGE, max_size=30), st.lists(DAMAGE, max_size=10), st.integers(0, 12))
def test_each_partition_gets_its_own_damage_bounded_and_no_other(
    first: list[ScrubDamage], second: list[ScrubDamage], limit: int
) -> None:
    facts = ScrubFacts([status(first), status(second, directory="/other")])
    every = [*first, *second]
    for topic, partition in [(topic, partition) for topic in ("t", "u", "t-1", "none") for partition in range(4)]:
        mine = [found for found in every if (found.topic, found.partition) == (topic, partition)]
        content = json.loads(json.dumps(facts.describe(log(topic, partition), limit)))
        assert content["damage"] == [describe_damage(found) for found in mine[:limit]]
        assert len(content["damage"]) + content["damageOmitted"] == len(mine)
        there = [found for found in mine if found.still_there]
        assert facts.present.get((topic, partition), []) == there


@given(st.lists(DAMAGE, max_size=30))
def test_damaged_files_are_counted_once_each_by_kind(found: list[ScrubDamage]) -> None:
    paths = {one.path for one in found}
    oracle = {kind: sum(FILES[path.rpartition("/")[2]] == kind for path in paths) for kind in KINDS}
    assert damaged_files(found) == oracle


@given(DAMAGE)
def test_a_damage_names_file_and_remedy(found: ScrubDamage) -> None:
    content = describe_damage(found)
    assert content["file"] in FILES
    assert content["kind"] == FILES[content["file"]] == kind_of(found)
    assert content["file"] in damage_text(found)
    assert (content["position"] is None) == (found.position == -1)
    assert content["isMended"] is not found.still_there
    assert content["remedy"] == RULES[found.rule].remedy


@pytest.mark.parametrize(
    ("position", "place"), [(61, f"{next(iter(FILES))} at byte 61: "), (-1, f"{next(iter(FILES))}: ")]
)
def test_a_place_that_is_the_whole_file_has_no_byte(position: int, place: str) -> None:
    text = damage_text(damage(position=position))
    assert text == f"{place}the checksum is not that of the bytes (it is 1, and the bytes have 2)"


def test_the_status_is_that_of_the_logs_directory() -> None:
    other = status(
        directory="/other", state=ScrubState.FAILED, reason="input/output error", whole_begun_ms=5, whole_ms=9
    )
    facts = ScrubFacts([status(), other])
    assert facts.describe(log("t", 0), 9)["scrub"] == {
        "state": "reading", "reason": None, "wholeBegunMs": None, "wholeMs": None,
        "passDoneBytes": 5 * MIB, "passBytes": 10 * MIB, "bytesPerSecond": MIB,
    }  # fmt: skip
    assert facts.describe(log("t", 0, "/other"), 9)["scrub"] == {
        "state": "failed", "reason": "input/output error", "wholeBegunMs": 5, "wholeMs": 9,
        "passDoneBytes": 5 * MIB, "passBytes": 10 * MIB, "bytesPerSecond": MIB,
    }  # fmt: skip
    assert facts.describe(log("t", 0, "/elsewhere"), 9)["scrub"] is None
    assert NOT_SCRUBBED.describe(log("t", 0), 9) == {"scrub": None, "damage": [], "damageOmitted": 0}


@pytest.mark.parametrize("rule", sorted(rule for rule in RULES if RULES[rule].is_fault))
def test_everybody_who_tells_of_damage_tells_the_remedy_of_the_one_table(
    rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    remedy = RULES[rule].remedy
    found = damage(rule=rule)
    facts = ScrubFacts([status([found])])
    told = facts.describe(log("t", 0), 9)
    assert told["damage"][0]["remedy"] == remedy
    [problem] = _damaged_files(SimpleNamespace(scrubber=scrubber(status([found]))))  # type: ignore[arg-type]
    assert problem.text.endswith(f"; {remedy}")
    card = damage_card(facts, SimpleNamespace(topic="t", partition=0, directory="/data/t-0", name="t-0"))  # type: ignore[arg-type]
    assert card is not None
    assert f"What to do: {remedy}." in html.unescape(str(card))
    assert f"    do: {remedy}" in scrub_lines(told)
    options = SimpleNamespace(quiet=False, json=False)
    bar = SimpleNamespace(clear=lambda: None, done_bytes=0, elapsed_s=1.0)
    assert print_findings([Finding(rule, found.path, 0, "what")], options, bar, "batches") == 1  # type: ignore[arg-type]
    assert f"What to do: {remedy}.\n" in capsys.readouterr().out
