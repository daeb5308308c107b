"""The edge of a broker that asks: SASL before requests, access rules behind them, users of HTTP, AUTHENTICATE before message
sets. Who has not the password sees nothing, and alice, who has it, nothing of the topic that is not hers.
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuzz.target import target
from fuzz.targets.edge import FuzzedBroker, frames_of, is_modest, kafka_requests
from fuzz.targets.records import RECORDS
from fuzz.targets.tokens import CLAIMS, HEADER, SET, signed
from fuzz.targets.tokens import messages as token_messages
from fuzz.targets.web import basic
from support.inside import in_loop, services_of
from tidelog.broker.security.acl.model import Acl, AclOperation, PatternType, Permission, ResourceType
from tidelog.broker.security.credentials import new_credential
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.headers import RequestHeader, request_header_bytes
from tidelog.protocol.message_set import wire as message_set
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tidelog.protocol.schema import encode
from tidelog.testing import Broker

#: In the name and in the records of a topic that no rule lets anybody see.
HIDDEN = b"hidden"
_SIZE = struct.Struct(">H")
_FRAME = struct.Struct(">i")
DIRECTORY = tempfile.TemporaryDirectory(prefix="fuzz-guarded-")
KEYS = Path(DIRECTORY.name) / "keys.json"
KEYS.write_bytes(SET)


class GuardedBroker(FuzzedBroker):
    def prepare(self, broker: Broker) -> None:
        broker.create_topic("hidden-orders")
        services: Any = services_of(broker)

        async def append() -> None:
            await services.users.get().change(
                "alice", {"SCRAM-SHA-256": new_credential("SCRAM-SHA-256", "pencil", b"salt" * 4)}
            )
            rule = Acl(
                ResourceType.TOPIC, "t", PatternType.LITERAL, "User:alice", "*", AclOperation.ALL, Permission.ALLOW
            )
            await services.authorizer.create([rule])

        in_loop(broker, append)


def guarded_broker() -> GuardedBroker:
    return GuardedBroker(
        listeners="SASL_PLAINTEXT://127.0.0.1:0",
        sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=KEYS.as_uri(),
        sasl_oauthbearer_expected_audience="tidelog",
        sasl_oauthbearer_expected_issuer="https://issuer.example",
        message_set_authentication="plain",
        http_authentication="basic,oauthbearer",
        http_users_admin="ops",
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ops",
        connection_failed_authentication_delay_ms="0",
    )


GUARDED = guarded_broker()


def frame(key: ApiKey, version: int, body: Any) -> bytes:
    data = request_header_bytes(RequestHeader(key, version, 7, "fuzz")) + encode(body, version)
    return _SIZE.pack(len(data)) + data


def handshakes() -> Iterator[bytes]:
    def said(mechanism: str, *messages: bytes) -> bytes:
        first = frame(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=mechanism))
        return first + b"".join(
            frame(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=one)) for one in messages
        )

    signed_in = said("PLAIN", b"\0alice\0pencil")
    yield signed_in
    yield said("PLAIN", b"\0alice\0wrong")
    yield said("SCRAM-SHA-256", b"n,,n=alice,r=client", b"c=biws,r=client,p=AAAA")
    yield said("GSSAPI", b"")
    yield from (said("OAUTHBEARER", one, b"\1") for one in token_messages() if len(one) < 1500)
    yield frame(ApiKey.SASL_HANDSHAKE, 0, SaslHandshakeRequest(mechanism="PLAIN")) + _SIZE.pack(13) + b"\0alice\0pencil"
    yield frame(ApiKey.API_VERSIONS, 3, ApiVersionsRequest()) + signed_in
    for index, data in enumerate(kafka_requests()):
        yield (signed_in if index % 3 else b"") + data


@target(seeds=handshakes, max_input=8192, extra=64 << 20, growth=4000)
def sasl_listener(data: bytes) -> None:
    """Requests behind each other, before, within and behind SASL."""
    frames = [one for one in frames_of(data) if is_modest(one)]
    address = GUARDED.broker.bootstrap_servers
    answer = GUARDED.send(address, b"".join(_FRAME.pack(len(one)) + one for one in frames))
    assert HIDDEN not in answer or HIDDEN in data, "what is not alice's is shown"
    GUARDED.settle()


def set_streams() -> Iterator[bytes]:
    from tidelog.protocol.records.builder import build_batch

    signed_in = message_set.authenticate_request("alice", "pencil")
    yield signed_in + message_set.fetch_request("t", 0, 0, 1000)
    yield message_set.authenticate_request("alice", "x")
    yield message_set.fetch_request("t", 0, 0, 1000)
    yield signed_in + signed_in + message_set.produce_request("t", 0, bytes(build_batch(RECORDS)))


@target(seeds=set_streams, extra=64 << 20, growth=4000)
def message_set_gate(data: bytes) -> None:
    """Bytes to the message-set listener that asks for AUTHENTICATE first."""
    broker = GUARDED.broker
    answer = GUARDED.send(next(one for one in broker.addresses if one.startswith("tcp:")).removeprefix("tcp://"), data)
    assert HIDDEN not in answer or HIDDEN in data
    GUARDED.settle()


def http_streams() -> Iterator[bytes]:
    host = b"Host: localhost\r\n"
    # Who is known by a token and has no role, and who has it no more.
    tokens = [signed(HEADER, json.dumps({**CLAIMS, **changed}).encode()) for changed in ({}, {"exp": 1})]
    for who in (basic("alice:pencil"), basic("ops:x"), *(f"Bearer {one}" for one in ("x", *tokens)), "Basic", ""):
        head = host + (b"Authorization: " + who.encode() + b"\r\n" if who else b"")
        yield b"GET /topics HTTP/1.1\r\n" + head + b"\r\n"
        yield b"POST /clean/t HTTP/1.1\r\n" + head + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{}"
    yield b"GET /health/live HTTP/1.1\r\n" + host + b"\r\n"


@target(seeds=http_streams, max_input=8192, extra=64 << 20, growth=4000)
def http_gate(data: bytes) -> None:
    """HTTP of a daemon that asks: nobody here has a password that lets in."""
    answer = GUARDED.send(GUARDED.broker.http_url.removeprefix("http://"), data)
    assert HIDDEN not in answer or HIDDEN in data
    assert not answer.startswith((b"HTTP/1.0 500", b"HTTP/1.1 500")), answer[:200]
    GUARDED.settle()
