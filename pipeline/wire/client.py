"""The cluster: which broker to ask, and when to ask again.

A call that fails for a reason that passes (a broker is gone for a moment, a coordinator or leader has moved) is made again,
with growing pauses, until `default.api.timeout.ms` is over. Only errors at the top of an answer are seen here; what an
answer says of single topics or partitions is its caller's, who raises by `check` and repeats by `retry`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from ...clients.kafka.connection import (
    Address,
    Connection,
    ConnectionSettings,
    MisroutedError,
    Transport,
    open_transport,
)
from ...clients.kafka.conversations import MEANT_FROM, CoordinatorKind, MeantNode, find_coordinators
from ...protocol.messages.api_versions import ApiVersionsRequest
from ...protocol.messages.find_coordinator import FindCoordinatorRequest
from ...protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ...protocol.schema import ApiMessage
from ..exceptions import BrokerError, BrokerUnreachableError
from .errors import check, explain
from .settings import ClientSettings

ResponseT = TypeVar("ResponseT", bound=ApiMessage)
T = TypeVar("T")

#: The newest version of FindCoordinator that is used here.
_FIND_UP_TO = 4


class Leader(NamedTuple):
    """Leader of a partition: the broker's id, or −1 when there is none at the moment."""

    node_id: int
    epoch: int


