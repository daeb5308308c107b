"""SCRAM against RFC 7677's example and against a client written from RFC 5802 alone."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tidelog.broker.security.credentials import Credential, new_credential
from tidelog.broker.security.sasl.disguise import Disguise
from tidelog.broker.security.sasl.mechanism import Refusal
from tidelog.broker.security.sasl.scram import ScramExchange

MECHANISMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class Users:
    def __init__(self, **credentials: Credential) -> None:
        self._credentials = credentials

    def of(self, name: str) -> dict[str, Credential]:
        credential = self._credentials.get(name)
        if credential is None:
            return {}
        return {"SCRAM-SHA-256" if len(credential.stored_key) == 32 else "SCRAM-SHA-512": credential}


def exchange(users: Users, mechanism: str = "SCRAM-SHA-256", nonce: str = "server-part") -> ScramExchange:
    return ScramExchange(mechanism, users, Disguise(b"secret of the process"), lambda: nonce)  # type: ignore[arg-type]


def proof_of(mechanism: str, password: str, first_bare: str, reply: str, final_bare: str) -> tuple[bytes, bytes]:
    """The client's proof and the signature that it expects of the server (RFC 5802, section 3)."""
    name = MECHANISMS[mechanism]
    fields = dict(part.split("=", 1) for part in reply.split(","))
    salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.new(salted, b"Client Key", name).digest()
    said = f"{first_bare},{reply},{final_bare}".encode()
    signature = hmac.new(hashlib.new(name, client_key).digest(), said, name).digest()
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return proof, hmac.new(hmac.new(salted, b"Server Key", name).digest(), said, name).digest()


def log_in(server: ScramExchange, mechanism: str, user: str, password: str) -> str | None:
    """Runs a whole exchange; checks the server's signature; the user that the server let in."""
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r=client-part"
    reply = server.step(f"n,,{first}".encode()).reply.decode()
    nonce = reply.split(",")[0]
    final = f"c=biws,{nonce}"
    proof, expected = proof_of(mechanism, password, first, reply, final)
    step = server.step(f"{final},p={base64.b64encode(proof).decode()}".encode())
    assert base64.b64decode(step.reply.removeprefix(b"v=")) == expected
    return step.user


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users = Users(user=new_credential("SCRAM-SHA-256", "pencil", salt, 4096))
    server = exchange(users, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = server.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first.reply == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert first.user is None
    last = server.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last.reply == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert last.user == "user"


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


@settings(max_examples=20)  # each costs some milliseconds, which is what salting is for
@given(
    name=NAMES, password=NAMES, wrong=NAMES, mechanism=st.sampled_from(sorted(MECHANISMS)), salt=st.binary(min_size=1)
)
def test_the_right_password_is_let_in_and_no_other(
    name: str, password: str, wrong: str, mechanism: str, salt: bytes
) -> None:
    users = Users(**{name: new_credential(mechanism, password, salt, 4096)})
    assert log_in(exchange(users, mechanism), mechanism, name, password) == name
    if wrong != password:
        with pytest.raises(Refusal, match="the user or the password is wrong"):
            log_in(exchange(users, mechanism), mechanism, name, wrong)


def test_nothing_tells_who_is_unknown() -> None:
    users = Users(alice=new_credential("SCRAM-SHA-256", "p", b"s" * 16, 4096))
    first = [exchange(users).step(b"n,,n=mallory,r=c").reply for _ in range(2)]
    assert first[0] == first[1], "a salt that changes would tell"
    known = exchange(users).step(b"n,,n=alice,r=c").reply
    assert [len(first[0]), first[0][-7:]] == [len(known), known[-7:]]
    with pytest.raises(Refusal) as unknown:
        log_in(exchange(users), "SCRAM-SHA-256", "mallory", "p")
    with pytest.raises(Refusal) as wrong:
        log_in(exchange(users), "SCRAM-SHA-256", "alice", "q")
    assert str(unknown.value) == str(wrong.value)


def test_the_key_of_nobody_opens_nothing() -> None:
    """For a user who is unknown the stored key is of zeros: a proof made for it must not pass."""
    server = exchange(Users())
    reply = server.step(b"n,,n=mallory,r=c").reply.decode()
    final = f"c=biws,{reply.split(',')[0]}"
    signature = hmac.new(bytes(32), f"n=mallory,r=c,{reply},{final}".encode(), "sha256").digest()
    with pytest.raises(Refusal):
        server.step(f"{final},p={base64.b64encode(signature).decode()}".encode())


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"\xff", "not UTF-8"),
        (b"", "first message"),
        (b"n,,r=c,n=alice", "first message"),
        (b"n,,m=x,n=alice,r=c", "first message"),
        (b"p=tls-unique,,n=alice,r=c", "channel binding"),
        (b"n,a=bob,n=alice,r=c", "only as the user"),
        (b"n,,n=alice,r=c,tokenauth=true", "delegation tokens"),
        (b"n,,n=al=ice,r=c", "=2C or =3D"),
        (b"n,,n=alice,r=" + b"c" * 10_000 + b"\n", "first message"),
    ],
)
def test_a_first_message_that_is_none(message: bytes, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        exchange(Users()).step(message)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text.replace("c=biws", "c=eSws"), "does not belong"),
        (lambda text: text.replace("r=client-part", "r=other"), "does not belong"),
        (lambda text: text[:-3], "last message"),
        (lambda text: text.partition(",p=")[0] + ",p=AAAA", "password is wrong"),
        (lambda text: text.replace("c=", "d="), "last message"),
    ],
)
def test_a_last_message_that_is_none(change: object, why: str) -> None:
    users = Users(alice=new_credential("SCRAM-SHA-256", "p", b"s" * 16, 4096))
    server = exchange(users)
    reply = server.step(b"n,,n=alice,r=client-part").reply.decode()
    final = f"c=biws,{reply.split(',')[0]}"
    proof, _ = proof_of("SCRAM-SHA-256", "p", "n=alice,r=client-part", reply, final)
    text = f"{final},p={base64.b64encode(proof).decode()}"
    with pytest.raises(Refusal, match=why):
        server.step(change(text).encode())  # type: ignore[operator]


