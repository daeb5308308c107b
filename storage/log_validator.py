"""What an append may change in a batch beyond offset, epoch and time: its codec, where the topic names one.

Checking a batch and assigning its offsets is the kernel's work (protocol/records). Under `compression.type=producer`, the
default, a batch is stored as it came; a topic that names a codec gets its batches rebuilt, but for those that have it already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..protocol.records.attributes import Compression, TimestampType
from ..protocol.records.builder import build_batch
from ..protocol.records.record_batch import iterate_records, read_batch_header

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
        header = read_batch_header(buffer, position)
        return bytearray(
            build_batch(
                list(iterate_records(buffer, position)),
                base_offset=header.base_offset,
                compression=self.codec,
                level=self.level,
                timestamp_type=TimestampType.LOG_APPEND_TIME if header.is_append_time else TimestampType.CREATE_TIME,
                append_time=header.max_timestamp,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                is_transactional=header.is_transactional,
                is_control=header.is_control,
                partition_leader_epoch=header.partition_leader_epoch,
            )
        )
