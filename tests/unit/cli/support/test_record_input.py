"""From lines of an input to records: cut anywhere, with keys, headers, as JSON."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.cli.support.record_input import (
    InputError,
    Rows,
    bytes_of,
    headers_of,
    lines_of,
    row_maker,
    separator_of,
)
from tidelog.cli.support.record_output import json_of


class Trickle(io.RawIOBase):
    """A pipe that gives what it has in pieces of given sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data = data
        self._sizes = sizes
        self.given = 0

    def read1(self, size: int) -> bytes:
        count = min(self._sizes.pop(0) if self._sizes else size, size)
        taken, self._data = self._data[:count], self._data[count:]
        self.given += len(taken)
        return taken


def every(data: bytes, sizes: list[int], **options: int) -> list[bytes]:
    return [line for lines in lines_of(Trickle(data, sizes), **options) for line in lines]  # type: ignore[arg-type]


@given(st.lists(st.binary(max_size=8)), st.booleans(), st.lists(st.integers(1, 9)))
def test_every_line_comes_once_however_it_is_cut(values: list[bytes], is_ended: bool, sizes: list[int]) -> None:
    data = b"\n".join(values) + (b"\n" if is_ended else b"")
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()  # what follows the last line's end is no line
    assert every(data, sizes) == expected


@pytest.mark.parametrize("sizes", [[], [1] * 40, [5] * 8])
def test_a_line_without_an_end_is_refused_and_not_gathered(sizes: list[int]) -> None:
    stream = Trickle(b"a\nbb\n" + b"x" * 100_000, sizes + [7] * 100_000)
    found: list[bytes] = []

    def gather() -> None:
        for lines in lines_of(stream, 20):  # type: ignore[arg-type]
            found.extend(lines)

    with pytest.raises(InputError, match=r"^line 3: it is longer than 20 bytes"):
        gather()
    assert found == [b"a", b"bb"]
    assert stream.given < 200 or not sizes, "it was read to its end"


def test_keys_stand_before_the_first_separator() -> None:
    make = row_maker(as_json=False, separator=b"\t", null=b"NULL", headers=[])
    rows = make([b"k\tv\tw", b"no key", b"\tempty key", b"gone\tNULL"], 1)
    assert rows == Rows([b"v\tw", b"no key", b"empty key", None], [b"k", None, b"", b"gone"])
    assert rows.messages() == [
        {"key": b"k", "value": b"v\tw"},
        {"value": b"no key"},
        {"key": b"", "value": b"empty key"},
        {"key": b"gone", "value": None},
    ]
    plain = row_maker(as_json=False, separator=None, null=None, headers=[(b"h", b"1")])([b"k\tv"], 1)
    assert plain == Rows([b"k\tv"], None, [[(b"h", b"1")]])
    assert rows.until(1) == Rows([b"v\tw"], [b"k"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, None), ("\\t", b"\t"), (":", b":"), ("\t", b"\t"), ("→", "→".encode()), ("\\x00", b"\0")],
)
def test_a_separator_may_be_escaped(text: str | None, expected: bytes | None) -> None:
    assert separator_of(text) == expected


@pytest.mark.parametrize("text", ["", "\\", "\\x0"])
def test_a_separator_that_is_none_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="--key-separator"):
        separator_of(text)


def json_rows(*lines: bytes, headers: list[tuple[bytes, bytes | None]] | None = None) -> Rows:
    return row_maker(as_json=True, separator=None, null=None, headers=headers or [])(list(lines), 1)


def test_json_has_all_of_a_record() -> None:
    line = (
        b'{"key":"k","value":{"x":[1,"\xc3\xa9"]},"headers":{"a":"1","b":null},"partition":2,"timestamp":7,"offset":9}'
    )
    rows = json_rows(
        line,
        b"{}",
        b'{"value":{"base64":"/w=="},"headers":[["a","1"],["a","2"]],"timestamp":-1}',
        headers=[(b"z", b"")],
    )
    assert rows.keys == [b"k", None, None]
    assert rows.values == ['{"x":[1,"é"]}'.encode(), None, b"\xff"]
    assert rows.headers == [
        [(b"a", b"1"), (b"b", None), (b"z", b"")], [(b"z", b"")], [(b"a", b"1"), (b"a", b"2"), (b"z", b"")]
    ]  # fmt: skip
    assert rows.partitions == [2, None, None]
    assert rows.timestamps == [7, None, None]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"x", "it is no JSON"),
        (b"\xff", "it is no JSON"),
        (b"[1]", "it is no JSON object"),
        (b"[" * 200_000, "it is"),
        (b'{"keyy":1}', "a record has no keyy; did you mean key?"),
        (b'{"zzz":1}', "a record has no zzz; it has key, value"),
        (b'{"partition":-2}', "partition is a number from 0"),
        (b'{"partition":true}', "partition is a number from 0"),
        (b'{"timestamp":"1"}', "timestamp is a number from 0"),
        (b'{"timestamp":9223372036854775807}', "timestamp is a number from 0"),
        (b'{"headers":[["a"]]}', "headers are"),
        (b'{"headers":5}', "headers are"),
        (b'{"value":{"base64":"*"}}', "its base64 is none"),
        (b'{"value":"\\ud800"}', "it has half of a surrogate"),
    ],
)
def test_what_is_no_record_is_told_with_its_line_and_what_came_before_is_kept(line: bytes, said: str) -> None:
    with pytest.raises(InputError) as caught:
        json_rows(b'{"value":"1"}', b'{"value":"2"}', line)
    assert str(caught.value).startswith(f"line 3: {said}")
    assert caught.value.rows is not None
    assert caught.value.rows.values == [b"1", b"2"]


@given(
    st.none() | st.binary(max_size=9) | st.text(max_size=9).map(lambda text: text.encode("utf-8", "replace")),
    st.none() | st.binary(max_size=9),
    st.lists(
        st.tuples(st.text(st.characters(codec="utf-8"), max_size=4), st.none() | st.binary(max_size=4)), max_size=3
    ),
    st.integers(-1, 1 << 50),
)
def test_what_consume_prints_is_the_same_record_again(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp: int
) -> None:
    pairs = [(name.encode(), data) for name, data in headers]
    rows = json_rows(json_of(3, 17, timestamp, key, value, pairs).encode())
    assert rows == Rows([value], [key], [pairs], [3], [None if timestamp == -1 else timestamp])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")), st.lists, max_leaves=5
    )
)
def test_any_other_value_is_written_as_its_json(value: Any) -> None:
    found = bytes_of(value)
    if isinstance(value, str):
        assert found == value.encode()
    elif value is None:
        assert found is None
    else:
        assert found is not None
        assert json.loads(found) == value
    assert bytes_of({"base64": base64.b64encode(b"\0\xff").decode()}) == b"\0\xff"


def test_headers_of_the_command_line() -> None:
    assert headers_of(["a=1", "b=", "c=x=y"]) == [(b"a", b"1"), (b"b", b""), (b"c", b"x=y")]
    for text in ("a", "=1"):
        with pytest.raises(ValueError, match="--header takes NAME=VALUE"):
            headers_of([text])
