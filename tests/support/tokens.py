"""Keys and tokens that tests make themselves, and a server of key sets that can be slow, wrong or silent."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

PrivateKey = Any
AUDIENCE, ISSUER = "tidelog", "https://issuer.example"


@cache
def private_key(kind: str = "RSA", which: int = 0) -> PrivateKey:
    """One of each kind and number for the whole run: RSA keys take long to make."""
    if kind == "RSA":
        return rsa.generate_private_key(65537, 2048)
    if kind == "Ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key({"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1()}[kind])


def public_jwk(key: PrivateKey, key_id: str | None = "one", **more: Any) -> dict[str, Any]:
    """The public half as RFC 7517 has it."""
    maker: Any = jwt.algorithms.RSAAlgorithm
    if isinstance(key, ec.EllipticCurvePrivateKey):
        maker = jwt.algorithms.ECAlgorithm
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        maker = jwt.algorithms.OKPAlgorithm
    entry = {**maker.to_jwk(key.public_key(), as_dict=True), "kid": key_id, **more}
    entry.pop("key_ops", None)
    return {name: value for name, value in entry.items() if value is not None}


def key_set(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"keys": entries}).encode()


def token_of(
    key: PrivateKey | None = None, algorithm: str | None = "RS256", key_id: str | None = "one", **claims: Any
) -> str:
    """A token of alice's that is good for an hour, but for what `claims` say; None takes a claim away."""
    now = int(time.time())
    whole = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 3600, **claims}
    return jwt.encode(
        {name: value for name, value in whole.items() if value is not None},
        key or private_key(),
        algorithm=algorithm,
        headers={"kid": key_id} if key_id is not None else None,
    )


class KeyServer:
    """HTTP on 127.0.0.1, for keys or tokens. `answer` is what is sent next; `requests` counts. Serves until `with` is left."""

    def __init__(self, body: bytes) -> None:
        self.requests = 0
        self.answer: Callable[[BaseHTTPRequestHandler], None] = lambda handler: self.send(handler, body)
        self.posted = b""
        self.leave = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests += 1
                try:
                    outer.answer(self)
                except OSError:
                    self.close_connection = True

            def do_POST(self) -> None:
                # Read in any case: what is left unread resets the connection, and the answer with it.
                outer.posted = self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/keys.json"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave.set()
        self._server.shutdown()
        self._server.server_close()

    def speak_tls(self, context: ssl.SSLContext) -> None:
        """Serve https from now on; `url` still says http."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def serve(self, body: bytes) -> None:
        """Answer every request with `body` from now on."""
        self.answer = lambda handler: self.send(handler, body)

    @staticmethod
    def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)
