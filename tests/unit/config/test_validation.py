from __future__ import annotations

import pytest
from tidelog.config.setting import Allowed, Setting, SettingType, Value, at_least, between, one_of, some_of
from tidelog.config.validation import validate

ROWS = {
    row.name: row
    for row in (
        Setting("flag", type=SettingType.BOOLEAN, default=True, doc=""),
        Setting("count", type=SettingType.INT, default=1, doc="", allowed=at_least(1)),
        Setting("level", type=SettingType.INT, default=-1, doc="", allowed=between(1, 9, also=(-1,))),
        Setting("small", type=SettingType.SHORT, default=1, doc=""),
        Setting("time", type=SettingType.LONG, default=1, doc="", allowed=at_least(-1)),
        Setting("ratio", type=SettingType.DOUBLE, default=0.5, doc="", allowed=between(0, 1)),
        Setting("word", type=SettingType.STRING, default="a", doc="", allowed=one_of("a", "b")),
        Setting("words", type=SettingType.LIST, default=("a",), doc="", allowed=some_of("a", "b")),
        Setting("items", type=SettingType.LIST, default=(), doc=""),
        Setting("some", type=SettingType.LIST, default=("x",), doc="", allowed=Allowed(at_least_one=True)),
        Setting("secret", type=SettingType.PASSWORD, default=None, doc="", allowed=one_of("sesame")),
        Setting(
            "name",
            type=SettingType.STRING,
            default=None,
            doc="",
            allowed=Allowed(pattern="^[a-z]+$", text="small letters"),
        ),
    )
}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("flag", "true", True),
        ("flag", " FALSE ", False),
        ("count", "+7", 7),
        ("count", "2147483647", 2**31 - 1),
        ("level", "-1", -1),
        ("level", "9", 9),
        ("time", "9223372036854775807", 2**63 - 1),
        ("ratio", "1e-1", 0.1),
        ("ratio", ".5", 0.5),
        ("word", "b", "b"),
        ("words", " b , a ,", ("b", "a")),
        ("items", "", ()),
        ("items", "x", ("x",)),
        ("name", "abc", "abc"),
    ],
)
def test_texts_become_values(name: str, text: str, value: Value) -> None:
    assert validate({name: text}, ROWS) == ({name: value}, [])


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("flag", "yes", "flag='yes' is neither true nor false; allowed: true or false"),
        ("flag", "1", "flag='1' is neither true nor false; allowed: true or false"),
        ("count", "1_000", "count='1_000' is not a whole number; allowed: 1 … 2147483647"),
        ("count", "1.0", "count='1.0' is not a whole number; allowed: 1 … 2147483647"),
        ("count", "", "count='' is not a whole number; allowed: 1 … 2147483647"),
        ("count", "٣", "count='٣' is not a whole number; allowed: 1 … 2147483647"),
        ("count", "0", "count='0' is out of range; allowed: 1 … 2147483647"),
        ("count", "2147483648", "count='2147483648' is out of range; allowed: 1 … 2147483647"),
        ("count", "9" * 5000, f"count='{'9' * 5000}' is out of range; allowed: 1 … 2147483647"),
        ("level", "0", "level='0' is out of range; allowed: -1 or 1 … 9"),
        ("small", "32768", "small='32768' is out of range; allowed: -32768 … 32767"),
        ("time", "-2", "time='-2' is out of range; allowed: -1 … 9223372036854775807"),
        ("ratio", "nan", "ratio='nan' is not a number; allowed: 0 … 1"),
        ("ratio", "1.01", "ratio='1.01' is out of range; allowed: 0 … 1"),
        ("ratio", "1e999", "ratio='1e999' is out of range; allowed: 0 … 1"),
        ("word", "c", "word='c' is not allowed; allowed: one of a, b"),
        ("words", "a,c", "words='a,c' is not allowed; allowed: one or more of a, b"),
        ("words", "", "words='' is not allowed; allowed: one or more of a, b"),
        ("some", " , ", "some=' , ' is not allowed; allowed: at least one"),
        ("secret", "open", "secret=(hidden) is not allowed; allowed: one of sesame"),
        ("name", "ABC", "name='ABC' is not allowed; allowed: small letters"),
    ],
)
def test_what_is_wrong_is_said_with_what_is_allowed(name: str, text: str, sentence: str) -> None:
    assert validate({name: text}, ROWS) == ({}, [sentence])


def test_all_problems_come_at_once_in_the_order_of_the_texts() -> None:
    _, problems = validate({"word": "c", "count": "0", "flag": "no", "ratio": "0.5"}, ROWS)
    assert [problem.partition("=")[0] for problem in problems] == ["word", "count", "flag"]
