"""Errors in the form that clients expect: read back with the declared response, or as the bare code."""

from __future__ import annotations

import pytest
from tidelog.broker.requests.error_responses import error_frame, response_class, unsupported
from tidelog.broker.requests.registry import load_apis
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.headers import response_header_version
from tidelog.protocol.schema import decode

CODE = ErrorCode.UNKNOWN_SERVER_ERROR
APIS = load_apis()


@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: ApiKey(key).name)
def test_every_version_of_every_api_is_answered_or_has_no_place_for_an_error(key: int) -> None:
    registration = APIS[key]
    kind = response_class(registration)
    assert (kind.API_KEY, kind.__name__.endswith("Response")) == (key, True)
    for version in range(registration.min_version, registration.max_version + 1):
        frame = error_frame(registration, version, 77, CODE, "why")
        if frame is None:
            continue
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert int.from_bytes(frame[4:8], "big") == 77
        body = 8 + response_header_version(key, version)
        answer, end = decode(kind, version, frame, body)
        assert end == len(frame)
        assert answer.error_code == CODE  # type: ignore[attr-defined]
        assert getattr(answer, "error_message", "why") in ("why", None)


def test_apis_whose_errors_are_elsewhere() -> None:
    assert error_frame(APIS[ApiKey.METADATA], 12, 1, CODE, "why") is None
    assert error_frame(APIS[ApiKey.HEARTBEAT], 4, 1, CODE, "why") is not None
    assert error_frame(APIS[ApiKey.DESCRIBE_ACLS], 3, 1, CODE, "why") is not None


@pytest.mark.parametrize(
    ("key", "version", "expected"),
    [
        (999, 0, "00000006 00000005 0023"),
        (ApiKey.ENVELOPE, 0, "00000007 00000005 00 0023"),
        (ApiKey.LIST_OFFSETS, 99, "00000007 00000005 00 0023"),
        (ApiKey.HEARTBEAT, 99, "0000000c 00000005 00 00000000 0023 00"),
        (ApiKey.SYNC_GROUP, 32767, "0000000f 00000005 00 00000000 0023 00 00 01 00"),
    ],
)
def test_unsupported(key: int, version: int, expected: str) -> None:
    assert unsupported(APIS.get(key), key, version, 5) == bytes.fromhex(expected)
