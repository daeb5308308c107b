"""Loader of settings: from a file, then the environment, then `--set`; the later one wins.

The file is Java properties (Kafka's `server.properties` as it is) or, by its suffix, TOML. Environment variables are
TIDELOG_ and the name in capitals with underscores. Everything wrong in all three is gathered into one error.

On top of them may come what Apache Kafka kept in its metadata, set while it ran (`with_dynamic_settings`). As in Kafka, one
node's own beat those of all nodes, and both beat what the node was started with.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .broker_config import BrokerConfig, broker_config
from .definitions import BROKER_SETTINGS, find_broker_setting, nearest_name, rows_of
from .exceptions import ConfigError
from .group_limits import broker_problems
from .listener_settings import split_name, unknown_listener
from .setting import Status, text_of
from .table.broker import COPIES
from .validation import validate

PREFIX = "TIDELOG_"
COMMAND_CONFIG = "TIDELOG_COMMAND_CONFIG"
"""Names the file of client settings for commands, and no setting of the daemon's, which may be started from the same shell."""

# Kubernetes puts the addresses of every service into its pods' environment. For a service called tidelog they look
# like settings of ours: TIDELOG_SERVICE_HOST, TIDELOG_PORT_9092_TCP_ADDR.
_KUBERNETES = re.compile(r"TIDELOG_(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")


class _Assignment(NamedTuple):
    text: str
    origin: str


def load_config(
    file: Path | None = None, environment: Mapping[str, str] | None = None, assignments: Sequence[str] = ()
) -> BrokerConfig:
    """The broker's configuration. Raises `ConfigError` with every problem; a file that can't be read is one.

    `assignments` are the NAME=VALUE of `--set`. Settings that mean nothing here become `BrokerConfig.notices`.
    """
    problems: list[str] = []
    found: dict[str, _Assignment] = {}
    if file is not None:
        found.update(_from_file(file, problems))
    found.update(_from_environment(environment or {}, problems))
    found.update(_from_assignments(assignments, problems))

    honoured: dict[str, str] = {}
    ignored: dict[str, list[str]] = {}
    for name, (text, origin) in found.items():
        row = find_broker_setting(name)
        if row is None:
            nearest = nearest_name(name, topic=False)
            hint = f"; did you mean {nearest}?" if nearest else ""
            problems.append(f"unknown setting {name} ({origin}){hint}")
        elif row.status is Status.HONOURED:
            honoured[name] = text
        elif row.status is Status.NO_MEANING:
            ignored.setdefault(row.doc, []).append(name)
        elif text.strip() not in row.allowed.choices:
            problems.append(f"{name}={text!r} is refused ({origin}): {row.doc}")
    values, wrong = validate(honoured, rows_of(honoured))
    for sentence in wrong:
        origin = found[sentence.partition("=")[0]].origin
        problems.append(f"{sentence} ({origin})")
    if problems:
        raise ConfigError(problems)
    copies = {name: honoured[name].strip() for name in COPIES if values.get(name, 1) != 1}
    values.update(dict.fromkeys(copies, 1))
    honoured.update(dict.fromkeys(copies, "1"))
    notices = tuple(f"taken and without effect: {', '.join(names)} ({why})" for why, names in ignored.items())
    if copies:
        told = ", ".join(f"{name}={text}" for name, text in copies.items())
        notices += (f"taken and read as 1: {told} (one node keeps one copy of each partition)",)
    given = {name: text.strip() for name, text in honoured.items()}
    config = broker_config(values, given, notices, {name: found[name].origin for name in given})
    if problems := broker_problems(config):
        raise ConfigError(problems)
    return config


def _from_file(file: Path, problems: list[str]) -> dict[str, _Assignment]:
    try:
        content = file.read_bytes()
        if file.suffix.lower() == ".toml":
            pairs = toml_settings(content.decode("utf-8-sig"))
        else:
            pairs = dict(parse_properties(properties_text(content)))
    except OSError as error:
        problems.append(f"{file}: can't be read: {error.strerror}")
        return {}
    except ValueError as error:  # UnicodeDecodeError and TOMLDecodeError are of this kind
        problems.append(f"{file}: {error}")
        return {}
    return {name: _Assignment(text, str(file)) for name, text in pairs.items()}


def _from_environment(environment: Mapping[str, str], problems: list[str]) -> dict[str, _Assignment]:
    # Two names never make one variable: the table's test says so.
    names = {row.environment: name for name, row in BROKER_SETTINGS.items()}
    found = {}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX) or variable == COMMAND_CONFIG:
            continue
        name = names.get(variable) or variable.removeprefix(PREFIX).lower().replace("_", ".")
        row = find_broker_setting(name)
        if _KUBERNETES.fullmatch(variable) and (row is None or row.status is not Status.HONOURED):
            continue
        if row is not None:
            found[name] = _Assignment(text, f"environment {variable}")
        else:
            nearest = nearest_name(name, topic=False)
            hint = f"; did you mean {BROKER_SETTINGS[nearest].environment}?" if nearest else ""
            problems.append(f"unknown setting in the environment: {variable}{hint}")
    return found


