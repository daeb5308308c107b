"""Subscriptions by regular expression: RE2, matched against whole names of topics, internal ones too (KIP-848).

RE2 takes time in proportion to the length of its input times the size of the program that the expression is compiled to, and
bounded memory. Programs are kept small (`PROGRAM_BYTES`); what groups capture, which RE2 would copy for each character, is not
asked for. Many names, or an expression whose program is large, still take long: see `is_quick`. Any thread.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any, NamedTuple

from ....protocol.errors import ErrorCode, ProtocolError

INLINE_MATCHES = 5_000
"""Names times expressions that are matched on the loop thread, in about a millisecond; more go to the pool."""
INLINE_STEPS = 4_000_000
"""Characters of names times instructions of programs that are matched there: 10 ms at the worst, when RE2 follows every way."""
INLINE_EXPRESSIONS = 4
"""Expressions that are compiled there at once; each of the largest takes 5 to 15 ms."""
PROGRAM_BYTES = 1 << 20
"""Memory of one compiled expression: a list of names of 30,000 characters has room, which is the longest that can be sent.
One name takes up to 20 ms then, in which no other thread runs: RE2's package keeps the interpreter's lock."""
COMPILED = 128
"""Expressions whose programs are kept, with up to `PROGRAM_BYTES` each."""


class ResolvedExpression(NamedTuple):
    """The topics that an expression matched, at which version of the image, and when (wall clock)."""

    topics: frozenset[str] = frozenset()
    version: int = 0
    timestamp_ms: int = 0


@lru_cache(maxsize=COMPILED)
def _compiled(expression: str) -> Any:
    from ...runtime.bounded_pattern import compiled  # not before somebody has an expression

    return compiled(expression, PROGRAM_BYTES)


def check(expression: str) -> None:
    """Compile an expression to check it; ProtocolError INVALID_REGULAR_EXPRESSION."""
    try:
        _compiled(expression)
    except ValueError as error:
        raise ProtocolError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {error}.",
        ) from None


def is_quick(expressions: Collection[str], names: Collection[str]) -> bool:
    """True if the loop thread may match these expressions against the names."""
    if len(expressions) > INLINE_EXPRESSIONS or len(expressions) * len(names) > INLINE_MATCHES:
        return False
    return sum(map(_program_size, expressions)) * sum(map(len, names)) <= INLINE_STEPS


def _program_size(expression: str) -> int:
    """Instructions of the compiled expression, 0 for one that cannot be compiled."""
    try:
        check(expression)
    except ProtocolError:
        return 0
    size: int = _compiled(expression).programsize
    return size


def resolve(
    expressions: Collection[str], names: Collection[str], version: int, now_ms: int
) -> dict[str, ResolvedExpression]:
    """Match each expression against the topics' names. An expression that cannot be compiled (a record of another broker may have
    one) matches nothing.
    """
    resolved = {}
    for expression in expressions:
        try:
            check(expression)
        except ProtocolError:
            topics: frozenset[str] = frozenset()
        else:
            match = _compiled(expression).fullmatch
            topics = frozenset(name for name in names if match(name))
        resolved[expression] = ResolvedExpression(topics, version, now_ms)
    return resolved
