"""`tidelog log export-kraft DIR...`: writes the metadata that Apache Kafka needs to start on our directories.

The oldest release that opens them is printed: 4.3, or that of the Kafka which raised its features here before.
DIR are all of log.dirs, the first one first; nothing in them but `__cluster_metadata-0` is written. Do it last, after the
daemon was stopped: topics and settings are told as they are now. Kafka is then started on the same directories with
`process.roles=broker,controller`, the node.id that is printed, and `controller.quorum.voters` naming that node. For a
server.properties that has `controller.quorum.bootstrap.servers` instead, give that address as `--controller`.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from ..support.output import plural

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(tools: Subparsers) -> None:
    parser = tools.add_parser(
        "export-kraft", help="write the metadata that Apache Kafka needs to start here", description=__doc__
    )
    parser.add_argument("directories", metavar="DIR", nargs="+", help="a data directory; all of log.dirs, in order")
    parser.add_argument(
        "--controller", metavar="HOST:PORT", type=_address, help="address of Kafka's listener named CONTROLLER"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=run)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def run(options: Any) -> int:
    """Writes and prints what was written; returns 0."""
    import time
    from uuid import uuid4

    from ...broker.kraft.export import export_kraft
    from ...storage.io.filesystem import RealFileSystem

    report = export_kraft(
        [path.rstrip("/") or "/" for path in options.directories],
        RealFileSystem(),
        time.time_ns() // 1_000_000,
        uuid4,
        options.controller,
    )
    if options.json:
        facts = report._asdict()
        facts["left_out"] = [{"topic": topic, "setting": setting} for topic, setting in report.left_out]
        print(json.dumps(facts))
        return 0
    print(f"wrote {report.snapshot}")
    print(
        f"{plural(report.topics, 'topic')} with {plural(report.partitions, 'partition')}, {plural(report.settings, 'setting')}, "
        f"next producer id {report.next_producer_id}, metadata.version {report.metadata_version}"
    )
    if report.users or report.rules:
        print(f"{plural(report.users, 'user')} with passwords, {plural(report.rules, 'access rule')}")
    if report.carried:
        print(f"of tokens and the like, as Apache Kafka had them here: {plural(report.carried, 'record')}")
    for topic, setting in report.left_out:
        print(f"left out, as Apache Kafka has no such setting: {setting} of topic {topic}")
    print(
        f"start Apache Kafka ({report.kafka}{'' if report.kafka.startswith('newer') else ' or newer'}) with "
        f"node.id={report.node_id}; it is cluster {report.cluster_id}"
    )
    return 0
