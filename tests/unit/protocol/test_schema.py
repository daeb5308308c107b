from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import pytest
from support.messages import case_id, cases, check_round_trip, prefixes, random_struct
from tidelog.protocol.errors import ErrorCode, MalformedRequest, ProtocolError, UnsupportedFieldError
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from tidelog.protocol.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.messages.streams_group_describe import DescribedStreamsGroup, StreamsGroupDescribeResponse
from tidelog.protocol.messages.streams_group_topology_description_update import TopologyDescription
from tidelog.protocol.primitives import unsigned_varint
from tidelog.protocol.schema import (
    INT64,
    STRING,
    EncodedOnce,
    EncodedStruct,
    Message,
    Struct,
    VersionRange,
    array,
    boolean,
    bytes_,
    decode,
    decode_with_version,
    encode,
    encode_into,
    encode_with_version,
    float64,
    int8,
    int32,
    records,
    string,
    structure,
    uuid,
)


class Inner(Struct):
    number: int = int8()
    text: str = string("1+", default="x")


class Sample(Message):
    """One field of each kind, flexible from version 2 on."""

    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    flag: bool = boolean()
    ratio: float = float64()
    id: bytes = uuid("1+", ignorable=True)
    name: str | None = string(nullable="1+", default=None)
    payload: bytes | None = bytes_(nullable="0+")
    data: bytes | bytearray | memoryview | None = records(nullable="0+")
    inner: Inner = structure(Inner)
    maybe: Inner | None = structure(Inner, "3+", nullable="3+")
    numbers: Sequence[int] = array(INT64, "1+")
    texts: Sequence[str] | None = array(STRING, "1+", nullable="2+", ignorable=True)
    late: int = int32("3+", default=-1)
    tagged: int = int32("2+", default=7, tag=5)
    tagged_inner: Inner = structure(Inner, "2+", tag=2)
    tagged_texts: Sequence[str] = array(STRING, "3+", tag=300, ignorable=True)


def sample(version: int) -> Sample:
    message = Sample(flag=True, ratio=0.5, name="n", payload=b"pp", data=b"", inner=Inner(number=-2))
    if version >= 1:
        message.id = bytes(range(16))
        message.numbers = [1, -1]
        message.texts = ["t"]
        message.inner.text = "in"
    return message


INNER_0, INNER_1 = "fe", "fe 0002 696e"
GOLDEN = {
    0: "01 3fe0000000000000 0001 6e 00000002 7070 00000000 fe",
    1: "01 3fe0000000000000 000102030405060708090a0b0c0d0e0f 0001 6e 00000002 7070 00000000 fe 0002 696e"
    "00000002 0000000000000001 ffffffffffffffff 00000001 0001 74",
    2: "01 3fe0000000000000 000102030405060708090a0b0c0d0e0f 02 6e 03 7070 01 fe 03 696e 00"
    "03 0000000000000001 ffffffffffffffff 02 02 74 00",
    3: "01 3fe0000000000000 000102030405060708090a0b0c0d0e0f 02 6e 03 7070 01 fe 03 696e 00 ff"
    "03 0000000000000001 ffffffffffffffff 02 02 74 ffffffff 00",
}


@pytest.mark.parametrize("version", GOLDEN)
def test_bytes_follow_the_protocol_guide(version: int) -> None:
    assert encode(sample(version), version).hex() == GOLDEN[version].replace(" ", "")
    assert check_round_trip(sample(version), version).hex() == GOLDEN[version].replace(" ", "")


def test_tagged_fields_are_written_by_rising_tag_and_only_if_they_differ_from_their_default() -> None:
    message = sample(3)
    message.tagged = 8
    message.tagged_inner = Inner(number=1, text="")
    message.tagged_texts = ["ab"]
    message.maybe = Inner(number=3, text="m")
    head = bytes.fromhex(GOLDEN[3])[:-1].replace(b"\x69\x6e\x00\xff\x03", b"\x69\x6e\x00\x01\x03\x02m\x00\x03")
    assert check_round_trip(message, 3) == head + bytes.fromhex("03 02 03 01 01 00 05 04 00000008 ac02 04 02 03 6162")


def test_unknown_tagged_fields_are_skipped_and_known_ones_come_in_any_order() -> None:
    head = bytes.fromhex(GOLDEN[3])[:-1]
    data = head + bytes.fromhex("03 05 04 00000008 04 02 ffff 02 03 01 01 00") + b"trailing"
    message, end = decode(Sample, 3, data)
    assert end == len(data) - len("trailing")
    assert (message.tagged, message.tagged_inner) == (8, Inner(number=1, text=""))


@pytest.mark.parametrize(
    "section",
    [
        "01 05 03 00000008",  # shorter than its contents
        "01 05 05 00000008 00",  # longer than its contents
        "01 05 7f 00000008",  # reaches behind the end
        "01 09 7f 00",
        "01 05 ffffffff0f 00000008",
        "ffffffff0f",
        "ffffffffff01",
    ],
)
def test_tagged_fields_of_a_wrong_size(section: str) -> None:
    with pytest.raises(MalformedRequest):
        decode(Sample, 3, bytes.fromhex(GOLDEN[3])[:-1] + bytes.fromhex(section))