@pytest.mark.parametrize(
    ("nonce", "let_in"),
    [
        ("client-partserver-part", True),
        ("client-partclient-partserver-part", True),
        ("otherclient-partserver-part", False),
        ("client-partclient-partclient-partserver-part", False),
        ("server-part", False),
        ("client-partclient-part", False),
    ],
)
def test_old_librdkafka_says_its_part_of_the_nonce_twice_and_nobody_else_may(nonce: str, let_in: bool) -> None:
    users = Users(alice=new_credential("SCRAM-SHA-256", "p", b"s" * 16, 4096))
    server = exchange(users)
    reply = server.step(b"n,,n=alice,r=client-part").reply.decode()
    final = f"c=biws,r={nonce}"
    proof, expected = proof_of("SCRAM-SHA-256", "p", "n=alice,r=client-part", reply, final)
    message = f"{final},p={base64.b64encode(proof).decode()}".encode()
    if let_in:
        step = server.step(message)
        assert (step.user, base64.b64decode(step.reply.removeprefix(b"v="))) == ("alice", expected)
    else:
        with pytest.raises(Refusal, match="does not belong"):
            server.step(message)


def test_an_identity_that_is_the_user_is_fine() -> None:
    assert exchange(Users()).step(b"y,a=alice,n=alice,r=c").reply.startswith(b"r=cserver-part,")


@pytest.mark.parametrize("stage", ["first", "last"])
def test_a_message_that_no_client_sends_is_not_parsed(stage: str) -> None:
    """Before authentication a client may send half a megabyte, which took the loop 45 ms."""
    server = exchange(Users())
    if stage == "last":
        server.step(b"n,,n=alice,r=client-part")
        message = b"c=biws,r=client-partserver-part" + b",x" * 200_000 + b",p=AAAA"
    else:
        message = b"n,,n=" + b"a" * 400_000 + b",r=client-part"
    with pytest.raises(Refusal, match=rf"a SCRAM message of {len(message)} bytes; at most 16384 are read"):
        server.step(message)
