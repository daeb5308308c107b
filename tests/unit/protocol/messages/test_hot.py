"""The compiled Produce and Fetch codecs against the declared schemas: same bytes, same refusals."""

from __future__ import annotations

import hashlib
import struct
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import MalformedRequest
from tidelog.protocol.headers import RequestHeader, parse_response_header, request_header_bytes
from tidelog.protocol.messages import fetch as f
from tidelog.protocol.messages import produce as p
from tidelog.protocol.messages._hot import parse_fetch, parse_produce, write_fetch_response, write_produce_response
from tidelog.protocol.schema import decode, encode

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
name = st.text("abcXYZ09._-", min_size=1, max_size=30)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
uuids = st.binary(min_size=16, max_size=16)


class Slice(NamedTuple):
    """Stands for a slice of a file: only its size is known to the writer."""

    count: int  # type: ignore[assignment]


def framed(key: ApiKey, version: int, client_id: str | None, body: bytes, before: bytes) -> tuple[bytearray, int, int]:
    header = request_header_bytes(RequestHeader(key, version, 77, client_id))
    return bytearray(before + header + body + b"after"), len(before), len(before) + len(header) + len(body)


def id_of(topic: str) -> bytes:
    """Some id of a topic."""
    return hashlib.md5(topic.encode("utf-8", "replace"), usedforsecurity=False).digest()


produce_topics = st.lists(
    st.tuples(name, st.lists(st.tuples(int32, st.none() | st.binary(max_size=200)), max_size=4)), max_size=4
)


@given(st.integers(0, 13), st.none() | text, st.none() | text, int16, int32, produce_topics, st.binary(max_size=9))
def test_a_produce_request_is_parsed_as_declared(
    version: int, client: str | None, txn: str | None, acks: int, timeout: int, topics: Any, before: bytes
) -> None:
    request = p.ProduceRequest(
        transactional_id=txn if version >= 3 else None,
        acks=acks,
        timeout_ms=timeout,
        topic_data=[
            p.TopicProduceData(
                name="" if version >= 13 else topic,
                topic_id=id_of(topic) if version >= 13 else bytes(16),
                partition_data=[p.PartitionProduceData(index=index, records=data) for index, data in partitions],
            )
            for topic, partitions in topics
        ],
    )
    buffer, start, end = framed(ApiKey.PRODUCE, version, client, encode(request, version), before)
    got = parse_produce(buffer, start, end, version)
    assert got[:4] == (client, txn if version >= 3 else None, acks, timeout)
    seen = [
        (topic, [(index, None if at < 0 else bytes(buffer[at:to])) for index, at, to in parts])
        for topic, parts in got[4]
    ]
    assert seen == ([(id_of(topic), parts) for topic, parts in topics] if version >= 13 else topics)


fetch_partitions = st.lists(st.tuples(int32, int32, int64, int32, int64, int32), max_size=4)


