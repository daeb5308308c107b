"""What becomes of a Produce request's batches: each is let in or refused, appended, and answered when it is durable.

What a produce promises is told in `broker/apis/produce.py`; which way a batch goes to its log, in `broker/partitions/`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.headers import response_header_bytes
from ...protocol.messages._hot import write_produce_response
from ...protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ...protocol.records.attributes import TRANSACTIONAL_MASK
from ...protocol.records.exceptions import (
    InvalidRecordError,
    InvalidTimestampError,
    OutOfTimeError,
    RecordTooLargeError,
)
from ...protocol.records.record_batch import MAGIC_AT, MAGIC_V2
from ...protocol.schema import encode
from ..metadata.topics import INTERNAL_TOPICS
from ..network.pending_response import PendingResponse
from ..partitions.format_conversion import MOST_QUICK_BYTES, is_quick, quick_expansion
from ..runtime.error_codes import error_code
from ..runtime.exceptions import ConnectionAborted
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ...storage.log.values import LogAppendInfo
    from ..partitions.partition import Partition
    from ..requests.context import RequestContext
    from ..requests.counters import RequestCounters
    from ..server import Broker
    from ..transactions.produce_admission import Refusals

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

Answer = bytes | PendingResponse | Awaitable[bytes | None] | None

LOOP_NS = 20_000_000
"""Of one client's requests that came together: compressed batches after it are looked at by the conversions' thread."""

CHECK_NS = 5_000_000
"""Of one compressed batch: one that is not decompressed by then is looked at by that thread, from its beginning."""

_NONE = ErrorCode.NONE
FIRST_WITH_IDS = 13
_NO_ID = bytes(16)
#: Stands for the name of a topic whose id nobody has.
UNKNOWN = ""
_ZSTD = 4
#: Plain batches from this size on are looked at by the conversions' thread too, behind `LOOP_NS`: others take microseconds.
_TIMED_BYTES = 64 << 10
#: Low byte of the V2 attributes, counted from the start of the batch; its low three bits are the codec.
_ATTRIBUTES = 22
_CODEC_MASK = 7


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


class Appended:
    """What has become of a request's batches so far.

    Attributes:
        answers: by topic.
        unsynced: what has to be on the disk before the answer, and up to where.
        later: batches that a thread has.
        ahead: their partitions, which what comes behind them must not overtake.
        client: in whose turn the conversions' thread has them.
        record_errors: records at fault.
        failed: a batch was not appended.
    """

    __slots__ = ("ahead", "answers", "client", "failed", "later", "record_errors", "unsynced")

    def __init__(self, client: str) -> None:
        self.client = client
        self.answers: TopicAnswers = []
        self.unsynced: list[tuple[Partition, int]] | None = None
        self.record_errors: RecordErrors | None = None
        self.failed = False
        self.later: list[_Later] | None = None
        self.ahead: set[Partition] | None = None


def append_some(
    broker: Broker,
    buffer: bytearray,
    client_id: str | None,
    acks: int,
    topics: Any,
    version: int,
    refused: Refusals | None,
    ids: list[bytes] | None,
    since: int,
    denied: Denied,
    so_far: Appended,
    goes_on: bool = False,
) -> None:
    """Appends what is not `refused` of `topics`; None: the request names no transaction, and so no batch may be in one.

    Args:
        ids: of the topics, where the request named them so.
        since: when the loop began with what the client sent, by `perf_counter_ns`.
        denied: what the client may not write.
        so_far: of the request, to which this adds.
        goes_on: the first of `topics` is the last one of the call before, and more of its partitions.
    """
    refusal: tuple[ErrorCode, str] | None = None
    if not -1 <= acks <= 1:
        refusal = ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}; it can be -1, 0 or 1"
    counters = broker.counters
    get = broker.partitions.get
    answers, unsynced, record_errors = so_far.answers, so_far.unsynced, so_far.record_errors
    failed, later, ahead = so_far.failed, so_far.later, so_far.ahead
    for position, (name, partitions) in enumerate(topics):
        key = name if ids is None else ids[position]
        if goes_on:
            goes_on, done = False, answers[-1][1]
        else:
            done = []
            answers.append((key, done))
        for index, first, last in partitions:
            try:
                if denied is not None and name in denied:
                    raise _Refused(denied[name], denied[name].text)
                if refusal is not None:
                    raise _Refused(*refusal)
                partition = get(name, index)
                if partition is None:
                    if name is UNKNOWN:
                        raise _Refused(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")
                    raise _Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {name}-{index}")
                if name in INTERNAL_TOPICS and client_id != ADMIN_CLIENT_ID:
                    raise _Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is written by coordinators only")
                if acks < 0 and partition.log.config.min_insync_replicas > 1:
                    raise _Refused(
                        ErrorCode.NOT_ENOUGH_REPLICAS, f"{name} has min.insync.replicas above 1, and one copy"
                    )
                if first < 0:
                    raise InvalidRecordError(f"{name}-{index}: the record set is null")
                is_set = version < 3 and last - first > MAGIC_AT and buffer[first + MAGIC_AT] < MAGIC_V2
                if refused is not None:
                    if (name, index) in refused:
                        raise _Refused(*refused[name, index])
                elif not is_set and last - first > _ATTRIBUTES and buffer[first + _ATTRIBUTES] & TRANSACTIONAL_MASK:
                    raise _Refused(ErrorCode.INVALID_TXN_STATE, "a batch of a transaction, without a transactional id")
                if (
                    version < 7
                    and not is_set
                    and last - first > _ATTRIBUTES
                    and buffer[first + _ATTRIBUTES] & _CODEC_MASK == _ZSTD
                ):
                    raise _Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or above")
                converts = is_set or partition.log.converts_batches
                # What is quick must not overtake what is not, where a request names a partition twice.
                takes_long = converts and (later is not None or not is_quick(buffer, first, last, is_set))
                future: asyncio.Future[LogAppendInfo] | None = None
                if takes_long and converts:
                    future = broker.conversions.append(partition, buffer, first, last, so_far.client)
                elif partition.directory.engaged:
                    future = partition.append_later(buffer, first, last, is_set=is_set)
                elif converts:
                    info = (partition.append_set if is_set else partition.append)(buffer, first, last)
                elif last - first > _ATTRIBUTES and buffer[first + _ATTRIBUTES] & _CODEC_MASK:
                    found = _append_compressed(broker, partition, buffer, first, last, since, so_far)
                    if isinstance(found, asyncio.Future):
                        future = found
                    else:
                        info = found
                elif (ahead is not None and partition in ahead) or (
                    # 2 ms a megabyte of the smallest records.
                    MOST_QUICK_BYTES < last - first <= partition.log.config.max_message_bytes
                    or (last - first > _TIMED_BYTES and perf_counter_ns() - since > LOOP_NS)
                ):
                    future = broker.conversions.append_compressed(partition, buffer, first, last, so_far.client)
                else:
                    info = partition.append(buffer, first, last)
                if future is not None:
                    if later is None or ahead is None:
                        so_far.later = later = []
                        ahead = set()
                    ahead.add(partition)
                    later.append(_Later(key, index, partition, done, len(done), last - first, future))
                    done.append((index, _NONE, -1, -1, -1, None))
                    continue
                counters.produced_bytes += last - first
                counters.produced_records += info.record_count
                done.append((index, _NONE, info.first_offset, info.log_append_time, info.log_start_offset, None))
                if acks and partition.log.high_watermark <= info.last_offset:
                    unsynced = unsynced or []
                    unsynced.append((partition, info.last_offset + 1))
            except Exception as error:
                failed = True
                if record_errors is None:
                    record_errors = {}
                done.append(_failure(counters, record_errors, key, index, error))
    so_far.unsynced, so_far.record_errors, so_far.failed = unsynced, record_errors, failed
    so_far.later, so_far.ahead = later, ahead


def answer(counters: RequestCounters, version: int, correlation_id: int, acks: int, done: Appended) -> Answer:
    """The answer to a request of which all has been appended, or left to a thread. ConnectionAborted: acks 0, and a failure."""
    answers, unsynced, record_errors = done.answers, done.unsynced, done.record_errors
    failed, later = done.failed, done.later
    if later is not None:
        waits = [wait for partition, offset in unsynced or () if (wait := partition.durable(offset)) is not None]
        return _when_written(
            later, counters, version, correlation_id, acks, answers, record_errors or {}, waits, failed
        )
    if acks == 0:
        if failed:
            raise ConnectionAborted(f"a produce with acks=0 failed: {_first_failure(answers)}")
        return None
    if unsynced is not None:

        def finish(failure: Exception | None) -> bytes:
            if failure is None and record_errors is None:
                return write_produce_response(version, correlation_id, answers)
            return _after_syncs(counters, version, correlation_id, answers, record_errors, failure)

        pending = PendingResponse(finish, len(unsynced))
        for partition, offset in unsynced:
            partition.tell_when_durable(offset, pending.one_done)
        return pending
    if record_errors is not None:
        return _with_record_errors(version, correlation_id, answers, record_errors)
    return write_produce_response(version, correlation_id, answers)


def _append_compressed(
    broker: Broker,
    partition: Partition,
    buffer: bytearray,
    first: int,
    last: int,
    since: int,
    so_far: Appended,
) -> LogAppendInfo | asyncio.Future[LogAppendInfo]:
    """On the loop, unless its records take long to look at, or the request has taken long, or might overtake itself."""
    if last - first > partition.log.config.max_message_bytes:
        return partition.append(buffer, first, last)  # raises, before it looks at the records
    now = perf_counter_ns()
    if so_far.later is None and now - since < LOOP_NS:
        until = now + CHECK_NS
        try:
            return partition.append(
                buffer, first, last, quick_expansion(last - first), lambda: perf_counter_ns() >= until
            )
        except (RecordTooLargeError, OutOfTimeError):
            pass  # for the loop, that is
    return broker.conversions.append_compressed(partition, buffer, first, last, so_far.client)


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


def _failure(
    counters: RequestCounters, record_errors: RecordErrors, topic: TopicKey, index: int, error: Exception
) -> PartitionAnswer:
    """The answer to a batch that was not appended; counted, and a record at fault is noted."""
    code, message = (error.code, error.message) if isinstance(error, _Refused) else error_code(error)
    counters.errors[ApiKey.PRODUCE, code] += 1
    counters.produce_errors[code] += 1
    if isinstance(error, InvalidRecordError | InvalidTimestampError) and error.record_index >= 0:
        record_errors[topic, index] = [(error.record_index, str(error))]
    return index, code, -1, -1, -1, message


def _first_failure(answers: TopicAnswers) -> str:
    for name, partitions in answers:
        for index, code, *_, message in partitions:
            if code:
                return f"{name if isinstance(name, str) else name.hex()}-{index}: {code.name}: {message}"
    return "unknown"


async def _when_written(
    later: list[_Later],
    counters: RequestCounters,
    version: int,
    correlation_id: int,
    acks: int,
    answers: TopicAnswers,
    record_errors: RecordErrors,
    waits: list[asyncio.Future[None]],
    failed: bool,
) -> bytes | None:
    """Answers after the appends that go through a thread, and then after the syncs. None for acks 0."""
    try:
        for part in later:
            try:
                info = await part.written
            except Exception as error:
                failed = True
                part.answers[part.at] = _failure(counters, record_errors, part.topic, part.number, error)
                continue
            counters.produced_bytes += part.size
            counters.produced_records += info.record_count
            part.answers[part.at] = (
                part.number, _NONE, info.first_offset, info.log_append_time, info.log_start_offset, None
            )  # fmt: skip
            if acks and (wait := part.partition.durable(info.last_offset + 1)) is not None:
                waits.append(wait)
    finally:
        for part in later:  # the client has gone: what the thread was not handed yet is not appended
            if not part.written.cancel() and not part.written.cancelled():
                part.written.exception()  # or the loop would complain that nobody asked
    if acks == 0:
        if failed:
            raise ConnectionAborted(f"a produce with acks=0 failed: {_first_failure(answers)}")
        return None
    if waits:
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        failure = next((outcome for outcome in outcomes if isinstance(outcome, Exception)), None)
        return _after_syncs(counters, version, correlation_id, answers, record_errors, failure)
    return _with_record_errors(version, correlation_id, answers, record_errors)


def _after_syncs(
    counters: RequestCounters,
    version: int,
    correlation_id: int,
    answers: TopicAnswers,
    record_errors: RecordErrors | None,
    failure: Exception | None,
) -> bytes:
    """The answer after the syncs that cover the batches. One that failed makes its request's partitions uncertain."""
    if failure is not None:
        code, message = error_code(failure)
        counters.errors[ApiKey.PRODUCE, code] += sum(not part[1] for _, partitions in answers for part in partitions)
        answers = [
            (name, [(part[0], part[1] or code, -1, -1, -1, part[5] or message) for part in partitions])
            for name, partitions in answers
        ]
    return _with_record_errors(version, correlation_id, answers, record_errors or {})


def _with_record_errors(version: int, correlation_id: int, answers: TopicAnswers, record_errors: RecordErrors) -> bytes:
    if not record_errors:
        return write_produce_response(version, correlation_id, answers)
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
