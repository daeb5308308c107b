"""A standalone cluster for the ring, and the archive that its executors live on: `make cluster` makes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.spark_cluster import SparkCluster

ARCHIVE = Path(__file__).resolve().parents[2] / ".cache" / "spark" / "executors" / "environment.tar.gz"


@pytest.fixture(scope="session")
def archive() -> Path:
    assert ARCHIVE.exists(), f"{ARCHIVE}: run `make cluster-archive`"
    return ARCHIVE


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    import pyspark

    with SparkCluster(Path(pyspark.__file__).parent, tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, archive: Path) -> Path:
    """A driver's folder, with the archive unpacked as docs/PIPELINE.md says."""
    place = tmp_path / "driver"
    place.mkdir()
    (place / "environment").symlink_to(archive.parent / "environment", target_is_directory=True)
    return place
