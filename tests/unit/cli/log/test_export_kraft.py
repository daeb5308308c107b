from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest
from tidelog.broker.metadata.store import MetadataStore, StoredMetadata, TopicRecord
from tidelog.cli.main import main
from tidelog.protocol.metadata_records import KRaftVersionRecord, VotersRecord
from tidelog.protocol.schema import decode
from tidelog.storage.inspect.metadata_log import KRAFT_VERSION, KRAFT_VOTERS, MetadataLogReader, find_metadata_log
from tidelog.storage.io.checkpoint import CleanShutdownFile
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.log.partition_metadata import write_partition_metadata
from tidelog.storage.manager.meta_properties import MetaProperties, write_meta_properties

FILES = RealFileSystem()
ID = UUID(int=1)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_meta_properties(FILES, tmp_path, MetaProperties("cluster", 7, UUID(int=2)))
    (tmp_path / "a-0").mkdir()
    write_partition_metadata(FILES, tmp_path / "a-0", ID)
    store = MetadataStore(str(tmp_path))
    store.replace(StoredMetadata((TopicRecord("a", ID, 1, {"deletion.policies": "delete-by-age"}, 0),)))
    store.close()
    CleanShutdownFile(FILES, tmp_path).write(-1)
    return tmp_path


def test_text(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "export-kraft", f"{data}/"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"wrote {data}/__cluster_metadata-0/00000000000000000009-0000000001.checkpoint",
        "1 topic with 1 partition, 0 settings, next producer id 0, metadata.version 30",
        "left out, as Apache Kafka has no such setting: deletion.policies of topic a",
        "start Apache Kafka (4.3 or newer) with node.id=7; it is cluster cluster",
    ]


@pytest.mark.parametrize(("level", "says"), [(33, "(4.4 or newer)"), (34, "(newer than 4.4)"), (25, "(4.0 or newer)")])
def test_the_kafka_that_opens_it_is_that_of_its_features(
    data: Path, level: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = MetadataStore(str(data))
    store.replace(StoredMetadata((TopicRecord("a", ID, 1, {}, 0),), features={"metadata.version": level}))
    store.close()
    assert main(["log", "export-kraft", str(data)]) == 0
    assert f"start Apache Kafka {says} with node.id=7" in capsys.readouterr().out


def test_json(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "export-kraft", "--json", str(data)]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["topics"], facts["partitions"], facts["node_id"]) == (1, 1, 7)
    assert facts["left_out"] == [{"topic": "a", "setting": "deletion.policies"}]
    assert Path(facts["snapshot"]).exists()


def test_what_cannot_be_exported_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "export-kraft", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"tidelog: {tmp_path}: has no meta.properties; name a data directory of tidelog's\n"
    )


def test_a_controller(data: Path) -> None:
    assert main(["log", "export-kraft", "--controller", "[::1]:9093", str(data)]) == 0
    files = find_metadata_log(FILES, [str(data)])
    assert files is not None
    reader = MetadataLogReader(FILES, files)
    list(reader)
    [voter] = decode(VotersRecord, 0, reader.control_values[KRAFT_VOTERS])[0].voters
    assert (voter.voter_id, voter.voter_directory_id) == (7, UUID(int=2).bytes)
    assert [(one.name, one.host, one.port) for one in voter.endpoints] == [("CONTROLLER", "::1", 9093)]
    assert decode(KRaftVersionRecord, 0, reader.control_values[KRAFT_VERSION])[0].kraft_version == 1


@pytest.mark.parametrize("text", ["localhost", ":9093", "localhost:0", "localhost:65536", "localhost:x", "localhost:²"])
def test_no_address(text: str, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["log", "export-kraft", "--controller", text, str(data)])
    assert caught.value.code == 2
    assert "is not HOST:PORT" in capsys.readouterr().err
