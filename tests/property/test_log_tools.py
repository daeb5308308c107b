"""Whatever happens to a file of a log: the tools say what is wrong, and never fall over it.

Files that Apache Kafka wrote are damaged at random. A `.log` is guarded by its checksums, so no damage to one is overlooked;
an index may lose entries from its end without harm.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.fake_filesystem import FakeFileSystem
from tidelog.storage.inspect.anatomy import examine
from tidelog.storage.inspect.dump import explain
from tidelog.storage.inspect.verify import verify

KAFKA_DATA = Path(__file__).parents[1] / "golden" / "kafka-data" / "data"
PARTITIONS = ("mixed-0", "txn-0", "compact-txn-0", "deleted-records-0")
SEEDS = 20


def damaged(data: bytes, randomness: random.Random) -> bytes:
    """Bits turned, bytes cut off, bytes put in, or a stretch of zeros."""
    changed = bytearray(data)
    at = randomness.randrange(len(data))
    match randomness.randrange(4):
        case 0:
            for _ in range(randomness.randrange(1, 4)):
                changed[randomness.randrange(len(data))] ^= 1 << randomness.randrange(8)
        case 1:
            del changed[at:]
        case 2:
            changed[at:at] = randomness.randbytes(randomness.randrange(1, 60))
        case _:
            end = min(len(data), at + randomness.randrange(1, 200))
            changed[at:end] = bytes(end - at)
    return bytes(changed)


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex", ".snapshot", ""])
def test_damage(partition: str, suffix: str) -> None:
    files = {path.name: path.read_bytes() for path in (KAFKA_DATA / partition).iterdir()}
    root = {path.name: path.read_bytes() for path in KAFKA_DATA.iterdir() if path.suffix == "" and path.is_file()}
    names = sorted(name for name, data in files.items() if data and Path(name).suffix == suffix)
    for seed in range(SEEDS if names else 0):
        randomness = random.Random(f"{partition}{suffix}{seed}")
        name = randomness.choice(names)
        data = damaged(files[name], randomness)
        if data == files[name]:
            continue
        system = FakeFileSystem()
        for path, content in root.items():
            system.put(f"/data/{path.replace('kafka_clean', '.kafka_clean')}", content)
        for path, content in files.items():
            system.put(f"/data/{partition}/{path}", content)
        system.put(f"/data/{partition}/{name}", data)
        found = list(verify(system, f"/data/{partition}"))
        parts = list(explain(system, f"/data/{partition}/{name}", data=True))
        examine(system, f"/data/{partition}")
        spoken_of = sum(part.size for part in parts if part.kind != "record")
        assert spoken_of == len(data), (seed, name)
        if suffix == ".log":
            assert any(finding.is_fault for finding in found), (seed, name)
