"""What happens to files while they are read, and what is said of those that are damaged."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

import pytest
from support.columns import rows_of
from support.segment_dirs import write_log, write_segment, write_segment_into
from tidelog.pipeline.exceptions import CorruptLogError, DataLossError, DirectoryError
from tidelog.pipeline.planning.splits import LOOK_UP, Split, plan
from tidelog.pipeline.reading import segment_reader
from tidelog.pipeline.reading.segment_files import SegmentFile, list_segments
from tidelog.pipeline.reading.segment_reader import read_split
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndex, TxnIndexSearchResult
from tidelog.storage.log.partition_metadata import encode_uuid


def batch(offset: int, **arguments: int) -> bytes:
    """One record, whose key is its offset; all of one size."""
    return build_batch([Record(offset, 1, b"%03d" % offset, bytes(50))], base_offset=offset, **arguments)  # type: ignore[arg-type]


BATCHES = [batch(offset) for offset in range(40)]
SIZE = len(BATCHES[0])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Segments at 0, 15 and 30."""
    write_log(tmp_path / "t-0", [BATCHES[:15], BATCHES[15:30], BATCHES[30:]])
    return tmp_path / "t-0"


def splits_of(directory: Path, split_bytes: int = 400) -> list[Split]:
    return plan("t", 0, list_segments(directory), 0, 40, split_bytes)


def offsets(split: Split, **options: bool) -> list[int]:
    return [row.offset for columns in read_split(split, **options) for row in rows_of(columns)]


def segment(directory: Path, base_offset: int) -> Path:
    return directory / f"{base_offset:020d}.log"


def test_splits_are_about_even_and_begin_where_batches_do(directory: Path) -> None:
    splits = splits_of(directory)
    assert [split.first_offset for split in splits] == [0, 4, 8, 10, 14, 17, 21, 25, 27, 30, 34, 38]
    assert [offset for split in splits for offset in offsets(split)] == list(range(40))


def test_a_segment_that_cleaning_replaced_is_found_anew(directory: Path) -> None:
    """It has the old one's name, and the old positions mean nothing in it."""
    splits = splits_of(directory)
    write_segment(directory, 0, BATCHES[1:15:2])
    assert [offset for split in splits for offset in offsets(split)] == [*range(1, 15, 2), *range(15, 40)]


def test_segments_that_cleaning_joined_are_found_anew(directory: Path) -> None:
    splits = splits_of(directory)
    write_segment(directory, 0, [*BATCHES[:15:3], *BATCHES[15:30:4]])
    segment(directory, 15).unlink()
    assert [offset for split in splits for offset in offsets(split)] == [
        *range(0, 15, 3),
        *range(15, 30, 4),
        *range(30, 40),
    ]


@pytest.mark.parametrize("is_joined", [False, True])
def test_a_file_with_the_inode_of_one_that_was_read_is_read(
    directory: Path, monkeypatch: pytest.MonkeyPatch, is_joined: bool
) -> None:
    """Retention deletes the first segment when it was read, or two passes of the cleaner follow each other, and the new file of
    a later segment, or of all in one, gets its inode.
    """
    (split,) = splits_of(directory, 1 << 20)
    looks = 0

    def cleaned(there: str) -> list[SegmentFile]:
        nonlocal looks
        looks += 1
        if looks == 2:  # for what follows the second segment
            base = 0 if is_joined else 30
            write_segment_into(segment(directory, 0), base, BATCHES[base:])
            for name in (15, 30) if is_joined else ():
                segment(directory, name).unlink()
        return list_segments(there)

    monkeypatch.setattr(segment_reader, "list_segments", cleaned)
    assert offsets(split) == list(range(40))
    assert looks >= 2


def test_a_position_that_was_planned_is_none_in_another_file_with_that_inode(directory: Path) -> None:
    """The second pass of the cleaner gets the inode that the first one has set free."""
    splits = splits_of(directory)
    write_segment_into(segment(directory, 0), 0, BATCHES[1:15:2])
    assert [offset for split in splits for offset in offsets(split)] == [*range(1, 15, 2), *range(15, 40)]


def test_an_index_of_the_file_before_is_not_trusted(directory: Path) -> None:
    old = (directory / f"{0:020d}.index").read_bytes()
    splits = splits_of(directory)
    write_segment(directory, 0, BATCHES[1:15:2])
    (directory / f"{0:020d}.index").write_bytes(old)
    assert [offset for split in splits for offset in offsets(split)] == [*range(1, 15, 2), *range(15, 40)]


