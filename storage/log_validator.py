"""What an append may change in a batch beyond offset, epoch and time: its codec, where the topic names one.

Checking a batch and assigning its offsets is the kernel's work (protocol/records). Under `compression.type=producer`, the
default, a batch is stored as it came; a topic that names a codec gets its batches rebuilt, but for those that have it already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..protocol.records.attributes import Compression
from ..protocol.records.builder import recompress

if TYPE_CHECKING:
    from ..config.log_config import LogConfig
    from .filesystem import Buffer

_CODECS = {
    "none": Compression.NONE,
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class TargetCompression(NamedTuple):
    """The codec that a topic wants, and the level for it (None: the codec's default)."""

    codec: Compression
    level: int | None

    @classmethod
    def of(cls, config: LogConfig) -> TargetCompression | None:
        """None under `producer`: then nothing is recompressed."""
        codec = _CODECS.get(config.compression_type)
        if codec is None:
            return None
        levels = {
            Compression.GZIP: config.compression_gzip_level,
            Compression.LZ4: config.compression_lz4_level,
            Compression.ZSTD: config.compression_zstd_level,
        }
        return cls(codec, levels.get(codec))

    def differs(self, codec: int) -> bool:
        return codec != self.codec

    def recompressed(self, buffer: Buffer, position: int) -> bytearray:
        """The validated and assigned batch at `position`, its records the same, in this codec."""
        return recompress(buffer, position, len(buffer), self.codec, self.level)
