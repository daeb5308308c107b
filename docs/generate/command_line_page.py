"""docs/COMMAND_LINE.md: every command with its arguments, as its own parser has them.

`make docs` writes it; a test fails when it differs from the parser.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.cli.main import build_parser

_HEAD = """# Command line

<!-- Generated from the commands' own parsers by `make docs`. Don't edit. -->

Names and options are a contract: they do not change. A command that prints facts has `--json`. One that talks to a daemon
takes `--bootstrap-server HOST:PORT` (default: the address in `TIDELOG_LISTENERS`, else 127.0.0.1:9092) or, where it needs
HTTP, `--http HOST:PORT` (default: `TIDELOG_HTTP_LISTENER`, else 127.0.0.1:9404). What fails says so in one line on stderr:
what, where, what to do; where it names settings, a second line says where those are explained. Exit codes: 0 done,
1 failed, 2 wrong usage, 130 interrupted by Ctrl-C. Long work shows a bar on a
terminal and log lines elsewhere. A directory as standard input (`tidelog produce TOPIC < directory`) is refused by Python itself,
in its own words (`Fatal Python error: … <stdin> is a directory`), before anything of ours runs.

`pip install 'tidelog[cli]'` adds `completion`, and librdkafka for `produce` and `consume`, which use it where it is installed
([ADR 69](adr/0069-which-client-of-the-command-line.md)); all else works from the base install.
"""


class Command(NamedTuple):
    """Its words (`topics`, `list`), its one-line help, its parser."""

    words: tuple[str, ...]
    summary: str
    parser: argparse.ArgumentParser


def commands(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[Command]:
    """Each command that does something."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, below in action.choices.items():
            if any(isinstance(one, argparse._SubParsersAction) for one in below._actions):
                yield from commands(below, (*path, name))
            else:
                yield Command((*path, name), helps.get(name, ""), below)


def render(parser: argparse.ArgumentParser) -> str:
    """The page."""
    parts = [_HEAD]
    group = ""
    for words, summary, command in commands(parser):
        if words[0] != group:
            group = words[0]
            parts.append(f"\n## {group}\n")
        if len(words) > 1:
            parts.append(f"\n### {' '.join(words)}\n")
        about = command.description or summary
        parts.append(f"\n{_sentence(about)}\n\n```text\n{_usage(command)}\n```\n")
        if rows := [_row(action) for action in command._actions if not isinstance(action, argparse._HelpAction)]:
            parts.append("\n| argument | what it does |\n|---|---|\n" + "".join(rows))
        if command.epilog:
            parts.append(f"\n{_sentence(command.epilog)}\n")
    return "".join(parts)


def _usage(command: argparse.ArgumentParser) -> str:
    """One way on every Python, which wrap and name things differently: what must be given, then that there are options."""
    words = [command.prog]
    for action in command._actions:
        if action.option_strings:
            if action.required:
                words.append(_invocation(action))
        else:
            words.append(_value(action))
    if any(action.option_strings and not isinstance(action, argparse._HelpAction) for action in command._actions):
        words.append("[options]")
    return " ".join(words)


def _row(action: argparse.Action) -> str:
    invocation = _invocation(action) if action.option_strings else _value(action)
    said = (action.help or "") % {**vars(action), "prog": "tidelog"}
    if action.choices is not None and action.metavar is not None:
        said += f" (one of: {', '.join(map(str, action.choices))})"
    return f"| `{invocation.replace('|', '&#124;')}` | {_escaped(said)} |\n"


def _invocation(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings)
    value = _value(action)
    return f"{names} {value}" if value else names


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, str):
        name = action.metavar
    elif action.choices is not None:
        name = "{" + ",".join(map(str, action.choices)) + "}"
    else:
        name = action.dest.upper()
    return {"+": f"{name}...", "*": f"[{name}...]", "?": f"[{name}]"}.get(str(action.nargs), name)


def _sentence(text: str) -> str:
    text = _escaped(re.sub(r"\s+", " ", text).strip())
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", ")", "`")) else f"{text}."


def _escaped(text: str) -> str:
    return text.replace("|", "&#124;").replace("<", "&lt;").replace("*", "\\*")


def main(arguments: Sequence[str]) -> int:
    """Writes the page into the directory that is given, or docs/ of the checkout."""
    docs = Path(arguments[0]) if arguments else Path(__file__).parents[2] / "docs"
    (docs / "COMMAND_LINE.md").write_text(render(build_parser()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
