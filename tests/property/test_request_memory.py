"""A request of N bytes takes at most c x N of memory once decoded, whichever it is; and no request has more elements than
`MAX_ELEMENTS`, in whatever arrays they are.

For each array of each request in its first and last version: a request that is nothing but elements of their smallest
encoding. What it takes is measured, not computed.
"""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import pytest
from support.messages import cases, fields_in
from tidelog.protocol import primitives
from tidelog.protocol.errors import MalformedRequest
from tidelog.protocol.messages._hot import parse_fetch, parse_produce
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.primitives import unsigned_varint
from tidelog.protocol.schema import Field, Message, Struct, VersionRange, decode, encode

MOST_GROWTH = 200
"""Bytes of memory for each byte of a request. The worst are structs that may be a byte or two long."""
COUNT = 300


def smallest(cls: type[Struct], version: int) -> Any:
    """A `cls` with nothing in it: null where it may be, else empty."""
    values: dict[str, Any] = {}
    for field in fields_in(cls, version):
        if field.tag is not None:
            continue
        if VersionRange.parse(field.nullable).has(version):
            values[field.name] = None
        elif field.is_array:
            values[field.name] = []
        elif isinstance(field.element, type):
            values[field.name] = smallest(field.element, version)
        else:
            values[field.name] = field.element.default
    return cls(**values)


def full_of(cls: type[Struct], version: int, path: tuple[str, ...]) -> Any:
    """A `cls` whose array at `path` has `COUNT` of the smallest elements; arrays on the way have one."""
    made = smallest(cls, version)
    field = next(field for field in fields_in(cls, version) if field.name == path[0])
    element = field.element
    if len(path) > 1:
        assert isinstance(element, type)
        inner = full_of(element, version, path[1:])
        setattr(made, path[0], [inner] if field.is_array else inner)
    else:
        one = smallest(element, version) if isinstance(element, type) else element.default
        setattr(made, path[0], [one] * COUNT)
    return made


def array_paths(cls: type[Struct], version: int) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for field in fields_in(cls, version):
        if field.is_array:
            found.append((field.name,))
        if isinstance(field.element, type):
            found += [(field.name, *rest) for rest in array_paths(field.element, version)]
    return found


ARRAYS = [
    (cls, version, path)
    for cls, version in cases()
    if cls.__name__.endswith("Request") and version in cls.VERSIONS
    if cls.MOST_ELEMENTS > COUNT  # of fewer, what they take besides is most of it, and little
    for path in array_paths(cls, version)
]


def test_memory_is_in_proportion_to_bytes() -> None:
    assert len(ARRAYS) > 150, "the requests were found"
    worst: tuple[float, str] = (0.0, "")
    for cls, version, path in ARRAYS:
        data = encode(full_of(cls, version, path), version)
        decode(cls, version, data)  # compiles
        tracemalloc.start()
        try:
            message, _ = decode(cls, version, data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert message is not None
        worst = max(worst, (peak / len(data), f"{cls.__name__} {version} {'.'.join(path)}"))
    assert worst[0] < MOST_GROWTH, worst


def test_all_arrays_of_a_request_have_so_many_elements_together(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [MetadataRequestTopic(name="")] * primitives.MAX_ELEMENTS
    data = encode(MetadataRequest(topics=topics), 1)
    assert len(decode(MetadataRequest, 1, data)[0].topics or ()) == primitives.MAX_ELEMENTS
    one_more = encode(MetadataRequest(topics=[*topics, topics[0]]), 1)
    with pytest.raises(MalformedRequest, match="more than 100000 elements in all arrays of one request"):
        decode(MetadataRequest, 1, one_more)


@pytest.mark.parametrize(
    ("count", "fits"), [(primitives.MAX_ELEMENTS // 2 - 1, True), (primitives.MAX_ELEMENTS // 2 + 1, False)]
)
def test_elements_of_arrays_in_arrays_count_too(count: int, fits: bool) -> None:
    produce: Message = ProduceRequest(
        acks=1,
        timeout_ms=1,
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=None)] * count)]
        * 2,
    )
    fetch: Message = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0)] * count)] * 2)
    for message, version, parse in ((produce, 8, parse_produce), (fetch, 11, parse_fetch)):
        data = struct.pack(">hhih", 0, version, 7, -1) + encode(message, version)
        if fits:
            parse(data, 0, len(data), version)
            decode(type(message), version, data, 10)
            continue
        with pytest.raises(ValueError, match="more elements than a request may have"):
            parse(data, 0, len(data), version)
        with pytest.raises(MalformedRequest, match="more than 100000 elements"):
            decode(type(message), version, data, 10)


KAFKAS_MOST_ELEMENTS, KAFKAS_MOST_TAGS = 1_000_000, 10_000
"""Kafka 4.4's limits on any array, and on the tagged fields of any struct."""


