"""Apache Kafka's own definitions of its requests and answers, as the kafka-clients jar has them: kept in a golden file, compared
with the declared messages, and an encoder that goes by them alone.

    python tests/support/kafka_messages.py JAR > tests/golden/kafka-RELEASE-messages.txt

The golden file has a line for each request, answer and field. Indentation is depth; a type in lower case is a primitive, `[]` an
array of what follows, and a struct has its fields below:

    18 ApiVersionsRequest 0-5 flexible=3+ listeners=broker,controller
      ClusterId string 5+ nullable=5+ default=null ignorable

Messages that only controllers answer have no fields there: their versions are all that is known of them here.
"""

from __future__ import annotations

import json
import re
import struct
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidelog.broker.requests.registry import load_apis
from tidelog.protocol.schema import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    UUIDS,
    Field,
    Message,
    Struct,
    VersionRange,
)

GOLDEN_FOLDER = Path(__file__).parents[1] / "golden"
_FOLDER = "common/message/"
_NAME = re.compile(r"kafka-clients-(\d+(?:\.\d+)*)\.jar")
_KINDS = {
    "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "int64": INT64, "float64": FLOAT64, "bool": BOOLEAN,
    "uuid": UUIDS, "string": STRING, "bytes": BYTES, "records": RECORDS,
}  # fmt: skip
_FORMATS = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q", "float64": "d", "bool": "?"}


@dataclass(frozen=True, slots=True)
class KafkaField:
    """One field as Kafka defines it. `type` without `[]`; `fields` of a struct."""

    name: str
    type: str
    is_array: bool
    versions: str
    nullable: str = "none"
    default: str | None = None
    tag: int | None = None
    tagged: str = "none"
    ignorable: bool = False
    fields: tuple[KafkaField, ...] = ()


@dataclass(frozen=True, slots=True)
class KafkaMessage:
    """One request or answer. `is_unstable`: its newest version is none that a release offers."""

    name: str
    key: int
    versions: str
    flexible: str
    listeners: tuple[str, ...] = ()
    is_unstable: bool = False
    fields: tuple[KafkaField, ...] = field(default=())

    @property
    def released(self) -> tuple[int, int]:
        """First and last version that the release offers; the last is below the first where there is none."""
        low, high = VersionRange.parse(self.versions)
        return low, high - self.is_unstable

    @property
    def is_request(self) -> bool:
        return self.name.endswith("Request")

    @property
    def is_brokers(self) -> bool:
        """True for a request that brokers answer."""
        return "broker" in self.listeners


# -- the jar


def jar_release(jar: Path) -> tuple[int, ...]:
    """Release in a jar's name."""
    found = _NAME.fullmatch(jar.name)
    assert found is not None, f"{jar.name} is no kafka-clients jar of a release"
    return tuple(map(int, found[1].split(".")))


def newest_jar(folders: Iterable[Path]) -> Path:
    """The kafka-clients jar of the newest release in these folders."""
    jars = [jar for folder in folders for jar in folder.glob("kafka-clients-*.jar") if _NAME.fullmatch(jar.name)]
    assert jars, f"no kafka-clients jar in {', '.join(map(str, folders))}: run `make compat-java compat-newest`"
    return max(jars, key=jar_release)


def read_jar(jar: Path) -> list[KafkaMessage]:
    """Requests and answers, by key and name."""
    found = []
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith(_FOLDER) and name.endswith(("Request.json", "Response.json")):
                text = archive.read(name).decode()
                plain = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))
                found.append(_message(json.loads(plain)))
    listeners = {message.key: message.listeners for message in found if message.is_request}
    kept = [
        message if "broker" in listeners[message.key] else KafkaMessage(
            message.name, message.key, message.versions, message.flexible, message.listeners, message.is_unstable
        )
        for message in found
    ]  # fmt: skip
    return sorted(kept, key=lambda message: (message.key, message.name))


