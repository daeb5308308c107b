"""Bytes in, whole frames out; no sockets. A frame is an INT32 size and that many bytes, in both directions.

    0               4                    4 + size
    +---------------+--------------------+
    | size          | header, body       |    0 <= size <= socket.request.max.bytes, or the connection ends
    +---------------+--------------------+

Two ways to feed a `FrameDecoder`; frames come out of `next_frame()` in either:

- `receive(data)` with any slice of the stream, as asyncio's `Protocol.data_received` has it;
- `get_buffer()` and `buffer_updated(count)`, asyncio's `BufferedProtocol`: a large frame is then read by the kernel
  straight into the memory in which the request will live, and small ones are copied once, out of a scratch buffer that
  all connections of a thread share. A connection with nothing under way holds no buffer at all.
"""

from __future__ import annotations

from collections import deque

from .errors import MalformedRequest
from .primitives import INT32

SCRATCH_BYTES = 128 * 1024
"""Size of a scratch buffer: a 64 KiB produce request and what comes behind it fit into one read."""

TRUSTED_BYTES = 1024 * 1024
"""Memory that a frame's announced size gets before its bytes have come. A larger frame grows as it fills, so that a
client can't make the daemon hold 100 MiB with four bytes."""


class FrameTooLargeError(MalformedRequest):
    """A frame announces more bytes than the limit allows, or fewer than none."""


class FrameDecoder:
    """Cuts one connection's stream into frames. One thread; `scratch` may be shared by decoders of the same thread.

    Each frame is a bytearray without its size, made for this one frame: whoever takes it may keep and change it. Memory
    is bounded by `max_bytes`, the scratch buffer, and frames that nobody has taken yet: stop reading from the socket
    while there are many of those.
    """

    __slots__ = ("_error", "_filled", "_frame", "_frames", "_max_bytes", "_prefix", "_scratch", "_size")

    def __init__(self, max_bytes: int, scratch: bytearray | None = None) -> None:
        self._max_bytes = max_bytes
        self._scratch = scratch
        self._frames: deque[bytearray] = deque()
        self._prefix = b""  # the first 0 to 3 bytes of a size
        self._frame: bytearray | None = None  # what has come of a frame, and room for more
        self._size = 0  # of the frame under way
        self._filled = 0  # bytes of it that have come
        self._error: FrameTooLargeError | None = None

    @property
    def pending_frames(self) -> int:
        """Frames that wait for `next_frame`."""
        return len(self._frames)

    @property
    def in_frame(self) -> bool:
        """Whether the stream stands inside a frame; if it ends there, that frame was cut off."""
        return self._frame is not None or bool(self._prefix)

    def next_frame(self) -> bytearray | None:
        """The next whole frame, None when more bytes are needed.

        FrameTooLargeError, again and again, once the stream can't be cut any further; the good frames before that
        point come first.
        """
        if self._frames:
            return self._frames.popleft()
        if self._error is not None:
            raise self._error
        return None

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Takes the next bytes of the stream, which it copies."""
        view = memoryview(data)
        position = 0
        while self._frame is not None and position < len(view):
            room = self._room()
            count = min(len(room), len(view) - position)
            room[:count] = view[position : position + count]
            self._advance(count)
            position += count
        if position < len(view):
            self._split(view, position, len(view))

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """Where the next bytes of the stream go. Write there at once and say how many: the buffer may be shared."""
        if self._frame is not None:
            return self._room()
        if self._scratch is None:
            self._scratch = bytearray(SCRATCH_BYTES)
        return memoryview(self._scratch)

    def buffer_updated(self, count: int) -> None:
        """The first `count` bytes of `get_buffer()`'s answer are the next of the stream."""
        if self._frame is not None:
            self._advance(count)
        elif self._scratch is not None:
            with memoryview(self._scratch) as view:
                self._split(view, 0, count)

    def _room(self) -> memoryview:
        """The unfilled rest of the frame under way; never empty."""
        frame = self._frame
        assert frame is not None
        if self._filled == len(frame):
            # Not resized in place: an event loop may still hold the last view.
            larger = bytearray(min(self._size, 2 * len(frame)))
            larger[: self._filled] = frame
            self._frame = frame = larger
        return memoryview(frame)[self._filled :]

    def _advance(self, count: int) -> None:
        frame = self._frame
        assert frame is not None
        assert 0 <= count <= len(frame) - self._filled
        self._filled += count
        if self._filled == self._size:
            self._frames.append(frame)
            self._frame = None

    def _split(self, view: memoryview, position: int, end: int) -> None:
        """Cuts view[position:end], which starts at a size or inside one."""
        if self._error is not None:
            return
        if self._prefix:
            missing = 4 - len(self._prefix)
            self._prefix += view[position : min(position + missing, end)]
            position += missing
            if len(self._prefix) < 4:
                return
            size = INT32.unpack(self._prefix)[0]
            self._prefix = b""
        elif end - position >= 4:
            size = INT32.unpack_from(view, position)[0]
            position += 4
        else:
            self._prefix = bytes(view[position:end])
            return
        while True:
            if not 0 <= size <= self._max_bytes:
                self._error = FrameTooLargeError(f"a frame announces {size} bytes; allowed are 0 to {self._max_bytes}")
                return
            have = end - position
            if size > have:
                self._size = size
                self._filled = have
                self._frame = frame = bytearray(max(min(size, TRUSTED_BYTES), have))
                frame[:have] = view[position:end]
                return
            self._frames.append(bytearray(view[position : position + size]))
            position += size
            if end - position < 4:
                self._prefix = bytes(view[position:end])
                return
            size = INT32.unpack_from(view, position)[0]
            position += 4
