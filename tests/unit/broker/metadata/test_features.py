"""Which levels are finalised, whatever was stored."""

from __future__ import annotations

import pytest
from tidelog.broker.metadata.features import METADATA_VERSION, SHARE_VERSION, SUPPORTED, Features, oldest_kafka


@pytest.mark.parametrize(("stored", "level"), [(25, 25), (3, 7), (33, 33), (99, 33)])
def test_levels_of_a_directory_of_kafkas_are_kept_within_what_is_supported(stored: int, level: int) -> None:
    features = Features({METADATA_VERSION: stored, "nobody.knows": 3})
    assert features.level(METADATA_VERSION) == level
    assert features.level("nobody.knows") == 0
    assert "nobody.knows" not in dict(features.finalized())


def test_defaults() -> None:
    assert dict(Features().finalized()) == {name: f.default for name, f in SUPPORTED.items() if f.default > 0}


def test_a_change_is_told_with_a_new_epoch() -> None:
    features = Features(epoch=4)
    features.finalize(METADATA_VERSION, 29)
    assert (features.level(METADATA_VERSION), features.epoch) == (29, 5)


@pytest.mark.parametrize(("name", "level"), [(METADATA_VERSION, 6), (METADATA_VERSION, 34), ("nobody.knows", 1)])
def test_what_is_not_supported_is_not_finalised(name: str, level: int) -> None:
    features = Features()
    with pytest.raises(ValueError, match=name):
        features.finalize(name, level)
    assert (features.level(METADATA_VERSION), features.epoch) == (30, 0)


@pytest.mark.parametrize(
    ("level", "release"),
    [(6, "3.3"), (7, "3.3"), (14, "3.6"), (15, "3.7"), (29, "4.2"), (30, "4.3"), (33, "4.4"), (34, "newer than 4.4")],
)
def test_the_oldest_kafka_that_knows_a_level(level: int, release: str) -> None:
    assert oldest_kafka({METADATA_VERSION: level, SHARE_VERSION: 1}) == release


def test_a_feature_of_a_newer_release_asks_for_that_release() -> None:
    assert oldest_kafka({METADATA_VERSION: 30, SHARE_VERSION: 2}) == "4.4"
