from __future__ import annotations

import sys

import pytest
from tidelog.config.setting import (
    Allowed,
    SettingType,
    at_least,
    between,
    describe,
    one_of,
    some_of,
    text_of,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (False, "false"),
        (-1, "-1"),
        (0.5, "0.5"),
        (sys.float_info.max, "1.7976931348623157E308"),  # Java's spelling
        (("compact", "delete"), "compact,delete"),
        ("producer", "producer"),
    ],
)
def test_values_are_written_as_kafka_writes_them(value: object, text: str | None) -> None:
    assert text_of(value) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "allowed", "phrase"),
    [
        (SettingType.INT, at_least(1), "1 … 2147483647"),
        (SettingType.LONG, at_least(0), "0 … 9223372036854775807"),
        (SettingType.SHORT, Allowed(), "-32768 … 32767"),
        (SettingType.INT, between(1, 9, also=(-1,)), "-1 or 1 … 9"),
        (SettingType.INT, between(1, 1), "1"),
        (SettingType.DOUBLE, between(0, 1), "0 … 1"),
        (SettingType.DOUBLE, at_least(0.5), "at least 0.5"),
        (SettingType.BOOLEAN, Allowed(), "true or false"),
        (SettingType.STRING, one_of("a", "b"), "one of a, b"),
        (SettingType.LIST, some_of("a", "b"), "one or more of a, b"),
        (SettingType.STRING, Allowed(), ""),
    ],
)
def test_what_is_allowed_reads_as_a_phrase(kind: SettingType, allowed: Allowed, phrase: str) -> None:
    assert describe(kind, allowed) == phrase
