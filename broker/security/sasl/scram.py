"""SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677), server side. No channel binding, as in Kafka.

Unknown users get a salt like any other (`disguise.py`) and fails with the proof: nothing tells a client which users there are.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..credentials import HASHES, Credential
from .mechanism import WRONG, Refusal, Step

if TYPE_CHECKING:
    from ..credentials import Users
    from .disguise import Disguise

MAX_MESSAGE_BYTES = 16_384
"""Longest message that is parsed: names and nonces have some tens of bytes. The half megabyte that a client may send before
authentication would take the loop 45 ms.
"""
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_CLIENT_FIRST = re.compile(
    r"(?P<gs2>(?P<binding>n|y|p=[A-Za-z0-9.-]+),(?:a=(?P<authzid>[^,]+))?,)"
    rf"(?P<bare>(?P<mext>m=[^,]*,)?n=(?P<name>[^,]+),r=(?P<nonce>{_NONCE})(?P<ext>,.*)?)"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<bare>c=(?P<binding>[A-Za-z0-9/+=]+),r=(?P<nonce>{_NONCE})(?:,[^p][^,]*)*),p=(?P<proof>[A-Za-z0-9/+=]+)"
)


class ScramExchange:
    """The client's two messages: its name, and its proof. Loop thread."""

    __slots__ = (
        "_claims", "_client_nonce", "_credential", "_disguise",
        "_first", "_gs2", "_hash", "_known", "_mechanism", "_name", "_new_nonce", "_nonce", "_users",
    )  # fmt: skip

    def __init__(
        self,
        mechanism: str,
        users: Users,
        disguise: Disguise,
        nonce: Callable[[], str],
        claims: Callable[[str], None] = lambda name: None,
    ) -> None:
        """`nonce` gives the server's part of the nonce: printable, without commas, never the same. `claims` is told the name
        before it is looked for and before the proof is looked at, and raises if the client has failed too often
        (`login_attempts.py`)."""
        self._claims = claims
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._users = users
        self._new_nonce = nonce
        self._first = ""
        self._client_nonce = self._nonce = ""
        self._gs2 = b""
        self._name = ""
        self._known = False
        self._disguise = disguise
        self._credential = Credential(b"", b"", b"", 0)

    def step(self, message: bytes) -> Step:
        if len(message) > MAX_MESSAGE_BYTES:
            raise Refusal(f"a SCRAM message of {len(message)} bytes; at most {MAX_MESSAGE_BYTES} are read")
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise Refusal("a SCRAM message that is not UTF-8") from None
        return self._begin(text) if not self._nonce else self._end(text)

    def _begin(self, text: str) -> Step:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None or match["mext"]:
            raise Refusal("that is not SCRAM's first message")
        if match["binding"].startswith("p="):
            raise Refusal("channel binding is not offered")
        if "tokenauth=true" in (match["ext"] or ""):
            raise Refusal("delegation tokens are not offered")
        self._name = _unescaped(match["name"])
        if match["authzid"] and _unescaped(match["authzid"]) != self._name:
            raise Refusal("a client can act only as the user that it authenticates as")
        self._claims(self._name)
        nobodys = self._disguise.credential(self._mechanism, self._name)  # for users too: it takes its time
        credential = self._users.of(self._name).get(self._mechanism)
        self._known = credential is not None
        self._credential = credential = credential or nobodys
        self._gs2 = match["gs2"].encode()
        self._client_nonce = match["nonce"]
        self._nonce = self._client_nonce + self._new_nonce()
        salt_text = base64.b64encode(credential.salt).decode()
        reply = f"r={self._nonce},s={salt_text},i={credential.iterations}"
        self._first = f"{match['bare']},{reply}"
        return Step(reply.encode())

    def _end(self, text: str) -> Step:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise Refusal("that is not SCRAM's last message")
        try:
            binding, proof = (base64.b64decode(match[name], validate=True) for name in ("binding", "proof"))
        except binascii.Error:
            raise Refusal("that is not SCRAM's last message") from None
        # librdkafka before 2.6.1 puts its own part before the whole once more (its pull request 4895); Kafka 3.8 and 3.9 let
        # that pass. The server's part, which is new each time, is there and under the proof in both.
        if binding != self._gs2 or match["nonce"] not in (self._nonce, self._client_nonce + self._nonce):
            raise Refusal("the last message does not belong to the first")
        self._claims(self._name)
        said = f"{self._first},{match['bare']}".encode()
        signature = hmac.digest(self._credential.stored_key, said, self._hash)
        if len(proof) != len(signature):
            raise Refusal(WRONG)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._hash, client_key).digest()
        is_right = hmac.compare_digest(stored_key, self._credential.stored_key)
        if not is_right or not self._known:
            raise Refusal(WRONG)
        answer = hmac.digest(self._credential.server_key, said, self._hash)
        return Step(b"v=" + base64.b64encode(answer), self._name)


def _unescaped(name: str) -> str:
    if re.search("=(?!2C|3D)", name):
        raise Refusal("a user's name with '=' that is not =2C or =3D")
    return name.replace("=2C", ",").replace("=3D", "=")
