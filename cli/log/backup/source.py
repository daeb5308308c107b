"""Which store, and which cut of it, a command is about."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...serve import add_configuration

if TYPE_CHECKING:
    from ....backup.formats.entries import Cut, Partition
    from ....backup.formats.secrets import Key
    from ....backup.restore.catalog import Catalog
    from ....backup.store.interface import ObjectStore
    from ....config.broker_config import BrokerConfig


_MOST_NAMES = 10


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
    """Milliseconds since 1970 of a time in ISO 8601; ArgumentTypeError."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write it like 2026-11-22T13:00:00Z") from None


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
    from ....backup.store.opening import open_store, options_of
    from ....config.exceptions import ConfigError

    config = configured(options)
    url = options.url or config.backup_url
    if not url:
        raise ConfigError(["no store: give --from URL, or --config FILE with backup.url"])
    store = open_store(url, options_of(config))
    try:
        yield store
    finally:
        store.close()


def secrets_key(config: BrokerConfig) -> Key | None:
    """The key of secrets that the settings name; None without one. SecretsError."""
    from ....backup.formats.secrets import read_key

    path = config.backup_secrets_key_file
    return read_key(path) if path else None


def chosen(catalog: Catalog, options: Any) -> Cut:
    """The cut that the options choose. NoSuchCutError, StoreError, DamagedBackupError."""
    if options.cut is not None:
        return catalog.cut(options.cut)
    return catalog.newest() if options.to is None else catalog.at(options.to)


def difference_lines(cut: Cut, newest: Cut) -> Iterator[str]:
    """What an older cut brings back that was deleted since, and what was written since and is not in it."""
    if cut.header.number == newest.header.number:
        return
    from ....backup.restore.difference import difference

    found = difference(cut, newest)
    if found.deleted_topics:
        yield f"brings back topics that were deleted since: {_some(found.deleted_topics)}"
    for what, counts in (
        ("brings back offsets that were deleted since", found.deleted),
        ("is without offsets that were written since", found.later),
    ):
        if counts:
            yield f"{what}: {_some([f'{topic} {count:,}' for topic, count in sorted(counts.items())])}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def held_text(entry: Partition) -> str:
    """What to know of a partition that is older than its cut."""
    return f"{entry.topic}-{entry.partition} is as it was at {time_text(entry.held_since_ms)}: {entry.held}"
