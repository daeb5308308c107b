"""OFFSETS of the message-set protocol: where a reader begins who wants everything from a time on, and what lies before.

    time            first offset                                            behind it, while there is room
    −2 earliest     the log's start                                         nothing
    −1 latest       the high watermark: where the next record is seen       where segments begin, newest first, and at the
    ms since 1970   the first record with that time or a later one,         end the log's start
                    else the high watermark

Kafka 0.7 and 0.8 knew only where segments begin; with one number asked for, this is today's ListOffsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.message_set.wire import EARLIEST, LATEST

if TYPE_CHECKING:
    from ...storage.log.unified_log import UnifiedLog


def offsets_before(log: UnifiedLog, time: int, max_number: int) -> list[int]:
    """The offsets for `time`, at most `max_number`. May read from disk: pool threads.

    Raises:
        ProtocolError: INVALID_REQUEST for a time or number that means nothing.
        KafkaStorageError: the disk failed.
    """
    if max_number < 0:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"{max_number} offsets are asked for")
    high = log.high_watermark
    start = log.log_start_offset
    if time == EARLIEST:
        return [start][:max_number]
    first = high
    if time >= 0:
        found = log.lookup_by_timestamp(time, limit_offset=high)
        first = high if found is None else found.offset
    elif time != LATEST:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"time {time} is none of {LATEST}, {EARLIEST} and milliseconds")
    before = {max(start, segment.base_offset) for segment in log.segments}
    return [first, *sorted((offset for offset in before if offset < first), reverse=True)][:max_number]
