"""Promise: a count is told with its noun as people say it: 1 partition, 2 partitions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.documentation import ROOT
from tidelog.cli.clean import picture
from tidelog.cli.support.output import plural, written

#: What the command line and the console show to people.
SHOWN = sorted(
    path.relative_to(ROOT) for folder in ("cli", "broker/http/console") for path in (ROOT / folder).rglob("*.py")
)
_NOUNS = (
    r" (more )?(access rules?|batch(es)?|bytes?|connections?|cuts?|days?|files?|groups?|hours?|members?|messages?|minutes?"
    r"|failures?|faults?|notes?|offsets?|partitions?|places?|problems?|producers?|records?|segments?|settings?|topics?|transactions?|users?|warnings?)\b"
)


def counted(source: str) -> Iterator[str]:
    """Counts in f-strings whose noun is written beside them, whatever the count is. A number with a fraction, and a bound that
    is a constant, have a plural."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, text in zip(node.values, node.values[1:], strict=False):
            if not (isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant)):
                continue
            spec = ast.unparse(value.format_spec) if value.format_spec is not None else ""
            if re.search("[fg]['\"]$", spec) or (isinstance(value.value, ast.Name) and value.value.id.isupper()):
                continue
            if re.match(_NOUNS, str(text.value)):
                yield ast.unparse(node)


@pytest.mark.parametrize("path", SHOWN, ids=str)
def test_no_noun_is_in_the_plural_whatever_its_count(path: Path) -> None:
    assert list(counted((ROOT / path).read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('f"{count} partitions"', True), ('f"in {len(x):,} more segments."', True), ('f"{a}{b} bytes"', True),
        ('f"{count:.1f} days"', False), ('f"{MOST} bytes"', False), ('f"{plural(n, noun)} in all"', False),
        ('f"{name} partitioned"', False),
    ],
)  # fmt: skip
def test_such_a_noun_is_found(source: str, *, found: bool) -> None:
    assert bool(list(counted(source))) is found


def test_one_and_many() -> None:
    assert [plural(count, "partition") for count in (0, 1, 2000)] == ["0 partitions", "1 partition", "2,000 partitions"]
    assert [written(count) for count in (0, 1, 2)] == [
        "0 records are written",
        "1 record is written",
        "2 records are written",
    ]


def test_a_topic_of_one_partition_is_cleaned_in_one_partition() -> None:
    state = {
        "topic": "t", "state": "done", "partitions": 1, "partitionsDone": 1, "startedMs": 1000, "finishedMs": 2000,
        "errors": {}, "removed": {"superseded": 1}, "removedBytes": 1, "byPartition": {},
    }  # fmt: skip
    lines = picture(state)
    assert lines[0] == "t: 1 partition in 1.00 s"
    assert lines[-1].endswith("1  1 byte")
    assert picture(state | {"state": "running"}) == ["t: running, 1 of 1 partition done"]
