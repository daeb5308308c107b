from __future__ import annotations

import json

import pytest
from support.cleaning import CleaningWorld, put
from support.scrubs import damage, status
from tidelog.broker.cleaning import why
from tidelog.broker.cleaning.scrub_facts import ScrubFacts
from tidelog.broker.cleaning.why import why_partition, why_topic
from tidelog.cli.why import picture
from tidelog.storage.segment.names import Hole


@pytest.fixture
def cleaned() -> CleaningWorld:
    made = CleaningWorld()
    made.start(segment_bytes=200, min_cleanable_dirty_ratio=0.99)
    for number in range(20):
        put(made.log(), f"k{number}", "x" * 20)
    made.log().roll()
    made.clean_all()
    for number in range(6):
        put(made.log(), f"k{number}", "x" * 20)
    return made


def answer(cleaned: CleaningWorld) -> dict[str, object]:
    return why_topic(
        "t",
        [cleaned.log()],
        cleaned.cleaners,
        is_cleaner_enabled=True,
        cleaner_backoff_ms=15_000,
        retention_check_ms=300_000,
    )


def test_each_segment_is_there_with_its_first_reason(cleaned: CleaningWorld) -> None:
    found = json.loads(json.dumps(answer(cleaned)))
    assert (found["topic"], found["cleanerBackoffMs"], found["retentionCheckIntervalMs"]) == ("t", 15_000, 300_000)
    (partition,) = found["partitions"]
    segments = partition["segments"]
    assert [segment["baseOffset"] for segment in segments] == [one.base_offset for one in cleaned.log().segments]
    assert [segment["endOffset"] for segment in segments][-1] == 26
    assert {segment["section"] for segment in segments} == {"clean", "dirty", "active"}
    dirty = next(segment for segment in segments if segment["section"] == "dirty")
    assert dirty["reason"] == dirty["setting"] == "min.cleanable.dirty.ratio"
    assert dirty["value"] == partition["minCleanableDirtyRatio"] == 0.99
    assert dirty["reasons"][0]["facts"]["dirtyRatio"] == partition["dirtyRatio"] == pytest.approx(6 / 26, abs=0.1)
    assert dirty["reasons"][0]["facts"]["dirtyBytes"] == partition["dirtyBytes"]
    assert segments[-1]["reason"] == "active"
    assert partition["nextMs"] == segments[-1]["untilMs"] == cleaned.time.milliseconds() + 604_800_000 + 1
    assert (partition["firstDirtyOffset"], partition["logEndOffset"], partition["inWork"]) == (20, 26, False)


def test_what_was_lost_to_damage_is_told(cleaned: CleaningWorld) -> None:
    (partition,) = answer(cleaned)["partitions"]  # type: ignore[misc,attr-defined]
    assert partition["holes"] == []
    cleaned.log().local.holes = (Hole(0, 0, 3, 5), Hole(20, 70, 21, 21))
    found = json.loads(json.dumps(answer(cleaned)))
    assert found["partitions"][0]["holes"] == [
        {"firstOffset": 3, "lastOffset": 5},
        {"firstOffset": 21, "lastOffset": 21},
    ]
    assert "  lost to damage: offsets 3–5, 21–21" in picture(found)


def test_an_answer_is_bounded(cleaned: CleaningWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(why, "MAX_SEGMENTS", 3)
    (partition,) = answer(cleaned)["partitions"]  # type: ignore[misc,attr-defined]
    bases = [one.base_offset for one in cleaned.log().segments]
    assert [segment["baseOffset"] for segment in partition["segments"]] == [*bases[:2], bases[-1]]
    assert partition["segmentsOmitted"] == len(bases) - 3


def test_a_topic_that_is_not_compacted_has_no_ratio(cleaned: CleaningWorld) -> None:
    from tidelog.config.log_config import LogConfig

    cleaned.log().update_config(LogConfig(segment_bytes=200, segment_index_bytes=4096))
    partition = why_partition(cleaned.log(), cleaned.cleaners, is_cleaner_enabled=True)
    assert (partition["cleanupPolicy"], partition["dirtyRatio"]) == ("delete", None)
    assert partition["segments"][0]["reason"] == partition["segments"][0]["setting"] == "retention.ms"


def test_damage_is_told_of_its_partition_bounded_over_all(
    cleaned: CleaningWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why, "MAX_DAMAGE", 3)
    cleaned.log("t", 1)
    found = [damage(position=61 + number) for number in range(2)] + [damage("t", 1, position=n) for n in range(4)]
    directory = cleaned.log().directory.rpartition("/")[0]
    told = why_topic(
        "t",
        [cleaned.log(), cleaned.log("t", 1)],
        cleaned.cleaners,
        is_cleaner_enabled=True,
        cleaner_backoff_ms=1,
        retention_check_ms=1,
        scrub=ScrubFacts([status(found, directory=directory)]),
    )
    first, second = told["partitions"]
    assert [one["position"] for one in first["damage"]] == [61, 62]
    assert [one["position"] for one in second["damage"]] == [0]
    assert (first["damageOmitted"], second["damageOmitted"]) == (0, 3)
    assert first["scrub"]["state"] == "reading"
    lines = picture(told)
    assert "  closed segments are read to look for damage for the first time: 50 % of their directory so far" in lines
    assert "  damaged: 3 more places" in lines
