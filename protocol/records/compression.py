"""The four codecs, as Kafka's clients and Kafka itself write them, with bounded output.

    gzip    RFC 1952, one or more members
    snappy  raw: one block that states its size first (librdkafka); or xerial framing (Java, and what we write):
            82 'SNAPPY' 00 | version int32 | compatible int32 | ( size int32 | raw block of up to 32 KiB )*
    lz4     LZ4 frame, 64 KiB independent blocks, no checksum of the content
    zstd    RFC 8878 frames; most clients leave the content size out

Every decompressor stops soon after `max_bytes`, no memory is taken because of what the input merely claims, and the time
is linear in the bytes that come and the bytes that they give: input is walked by position, a part at a time, and there may
be so many parts (gzip members, xerial blocks, zstd frames) and no more, see `FREE_PARTS`.
The codec packages are imported by the first use of their codec (start-up budget). Any thread may call: contexts are
per thread.
"""

from __future__ import annotations

import mmap
import struct
import threading
import zlib
from typing import TYPE_CHECKING

from .attributes import Compression
from .exceptions import (
    CorruptRecordError,
    InvalidRecordError,
    OutOfTimeError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import zstandard

    Data = bytes | bytearray | memoryview
    Plain = bytes | memoryview
    IsDue = Callable[[], bool]

__all__ = [
    "DEFAULT_MAX_BYTES",
    "FREE_PARTS",
    "LEVELS",
    "PART_BYTES",
    "Compression",
    "compress",
    "decompress",
]

# Limit of a decompressed batch: 128 times the default max.message.bytes, and more than socket.request.max.bytes.
DEFAULT_MAX_BYTES = 128 * 1024 * 1024

# Kafka's ranges and defaults for compression.<codec>.level (KIP-390). lz4's 9 is Kafka's name for the fast compressor.
LEVELS: dict[Compression, tuple[int, int, int]] = {
    Compression.GZIP: (1, 9, -1),
    Compression.LZ4: (1, 17, 9),
    Compression.ZSTD: (-(1 << 17), 22, 3),
}

#: A stream may have `FREE_PARTS` parts, and one more for each `PART_BYTES` that it holds. A part is what begins anew: a gzip
#: member, a xerial header or block, a zstd frame. One costs 2 to 5 µs whatever it gives, and may take 5 bytes: without a bound
#: a megabyte of empty ones takes 0.3 to 0.7 s. With it they take 5 ms at most, and as long again for each half megabyte that
#: comes out of it, which is some times what that takes in blocks of ordinary size.
#: Usual writers make this: one member, one frame, one raw block. In xerial framing 32 KiB a block (snappy-java, sarama,
#: kafka-python, kafka-go); 1 KiB in Kafka's own producers before 0.10.1, which is also the least that snappy-java can be set to.
#: Half of that is allowed on average, so what a writer with such blocks leaves at the ends does not count.
#: Not parts: blocks within an lz4 or zstd frame or a deflate stream, of some bytes to 128 KiB. The libraries take 10 to 100 ns
#: for an empty one, so the bytes bound them.
FREE_PARTS = 1024
PART_BYTES = 512

#: Input that is given to a library in one go: so often can somebody ask whether time is up, and so much is copied at most
#: for what is behind the end of a part. The first bite of a part that follows another is small, as most of these are.
_BITE = 64 * 1024
_SMALL_BITE = 512

_GZIP_WINDOW = 16 + zlib.MAX_WBITS  # 16: gzip header and trailer instead of zlib's
GZIP_STEP = 256 * 1024
#: Nobody minds as much, whatever the bound.
QUICK_BYTES = 1024 * 1024

#: Bytes that may be copied at once.
JOINED_BYTES = 8 * 1024 * 1024

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = struct.Struct(">8sii")
_XERIAL_BLOCK = 32 * 1024
_INT32 = struct.Struct(">i")
assert _XERIAL_HEADER.size == 16
# The densest snappy element is a copy: 3 bytes for 64.
_SNAPPY_MAX_RATIO = 22

_LZ4_MAGIC = 0x184D2204
_LZ4_HEADER = struct.Struct("<IBBQ")  # magic, flags, block descriptor, content size if the flag says so
_LZ4_HAS_CONTENT_SIZE = 0x08
# A run of matches costs one byte per 255.
_LZ4_MAX_RATIO = 255

# The densest zstd block is 4 bytes (header and one repeated byte) for 128 KiB.
_ZSTD_MAX_RATIO = 128 * 1024 // 4


class _Contexts(threading.local):
    """Pool of zstd contexts: making one takes 14 µs, and no two threads may use one at once."""

    decompressor: zstandard.ZstdDecompressor | None = None
    compressors: dict[int, zstandard.ZstdCompressor] | None = None


_contexts = _Contexts()


def compress(codec: int, data: Data, level: int | None = None) -> bytes:
    """Compress `data` to one stream of `codec`; any thread.

    Args:
        codec: a `Compression`.
        data: what to compress.
        level: within `LEVELS`; None for Kafka's default. Snappy has none.

    Raises:
        UnsupportedCompressionError: no such codec.
    """
    if codec == Compression.NONE:
        return bytes(data)
    if codec == Compression.GZIP:
        stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
        return stream.compress(data) + stream.flush()
    if codec == Compression.SNAPPY:
        return _compress_xerial(data)
    if codec == Compression.LZ4:
        import lz4.frame

        fast = level is None or level == LEVELS[Compression.LZ4][2]
        return bytes(
            lz4.frame.compress(
                data,
                compression_level=0 if fast else level,
                block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                block_linked=False,
                store_size=False,
            )
        )
    if codec == Compression.ZSTD:
        import zstandard

        if _contexts.compressors is None:
            _contexts.compressors = {}
        number = LEVELS[Compression.ZSTD][2] if level is None else level
        compressor = _contexts.compressors.get(number)
        if compressor is None:
            compressor = _contexts.compressors[number] = zstandard.ZstdCompressor(level=number)
        return compressor.compress(data)
    raise UnsupportedCompressionError(f"no compression codec has the id {codec}")


def decompress(
    codec: int, data: Data, max_bytes: int = DEFAULT_MAX_BYTES, is_due: Callable[[], bool] | None = None
) -> Plain:
    """Decompress one stream of `codec`; any thread. Large results come in pieces, between which other threads run.

    Args:
        codec: a `Compression`.
        data: the whole compressed stream, nothing behind it.
        max_bytes: the result may not be longer.
        is_due: whether the caller's time is up; asked between pieces of work of some milliseconds at most. None: it never is.

    Raises:
        CorruptRecordError: not a whole, intact stream of this codec.
        InvalidRecordError: more members, frames or blocks than `FREE_PARTS` and one for each `PART_BYTES` of the result.
        OutOfTimeError: `is_due` said so.
        RecordTooLargeError: the result would exceed `max_bytes`.
        UnsupportedCompressionError: no such codec.
    """
    function = _DECOMPRESSORS.get(codec)
    if function is None:
        raise UnsupportedCompressionError(f"no compression codec has the id {codec}")
    out = function(data, max_bytes, is_due)
    if len(out) > max_bytes:
        raise _too_large(codec, max_bytes)
    return out


def _too_large(codec: int, max_bytes: int) -> RecordTooLargeError:
    return RecordTooLargeError(f"{Compression(codec).name.lower()} data expands to more than {max_bytes} bytes")


def _corrupt(codec: Compression, why: object) -> CorruptRecordError:
    return CorruptRecordError(f"broken {codec.name.lower()} data: {why}")


def _copy(data: Data, max_bytes: int, is_due: IsDue | None) -> bytes:
    if len(data) > max_bytes:
        raise RecordTooLargeError(f"{len(data)} bytes of records are more than {max_bytes}")
    return bytes(data)


class _Pieces:
    """A growing result with three limits: `max_bytes`, a number of parts, and time. Large results are never copied as a
    whole (joined, or moved by a growing buffer), since no other thread would run meanwhile: address space is reserved
    at once, memory is touched as data comes.
    """

    def __init__(self, codec: Compression, max_bytes: int, is_due: IsDue | None) -> None:
        self._codec = codec
        self._max_bytes = max_bytes
        self._is_due = is_due
        self._part_count = 0
        self._parts: list[bytes] = []
        self._large: mmap.mmap | None = None
        self.size = 0

    def begin_part(self) -> None:
        """Count a member, frame or block that begins; InvalidRecordError for too many parts with too little data."""
        self._part_count += 1
        if self._part_count > FREE_PARTS + self.size // PART_BYTES:
            raise InvalidRecordError(
                f"the first {self._part_count - 1} parts of {self._codec.name.lower()} data hold {self.size} bytes: a batch may "
                f"have {FREE_PARTS} parts, and one for each {PART_BYTES} bytes"
            )

    def add(self, part: bytes) -> None:
        """Append `part`, which may be empty. RecordTooLargeError, OutOfTimeError, MemoryError."""
        if self._is_due is not None and self._is_due():
            raise OutOfTimeError(f"{self._codec.name.lower()} data that takes long: {self.size} bytes so far")
        start, self.size = self.size, self.size + len(part)
        if self.size > self._max_bytes:
            raise _too_large(self._codec, self._max_bytes)
        if self._large is None:
            self._parts.append(part)
            if self.size <= JOINED_BYTES:
                return
            try:
                self._large = mmap.mmap(-1, self._max_bytes)
            except OSError as error:  # no disk's
                raise MemoryError(f"{self._max_bytes} bytes of addresses: {error}") from None
            start, part = 0, b"".join(self._parts)
            self._parts.clear()
        self._large[start : self.size] = part

    def all(self) -> Plain:
        if self._large is not None:
            return memoryview(self._large)[: self.size]
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


def _decompress_gzip(data: Data, max_bytes: int, is_due: IsDue | None) -> Plain:
    pieces = _Pieces(Compression.GZIP, max_bytes, is_due)
    view = memoryview(data)
    position, bite = 0, _BITE
    while True:  # once per member
        pieces.begin_part()
        stream = zlib.decompressobj(_GZIP_WINDOW)
        pending: Data = b""
        while not stream.eof:
            if not pending:
                pending = view[position : position + bite]
                position += len(pending)
                bite = min(2 * bite, _BITE)
            try:
                part = stream.decompress(pending, min(GZIP_STEP, max_bytes + 1 - pieces.size))
            except zlib.error as error:
                raise _corrupt(Compression.GZIP, error) from None
            if not part and not pending and not stream.eof:
                raise _corrupt(Compression.GZIP, "the stream is cut short")
            pending = stream.unconsumed_tail
            pieces.add(part)
        position -= len(stream.unused_data)
        if position == len(view):
            return pieces.all()
        bite = _SMALL_BITE


def _compress_xerial(data: Data) -> bytes:
    import snappy

    out = bytearray(_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1))
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = snappy.compress(view[start : start + _XERIAL_BLOCK])
        out += _INT32.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(data: Data, max_bytes: int, is_due: IsDue | None) -> Plain:
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        return _snappy_block(view, max_bytes)  # a megabyte takes 2 ms at worst
    pieces = _Pieces(Compression.SNAPPY, max_bytes, is_due)
    position = 0
    while position < len(view):
        pieces.begin_part()
        if view[position : position + 8] == _XERIAL_MAGIC:  # at the start, and wherever streams were joined
            if len(view) - position < _XERIAL_HEADER.size:
                raise _corrupt(Compression.SNAPPY, "the stream is cut short")
            position += _XERIAL_HEADER.size
            continue
        if len(view) - position < 4:
            raise _corrupt(Compression.SNAPPY, "the stream is cut short")
        (size,) = _INT32.unpack_from(view, position)
        position += 4
        if size < 0 or size > len(view) - position:
            raise _corrupt(Compression.SNAPPY, f"a block claims {size} bytes where {len(view) - position} are left")
        pieces.add(_snappy_block(view[position : position + size], max_bytes - pieces.size))
        position += size
    return pieces.all()