def _from_assignments(assignments: Sequence[str], problems: list[str]) -> dict[str, _Assignment]:
    found = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip():
            problems.append(f"--set {assignment!r} is not NAME=VALUE")
        else:
            found[name.strip()] = _Assignment(text, "--set")
    return found


def toml_settings(content: str) -> dict[str, str]:
    """Settings of a TOML text: tables and dotted keys are joined with dots, values become texts. ValueError if not."""
    import tomllib  # only a TOML file pays for it

    found: dict[str, str] = {}

    def walk(prefix: str, table: Mapping[str, object]) -> None:
        for key, value in table.items():
            name = f"{prefix}{key}"
            if isinstance(value, dict):
                walk(f"{name}.", value)
            elif isinstance(value, list) and all(isinstance(item, str) for item in value):
                found[name] = ",".join(value)
            elif isinstance(value, str | bool | int | float):
                found[name] = text_of(value) or ""
            else:
                raise ValueError(f"{name} has a value that is neither a text, a number, a truth nor a list of texts")

    try:
        walk("", tomllib.loads(content))
    except RecursionError:
        raise ValueError("tables or lists are nested too deeply") from None
    return found


def properties_text(content: bytes) -> str:
    """Text of a properties file: UTF-8, or else ISO 8859-1, as which Java and so Apache Kafka reads every such file. ValueError.

    The byte order mark that Windows' editors write is no part of the first name, as which Java takes it.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("it is in UTF-16: store it in UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("iso-8859-1")


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPACE = " \t\f"


def parse_properties(content: str) -> Iterator[tuple[str, str]]:
    """(name, text) of each line of a Java properties file, in order; the last of a name wins.

    `#` and `!` begin comments, `=`, `:` or blanks end the name, a backslash at a line's end joins the next line to it,
    `\\t \\n \\r \\f \\uXXXX` are what they are in Java. ValueError on a broken `\\u`.
    """
    lines = iter(re.split(r"\r\n|\r|\n", content))
    for natural in lines:
        line = natural.lstrip(_SPACE)
        if not line or line[0] in "#!":
            continue
        while _ends_open(line):
            line = line[:-1] + next(lines, "").lstrip(_SPACE)
        end = 0
        while end < len(line) and line[end] not in "=:" + _SPACE:
            end += 2 if line[end] == "\\" else 1
        rest = line[end:].lstrip(_SPACE)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_SPACE)
        yield _unescape(line[:end]), _unescape(rest)


def _ends_open(line: str) -> bool:
    """True if the line ends with an odd number of backslashes, so that it goes on in the next one."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                digits = text[position : position + 4]
                if not re.fullmatch(r"[0-9A-Fa-f]{4}", digits):
                    raise ValueError(f"\\u{digits} is not \\u and four hexadecimal digits")
                character = chr(int(digits, 16))
                position += 4
            else:
                character = _ESCAPES.get(character, character)
        out.append(character)
    # Java's characters are UTF-16 units: what needs two of them comes as two escapes.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


ALL_NODES = ""


class DynamicConfig(NamedTuple):
    """`config` with the settings in `taken`; `refused` are sentences about values that can't be."""

    config: BrokerConfig
    taken: dict[str, str]
    refused: tuple[str, ...]


def with_dynamic_settings(
    config: BrokerConfig, by_node: Mapping[str, Mapping[str, str]], node_id: int, *, all_or_none: bool = False
) -> DynamicConfig:
    """`config` with the settings that Kafka let change while running; what has no meaning here is left out.

    What does not fit to the rest, as to a file that was changed since, is left out too, and nothing else: what is kept, and
    who is let in, must not depend on an unrelated setting. `all_or_none` spares the search for it: none is taken then.
    """
    wanted = {**by_node.get(ALL_NODES, {}), **by_node.get(str(node_id), {})}
    taken: dict[str, str] = {}
    refused: list[str] = []
    for name, text in wanted.items():
        row, own = find_broker_setting(name), split_name(name)
        if row is not None and row.dynamic and row.status is Status.HONOURED:
            _, problems = validate({name: text}, {name: row})
            if own is not None:
                problems += unknown_listener(name, own, config.securable_listeners)
            refused += problems
            if not problems:
                taken[name] = text
    while taken:
        changed, contradictions = _changed(config, taken)
        if changed is not None:
            return DynamicConfig(changed, taken, tuple(refused))
        refused += [problem for problem in contradictions if problem not in refused]
        # Each is right, together they are not: the one goes without which least is wrong.
        taken = {} if all_or_none else min(_without_one(taken), key=lambda fewer: len(_changed(config, fewer)[1]))
    return DynamicConfig(config, {}, tuple(refused))


def _changed(config: BrokerConfig, taken: Mapping[str, str]) -> tuple[BrokerConfig | None, Sequence[str]]:
    """`config` with valid settings over its own; None, and why, where they do not fit together."""
    given = {**config.given, **taken}
    values, _ = validate(given, rows_of(given))
    try:
        changed = broker_config(values, given, config.notices, config.origins)
    except ConfigError as error:
        return None, error.problems
    problems = broker_problems(changed)
    return (None, problems) if problems else (changed, ())


def _without_one(settings: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The settings without one of them, each in turn."""
    for left_out in settings:
        yield {name: text for name, text in settings.items() if name != left_out}