def test_fields_that_a_version_lacks_get_their_defaults() -> None:
    message, _ = decode(Sample, 0, bytes.fromhex(GOLDEN[0]))
    assert message == sample(0)
    assert (message.id, message.late, message.texts, message.inner.text) == (bytes(16), -1, (), "x")


def test_what_a_version_can_not_say() -> None:
    message = sample(0)
    for name, value in (
        ("late", 0),
        ("numbers", [1]),
        ("maybe", Inner()),
        ("tagged", 8),
        ("tagged_inner", Inner(number=1)),
    ):
        setattr(message, name, value)
        with pytest.raises(UnsupportedFieldError, match=rf"Sample.{name} can not be sent in version 0") as caught:
            encode(message, 0)
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
        message = sample(0)
    message.name = None
    with pytest.raises(UnsupportedFieldError, match=r"Sample.name can not be null in version 0"):
        encode(message, 0)
    message = sample(0)
    message.inner.text = "y"
    with pytest.raises(UnsupportedFieldError, match=r"Inner.text"):
        encode(message, 0)


def test_ignorable_fields_are_left_out_where_a_version_lacks_them() -> None:
    message = sample(0)
    message.id, message.texts, message.tagged_texts = b"i" * 16, None, ["t"]
    assert encode(message, 0).hex() == GOLDEN[0].replace(" ", "")


def test_versions_that_a_class_does_not_have() -> None:
    for version in (-1, 5, 32767):
        with pytest.raises(
            ProtocolError, match=f"HeartbeatRequest has versions 0 to 4, {version} was asked for"
        ) as caught:
            decode(HeartbeatRequest, version, b"")
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(ProtocolError):
            encode(HeartbeatRequest(), version)


def test_a_string_has_at_most_32767_bytes_also_where_its_length_is_a_varint() -> None:
    longest = "ü" * 16383 + "x"
    for version in (0, 4):
        check_round_trip(HeartbeatRequest(group_id=longest), version)
        with pytest.raises(ValueError, match=r"HeartbeatRequest.group_id takes 32768 bytes"):
            encode(HeartbeatRequest(group_id=longest + "x"), version)
    with pytest.raises(MalformedRequest):
        decode(HeartbeatRequest, 4, b"\x81\x80\x02" + b"x" * 40000)


def test_numbers_out_of_range_are_the_callers_bug() -> None:
    with pytest.raises(struct.error):
        encode(HeartbeatRequest(generation_id=2**31), 0)


def test_null_where_there_must_be_a_value() -> None:
    for version, data in ((0, b"\xff\xff"), (4, b"\0")):
        with pytest.raises(MalformedRequest, match=r"HeartbeatRequest.group_id can't be null"):
            decode(HeartbeatRequest, version, data + bytes(10))


def test_text_that_is_no_utf_8_is_read_as_kafka_reads_it() -> None:
    message, _ = decode(HeartbeatRequest, 0, b"\0\3a\xffb" + bytes(6))
    assert message.group_id == "a\ufffdb"


@pytest.mark.parametrize("version", [1, 8, 9, 12])
def test_a_count_is_checked_before_anything_is_allocated(version: int) -> None:
    count = b"\x7f\xff\xff\xff" if version < 9 else b"\xff\xff\xff\xff\x07"
    with pytest.raises(MalformedRequest, match=r"MetadataRequest.topics claims 21474836"):
        decode(MetadataRequest, version, count + bytes(100))


def test_a_count_is_held_against_the_smallest_size_of_an_element() -> None:
    # A topic of version 12 takes 16 + 1 + 1 bytes at least, so four can't be in 71.
    topic = bytes(16) + b"\0\0"
    assert (
        decode(MetadataRequest, 12, b"\x05" + topic * 4 + bytes(4))[0].topics == [MetadataRequestTopic(name=None)] * 4
    )
    with pytest.raises(MalformedRequest, match="claims 4 bytes or elements, 71 bytes"):
        decode(MetadataRequest, 12, b"\x05" + (topic * 4)[:-1])


def test_records_are_views_of_the_frame_and_bytes_are_not() -> None:
    request = ProduceRequest(
        acks=-1,
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=3, records=b"batch")])],
    )
    frame = bytearray(encode(request, 9))
    decoded, _ = decode(ProduceRequest, 9, frame)
    view = decoded.topic_data[0].partition_data[0].records
    assert isinstance(view, memoryview)
    assert view.obj is frame
    view[0:1] = b"B"
    assert b"Batch" in frame


def test_encoding_appends_to_what_is_there() -> None:
    out = bytearray(b"header")
    encode_into(HeartbeatRequest(), 0, out)
    assert out == b"header" + bytes(8)


def test_versions_before_messages_in_internal_topics() -> None:
    data = encode_with_version(sample(1), 1)
    assert data == b"\0\1" + encode(sample(1), 1)
    assert decode_with_version(Sample, data) == (sample(1), 1)
    for malformed in (b"", b"\0"):
        with pytest.raises(MalformedRequest):
            decode_with_version(Sample, malformed)


