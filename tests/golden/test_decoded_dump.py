"""`tidelog log dump --decode` says of Kafka's own topics what DumpLogSegments says with its decoders, line for line.

Deliberate differences: control records of KRaft are named (`controlType: LEADER_CHANGE(2)`), not opened, and records whose
types mean nothing on one node (a controller's registration) have no `data`.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tidelog.broker.coordinator.internal_records import decoder_for
from tidelog.storage.inspect.dump import explain
from tidelog.storage.io.filesystem import RealFileSystem

KAFKA_DATA = Path(__file__).parent / "kafka-data"
DUMP = gzip.decompress((KAFKA_DATA / "dump.txt.gz").read_bytes()).decode()
LOG = "00000000000000000000.log"


@pytest.mark.parametrize(
    ("partition", "least"),
    [("__consumer_offsets-0", 15), ("__transaction_state-0", 167), ("__cluster_metadata-0", 200)],
)
def test_line_for_line(partition: str, least: int) -> None:
    path = KAFKA_DATA / "data" / partition / LOG
    section = DUMP.partition(f"Dumping data/{partition}/{LOG}\n")[2].partition("\nDumping ")[0]
    kafkas = [line for line in section.split("\n") if line.startswith("| ") and " LeaderChange: " not in line]
    parts = explain(RealFileSystem(), path, decode=decoder_for(str(path)))
    ours = [part.text for part in parts if part.kind == "record" and "controlType" not in part.fields]
    assert not any(part.problem for part in parts)
    undeclared = [index for index, line in enumerate(ours) if line.endswith('"data":null}')]
    assert len(ours) == len(kafkas) >= least
    assert len(undeclared) < len(ours) // 2
    for index in undeclared:
        assert kafkas[index].startswith(ours[index].removesuffix("null}"))
    assert [line for i, line in enumerate(ours) if i not in undeclared] == [
        line for i, line in enumerate(kafkas) if i not in undeclared
    ]
