from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.http.console.record_text import as_text, brief, hex_dump, json_lines, whole

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, st.sampled_from([None, 1]), st.booleans())
def test_json_by_lines_is_the_same_json(value: Any, indent: int | None, ascii_only: bool) -> None:
    """Its tokens are those that were there: nothing is rounded, sorted or left out."""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    lines = json_lines(text)
    if not isinstance(value, dict | list):
        assert lines is None
        return
    assert lines is not None
    assert json.loads(lines) == value
    assert [one for one in lines if not one.isspace()] == [one for one in text if not one.isspace()]


def test_json_keeps_what_a_parser_would_lose() -> None:
    text = '{"a":1.0e5,"a":100000000000000000000000001,"b":[],"c":{ },"d":"x{,:\\"}"}'
    assert json_lines(text) == (
        '{\n  "a": 1.0e5,\n  "a": 100000000000000000000000001,\n  "b": [],\n  "c": {},\n  "d": "x{,:\\"}"\n}'
    )


@pytest.mark.parametrize(
    "text", ["", "5", '"x"', "{", "[1,]", "nothing", "[" * 50_000, "[" * 40 + "]" * 40, '{"a":1} x']
)
def test_what_is_no_json_or_too_deep(text: str) -> None:
    assert json_lines(text) is None


@given(st.binary(max_size=300))
def test_any_bytes_can_be_shown_and_hide_nothing(data: bytes) -> None:
    for shown in (brief(data, 20), whole(data, 100)):
        assert shown.text.replace("\n", "").replace("\t", "").isprintable()
        assert shown.kind in ("empty", "text", "hex", "JSON")
    assert brief(data, 20).text.count("\n") == 0
    assert len(brief(data, 20).text) <= 20 * 10
    text = as_text(data)
    assert text is None or text.encode() == data


@given(st.text(min_size=1, max_size=100), st.integers(1, 40))
def test_a_text_that_is_cut_is_its_beginning(text: str, characters: int) -> None:
    data = text.encode()
    if as_text(data) is None:
        return
    shown = brief(data, characters)
    assert shown.kind == "text", "never hex because a character was cut in two"
    assert shown.is_cut == (len(text) > characters)


def test_kinds() -> None:
    assert brief(None).kind == "null"
    assert brief(b"").kind == "empty"
    assert brief(b"caf\xc3\xa9").text == "café"
    assert brief(b"\xff\x00").text == "ff 00"
    assert brief(b"a\nb\tc").text == "a b c"
    assert whole(b'{"a":[1]}').kind == "JSON"
    assert whole(b"x" * 100, most=10) == ("text", "x" * 10, True)
    assert whole(b"\x00" * 100, most=80).is_cut
    assert hex_dump(bytes(range(60, 78))) == (
        "00000000  3c 3d 3e 3f 40 41 42 43  44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK\n"
        "00000010  4c 4d                                             LM"
    )
