"""librdkafka for `tidelog produce` and `consume`, where it is installed, and the choice between it and our own client (ADR 69).

--client own          our own client; nothing to install
--client librdkafka   librdkafka; a line says how to get it where it is not installed
--client auto         librdkafka where it is installed, or where an option needs it; else our own
"""

from __future__ import annotations

import argparse
import functools
from typing import TYPE_CHECKING, Any

from .kafka_client import KafkaFailure, security_of
from .output import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from .record_input import Rows

CLIENTS = ("auto", "own", "librdkafka")
#: Messages that librdkafka may hold before no more lines are read.
_QUEUED_MESSAGES, _QUEUED_KBYTES = 500_000, 256 << 10
_FULL_WAIT_S = 0.05
#: The lowest that librdkafka takes.
_LEAST_MESSAGE_MAX = 1000
FLUSH_S, _NOTICE_S = 60.0, 3.0


def add_client_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--client",
        choices=CLIENTS,
        default="auto",
        help="which Kafka client: our own, or librdkafka; auto (the default) takes librdkafka where it is installed",
    )
    parser.add_argument(
        "--property",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting of librdkafka, which is then used; may be given again",
    )


def chosen_library(options: Any) -> Any:
    """The module of librdkafka, or None for our own client. KafkaFailure: what was asked for is not there."""
    needed_by = "--property" if options.property else ""
    if options.client == "own":
        if needed_by:
            raise KafkaFailure(f"{needed_by} needs librdkafka: leave out --client own")
        return None
    try:
        import confluent_kafka
    except ImportError:
        if needed_by or options.client == "librdkafka":
            raise KafkaFailure(
                f"{needed_by or '--client librdkafka'} needs librdkafka, which is not installed: pip install 'tidelog[cli]'"
            ) from None
        return None
    return confluent_kafka


def security_settings(options: Any) -> dict[str, Any]:
    """Security settings of --command-config, under librdkafka's names. KafkaFailure."""
    security = security_of(options)
    return {} if security is None else security.librdkafka()


def make_producer(client: Any, bootstrap: str, options: Any, most_bytes: int = 1 << 20) -> Any:
    """librdkafka's producer; `most_bytes`: the topic's max.message.bytes. KafkaFailure: a --property is wrong."""
    from .kafka_client import pairs_of

    config = {
        "bootstrap.servers": bootstrap,
        "client.id": "tidelog-produce",
        "compression.type": options.compression,
        # As Kafka's own clients and ours place keys; librdkafka's default is another hash.
        "partitioner": "murmur2_random",
        "linger.ms": 5,
        # A batch that the topic does not take would fail with all that is in it.
        "batch.size": min(1 << 20, most_bytes),
        "message.max.bytes": max(most_bytes, _LEAST_MESSAGE_MAX),
        "queue.buffering.max.messages": _QUEUED_MESSAGES,
        "queue.buffering.max.kbytes": _QUEUED_KBYTES,
        "delivery.report.only.error": True,
        "log_level": 0,  # failures are reported in one line
        **security_settings(options),
        **pairs_of(options.property, "--property"),
    }
    try:
        return client.Producer(config)
    except client.KafkaException as error:
        raise KafkaFailure(f"--property: {error.args[0].str()}") from None


class Sender:
    """Hands messages to librdkafka and counts what became of them. One thread."""

    def __init__(
        self, client: Any, producer: Any, topic: str, partition: int, on_wait: Callable[[str], None] = lambda _why: None
    ) -> None:
        self._on_wait = on_wait
        self._client = client
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self.sent = 0
        self.failed = 0
        self._is_flushed = False
        self._why = ""
        self._first = self._last = -1
        #: Of another record of a batch that was refused as a whole: no cause of its own.
        self._other = getattr(client.KafkaError, "_INVALID_DIFFERENT_RECORD", None)
        self._is_cause = False

    @property
    def acknowledged(self) -> int:
        """Only failures are reported, which saves a call for each record: what librdkafka still has may become one."""
        if self._is_flushed:
            return self.sent - self.failed
        self._producer.poll(0)  # its length counts what it has to tell of connections too
        return max(0, self.sent - self.failed - len(self._producer))

    def send(self, rows: Rows) -> None:
        """Waits where librdkafka's queue is full."""
        self._is_flushed = False
        messages = rows.messages()
        if rows.headers is not None:
            self._send_singly(messages)
            return
        for index, message in enumerate(messages, self.sent + 1):
            message["callback"] = functools.partial(self._delivered, index)
        full = self._client.KafkaError._QUEUE_FULL
        while messages:
            self._producer.produce_batch(self._topic, messages, self._partition)
            self._producer.poll(0)
            left = []
            for message in messages:
                error = message.pop("_error", None)
                if error is None:
                    continue
                if error.code() == full:
                    left.append(message)
                else:
                    message["callback"](error, None)
            self.sent += len(messages) - len(left)
            messages = left
            if left:
                self._producer.poll(_FULL_WAIT_S)

    def _send_singly(self, messages: list[dict[str, Any]]) -> None:
        """librdkafka takes headers of one message at a time."""
        for message in messages:
            partition = message.pop("partition", self._partition)
            message["headers"] = [(name.decode("utf-8", "replace"), value) for name, value in message["headers"]]
            callback = functools.partial(self._delivered, self.sent + 1)
            while True:
                try:
                    self._producer.produce(self._topic, partition=partition, on_delivery=callback, **message)
                    break
                except BufferError:
                    self._producer.poll(_FULL_WAIT_S)
                except self._client.KafkaException as error:
                    callback(error.args[0], None)
                    break
            self.sent += 1
            self._producer.poll(0)

    def pause(self) -> None:
        """Let librdkafka report failures; it sends by itself."""
        self._producer.poll(0)

    def flush(self) -> None:
        """Waits until each message is acknowledged or has failed. KafkaFailure when some have failed."""
        left, waited = self._producer.flush(_NOTICE_S), _NOTICE_S
        while left and waited < FLUSH_S:
            self._on_wait(f"no acknowledgement yet of {plural(left, 'record')}")
            left, waited = self._producer.flush(_NOTICE_S), waited + _NOTICE_S
        self._is_flushed = True
        if left:
            self.failed += left
            self._why = self._why or f"no acknowledgement within {FLUSH_S:g} s"
        if self.failed:
            raise KafkaFailure(f"{self.failed:,} of the records were not written: {self.first_failure}")

    def _delivered(self, index: int, error: Any, _message: object) -> None:
        if error is None:
            return
        self.failed += 1
        is_cause = error.code() != self._other
        if not self._why or (is_cause and not self._is_cause):
            self._why, self._is_cause = error.str(), is_cause
            self._first = self._last = index
        elif is_cause == self._is_cause:
            self._first, self._last = min(self._first, index), max(self._last, index)

    @property
    def first_failure(self) -> str:
        """What became of the records that the first failure was told of; librdkafka tells of each in a batch the same."""
        if not self._why or self._first < 0:
            return self._why
        if self._first == self._last:
            return f"record {self._first:,} was refused: {self._why}"
        return (
            f"records {self._first:,} to {self._last:,} were refused, some of them for others of their batch: {self._why} "
            "(--client own names the one)"
        )
