"""Options of the source that make columns of values.

decode                                       json | avro | protobuf: adds the columns `record` and `recordError`
decodeSchema, decodeSchemaFile               JSON Schema, Avro's JSON, or a FileDescriptorSet (as an option: in base64)
decodeMessage                                of Protobuf: the message type; default: the first of the schema
schema.registry.url                          instead of a schema: a registry's addresses, comma-separated
schema.registry.subject                      default: the topic's name with -value behind it
schema.registry.basic.auth.user.info         user:password
schema.registry.bearer.auth.token
schema.registry.ssl.ca.location              PEM, at the same path on driver and executors
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence

from ..clients.schemas.decoder import Decoding, Form
from ..clients.schemas.exceptions import SchemaError
from ..clients.schemas.registry import RegistrySettings, checked_url
from .exceptions import OptionError

_REGISTRY = (
    "schema.registry.url", "schema.registry.subject", "schema.registry.basic.auth.user.info",
    "schema.registry.bearer.auth.token", "schema.registry.ssl.ca.location",
)  # fmt: skip
DECODE_NAMES = ("decode", "decodeSchema", "decodeSchemaFile", "decodeMessage", *_REGISTRY)
#: The columns that it adds.
RECORD, RECORD_ERROR = "record", "recordError"
#: Bytes of a schema's file.
_MOST_SCHEMA = 16 << 20
_SUBJECT = "schema.registry.subject"


def parse_decoding(found: Mapping[str, str], topics: Sequence[str]) -> Decoding | None:
    """None: nothing is to be decoded. `topics`: those of `subscribe`. OptionError."""
    if "decode" not in found:
        needless = next((name for name in DECODE_NAMES if name in found), None)
        if needless is not None:
            raise OptionError(f"{needless} is for decode; set that to json, avro or protobuf")
        return None
    forms = {form.value: form for form in Form}
    form = forms.get(found["decode"].lower())
    if form is None:
        raise OptionError(f"decode is {found['decode']!r}; it can be {', '.join(forms)}")
    ways = [name for name in ("decodeSchema", "decodeSchemaFile", "schema.registry.url") if name in found]
    if len(ways) != 1:
        raise OptionError(
            "decode needs one of decodeSchema, decodeSchemaFile and schema.registry.url, not "
            f"{' and '.join(ways) or 'none'}"
        )
    message = found.get("decodeMessage")
    if message is not None and form is not Form.PROTOBUF:
        raise OptionError(f"decodeMessage is for decode=protobuf, and decode is {form.value}")
    if ways[0] == "schema.registry.url":
        return Decoding(form, None, message, _registry(found), _subject(found, topics))
    needless = next((name for name in _REGISTRY if name in found), None)
    if needless is not None:
        raise OptionError(f"{needless} is for schema.registry.url, and {ways[0]} is set")
    return Decoding(form, _schema(found, form), message)


def _registry(found: Mapping[str, str]) -> RegistrySettings:
    try:
        urls = tuple(checked_url(part.strip()) for part in found["schema.registry.url"].split(",") if part.strip())
    except SchemaError as error:
        raise OptionError(f"schema.registry.url: {error}") from None
    if not urls:
        raise OptionError("schema.registry.url names no address")
    user, token = found.get("schema.registry.basic.auth.user.info"), found.get("schema.registry.bearer.auth.token")
    if user is not None and token is not None:
        raise OptionError("set schema.registry.basic.auth.user.info or schema.registry.bearer.auth.token, not both")
    if user is not None and ":" not in user:
        raise OptionError("schema.registry.basic.auth.user.info has no colon; it takes user:password")
    if token is not None and not (token.isascii() and token.isprintable() and token):
        raise OptionError("schema.registry.bearer.auth.token is no token: it has other characters than tokens have")
    return RegistrySettings(urls, user, token, found.get("schema.registry.ssl.ca.location"))


def _subject(found: Mapping[str, str], topics: Sequence[str]) -> str:
    if _SUBJECT in found:
        return found[_SUBJECT]
    if len(topics) != 1:
        raise OptionError(f"set {_SUBJECT}: without it the subject is that of the one topic in subscribe")
    return f"{topics[0]}-value"


def _schema(found: Mapping[str, str], form: Form) -> bytes:
    path = found.get("decodeSchemaFile")
    if path is not None:
        try:
            with open(path, "rb") as file:
                content = file.read(_MOST_SCHEMA + 1)
        except OSError as error:
            raise OptionError(f"decodeSchemaFile {path}: {error.strerror or error}") from None
        if len(content) > _MOST_SCHEMA:
            raise OptionError(f"decodeSchemaFile {path} has more than {_MOST_SCHEMA} bytes, which is no schema")
        return content
    text = found["decodeSchema"]
    if form is not Form.PROTOBUF:
        return text.encode()
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise OptionError(
            "decodeSchema is no base64; of Protobuf it takes what `protoc --include_imports --descriptor_set_out` writes, in "
            "base64, or use decodeSchemaFile"
        ) from None
