from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_filesystem import FakeFileSystem
from tidelog.storage.exceptions import CorruptIndexError, InvalidOffsetError, StorageError
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndex, TxnIndexSearchResult
from tidelog.storage.io.filesystem import RealFileSystem, StrPath
from tidelog.storage.log.stop_record import index_checksum

GOLDEN = Path(__file__).parents[3] / "golden" / "storage"
PATH = "/00000000000000000095.txnindex"
# As DumpLogSegments prints them.
KAFKAS = [AbortedTxn(11, 0, 95, 15), AbortedTxn(12, 209, 285, 286), AbortedTxn(11, 291, 381, 306)]


@pytest.fixture
def system() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def index(system: FakeFileSystem) -> TransactionIndex:
    index = TransactionIndex(system, PATH, 95)
    for txn in KAFKAS:
        index.append(txn)
    return index


def test_reads_what_kafka_wrote() -> None:
    index = TransactionIndex(RealFileSystem(), GOLDEN / "00000000000000000095.txnindex", 95)
    index.sanity_check()
    assert index.all() == KAFKAS


def test_writes_the_bytes_that_kafka_wrote(system: FakeFileSystem, index: TransactionIndex) -> None:
    index.flush()
    index.close()
    assert system.read_bytes(PATH) == (GOLDEN / "00000000000000000095.txnindex").read_bytes()
    assert not system.open_files


def test_there_is_no_file_before_the_first_entry(system: FakeFileSystem) -> None:
    index = TransactionIndex(system, PATH, 95)
    assert index.all() == []
    assert index.collect(0, 100) == TxnIndexSearchResult((), False)
    index.sanity_check()
    index.flush()
    index.reset()
    index.truncate_to(0)
    assert system.paths() == []


@pytest.mark.parametrize(
    ("fetch_offset", "upper_bound", "producers", "complete"),
    [
        (0, 10, [(11, 0)], True),
        (95, 96, [(11, 0)], True),
        (96, 200, [], True),
        (96, 209, [], True),
        (96, 210, [(12, 209)], True),
        (200, 300, [(12, 209), (11, 291)], True),
        (286, 1000, [(11, 291)], False),
        (382, 1000, [], False),
    ],
)
def test_collect(
    index: TransactionIndex, fetch_offset: int, upper_bound: int, producers: list[tuple[int, int]], complete: bool
) -> None:
    found = index.collect(fetch_offset, upper_bound)
    assert [(txn.producer_id, txn.first_offset) for txn in found.aborted] == producers
    assert found.is_complete is complete


def test_entries_must_rise_after_reopening_too(system: FakeFileSystem, index: TransactionIndex) -> None:
    with pytest.raises(InvalidOffsetError):
        index.append(AbortedTxn(1, 300, 381, 382))
    index.close()
    again = TransactionIndex(system, PATH, 95)
    with pytest.raises(InvalidOffsetError):
        again.append(AbortedTxn(1, 300, 381, 382))
    again.append(AbortedTxn(1, 300, 382, 383))
    assert again.all()[3:] == [AbortedTxn(1, 300, 382, 383)]
    again.close()


@pytest.mark.parametrize(("offset", "left"), [(0, 0), (95, 0), (96, 1), (285, 1), (381, 2), (382, 3)])
def test_truncate_to(index: TransactionIndex, offset: int, left: int) -> None:
    index.truncate_to(offset)
    assert index.all() == KAFKAS[:left]
    index.append(AbortedTxn(3, 390, 400, 401))
    assert len(index.all()) == left + 1


def test_a_torn_entry_is_seen_and_overwritten(system: FakeFileSystem, index: TransactionIndex) -> None:
    index.close()
    whole = system.read_bytes(PATH)
    for length in range(len(whole)):
        system.put(PATH, whole[:length])
        again = TransactionIndex(system, PATH, 95)
        if length % 34:
            with pytest.raises(CorruptIndexError, match="not a multiple"):
                again.sanity_check()
        assert again.all() == KAFKAS[: length // 34]
        again.append(AbortedTxn(9, 400, 500, 501))
        assert again.all() == [*KAFKAS[: length // 34], AbortedTxn(9, 400, 500, 501)]
        again.close()


def test_sanity_check_finds(system: FakeFileSystem) -> None:
    for entries in (
        [AbortedTxn(1, 0, 94, 95)],
        [AbortedTxn(1, 0, 99, 95), AbortedTxn(1, 0, 99, 95)],
        [AbortedTxn(1, 200, 99, 5)],
    ):
        system.put(PATH, b"".join(b"\0\0" + b"".join(v.to_bytes(8, "big") for v in txn) for txn in entries))
        with pytest.raises(CorruptIndexError):
            TransactionIndex(system, PATH, 95).sanity_check()
    system.put(PATH, b"\0\1" + bytes(32))
    with pytest.raises(CorruptIndexError, match="version 1"):
        TransactionIndex(system, PATH, 95).all()


def test_an_index_of_two_million_aborted_transactions_is_read() -> None:
    """Of one small record each: with their markers 350 MB, a third of a segment of the default size."""

    class LargeFile(FakeFileSystem):
        def read_bytes(self, path: StrPath, limit: int = 64 << 20) -> bytes:
            if limit < 2_000_000 * TransactionIndex.ENTRY_SIZE:
                raise StorageError(f"more than the {limit} that are allowed here")
            return super().read_bytes(path, limit)

    system = LargeFile()
    index = TransactionIndex(system, PATH, 95)
    index.append(KAFKAS[0])
    assert index.all() == KAFKAS[:1]
    assert index_checksum(system, "", 95) is not None
    index.close()


def test_an_append_that_fails_leaves_no_trace(system: FakeFileSystem, index: TransactionIndex) -> None:
    system.fail_at(1, OSError(errno.ENOSPC, "No space left"))
    with pytest.raises(OSError, match="No space"):
        index.append(AbortedTxn(1, 300, 400, 401))
    assert index.all() == KAFKAS
    index.append(AbortedTxn(1, 300, 400, 401))


@given(st.lists(st.tuples(st.sampled_from(("append", "truncate", "look")), st.integers(0, 3)), max_size=40))
def test_what_was_read_before_is_believed_only_where_it_still_stands(steps: list[tuple[str, int]]) -> None:
    """Appends, and entries taken out again at the end, between two looks."""
    index = TransactionIndex(FakeFileSystem(), "/i.txnindex", 0)
    known: tuple[AbortedTxn, ...] = ()
    end = 0
    for step, number in steps:
        if step == "append":
            index.append(AbortedTxn(number, end, end, end))
            end += 1
        elif step == "truncate":
            end = max(0, end - number)
            index.truncate_to(end)
        else:
            known = index.all_with(known)
            assert list(known) == index.all()
    index.close()
