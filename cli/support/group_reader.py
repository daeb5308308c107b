"""Records of the partitions that a group gives to this member: read by `own_consumer.py`, given out by `group_member.py`.

    reader = GroupReader(client, member, "orders", where=…)
    for chunk in reader.read():      # None: nothing to print; what was printed until then is committed from time to time
        …; reader.printed(chunk.partition, next_offset)
    reader.close()                   # commits and leaves

At least once: what was printed and could not be committed, as the program died or the group went on without it, is printed again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ...pipeline.exceptions import BrokerUnreachableError, PipelineError
from ...pipeline.planning.brokers import Brokers
from ...pipeline.planning.places import TopicPartition
from .own_consumer import Chunk, OwnConsumer

if TYPE_CHECKING:
    from ...pipeline.wire.client import KafkaClient
    from .group_member import GroupMember

#: As auto.commit.interval.ms of Java's consumers.
COMMIT_S = 5.0
#: While a member has nothing to read.
_PAUSE_S = 0.25
#: How often is looked whether the others have read to the end.
_LOOK_S = 1.0


class GroupReader:
    """Reads one topic as a member of a group; one thread, blocking.

    `from_beginning`: where to begin in partitions without a committed offset; else at their end. `ends` (partition → offset):
    reading is over when the group has read up to there, this member or others of it; None: never. What is left of `ends` out has
    nothing to be read. `client` fetches, `member` has one of its own.
    """

    def __init__(
        self, client: KafkaClient, member: GroupMember, topic: str, *, from_beginning: bool,
        ends: Mapping[int, int] | None = None, tell: Callable[[str], None] = lambda _text: None,
        on_wait: Callable[[str], None] = lambda _why: None, clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._client = client
        self._member = member
        self._topic = topic
        self._from_beginning = from_beginning
        self._ends = None if ends is None else dict(ends)
        self._tell = tell
        self._on_wait = on_wait
        self._clock = clock
        self._sleep = sleep
        #: What is to be read next of each partition that is this member's, all before it printed; and what the group has of that.
        self._next: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._commit_at = 0.0

    def read(self) -> Iterator[Chunk | None]:
        """Chunks as they come; None whenever there is nothing to print. KafkaFailure, PipelineError."""
        while True:
            self._join()
            consumer = OwnConsumer(
                self._client, self._topic, self._to_read(), committed=self._member.committed_only, ends=self._ends,
                tell=self._tell, on_wait=self._on_wait, clock=self._clock, sleep=self._sleep,
            )  # fmt: skip
            stays = True
            for chunk in consumer.read():
                yield chunk
                if chunk is None:
                    self._next |= consumer.positions
                    if not (stays := self._keep()):
                        break
            consumer.close()
            if stays:
                yield None  # a printer writes out what it holds, before that is committed
                self._next |= consumer.positions
                stays = self.commit()
            looked_at = float("-inf")
            while stays:
                if self._ends is not None and self._clock() - looked_at >= _LOOK_S:
                    looked_at = self._clock()
                    if not (left := self._left()):
                        return
                    self._on_wait(f"other members of the group, which have not committed the ends of partitions {left}")
                yield None
                self._sleep(_PAUSE_S)
                stays = self._keep()
            self.commit()  # before others go on behind it; refused where it is too late

    def printed(self, partition: int, next_offset: int) -> None:
        """All of that partition before `next_offset` was printed."""
        self._next[partition] = next_offset

    def commit(self) -> bool:
        """What was printed. False: the member has to join again, and it is not committed."""
        changed = {p: offset for p, offset in self._next.items() if self._committed.get(p) != offset}
        if self._member.is_forgotten or not self._member.commit(changed):
            return False
        self._committed |= changed
        self._commit_at = self._clock() + COMMIT_S
        return True

    def close(self, *, commits: bool = True) -> None:
        """Commit and leave; once. PipelineError: printed, but not committed."""
        try:
            if commits:
                self.commit()
        finally:
            with contextlib.suppress(PipelineError):  # the group notices by itself
                self._member.leave()

    # -- inside

    def _join(self) -> None:
        """Has `_next` of the partitions that are this member's by now."""
        own = self._next
        found = self._member.join()
        was_forgotten, self._member.is_forgotten = self._member.is_forgotten, False
        self._committed = {partition: offset for partition, offset in found.items() if offset is not None}
        self._next = dict(self._committed)
        new = [TopicPartition(self._topic, partition) for partition, offset in found.items() if offset is None]
        if new:
            bounds = Brokers(self._client).bounds(new, read_committed=self._member.committed_only)
            for place, (start, end) in bounds.items():
                self._next[place.partition] = start if self._from_beginning else end
        if not was_forgotten:  # nobody else has read on there, even where the last commit was refused
            self._next |= {p: max(offset, self._next[p]) for p, offset in own.items() if p in self._next}
        self._commit_at = self._clock() + COMMIT_S

    def _to_read(self) -> dict[int, int]:
        if self._ends is None:
            return dict(self._next)
        return {partition: offset for partition, offset in self._next.items() if partition in self._ends}

    def _keep(self) -> bool:
        """Heartbeats and commits that are due. False: join again."""
        try:
            return self._member.beat() and (self._clock() < self._commit_at or self.commit())
        except BrokerUnreachableError as error:
            if self._ends is not None:
                raise
            self._on_wait(str(error))  # who reads without an end waits for the daemon without one
            return True

    def _left(self) -> list[int]:
        """Partitions whose ends the group has not committed."""
        assert self._ends is not None
        others = [partition for partition in self._ends if partition not in self._next]
        found = self._member.committed(others)
        return [partition for partition in others if found.get(partition, -1) < self._ends[partition]]
