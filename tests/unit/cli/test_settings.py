"""The table of settings, and one of them explained."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tidelog.cli.main import main
from tidelog.cli.settings import overview
from tidelog.config.definitions import BROKER_SETTINGS, HONOURED_BROKER, HONOURED_TOPIC, TOPIC_SETTINGS


def test_the_table_has_a_line_for_each_setting_that_users_set() -> None:
    listed = {tuple(line.split()[:3]) for line in overview()[1:-2]}
    expected = {
        (kind, row.name, row.type.name.lower())
        for kind, rows in (("broker", HONOURED_BROKER), ("topic", HONOURED_TOPIC))
        for row in rows
        if not row.internal
    }
    assert listed == expected


@pytest.mark.parametrize("name", sorted({*BROKER_SETTINGS, *TOPIC_SETTINGS}))
def test_every_setting_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", name]) == 0
    out = capsys.readouterr().out
    words = " ".join(out.split())
    for table in (BROKER_SETTINGS, TOPIC_SETTINGS):
        if row := table.get(name):
            assert " ".join(row.doc.split()) in words
            assert " ".join(row.why_different.split()) in words
            assert " ".join(row.allowed_text().split()) in words
    page = (Path(__file__).resolve().parents[3] / "docs" / "SETTINGS.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#### (\w+)$", page, flags=re.MULTILINE)  # without dots a heading's own anchor is the name
    anchors = {*re.findall(r'<a id="([^"]+)">', page), *headings, "taken-and-without-effect", "refused"}
    linked = re.findall(r"docs/SETTINGS\.md#(\S+)", out)
    assert linked
    assert set(linked) <= anchors


def test_one_has_its_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "log.segment.bytes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "log.segment.bytes (broker's)"
    facts = dict(line.strip().split("  ", 1) for line in lines[1:] if line[2] != " ")
    assert {name: text.strip() for name, text in facts.items() if name not in ("what it does", "not as in Kafka")} == {
        "type": "int", "default": "1073741824", "allowed": "14 … 2147483647", "changes": "while the daemon runs",
        "topics have it as": "segment.bytes", "environment": "TIDELOG_LOG_SEGMENT_BYTES",
        "documentation": "docs/SETTINGS.md#log.segment.bytes",
    }  # fmt: skip


def test_a_name_that_both_have_is_explained_twice_and_json_tells_them_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "min.insync.replicas"]) == 0
    assert capsys.readouterr().out.count("min.insync.replicas (") == 2
    assert main(["settings", "--json", "min.insync.replicas"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [list(found[kind]) for kind in ("broker", "topic")] == [["min.insync.replicas"]] * 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["num.partition"],
            "there is no setting num.partition; did you mean num.partitions?\n"
            "tidelog: see docs/SETTINGS.md#num.partitions, or `tidelog settings num.partitions`",
        ),
        (["xyzzy"], "there is no setting xyzzy (`tidelog settings` lists them)"),
        (["--sample", "num.partitions"], "--sample prints all settings: leave out the names"),
    ],
)
def test_what_is_wrong_is_one_line_and_where_to_read(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["settings", *arguments]) == 1
    assert capsys.readouterr() == ("", f"tidelog: {said}\n")
