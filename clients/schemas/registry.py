"""A schema registry that answers as Confluent's does: schemas by id, by subject and version, with their references.

Schemas never change under their id, so they are kept, within bounds of count and bytes. What a registry does not know is
remembered for half a minute: damaged records have ids at random, and each would be a request. Several addresses are one
registry: where one does not answer, the next is asked.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from ...protocol.http_exchange import Endpoint, ExchangeError
from .exceptions import RegistryError, SchemaError, UnknownSchemaError

#: Bytes of one answer.
MOST_ANSWER = 4 << 20
#: Schemas that are kept, and bytes of their texts.
MOST_KEPT, MOST_KEPT_BYTES = 1_000, 32 << 20
#: Ids that are known to be unknown, and how long that is believed.
MOST_UNKNOWN, UNKNOWN_S = 10_000, 30.0
#: Schemas that one schema may refer to, directly or not, and bytes of their texts.
MOST_REFERENCES, MOST_REFERENCED_BYTES = 200, 16 << 20
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
#: Codes of a subject, version or schema that is unknown begin here; that of a path which it does not have is 404.
_UNKNOWN = 40_400
#: Answers that another attempt may turn out better than.
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Where a registry is and how one gets in. Pickled with tasks; the secrets are not shown.

    Attributes:
        urls: http or https, of one registry; a path in front of the API is kept.
        user_info: `user:password`, for basic authentication.
        ca_file: PEM file of whom to trust instead of the system's authorities; at that path on each machine.
        attempt_s: for one answer. `patience_s`: for all attempts to get one.
    """

    urls: tuple[str, ...]
    user_info: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    attempt_s: float = 10.0
    patience_s: float = 60.0


class Reference(NamedTuple):
    """Another schema by the name that a text knows it by (Avro: a type, Protobuf: an import, JSON: a $ref)."""

    name: str
    subject: str
    version: int


class RegisteredSchema(NamedTuple):
    """`form`: AVRO, PROTOBUF or JSON. `text` is a Protobuf schema's FileDescriptorProto in base64, where that was asked for."""

    schema_id: int
    form: str
    text: str
    references: tuple[Reference, ...]


def checked_url(text: str) -> str:
    """The address without a slash in the end. SchemaError: it is none, or has a password in it, which would be shown."""
    try:
        parts = urlsplit(text)
        port_is_sound = parts.port is None or parts.port > 0
        (parts.hostname or "").encode("idna")  # as the resolver is asked
    except ValueError:  # a UnicodeError is one
        parts, port_is_sound = urlsplit(""), False
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or not port_is_sound
        or not (parts.path.isascii() and parts.path.isprintable())
        or " " in parts.path
        or parts.query
        or parts.fragment
    ):
        raise SchemaError(f"{text[:300]!r} is no address of a registry; it takes http://host:8081 or https://host")
    if "@" in parts.netloc:
        raise SchemaError("an address of a registry has no user in it: there are options for authentication")
    return text.rstrip("/")


