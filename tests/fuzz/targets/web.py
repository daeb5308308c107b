"""HTTP behind its framing: who sends a request, what forms and cookies hold, and how a page shows bytes that are anything."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fuzz.target import target
from support.guesses import guesses, run_at_once
from tidelog.broker.http.authentication import HttpGate, TokenFile
from tidelog.broker.http.console import record_text
from tidelog.broker.http.console.page_request import COOKIE, MAX_FIELDS, PageError, read_form, read_request
from tidelog.broker.http.console.pages.records import moment_ms
from tidelog.broker.http.user import USER, HttpUser, Role
from tidelog.broker.http.users import HttpUsers, NotLetInError
from tidelog.broker.security.credentials import new_credential
from tidelog.config.broker_config import BrokerConfig

TOKEN = "0123456789abcdef-of-prometheus"
CREDENTIAL = new_credential("SCRAM-SHA-256", "pencil", b"salt of sixteen.")
CONFIG = BrokerConfig(
    http_authentication=("basic", "bearer"), http_users_admin=("User:alice",), http_users_read=("bob", "prometheus")
)
DIRECTORY = tempfile.TemporaryDirectory(prefix="fuzz-web-")
TOKENS = Path(DIRECTORY.name) / "tokens"
TOKENS.write_text(f"prometheus sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
#: Names of a WSGI environment, in the order of an input's lines.
NAMES = (
    "REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "HTTP_AUTHORIZATION", "HTTP_COOKIE", "CONTENT_TYPE", "CONTENT_LENGTH",
    "HTTP_HOST", "HTTP_ORIGIN", "HTTP_SEC_FETCH_SITE", "HTTP_FORWARDED",
)  # fmt: skip


def users() -> HttpUsers:
    """Those of one daemon, with no failures behind them; alice's password is `pencil`, and nobody waits."""
    known: Any = SimpleNamespace(
        of=lambda name: {"SCRAM-SHA-256": CREDENTIAL} if name == "alice" else {}, rounds={"SCRAM-SHA-256": 4096}
    )
    return HttpUsers(
        CONFIG,
        lambda: known,
        guesses(),
        run_at_once,
        tokens=TokenFile(str(TOKENS)),
        now_s=lambda: 0.0,
    )


USERS = users()


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


def environment(data: bytes) -> dict[str, Any]:
    """Lines for the names, then a NUL and the body. WSGI's texts are Latin-1."""
    head, _, body = data.partition(b"\0")
    lines = head.decode("latin-1").split("\n")
    given: dict[str, Any] = dict(zip(NAMES, lines, strict=False))
    return {
        **{name: text for name, text in given.items() if text},
        "wsgi.input": io.BytesIO(body),
        "REMOTE_ADDR": "::1",
    }


def lines(*texts: str, body: bytes = b"") -> bytes:
    return "\n".join(texts).encode("latin-1") + b"\0" + body


def requests() -> Iterator[bytes]:
    form = "application/x-www-form-urlencoded"
    yield lines("GET", "/topics/t", "sort=x&sort=y&=&a", basic("alice:pencil"), f"a=b; {COOKIE}=token")
    yield lines("GET", "/sign-out", "user=alice&user=bob", basic("alice:pencil"))
    yield lines("POST", "/clean/t", "", f"Bearer {TOKEN}", "", form, "7", "localhost:1", body=b"a=b&c=%")
    yield lines("POST", "/topics/t", "", basic("bob:x"), "", form, "9" * 5000, body=b"a=b")
    yield lines("POST", "/", "", basic("alice:pencil"), "", f"{form}; charset=x", "\u00b2", body=b"a=b")
    yield lines("GET", "/metrics", "", "basic =")
    yield lines("HEAD", "/health/live")
    yield lines("GET", "/\u00ff\u00c3", "", basic("nobody:\u20ac"))


@target(NotLetInError, PageError, seeds=requests, max_input=8192)
def signed_in_requests(data: bytes) -> None:
    """Nobody gets by who brings neither the password nor the token; then what a page reads of a request."""
    environ = environment(data)
    HttpGate(CONFIG, USERS).admit(environ)
    who = environ.get(USER)
    if who is not None:
        scheme, _, rest = environ["HTTP_AUTHORIZATION"].partition(" ")
        if scheme.lower() == "bearer":
            assert (who, rest.strip(" \t")) == (HttpUser("prometheus", Role.READ), TOKEN)
        else:
            assert who == HttpUser("alice", Role.ADMIN)
            assert base64.b64decode(rest.strip(" \t"), validate=True) == b"alice:pencil"
    environ["wsgi.input"].seek(0)
    page = read_request(environ)
    if page.method == "POST":
        page = replace(page, form=read_form(environ))
    assert len(page.query) <= MAX_FIELDS
    assert len(page.form) <= MAX_FIELDS
    assert page.user == who


def shown_bytes() -> Iterator[bytes]:
    yield b'{"a": [1, {}, [ ], "\\"{"], "a": 1e400}'
    yield "Grüße\n\u202e\u0007".encode()
    yield b"\xff\x00\xfe"
    yield b"[" * 400
    yield b'["' + b"\\" * 300


@target(seeds=shown_bytes)
def shown_records(data: bytes) -> None:
    """What the console shows of a key or a value: JSON by lines is the same JSON, and nothing longer than it says."""
    assert len(record_text.brief(data).text) <= 200 * 10
    assert record_text.whole(data).text or not data
    text = record_text.as_text(data)
    if text is not None:
        assert text.encode() == data
        lines = record_text.json_lines(text)
        assert lines is None or json.dumps(json.loads(lines)) == json.dumps(json.loads(text))
    if data:
        assert record_text.hex_dump(data)


def moments() -> Iterator[bytes]:
    yield from (b"2026-11-21T08:30:00", b"1763713800000", b"0001-01-01T00:00:00+23:59", b"9" * 30, b"2026-W47-6")


@target(PageError, seeds=moments, max_input=200)
def moments_of_forms(data: bytes) -> None:
    assert -(2**63) <= moment_ms(data.decode("utf-8", "replace")) < 2**63
