"""The name that somebody may have meant: of a topic, a group, a setting, a command.

Names differ by what fingers do: letters swapped, left out, doubled, in the wrong case. A name that shares less than
three fifths of its letters in order is no guess but a distraction, and none is given.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Share of letters in common, by difflib's measure, from which on a name is offered.
CUTOFF = 0.6
#: Names that are compared at most: with more of them a guess would take seconds.
MOST_NAMES = 10_000


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of `names` that is not `name` itself; None where none is similar. Case does not count."""
    import difflib  # only a mistake pays for it
    from itertools import islice

    by_folded: dict[str, str] = {}
    for other in islice(names, MOST_NAMES):
        if other != name:
            by_folded.setdefault(other.casefold(), other)
    found = difflib.get_close_matches(name.casefold(), by_folded, 1, CUTOFF)
    return by_folded[found[0]] if found else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`; did you mean orders?`, or "" where no name is similar."""
    found = nearest(name, names)
    return f"; did you mean {found}?" if found is not None else ""
