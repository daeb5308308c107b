from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from support.fake_filesystem import FakeFileSystem
from tidelog.storage.exceptions import DataDirectoryError
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.log.partition_metadata import encode_uuid
from tidelog.storage.manager.meta_properties import (
    MetaProperties,
    ensure_meta_properties,
    read_meta_properties,
    write_meta_properties,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "storage"
PATH = "/d/meta.properties"
CLUSTER = "cGVlcmNsdXN0ZXIwMDAwMQ"
NEW_ID = UUID(int=0x1234567890ABCDEF1234567890ABCDEF)


@pytest.fixture
def system() -> FakeFileSystem:
    system = FakeFileSystem()
    system.make_directory("/d")
    return system


def ensure(system: FakeFileSystem, cluster_id: str = CLUSTER, node_id: int = 1) -> MetaProperties:
    return ensure_meta_properties(system, "/d", cluster_id=cluster_id, node_id=node_id, new_directory_id=NEW_ID)


def test_reads_kafkas_file() -> None:
    properties = read_meta_properties(RealFileSystem(), GOLDEN)
    assert properties is not None
    assert (properties.cluster_id, properties.node_id) == (CLUSTER, 1)
    assert properties.directory_id is not None
    assert encode_uuid(properties.directory_id) == "4wl07RXQWDoCwObnqAiIUw"


def test_a_new_directory_gets_a_file_and_keeps_it(system: FakeFileSystem) -> None:
    assert read_meta_properties(system, "/d") is None
    made = ensure(system)
    assert made == MetaProperties(CLUSTER, 1, NEW_ID)
    trace = len(system.trace)
    assert ensure(system) == made == read_meta_properties(system, "/d")
    assert len(system.trace) == trace


def test_a_missing_directory_id_is_added(system: FakeFileSystem) -> None:
    system.put(PATH, f"version=1\nnode.id=1\ncluster.id={CLUSTER}\n".encode())
    assert ensure(system).directory_id == NEW_ID
    assert read_meta_properties(system, "/d") == MetaProperties(CLUSTER, 1, NEW_ID)


def test_version_0_names_the_broker(system: FakeFileSystem) -> None:
    system.put(PATH, b"#\nversion = 0\nbroker.id: 7\ncluster.id ab\\=c\n! done\n")
    assert read_meta_properties(system, "/d") == MetaProperties("ab=c", 7, None)


def test_another_cluster_or_node_is_refused_and_told_what_to_do(system: FakeFileSystem) -> None:
    ensure(system)
    before = system.contents()
    with pytest.raises(DataDirectoryError, match=r"meta\.properties: .*cluster cGVl.*, not other; choose another"):
        ensure(system, cluster_id="other")
    with pytest.raises(DataDirectoryError, match=r"belongs to node 1, and node\.id is 2; set node\.id=1"):
        ensure(system, node_id=2)
    assert system.contents() == before


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage\n",
        b"\xff\xfe\n",
        b"version=2\nnode.id=1\ncluster.id=x\n",
        b"version=1\ncluster.id=x\n",
        b"version=1\nnode.id=1\n",
        b"version=1\nnode.id=-1\ncluster.id=x\n",
        b"version=1\nnode.id=2147483648\ncluster.id=x\n",
        b"version=1\nnode.id=1\ncluster.id=\n",
        b"version=1\nnode.id=1\ncluster.id=a b\n",
        b"version=1\nnode.id=1\ncluster.id=x\ndirectory.id=short\n",
        b"version=1\nnode.id=1\ncluster.id=x\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\n",
        b"x" * 70_000,
    ],
)
def test_broken_files_are_refused_and_left_alone(system: FakeFileSystem, content: bytes) -> None:
    system.put(PATH, content)
    with pytest.raises(DataDirectoryError, match=r"^/d/meta\.properties: .+; restore the file"):
        ensure(system)
    assert system.read_bytes(PATH) == content


def test_every_prefix_is_refused(system: FakeFileSystem) -> None:
    ensure(system)
    whole = system.read_bytes(PATH)
    expected = read_meta_properties(system, "/d")
    for length in range(len(whole)):
        system.put(PATH, whole[:length])
        try:
            found = ensure(system)
        except DataDirectoryError:
            continue
        # Cut after whole lines, it may lack only the directory id.
        assert found == expected, length


def test_round_trip(system: FakeFileSystem) -> None:
    properties = MetaProperties("my-cluster_1", 0, None)
    write_meta_properties(system, "/d", properties)
    assert read_meta_properties(system, "/d") == properties