class Registry:
    """One registry. Any thread may call; calls block, for `patience_s` at most and an attempt. RegistryError."""

    def __init__(
        self, settings: RegistrySettings, *, serialized: bool = False,
        clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        """`serialized`: have Protobuf schemas as descriptors, not as source text."""
        self._settings = settings
        self._serialized = serialized
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], RegisteredSchema] = OrderedDict()
        self._kept_bytes = 0
        self._unknown: OrderedDict[tuple[Any, ...], tuple[float, str]] = OrderedDict()

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """UnknownSchemaError."""
        return self._get(("id", schema_id), f"/schemas/ids/{schema_id}", f"schema {schema_id}", schema_id)

    def by_version(self, subject: str, version: int) -> RegisteredSchema:
        """A version that was deleted too: others may refer to it. UnknownSchemaError."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        return self._get(("version", subject, version), path, f"version {version} of subject {subject}", deleted=True)

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version, asked anew each time. UnknownSchemaError."""
        answer = self._ask(self._query(f"/subjects/{quote(subject, safe='')}/versions/latest"), f"subject {subject}")
        return _schema_of(answer, None, f"subject {subject}")

    def closure(self, schema: RegisteredSchema) -> list[tuple[str, RegisteredSchema]]:
        """All that it refers to, directly or not, by name, each behind what it refers to itself. SchemaError: too much, or two
        different ones by one name.
        """
        found: dict[str, RegisteredSchema] = {}
        places: dict[str, tuple[str, int]] = {}
        size = 0
        # Depth first, without recursion: what is on the stack a second time is done.
        stack = [(reference, False) for reference in reversed(schema.references)]
        pending: dict[str, RegisteredSchema] = {}
        while stack:
            reference, is_done = stack.pop()
            name, place = reference.name, (reference.subject, reference.version)
            if is_done:
                found.setdefault(name, pending[name])
                continue
            if name in places:
                if places[name] != place:
                    raise SchemaError(f"{name} refers to versions that differ: {places[name]} and {place}")
                continue
            places[name] = place
            pending[name] = self.by_version(*place)
            size += len(pending[name].text)
            if len(places) > MOST_REFERENCES or size > MOST_REFERENCED_BYTES:
                raise SchemaError(
                    f"schema {schema.schema_id} refers to more than {MOST_REFERENCES} others, or to too long ones"
                )
            stack.append((reference, True))
            stack += [(more, False) for more in reversed(pending[name].references)]
        return list(found.items())

    def _get(
        self, key: tuple[Any, ...], path: str, what: str, schema_id: int | None = None, *, deleted: bool = False
    ) -> RegisteredSchema:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept
            since, why = self._unknown.get(key, (0.0, ""))
            if why and self._clock() - since < UNKNOWN_S:
                raise UnknownSchemaError(why)
        try:
            found = _schema_of(self._ask(self._query(path, deleted=deleted), what), schema_id, what)
        except UnknownSchemaError as error:
            with self._lock:
                self._unknown.pop(key, None)
                self._unknown[key] = (self._clock(), str(error))
                while len(self._unknown) > MOST_UNKNOWN:
                    self._unknown.popitem(last=False)
            raise
        with self._lock:
            self._unknown.pop(key, None)
            if key not in self._kept:
                self._kept_bytes += len(found.text)
            self._kept[key] = found
            while len(self._kept) > 1 and (len(self._kept) > MOST_KEPT or self._kept_bytes > MOST_KEPT_BYTES):
                self._kept_bytes -= len(self._kept.popitem(last=False)[1].text)
        return found

    def _query(self, path: str, *, deleted: bool = False) -> str:
        asked = [
            name for name, wanted in (("format=serialized", self._serialized), ("deleted=true", deleted)) if wanted
        ]
        return path + ("?" + "&".join(asked) if asked else "")

    def _ask(self, path: str, what: str) -> Mapping[str, Any]:
        """The answer's JSON, from whichever address gives one first."""
        deadline = self._clock() + self._settings.patience_s
        pause = 0.1
        while True:
            failed = []
            for url in self._settings.urls:
                try:
                    status, body = self._exchange(url + path)
                except ExchangeError as error:
                    failed.append(str(error))
                    continue
                if status == HTTPStatus.OK:
                    return _json(body, url)
                code = _code(body) if status == HTTPStatus.NOT_FOUND else 0
                if code is not None and _UNKNOWN <= code < _UNKNOWN + 100:
                    raise UnknownSchemaError(f"the registry has no {what} ({url}{path})")
                if code is None:  # of a proxy, which says nothing of the schema: the registry may be back soon
                    failed.append(f"{url}{path} answers 404, but not as a schema registry does")
                    continue
                if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                    raise RegistryError(f"{url} does not let us in ({status}): {_said(body)}")
                if status not in _AGAIN:
                    raise RegistryError(f"{url}{path} answers {status}: {_said(body)}")
                failed.append(f"{url} answers {status}")
            if self._clock() + pause > deadline:
                raise RegistryError(f"{what} cannot be had from the registry: {'; '.join(failed)}")
            self._sleep(pause)
            pause = min(2 * pause, 2.0)

    def _exchange(self, url: str) -> tuple[int, bytes]:
        """Status and body of one request. ExchangeError; RegistryError: the file of authorities is none."""
        settings = self._settings
        headers = {"Accept": _ACCEPT, "User-Agent": "tidelog"}
        if settings.bearer_token is not None:
            headers["Authorization"] = f"Bearer {settings.bearer_token}"
        elif settings.user_info is not None:
            headers["Authorization"] = "Basic " + base64.b64encode(settings.user_info.encode()).decode()
        try:
            endpoint = Endpoint(urlsplit(url), settings.ca_file)
        except ValueError as error:
            raise RegistryError(str(error)) from None
        answer = endpoint.ask("GET", headers, timeout_s=settings.attempt_s, max_bytes=MOST_ANSWER)
        return answer.status, answer.data


def _schema_of(answer: Mapping[str, Any], schema_id: int | None, what: str) -> RegisteredSchema:
    """`schema_id`: as it was asked for, since an answer to that does not repeat it."""
    try:
        found_id = answer["id"] if schema_id is None else schema_id
        text, form = answer["schema"], answer.get("schemaType") or "AVRO"
        references = tuple(
            Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
            for one in answer.get("references") or ()
        )
        if not isinstance(text, str) or not isinstance(form, str) or type(found_id) is not int:
            raise TypeError(type(text))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise RegistryError(f"the registry's answer for {what} is no schema ({error!r})") from None
    return RegisteredSchema(found_id, form.upper(), text, references)


def _json(body: bytes, url: str) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RegistryError(f"{url} answers, but not as a schema registry does: {body[:60]!r}")
    return found


def _code(body: bytes) -> int | None:
    """The registry's own code of an error; None: what answers is none."""
    try:
        code = json.loads(body)["error_code"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return code if type(code) is int else None


def _said(body: bytes) -> str:
    """The message in an error's body, one line of it."""
    try:
        text = str(json.loads(body)["message"])
    except (ValueError, RecursionError, KeyError, TypeError):
        text = body.decode("utf-8", "replace")
    return " ".join(text.split())[:200] or "nothing more"
