"""Which consumer group follows which query, and what of its progress is committed. Knows nothing of Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..planning.places import TopicPartition
from .group_commits import Commit, GroupCommits
from .lag import read_position

logger = logging.getLogger(__name__)

#: What did not move is committed again after so long: a group's offsets end with `offsets.retention.minutes`, a week by default.
REPEAT_S = 3600.0
#: Groups that are remembered; the oldest goes.
MOST_GROUPS = 1_000


class QueryGroups:
    """One thread at a time, Spark's.

    `group`: with `{query}` in it, that is the query's name, or its id if it has none. Two queries that would share a group are
    not mixed: the first has it, and of the other it is told once that it is not committed.
    """

    def __init__(self, commits: GroupCommits, group: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.commits = commits
        self._group = group
        self._clock = clock
        self._owners: dict[str, str] = {}
        self._told: dict[str, tuple[dict[TopicPartition, int], float]] = {}
        self._refused: dict[str, None] = {}

    def progressed(self, query: str, name: str | None, batch: int, progress: Mapping[str, Any]) -> None:
        """Commits the progress of one batch, unless the same has been committed lately."""
        position = read_position(progress)
        if position is None or not position.offsets:
            return
        group = self._group.replace("{query}", name or query)
        if self._owners.setdefault(group, query) != query:
            if query not in self._refused:
                self._refused[query] = None
                logger.warning(
                    "query %s is not committed: group %s follows query %s; put {query} into the group's name",
                    name or query, group, self._owners[group],
                )  # fmt: skip
            return
        offsets, now = dict(position.offsets), self._clock()
        before = self._told.get(group)
        if before is not None and before[0] == offsets and now - before[1] < REPEAT_S:
            return
        self._told[group] = (offsets, now)
        for known in (self._told, self._owners, self._refused):
            while len(known) > MOST_GROUPS:
                del known[next(iter(known))]
        self.commits.put(group, Commit(offsets, f"spark {name or query} batch {batch}"))

    def terminated(self, query: str) -> None:
        """Its group is free for another query; one that is started again has its id of before."""
        for group in [group for group, owner in self._owners.items() if owner == query]:
            del self._owners[group]
