"""RE2 over topics' names."""

from __future__ import annotations

import pytest
from tidelog.broker.groups.heartbeat import regex_subscription as expressions
from tidelog.protocol.errors import ErrorCode, ProtocolError


def test_whole_names_match():
    found = expressions.resolve(["a.*", "b", "((("], ["a", "ab", "ba", "b"], 7, 9)
    assert {name: set(each.topics) for name, each in found.items()} == {"a.*": {"a", "ab"}, "b": {"b"}, "(((": set()}
    assert (found["b"].version, found["b"].timestamp_ms) == (7, 9)


@pytest.mark.parametrize("bad", ["(((", "(?=x)", "[", r"\1", "x{1001}"])
def test_what_is_no_expression(bad):
    with pytest.raises(ProtocolError) as caught:
        expressions.check(bad)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert bad in caught.value.message


def test_no_expression_takes_long():
    expressions.resolve([r"(a*)*b", r"(a|aa)+$"], ["a" * 249] * 100, 0, 0)
