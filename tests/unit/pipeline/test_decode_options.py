"""The options that make columns of values: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from tidelog.clients.schemas.decoder import Decoding, Form
from tidelog.clients.schemas.registry import RegistrySettings
from tidelog.pipeline import decode_options
from tidelog.pipeline.exceptions import OptionError
from tidelog.pipeline.options import parse_options

HERE = {"path": "/x", "subscribe": "orders"}
URL = {"schema.registry.url": "http://localhost:8081"}


def parsed(**options: str) -> Decoding | None:
    return parse_options({**HERE, **options}).decode


def test_a_schema_at_hand(tmp_path: Path) -> None:
    file = tmp_path / "orders.desc"
    file.write_bytes(b"\x0a\x00")
    assert parsed() is None
    assert parsed(decode="JSON", decodeSchema="{}") == Decoding(Form.JSON, b"{}")
    assert parsed(DECODE="avro", decodeschemafile=str(file)) == Decoding(Form.AVRO, b"\x0a\x00")
    descriptor = base64.b64encode(b"\x0a\x00").decode()
    assert parsed(decode="protobuf", decodeSchema=descriptor, decodeMessage="of.M") == Decoding(
        Form.PROTOBUF, b"\x0a\x00", "of.M"
    )


def test_a_registry() -> None:
    found = parse_options(
        {
            **HERE, "decode": "avro", "schema.registry.url": "http://one:8081/, https://two/path",
            "schema.registry.basic.auth.user.info": "etl:ge:heim", "schema.registry.ssl.ca.location": "/ca.pem",
        }
    )  # fmt: skip
    settings = RegistrySettings(("http://one:8081", "https://two/path"), "etl:ge:heim", None, "/ca.pem")
    assert found.decode == Decoding(Form.AVRO, registry=settings, subject="orders-value")
    assert "heim" not in repr(found)
    named = parse_options(
        {**URL, "path": "/x", "subscribePattern": ".*", "decode": "json", "schema.registry.subject": "s",
         "schema.registry.bearer.auth.token": "t0ken"}
    )  # fmt: skip
    assert named.decode is not None
    assert (named.decode.subject, named.decode.registry) == (
        "s",
        RegistrySettings((URL["schema.registry.url"],), None, "t0ken"),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decodeSchema": "{}"}, "decodeSchema is for decode; set that to json, avro or protobuf"),
        (URL, "schema.registry.url is for decode"),
        ({"decode": "xml"}, "decode is 'xml'; it can be json, avro, protobuf"),
        ({"decode": "avro"}, "decode needs one of decodeSchema, decodeSchemaFile and schema.registry.url, not none"),
        ({"decode": "avro", "decodeSchema": "{}", **URL}, "not decodeSchema and schema.registry.url"),
        ({"decode": "avro", "decodeSchema": "{}", "decodeMessage": "M"}, "decodeMessage is for decode=protobuf"),
        (
            {"decode": "avro", "decodeSchema": "{}", "schema.registry.subject": "s"},
            "subject is for schema.registry.url",
        ),
        ({"decode": "protobuf", "decodeSchema": "message M {}"}, "decodeSchema is no base64.*descriptor_set_out"),
        ({"decode": "avro", "decodeSchemaFile": "/nowhere/x"}, "decodeSchemaFile /nowhere/x: No such file"),
        ({"decode": "avro", "decodeSchemaFile": "/"}, "decodeSchemaFile /: Is a directory"),
        (
            {"decode": "avro", "schema.registry.url": "host:1"},
            "schema.registry.url: 'host:1' is no address of a registry",
        ),
        ({"decode": "avro", "schema.registry.url": " , "}, "schema.registry.url names no address"),
        (
            {"decode": "avro", **URL, "schema.registry.basic.auth.user.info": "x"},
            "has no colon; it takes user:password",
        ),
        ({"decode": "avro", **URL, "schema.registry.bearer.auth.token": "x\ny"}, "bearer.auth.token is no token"),
        (
            {
                "decode": "avro",
                **URL,
                "schema.registry.basic.auth.user.info": "a:b",
                "schema.registry.bearer.auth.token": "t",
            },
            "not both",
        ),
        ({"decode": "avro", **URL, "subscribe": "a,b"}, "set schema.registry.subject"),
        ({"decod": "avro"}, "did you mean decode"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parsed(**options)


def test_a_file_that_is_no_schema_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_options, "_MOST_SCHEMA", 10)
    file = tmp_path / "large"
    file.write_bytes(b"x" * 11)
    with pytest.raises(OptionError, match="has more than 10 bytes, which is no schema"):
        parsed(decode="json", decodeSchemaFile=str(file))
