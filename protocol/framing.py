"""Finds frames in the bytes of a connection, and limits the memory of an incomplete frame; no I/O.

    0               4                    4 + size
    +---------------+--------------------+
    | size          | header, body       |    0 <= size <= socket.request.max.bytes, or the connection ends
    +---------------+--------------------+

The bytes stay where they were received: requests are handled in the receive buffer, by position. The broker's `connection` adds
buffers, answers and waiting.
"""

from __future__ import annotations

import struct

from .errors import MalformedRequest

_SIZE = struct.Struct(">i")
read_size = _SIZE.unpack_from
SIZE_BYTES = _SIZE.size

#: Result of `frame_end` for an incomplete frame.
INCOMPLETE = -1
#: The least room that an incomplete frame gets, and what a frame of some size gets beyond its end: what comes behind it
#: is read with it.
READ_AHEAD_BYTES = 64 * 1024
#: Frames at least this large get a buffer that ends with them, so that what follows is not moved.
EXACT_FRAME_BYTES = 128 * 1024
#: Memory of a frame before its bytes come: a hundred clients that announce 50 MB each must not be given 5 GB.
UNPROVEN_FRAME_BYTES = 1024 * 1024
#: The same, and the least that any frame gets, while memory is scarce.
SCARCE_FRAME_BYTES = 4 * 1024


class FrameTooLargeError(MalformedRequest):
    """A frame announces more bytes than the limit allows, or fewer than none."""


def frame_end(buffer: bytes | bytearray, position: int, end: int, max_bytes: int) -> int:
    """End of the frame whose size field is at `position`; INCOMPLETE while buffer[position:end] has only part of it.

    Raises FrameTooLargeError as soon as the size is there: such a frame is not waited for.
    """
    if end - position < SIZE_BYTES:
        return INCOMPLETE
    size: int
    (size,) = read_size(buffer, position)
    if not 0 <= size <= max_bytes:
        raise FrameTooLargeError(
            f"a request of {size} bytes is announced; socket.request.max.bytes allows {max_bytes}. "
            "Is this a client of this listener's protocol, and is it set to plaintext?"
        )
    following = position + SIZE_BYTES + size
    return following if following <= end else INCOMPLETE


def room_for_frame(buffer: bytes | bytearray, position: int, end: int, max_bytes: int, scarce: bool = False) -> int:
    """Buffer size to use for the incomplete frame at `position`, of which buffer[position:end] has arrived.

    The frame and what is read ahead; for a large one, twice what has come, until that is the frame: memory follows the
    bytes that came and not those that were announced. `scarce`: nothing is read ahead, and the first room is small.
    """
    have = end - position
    if have < SIZE_BYTES:
        return SCARCE_FRAME_BYTES if scarce else READ_AHEAD_BYTES
    whole: int = SIZE_BYTES + max(0, _SIZE.unpack_from(buffer, position)[0])
    if whole > max_bytes + SIZE_BYTES:
        return READ_AHEAD_BYTES  # refused when its turn comes
    if scarce:
        return max(SCARCE_FRAME_BYTES, min(whole, 1 << have.bit_length()))
    if whole < EXACT_FRAME_BYTES:
        return max(whole, READ_AHEAD_BYTES) + READ_AHEAD_BYTES
    return min(whole, max(UNPROVEN_FRAME_BYTES, 1 << have.bit_length()))


def room_for_answer(have: int, size: int) -> int:
    """Buffer size a client should use for an answer of `size` announced bytes, of which `have` came; at most `size`.

    Twice what has come, as for a broker's requests: an announced gigabyte takes a mebibyte until more than that is there.
    """
    return min(size, max(UNPROVEN_FRAME_BYTES, 2 * have))
