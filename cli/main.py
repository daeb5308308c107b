"""The entry of every command: parses arguments, runs the command, turns expected failures into one line.

A command is a module of this package with `add_parser(subparsers)`; it sets `run`, a function from the parsed arguments
to an exit code. Expected failures (a bad setting, a directory that can't be used, a port that is taken) print one line
that says what, where and what to do, and exit with 1; a line that names settings is followed by one that says where those
are explained. Wrong usage exits with 2. Without a command, the commands are listed.
"""

from __future__ import annotations

import argparse
import codecs
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from .support.arguments import ArgumentParser

#: Modules of this package, in the order of `--help`. Only the one that is asked for is imported: `serve` has a budget.
COMMANDS = (
    "serve", "doctor", "topics", "groups", "produce", "consume", "configs", "users", "acls", "transactions", "why", "clean",
    "log", "backup", "restore", "settings", "pipeline", "service", "completion",
)  # fmt: skip

#: Commands whose modules lie elsewhere: beside the other tools for what a daemon leaves.
_PLACES = {"backup": "log.backup", "restore": "log.backup.restore"}


class _Version(argparse.Action):
    """Reads the installed version when asked for it: importlib.metadata costs a start 20 ms."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib import metadata

        print(f"tidelog {metadata.version('tidelog')}")
        parser.exit()


def build_parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The command line with these commands."""
    parser = ArgumentParser(
        prog="tidelog", description="Kafka's log as a small daemon: Kafka's wire protocol, Kafka's files."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in names:
        import_module(f".{_PLACES.get(name, name)}", __package__).add_parser(commands)
    return parser


def failure_text(error: Exception) -> str:
    """An error's text for people: an OSError is shown without Python's "[Errno 2]"."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def _tell(text: str, client_settings: str | None) -> None:
    """Prints what is wrong, and in a second line where the settings that it names are explained: the daemon's, not those of a
    client in the file `client_settings`, some of which have the same names."""
    from ..config.page import pointer

    print(f"tidelog: {text}", file=sys.stderr)
    if (client_settings is None or client_settings not in text) and (explained := pointer(text)):
        print(f"tidelog: {explained}", file=sys.stderr)


#: Signs that commands draw and write with, for a terminal that lacks them. Different signs stay different: bars mean something.
_SIGNS = str.maketrans({"█": "#", "▓": "=", "░": ".", "│": "|", "–": "-", "…": "...", "→": "->"})
_IN_ASCII = "tidelog.in_ascii"


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """An error handler of codecs: what to write for the text that can't be encoded, and where to go on."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(_SIGNS)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


def _prepare_streams() -> None:
    """Gives a command that was started with `<&-` or `>&-` an empty stream, where Python has None, and lets it print what the
    terminal's encoding lacks: signs of our own pictures as others like them, all else as an escape."""
    codecs.register_error(_IN_ASCII, _in_ascii)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_IN_ASCII)


def _parsed(parser: argparse.ArgumentParser, given: Sequence[str]) -> argparse.Namespace | None:
    """The arguments; None where there are none, and the commands were listed. SystemExit: --help, or wrong usage.

    Help is written out here, where a reader who has gone is noticed, and not when the interpreter ends.
    """
    try:
        if given:
            return parser.parse_args(given)
        parser.print_help()
        return None
    finally:
        sys.stdout.flush()


def _let_go_of_output() -> None:
    """Write out what standard output still has. Where that fails nothing more is written there: what is left would fail again
    when the interpreter ends, in a stack trace."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    from ..config.exceptions import ConfigError
    from ..storage.exceptions import StorageError

    _prepare_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = build_parser(given[:1] if given[:1] and given[0] in COMMANDS else COMMANDS)
    options = None
    try:
        options = _parsed(parser, given)
        code = 0 if options is None else int(options.run(options))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `| head` has seen enough
        _let_go_of_output()
        return 141
    except UnicodeEncodeError as error:  # Python's surrogates stand for an argument's bytes that are no text
        if codecs.lookup(error.encoding).name == "utf-8":
            why = "is no text in UTF-8, which names are"
        else:
            why = f"has letters that the encoding of file names here, {error.encoding}, lacks: set LC_ALL=C.UTF-8"
        print(f"tidelog: {ascii(error.object)[:200]} {why}", file=sys.stderr)
        return 1
    except (ConfigError, StorageError, OSError) as error:
        _let_go_of_output()
        _tell(failure_text(error), getattr(options, "command_config", None))
        return 1
    except RuntimeError as error:
        if "can't start new thread" not in str(error):
            raise
        limits = "ulimit -u, TasksMax= of its unit, --pids-limit of its container"
        print(
            f"tidelog: the system lets this process start no more threads: raise its limit ({limits})", file=sys.stderr
        )
        return 1
    except KeyboardInterrupt:
        return 130
