"""Subscriptions by regular expression: RE2, matched against whole names of topics, internal ones too (KIP-848).

RE2 takes time in proportion to its input whatever the expression, and bounded memory; a name of at most 249 characters and an
expression that a client sends cannot hold anybody up. All of them together may: see `INLINE_MATCHES`. Any thread.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any, NamedTuple

from ....protocol.errors import ErrorCode, ProtocolError

INLINE_MATCHES = 5_000
"""Names times expressions that are matched on the loop thread, in about a millisecond; more go to the pool."""


class ResolvedExpression(NamedTuple):
    """The topics that an expression matched, at which version of the image, and when (wall clock)."""

    topics: frozenset[str] = frozenset()
    version: int = 0
    timestamp_ms: int = 0


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> Any:
    import re2  # not before somebody has an expression

    options = re2.Options()
    options.log_errors = False
    return re2.compile(expression, options)


def check(expression: str) -> None:
    """Compile an expression to check it; ProtocolError INVALID_REGULAR_EXPRESSION."""
    import re2

    try:
        _compiled(expression)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise ProtocolError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {reason}.",
        ) from None


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
