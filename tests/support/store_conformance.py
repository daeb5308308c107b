"""What every object store must do: `Conformance` is a class of tests, whose subclasses say what `store` is.

    class TestMemory(Conformance):
        @pytest.fixture
        def store(self) -> ObjectStore: ...

Keys are below a prefix of each test's own, so that one bucket serves all of them.
"""

from __future__ import annotations

import itertools
import random
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tidelog.backup.store import AlreadyThere, NotThere, ObjectStore, StoreError

PART = 5 << 20
"""The smallest part that S3 takes; stores under test are opened with it."""


class Conformance:
    """`store`: the store under test, opened with parts of PART bytes. `clock_within_s`: how far its clock may be off."""

    large = 2 * PART + 12_345

    @pytest.fixture
    def prefix(self) -> str:
        return f"t-{uuid.uuid4().hex[:12]}/"

    # --- create and read ---

    def test_what_was_created_is_read(self, store: ObjectStore, prefix: str) -> None:
        for size in (0, 1, 511, 70_000):
            data = random.Random(size).randbytes(size)
            store.create(f"{prefix}{size}", data)
            assert store.read(f"{prefix}{size}") == data

    def test_ranges(self, store: ObjectStore, prefix: str) -> None:
        data = bytes(range(256)) * 8
        store.create(f"{prefix}a", data)
        for start, length in itertools.product((0, 1, 2047, 2048, 5000), (None, 0, 1, 100, 5000)):
            end = None if length is None else start + length
            assert store.read(f"{prefix}a", start, length) == data[start:end], (start, length)

    def test_ranges_of_nothing(self, store: ObjectStore, prefix: str) -> None:
        store.create(f"{prefix}empty", b"")
        assert store.read(f"{prefix}empty") == b""
        assert store.read(f"{prefix}empty", 0, 10) == b""
        assert store.read(f"{prefix}empty", 3, 10) == b""

    def test_a_key_is_created_once(self, store: ObjectStore, prefix: str) -> None:
        store.create(f"{prefix}cut", b"mine")
        for data in (b"theirs, which is longer", b"mine", b""):
            with pytest.raises(AlreadyThere) as caught:
                store.create(f"{prefix}cut", data)
            assert caught.value.key == f"{prefix}cut"
            assert caught.value.operation == "create"
        assert store.read(f"{prefix}cut") == b"mine"

    def test_one_of_many_creates(self, store: ObjectStore, prefix: str) -> None:
        """The fence of a backup: each manifest has one writer."""
        many, rounds = 6, 8

        def create(writer: int, key: str) -> bool:
            barrier.wait()
            try:
                store.create(key, b"%d" % writer * 1000)
            except AlreadyThere:
                return False
            return True

        barrier = threading.Barrier(many)
        with ThreadPoolExecutor(many) as pool:
            for number in range(rounds):
                key = f"{prefix}cuts/{number}"
                won = list(pool.map(create, range(many), [key] * many))
                assert sum(won) == 1, won
                assert store.read(key) == b"%d" % won.index(True) * 1000

    def test_a_key_is_free_again_when_it_was_deleted(self, store: ObjectStore, prefix: str) -> None:
        store.create(f"{prefix}a", b"1")
        store.delete([f"{prefix}a"])
        store.create(f"{prefix}a", b"2")
        assert store.read(f"{prefix}a") == b"2"

    def test_what_is_not_there(self, store: ObjectStore, prefix: str) -> None:
        for start, length in ((0, None), (0, 10), (7, None)):
            with pytest.raises(NotThere) as caught:
                store.read(f"{prefix}nothing", start, length)
            assert f"{prefix}nothing" in str(caught.value)
            assert "\n" not in str(caught.value)

    def test_names_that_are_no_keys(self, store: ObjectStore) -> None:
        for key in ("", "/a", "a/", "a//b", "../a", "a/./b", ".hidden", "a b", "ä", "a/" * 500 + "a", "a\n", "a%2f"):
            with pytest.raises(ValueError, match="not a key"):
                store.create(key, b"")
            with pytest.raises(ValueError, match="not a key"):
                store.upload(key, 0, [])
            with pytest.raises(ValueError, match="not a key"):
                store.read(key)
            with pytest.raises(ValueError, match="not a key"):
                store.delete([key])
        for bad in ("a", "/", "../", "a//"):
            with pytest.raises(ValueError, match="not a prefix"):
                list(store.list(bad))

    def test_keys_of_every_character(self, store: ObjectStore, prefix: str) -> None:
        keys = [f"{prefix}a-_.=+,@Z9/00000000000000000042.log", f"{prefix}{'k' * 200}", f"{prefix}a+b", f"{prefix}a=b"]
        for key in keys:
            store.create(key, key.encode())
        assert [stored.key for stored in store.list(prefix)] == sorted(keys)
        for key in keys:
            assert store.read(key) == key.encode()
        store.delete(keys)
        assert list(store.list(prefix)) == []

    # --- upload ---

    def test_large_objects(self, store: ObjectStore, prefix: str) -> None:
        data = random.Random(1).randbytes(self.large)
        store.upload(f"{prefix}large", len(data), (data[at : at + 70_001] for at in range(0, len(data), 70_001)))
        assert store.read(f"{prefix}large") == data
        assert store.read(f"{prefix}large", PART - 10, 20) == data[PART - 10 : PART + 10]
        assert [stored.size for stored in store.list(prefix)] == [len(data)]

    def test_small_and_empty_uploads(self, store: ObjectStore, prefix: str) -> None:
        for blocks in ([], [b""], [b"a"], [b"a", b"", b"bc"]):
            data = b"".join(blocks)
            store.upload(f"{prefix}{len(blocks)}", len(data), blocks)
            assert store.read(f"{prefix}{len(blocks)}") == data

    def test_one_large_block(self, store: ObjectStore, prefix: str) -> None:
        data = random.Random(2).randbytes(self.large)
        store.upload(f"{prefix}large", len(data), [data])
        assert store.read(f"{prefix}large") == data

    def test_the_same_upload_again(self, store: ObjectStore, prefix: str) -> None:
        for _ in range(2):
            store.upload(f"{prefix}a", 3, [b"abc"])
        assert store.read(f"{prefix}a") == b"abc"

    def test_an_upload_that_breaks_off_leaves_nothing(self, store: ObjectStore, prefix: str) -> None:
        class DiskFailedError(Exception):
            pass

        def blocks(count: int) -> Iterator[bytes]:
            for _ in range(count):
                yield bytes(1 << 20)
            raise DiskFailedError("the disk is gone")

        for count in (0, 1, 12):
            with pytest.raises(DiskFailedError):
                store.upload(f"{prefix}torn", 100 << 20, blocks(count))
            with pytest.raises(NotThere):
                store.read(f"{prefix}torn")
        assert list(store.list(prefix)) == []

    def test_an_upload_of_another_size_leaves_nothing(self, store: ObjectStore, prefix: str) -> None:
        for size, blocks in ((2, [b"abc"]), (4, [b"abc"]), (0, [b"a"]), (1, []), (self.large, [bytes(self.large - 1)])):
            with pytest.raises(StoreError, match="announced"):
                store.upload(f"{prefix}wrong", size, blocks)
            with pytest.raises(NotThere):
                store.read(f"{prefix}wrong")

    # --- list and delete ---

    def test_a_listing_is_in_order_of_keys(self, store: ObjectStore, prefix: str) -> None:
        """Of whole keys: `-` and `.` come before `/`, digits and letters behind."""
        names = ["a/b", "a-b", "a.b", "a0", "a+c/d", "b/c/d", "b/c-d", "b/c.d/e", "A", "_", "z/0", "z/00", "z/1"]
        for name in random.Random(3).sample(names, len(names)):
            store.create(prefix + name, name.encode())
        listed = list(store.list(prefix))
        assert [stored.key for stored in listed] == sorted(prefix + name for name in names)
        assert [stored.size for stored in listed] == [len(stored.key) - len(prefix) for stored in listed]
        assert [stored.key for stored in store.list(f"{prefix}b/")] == [
            f"{prefix}b/c-d",
            f"{prefix}b/c.d/e",
            f"{prefix}b/c/d",
        ]
        assert list(store.list(f"{prefix}b/c/d/")) == []
        assert list(store.list(f"{prefix}nothing/")) == []

    def test_a_listing_goes_on_behind_a_key(self, store: ObjectStore, prefix: str) -> None:
        names = ["a-b", "a.b/x", "a.b/y", "a/b", "a/c/d", "a0", "b"]
        keys = [prefix + name for name in names]
        for key in keys:
            store.create(key, b"")
        for number, key in enumerate(keys):
            assert [stored.key for stored in store.list(prefix, after=key)] == keys[number + 1 :], key
        assert [stored.key for stored in store.list(prefix, after=f"{prefix}a.b/xx")] == keys[2:]
        assert [stored.key for stored in store.list(prefix, after=f"{prefix}a/")] == keys[3:]
        assert [stored.key for stored in store.list(prefix, after=prefix)] == keys
        assert [stored.key for stored in store.list(f"{prefix}a/", after=f"{prefix}a/b")] == [keys[4]]

    def test_a_listing_of_more_than_a_page(self, store: ObjectStore, prefix: str) -> None:
        keys = [f"{prefix}{number:06}" for number in range(1100)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: store.create(key, b""), keys))
        assert [stored.key for stored in store.list(prefix)] == keys
        assert [stored.key for stored in store.list(prefix, after=keys[1050])] == keys[1051:]
        store.delete(keys)
        assert list(store.list(prefix)) == []

    def test_times_of_a_listing_are_ms_since_1970(self, store: ObjectStore, prefix: str) -> None:
        store.create(f"{prefix}a", b"")
        store.create(f"{prefix}b", b"")
        first, second = store.list(prefix)
        assert 1_600_000_000_000 < first.modified_ms <= second.modified_ms + 1000 < 33_000_000_000_000

    def test_deleting_what_is_not_there(self, store: ObjectStore, prefix: str) -> None:
        store.create(f"{prefix}a", b"1")
        store.create(f"{prefix}b/c", b"2")
        store.delete([f"{prefix}nothing", f"{prefix}a", f"{prefix}no/such"])
        assert [stored.key for stored in store.list(prefix)] == [f"{prefix}b/c"]
        store.delete([])
        store.delete([f"{prefix}a", f"{prefix}b/c"])
        assert list(store.list(prefix)) == []

    # --- all together ---

    def test_random_operations_against_a_dictionary(self, store: ObjectStore, prefix: str) -> None:
        """A model that knows nothing of stores: a dict of bytes."""
        chance = random.Random(20)
        names = [f"{prefix}{top}/{name}" for top in "abc" for name in ("0", "1", "1-", "2.x", "d/0", "d/1")]
        model: dict[str, bytes] = {}
        for _ in range(150):
            key = chance.choice(names)
            data = chance.randbytes(chance.choice((0, 1, 100)))
            match chance.choice(("create", "create", "upload", "delete", "read", "list")):
                case "create" if key in model:
                    with pytest.raises(AlreadyThere):
                        store.create(key, data)
                case "create":
                    store.create(key, data)
                    model[key] = data
                case "upload":
                    model.setdefault(key, data)
                    store.upload(key, len(model[key]), [model[key]])
                case "delete":
                    gone = chance.sample(names, 3)
                    store.delete(gone)
                    model = {kept: model[kept] for kept in model if kept not in gone}
                case "read" if key in model:
                    assert store.read(key) == model[key]
                case "read":
                    with pytest.raises(NotThere):
                        store.read(key)
                case "list":
                    after = chance.choice(["", key])
                    below = f"{prefix}{chance.choice('abc')}/"
                    expected = [
                        (name, len(model[name])) for name in sorted(model) if name.startswith(below) and name > after
                    ]
                    assert [stored[:2] for stored in store.list(below, after)] == expected
        assert [stored.key for stored in store.list(prefix)] == sorted(model)