@given(
    st.integers(0, 18), st.none() | text, st.tuples(int32, int32, int32, st.integers(0, 1), int32, int32),
    st.lists(st.tuples(name, uuids, fetch_partitions), max_size=4),
    st.lists(st.tuples(name, uuids, st.lists(int32, max_size=4)), max_size=3), st.binary(max_size=9),
)  # fmt: skip
def test_a_fetch_request_is_parsed_as_declared(
    version: int, client: str | None, limits: Any, topics: Any, forgotten: Any, before: bytes
) -> None:
    wait, least, most, isolation, session, epoch = limits
    ids = version >= 13
    request = f.FetchRequest(
        max_wait_ms=wait, min_bytes=least, max_bytes=most if version >= 3 else 0x7FFFFFFF,
        isolation_level=isolation if version >= 4 else 0,
        topics=[
            f.FetchTopic(
                topic="" if ids else topic,
                topic_id=topic_id if ids else bytes(16),
                partitions=[
                    f.FetchPartition(
                        partition=index,
                        current_leader_epoch=leader if version >= 9 else -1,
                        fetch_offset=offset,
                        last_fetched_epoch=last if version >= 12 else -1,
                        log_start_offset=first if version >= 5 else -1,
                        partition_max_bytes=size,
                    )
                    for index, leader, offset, last, first, size in partitions
                ],
            )
            for topic, topic_id, partitions in topics
        ],
    )  # fmt: skip
    if version >= 7:
        request.session_id, request.session_epoch = session, epoch
        request.forgotten_topics_data = [
            f.ForgottenTopic(topic="" if ids else topic, topic_id=topic_id if ids else bytes(16), partitions=indexes)
            for topic, topic_id, indexes in forgotten
        ]
    buffer, start, end = framed(ApiKey.FETCH, version, client, encode(request, version), before)
    got = parse_fetch(buffer, start, end, version)
    assert got[:4] == (client, wait, least, most if version >= 3 else 0x7FFFFFFF)
    assert got[4] == (isolation if version >= 4 else 0)
    assert got[5:7] == ((session, epoch) if version >= 7 else (0, -1))
    assert got[7] == [
        (
            topic_id if ids else topic,
            [
                (
                    index, leader if version >= 9 else -1, offset, last if version >= 12 else -1,
                    first if version >= 5 else -1, size,
                )
                for index, leader, offset, last, first, size in partitions
            ],
        )
        for topic, topic_id, partitions in topics
    ]  # fmt: skip
    assert got[8] == ([(i if ids else t, indexes) for t, i, indexes in forgotten] if version >= 7 else [])


produce_rows = st.tuples(int32, int16, int64, int64, int64, st.none() | text)


@given(
    st.integers(0, 13), int32, int32,
    st.lists(st.tuples(name, st.lists(produce_rows, max_size=3)), max_size=3),
)  # fmt: skip
def test_a_produce_response_is_written_as_declared(version: int, correlation: int, throttle: int, topics: Any) -> None:
    rows = [(id_of(topic), parts) for topic, parts in topics] if version >= 13 else topics
    wire = write_produce_response(version, correlation, rows, throttle)
    assert struct.unpack_from(">i", wire)[0] == len(wire) - 4
    seen, body = parse_response_header(wire[4:], ApiKey.PRODUCE, version)
    assert seen == correlation
    response, end = decode(p.ProduceResponse, version, wire[4:], body)
    assert end == len(wire) - 4
    throttle = throttle if version >= 1 else 0
    assert response == p.ProduceResponse(
        throttle_time_ms=throttle,
        responses=[
            p.TopicProduceResponse(
                name="" if version >= 13 else topic,
                topic_id=id_of(topic) if version >= 13 else bytes(16),
                partition_responses=[
                    p.PartitionProduceResponse(
                        index=index,
                        error_code=code,
                        base_offset=base,
                        log_append_time_ms=time if version >= 2 else -1,
                        log_start_offset=first if version >= 5 else -1,
                        error_message=message if version >= 8 else None,
                    )
                    for index, code, base, time, first, message in partitions
                ],
            )
            for topic, partitions in topics
        ],
    )


aborted = st.none() | st.lists(st.tuples(int64, int64), max_size=3)
rows = st.lists(st.tuples(int32, int16, int64, int64, int64, aborted, st.none() | st.integers(0, 300)), max_size=3)