def test_what_retention_took_in_mid_read_is_told(directory: Path) -> None:
    splits = splits_of(directory, 1 << 20)
    reading = iter(read_split(splits[0]))
    for base in (0, 15):
        segment(directory, base).unlink()
    with pytest.raises(DataLossError, match="t-0: offsets 0 to 29 are gone"):
        list(reading)
    assert offsets(splits[0], fail_on_data_loss=False) == list(range(30, 40))


def test_what_retention_took_while_it_was_planned_is_told(directory: Path) -> None:
    """Between the look at the offsets and the look at the files."""
    segment(directory, 0).unlink()
    splits = splits_of(directory)
    (whole,) = plan("t", 0, list_segments(directory), 0, 10)
    for split, last in ((splits[0], 14), (whole, 9)):
        with pytest.raises(DataLossError, match=f"t-0: offsets 0 to {last} are gone"):
            offsets(split)
    assert offsets(whole, fail_on_data_loss=False) == []
    assert [offset for split in splits for offset in offsets(split, fail_on_data_loss=False)] == list(range(15, 40))


def test_a_topic_that_is_made_anew_between_plan_and_read_is_told(directory: Path, tmp_path: Path) -> None:
    """In the directory of that name, with other records at the same offsets; in the first file and in later ones."""
    old, new = uuid5(NAMESPACE_DNS, "old"), uuid5(NAMESPACE_DNS, "new")
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {encode_uuid(old)}\n")
    (split,) = (replace(one, topic_id=encode_uuid(old)) for one in splits_of(directory, 1 << 20))
    assert offsets(split) == list(range(40))
    reading = read_split(replace(split, end_offset=20))
    os.replace(directory, tmp_path / "t-0.deleted")
    write_log(directory, [BATCHES[:15], BATCHES[15:]])
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {encode_uuid(new)}\n")
    for each in (reading, read_split(replace(split, position=LOOK_UP))):
        with pytest.raises(
            DataLossError, match=r"t-0: the topic was deleted and made anew .* before offsets 0 to \d+ were read"
        ):
            list(each)
    assert offsets(split, fail_on_data_loss=False) == []
    (directory / "partition.metadata").unlink()  # written by a Kafka that knows no ids
    assert offsets(split) == list(range(40))


@pytest.mark.parametrize("committed", [False, True])
def test_a_topic_that_is_deleted_before_it_is_read_is_told_or_nothing(directory: Path, committed: bool) -> None:
    """But a machine that has not even the log.dir does not see what others see: that is never nothing."""
    (split,) = splits_of(directory, 1 << 20)
    directory.rename(directory.with_name("t-0.0123456789abcdef-delete"))
    with pytest.raises(DataLossError, match="t-0: the topic was deleted before offsets 0 to 39 were read"):
        offsets(split, read_committed=committed)
    assert offsets(split, read_committed=committed, fail_on_data_loss=False) == []
    directory.parent.rename(f"{directory.parent}-unmounted")
    with pytest.raises(DirectoryError, match="there is no such directory"):
        offsets(split, read_committed=committed, fail_on_data_loss=False)


def test_an_open_file_stays_readable(directory: Path) -> None:
    """The first columns are handed over when 16,384 rows are there: so many fit no segment, and the file is open by then."""
    many = [build_batch([Record(i, 1, None, None) for i in range(20_000)], base_offset=base) for base in (0, 20_000)]
    write_log(directory.parent / "u-0", [many])
    (split,) = plan("u", 0, list_segments(directory.parent / "u-0"), 0, 40_000)
    reading = read_split(split)
    first = next(reading).rows
    segment(directory.parent / "u-0", 0).unlink()
    assert first + sum(columns.rows for columns in reading) == 40_000


@pytest.mark.parametrize("at", [8, 16, 17, 30, 70])
def test_damage_is_told_with_file_byte_and_offset_or_left_out(directory: Path, at: int) -> None:
    path = segment(directory, 15)
    data = bytearray(path.read_bytes())
    data[5 * SIZE + at] ^= 0x55
    path.write_bytes(data)
    (split,) = splits_of(directory, 1 << 20)
    with pytest.raises(
        CorruptLogError, match=rf"{path}: damaged at byte {5 * SIZE}, behind offset 19: .*tidelog log verify"
    ):
        offsets(split)
    assert offsets(split, skip_corrupt=True) == [offset for offset in range(40) if offset != 20]


