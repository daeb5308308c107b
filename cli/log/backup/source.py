"""Which store, and which cut of it, a command is about."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...serve import add_configuration

if TYPE_CHECKING:
    from ....backup.formats.entries import Cut, Partition
    from ....backup.restore.catalog import Catalog
    from ....backup.store.interface import ObjectStore
    from ....config.broker_config import BrokerConfig


def add_source(parser: argparse.ArgumentParser) -> None:
    """The options that name a store."""
    parser.add_argument(
        "--from", metavar="URL", dest="url", help="the store, as in backup.url: file:///mnt/nas/tidelog …"
    )
    add_configuration(parser)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """The options that choose a cut; without them it is the newest."""
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--to", metavar="TIME", type=time_ms,
        help="the newest cut that is not later, as 2026-11-22T13:00:00Z; without a zone, this machine's",
    )  # fmt: skip
    choice.add_argument("--cut", metavar="N", type=int, help="the cut of that number")


def time_ms(text: str) -> int:
    """Milliseconds since 1970 of a time in ISO 8601; ValueError."""
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def time_text(at_ms: int) -> str:
    """A time in ISO 8601, UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def configured(options: Any, assignments: tuple[str, ...] = ()) -> BrokerConfig:
    """The settings that the command was given. ConfigError."""
    from ....config.loader import load_config

    return load_config(options.config, os.environ, [*options.assignments, *assignments])


@contextmanager
def opened(options: Any) -> Iterator[ObjectStore]:
    """The store that the options name. ConfigError, StoreError."""
    from ....backup.store.opening import open_store
    from ....config.exceptions import ConfigError

    url = options.url or configured(options).backup_url
    if not url:
        raise ConfigError(["no store: give --from URL, or --config FILE with backup.url"])
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def chosen(catalog: Catalog, options: Any) -> Cut:
    """The cut that the options choose. NoSuchCutError, StoreError, DamagedBackupError."""
    if options.cut is not None:
        return catalog.cut(options.cut)
    return catalog.newest() if options.to is None else catalog.at(options.to)


def held_text(entry: Partition) -> str:
    """What to know of a partition that is older than its cut."""
    return f"{entry.topic}-{entry.partition} is as it was at {time_text(entry.held_since_ms)}: {entry.held}"