def test_constructors_equality_and_repr() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=5)
    assert (request.member_id, request.group_instance_id) == ("", None)
    assert repr(request) == ("HeartbeatRequest(group_id='g', generation_id=5, member_id='', group_instance_id=None)")
    assert request == HeartbeatRequest(group_id="g", generation_id=5)
    assert request != HeartbeatRequest(group_id="g", generation_id=6)
    assert request != 5
    with pytest.raises(TypeError, match="group"):
        HeartbeatRequest(group="g")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        request.grup_id = "g"  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        hash(request)
    response = ApiVersionsResponse(
        api_keys=(ApiVersion(api_key=1),), finalized_features=[FinalizedFeatureKey(name="f")]
    )
    assert response == ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=1)], finalized_features=(FinalizedFeatureKey(name="f"),)
    )
    assert Sample().inner is not Sample().inner


@pytest.mark.parametrize(
    ("text", "versions"), [("3+", (3, 32767)), ("3", (3, 3)), ("2-4", (2, 4)), ("0+", (0, 32767)), ("none", ())]
)
def test_version_ranges(text: str, versions: tuple[int, ...]) -> None:
    inside = range(versions[0], versions[1] + 1) if versions else range(0)
    parsed = VersionRange.parse(text)
    assert all(parsed.has(version) == (version in inside) for version in range(-1, 40))


@pytest.mark.parametrize(("cls", "version"), cases(), ids=case_id)
def test_every_message_in_every_version_comes_back(cls: type[Message], version: int) -> None:
    rng = random.Random(f"{cls.__name__} {version}")
    check_round_trip(cls(), version)
    for _ in range(4):
        message = random_struct(rng, cls, version)
        data = check_round_trip(message, version)
        for cut in prefixes(data):
            with pytest.raises(MalformedRequest):
                decode(cls, version, cut)


@pytest.mark.parametrize("version", range(5))
def test_elements_that_are_encoded_once_have_the_bytes_of_any_others(version: int) -> None:
    rows = [ApiVersion(api_key=key, min_version=0, max_version=key + 1) for key in range(200)]
    often = EncodedOnce(rows)
    for code in (0, 35):  # what is around them is not kept
        expected = encode(ApiVersionsResponse(error_code=code, api_keys=rows), version)
        assert encode(ApiVersionsResponse(error_code=code, api_keys=often), version) == expected
        assert decode(ApiVersionsResponse, version, expected)[0].api_keys == rows


def test_elements_that_are_encoded_once_are_not_looked_at_again() -> None:
    often = EncodedOnce([ApiVersion(api_key=1, max_version=2)])
    first = encode(ApiVersionsResponse(api_keys=often), 3)
    often[0].max_version = 9  # which nobody may do
    assert encode(ApiVersionsResponse(api_keys=often), 3) == first
    assert encode(ApiVersionsResponse(api_keys=often), 2) != encode(ApiVersionsResponse(api_keys=list(often[:0])), 2)


def test_a_struct_that_is_encoded_already_is_copied() -> None:
    description = random_struct(random.Random(7), TopologyDescription, 0)
    for version in (0, 1):
        for found in (description, EncodedStruct(encode(description, 0)), None):
            group = DescribedStreamsGroup(group_id="g", assignor_name="a")
            if version:
                group.topology_description = found
            response = StreamsGroupDescribeResponse(groups=[group])
            (again,) = decode(StreamsGroupDescribeResponse, version, encode(response, version))[0].groups
            assert again.topology_description == (description if version and found is not None else None)
            assert again.assignor_name == ("a" if version else None)


@pytest.mark.parametrize(
    ("first", "second", "fits"), [(9_999, 1, True), (10_000, 0, True), (9_999, 2, False), (10_001, 0, False)]
)
def test_the_tagged_fields_of_a_request_are_counted_together(first: int, second: int, fits: bool) -> None:
    """Those of its elements and its own, known or not. Kafka 4.4 has the same bound."""
    plain = encode(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
    of_topic = plain.index(b"\2t") + 2
    assert plain[of_topic] == plain[-1] == 0
    data = b"".join(
        (
            plain[:of_topic], unsigned_varint(first), b"\x63\0" * first,
            plain[of_topic + 1 : -1], unsigned_varint(second), b"\x63\0" * second,
        )
    )  # fmt: skip
    if fits:
        assert decode(MetadataRequest, 12, data)[0].topics[0].name == "t"  # type: ignore[index]
    else:
        with pytest.raises(MalformedRequest, match="tagged fields"):
            decode(MetadataRequest, 12, data)


def test_an_answer_may_have_a_tagged_field_for_each_partition() -> None:
    """It was asked for: a follower's hint stands with each of very many partitions."""
    rows = [
        PartitionData(partition_index=index, diverging_epoch=EpochEndOffset(epoch=1, end_offset=2))
        for index in range(20_000)
    ]
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)])
    assert decode(FetchResponse, 12, encode(answer, 12))[0].responses[0].partitions[-1].partition_index == 19_999
