"""A defect of order, as a diff of the daemon's source: what is wrong with it, and an interleaving in which somebody sees it."""

from __future__ import annotations

from typing import NamedTuple


class Edit(NamedTuple):
    """`old` stands once in the source of `module`, and becomes `new`."""

    module: str
    old: str
    new: str


class Defect(NamedTuple):
    """One defect.

    Attributes:
        name: its room and what goes wrong: `cleaner/old-files-after-new`.
        kind: the kind of order that is broken.
        wrong: what is wrong, and which promise breaks.
        seen: an interleaving in which a client, or whoever reads the disk, sees it.
        needs: what has to come together for that.
        edits: the diff.
        was: where it was mended, of one that the daemon has had.
        seeds: with the simulation as it is, one at least of the first so many fails; for those that a test looks for.
    """

    name: str
    kind: str
    wrong: str
    seen: str
    needs: tuple[str, ...]
    edits: tuple[Edit, ...]
    was: str = ""
    seeds: int = 60