def _snappy_block(block: memoryview, max_bytes: int) -> bytes:
    import snappy

    # A block opens with its size as an unsigned varint: believe it only as far as the format can expand.
    claimed = shift = 0
    for byte in block[:5]:
        claimed |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise _corrupt(Compression.SNAPPY, "a block does not state its size")
    if claimed > _SNAPPY_MAX_RATIO * len(block):
        raise _corrupt(Compression.SNAPPY, f"{len(block)} bytes cannot hold the {claimed} that they claim")
    if claimed > max_bytes:
        raise _too_large(Compression.SNAPPY, max_bytes)
    try:
        out = bytes(snappy.uncompress(block))
    except snappy.UncompressError as error:
        raise _corrupt(Compression.SNAPPY, error.__cause__ or error) from None
    if len(out) != claimed:
        raise _corrupt(Compression.SNAPPY, f"a block of {claimed} bytes gave {len(out)}")
    return out


def _decompress_lz4(data: Data, max_bytes: int, is_due: IsDue | None) -> Plain:
    import lz4.frame

    if len(data) < 7 or int.from_bytes(data[:4], "little") != _LZ4_MAGIC:
        raise _corrupt(Compression.LZ4, "no frame header")
    if data[4] & _LZ4_HAS_CONTENT_SIZE:
        # The package takes the claimed memory before it looks at the data.
        if len(data) < _LZ4_HEADER.size:
            raise _corrupt(Compression.LZ4, "the stream is cut short")
        claimed = _LZ4_HEADER.unpack_from(data)[3]
        if claimed > _LZ4_MAX_RATIO * len(data):
            raise _corrupt(Compression.LZ4, f"{len(data)} bytes cannot hold the {claimed} that they claim")
        if claimed > max_bytes:
            raise _too_large(Compression.LZ4, max_bytes)
    try:
        if _LZ4_MAX_RATIO * len(data) <= QUICK_BYTES:  # bounded by its nature, and the fastest way
            out, consumed = lz4.frame.decompress(data, return_bytes_read=True)
            if consumed != len(data):
                raise _corrupt(Compression.LZ4, f"{len(data) - consumed} bytes behind the end of the frame")
            return bytes(out)
        return _decompress_lz4_by_position(memoryview(data), max_bytes, is_due)
    except (RuntimeError, EOFError, ValueError, MemoryError) as error:
        raise _corrupt(Compression.LZ4, error) from None


