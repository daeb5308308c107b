"""RE2 over topics' names."""

from __future__ import annotations

from time import thread_time

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


def test_what_groups_capture_is_not_copied_for_each_character():
    """6,000 groups made one name of 249 characters take 25 seconds."""
    began = thread_time()
    found = expressions.resolve(["(.*?)" * 6000], ["a" * 249], 0, 0)
    assert found["(.*?)" * 6000].topics == {"a" * 249}
    assert thread_time() - began < 1


WAYS = "|".join(f".*a.{{{count}}}b" for count in range(100))


def test_the_loop_matches_what_is_little():
    names = [f"topic-{number}" for number in range(1_000)]
    assert expressions.is_quick(["topic-.*"], names)
    assert expressions.is_quick(["(((", WAYS], names[:1])
    assert not expressions.is_quick(["topic-.*"], names * 6)  # many names
    assert not expressions.is_quick([WAYS], names)  # a large program, which takes milliseconds for a name
    assert not expressions.is_quick([f"x{number}" for number in range(5)], names[:1])  # many to compile


def test_a_program_is_small_or_refused():
    expressions.check("|".join(f"x.*topic{number}.*" for number in range(1_800)))
    with pytest.raises(ProtocolError) as caught:
        expressions.check("|".join(f".*a.{{{count}}}b" for count in range(240)))
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
