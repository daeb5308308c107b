"""Reads the repository's pages: their headings, links and code blocks, and what can be told of a block without running it.

A block is fenced (``` and a language) or indented by four. A comment alone on the line before a fence says more of it:

    <!-- run -->                it runs against a daemon (tests/site), as a reader would run it
    <!-- run stopped -->        the same, after the daemon that the page has started was stopped
    <!-- serves -->             the daemon, started as the block says; from here on it is the page's own
    <!-- file NAME -->          the block is the file NAME, for the blocks after it
    <!-- prints -->             what the block before it prints; a line of … stands for any lines, … in a line for any text
    <!-- not run: REASON -->    why it does not run here, and what shows that it is true
    <!-- none run: REASON -->   the same of all blocks of a page

Every language that is used has a parser in `PARSERS`, so that a new one can't slip in unread.
"""

from __future__ import annotations

import ast
import configparser
import contextlib
import io
import itertools
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tidelog.cli.main import build_parser
from tidelog.config.definitions import TOPIC_SETTINGS, find_broker_setting
from tidelog.protocol import client_security

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


class Block(NamedTuple):
    """A code block. `language` is "" for an indented one; `marks` are the words of the comment before it, `note` is the rest
    of it: a file's name, or the reason why the block is not run."""

    page: Path
    line: int
    language: str
    text: str
    marks: frozenset[str]
    note: str = ""

    @property
    def place(self) -> str:
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page.name
        return f"{page}:{self.line}"


class Link(NamedTuple):
    """A link of a page to `target`, which is a path and an anchor, or an address."""

    page: Path
    line: int
    target: str