def _decompress_lz4_by_position(view: memoryview, max_bytes: int, is_due: IsDue | None) -> Plain:
    """Decompress the one frame in `view`. The package's own decompressor would copy its unconsumed input in each step."""
    import lz4.frame

    context = lz4.frame.create_decompression_context()
    # Eight times the input is seldom too little; but what a step gives is copied once, in one go.
    step = min(8 * len(view), QUICK_BYTES, max_bytes + 1)
    pieces = _Pieces(Compression.LZ4, max_bytes, is_due)
    position = 0
    ended = False
    while not ended:
        pending = view[position : position + 4 * _BITE]
        part, consumed, ended = lz4.frame.decompress_chunk(
            context, pending, max_length=min(step, max_bytes + 1 - pieces.size)
        )
        if not part and not consumed and not ended:
            raise _corrupt(Compression.LZ4, "the stream is cut short")
        position += consumed
        pieces.add(part)
    if position != len(view):
        raise _corrupt(Compression.LZ4, f"{len(view) - position} bytes behind the end of the frame")
    return pieces.all()


def _decompress_zstd(data: Data, max_bytes: int, is_due: IsDue | None) -> Plain:
    import zstandard

    decompressor = _contexts.decompressor
    if decompressor is None:
        decompressor = _contexts.decompressor = zstandard.ZstdDecompressor()
    try:
        size = zstandard.frame_content_size(data)
        if size > max_bytes:
            raise _too_large(Compression.ZSTD, max_bytes)
        # In one go where nobody minds how long that takes, or it takes some milliseconds at most. Not behind a frame that holds
        # nothing: the package gives nothing then, whatever is behind it.
        if 0 < size <= _ZSTD_MAX_RATIO * len(data) and (is_due is None or len(data) <= _BITE):
            try:
                return decompressor.decompress(data, allow_extra_data=False)
            except zstandard.ZstdError:
                pass  # several frames, or broken: the way below tells
        # Small bites, so that each gives at most as much again as is allowed in all, or 16 MiB: smaller ones take longer.
        bite = max(512, max_bytes // _ZSTD_MAX_RATIO)
        view = memoryview(data)
        pieces = _Pieces(Compression.ZSTD, max_bytes, is_due)
        position = 0
        while position < len(view):  # once per frame
            pieces.begin_part()
            stream = decompressor.decompressobj()
            while not stream.eof:
                if position >= len(view):
                    raise _corrupt(Compression.ZSTD, "the stream is cut short")
                part = stream.decompress(view[position : position + bite])
                position = min(position + bite, len(view))
                pieces.add(part)
            position -= len(stream.unused_data)
        if not len(view):
            raise _corrupt(Compression.ZSTD, "no frame")
        return pieces.all()
    except zstandard.ZstdError as error:
        raise _corrupt(Compression.ZSTD, error) from None


_DECOMPRESSORS: dict[int, Callable[[Data, int, IsDue | None], Plain]] = {
    Compression.NONE: _copy,
    Compression.GZIP: _decompress_gzip,
    Compression.SNAPPY: _decompress_snappy,
    Compression.LZ4: _decompress_lz4,
    Compression.ZSTD: _decompress_zstd,
}
