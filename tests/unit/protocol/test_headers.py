from __future__ import annotations

import random

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from tidelog.protocol import headers
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import MalformedRequest
from tidelog.protocol.headers import RequestHeader

V1 = bytes.fromhex("0003 0008 0000002a 0003") + b"cli"
V2 = bytes.fromhex("0003 0009 0000002a 0003") + b"cli\0"


@pytest.mark.parametrize(
    ("frame", "header", "body_start"),
    [
        (V1 + b"body", RequestHeader(ApiKey.METADATA, 8, 42, "cli"), 13),
        (V2 + b"body", RequestHeader(ApiKey.METADATA, 9, 42, "cli"), 14),
        (V2[:-1] + b"\x01\x07\x02ab" + b"body", RequestHeader(ApiKey.METADATA, 9, 42, "cli"), 18),
        (bytes.fromhex("0003 0001 ffffffff ffff"), RequestHeader(ApiKey.METADATA, 1, -1, None), 10),
        (bytes.fromhex("0003 0001 00000000 0000"), RequestHeader(ApiKey.METADATA, 1, 0, ""), 10),
        (bytes.fromhex("0007 0000 00000005 00000001"), RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 0, 5, None), 8),
        (bytes.fromhex("0007 0001 00000005 0001 61"), RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 1, 5, "a"), 11),
        # A client of tomorrow asks for ApiVersions first: the header is read whatever the version.
        (bytes.fromhex("0012 7fff 00000005 0001 61 00"), RequestHeader(ApiKey.API_VERSIONS, 32767, 5, "a"), 12),
        # Kafka keeps a client whose id is no UTF-8.
        (bytes.fromhex("0003 0001 00000005 0001 ff"), RequestHeader(ApiKey.METADATA, 1, 5, "\ufffd"), 11),
    ],
)
def test_request_headers(frame: bytes, header: RequestHeader, body_start: int) -> None:
    for buffer in (frame, bytearray(frame), memoryview(frame)):
        assert headers.parse_request_header(buffer) == (header, body_start)


@pytest.mark.parametrize("frame", [V1, V2, V2[:-1] + b"\x01\x07\x02ab", bytes.fromhex("0007 0000 00000005")])
def test_a_header_cut_off_anywhere_is_malformed(frame: bytes) -> None:
    for end in range(len(frame)):
        with pytest.raises(MalformedRequest):
            headers.parse_request_header(frame[:end])


@pytest.mark.parametrize(
    "frame",
    [
        bytes.fromhex("0500 0000 00000001 ffff"),
        bytes.fromhex("ffff 0000 00000001 ffff"),
        bytes.fromhex("0003 ffff 00000001 ffff"),
        bytes.fromhex("0003 0001 00000001 fffe"),
        bytes.fromhex("0003 0001 00000001 8000") + b"x" * 0x8000,
        b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
        bytes.fromhex("16030100c8010000c40303"),
    ],
)
def test_what_is_no_kafka_request(frame: bytes) -> None:
    with pytest.raises(MalformedRequest):
        headers.parse_request_header(frame)


def test_random_bytes_are_a_header_or_malformed() -> None:
    rng = random.Random(20)
    for _ in range(5000):
        frame = bytearray(rng.randbytes(rng.randrange(40)))
        if len(frame) > 4:
            frame[0:4] = rng.choice((b"\0\x03\0\x09", b"\0\x12\0\x05", bytes(frame[:4])))
        try:
            _, end = headers.parse_request_header(frame)
        except MalformedRequest:
            continue
        assert 8 <= end <= len(frame)


@pytest.mark.parametrize("client_id", [None, "", "grün"])
@pytest.mark.parametrize("api", [(3, 8), (3, 9), (7, 0), (7, 1), (18, 3)])
def test_request_headers_come_back(api: tuple[int, int], client_id: str | None) -> None:
    header = RequestHeader(*api, 17, None if api == (7, 0) else client_id)
    encoded = headers.request_header_bytes(header)
    assert headers.parse_request_header(encoded) == (header, len(encoded))


def test_response_headers() -> None:
    assert headers.response_header_bytes(ApiKey.METADATA, 8, 42).hex() == "0000002a"
    assert headers.response_header_bytes(ApiKey.METADATA, 9, 42).hex() == "0000002a00"
    for version in range(6):
        assert headers.response_header_bytes(ApiKey.API_VERSIONS, version, -1).hex() == "ffffffff"
    assert headers.parse_response_header(bytes.fromhex("0000002a 01 07 02 6162 ee"), ApiKey.METADATA, 9) == (42, 9)
    assert headers.parse_response_header(bytes.fromhex("0000002a 01"), ApiKey.API_VERSIONS, 3) == (42, 4)
    for cut in ("000000", "0000002a"):
        with pytest.raises(MalformedRequest):
            headers.parse_response_header(bytes.fromhex(cut), ApiKey.METADATA, 9)


@pytest.mark.parametrize(("api_key", "name"), sorted(api_key_map.items()))
def test_header_versions_are_those_that_kio_generated_from_kafkas_schemas(api_key: int, name: str) -> None:
    versions = schema_name_map[name]
    assert versions
    for version in versions:
        request = load_request_schema(api_key, version)
        response = load_response_schema(api_key, version)
        assert headers.request_header_version(api_key, version) == request.__header_schema__.__version__
        assert headers.response_header_version(api_key, version) == response.__header_schema__.__version__
