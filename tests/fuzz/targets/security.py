"""What those say who are not known yet, and what is written about users in settings: SASL, JAAS, mapping rules."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
from collections.abc import Awaitable, Iterator
from types import SimpleNamespace
from typing import Any

from fuzz.target import target
from support.topic_world import InlineExecutor
from tidelog.broker.security.credentials import Credential, new_credential, parse_credential
from tidelog.broker.security.principal import name_of, parse_rules, subject_of
from tidelog.broker.security.sasl.disguise import Disguise
from tidelog.broker.security.sasl.login_attempts import PasswordChecks
from tidelog.broker.security.sasl.mechanism import Refusal, Step
from tidelog.broker.security.sasl.plain import PlainExchange
from tidelog.broker.security.sasl.scram import ScramExchange
from tidelog.protocol import jaas

MECHANISM, SALT, NONCE = "SCRAM-SHA-256", b"salt of sixteen.", "server"
PASSWORD = "pencil"
CREDENTIAL = new_credential(MECHANISM, PASSWORD, SALT)
USERS: Any = SimpleNamespace(of=lambda name: {MECHANISM: CREDENTIAL} if name == "user" else {})
FIRST, FINAL = "n,,n=user,r=client", "c=biws,r=clientserver"


def proof() -> str:
    """What a client with the right password sends last (RFC 5802, section 3)."""
    salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), SALT, CREDENTIAL.iterations)
    key = hmac.digest(salted, b"Client Key", "sha256")
    first = f"n=user,r=client,r=clientserver,s={base64.b64encode(SALT).decode()},i={CREDENTIAL.iterations}"
    signature = hmac.digest(hashlib.sha256(key).digest(), f"{first},{FINAL}".encode(), "sha256")
    return base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()


RIGHT = proof()


def scram_messages() -> Iterator[bytes]:
    yield f"{FIRST}\0{FINAL},p={RIGHT}".encode()
    yield f"y,a=user,n=user,r=client,x=1\0{FINAL},p={RIGHT}".encode()
    yield b"n,,n=us=2Cer=3D,r=client,tokenauth=true\0"
    yield b"p=tls-unique,,n=user,r=client\0"


@target(Refusal, seeds=scram_messages, large=256 << 10)
def scram(data: bytes) -> None:
    """Both messages of the client's, NUL between them. Nobody is let in who does not bring the proof."""
    first, _, final = data.partition(b"\0")
    exchange = ScramExchange(MECHANISM, USERS, Disguise(b"secret"), lambda: NONCE)
    step = exchange.step(first)
    assert step.user is None
    assert step.reply.startswith(b"r=")
    step = exchange.step(final)
    assert step.user == "user"
    assert RIGHT.rstrip("=")[:-1] in final.decode(), "let in without the proof"


def plain_messages() -> Iterator[bytes]:
    yield b"\0listed\0secret"
    yield b"user\0user\0pencil"
    yield b"\0nobody\0"


@target(Refusal, seeds=plain_messages, max_input=300, large=256 << 10)
def plain(data: bytes) -> None:
    """One message; who is let in has said the password of who they say they are."""

    async def run() -> Step:
        nobody: Any = SimpleNamespace(of=lambda name: {}, rounds={})
        exchange = PlainExchange({"listed": "secret"}, nobody, PasswordChecks(InlineExecutor()))
        answer: Any = exchange.step(data)
        return await answer if isinstance(answer, Awaitable) else answer

    step = asyncio.run(run())
    assert step.user == "listed"
    assert data in (b"\0listed\0secret", b"listed\0listed\0secret")


def jaas_entries() -> Iterator[bytes]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    yield f'{module} required user_alice="secret" user_bob=\'o;"t\\\\her\' x=1;'.encode()
    yield f"  {module}\n REQUIRED user_a=b ;".encode()
    yield f'{module} required user_x="never ended;'.encode()


@target(ValueError, seeds=jaas_entries, large=256 << 10)
def jaas_line(data: bytes) -> None:
    """`sasl.jaas.config`; a refusal does not repeat what may be a password."""
    text = data.decode("utf-8", "replace")
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        try:
            users = jaas.users_of(text, mechanism)
        except ValueError as error:
            if mechanism == "PLAIN":
                assert "secret" not in str(error) or "secret" in text.split()[0]
                raise
        else:
            assert all(isinstance(user, str) and isinstance(password, str) for user, password in users.items())


def stored_credentials() -> Iterator[bytes]:
    yield CREDENTIAL.text().encode()
    yield b"salt=,stored_key=,server_key=,iterations=4096"


@target(ValueError, seeds=stored_credentials)
def stored_credential(data: bytes) -> None:
    found = parse_credential(data.decode("utf-8", "replace"))
    assert isinstance(found, Credential)
    assert parse_credential(found.text()) == found


def mapping_rules() -> Iterator[bytes]:
    yield b"RULE:^CN=([a-z]+).*$/$1/L,RULE:.*O=(.*)$/x$1y$9/U,DEFAULT\0alice"
    yield b"RULE:^(.*?)\\/(.*)$/$2\\/$1/\0a/b"
    yield b"DEFAULT\0"


@target(ValueError, seeds=mapping_rules, max_input=400, extra=32 << 20)
def principal_mapping(data: bytes) -> None:
    """`ssl.principal.mapping.rules`, and a certificate's subject through them."""
    rules, _, name = data.decode("utf-8", "replace").partition("\0")
    subject = subject_of({"subject": ((("countryName", "DE"),), (("commonName", name), ("emailAddress", name)))})
    assert re.search(r",C=DE$", subject)
    mapped = name_of(subject, parse_rules(rules))
    assert mapped is None or len(mapped) <= (len(rules) + 1) * (len(subject) + 1)
