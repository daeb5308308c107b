"""`tidelog serve`: runs the daemon in the foreground until SIGTERM, SIGINT or SIGHUP."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_LAST_PORT = 65535


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
    parser.add_argument(
        "--port", metavar="N", type=port_number,
        help="port of the one default listener, 0 for any that is free; refused where listeners is set",
    )  # fmt: skip
    parser.set_defaults(run=run)


def port_number(text: str) -> int:
    """A port; argparse makes a line of the error."""
    if not text.isdecimal() or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 … {_LAST_PORT}")
    return int(text)


def listener_at(port: int, config: BrokerConfig) -> str:
    """The assignment that gives the default listener another port. ConfigError: somebody has said where to listen."""
    from ..config.definitions import BROKER_SETTINGS
    from ..config.exceptions import ConfigError

    if "listeners" in config.given:
        origin = config.origins["listeners"]
        raise ConfigError(
            [f"--port {port} is for the default listener, and listeners is set ({origin}): give the port there"]
        )
    default = BROKER_SETTINGS["listeners"].default
    assert isinstance(default, tuple)
    address = default[0].rpartition(":")[0]
    return f"listeners={address}:{port}"


def run(options: Any) -> int:
    """Serves; returns 0 after a clean stop."""
    from ..broker.network.descriptor_limit import raise_limit
    from ..broker.runtime.logging import log_uncaught, set_up_logging
    from ..broker.server.node import serve
    from ..config.loader import load_config

    config = load_config(options.config, os.environ, options.assignments)
    if options.port is not None:
        config = load_config(options.config, os.environ, [*options.assignments, listener_at(options.port, config)])
    set_up_logging(config.logging_level, config.logging_format, config.logging_audit_level)
    log_uncaught()
    raise_limit()
    return serve(config)
