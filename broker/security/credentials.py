"""SCRAM credentials: what is stored instead of a password (RFC 5802, section 3), by user.

Neither password nor salted password is kept: with what is stored one can check a client, and not pose as one.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..metadata.store import SCRAM

if TYPE_CHECKING:
    from ..metadata.store import MetadataStore

log = logging.getLogger(__name__)

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Hash function of each mechanism."""
NUMBERS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Numbers of the mechanisms in the protocol (KIP-554)."""
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
"""Kafka's limits: with fewer iterations a password is guessed too fast, with more a login is a load."""
SALT_BYTES = 16
_NO_SALT = b"-" * SALT_BYTES
KAFKAS = -1
"""Stands for a salt's size: a salt of Kafka's admin clients, a number below 2^130 in base 36."""
_KAFKAS_SALT = re.compile(rb"[0-9a-z]{20,26}")
MOST_SHAPES = 32
"""Number of shapes of credentials, the commonest ones, that are shown for unknown users."""


class Credential(NamedTuple):
    """Stored credential of one user and mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def text(self) -> str:
        """The credential as stored; `parse_credential` reads it."""
        parts = (("salt", self.salt), ("stored_key", self.stored_key), ("server_key", self.server_key))
        return ",".join(f"{name}={base64.b64encode(value).decode()}" for name, value in parts) + (
            f",iterations={self.iterations}"
        )


class Shape(NamedTuple):
    """The part of a credential that a client without the password sees, except the salt itself. `salt_bytes`: a size,
    or `KAFKAS`.
    """

    iterations: int = MIN_ITERATIONS
    salt_bytes: int = SALT_BYTES


def shape_of(credential: Credential) -> Shape:
    """The shape of a credential."""
    is_kafkas = _KAFKAS_SALT.fullmatch(credential.salt) is not None
    return Shape(credential.iterations, KAFKAS if is_kafkas else len(credential.salt))


def parse_credential(text: str) -> Credential:
    """Parse `Credential.text`. ValueError for anything else."""
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        salt, stored_key, server_key = (
            base64.b64decode(parts[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
        return Credential(salt, stored_key, server_key, int(parts["iterations"]))
    except (KeyError, ValueError):
        raise ValueError("not a stored SCRAM credential") from None


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Hi() of RFC 5802: a few milliseconds of work, without the GIL."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """The credential for a salted password."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    return Credential(
        salt, hashlib.new(name, client_key).digest(), hmac.digest(salted, b"Server Key", name), iterations
    )


def new_credential(mechanism: str, password: str, salt: bytes, iterations: int = MIN_ITERATIONS) -> Credential:
    """The credential for a password. Takes as long as `salted_password`."""
    return credential_of(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


def is_password(credential: Credential, mechanism: str, password: str) -> bool:
    """True if the credential was made from this password. Takes as long as `salted_password`."""
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    key = credential_of(mechanism, salted, credential.salt, credential.iterations).stored_key
    return hmac.compare_digest(key, credential.stored_key)


def check_password(credentials: Mapping[str, Credential], password: str, rounds: Mapping[str, int]) -> bool:
    """True if a user with these credentials, of which the first is checked, has that password. Unknown users take as
    long as known ones. Pool thread.

    `rounds`: mechanism → the most that any user's takes (`Users.rounds`). A look-up costs the same calls and rounds for known and
    unknown users: two derivations, whose rounds are that many and one together.
    """
    own = min(credentials, default="")
    is_right = False
    for mechanism in sorted({*rounds, own} - {""}):
        credential = credentials[mechanism] if mechanism == own else Credential(_NO_SALT, b"", b"", rounds[mechanism])
        is_own = is_password(credential, mechanism, password)
        is_right = is_right or is_own
        rest = max(rounds.get(mechanism, 0) - credential.iterations, 0) + 1
        salted_password(mechanism, password, _NO_SALT, rest)
    return is_right


class Users:
    """All users with SCRAM credentials. Loop thread; reads are from memory, and allowed from pool threads too.

    Attributes:
        rounds: mechanism → the most iterations that a password of PLAIN or HTTP may have to be checked with.
    """

    def __init__(self, stored: Mapping[str, Mapping[str, str]], store: MetadataStore) -> None:
        """`stored`: user → mechanism → text, as in `metadata.db`. Unreadable ones are left out and logged."""
        self._store = store
        self._alone = asyncio.Lock()
        self._users: dict[str, dict[str, Credential]] = {}
        for name, texts in stored.items():
            for mechanism, text in texts.items():
                try:
                    self._users.setdefault(name, {})[mechanism] = parse_credential(text)
                except ValueError:
                    log.error("the %s credential of user %r is damaged and left out: set it again", mechanism, name)
        self._shapes: dict[str, Counter[Shape]] = {mechanism: Counter() for mechanism in HASHES}
        self._commonest: dict[str, list[tuple[Shape, int]]] = {}
        # (mechanism, iterations) that a password is checked with → users.
        self._checked: Counter[tuple[str, int]] = Counter()
        self.rounds: Mapping[str, int] = {}
        for credentials in self._users.values():
            self._count(credentials, 1)
        self._counted()

    def shapes(self, mechanism: str) -> list[tuple[Shape, int]]:
        """The commonest shapes of the mechanism's credentials, with the number of users of each."""
        found = self._commonest.get(mechanism)
        if found is None:
            found = self._commonest[mechanism] = self._shapes[mechanism].most_common(MOST_SHAPES)
        return found

    def names(self) -> list[str]:
        """Names of the users with a credential of any mechanism, sorted."""
        return sorted(self._users)

    def of(self, name: str) -> Mapping[str, Credential]:
        """Mechanism → credential of one user; empty if it has none."""
        return self._users.get(name, {})

    async def change(self, name: str, changes: Mapping[str, Credential | None]) -> None:
        """Set (or with None delete) credentials of a user, atomically. Raises `KafkaStorageError`; then nothing
        changed.
        """
        async with self._alone:
            after = {**self._users.get(name, {})}
            for mechanism, credential in changes.items():
                if credential is None:
                    after.pop(mechanism, None)
                else:
                    after[mechanism] = credential
            await self._store.set_resource(
                SCRAM, name, {mechanism: credential.text() for mechanism, credential in after.items()}
            )
            before = self._users.get(name, {})
            if after:
                self._users[name] = after  # in one step: another thread may be checking a password
            else:
                self._users.pop(name, None)
            self._count(before, -1)
            self._count(after, 1)
            self._counted()
            log.info("SCRAM credentials of user %r were changed: %s", name, ", ".join(sorted(changes)))

    def _count(self, credentials: Mapping[str, Credential], users: int) -> None:
        """Add (1) or remove (-1) a user with these credentials from the counts."""
        for mechanism, credential in credentials.items():
            if mechanism in self._shapes:
                self._shapes[mechanism][shape_of(credential)] += users
        if credentials:
            checked = min(credentials)
            self._checked[checked, credentials[checked].iterations] += users

    def _counted(self) -> None:
        self._commonest.clear()
        for mechanism in self._shapes:
            self._shapes[mechanism] = +self._shapes[mechanism]  # without those that nobody has any more
        self._checked = +self._checked
        rounds: dict[str, int] = {}
        for mechanism, iterations in self._checked or (("SCRAM-SHA-256", MIN_ITERATIONS),):
            rounds[mechanism] = max(rounds.get(mechanism, 0), iterations)
        self.rounds = rounds
