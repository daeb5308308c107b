"""Keys, versions and fields of all requests and answers against Apache Kafka's own, read off the jar of its newest release.

`tests/compat/test_kafka_messages.py` holds the golden file against a jar.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from support.kafka_messages import (
    KafkaField,
    KafkaMessage,
    default_of,
    differences,
    encoded,
    golden,
    golden_release,
    read_text,
    snake,
    table_differences,
    text_of,
)
from support.messages import message_classes, random_struct
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.schema import ApiMessage, VersionRange, decode, encode

THEIRS = read_text(golden().read_text())
BY_NAME = {message.name: message for message in THEIRS}
OURS = [cls for cls in message_classes() if issubclass(cls, ApiMessage)]
ROUNDS = 4


def test_every_key_that_kafka_has_and_no_other() -> None:
    requests = [message for message in THEIRS if message.is_request]
    assert {key.value: key.label for key in ApiKey} == {
        message.key: message.name.removesuffix("Request") for message in requests
    }
    in_use = [message for message in requests if message.versions != "none"]
    assert len(in_use) > 85
    assert {message.key: ApiKey(message.key).flexible_from for message in in_use} == {
        message.key: None if message.flexible == "none" else VersionRange.parse(message.flexible).low
        for message in in_use
    }


def test_every_api_that_brokers_answer_is_answered_in_its_newest_version() -> None:
    assert table_differences(THEIRS) == []


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.__name__)
def test_fields_are_kafkas(cls: type[ApiMessage]) -> None:
    assert BY_NAME[cls.__name__].key == cls.API_KEY
    assert differences(cls, BY_NAME[cls.__name__]) == []


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.__name__)
def test_bytes_are_those_of_kafkas_definition(cls: type[ApiMessage]) -> None:
    """An oracle for versions that no other Python client has yet."""
    theirs = BY_NAME[cls.__name__]
    low, high = theirs.released
    rng = random.Random(f"definition {cls.__name__}")
    for version in range(low, high + 1):
        for _ in range(ROUNDS):
            message = random_struct(rng, cls, version)
            data = encode(message, version)
            assert data == encoded(theirs, message, version)
            assert decode(cls, version, data) == (message, len(data))


def test_the_page_names_the_release_and_the_file() -> None:
    page = (Path(__file__).parents[3] / "docs" / "COMPATIBILITY.md").read_text()
    _, _, section = page.partition("## Versions of the protocol\n")
    assert f"Apache Kafka {'.'.join(map(str, golden_release(golden())))}'s brokers" in section
    assert golden().name in section


def test_the_golden_file_is_what_is_read_from_it() -> None:
    lines = [line for line in golden().read_text().splitlines(keepends=True) if not line.startswith("#")]
    assert text_of(THEIRS) == "".join(lines)


def test_each_difference_is_found() -> None:
    theirs = BY_NAME["ApiVersionsRequest"]
    fields = {one.name: one for one in theirs.fields}

    def said(**changed: KafkaField) -> str:
        parts = tuple(changed.get(name, one) for name, one in fields.items())
        return "; ".join(differences(ApiVersionsRequest, replace(theirs, fields=parts)))

    cluster, node = fields["ClusterId"], fields["NodeId"]
    assert said() == ""
    assert "ClusterId is in versions: [5], Kafka's: [4, 5]" in said(ClusterId=replace(cluster, versions="4+"))
    assert "may be null in versions: [5], Kafka's: []" in said(ClusterId=replace(cluster, nullable="none"))
    assert "is None by default, Kafka's: ''" in said(ClusterId=replace(cluster, default=None))
    assert "is ignorable: True, Kafka's: False" in said(ClusterId=replace(cluster, ignorable=False))
    assert "is of another type than int64" in said(NodeId=replace(node, type="int64"))
    assert "is -1 by default, Kafka's: 0" in said(NodeId=replace(node, default=None))
    assert "is an array: False, Kafka's: True" in said(NodeId=replace(node, is_array=True))
    assert "has the tag: None, Kafka's: 0" in said(NodeId=replace(node, tag=0, tagged="5+"))
    assert "fields [" in said(NodeId=replace(node, name="Node"))
    assert "is no struct here" in said(NodeId=replace(node, fields=(node,)))
    for changed in (replace(theirs, versions="0-6"), replace(theirs, versions="0-4")):
        assert "versions 0 to 5, Kafka's are 0 to" in differences(ApiVersionsRequest, changed)[0]
    assert differences(ApiVersionsRequest, replace(theirs, versions="0-5", is_unstable=True)) == []
    assert "flexible from 3, Kafka's from 4" in differences(ApiVersionsRequest, replace(theirs, flexible="4+"))[0]


def test_what_a_table_lacks_is_named() -> None:
    newer = [
        *THEIRS,
        KafkaMessage("BrewCoffeeRequest", 200, "0-1", "0+", ("broker",)),
        KafkaMessage("GrindBeansRequest", 201, "0", "0+", ("controller",)),
        KafkaMessage("SteamMilkRequest", 202, "0", "0+", ("broker",), is_unstable=True),
        replace(BY_NAME["ApiVersionsRequest"], versions="0-6"),
    ]
    assert table_differences(newer) == [
        "18 ApiVersions: answered in 0 to 5, the newest of Kafka's is 6",
        "200 BrewCoffee: not answered, Kafka's brokers answer 0 to 1",
    ]


@pytest.mark.parametrize(
    ("name", "ours"),
    [("V3AndBelowTopics", "v3_and_below_topics"), ("GroupsNames", "groups_names"), ("IsInternal", "is_internal")],
)
def test_names_of_fields(name: str, ours: str) -> None:
    assert snake(name) == ours


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("int32", "0x7fffffff", 0x7FFFFFFF), ("int64", "-1", -1), ("int16", None, 0), ("bool", "true", True),
        ("bool", None, False), ("string", None, ""), ("string", "null", None), ("bytes", None, b""), ("uuid", None, bytes(16)),
        ("float64", None, 0.0),
    ],
)  # fmt: skip
def test_defaults(kind: str, default: str | None, expected: object) -> None:
    assert default_of(KafkaField("X", kind, False, "0+", default=default)) == expected
    assert default_of(KafkaField("X", kind, True, "0+")) == ()