def pages() -> list[Path]:
    """All of docs/, and the pages at the top."""
    return [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def followed() -> list[Path]:
    """Pages whose commands are run, or say why not: README, and mkdocs.yml's tutorials and how-to guides."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    doors = dict(re.findall(r"^  - ([^:\n]+):\n((?:      .*\n)+)", navigation, re.MULTILINE))
    named = re.findall(r": (\S+\.md)$", doors["Tutorials"] + doors["How-to guides"], re.MULTILINE)
    return [ROOT / "README.md", *(DOCS / name for name in named)]


def blocks(page: Path) -> Iterator[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    at = 0
    marks: frozenset[str] = frozenset()
    note = ""
    is_list = False
    while at < len(lines):
        line = lines[at]
        if fence := re.match(r"(\s*)(```+)\s*(\w*)", line):
            indent, ticks, language = fence.groups()
            end = next(n for n in range(at + 1, len(lines)) if lines[n].strip() == ticks)
            text = "\n".join(one.removeprefix(indent) for one in lines[at + 1 : end])
            yield Block(page, at + 1, language or "text", text + "\n", marks, note)
            at, marks, note = end + 1, frozenset(), ""
            continue
        if line.startswith("    ") and not is_list and (at == 0 or not lines[at - 1].strip()):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            yield Block(page, at + 1, "", "\n".join(one[4:] for one in lines[at:end]).rstrip() + "\n", frozenset())
            at = end
            continue
        if line.strip():
            is_list = bool(re.match(r"\s*([-*]|\d+\.) ", line)) or (is_list and line.startswith(" "))
            marks, note = _marks(line)
        at += 1


def _marks(line: str) -> tuple[frozenset[str], str]:
    """Words and note of a comment that speaks of the block after it; none where the line is something else."""
    comment = re.fullmatch(r"\s*<!-- (.*) -->", line)
    if comment is None:
        return frozenset(), ""
    if found := re.fullmatch(r"(not run): *(.+)|(file) ([\w./-]+)", comment[1]):
        return frozenset({found[1] or found[3]}), found[2] or found[4]
    words = frozenset(comment[1].split())
    return (words, "") if words <= {"run", "stopped", "serves", "prints"} else (frozenset(), "")


def prose(page: Path) -> str:
    """The page without its code, line for line."""
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines()
    for block in blocks(page):
        for number in range(block.line - 1, block.line + block.text.count("\n") + (1 if block.language else -1)):
            if number < len(lines):
                lines[number] = ""
    return re.sub(r"`[^`\n]*`", "", "\n".join(lines))


def links(page: Path) -> Iterator[Link]:
    text = prose(page)
    for found in re.finditer(r"\]\(([^)\s]+)\)", text):
        yield Link(page, text.count("\n", 0, found.start()) + 1, found[1])


def anchors(page: Path) -> set[str]:
    """Anchors of the headings, as MkDocs and GitHub make them, and those that are written out."""
    found: set[str] = set()
    is_code = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            is_code = not is_code
        if not is_code:
            found.update(re.findall(r'<a id="([^"]+)"></a>', line))
        if not is_code and (heading := re.match(r"#+ +(.*)", line)):
            words = re.sub(r"\]\([^)]*\)|[`*\[]", "", heading[1])
            found.add(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words).strip().lower()))
    return found


def link_problem(link: Link) -> str | None:
    """Why a relative link leads nowhere; None where it is fine, or leads out of the repository."""
    if re.match(r"[a-z]+:", link.target):
        return None
    path, _, anchor = link.target.partition("#")
    target = (link.page.parent / path).resolve() if path else link.page
    if not target.exists():
        return f"there is no {link.target}"
    if link.page.is_relative_to(DOCS) and not target.is_relative_to(DOCS):
        return f"{link.target} is not in docs/, so not on the site: name the file, without a link"
    if anchor and (target.suffix != ".md" or anchor not in anchors(target)):
        return f"there is no heading for {link.target}"
    return None


# -- what a block says, without running it --------------------------------------------------------------------------------


def block_problems(block: Block) -> list[str]:
    """What is wrong with a block, as far as reading it tells."""
    parse = PARSERS.get(block.language)
    if parse is None:
        return [f"there is no parser for '{block.language}' in tests/support/documentation.py"]
    try:
        parse(block.text)
    except (ValueError, SyntaxError, configparser.Error) as error:
        return [str(error)]
    return []


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of each `tidelog …` in a shell's text, also behind pipes and prompts."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # a quote of prose: no command
            continue
        part: list[str] = []
        for word in [*words, ";"]:
            if set(word) <= set("|&;<>()"):
                if part[:1] == ["tidelog"]:
                    yield part[1:]
                part = []
            else:
                part.append(word)


def _tidelog_commands(text: str) -> None:
    for arguments in commands(text):
        if not arguments or re.search(r"[…|]|\.\.\.", " ".join(arguments)):
            continue  # told of, not written out
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                build_parser().parse_args(arguments)
        except SystemExit as end:
            if end.code:
                raise ValueError(f"tidelog {shlex.join(arguments)}: {said.getvalue().splitlines()[-1]}") from None
        for option, value in itertools.pairwise(arguments):
            if option in ("--set", "--config") and "=" in value and not set(arguments) & _OTHER_TABLES:
                _setting(value.partition("=")[0])
    for variable in re.findall(r"\b(TIDELOG_[A-Z0-9_]+)=", text):
        _setting(variable.removeprefix("TIDELOG_").lower().replace("_", "."))


#: Options that say whose the settings are, where those are not of the broker's or topics' tables.
_OTHER_TABLES = {"--loggers", "--group", "--client-metrics"}


def _setting(name: str) -> None:
    if name not in TOPIC_SETTINGS and find_broker_setting(name) is None:
        raise ValueError(f"there is no setting {name}")


def _python(text: str) -> None:
    compile(text, "<block>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)


def _shell(text: str) -> None:
    done = subprocess.run(["sh", "-n"], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip())
    _tidelog_commands(text)


#: Settings that clients alone have, in files for --command-config.
_CLIENTS = {"bootstrap.servers", *client_security.NAMES}


def _properties(text: str) -> None:
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, equals, _ = line.partition("=")
            if not equals:
                raise ValueError(f"no setting: {line}")
            if name.strip() not in _CLIENTS:
                _setting(name.strip())


def _braced(text: str) -> None:
    """What can be told of a language with braces: they are closed, and TIDELOG_ variables are settings."""
    opened: list[str] = []
    for character in re.sub(r'"[^"\n]*"|`[^`]*`', "", text):
        if character in "([{":
            opened.append(character)
        elif character in ")]}" and (not opened or opened.pop() + character not in ("()", "[]", "{}")):
            raise ValueError(f"nothing to close by {character}")
    if opened:
        raise ValueError(f"{opened[-1]} is not closed")
    for variable in re.findall(r"TIDELOG_[A-Z_]+", text):
        _setting(variable.removeprefix("TIDELOG_").lower().replace("_", "."))


def _ini(text: str) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)  # systemd's files repeat names
    parser.read_string(text)
    for section in parser.sections():
        _properties(parser.get(section, "tidelog_settings", fallback="").strip())


PARSERS: dict[str, Callable[[str], object]] = {
    "": _tidelog_commands,
    "text": str,
    "python": _python,
    "sh": _shell,
    "console": _tidelog_commands,
    "toml": tomllib.loads,
    "json": json.loads,
    "ini": _ini,
    "properties": _properties,
    # Of docs/how-to/testcontainers.md, whose text says with what they were compiled, and of clients.md, which a test runs.
    "java": _braced,
    "go": _braced,
    "typescript": _braced,
    "js": _braced,
}


def printed_as(expected: str, printed: str) -> bool:
    """True if a block says what was printed, with … for what differs from run to run."""
    parts = [".*" if part == "…" else re.escape(part) for part in re.split("(…)", expected.strip())]
    return re.fullmatch("".join(parts), printed.strip(), re.DOTALL) is not None