def test_the_room_that_an_active_segment_has_reserved_is_its_end(directory: Path) -> None:
    path = segment(directory, 30)
    path.write_bytes(path.read_bytes() + bytes(5000))
    (split,) = splits_of(directory, 1 << 20)
    assert offsets(split) == list(range(40))
    path = segment(directory, 15)
    path.write_bytes(path.read_bytes() + bytes(5000))
    with pytest.raises(CorruptLogError, match=f"damaged at byte {15 * SIZE}"):
        offsets(split)


def test_a_batch_that_is_being_written_is_not_read(directory: Path) -> None:
    path = segment(directory, 30)
    (split,) = splits_of(directory, 1 << 20)
    for cut in (5, 12, 61, 100):
        path.write_bytes(b"".join(BATCHES[30:]) + batch(40)[:cut])
        assert offsets(split) == list(range(40))


def test_a_batch_that_is_cut_off_where_there_should_be_records_is_damage(directory: Path) -> None:
    path = segment(directory, 30)
    path.write_bytes(path.read_bytes()[:-20])
    (split,) = splits_of(directory, 1 << 20)
    with pytest.raises(CorruptLogError, match="cut off"):
        offsets(split)


@pytest.mark.parametrize("first", [0, 35, 38])
def test_files_that_end_before_the_split_are_told(directory: Path, first: int) -> None:
    """The daemon has truncated them since, or they are a copy of which its broker knows more."""
    path = segment(directory, 30)
    split = replace(splits_of(directory, 1 << 20)[0], first_offset=first)
    path.write_bytes(b"".join(BATCHES[30:36]))
    with pytest.raises(
        DataLossError, match=rf"t-0: offsets {max(36, first)} to 39 are gone: the files in .* end before"
    ):
        offsets(split)
    assert offsets(split, fail_on_data_loss=False) == list(range(first, 36))


def test_a_segment_that_has_no_batch_yet_is_where_a_log_ends(directory: Path) -> None:
    write_segment(directory, 50, [])
    (split,) = plan("t", 0, list_segments(directory), 0, 50, 1 << 20)
    assert offsets(split) == list(range(40))


def test_batches_larger_than_a_chunk_are_read(tmp_path: Path) -> None:
    sizes = (9_000_000, 10, 5_000_000)
    large = [build_batch([Record(0, 1, b"a", bytes(size))], base_offset=offset) for offset, size in enumerate(sizes)]
    write_log(tmp_path / "t-0", [large])
    (split,) = plan("t", 0, list_segments(tmp_path / "t-0"), 0, 3)
    assert offsets(split) == [0, 1, 2]


OWN = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
#: Producer 7 aborts 2 to 5 and commits 8; producer 8's batch between is another's.
TRANSACTIONS = [
    batch(0),
    batch(2, **OWN),
    batch(3, **{**OWN, "producer_id": 8}),
    batch(4, **OWN),
    batch(5, **OWN, is_control=True),
    batch(8, **OWN),
]


def txn_index(directory: Path, base_offset: int, *aborted: AbortedTxn) -> Path:
    path = directory / f"{base_offset:020d}.txnindex"
    path.write_bytes(TransactionIndex.encode(aborted))
    return path


def test_readers_of_committed_data_do_not_see_aborted_transactions(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [TRANSACTIONS[:3], TRANSACTIONS[3:]])
    txn_index(tmp_path / "t-0", 4, AbortedTxn(7, 2, 5, 3))
    (split,) = plan("t", 0, list_segments(tmp_path / "t-0"), 0, 9)
    assert offsets(split) == [0, 2, 3, 4, 8]
    assert offsets(split, read_committed=True) == [0, 3, 8]


def test_an_abort_that_moves_to_another_index_while_they_are_read_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments are joined behind the first one's index and before the second's."""
    directory = tmp_path / "t-0"
    write_log(directory, [TRANSACTIONS[:3], TRANSACTIONS[3:]])
    old = txn_index(directory, 4, AbortedTxn(7, 2, 5, 3))
    txn_index(directory, 0)
    (split,) = plan("t", 0, list_segments(directory), 0, 9)
    collect = TransactionIndex.collect

    def joined(index: TransactionIndex, *bounds: int) -> TxnIndexSearchResult:
        found = collect(index, *bounds)
        if old.exists():
            write_segment(directory, 0, TRANSACTIONS)
            txn_index(directory, 0, AbortedTxn(7, 2, 5, 3))
            for path in (old, segment(directory, 4)):
                path.unlink()
        return found

    monkeypatch.setattr(TransactionIndex, "collect", joined)
    assert offsets(split, read_committed=True) == [0, 3, 8]
