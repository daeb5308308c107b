"""The frame against the declared message."""

from __future__ import annotations

from typing import Any

import pytest
from tidelog.broker.network.outbound import FileSlice
from tidelog.broker.runtime.cooperative import run_at_once
from tidelog.broker.share.fetch_response import PartitionAnswer, share_fetch_steps
from tidelog.broker.share.partition import Acquired
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.headers import response_header_bytes
from tidelog.protocol.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from tidelog.protocol.schema import decode, encode


class Bytes:
    """A file that is bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data


def sliced(data: bytes) -> FileSlice:
    file: Any = Bytes(b"before" + data + b"behind")
    return FileSlice(file, 6, len(data), True)


def joined(parts: list[Any]) -> bytes:
    return b"".join(
        part if isinstance(part, bytes) else part.file.data[part.position : part.position + part.count]
        for part in parts
    )


@pytest.mark.parametrize("version", [1, 2])
def test_the_frame_is_the_declared_message(version: int) -> None:
    t, u = b"t" * 16, b"u" * 16
    records = bytes(range(200)) * 3
    steps = share_fetch_steps(
        version,
        9,
        ErrorCode.NONE,
        None,
        30_000,
        {
            t: [
                PartitionAnswer(0, records=sliced(records), acquired=[Acquired(5, 9, 1), Acquired(11, 11, 3)]),
                PartitionAnswer(
                    1,
                    acknowledge_error=ErrorCode.INVALID_RECORD_STATE,
                    acknowledge_message="größer",
                    records=sliced(b"x"),
                    acquired=[Acquired(0, 2**40, 2)],
                ),
            ],
            u: [PartitionAnswer(7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")],
        },
    )
    parts = run_at_once(steps)
    message = ShareFetchResponse(
        acquisition_lock_timeout_ms=30_000,
        responses=[
            ShareFetchableTopicResponse(
                topic_id=t,
                partitions=[
                    PartitionData(
                        partition_index=0,
                        records=records,
                        acquired_records=[
                            AcquiredRecords(first_offset=5, last_offset=9, delivery_count=1),
                            AcquiredRecords(first_offset=11, last_offset=11, delivery_count=3),
                        ],
                    ),
                    PartitionData(
                        partition_index=1,
                        acknowledge_error_code=ErrorCode.INVALID_RECORD_STATE,
                        acknowledge_error_message="größer",
                        records=b"x",
                        acquired_records=[AcquiredRecords(first_offset=0, last_offset=2**40, delivery_count=2)],
                    ),
                ],
            ),
            ShareFetchableTopicResponse(
                topic_id=u,
                partitions=[
                    PartitionData(partition_index=7, error_code=3, error_message="gone", records=b""),
                ],
            ),
        ],
    )
    body = response_header_bytes(ApiKey.SHARE_FETCH, version, 9) + encode(message, version)
    assert joined(parts) == len(body).to_bytes(4, "big") + body
    assert [type(part) for part in parts] == [bytes, FileSlice, bytes, FileSlice, bytes], "no record was copied"


def test_an_error_stands_alone() -> None:
    (frame,) = run_at_once(share_fetch_steps(2, 1, ErrorCode.SHARE_SESSION_NOT_FOUND, "which?", 0, {}))
    assert isinstance(frame, bytes)
    header = response_header_bytes(ApiKey.SHARE_FETCH, 2, 1)
    read, _ = decode(ShareFetchResponse, 2, frame, 4 + len(header))
    assert (read.error_code, read.error_message, list(read.responses)) == (122, "which?", [])
