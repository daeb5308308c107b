"""What a schedule's rules do to a broker: one dispatcher between its connections and its own, in tests alone.

`ScheduledDispatcher` sees every request before the daemon does and every answer after it, writes both into the trace, and
carries out the first rule that strikes. The daemon has no part in it: `quick` is None, so that nothing takes the compiled way
around, and where no schedule is given the dispatcher is not there.
"""

from __future__ import annotations

import asyncio
import math
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidelog.broker.network.outbound import received, release_parts
from tidelog.broker.requests.error_responses import has_field, request_class
from tidelog.broker.runtime.exceptions import RequestDeferred
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.headers import parse_request_header, response_header_bytes, response_header_version
from tidelog.protocol.schema import decode, encode

from .faults import api_key, awaits_answer, error_frame_of, whole_answer
from .schedule import (
    BumpEpoch,
    Cut,
    Error,
    Expire,
    JumpClock,
    Late,
    Rebalance,
    Rule,
    Schedule,
    Throttle,
    Truncate,
    Twice,
    Wait,
    What,
)
from .trace import Step, Trace

if TYPE_CHECKING:
    from tidelog.broker.network.connection import Answer, Dispatches, Reply
    from tidelog.broker.partitions.partition import Partition
    from tidelog.broker.requests.services import Services

_HEADER = struct.Struct(">hhih")  # API, version, correlation id, length of the client id
_KEYS = {int(key): key for key in ApiKey}
_SIZE = struct.Struct(">i")
#: Their errors are put into the real answer: what else is in it has to be there too.
_PATCHED = {ApiKey.METADATA, ApiKey.FETCH}
_BEFORE = (BumpEpoch, Expire, JumpClock, Rebalance, Truncate)
#: A request that found no room is tried again after so long.
_ROOM_S = 0.01


@dataclass(eq=False)
class _Request:
    """A request that a rule strikes. `frame` has no size before it."""

    key: ApiKey
    version: int
    correlation_id: int
    client: str
    frame: bytes
    connection: Any
    step: Step

    def decoded(self) -> Any:
        """The body, or None where it can't be read."""
        try:
            _, start = parse_request_header(self.frame)
            return decode(request_class(self.key, "Request"), self.version, self.frame, start)[0]
        except (ProtocolError, ValueError):
            return None


