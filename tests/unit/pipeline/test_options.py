from __future__ import annotations

import pytest
from tidelog.pipeline.exceptions import OptionError
from tidelog.pipeline.options import EARLIEST, LATEST, Options, check_batch, parse_options

HERE = {"path": "/a, /b,", "subscribe": "t"}


def test_what_is_not_said_is_as_with_sparks_kafka_source() -> None:
    assert parse_options(HERE) == Options(paths=("/a", "/b"), topics=("t",))


def test_names_are_read_without_regard_to_case() -> None:
    given = {
        "PATH": "/a",
        "SubscribePattern": "t.*",
        "startingoffsets": '{"t": {"0": 23, "1": -2}}',
        "ENDINGOFFSETS": '{"t": {"0": -1}}',
        "failOnDataLoss": "FALSE",
        "includeheaders": "true",
        "isolation": "READ_COMMITTED",
        "splitbytes": "4096",
        "checkCrcs": "false",
        "corruptBatches": "skip",
        "startingTimestamp": "0",
        "endingTimestamp": "9",
        "minPartitions": "7",
    }
    assert parse_options(given) == Options(
        paths=("/a",),
        pattern="t.*",
        starting={"t": {0: 23, 1: EARLIEST}},
        ending={"t": {0: LATEST}},
        starting_timestamp=0,
        ending_timestamp=9,
        fail_on_data_loss=False,
        include_headers=True,
        min_partitions=7,
        read_committed=True,
        split_bytes=4096,
        check_crc=False,
        skip_corrupt=True,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("groupIdPrefix", "etl"),
        ("kafka.group.id", "etl"),
        ("fetchOffset.numRetries", "3"),
        ("fetchOffset.retryIntervalMs", "10"),
        ("kafkaConsumer.pollTimeoutMs", "120000"),
    ],
)
def test_what_has_no_meaning_here_is_taken(name: str, value: str) -> None:
    """A query of the connector runs as it is."""
    given = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
    assert parse_options({**given, name: value}) == parse_options(given)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("2500us", 2), ("7", 7), ("7 ms", 7), ("90 s", 90_000), ("5min", 300_000), ("2H", 7_200_000), ("1d", 86_400_000)],
)
def test_a_delay_has_any_unit_that_spark_has_for_times(text: str, ms: int) -> None:
    assert parse_options({**HERE, "maxTriggerDelay": text}).max_trigger_delay_ms == ms


def test_partitions_and_topics_are_taken_once() -> None:
    assert parse_options({"path": "/a", "assign": '{"t": [3, 0, 3]}'}).assigned == {"t": (3, 0)}
    assert parse_options({"path": "/a", "subscribe": "b, a ,b,"}).topics == ("b", "a")
    assert parse_options({"path": "/a, /b", "subscribe": "t"}).paths == ("/a", "/b")
    assert parse_options({"paths": '["/a","/b"]', "subscribe": "t"}).paths == ("/a", "/b")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"path": "/a", "subscribe": "t", "startOffset": "1"},
            "unknown option startOffset; did you mean startingOffsets",
        ),
        ({"subscribe": "t"}, "set path to a daemon.s log.dirs, or bootstrap.servers"),
        ({"paths": "/a", "subscribe": "t"}, "paths is no JSON list of directories"),
        ({"path": "/a"}, "set one of subscribe, subscribePattern and assign, not none"),
        ({**HERE, "assign": "{}"}, "not subscribe and assign"),
        ({"path": "/a", "subscribe": " , "}, "names no topic"),
        ({"path": "/a", "subscribePattern": "("}, "subscribePattern: "),
        ({"path": "/a", "assign": '{"t": ["0"]}'}, "assign: t has no list"),
        ({"path": "/a", "assign": '{"t": [-1]}'}, "assign: t has no list"),
        ({"path": "/a", "assign": "[1]"}, "assign is no JSON object"),
        ({"path": "/a", "assign": "[" * 100_000}, "assign: "),
        ({"paths": "[" * 100_000, "subscribe": "t"}, "paths is no JSON list of directories"),
        ({**HERE, "maxTriggerDelay": "9" * 5000}, "it can be 15m"),
        ({**HERE, "startingOffsets": f'{{"t": {{"{"9" * 5000}": 1}}}}'}, "takes a partition and an offset"),
        ({**HERE, "startingOffsets": "latest"}, "startingOffsets can't be latest"),
        ({**HERE, "endingOffsets": "earliest"}, "endingOffsets can't be earliest"),
        ({**HERE, "startingOffsets": '{"t": {"0": -1}}'}, "-1 for t-0 makes no sense"),
        ({**HERE, "startingOffsets": '{"t": {"0": -3}}'}, "takes a partition and an offset"),
        ({**HERE, "startingOffsets": '{"t": {"x": 1}}'}, "takes a partition and an offset"),
        ({**HERE, "startingOffsets": '{"t": {"0": true}}'}, "takes a partition and an offset"),
        ({**HERE, "startingOffsets": '{"t": 5}'}, "t has no object of partitions"),
        ({**HERE, "startingOffsets": "yesterday"}, "startingOffsets: "),
        ({**HERE, "splitBytes": "0"}, "splitBytes is 0; it can be 1 or more"),
        ({**HERE, "minPartitions": "some"}, "no number"),
        (
            {**HERE, "startingTimestamp": str(1 << 63)},
            "startingTimestamp is 9223372036854775808; it can be 9223372036854775807 or",
        ),
        ({**HERE, "startingOffsets": f'{{"t": {{"0": {1 << 63}}}}}'}, "takes a partition and an offset"),
        (
            {**HERE, "endingOffsetsByTimestamp": f'{{"t": {{"0": {1 << 63}}}}}'},
            "takes a partition and a timestamp in ms",
        ),
        ({**HERE, "failOnDataLoss": "yes"}, "it can be true or false"),
        ({**HERE, "isolation": "serializable"}, "it can be read_uncommitted or read_committed"),
    ],
)
def test_what_makes_no_sense_is_told(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        check_batch(parse_options(given))
