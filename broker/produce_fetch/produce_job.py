"""ProduceJob: one Produce request from its batches, each admitted or refused, appended, and durable, up to its answer.

The promises of a produce are in `broker/apis/produce.py`, which calls this; which way a batch goes to its log is decided in
`broker/partitions/`.

`long_produce` takes a request of very many partitions: one such request at a time is read and appended, with the other long
requests that change something, and between two chunks of it everybody else is served (ADRs 46, 47). A chunk is appended as a
request of its own would be, its partitions in their order; there is one answer. Loop thread.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Iterator
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.headers import response_header_bytes
from ...protocol.messages._hot import parse_produce, write_produce_response
from ...protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ...protocol.records.attributes import COMPRESSION_MASK, TRANSACTIONAL_MASK, Compression
from ...protocol.records.exceptions import InvalidRecordError, InvalidTimestampError
from ...protocol.records.record_batch import MAGIC_AT, MAGIC_V2
from ...protocol.schema import encode
from ..metadata.topics import INTERNAL_TOPICS
from ..network.pending_response import PendingResponse
from ..partitions.conversion_thread import CONVERTIBLE_BYTES, LoopBudget
from ..partitions.partition import CODEC_AT
from ..requests.context import RequestContext
from ..runtime.cooperative import CHUNK_UNITS
from ..runtime.error_codes import error_code
from ..runtime.exceptions import ConnectionAborted
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ...storage.values import LogAppendInfo
    from ..network.connection import Connection
    from ..partitions.partition import Partition, PartitionTable
    from ..requests.counters import RequestCounters
    from ..requests.services import Services
    from .produce_admission import Refusals

#: (index, error code, base offset, log append time, log start offset, message)
PartitionAnswer = tuple[int, ErrorCode, int, int, int, str | None]
#: By topic, under the name or the id that the request has for it.
TopicKey = str | bytes
TopicAnswers = list[tuple[TopicKey, list[PartitionAnswer]]]
#: Records at fault by (topic, partition): (index within the batch, what is wrong).
RecordErrors = dict[tuple[TopicKey, int], list[tuple[int, str]]]

#: Clients of this name may write to internal topics, as in Kafka: tools that repair or move them use it.
ADMIN_CLIENT_ID = "__admin_client"

#: Topic → why nothing of it is appended.
Denied = dict[str, ErrorCode] | None

ProduceReply = bytes | Awaitable[bytes | None] | None
"""`Reply` of a Produce, which has no records."""

_NONE = ErrorCode.NONE
FIRST_WITHOUT_SETS = 3
FIRST_WITH_ZSTD = 7
FIRST_WITH_IDS = 13
_NO_ID = bytes(16)
#: Stands for the name of a topic whose id nobody has.
UNKNOWN = ""


def denied_topics(context: RequestContext, transactional_id: str | None, topics: Any) -> Denied:
    """Why topics can't be written: each for itself, or all for the sake of the transaction. None: all can be."""
    denied: dict[str, ErrorCode] = {}
    if transactional_id is not None and not context.allows(
        AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        return dict.fromkeys((name for name, _ in topics), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    for name in dict.fromkeys(name for name, _ in topics):
        if name is not UNKNOWN and not context.allows(AclOperation.WRITE, ResourceType.TOPIC, name):
            denied[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return denied or None


class ProduceJob(LoopBudget):
    """One Produce request: appends its batches one after the other, then answers. Loop thread.

    It is the budget of its own appends: one object less for each request.
    """

    __slots__ = (
        "_acks", "_answers", "_client_id", "_correlation_id", "_counters", "_denied", "_later", "_partitions",
        "_record_errors", "_refused", "_unsynced", "_version",
    )  # fmt: skip

    #: Of the call of `append` that is under way.
    _denied: Denied
    _refused: Refusals | None

    def __init__(
        self,
        partitions: PartitionTable,
        counters: RequestCounters,
        version: int,
        correlation_id: int,
        client_id: str | None,
        acks: int,
        client: str,
        since: int,
    ) -> None:
        """`client`, `since`: as `LoopBudget` has them."""
        self.client = client
        self.since = since
        self.convertible = CONVERTIBLE_BYTES
        self.ahead = None
        self.check_again = None
        self._partitions = partitions
        self._counters = counters
        self._version = version
        self._correlation_id = correlation_id
        self._client_id = client_id
        self._acks = acks
        self._answers: TopicAnswers = []
        #: Partitions that have to be durable before the answer, and up to which offset.
        self._unsynced: list[tuple[Partition, int]] | None = None
        #: Batches that a thread has.
        self._later: list[_Later] | None = None
        #: None: no batch was refused.
        self._record_errors: RecordErrors | None = None

    def append(
        self,
        buffer: bytearray,
        topics: Any,
        ids: list[bytes] | None,
        denied: Denied,
        refused: Refusals | None,
        goes_on: bool = False,
    ) -> None:
        """Appends what is let in of `topics`, and notes what the answer says of each batch.

        Args:
            buffer: the caller's again after the return.
            ids: of the topics, where the request named them so.
            denied: what the client may not write.
            refused: what the transaction does not let in; None: the request names none, and so no batch may be in one.
            goes_on: the first of `topics` is the last one of the call before, and more of its partitions.
        """
        self._denied, self._refused = denied, refused
        counters, answers, acks = self._counters, self._answers, self._acks
        knows_sets = self._version < FIRST_WITHOUT_SETS
        for position, (name, partitions) in enumerate(topics):
            key = name if ids is None else ids[position]
            if goes_on:
                goes_on, rows = False, answers[-1][1]
            else:
                rows = []
                answers.append((key, rows))
            for index, first, last in partitions:
                size = last - first
                is_set = knows_sets and size > MAGIC_AT and buffer[first + MAGIC_AT] < MAGIC_V2
                try:
                    partition = self._admit(buffer, name, index, first, last, is_set)
                    info = partition.append(buffer, first, last, self, is_set)
                except Exception as error:
                    rows.append(self._failure(key, index, error))
                    continue
                if isinstance(info, asyncio.Future):
                    if self._later is None:
                        self._later = []
                    self._later.append(_Later(key, index, partition, rows, len(rows), size, info))
                    rows.append((index, _NONE, -1, -1, -1, None))
                    continue
                counters.produced_bytes += size
                counters.produced_records += info.record_count
                rows.append((index, _NONE, info.first_offset, info.log_append_time, info.log_start_offset, None))
                if acks and partition.log.high_watermark <= info.last_offset:
                    if self._unsynced is None:
                        self._unsynced = []
                    self._unsynced.append((partition, info.last_offset + 1))

    def still_named(self, topics: Topics, ids: list[bytes]) -> Topics:
        """`topics` after a wait: UNKNOWN where the one with that id has gone, though another of its name may have come."""
        name_of = self._partitions.name_of
        return [
            (name if name_of(topic_id) == name else UNKNOWN, partitions)
            for topic_id, (name, partitions) in zip(ids, topics, strict=True)
        ]

    def _admit(self, buffer: bytearray, name: str, index: int, first: int, last: int, is_set: bool) -> Partition:
        """The partition that takes this batch, as far as can be told before its log is asked.

        Raises `_Refused`, or what a log would: the first of these checks that fails.
        """
        if self._denied is not None and name in self._denied:
            raise _Refused(self._denied[name], self._denied[name].text)
        acks = self._acks
        if not -1 <= acks <= 1:
            raise _Refused(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}; it can be -1, 0 or 1")
        partition = self._partitions.get(name, index)
        if partition is None:
            if name is UNKNOWN:
                raise _Refused(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")
            raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {name}-{index}")
        if name in INTERNAL_TOPICS and self._client_id != ADMIN_CLIENT_ID:
            raise _Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is written by coordinators only")
        if acks < 0 and partition.log.config.min_insync_replicas > 1:
            raise _Refused(ErrorCode.NOT_ENOUGH_REPLICAS, f"{name} has min.insync.replicas above 1, and one copy")
        if (fence := self._partitions.fence) is not None and (why := fence()) is not None:
            raise _Refused(ErrorCode.NOT_ENOUGH_REPLICAS, why)
        if first < 0:
            raise InvalidRecordError(f"{name}-{index}: the record set is null")
        # A batch that is too short to have attributes is refused by the log.
        attributes = buffer[first + CODEC_AT] if not is_set and last - first > CODEC_AT else 0
        if self._refused is not None:
            if (name, index) in self._refused:
                raise _Refused(*self._refused[name, index])
        elif attributes & TRANSACTIONAL_MASK:
            raise _Refused(ErrorCode.INVALID_TXN_STATE, "a batch of a transaction, without a transactional id")
        if self._version < FIRST_WITH_ZSTD and attributes & COMPRESSION_MASK == Compression.ZSTD:
            raise _Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or above")
        return partition

    def _failure(self, topic: TopicKey, index: int, error: Exception) -> PartitionAnswer:
        """The answer to a batch that was not appended; counted, and a record at fault is noted."""
        code, message = (error.code, error.message) if isinstance(error, _Refused) else error_code(error)
        self._counters.errors[ApiKey.PRODUCE, code] += 1
        self._counters.produce_errors[code] += 1
        if self._record_errors is None:
            self._record_errors = {}
        if isinstance(error, InvalidRecordError | InvalidTimestampError) and error.record_index >= 0:
            self._record_errors[topic, index] = [(error.record_index, str(error))]
        return index, code, -1, -1, -1, message

    def failed(self, topic: TopicKey, index: int, error: Exception) -> None:
        """Note a batch that its log did not take; the request's only one."""
        self._answers.append((topic, [self._failure(topic, index, error)]))

    def appended(self, topic: TopicKey, index: int, partition: Partition, info: LogAppendInfo) -> None:
        """Note a batch that its log took, and that is not durable yet; the request's only one."""
        row = (index, _NONE, info.first_offset, info.log_append_time, info.log_start_offset, None)
        self._answers.append((topic, [row]))
        self._unsynced = [(partition, info.last_offset + 1)]

    def answer(self) -> ProduceReply:
        """The answer, when all has been appended or left to a thread. ConnectionAborted: acks 0, and a failure."""
        unsynced = self._unsynced
        if self._later is not None:
            waits = [wait for partition, offset in unsynced or () if (wait := partition.durable(offset)) is not None]
            return self._when_written(self._later, waits)
        if self._acks == 0:
            self._abort_on_failure()
            return None
        if unsynced is not None:
            pending = PendingResponse(self._after_syncs, len(unsynced))
            for partition, offset in unsynced:
                partition.on_durable(offset, pending.one_done)
            return pending
        if self._record_errors is None:
            return write_produce_response(self._version, self._correlation_id, self._answers)
        return self._after_syncs(None)

    def _abort_on_failure(self) -> None:
        """End the connection if a batch of a request with acks=0 failed, which has no answer to tell it by: ConnectionAborted."""
        if self._record_errors is not None:
            raise ConnectionAborted(f"a produce with acks=0 failed: {_first_failure(self._answers)}")

    async def _when_written(self, later: list[_Later], waits: list[asyncio.Future[None]]) -> bytes | None:
        """Answers after the appends that go through a thread, and then after the syncs. None for acks 0."""
        counters = self._counters
        try:
            for part in later:
                try:
                    info = await part.written
                except Exception as error:
                    part.answers[part.at] = self._failure(part.topic, part.number, error)
                    continue
                counters.produced_bytes += part.size
                counters.produced_records += info.record_count
                part.answers[part.at] = (
                    part.number, _NONE, info.first_offset, info.log_append_time, info.log_start_offset, None
                )  # fmt: skip
                if self._acks and (wait := part.partition.durable(info.last_offset + 1)) is not None:
                    waits.append(wait)
        finally:
            self.give_up()
        if self._acks == 0:
            self._abort_on_failure()
            return None
        failure: Exception | None = None
        if waits:
            outcomes = await asyncio.gather(*waits, return_exceptions=True)
            failure = next((outcome for outcome in outcomes if isinstance(outcome, Exception)), None)
        return self._after_syncs(failure)

    def give_up(self) -> None:
        """The client has gone: what a thread was not handed yet is not appended. Harmless once all is."""
        for part in self._later or ():
            if not part.written.cancel() and not part.written.cancelled():
                part.written.exception()  # or the loop would complain that nobody asked

    def _after_syncs(self, failure: Exception | None) -> bytes:
        """The answer after the syncs that cover the batches. A failed sync makes its request's partitions uncertain."""
        if failure is not None:
            code, message = error_code(failure)
            answers = self._answers
            self._counters.errors[ApiKey.PRODUCE, code] += sum(not row[1] for _, rows in answers for row in rows)
            self._answers = [
                (name, [(row[0], row[1] or code, -1, -1, -1, row[5] or message) for row in rows])
                for name, rows in answers
            ]
        if not self._record_errors:
            return write_produce_response(self._version, self._correlation_id, self._answers)
        return _with_record_errors(self._version, self._correlation_id, self._answers, self._record_errors)


class _Later(NamedTuple):
    """A batch that is being appended in a thread, and where its answer belongs: `answers[at]`, with a placeholder now."""

    topic: TopicKey
    number: int
    partition: Partition
    answers: list[PartitionAnswer]
    at: int
    size: int
    written: asyncio.Future[LogAppendInfo]


class _Refused(Exception):
    """A partition's part of the request that is refused before its log is asked."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def _first_failure(answers: TopicAnswers) -> str:
    for name, partitions in answers:
        for index, code, *_, message in partitions:
            if code:
                return f"{name if isinstance(name, str) else name.hex()}-{index}: {code.name}: {message}"
    return "unknown"


def _with_record_errors(version: int, correlation_id: int, answers: TopicAnswers, record_errors: RecordErrors) -> bytes:
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=key if isinstance(key, str) else "",
                topic_id=key if isinstance(key, bytes) else _NO_ID,
                partition_responses=[
                    PartitionProduceResponse(
                        index=index,
                        error_code=code,
                        base_offset=base_offset,
                        log_append_time_ms=append_time,
                        log_start_offset=log_start,
                        record_errors=[
                            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=text)
                            for at, text in record_errors.get((key, index), [])
                        ],
                        error_message=message,
                    )
                    for index, code, base_offset, append_time, log_start, message in partitions
                ],
            )
            for key, partitions in answers
        ]
    )
    header = response_header_bytes(ApiKey.PRODUCE, version, correlation_id)
    body = encode(response, version)
    return b"".join(((len(header) + len(body)).to_bytes(4, "big"), header, body))


Topics = list[tuple[Any, list[tuple[int, int, int]]]]


def long_produce(
    services: Services,
    buffer: bytearray,
    start: int,
    end: int,
    version: int,
    correlation_id: int,
    connection: Connection,
) -> Awaitable[bytes | None]:
    """The answer to the request in buffer[start:end], which is copied. RequestDeferred while another long one is in work."""
    with services.long_changes.admit(connection, end - start) as permit:
        with memoryview(buffer) as view:
            frame = bytearray(view[start:end])
        task = services.loop.create_task(_append(services, frame, version, correlation_id, connection))
        task.add_done_callback(permit.release)  # also where the client leaves before it has begun
    return task


async def _append(
    services: Services, frame: bytearray, version: int, correlation_id: int, connection: Connection
) -> bytes | None:
    try:
        request = parse_produce(frame, 0, len(frame), version)  # 30 ms for the most there may be
    except ValueError as error:
        from ..network.kafka07 import kafka_refusal

        reason = f"malformed PRODUCE v{version}: {error}"
        raise kafka_refusal(frame, 0, len(frame), connection) or ConnectionAborted(reason) from None
    client_id, transactional_id, acks, _timeout, topics = request
    del request
    context = RequestContext(services, connection, ApiKey.PRODUCE, version, correlation_id, client_id)
    await context.next_turn()
    job = ProduceJob(
        services.partitions, services.counters, version, correlation_id, client_id, acks, connection.client, 0
    )
    if transactional_id is not None:
        from .produce_admission import check_again

        job.check_again = partial(check_again, services, version, transactional_id)
    try:
        for some, goes_on in slices_of(topics):
            ids: list[bytes] | None = None
            if version >= FIRST_WITH_IDS:
                ids = [topic_id for topic_id, _ in some]
                some = [(services.partitions.name_of(topic_id) or UNKNOWN, partitions) for topic_id, partitions in some]
            denied: Denied = None
            if services.authorizer is not None:
                denied = denied_topics(context, transactional_id, some)
            refused: Refusals | None = None
            if transactional_id is not None:
                refused = await _refused(services, frame, some, version, transactional_id, denied)
                if ids is not None:
                    some = job.still_named(some, ids)
            job.since, job.convertible = perf_counter_ns(), CONVERTIBLE_BYTES
            job.append(frame, some, ids, denied, refused, goes_on)
            await context.next_turn()
    except BaseException:
        job.give_up()
        raise
    found = job.answer()
    return await found if inspect.isawaitable(found) else found


async def _refused(
    services: Services, frame: bytearray, topics: Topics, version: int, transactional_id: str, denied: Denied
) -> Refusals:
    """Partitions that the transaction refuses; returned once its coordinator durably has the others."""
    from .produce_admission import admit

    open_topics = topics if denied is None else [topic for topic in topics if topic[0] not in denied]
    admission = admit(services, frame, open_topics, version, transactional_id)
    if admission.wait is not None:
        try:
            await asyncio.shield(admission.wait)
        except Exception as error:
            admission.refused.update(dict.fromkeys(admission.added, error_code(error)))
    return admission.refused


def slices_of(topics: Topics) -> Iterator[tuple[Topics, bool]]:
    """`topics` in parts of up to `CHUNK_UNITS` topics and partitions, and whether a part goes on with the last topic of the one
    before."""
    some: Topics = []
    left, goes_on = CHUNK_UNITS, False
    for name, partitions in topics:
        at = 0
        while True:
            part = partitions[at : at + max(left - 1, 1)]
            some.append((name, part))
            at += len(part)
            left -= 1 + len(part)
            if left > 0:
                break  # the whole of the topic is in there
            yield some, goes_on
            some, left, goes_on = [], CHUNK_UNITS, at < len(partitions)
            if not goes_on:
                break
    if some:
        yield some, goes_on