@dataclass(eq=False)
class ScheduleState:
    """How far a schedule is with each client; outlives a restart of its broker. Loop thread.

    Attributes:
        struck: rules that have struck so far, each once, in the order in which they did.
    """

    schedule: Schedule
    trace: Trace
    struck: list[Rule] = field(default_factory=list)
    _counts: Counter[tuple[int, str]] = field(default_factory=Counter)
    _late: list[tuple[str, _Request]] = field(default_factory=list)
    _by_api: dict[int, list[tuple[int, Rule]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, rule in enumerate(self.schedule.rules):
            self._by_api.setdefault(int(api_key(rule.when.api)), []).append((number, rule))

    def strike(self, key: int, client: str, topics: Callable[[], Iterable[str]]) -> Rule | None:
        """The rule that strikes this request of the client, or None; counts it for all rules that are about it.

        A rule that comes first takes the request from those behind it, for which it counts all the same.
        """
        found = None
        named: set[str] | None = None
        for number, rule in self._by_api.get(key, ()):
            when = rule.when
            if when.client is not None and when.client != client:
                continue
            if when.topic is not None:
                named = set(topics()) if named is None else named
                if when.topic not in named:
                    continue
            self._counts[number, client] += 1
            if found is None and when.strikes(self._counts[number, client], rule.times):
                found = rule
        if found is not None and found not in self.struck:
            self.struck.append(found)
        return found

    def keep_back(self, after: str, request: _Request) -> None:
        """Keep a request until its client's next one of API `after` has been handled."""
        self._late.append((after, request))

    def take_late(self, key: int, client: str) -> list[_Request]:
        """Requests of this client that arrive after one of API `key`."""
        if not self._late:
            return []
        due = [row for row in self._late if int(api_key(row[0])) == key and row[1].client == client]
        self._late = [row for row in self._late if row not in due]
        return [request for _, request in due]


class ScheduledDispatcher:
    """A dispatcher that follows a schedule in front of a broker's. Loop thread."""

    __slots__ = ("_effects", "_inner", "_state", "_trace")

    #: Each request is looked at here first.
    quick = None

    def __init__(self, state: ScheduleState, inner: Dispatches, effects: Effects) -> None:
        self._state = state
        self._trace = state.trace
        self._inner = inner
        self._effects = effects

    def dispatch(self, buffer: bytearray, start: int, end: int, connection: Any) -> Reply:
        """Dispatch as `Dispatcher.dispatch`, except for requests that a rule strikes."""
        if end - start < _HEADER.size:
            return self._inner.dispatch(buffer, start, end, connection)
        key, version, correlation_id, length = _HEADER.unpack_from(buffer, start)
        frame = bytes(memoryview(buffer)[start:end])
        api = _KEYS.get(key)
        if api is None:
            return self._inner.dispatch(buffer, start, end, connection)
        client = frame[_HEADER.size : _HEADER.size + max(length, 0)].decode("utf-8", "replace")
        step = self._trace.begin(connection, client, key, version, frame)
        request = _Request(api, version, correlation_id, client, frame, connection, step)
        rule = self._state.strike(key, client, lambda: self._effects.topics_of(request.decoded()))
        late = self._state.take_late(key, client)
        if rule is not None:
            step.rule = rule
            return self._finished(self._struck(rule.what, request), request, late)
        try:
            reply = self._inner.dispatch(buffer, start, end, connection)
        except RequestDeferred:
            # It is given to us again, and then counted again.
            return self._finished(self._handled(request), request, late)
        if late or not (reply is None or isinstance(reply, bytes | list)):
            return self._finished(_awaited(reply), request, late)
        step.answered(reply)
        return reply

    def answered(self, key: int, since: int) -> None:
        """Record an answer, as `Dispatcher.answered`."""
        self._inner.answered(key, since)

    def name_of(self, key: int) -> str:
        """Name of an API, as `Dispatcher.name_of`."""
        return self._inner.name_of(key)

    async def _finished(self, work: Awaitable[Answer], request: _Request, late: list[_Request]) -> Answer:
        """The answer, written into the trace, after what was kept back for this moment has arrived."""
        answer = await work
        for other in late:
            other.step.note(f"arrives after request {request.step.number}")
            other.step.answered(_released(await self._handled(other)))
        request.step.answered(answer)
        return answer

    async def _handled(self, request: _Request) -> Answer:
        """The broker's own answer to a request whose bytes were copied."""
        buffer = bytearray(request.frame)
        while True:
            try:
                reply = self._inner.dispatch(buffer, 0, len(buffer), request.connection)
            except RequestDeferred:
                await asyncio.sleep(_ROOM_S)
                continue
            return await _awaited(reply)

    async def _struck(self, what: What, request: _Request) -> Answer:
        if isinstance(what, Error):
            return await self._error(ErrorCode[what.code], what.handled, request)
        if isinstance(what, Late) or (isinstance(what, Cut) and what.share is None):
            if isinstance(what, Late):
                self._state.keep_back(what.after, request)
            request.step.note("connection cut, not handled")
            request.connection.close("a rule of the test")
            return None
        if isinstance(what, Wait) and what.before:
            await asyncio.sleep(what.seconds)
        elif isinstance(what, Twice):
            _released(await self._handled(request))
        elif isinstance(what, _BEFORE):
            request.step.note(await self._effects.happen(what, request))
        answer = await self._handled(request)
        if isinstance(what, Wait) and not what.before:
            try:
                await asyncio.sleep(what.seconds)
            except BaseException:
                _released(answer)
                raise
        if isinstance(what, Throttle):
            return self._throttled(answer, what.milliseconds, request)
        if isinstance(what, Cut) and what.share is not None:
            return self._cut(answer, what.share, request)
        return answer

    def _cut(self, answer: Answer, share: float, request: _Request) -> Answer:
        content = whole_answer(answer)
        sent = content[: math.floor(len(content) * share)]
        request.step.note(f"handled, {len(sent)} of {len(content)} bytes sent, connection cut")
        if not sent:
            request.connection.close("a rule of the test")
            return None
        # Before the return: no request behind this one may be answered, whose answer would go on where this one breaks off.
        request.connection.close_after_sending()
        return sent

    async def _error(self, code: ErrorCode, handled: bool, request: _Request) -> Answer:
        if not handled and not awaits_answer(request.key, request.version, request.frame):
            request.step.note("not handled, connection cut: no answer is waited for")
            request.connection.close("a rule of the test")
            return None
        if request.key in _PATCHED:
            return self._with_errors(await self._handled(request), code, request)
        if request.key is ApiKey.INIT_PRODUCER_ID and not getattr(request.decoded(), "transactional_id", None):
            request.step.note("handled: without a transactional id there is no coordinator to say so")
            return await self._handled(request)
        lie = error_frame_of(request.key, request.version, request.correlation_id, request.frame, code)
        if lie is not None and not handled:
            request.step.note("not handled")
            return lie
        answer = await self._handled(request)
        if lie is None or answer is None:  # a request without a place for an error, or acks=0
            return answer
        request.step.note("handled")
        _released(answer)
        return lie

    def _with_errors(self, answer: Answer, code: ErrorCode, request: _Request) -> Answer:
        response = self._response(answer, request)
        if response is None:
            return answer
        if request.key is ApiKey.METADATA:
            for topic in response.topics:
                for partition in topic.partitions:
                    partition.error_code, partition.leader_id = code, -1
        else:
            for topic in response.responses:
                for partition in topic.partitions:
                    partition.error_code, partition.records, partition.high_watermark = code, b"", -1
        return self._encoded(response, request)

    def _throttled(self, answer: Answer, milliseconds: int, request: _Request) -> Answer:
        request.connection.mute(milliseconds)
        if not has_field(request_class(request.key, "Response"), "throttle_time_ms", request.version):
            return answer
        response = self._response(answer, request)
        if response is None:
            return answer
        response.throttle_time_ms = milliseconds
        return self._encoded(response, request)

    @staticmethod
    def _response(answer: Answer, request: _Request) -> Any:
        """The answer decoded, its files read and released; None where there is none."""
        if answer is None:
            return None
        content = whole_answer(answer)
        start = 8 + response_header_version(request.key, request.version)
        return decode(request_class(request.key, "Response"), request.version, content, start)[0]

    @staticmethod
    def _encoded(response: Any, request: _Request) -> bytes:
        header = response_header_bytes(request.key, request.version, request.correlation_id)
        content = header + encode(response, request.version)
        return _SIZE.pack(len(content)) + content


class Effects:
    """What rules do to a broker beside its answers. Loop thread."""

    def __init__(self, services: Callable[[], Services], jump: Callable[[float], Awaitable[None]]) -> None:
        """`jump` moves the broker's clock by milliseconds and returns when all that became due is done."""
        self._services = services
        self._jump = jump
        #: Partitions that the fetches of a connection have named: later ones of its session name none.
        self._fetched: dict[str, dict[tuple[str, int], None]] = {}

    def topics_of(self, body: Any) -> list[str]:
        """Topics that a request names, by name or id."""
        return [topic for topic, _ in self._named(body)]

    async def happen(self, what: What, request: _Request) -> str:
        """Have it happen; returns a few words for the trace."""
        if isinstance(what, JumpClock):
            await self._jump(what.seconds * 1000)
            return f"clock goes forward by {what.seconds} s"
        body = request.decoded()
        if isinstance(what, Rebalance):
            return self._rebalance(getattr(body, "group_id", ""))
        names = []
        for partition in self._partitions(body, request):
            names.append(f"{partition.log.topic}-{partition.log.partition} {_change(what, partition)}")
            if partition.waiters:
                partition.wake()
        return ", ".join(names) or "no partition is named"

    def _rebalance(self, group_id: str) -> str:
        began = self._services().groups.begin_rebalance(group_id, "a rule of the test")
        return f"group {group_id} rebalances" if began else f"group {group_id} has nothing to rebalance"

    def _partitions(self, body: Any, request: _Request) -> Iterator[Partition]:
        named = dict.fromkeys(self._named(body))
        if request.key is ApiKey.FETCH:
            seen = self._fetched.setdefault(request.client, {})
            seen.update(named)
            named = named or seen
        services = self._services()
        for topic, index in named:
            known = services.topics.get(topic)
            if known is None or topic.startswith("__"):
                continue
            indexes = range(known.partition_count) if index is None else (index,)
            for number in indexes:
                partition = services.partitions.get(topic, number)
                if partition is not None:
                    yield partition

    def _named(self, body: Any) -> Iterator[tuple[str, Any]]:
        """(topic, partition) of each row that a request has for topics; None for all of its partitions."""
        for declared in getattr(body, "FIELDS", ()):
            rows = getattr(body, declared.name)
            if not declared.is_array or "topic" not in declared.name or not rows:
                continue
            for row in rows:
                topic = row if isinstance(row, str) else self._topic_of(row)
                if topic:
                    yield from ((topic, index) for index in _indexes(row))

    def _topic_of(self, row: Any) -> str:
        for name in ("name", "topic", "topic_name"):
            if isinstance(value := getattr(row, name, None), str) and value:
                return value
        topic_id = getattr(row, "topic_id", None)
        return (topic_id and self._services().partitions.name_of(bytes(topic_id))) or ""


def _indexes(row: Any) -> list[int | None]:
    """Numbers of the partitions in a topic's row; [None] where it has none."""
    for declared in getattr(row, "FIELDS", ()):
        if declared.is_array and "partition" in declared.name:
            parts = getattr(row, declared.name) or ()
            found = [_index(part) for part in parts]
            return [index for index in found if index is not None]
    return [None]


def _index(part: Any) -> int | None:
    if isinstance(part, int):
        return part
    for name in ("partition_index", "index", "partition", "partition_id"):
        if isinstance(value := getattr(part, name, None), int):
            return value
    return None


def _change(what: What, partition: Partition) -> str:
    """Do it to one partition; returns a few words."""
    log = partition.log
    if isinstance(what, Expire):
        start, end = log.log_start_offset, log.high_watermark
        log.increment_log_start_offset(min(start + math.ceil((end - start) * what.share), end))
        return f"starts at {log.log_start_offset}"
    if isinstance(what, Truncate):
        log.truncate_to(max(log.log_end_offset - what.records, log.log_start_offset))
    log.begin_leader_epoch()
    return f"ends at {log.log_end_offset}, leader epoch {log.leader_epoch}"


async def _awaited(reply: Reply) -> Answer:
    if reply is None or isinstance(reply, bytes | list):
        return reply
    return await received(reply)


def _released(answer: Answer) -> Answer:
    """The answer, whose files are given back: nobody is to get it."""
    if isinstance(answer, list):
        release_parts(answer)
    return answer
