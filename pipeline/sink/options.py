"""The sink's options: those of Spark's Kafka sink, and how far a write must be whole.

    kafka.bootstrap.servers, bootstrap.servers   host:port,host:port
    topic                                        for all rows; without it each row says so in its column `topic`
    kafka.compression.type                       none, gzip, snappy, lz4 or zstd; kafka.compression.LEVEL-NAME.level
    kafka.batch.size, kafka.max.request.size     bytes before compression of a batch; of the largest record
    kafka.acks, kafka.delivery.timeout.ms        and what else the client takes, see wire/settings.py
    delivery                                     at-least-once | exactly-once
    kafka.transaction.timeout.ms                 how long a batch may take, with a restart in the middle of it
    transactional.id.prefix, commit.topic        names of what exactly-once needs
    txnAppId, txnVersion                         of a batch write: the same version again writes nothing

Streams are exactly-once unless told otherwise, batches at-least-once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...protocol.records.attributes import Compression
from ...protocol.records.compression import LEVELS
from ..exceptions import OptionError
from ..wire.settings import ClientSettings

DEFAULT_BATCH_BYTES = 512 * 1024
#: Kafka's max.request.size.
DEFAULT_MAX_RECORD = 1 << 20
#: The most that brokers allow unless told otherwise (transaction.max.timeout.ms).
DEFAULT_TRANSACTION_TIMEOUT_MS = 900_000
DEFAULT_PREFIX = "tidelog-sink"
DEFAULT_COMMIT_TOPIC = "tidelog-sink-commits"

_OWN = (
    "topic", "delivery", "transactional.id.prefix", "commit.topic", "txnAppId", "txnVersion", "bootstrap.servers",
    # Spark's own, which come along.
    "checkpointLocation", "path", "queryName", "includeHeaders",
)  # fmt: skip
_NAMES = {name.lower(): name for name in _OWN}
_PRODUCER = (
    "compression.type", "batch.size", "max.request.size", "acks", "delivery.timeout.ms", "transaction.timeout.ms",
    "bootstrap.servers", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level",
)  # fmt: skip
#: Settings of Kafka's producer that mean nothing here.
_IGNORED = (
    "linger.ms", "buffer.memory", "retries", "max.in.flight.requests.per.connection", "max.block.ms", "metadata.max.idle.ms",
    "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms",
)  # fmt: skip
_REFUSED = {
    "key.serializer": "give keys as string or binary",
    "value.serializer": "give values as string or binary",
    "transactional.id": "set transactional.id.prefix: every task has an id of its own",
    "partitioner.ignore.keys": "rows with a key go by it; the column partition says otherwise",
    "partitioner.class": "rows go where Kafka's default partitioner sends them; the column partition says otherwise",
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Pickled with each task. Times in ms, sizes in bytes."""

    client: ClientSettings
    topic: str | None = None
    exactly_once: bool = False
    codec: Compression = Compression.NONE
    level: int | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES
    max_record: int = DEFAULT_MAX_RECORD
    acks: int = -1
    delivery_timeout_ms: int = 120_000
    transaction_timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS
    prefix: str = DEFAULT_PREFIX
    commit_topic: str = DEFAULT_COMMIT_TOPIC
    application: str | None = None
    version: int = 0


def parse_sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """OptionError: one is unknown, missing or makes no sense."""
    own: dict[str, str] = {}
    kafka: dict[str, str] = {}
    for name, text in given.items():
        if name.lower().startswith("kafka."):
            kafka[name.lower()[len("kafka.") :]] = str(text).strip()
        elif name.lower() in _NAMES:
            own[_NAMES[name.lower()]] = str(text).strip()
        else:
            raise OptionError(f"unknown option {name}; there are {', '.join(_OWN[:7])} and kafka.*")
    for name, why in _REFUSED.items():
        if name in kafka:
            raise OptionError(f"kafka.{name} can't be set: {why}")
    producer = {name: kafka.pop(name) for name in _PRODUCER if name in kafka}
    for name in _IGNORED:
        kafka.pop(name, None)
    if kafka.pop("enable.idempotence", "true").lower() != "true":
        raise OptionError("kafka.enable.idempotence can't be false: without it a retry writes a batch twice")
    bootstrap = producer.get("bootstrap.servers") or own.get("bootstrap.servers")
    if not bootstrap:
        raise OptionError("set the option kafka.bootstrap.servers to host:port")
    delivery = own.get("delivery", "exactly-once" if streaming else "at-least-once").lower()
    if delivery not in ("exactly-once", "at-least-once"):
        raise OptionError(f"delivery is {delivery}; it can be at-least-once or exactly-once")
    if (acks := producer.get("acks", "all").lower()) not in ("all", "-1"):
        raise OptionError(f"kafka.acks is {acks}; an idempotent producer needs all")
    if streaming and "txnAppId" in own:
        raise OptionError("txnAppId is for batch writes; a stream has its query's id")
    if "txnVersion" in own and "txnAppId" not in own:
        raise OptionError("txnVersion needs txnAppId, which names whose version it is")
    if "txnAppId" in own and delivery != "exactly-once":
        raise OptionError("txnAppId needs delivery=exactly-once")
    commit_topic = own.get("commit.topic") or DEFAULT_COMMIT_TOPIC
    if delivery == "exactly-once" and own.get("topic") == commit_topic:
        raise OptionError(f"commit.topic is {commit_topic}, to which rows go: it needs a topic of its own")
    codec = _codec(producer.get("compression.type", "none"))
    return SinkOptions(
        client=ClientSettings.parse(bootstrap, kafka),
        topic=own.get("topic") or None,
        exactly_once=delivery == "exactly-once",
        codec=codec,
        level=_level(codec, producer),
        batch_bytes=_number(producer, "batch.size", DEFAULT_BATCH_BYTES, most=16 << 20),
        max_record=_number(producer, "max.request.size", DEFAULT_MAX_RECORD, most=1 << 30),
        delivery_timeout_ms=_number(producer, "delivery.timeout.ms", 120_000),
        transaction_timeout_ms=_number(producer, "transaction.timeout.ms", DEFAULT_TRANSACTION_TIMEOUT_MS, least=1000),
        prefix=own.get("transactional.id.prefix") or DEFAULT_PREFIX,
        commit_topic=commit_topic,
        application=own.get("txnAppId") or None,
        version=_number(own, "txnVersion", 0, least=0, most=(1 << 62)),
    )


def _codec(text: str) -> Compression:
    known = {codec.name.lower(): codec for codec in Compression}
    if text.lower() not in known:
        raise OptionError(f"kafka.compression.type is {text}; it can be {', '.join(known)}")
    return known[text.lower()]


def _level(codec: Compression, producer: Mapping[str, str]) -> int | None:
    name = f"compression.{codec.name.lower()}.level"
    if name not in producer:
        return None
    least, most, _ = LEVELS[codec]
    return _number(producer, name, 0, least=least, most=most)


def _number(found: Mapping[str, str], name: str, default: int, *, least: int = 1, most: int = (1 << 31) - 1) -> int:
    if name not in found:
        return default
    try:
        value = int(found[name])
    except ValueError:
        raise OptionError(f"{name} is {found[name]!r}, which is no number") from None
    if not least <= value <= most:
        raise OptionError(f"{name} is {value}; it can be {least} to {most}")
    return value
