from __future__ import annotations

import argparse
from pathlib import Path

from generate.command_line_page import commands, render
from tidelog.cli.main import COMMANDS, build_parser

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_the_committed_page_is_what_the_parsers_say() -> None:
    assert (DOCS / "COMMAND_LINE.md").read_text(encoding="utf-8") == render(build_parser()), (
        "docs/COMMAND_LINE.md is not what the commands say: run `make docs`"
    )


def test_every_command_is_on_it_and_says_what_it_does() -> None:
    found = list(commands(build_parser()))
    assert {one.words[0] for one in found} == set(COMMANDS)
    for one in found:
        assert one.summary or one.parser.description, one.words


def test_no_help_speaks_of_the_source() -> None:
    """A description may be a module's docstring, which has sentences for readers of the source too."""
    for command in commands(build_parser()):
        text = command.parser.format_help()
        assert "tart reading" not in text, command.words
        assert "add_parser" not in text, command.words


def test_arguments_are_told() -> None:
    parser = argparse.ArgumentParser(prog="p")
    make = parser.add_subparsers().add_parser("make", help="makes <a|b>*", epilog="it ends")
    make.add_argument("what", nargs="+", metavar="WHAT", help="with %(default)s", default="x")
    make.add_argument("--kind", choices=["a", "b"], required=True)
    make.add_argument("--loud", action="store_true", help="noise")
    page = render(parser)
    assert "\nMakes &lt;a&#124;b>\\*.\n" in page
    assert "\np make WHAT... --kind {a,b} [options]\n" in page
    assert "| `WHAT...` | with x |\n| `--kind {a,b}` |  |\n| `--loud` | noise |\n" in page
    assert page.endswith("\nIt ends.\n")
    assert "-h" not in page.partition("```text")[2]
