"""Objects in a dictionary."""

from __future__ import annotations

import pickle

import pytest
from support.store_conformance import Conformance
from tidelog.backup.store import AlreadyThere, Denied, NotThere, ObjectStore, StoreError, Unavailable, open_store
from tidelog.backup.store.memory import MemoryStore


class TestMemory(Conformance):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return MemoryStore()


def test_a_name_is_one_store() -> None:
    first = open_store("memory:test-a-name")
    first.create("a", b"1")
    first.close()
    assert open_store("memory:test-a-name").read("a") == b"1"
    with pytest.raises(NotThere):
        open_store("memory:").read("a")


@pytest.mark.parametrize("url", ["", "ftp://host/dir", "/mnt/nas", "mem:", "S3"])
def test_an_url_of_nothing_says_what_there_is(url: str) -> None:
    with pytest.raises(StoreError, match=r"not the URL of a store; one begins with file://, s3://") as caught:
        open_store(url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [StoreError, NotThere, AlreadyThere, Denied, Unavailable])
def test_errors_say_what_where_and_what_to_do(kind: type[StoreError]) -> None:
    error = kind("read", "s3://bucket/prefix", "cuts/7", "no route to host", "look at the network")
    assert str(error) == "read s3://bucket/prefix/cuts/7: no route to host; look at the network"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.key) == (kind, str(error), "cuts/7")
