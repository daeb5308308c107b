"""Errors in the form that clients expect: read back with the declared response, or as the bare code."""

from __future__ import annotations

import pytest
from tidelog.broker.requests.dispatcher import response_frame
from tidelog.broker.requests.error_responses import error_frame, response_class, unsupported
from tidelog.broker.requests.registry import load_apis
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.headers import response_header_version
from tidelog.protocol.messages.alter_configs import AlterConfigsResourceResponse, AlterConfigsResponse
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


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("letter", ["x", "é"])
def test_a_message_that_no_string_can_hold_is_shortened_and_the_other_results_are_told(
    version: int, letter: str
) -> None:
    """A setting's value may have as many bytes as a string, and the message says it again."""
    message = f"retention.ms={letter * 0x7FFF!r} is not a whole number"
    results = [
        AlterConfigsResourceResponse(error_code=40, error_message=message, resource_type=2, resource_name="a"),
        AlterConfigsResourceResponse(resource_type=2, resource_name="b"),
    ]
    frame = response_frame(ApiKey.ALTER_CONFIGS, version, 7, AlterConfigsResponse(responses=results))
    body = 8 + response_header_version(ApiKey.ALTER_CONFIGS, version)
    first, second = decode(AlterConfigsResponse, version, frame, body)[0].responses
    assert (first.error_code, first.resource_name) == (40, "a")
    told = first.error_message or ""
    assert message.startswith(told.removesuffix(" …"))
    assert (len(told) > 1000, told[-2:]) == (True, " …")
    assert (second.error_code, second.error_message, second.resource_name) == (0, None, "b")


def test_a_request_that_fails_as_a_whole_with_a_message_too_long_is_answered() -> None:
    assert error_frame(APIS[ApiKey.DESCRIBE_ACLS], 1, 1, CODE, "x" * 0x8000) is not None
