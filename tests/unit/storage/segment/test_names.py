from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.storage.segment.names import (
    DirectoryName,
    DirectoryState,
    LogFileName,
    deleted_directory_name,
    file_name,
    is_valid_topic,
    parse_directory_name,
    parse_file_name,
    partition_directory_name,
)

TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=249).filter(lambda name: name not in (".", ".."))
UNIQUE = "0123456789abcdef0123456789abcdef"


def test_names_are_kafkas() -> None:
    assert file_name(114514, ".log") == "00000000000000114514.log"
    assert file_name(2**63 - 1, ".timeindex", ".swap") == "09223372036854775807.timeindex.swap"


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000000.log.tmp",
        "0.log",
        "000000000000000000001.log",
        "leader-epoch-checkpoint",
        ".log",
        "x" * 20 + ".log",
        f"{2**63:020d}.log",  # no offset, and a start would end with it
        "9" * 20 + ".snapshot",
    ],
)
def test_other_files_have_no_meaning(name: str) -> None:
    assert parse_file_name(name) is None


@given(
    st.integers(0, 2**63 - 1),
    st.sampled_from([".log", ".index", ".timeindex", ".txnindex", ".snapshot"]),
    st.sampled_from(["", ".cleaned", ".swap", ".deleted"]),
)
def test_file_names_are_read_back(offset: int, suffix: str, stage: str) -> None:
    assert parse_file_name(file_name(offset, suffix, stage)) == LogFileName(offset, suffix, stage)


@given(TOPICS, st.integers(0, 2**31 - 1))
def test_directory_names_are_read_back(topic: str, partition: int) -> None:
    name = partition_directory_name(topic, partition)
    assert parse_directory_name(name) == DirectoryName(topic, partition, DirectoryState.LIVE)
    deleted = deleted_directory_name(topic, partition, UNIQUE)
    assert len(deleted) <= 255
    parsed = parse_directory_name(deleted)
    assert parsed is not None
    assert (parsed.partition, parsed.state) == (partition, DirectoryState.DELETED)
    assert topic.startswith(parsed.topic)


@pytest.mark.parametrize(
    "name",
    ["orders", "orders-", "-0", "orders-00", "orders-2147483648", "or ders-0", ".-0", "lost+found", "orders--1x", ""],
)
def test_foreign_directories_have_no_meaning(name: str) -> None:
    assert parse_directory_name(name) is None


def test_a_topic_name_is_a_safe_part_of_a_path() -> None:
    assert is_valid_topic("a" * 249)
    for name in ("", ".", "..", "a/b", "a\0b", "a" * 250, "ä", "a b", "a\n"):
        assert not is_valid_topic(name)