def _message(read: dict[str, Any]) -> KafkaMessage:
    common = {one["name"]: one["fields"] for one in read.get("commonStructs", ())}
    return KafkaMessage(
        read["name"],
        read["apiKey"],
        read["validVersions"],
        read.get("flexibleVersions", "none"),
        tuple(read.get("listeners", ())),
        read.get("latestVersionUnstable", False),
        tuple(_field(one, common) for one in read.get("fields", ())),
    )


def _field(read: dict[str, Any], common: dict[str, Any]) -> KafkaField:
    kind = read["type"].removeprefix("[]")
    default = read.get("default")
    return KafkaField(
        read["name"],
        kind,
        read["type"].startswith("[]"),
        read["versions"],
        read.get("nullableVersions", "none"),
        None if default is None else str(default).strip().lower() if isinstance(default, bool) else str(default),
        read.get("tag"),
        read.get("taggedVersions", "none"),
        str(read.get("ignorable", "false")).lower() == "true",
        tuple(_field(one, common) for one in read.get("fields", common.get(kind, ()))),
    )


# -- the golden file


def golden(what: str = "messages") -> Path:
    """The golden file of the newest release: of its `messages`, or of its `errors` (number, name, whether clients try again)."""
    return max(GOLDEN_FOLDER.glob(f"kafka-*-{what}.txt"), key=golden_release)


def golden_release(path: Path) -> tuple[int, ...]:
    """Release in a golden file's name."""
    return tuple(map(int, path.name.split("-")[1].split(".")))


def text_of(messages: Iterable[KafkaMessage]) -> str:
    """Write the golden file's lines."""
    lines = []
    for message in messages:
        words = [str(message.key), message.name, message.versions, f"flexible={message.flexible}"]
        if message.listeners:
            words.append(f"listeners={','.join(message.listeners)}")
        if message.is_unstable:
            words.append("unstable")
        lines += [" ".join(words), *_field_lines(message.fields, 1)]
    return "\n".join(lines) + "\n"


def _field_lines(fields: Iterable[KafkaField], depth: int) -> Iterator[str]:
    for one in fields:
        words = [one.name, "[]" * one.is_array + one.type, one.versions]
        if one.nullable != "none":
            words.append(f"nullable={one.nullable}")
        if one.default is not None:
            words.append(f"default={one.default}")
        if one.tag is not None:
            words += [f"tag={one.tag}", f"tagged={one.tagged}"]
        if one.ignorable:
            words.append("ignorable")
        yield "  " * depth + " ".join(words)
        yield from _field_lines(one.fields, depth + 1)


def read_text(text: str) -> list[KafkaMessage]:
    """Read the golden file's lines."""
    rows = [
        (len(line) - len(line.lstrip(" ")), line.split())
        for line in text.splitlines()
        if line.strip() and not line.startswith("#")
    ]
    found = []
    at = 0
    while at < len(rows):
        _, words = rows[at]
        fields, at = _read_fields(rows, at + 1, 2)
        options = _options(words[3:])
        found.append(
            KafkaMessage(
                words[1],
                int(words[0]),
                words[2],
                options["flexible"],
                tuple(filter(None, options.get("listeners", "").split(","))),
                "unstable" in options,
                fields,
            )
        )
    return found


def _read_fields(rows: list[tuple[int, list[str]]], at: int, indent: int) -> tuple[tuple[KafkaField, ...], int]:
    found = []
    while at < len(rows) and rows[at][0] == indent:
        words = rows[at][1]
        inner, at = _read_fields(rows, at + 1, indent + 2)
        options = _options(words[3:])
        found.append(
            KafkaField(
                words[0],
                words[1].removeprefix("[]"),
                words[1].startswith("[]"),
                words[2],
                options.get("nullable", "none"),
                options.get("default"),
                int(options["tag"]) if "tag" in options else None,
                options.get("tagged", "none"),
                "ignorable" in options,
                inner,
            )
        )
    return tuple(found), at


