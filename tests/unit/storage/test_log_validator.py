from __future__ import annotations

import pytest
from crc32c import crc32c
from tidelog.config.log_config import LogConfig
from tidelog.protocol.records._kernel import validate_and_assign
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.compression import Compression
from tidelog.protocol.records.record_batch import Record, iterate_records, read_batch_header
from tidelog.storage.log_validator import TargetCompression

RECORDS = [Record(n, 1000 + n, b"k%d" % n, b"value " * 20, ((b"h", None),)) for n in range(50)]


def test_producer_means_as_it_came() -> None:
    assert TargetCompression.of(LogConfig(compression_type="producer")) is None


@pytest.mark.parametrize("append_time", [-1, 77_000])
@pytest.mark.parametrize("source", Compression)
@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topics_codec(name: str, source: Compression, append_time: int) -> None:
    target = TargetCompression.of(LogConfig(compression_type=name))
    assert target is not None
    sent = build_batch(RECORDS, compression=source, producer_id=5, producer_epoch=1, base_sequence=7)
    batch = bytearray(b"request" + sent + b"more")
    validate_and_assign(batch, 7, 7 + len(sent), 900, 3, append_time, False)
    stored = target.recompressed(batch, 7)
    before, after = read_batch_header(batch, 7), read_batch_header(stored)
    assert after.compression == target.codec
    assert target.differs(before.compression) == (source != target.codec)
    assert list(iterate_records(stored)) == list(iterate_records(batch, 7))
    assert crc32c(stored[21:]) == after.crc
    same = ["base_offset", "last_offset", "partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence"]
    for field in [*same, "base_timestamp", "max_timestamp", "is_append_time", "record_count"]:
        assert getattr(after, field) == getattr(before, field), field