def test_limits_are_kafkas_or_lower() -> None:
    assert primitives.MAX_ELEMENTS <= primitives.MAX_ELEMENTS_OF_ANSWERS == KAFKAS_MOST_ELEMENTS
    assert primitives.MAX_TAGS <= KAFKAS_MOST_TAGS
    requests = [cls for cls, _ in cases() if cls.__name__.endswith("Request")]
    assert all(0 < cls.MOST_ELEMENTS <= primitives.MAX_ELEMENTS for cls in requests)


@pytest.mark.parametrize(("count", "is_well"), [(primitives.MAX_TAGS, True), (primitives.MAX_TAGS + 1, False)])
@pytest.mark.parametrize(
    ("message", "version", "parse"),
    [
        (ProduceRequest(acks=1, timeout_ms=1), 13, parse_produce),
        (FetchRequest(), 18, parse_fetch),
        (MetadataRequest(topics=[]), 13, None),
    ],
    ids=["produce", "fetch", "declared"],
)
def test_tagged_fields_of_a_request(message: Message, version: int, parse: Any, count: int, is_well: bool) -> None:
    """As many as Kafka reads, and one more is refused before any is read."""
    body = encode(message, version)
    assert body.endswith(b"\0"), "the request ends with its count of tagged fields"
    tags = b"".join(unsigned_varint(1000 + tag) + b"\0" for tag in range(count))
    for more in (tags, b""):  # what was announced need not come
        data = body[:-1] + unsigned_varint(count) + more
        frame = struct.pack(">hhih", 0, version, 7, -1) + b"\0" + data
        if is_well and more:
            decode(type(message), version, data)
            if parse is not None:
                parse(frame, 0, len(frame), version)
        elif not is_well:
            with pytest.raises(MalformedRequest, match="tagged fields"):
                decode(type(message), version, data)
            if parse is not None:
                with pytest.raises(ValueError, match="more tagged fields than a request may have"):
                    parse(frame, 0, len(frame), version)


@pytest.mark.parametrize(("count", "is_well"), [(primitives.MAX_TAGS, True), (primitives.MAX_TAGS + 1, False)])
@pytest.mark.parametrize(
    ("message", "version"),
    [(ApiVersionsResponse(), 4), (MetadataResponse(), 13)],
    ids=["known tags", "no known tags"],
)
def test_tagged_fields_of_an_answer(message: Message, version: int, count: int, is_well: bool) -> None:
    tags = b"".join(unsigned_varint(1000 + tag) + b"\0" for tag in range(count))
    data = encode(message, version)[:-1] + unsigned_varint(count) + tags
    if is_well:
        assert decode(type(message), version, data) == (message, len(data))
        return
    with pytest.raises(MalformedRequest, match=f"{count} tagged fields"):
        decode(type(message), version, data)


def test_each_struct_of_an_answer_may_have_tagged_fields() -> None:
    """A request's are counted together; an answer of very many partitions may have a tag in each."""
    keys = [ApiVersion(api_key=1)] * 3
    whole = encode(ApiVersionsResponse(api_keys=keys), 3)
    one = encode(ApiVersionsResponse(api_keys=keys[:1]), 3)[3:][:7]
    tagged = one[:-1] + unsigned_varint(9_000) + b"".join(unsigned_varint(tag) + b"\0" for tag in range(9_000))
    data = whole.replace(one * 3, tagged * 3)
    assert len(data) > 80_000
    assert decode(ApiVersionsResponse, 3, data)[0] == ApiVersionsResponse(api_keys=keys)


@pytest.mark.parametrize("version", [1, 9], ids=["plain", "compact"])
def test_an_array_of_an_answer_is_bounded_before_it_is_read(version: int) -> None:
    """Kafka 4.4's clients refuse such an answer too. The bytes for so many are there."""
    count = KAFKAS_MOST_ELEMENTS + 1
    throttle = bytes(4) if version >= 3 else b""
    size = unsigned_varint(count + 1) if version >= 9 else struct.pack(">i", count)
    data = throttle + size + bytes(16 * count)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedRequest, match=r"MetadataResponse\.brokers: an array of 1000001 elements"):
            decode(MetadataResponse, version, data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_answers_may_have_more_elements_than_requests() -> None:
    response = next(cls for cls, _ in cases() if cls.__name__ == "MetadataResponse")
    field: Field = next(field for field in fields_in(response, 1) if field.name == "topics")
    assert isinstance(field.element, type)
    topics = [smallest(field.element, 1)] * (primitives.MAX_ELEMENTS + 1)
    data = encode(response(topics=topics), 1)
    assert len(decode(response, 1, data)[0].topics) == len(topics)