def _options(words: list[str]) -> dict[str, str]:
    return {name: value for name, _, value in (word.partition("=") for word in words)}


# -- compared with the declared messages


def snake(name: str) -> str:
    """Our name of a field."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def table_differences(theirs: Iterable[KafkaMessage]) -> list[str]:
    """APIs of Kafka's brokers, and versions of them, that are not answered here, and those that are and are none of a release."""
    newest = {message.key: message for message in theirs if message.is_request and message.is_brokers}
    found = []
    for key, message in sorted(newest.items()):
        low, high = message.released
        name = f"{key} {message.name.removesuffix('Request')}"
        entry = load_apis().get(key)
        if entry is None and low <= high:
            found.append(f"{name}: not answered, Kafka's brokers answer {low} to {high}")
        elif entry is not None and not (entry.min_version <= low and entry.max_version == high):
            found.append(
                f"{name}: answered in {entry.min_version} to {entry.max_version}, the newest of Kafka's is {high}"
            )
    strange = [key for key in load_apis() if key not in newest]
    return [*found, *(f"{key} {load_apis()[key].api_key.label}: no API of Kafka's brokers" for key in strange)]


def differences(ours: type[Message], theirs: KafkaMessage) -> list[str]:
    """What a declared message says otherwise than Kafka in the versions that both have; empty if nothing.

    We have versions that Kafka has dropped. One that it has not released may be declared, and is not answered.
    """
    low, high = theirs.released
    found = []
    if not ours.VERSIONS[0] <= low or ours.VERSIONS[1] not in (high, high + theirs.is_unstable):
        found.append(f"{theirs.name}: versions {ours.VERSIONS[0]} to {ours.VERSIONS[1]}, Kafka's are {low} to {high}")
    first = None if theirs.flexible == "none" else VersionRange.parse(theirs.flexible).low
    if first != ours.FLEXIBLE_FROM:
        found.append(f"{theirs.name}: flexible from {ours.FLEXIBLE_FROM}, Kafka's from {first}")
    both = list(range(max(low, ours.VERSIONS[0]), min(VersionRange.parse(theirs.versions).high, ours.VERSIONS[1]) + 1))
    return [*found, *_struct_differences(ours, theirs.fields, both, theirs.name)]


def _struct_differences(ours: type[Struct], theirs: Iterable[KafkaField], both: list[int], where: str) -> Iterator[str]:
    mine = {one.name: one for one in ours.FIELDS if _within(one.versions, both)}
    expected = [one for one in theirs if _within(one.versions, both)]
    names = [snake(one.name) for one in expected]
    if list(mine) != names:
        yield f"{where}: fields {list(mine)}, Kafka's are {names}"
    for one in expected:
        if (own := mine.get(snake(one.name))) is not None:
            yield from _field_differences(own, one, both, f"{where}.{one.name}")


def _field_differences(ours: Field, theirs: KafkaField, both: list[int], where: str) -> Iterator[str]:
    facts = (
        ("is in versions", _within(ours.versions, both), _within(theirs.versions, both)),
        ("may be null in versions", _within(ours.nullable, both), _within(theirs.nullable, both)),
        ("is an array", ours.is_array, theirs.is_array),
        ("has the tag", ours.tag, theirs.tag),
        ("is ignorable", ours.ignorable, theirs.ignorable),
    )
    for what, own, kafkas in facts:
        if own != kafkas:
            yield f"{where} {what}: {own}, Kafka's: {kafkas}"
    if theirs.tag is not None and _within(theirs.tagged, both) != _within(theirs.versions, both):
        yield f"{where} is tagged in other versions than it is in: that can't be declared here"
    if theirs.fields:
        if isinstance(ours.element, type):
            yield from _struct_differences(ours.element, theirs.fields, _within(theirs.versions, both), where)
        else:
            yield f"{where} is no struct here"
    elif ours.element is not _KINDS[theirs.type]:
        yield f"{where} is of another type than {theirs.type}"
    # Elsewhere a default is what a constructor may leave out, and ours say null where Kafka's say an empty text.
    is_seen = theirs.tag is not None or ("Request" in where and _within(theirs.versions, both) != both)
    if is_seen and (not theirs.fields or theirs.is_array):
        expected = default_of(theirs)
        if ours.default != expected or isinstance(ours.default, bool) is not isinstance(expected, bool):
            yield f"{where} is {ours.default!r} by default, Kafka's: {expected!r}"


