"""`tidelog log compact DIR`: cleans one partition's log offline, with the daemon's own cleaner, and counts what went.

DIR is a partition's directory within one of log.dirs, which is locked meanwhile: no daemon may have it. Its other partitions
are opened and closed as by a start and a stop, with recovery if the last stop was not clean. The topic's settings are those
that are stored there; where nothing is known of the topic, it is compacted with the defaults.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..serve import add_configuration

if TYPE_CHECKING:
    from ...broker.cleaning.offline import OfflineResult

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(tools: Subparsers) -> None:
    parser = tools.add_parser("compact", help="clean one partition's log offline", description=__doc__)
    parser.add_argument("directory", metavar="DIR", help="a partition's directory")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--topic-set", metavar="NAME=VALUE", action="append", default=[],
        help="a setting of the topic, instead of the stored one; may be given again",
    )  # fmt: skip
    add_configuration(parser)
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Cleans and prints; returns 0."""
    import json
    import os
    import secrets

    from ...broker.cleaning.offline import compact_log, place_of
    from ...config.exceptions import ConfigError
    from ...config.loader import load_config
    from ...storage.clock import SystemTime
    from ...storage.io.filesystem import RealFileSystem
    from ..support.output import ProgressBar

    file_system = RealFileSystem()
    place = place_of(os.path.abspath(options.directory), file_system)
    if "," in place.data_directory:
        raise ConfigError([f"{place.data_directory}: log.dirs takes no path with a comma"])
    assignments = [*options.assignments, f"log.dirs={place.data_directory}"]
    config = load_config(options.config, os.environ, assignments)
    overrides = {}
    for text in options.topic_set:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError([f"--topic-set {text}: not NAME=VALUE"])
        overrides[name.strip()] = value
    with ProgressBar("compact") as bar:
        result = compact_log(
            place,
            config,
            file_system,
            SystemTime(),
            secret=lambda: secrets.token_bytes(16),
            overrides=overrides,
            progress=bar.advance,
        )
    if options.json:
        facts = result._asdict()
        facts |= {"removed": result.removed.by_cause(), "removed_records": result.removed.records}
        print(json.dumps({_camel(name): value for name, value in facts.items()}, indent=2))
    else:
        print("\n".join(picture(result)))
    return 0


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def picture(result: OfflineResult) -> list[str]:
    """Removed records, as lines of aligned text."""
    from ..clean import removed_lines
    from ..support.output import plural
    from ..why import ledger_line

    size, segments = plural(result.bytes_before, "byte"), plural(result.segments_before, "segment")
    head = f"{result.topic}-{result.partition}: {size} in {segments}, now "
    head += f"{result.bytes_after:,} in {result.segments_after}; {result.elapsed_ms / 1000:.2f} s"
    lines = [head, *removed_lines(result.removed.by_cause(), result.bytes_before - result.bytes_after)]
    return lines if result.ledger is None else [*lines, f"  since it began: {ledger_line(result.ledger)}"]
