"""`tidelog serve`: runs the daemon in the foreground until SIGTERM, SIGINT or SIGHUP."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_configuration(parser: argparse.ArgumentParser) -> None:
    """The two options by which every command that reads settings is told of them."""
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help="settings: Kafka's server.properties, or TOML by its suffix"
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], dest="assignments",
        help="one setting; beats TIDELOG_* variables, which beat the file; may be given again",
    )  # fmt: skip


def add_parser(commands: Subparsers) -> None:
    parser = commands.add_parser("serve", help="run the daemon", description=__doc__)
    add_configuration(parser)
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Serves; returns 0 after a clean stop."""
    from ..broker.network.descriptor_limit import raise_limit
    from ..broker.runtime.logging import log_uncaught, set_up_logging
    from ..broker.server.node import serve
    from ..config.loader import load_config

    config = load_config(options.config, os.environ, options.assignments)
    set_up_logging(config.logging_level, config.logging_format, config.logging_audit_level)
    log_uncaught()
    raise_limit()
    return serve(config)
