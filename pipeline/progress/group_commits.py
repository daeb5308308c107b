"""Offsets into a consumer group that has no members, from a thread of its own.

A group that a query fills is one as any: `tidelog groups describe`, exporters and alerts see how far it is. Nothing reads the
offsets back: a query goes on from its checkpoint.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...clients.kafka.conversations import CoordinatorKind
from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ..exceptions import BrokerError, OptionError
from ..planning.places import TopicPartition
from ..wire.client import KafkaClient
from ..wire.settings import ClientSettings

logger = logging.getLogger(__name__)

#: The last version that names topics; later ones have ids.
_COMMIT_UP_TO = 9
#: Somebody is a member of the group, and only its members may commit.
_HAS_MEMBERS = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH)


class Commit(NamedTuple):
    """Offsets to be read next. `note` is the metadata that the group keeps with each."""

    offsets: Mapping[TopicPartition, int]
    note: str


def commit_offsets(client: KafkaClient, group: str, commit: Commit) -> None:
    """Writes the offsets down as the group's. Blocks. OptionError: the group has members; PipelineError."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for where, offset in commit.offsets.items():
        topics.setdefault(where.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=where.partition, committed_offset=offset, committed_metadata=commit.note
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
    )
    try:
        client.request_coordinator(
            group, CoordinatorKind.GROUP, request, OffsetCommitResponse, up_to=_COMMIT_UP_TO, at_least=2,
            error_of=_first_error,
        )  # fmt: skip
    except BrokerError as error:
        if error.code in _HAS_MEMBERS:
            raise OptionError(
                f"group {group} has members, so nobody else may commit to it ({error}): let the query have a group of its own"
            ) from None
        raise


def _first_error(answer: OffsetCommitResponse) -> int:
    codes = (partition.error_code for topic in answer.topics for partition in topic.partitions)
    return next((code for code in codes if code), 0)


class GroupCommits:
    """Commits the newest offsets of each group, one group after the other. Any thread may call; `put` never blocks.

    What waits is one commit for each group, the newest, so a broker that is away costs no memory; what could not be committed
    in `default.api.timeout.ms` is given up with a warning, and the next one tells more anyway.
    """

    def __init__(
        self, settings: ClientSettings, commit: Callable[[KafkaClient, str, Commit], None] = commit_offsets
    ) -> None:
        self._settings = settings
        self._commit = commit
        self._changed = threading.Condition()
        self._waiting: dict[str, Commit] = {}
        self._is_busy = self._is_closed = False
        self._thread: threading.Thread | None = None

    def put(self, group: str, commit: Commit) -> None:
        """Have the offsets committed soon, instead of what waits of that group. Ignored behind `close`."""
        with self._changed:
            if self._is_closed:
                return
            self._waiting[group] = commit
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="group-commits", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout_s: float = 60.0) -> bool:
        """True when all that was put has been committed, or given up; False when it takes longer than that."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._is_busy, timeout_s)

    def close(self, timeout_s: float = 60.0) -> bool:
        """Commit what waits, then end the thread; as `flush`. Nothing is committed after it returned True."""
        flushed = self.flush(timeout_s)
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            thread = self._thread
            self._changed.notify_all()
        if thread is not None and flushed:
            thread.join()
        return flushed

    def _run(self) -> None:
        with KafkaClient(self._settings) as client:
            while (taken := self._next()) is not None:
                group, commit = taken
                try:
                    self._commit(client, group, commit)
                except Exception as error:  # a listener must not end with what one commit met
                    logger.warning("offsets of group %s were not committed: %s", group, error)

    def _next(self) -> tuple[str, Commit] | None:
        """Wait for what is to be committed next; None when closed."""
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            if not self._waiting:
                return None
            self._is_busy = True
            group = next(iter(self._waiting))
            return group, self._waiting.pop(group)