class KafkaClient:
    """Connects when it is first asked; one thread at a time. Close it, or use it as a context manager.

    Calls block, for `default.api.timeout.ms` at most, and raise BrokerUnreachableError, UnsupportedBrokerError and
    BrokerError.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        connect: Callable[[Address, ConnectionSettings], Transport] = open_transport,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        on_wait: Callable[[str], None] = lambda _why: None,
    ) -> None:
        """`on_wait` is told why a call failed, each time before it is made again."""
        self.settings = settings
        self._on_wait = on_wait
        self._connect = connect
        self._clock = clock
        self._sleep = sleep
        self._connections: dict[Address, Connection] = {}
        #: Second connections, for requests while the first has answers on their way.
        self._spare: dict[Address, Connection] = {}
        self._brokers: dict[int, Address] = {}
        self._coordinators: dict[tuple[str, CoordinatorKind], int] = {}
        #: Id of the cluster, if its brokers can be told which of them is meant.
        self._cluster_id: str | None = None

    def close(self) -> None:
        for connections in (self._connections, self._spare):
            for connection in connections.values():
                connection.close()
            connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- asking

    def request(self, request: ApiMessage, response: type[ResponseT], *, up_to: int, at_least: int = 0) -> ResponseT:
        """Send a request to any broker, wait for the answer. `up_to`, `at_least`: the versions that the caller's code knows."""
        return self.retry(lambda: self.any_connection().request(request, response, up_to=up_to, at_least=at_least))

    def request_from(
        self, node_id: int, request: ApiMessage, response: type[ResponseT], *, up_to: int, at_least: int = 0
    ) -> ResponseT:
        """Send a request to that broker and wait for the answer."""
        return self.retry(
            lambda: self.idle_connection(node_id).request(request, response, up_to=up_to, at_least=at_least)
        )

    def request_coordinator(
        self, key: str, kind: CoordinatorKind, request: ApiMessage, response: type[ResponseT], *, up_to: int,
        at_least: int = 0, error_of: Callable[[ResponseT], int] = lambda answer: getattr(answer, "error_code", 0),
    ) -> ResponseT:  # fmt: skip
        """Send a request to the coordinator of the group or transactional id, which is looked up anew when it has moved.

        BrokerError for what `error_of` gives, unless it is 0: by default the answer's own error code.
        """

        def ask() -> ResponseT:
            try:
                connection = self.idle_connection(self._coordinator(key, kind))
                answer = connection.request(request, response, up_to=up_to, at_least=at_least)
                check(error_of(answer), f"{request.API_KEY.name} for {key}")
            except (BrokerError, BrokerUnreachableError):
                self._coordinators.pop((key, kind), None)  # one look-up more costs little
                raise
            return answer

        return self.retry(ask)

    def coordinators(self, keys: Sequence[str], kind: CoordinatorKind) -> dict[str, int]:
        """Coordinators of many keys, looked up together: key → broker's id. Those of which nothing is told now are left out."""
        unknown = [key for key in keys if (key, kind) not in self._coordinators]

        def ask() -> None:
            connection = self.any_connection()
            version = connection.version_of(FindCoordinatorRequest, _FIND_UP_TO)
            for coordinator in connection.run(find_coordinators(kind, unknown, version, _FIND_UP_TO)):
                if not coordinator.error_code:
                    self._brokers[coordinator.node_id] = (coordinator.host, coordinator.port)
                    self._coordinators[coordinator.key, kind] = coordinator.node_id

        if unknown:
            self.retry(ask)
        return {key: self._coordinators[key, kind] for key in keys if (key, kind) in self._coordinators}

    def metadata(self, topics: Iterable[str] | None) -> MetadataResponse:
        """Ask for the metadata of these topics, of all with None; creates none. Remembers the brokers' addresses."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]

        def ask() -> MetadataResponse:
            connection = self.any_connection()
            request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
            answer = connection.request(request, MetadataResponse, up_to=12, at_least=4)
            self._brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
            self._cluster_id = answer.cluster_id if self._checks_nodes(connection) else None
            return answer

        return self.retry(ask)

    # -- connections

    def any_connection(self) -> Connection:
        """Return an open connection on which no answer is to come, or else one to the first broker that answers."""
        for connection in (*self._connections.values(), *self._spare.values()):
            if connection.is_open and not connection.has_waiting:
                return connection
        failed = []
        for address in dict.fromkeys([*self.settings.bootstrap, *self._brokers.values()]):
            try:
                return self._open(address)
            except BrokerUnreachableError as error:
                failed.append(str(error))
        raise BrokerUnreachableError("; ".join(failed))

    def connection(self, node_id: int) -> Connection:
        """Connection to that broker, of which metadata or a coordinator's look-up has told. Answers to what was sent on it may
        be still to come.
        """
        return self._connection(self._connections, node_id)

    def idle_connection(self, node_id: int) -> Connection:
        """The same, or a second one while answers are to come on the first: for a request and its answer."""
        connection = self._connection(self._connections, node_id)
        return self._connection(self._spare, node_id) if connection.has_waiting else connection

    def retry(self, call: Callable[[], T]) -> T:
        """The call's result, after as many attempts as `default.api.timeout.ms` allows."""
        deadline = self._clock() + self.settings.api_timeout_ms / 1000
        pause = self.settings.backoff_ms / 1000
        while True:
            try:
                return call()
            except (BrokerUnreachableError, BrokerError) as error:
                if (isinstance(error, BrokerError) and not error.retriable) or self._clock() + pause > deadline:
                    raise
                why = str(error)
            self._on_wait(why)
            self._sleep(pause)
            pause = min(2 * pause, self.settings.max_backoff_ms / 1000)

    # -- inside

    def _connection(self, among: dict[Address, Connection], node_id: int) -> Connection:
        if node_id not in self._brokers:
            self.metadata([])
        address = self._brokers.get(node_id)
        if address is None:
            raise BrokerUnreachableError(f"broker {node_id} is not in the cluster at the moment")
        connection = among.get(address)
        if connection is not None and connection.is_open:
            return connection
        meant = None if self._cluster_id is None else MeantNode(self._cluster_id, node_id)
        try:
            return self._open(address, meant)
        except BrokerUnreachableError as error:
            self._brokers.pop(node_id, None)  # it may be somewhere else by the next attempt
            if isinstance(error.__cause__, MisroutedError):
                self._forget()
            raise

    def _open(self, address: Address, meant: MeantNode | None = None) -> Connection:
        connection = Connection(address, self.settings, explain=explain, meant=meant, connect=self._connect)
        first = self._connections.get(address)
        is_second = first is not None and first.is_open
        (self._spare if is_second else self._connections)[address] = connection
        return connection

    def _checks_nodes(self, connection: Connection) -> bool:
        """True if brokers are to be told which of them is meant, and this one, as the others by all odds, understands it."""
        _, newest = connection.versions.get(int(ApiVersionsRequest.API_KEY), (0, 0))
        return self.settings.cluster_check and newest >= MEANT_FROM

    def _forget(self) -> None:
        """Begin with the bootstrap servers again: addresses of this cluster lead elsewhere."""
        self.close()
        self._brokers.clear()
        self._coordinators.clear()
        self._cluster_id = None

    def _coordinator(self, key: str, kind: CoordinatorKind) -> int:
        found = self._coordinators.get((key, kind))
        if found is not None:
            return found
        connection = self.any_connection()
        version = connection.version_of(FindCoordinatorRequest, _FIND_UP_TO)
        answered = connection.run(find_coordinators(kind, [key], version, _FIND_UP_TO))
        if not answered:
            raise BrokerUnreachableError(f"the coordinator of {key} is not named at the moment")
        coordinator = answered[0]
        check(coordinator.error_code, f"the coordinator of {key}")
        self._brokers[coordinator.node_id] = (coordinator.host, coordinator.port)
        self._coordinators[key, kind] = coordinator.node_id
        return coordinator.node_id


def leaders(answer: MetadataResponse) -> dict[tuple[str, int], Leader]:
    """(topic, partition) → its leader, of all topics in the answer that have no error."""
    return {
        (topic.name, partition.partition_index): Leader(partition.leader_id, partition.leader_epoch)
        for topic in answer.topics
        if topic.name is not None and not topic.error_code
        for partition in topic.partitions
    }