@given(st.integers(0, 18), int32, int16, int32, int32, st.lists(st.tuples(name, uuids, rows), max_size=3))
def test_a_fetch_response_is_written_as_declared(
    version: int, correlation: int, error: int, session: int, throttle: int, topics: Any
) -> None:
    ids = version >= 13
    written = [
        (
            topic_id if ids else topic,
            [(*row[:6], None if row[6] is None else Slice(row[6])) for row in partitions],
        )
        for topic, topic_id, partitions in topics
    ]
    parts = write_fetch_response(version, correlation, error, session, written, throttle)
    wire = b"".join(part if isinstance(part, bytes) else b"\xab" * part.count for part in parts)
    assert struct.unpack_from(">i", wire)[0] == len(wire) - 4
    seen, body = parse_response_header(wire[4:], ApiKey.FETCH, version)
    assert seen == correlation
    response, end = decode(f.FetchResponse, version, wire[4:], body)
    assert end == len(wire) - 4
    assert response.throttle_time_ms == (throttle if version >= 1 else 0)
    if version >= 7:
        assert (response.error_code, response.session_id) == (error, session)
    got = [
        (
            topic.topic_id if ids else topic.topic,
            [
                (
                    row.partition_index, row.error_code, row.high_watermark,
                    row.last_stable_offset if version >= 4 else None,
                    row.log_start_offset if version >= 5 else None,
                    None
                    if version < 4 or row.aborted_transactions is None
                    else [(one.producer_id, one.first_offset) for one in row.aborted_transactions],
                    bytes(row.records or b""),
                )
                for row in topic.partitions
            ],
        )
        for topic in response.responses
    ]  # fmt: skip
    assert got == [
        (
            topic_id if ids else topic,
            [
                (
                    index,
                    code,
                    hw,
                    lso if version >= 4 else None,
                    first if version >= 5 else None,
                    gone if version >= 4 else None,
                    b"\xab" * (size or 0),
                )
                for index, code, hw, lso, first, gone, size in partitions
            ],
        )
        for topic, topic_id, partitions in topics
    ]


@settings(max_examples=400)
@given(st.sampled_from([parse_produce, parse_fetch]), st.integers(0, 18), st.binary(max_size=300))
def test_garbage_raises_value_error_and_nothing_else(parse: Any, version: int, data: bytes) -> None:
    try:
        parse(data, 0, len(data), version)
    except ValueError as error:
        assert str(error)


@given(st.integers(0, 13), produce_topics, st.data())
def test_every_cut_and_every_changed_byte_is_survived(version: int, topics: Any, data: Any) -> None:
    request = p.ProduceRequest(
        topic_data=[
            p.TopicProduceData(
                name=topic, partition_data=[p.PartitionProduceData(index=i, records=r) for i, r in partitions]
            )
            for topic, partitions in topics
        ]
    )
    buffer, start, end = framed(ApiKey.PRODUCE, version, "c", encode(request, version), b"")
    cut = data.draw(st.integers(start, end - 1))
    with pytest.raises(ValueError):
        parse_produce(buffer, start, cut, version)
    buffer[data.draw(st.integers(start, end - 1))] ^= data.draw(st.integers(1, 255))
    try:
        parsed = parse_produce(buffer, start, end, version)
    except ValueError:
        return
    for _, partitions in parsed[4]:
        for _, first, last in partitions:
            assert -1 <= first <= last <= end


def test_a_count_beyond_the_request_is_refused_before_anything_is_made() -> None:
    body = encode(p.ProduceRequest(acks=1), 3)[:-4] + struct.pack(">i", 2**31 - 1)
    buffer, start, end = framed(ApiKey.PRODUCE, 3, None, body, b"")
    with pytest.raises(ValueError, match="more elements"):
        parse_produce(buffer, start, end, 3)


@pytest.mark.parametrize("version", range(14))
def test_a_null_array_of_topics_is_refused_as_the_declared_reader_does(version: int) -> None:
    body = encode(p.ProduceRequest(acks=1), version)
    # The empty array of topics is the last field, but for the count of tagged fields.
    body = body[:-2] + b"\0\0" if version >= 9 else body[:-4] + struct.pack(">i", -1)
    with pytest.raises(MalformedRequest):
        decode(p.ProduceRequest, version, body)
    with pytest.raises(ValueError, match="a null array"):
        parse_produce(*framed(ApiKey.PRODUCE, version, None, body, b""), version)
