"""`tidelog completion bash|zsh|tcsh`: the shell's completion of commands and options, printed.

    tidelog completion bash > ~/.local/share/bash-completion/completions/tidelog

Made by shtab: `pip install 'tidelog[cli]'`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "completion",
        help="print a script that completes commands in a shell",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    from .main import build_parser
    from .support.kafka_client import KafkaFailure

    try:
        import shtab
    except ImportError:
        raise KafkaFailure("completion is made by shtab, which is not installed: pip install 'tidelog[cli]'") from None
    print(shtab.complete(build_parser(), shell=options.shell))  # nosec B604
    return 0
