"""Filter of the topics that a client may see: a group that is subscribed by an expression must not tell it of others."""

from __future__ import annotations

from collections.abc import Callable

Visible = Callable[[frozenset[str]], frozenset[str]]
"""Keeps those of a set of topics that a client may know of."""


def all_visible(names: frozenset[str]) -> frozenset[str]:
    """`Visible` of a client that may see all topics."""
    return names
