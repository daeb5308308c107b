"""The changelog: its form, that nothing is told twice, and that metrics and commands which it names are there."""

from __future__ import annotations

import re
from itertools import combinations
from typing import NamedTuple

from support.documentation import DOCS, ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
#: Shares of words that two entries have in common, of the shorter one, from which on they are taken for the same.
ALIKE, LEAST_WORDS = 0.65, 6


class Entry(NamedTuple):
    line: int
    version: str
    kind: str
    theme: str
    text: str

    @property
    def words(self) -> frozenset[str]:
        return frozenset(re.findall(r"`[^`]+`|[\w.-]{4,}", self.text.lower()))


def entries(text: str) -> list[Entry]:
    found: list[Entry] = []
    version = kind = theme = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            version, kind, theme = line[3:], "", ""
        elif line.startswith("### "):
            kind, theme = line[4:], ""
        elif line.startswith("#### "):
            theme = line[5:]
        elif line.startswith("- "):
            found.append(Entry(number, version, kind, theme, line[2:]))
        elif line.startswith("  ") and found:
            found[-1] = found[-1]._replace(text=f"{found[-1].text} {line.strip()}")
    return found


def wrong_form(text: str) -> list[str]:
    """Lines that Keep a Changelog, or our division into themes, has otherwise."""
    lines = text.splitlines()
    found = []
    for number, line in enumerate(lines):
        before = lines[number - 1] if number else ""
        if line.startswith("#") and number and before:
            found.append(f"{number + 1}: no blank line above {line}")
        if before.startswith("#") and line:
            found.append(f"{number + 1}: no blank line below {before}")
        if line.startswith("- ") and not before and lines[number - 2][:2] in ("- ", "  "):
            found.append(f"{number + 1}: a blank line between entries")
        if line.startswith("### ") and line[4:] not in KINDS:
            found.append(f"{number + 1}: {line} is no kind of change")
    for version in {entry.version for entry in entries(text)}:
        kinds = list(dict.fromkeys(entry.kind for entry in entries(text) if entry.version == version))
        if kinds != [kind for kind in KINDS if kind in kinds]:
            found.append(f"{version}: {kinds}")
        themes = [
            re.findall(r"^#### (.*)$", part, re.MULTILINE) for part in re.split(r"^### ", text, flags=re.MULTILINE)
        ]
        found += [f"{version}: a theme stands twice among {of}" for of in themes if len(of) != len(set(of))]
    return found


def told_twice(text: str) -> list[tuple[int, int]]:
    """Lines of two entries that say much the same."""
    return [
        (one.line, other.line)
        for one, other in combinations(entries(text), 2)
        for both, least in [(len(one.words & other.words), min(len(one.words), len(other.words)))]
        if both >= LEAST_WORDS and both >= ALIKE * least
    ]


def test_it_keeps_its_form() -> None:
    assert wrong_form(TEXT) == []
    assert len(entries(TEXT)) > 200
    assert {entry.kind for entry in entries(TEXT)} <= set(KINDS)
    assert [entry for entry in entries(TEXT) if not entry.theme] == []


def test_nothing_is_told_twice() -> None:
    assert told_twice(TEXT) == []


def test_metrics_and_commands_that_it_names_are_there() -> None:
    metrics = (DOCS / "METRICS.md").read_text(encoding="utf-8")
    backup = (DOCS / "how-to/back-up.md").read_text(encoding="utf-8")
    named = {
        name
        for entry in entries(TEXT)
        if "Renamed" not in entry.text
        for name in re.findall(r"`(tidelog_\w+)", entry.text)
    }
    assert len(named) > 10
    # The fixture is a name of Python; those that end with a joint stand for several.
    lost = [name for name in named - {"tidelog_broker"} if name.rstrip("_") not in metrics + backup]
    assert lost == []
    commands = (DOCS / "COMMAND_LINE.md").read_text(encoding="utf-8")
    there = set(re.findall(r"^## ([a-z-]+)$", commands, re.MULTILINE))
    said = {word for entry in entries(TEXT) for word in re.findall(r"`tidelog ([a-z-]+)", entry.text)}
    assert len(there) > 15
    assert said - there == set()


def test_a_changelog_that_a_merge_has_doubled_is_found() -> None:
    once = "- The cleaner holds each batch's offsets against the batches and segments around it, with the cause.\n"
    again = "- The cleaner holds each batch's offsets against batches and segments around it, with its cause told.\n"
    head = "# Changelog\n\n## [Unreleased]\n\n"
    good = f"{head}### Added\n\n#### Cleaning\n\n{once}\n### Fixed\n\n#### Cleaning\n\n- Another one.\n"
    assert wrong_form(good) == []
    assert told_twice(good) == []
    assert told_twice(good + again) == [(9, 16)]
    assert wrong_form(good.replace("#### Cleaning\n\n- A", "#### Cleaning\n- A")) == [
        "14: no blank line below #### Cleaning"
    ]
    assert wrong_form(good + "\n- One more.\n") == ["17: a blank line between entries"]
    swapped = f"{head}### Fixed\n\n#### Cleaning\n\n{once}\n### Added\n\n#### Cleaning\n\n- Another one.\n"
    assert len(wrong_form(swapped)) == 1
    assert len(wrong_form(good + "\n#### Cleaning\n\n- Once more.\n")) == 1
