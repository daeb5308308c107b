from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from support.cleaning import CleaningWorld, put
from support.scrubs import damage, status
from tidelog.broker.cleaning.scrub_facts import NOT_SCRUBBED, ScrubFacts
from tidelog.broker.cleaning.why import why_topic
from tidelog.cli import why
from tidelog.cli.main import main
from tidelog.cli.support import http_client
from tidelog.storage.inspect.verify_report import RULES
from tidelog.storage.scrub.status import ScrubState, ScrubStatus

LOG: Any = SimpleNamespace(topic="t", partition=0, directory="/data/t-0")


def answer(**settings: Any) -> Any:
    world = CleaningWorld()
    world.start(**({"segment_bytes": 200, "min_cleanable_dirty_ratio": 0.99} | settings))
    for rounds in (20, 6):
        for number in range(rounds):
            put(world.log(), f"k{number}", "x" * 20)
        if rounds == 20:
            world.log().roll()
            world.clean_all()
    content = why_topic(
        "t",
        [world.log()],
        world.cleaners,
        is_cleaner_enabled=True,
        cleaner_backoff_ms=15_000,
        retention_check_ms=300_000,
    )
    return json.loads(json.dumps(content))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answers with `answer` for topic `t`, with "no such topic" for any other; keeps the paths."""
    paths: list[str] = []

    def ask(address: tuple[str, int], method: str, path: str) -> Any:
        paths.append(path)
        if path.split("/")[2] != "t":
            raise http_client.HttpFailure(f"there is no topic '{path.split('/')[2]}'", 404)
        return answer()

    monkeypatch.setattr(http_client, "ask", ask)
    return paths


def test_a_log_that_nobody_has_counted() -> None:
    found = answer()
    found["partitions"][0]["ledger"] = None
    assert why.picture(found)[2].startswith("  what is left of it has not been counted yet: ")


def test_lines_are_aligned_and_the_last_says_where_settings_are_explained(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", "t"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].startswith("t-0  offsets 0 to 26, ")
    assert "(min.cleanable.dirty.ratio=0.99)" in lines[1]
    assert lines[2] == "  26 appended = 26 live"
    head = next(line for line in lines if line.split()[:2] == ["segment", "to"])
    rows = [line for line in lines if line[head.index("not") :].startswith(("cleaned", "deleted"))]
    # What holds for the whole topic is told once.
    shown = [reason for segment in answer()["partitions"][0]["segments"] for reason in segment["reasons"]]
    assert len(rows) == len([reason for reason in shown if reason["reason"] != "cleanup.policy"])
    assert "  No segment is deleted: cleanup.policy=compact, until cleanup.policy has delete in it." in lines
    dirty = next(line for line in rows if " dirty " in line)
    assert "min.cleanable.dirty.ratio=0.99, now 0.17" in dirty
    assert "more bytes are written and rolled" in dirty
    active = next(line for line in rows if "active (" in line)
    assert "active (segment.ms=604800000)" in active
    assert "2023-11-21 22:13:20 UTC (in 7 d); or " in active
    assert lines[-2] == "Looked at every 15 s by the cleaner, every 300 s by retention."
    assert lines[-1] == (
        "What the settings do: see docs/SETTINGS.md#cleanup.policy, docs/SETTINGS.md#min.cleanable.dirty.ratio, "
        "docs/SETTINGS.md#segment.ms, docs/SETTINGS.md#segment.bytes, or "
        "`tidelog settings cleanup.policy min.cleanable.dirty.ratio segment.ms segment.bytes`."
    )


#: With it no Kafka listener is asked for the nearest name.
HTTP = ("--http", "127.0.0.1:9404")


def test_json_is_the_answer_as_it_is(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "t", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == answer()


def test_a_partition_is_asked_for_where_no_topic_has_that_name(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", "t-0"]) == 0
    assert asked == ["/why/t-0", "/why/t/0"]
    assert main(["why", "no-such", *HTTP]) == 1
    assert main(["why", "no-1", *HTTP]) == 1
    assert capsys.readouterr().err == "tidelog: there is no topic 'no-such'\ntidelog: there is no topic 'no-1'\n"


def test_times_and_spans() -> None:
    assert why.time_text(0) == "1970-01-01 00:00:00 UTC"
    assert why.time_text(2**62) == f"{2**62} ms"
    assert [why.span_text(ms) for ms in (-1, 1, 1999, 2000, 7_200_000, 3 * 86_400_000)] == [
        "now", "in 1 ms", "in 1999 ms", "in 2 s", "in 2 h", "in 3 d",
    ]  # fmt: skip


def test_a_failure_says_its_cause() -> None:
    reason = {
        "reason": "uncleanable",
        "setting": None,
        "value": None,
        "untilMs": 5000,
        "event": "the next try",
        "facts": {"cause": "OSError: disk", "attempts": 3},
    }
    assert why.cause_text(reason) == "uncleanable"
    assert (
        why.until_text(reason, 0) == "1970-01-01 00:00:05 UTC (in 5 s); or the next try; failed 3 times: OSError: disk"
    )


def test_a_date_in_the_future_is_told() -> None:
    reason = {
        "reason": "retention.ms",
        "setting": "retention.ms",
        "value": 1000,
        "untilMs": 6001,
        "event": None,
        "facts": {"policy": "time", "newestMs": 5000, "futureMs": 4000},
    }
    assert why.until_text(reason, 1000) == (
        "1970-01-01 00:00:06 UTC (in 5 s); a record is dated 1970-01-01 00:00:05 UTC, in the future"
    )


@pytest.mark.parametrize(
    ("scrub", "line"),
    [
        (status(), "read to look for damage for the first time: 50 % of their directory so far"),
        (
            status(state=ScrubState.OFF, bytes_per_second=0),
            "not read to look for damage: tidelog.log.scrub.bytes.per.second=0",
        ),
        (status(state=ScrubState.FAILED, reason="EIO"), "not read to look for damage: EIO"),
    ],
)
def test_closed_segments_that_were_not_read_yet(scrub: ScrubStatus, line: str) -> None:
    (told,) = why.scrub_lines(json.loads(json.dumps(ScrubFacts([scrub]).describe(LOG, 9))))
    assert told == f"  closed segments are {line}"


def test_damage_is_told_with_what_to_do_and_when_all_was_read() -> None:
    index = damage(file="00000000000000000000.index", rule="index-position", position=-1, detail="d")
    found = status(
        [damage(), damage(position=900), index._replace(still_there=False)],
        whole_begun_ms=1_600_000_000_000, whole_ms=1_600_086_400_000,
    )  # fmt: skip
    lines = why.scrub_lines(json.loads(json.dumps(ScrubFacts([found]).describe(LOG, 9))))
    segment = "batch-crc, the checksum is not that of the bytes (it is 1, and the bytes have 2), found 2023-11-14 22:13:20 UTC"
    assert lines == [
        "  closed segments last read whole to look for damage: 2020-09-13 12:26:40 UTC to 2020-09-14 12:26:40 UTC",
        f"  damaged: 00000000000000000000.log at byte 61: {segment}",
        f"  damaged: 00000000000000000000.log at byte 900: {segment}",
        "  damaged: 00000000000000000000.index: index-position, an entry points where no batch begins (d), "
        "found 2023-11-14 22:13:20 UTC, mended since",
        f"    do: {RULES['batch-crc'].remedy}",
    ]


def test_of_a_log_whose_scrubber_is_not_known_nothing_is_said() -> None:
    assert why.scrub_lines(NOT_SCRUBBED.describe(LOG, 9)) == []
