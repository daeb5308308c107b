"""Reads a split, from wherever it is: what tasks do."""

from __future__ import annotations

from collections.abc import Iterator

from ..options import Options
from ..planning.splits import AnySplit, Split
from .columns import Columns, Wish
from .fetch_reader import read_fetched
from .segment_reader import read_split


def read(split: AnySplit, options: Options, wish: Wish) -> Iterator[Columns]:
    """The split's records in order. Blocks. PipelineError."""
    if isinstance(split, Split):
        return read_split(
            split, wish, read_committed=options.read_committed, check_crc=options.check_crc,
            fail_on_data_loss=options.fail_on_data_loss, skip_corrupt=options.skip_corrupt,
        )  # fmt: skip
    assert options.client is not None
    return read_fetched(
        split, options.client, wish, read_committed=options.read_committed, check_crc=options.check_crc,
        fail_on_data_loss=options.fail_on_data_loss, skip_corrupt=options.skip_corrupt,
    )  # fmt: skip
