"""What the sink takes of Spark's and Kafka's options, and what it says of the others."""

from __future__ import annotations

import pytest
from tidelog.pipeline.exceptions import OptionError
from tidelog.pipeline.sink.options import parse_sink_options
from tidelog.protocol.records.attributes import Compression

SERVER = {"kafka.bootstrap.servers": "h:1"}


def test_a_batch_is_at_least_once_and_a_stream_exactly_once() -> None:
    assert not parse_sink_options(SERVER, streaming=False).exactly_once
    assert parse_sink_options(SERVER, streaming=True).exactly_once
    assert parse_sink_options({**SERVER, "Delivery": "exactly-once"}, streaming=False).exactly_once


def test_names_are_read_as_spark_and_kafka_write_them() -> None:
    found = parse_sink_options(
        {
            **SERVER, "Topic": "t", "kafka.compression.type": "ZSTD", "kafka.compression.zstd.level": "5",
            "kafka.batch.size": "1000", "kafka.acks": "all", "kafka.linger.ms": "9", "checkpointLocation": "/c",
            "kafka.transaction.timeout.ms": "2000", "kafka.client.id": "me", "kafka.enable.idempotence": "true",
        },
        streaming=True,
    )  # fmt: skip
    assert (found.topic, found.codec, found.level, found.batch_bytes) == ("t", Compression.ZSTD, 5, 1000)
    assert (found.transaction_timeout_ms, found.client.client_id, found.client.bootstrap) == (2000, "me", (("h", 1),))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"set the option kafka\.bootstrap\.servers"),
        ({**SERVER, "topc": "t"}, "unknown option topc; there are topic, delivery"),
        ({**SERVER, "kafka.acks": "1"}, "an idempotent producer needs all"),
        ({**SERVER, "kafka.enable.idempotence": "false"}, "a retry writes a batch twice"),
        ({**SERVER, "kafka.compression.type": "brotli"}, "it can be none, gzip, snappy, lz4, zstd"),
        ({**SERVER, "kafka.compression.type": "gzip", "kafka.compression.gzip.level": "10"}, "it can be 1 to 9"),
        ({**SERVER, "kafka.batch.size": "many"}, "'many', which is no number"),
        ({**SERVER, "kafka.transactional.id": "x"}, "set transactional.id.prefix"),
        ({**SERVER, "kafka.key.serializer": "x"}, "give keys as string or binary"),
        ({**SERVER, "delivery": "twice"}, "it can be at-least-once or exactly-once"),
        ({**SERVER, "txnVersion": "3"}, "txnVersion needs txnAppId"),
        ({**SERVER, "txnAppId": "a"}, "txnAppId needs delivery=exactly-once"),
        (
            {**SERVER, "delivery": "exactly-once", "topic": "t", "commit.topic": "t"},
            "commit.topic is t, to which rows go",
        ),
    ],
)
def test_mistakes_are_told(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_sink_options(given, streaming=False)


def test_a_stream_has_no_version_of_its_own() -> None:
    with pytest.raises(OptionError, match="a stream has its query's id"):
        parse_sink_options({**SERVER, "txnAppId": "a"}, streaming=True)