def _within(versions: str, both: list[int]) -> list[int]:
    return [version for version in both if VersionRange.parse(versions).has(version)]


def default_of(theirs: KafkaField) -> object:
    """The default of a field that is no struct, as a value of ours."""
    if theirs.default == "null":
        return None
    if theirs.is_array:
        return ()
    if theirs.type == "bool":
        return theirs.default == "true"
    if theirs.type in ("string", "bytes", "records", "uuid"):
        return {"string": theirs.default or "", "uuid": bytes(16)}.get(theirs.type, b"")
    return float(theirs.default or 0) if theirs.type == "float64" else int(theirs.default or "0", 0)


# -- an encoder that knows Kafka's definition alone


def encoded(theirs: KafkaMessage, message: Struct, version: int) -> bytes:
    """Encode a message of ours by Kafka's definition, field by field."""
    is_flexible = VersionRange.parse(theirs.flexible).has(version)
    return _encoded_struct(theirs.fields, message, version, is_flexible)


def _encoded_struct(fields: Iterable[KafkaField], value: Any, version: int, is_flexible: bool) -> bytes:
    out = b""
    tagged: dict[int, bytes] = {}
    for one in fields:
        if not VersionRange.parse(one.versions).has(version):
            continue
        held = getattr(value, snake(one.name))
        data = _encoded_field(one, held, version, is_flexible)
        if one.tag is not None and VersionRange.parse(one.tagged).has(version):
            if held != _usual(one, held) and not (one.is_array and held is not None and len(held) == 0):
                tagged[one.tag] = data
        else:
            out += data
    if is_flexible:
        out += _varint(len(tagged))
        for tag, data in sorted(tagged.items()):
            out += _varint(tag) + _varint(len(data)) + data
    return out


def _usual(one: KafkaField, held: Any) -> object:
    """Value with which a tagged field is left out; an empty array is, too."""
    if one.fields and not one.is_array and one.default != "null":
        return type(held)()
    return default_of(one)


def _encoded_field(one: KafkaField, value: Any, version: int, is_flexible: bool) -> bytes:
    if not one.is_array:
        return _encoded_value(one, value, version, is_flexible)
    if value is None:
        return b"\0" if is_flexible else b"\xff\xff\xff\xff"
    count = _varint(len(value) + 1) if is_flexible else struct.pack(">i", len(value))
    return count + b"".join(_encoded_value(one, item, version, is_flexible) for item in value)


def _encoded_value(one: KafkaField, value: Any, version: int, is_flexible: bool) -> bytes:
    if one.fields:
        if one.is_array or not VersionRange.parse(one.nullable).has(version):
            return _encoded_struct(one.fields, value, version, is_flexible)
        if value is None:
            return b"\xff"
        return b"\x01" + _encoded_struct(one.fields, value, version, is_flexible)
    if one.type in _FORMATS:
        return struct.pack(">" + _FORMATS[one.type], value)
    if one.type == "uuid":
        return bytes(value)
    if value is None:
        return b"\0" if is_flexible else b"\xff" * (2 if one.type == "string" else 4)
    data = value.encode() if one.type == "string" else bytes(value)
    if is_flexible:
        return _varint(len(data) + 1) + data
    return struct.pack(">h" if one.type == "string" else ">i", len(data)) + data


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


if __name__ == "__main__":
    jar = Path(sys.argv[1])
    sys.stdout.write(f"# Read off {jar.name} by tests/support/kafka_messages.py.\n{text_of(read_jar(jar))}")
