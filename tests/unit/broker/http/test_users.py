"""Who gets in by HTTP and who does not, what is remembered, and what guessing costs."""

from __future__ import annotations

import base64
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar

import jwt
import pytest
from support.guesses import guesses, run_at_once
from support.tokens import AUDIENCE, ISSUER, key_set, private_key, public_jwk, token_of
from tidelog.broker.http import users as http_users
from tidelog.broker.http.authentication import TokenFile
from tidelog.broker.http.connections import PutOut
from tidelog.broker.http.user import HttpUser, Role
from tidelog.broker.http.users import (
    CHECK_TIMEOUT_S,
    MAX_HEADER_CHARACTERS,
    MOST_REMEMBERED,
    REMEMBERED_S,
    HttpUsers,
    NotLetInError,
)
from tidelog.broker.security.credentials import check_password, new_credential
from tidelog.broker.security.principal import parse_rules
from tidelog.broker.security.sasl.jwks import Keys, Pauses
from tidelog.broker.security.sasl.login_attempts import MOST_FAILURES, MOST_OF_ADDRESS
from tidelog.broker.security.sasl.tokens import TokenRules, TokenVerifier
from tidelog.config.broker_config import BrokerConfig

SCRAM = "SCRAM-SHA-256"
TOKEN = "t" * 40
PEER = "10.0.0.1"


class KnownUsers:
    """Users alice (admin), bob (reader) and carol (neither), a clock, and how often a password was hashed."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.checks = 0
        self.stored: Any = {
            name: {SCRAM: new_credential(SCRAM, f"{name}: pässword", b"salt" * 4)} for name in ("alice", "bob", "carol")
        }
        self.is_loading = False
        self.tokens = tmp_path / "tokens"
        self.tokens.write_text(f"prometheus {TOKEN}\n")

        def counted(credentials: Any, password: str, rounds: Any) -> bool:
            self.checks += 1
            return check_password(credentials, password, rounds)

        monkeypatch.setattr(http_users, "check_password", counted)
        self.configure()

    def configure(
        self,
        *mechanisms: str,
        readers: Sequence[str] = ("bob", "prometheus"),
        rules: str = "",
        submit: Callable[[Coroutine[Any, Any, bool]], Future[bool]] = run_at_once,
        verifier: TokenVerifier | None = None,
    ) -> None:
        """Make the users anew, for Basic and Bearer if nothing else is said."""
        self.users = HttpUsers(
            BrokerConfig(
                http_authentication=mechanisms or ("basic", "bearer"),
                http_users_admin=("User:alice",),
                http_users_read=tuple(readers),
            ),
            lambda: None if self.is_loading else self,  # type: ignore[arg-type,return-value]
            guesses(lambda: self.now),
            submit,
            tokens=TokenFile(str(self.tokens)),
            verifier=verifier,
            rules=parse_rules(rules) if rules else (),
            now_s=lambda: self.now,
        )

    rounds: ClassVar = {SCRAM: 4096}

    def of(self, name: str) -> Any:
        return self.stored.get(name, {})

    def status(self, authorization: str | None) -> str:
        try:
            return str(self.users.identify(authorization, PEER))
        except NotLetInError as error:
            assert error.delay_s == (0.1 if error.status.startswith("401") and authorization is not None else 0)
            return error.status


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownUsers:
    return KnownUsers(tmp_path, monkeypatch)


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def test_roles(known: KnownUsers) -> None:
    identify = known.users.identify
    assert identify(basic("alice", "alice: pässword"), PEER) == HttpUser("alice", Role.ADMIN)
    assert identify(basic("bob", "bob: pässword"), PEER) == HttpUser("bob", Role.READ)
    assert identify(f"bearer   {TOKEN} ", PEER) == HttpUser("prometheus", Role.READ)
    assert known.status(basic("carol", "carol: pässword")) == "403 Forbidden"
    assert known.users.failures.failures == 0


def test_everybody_who_is_known(known: KnownUsers) -> None:
    known.configure(readers="*")
    assert known.users.identify(basic("carol", "carol: pässword"), PEER).role == Role.READ


@pytest.mark.parametrize(
    "authorization",
    [
        basic("alice", "wrong"), basic("alice", ""), basic("nobody", "x"), basic("", "x"), basic("alice", "x" * 1025),
        "Basic", "Basic !!!!", "Basic YWxpY2U=", "Basic /////w==", "Bearer", "Bearer wrong-wrong-wrong-wrong",
        "Digest x", "", "Basic " + "A" * (MAX_HEADER_CHARACTERS + 4), "Bearer \udcff",
        f"Bearer \u00a0{TOKEN}", basic("alice", "alice: pässword").replace(" ", " \u00a0"),
    ],
)  # fmt: skip
def test_who_is_not_let_in_is_told_late_and_nothing(known: KnownUsers, authorization: str) -> None:
    with pytest.raises(NotLetInError) as caught:
        known.users.identify(authorization, PEER)
    assert caught.value.status == "401 Unauthorized"
    assert str(caught.value) == "The user, the password or the token is wrong."
    assert [name for name, _ in caught.value.headers] == ["WWW-Authenticate"] * 2
    assert caught.value.delay_s == 0.1
    assert known.users.failures.failures == 1


def test_who_says_nothing_is_asked_and_not_counted(known: KnownUsers) -> None:
    assert known.status(None) == "401 Unauthorized"
    assert known.users.failures.failures == 0


def test_a_right_password_is_hashed_once_and_not_for_each_scrape(known: KnownUsers) -> None:
    right = basic("bob", "bob: pässword")
    for _ in range(1000):
        known.users.identify(right, PEER)
        known.now += REMEMBERED_S - 1
    assert (known.checks, known.users.successes) == (1, 1)
    assert known.status(basic("bob", "wrong")) == "401 Unauthorized"
    assert known.status(basic("alice", "bob: pässword")) == "401 Unauthorized"
    known.now += REMEMBERED_S + 1
    known.users.identify(right, PEER)
    assert known.checks == 4


def test_a_changed_password_holds_at_once(known: KnownUsers) -> None:
    right = basic("bob", "bob: pässword")
    known.users.identify(right, PEER)
    known.stored["bob"] = {SCRAM: new_credential(SCRAM, "another", b"salt" * 4)}
    assert known.status(right) == "401 Unauthorized"
    del known.stored["bob"]
    assert known.status(right) == "401 Unauthorized"
    assert known.status(basic("bob", "another")) == "401 Unauthorized"


def test_what_is_remembered_is_bounded(known: KnownUsers, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def check(credentials: Any, password: str, rounds: Any) -> bool:
        checked.append(password)
        return True

    monkeypatch.setattr(http_users, "check_password", check)
    known.configure(readers="*")
    users = [f"u{number}" for number in range(2 * MOST_REMEMBERED)]
    older, newer = users[:MOST_REMEMBERED], users[MOST_REMEMBERED:]
    for asking, expected in ((users, users), (newer, []), (older, older)):
        checked.clear()
        for user in asking:
            known.users.identify(basic(user, user), PEER)
        assert checked == expected


def test_who_fails_too_often_is_not_looked_at_but_who_is_remembered_is(known: KnownUsers) -> None:
    right, wrong = basic("bob", "bob: pässword"), basic("alice", "wrong")
    known.users.identify(right, PEER)
    for _ in range(MOST_FAILURES):
        assert known.status(wrong) == "401 Unauthorized"
    checks = known.checks
    with pytest.raises(NotLetInError) as caught:
        known.users.identify(basic("alice", "alice: pässword"), PEER)
    assert (caught.value.status, caught.value.delay_s) == ("429 Too Many Requests", 0)
    assert dict(caught.value.headers)["Retry-After"] == "60"
    assert known.checks == checks
    assert known.users.identify(right, PEER).name == "bob"
    assert known.users.identify(f"Bearer {TOKEN}", PEER).name == "prometheus"
    assert known.users.identify(basic("alice", "alice: pässword"), "10.0.0.2").name == "alice"
    assert known.users.failures.turned_away == 1


def test_one_users_failures_keep_no_other_user_of_that_address_out(known: KnownUsers) -> None:
    for _ in range(2 * MOST_FAILURES):
        known.status(basic("alice", "wrong"))
    assert known.users.identify(basic("bob", "bob: pässword"), PEER).name == "bob"
    assert known.status(f"Bearer {TOKEN}x") == "401 Unauthorized"


@pytest.mark.parametrize("nameless", ["Bearer wrong", "Basic !!!!", "Digest x"])
def test_what_names_no_user_is_counted_as_one(known: KnownUsers, nameless: str) -> None:
    for _ in range(MOST_FAILURES):
        assert known.status(nameless) == "401 Unauthorized"
    assert [known.status(one) for one in ("Bearer other", "Basic", "")] == ["429 Too Many Requests"] * 3
    assert known.users.identify(basic("bob", "bob: pässword"), PEER).name == "bob"


def test_many_names_turn_all_of_an_address_away(known: KnownUsers) -> None:
    for number in range(MOST_OF_ADDRESS):
        assert known.status(basic(f"name-{number}", "x")) == "401 Unauthorized"
    assert known.status(basic("bob", "bob: pässword")) == "429 Too Many Requests"


def test_a_password_that_is_not_checked_in_time_says_nothing_and_is_not_checked_later(known: KnownUsers) -> None:
    """Its turn is given up: what waits for the one thread is bounded by the connections that are there."""
    given: list[Future[bool]] = []

    def late(work: Coroutine[Any, Any, bool]) -> Future[bool]:
        work.close()
        given.append(Future())
        return given[-1]

    def wait(future: Future[Any], timeout_s: float) -> Any:
        assert timeout_s == CHECK_TIMEOUT_S
        raise TimeoutError

    known.configure(submit=late)
    with pytest.raises(NotLetInError) as caught:
        known.users.identify(basic("bob", "bob: pässword"), PEER, wait=wait)
    assert (caught.value.status, dict(caught.value.headers)) == ("503 Service Unavailable", {"Retry-After": "1"})
    assert given[0].cancelled()
    assert known.users.failures.failures == 0


def test_a_connection_that_makes_room_takes_its_check_with_it(known: KnownUsers) -> None:
    given: list[Future[bool]] = []

    def late(work: Coroutine[Any, Any, bool]) -> Future[bool]:
        work.close()
        given.append(Future())
        return given[-1]

    def wait(future: Future[Any], timeout_s: float) -> Any:
        raise PutOut

    known.configure(submit=late)
    with pytest.raises(PutOut):
        known.users.identify(basic("bob", "bob: pässword"), PEER, wait=wait)
    assert given[0].cancelled()


def test_a_loop_that_has_ended_is_told_as_a_stop(known: KnownUsers) -> None:
    def submit(work: Coroutine[Any, Any, bool]) -> Future[bool]:
        raise RuntimeError("Event loop is closed")

    known.configure(submit=submit)
    assert known.status(basic("bob", "bob: pässword")) == "503 Service Unavailable"


def test_before_users_are_read(known: KnownUsers) -> None:
    known.is_loading = True
    assert known.status(basic("alice", "alice: pässword")) == "503 Service Unavailable"
    assert known.users.identify(f"Bearer {TOKEN}", PEER).name == "prometheus"


class Issuer:
    """A key set that is read when a test says so, and users of HTTP who show its tokens."""

    def __init__(self, known: KnownUsers, monkeypatch: pytest.MonkeyPatch, *mechanisms: str) -> None:
        self.works: list[Callable[[], None]] = []
        self.run: Callable[[Callable[[], None]], object] = self.works.append
        self.sets = [key_set(public_jwk(private_key()))]
        self.world = known
        source: Any = self
        self.keys = Keys(source, Pauses(3600, 1, 10), lambda: known.now, lambda work: self.run(work))
        self.verifier = TokenVerifier(self.keys, TokenRules((AUDIENCE,), ISSUER, "scope", "sub", 0))
        monkeypatch.setattr(http_users, "CHECK_TIMEOUT_S", 0.0)
        self.configure(*mechanisms)

    def configure(self, *mechanisms: str) -> None:
        self.world.configure(*mechanisms, verifier=self.verifier)

    def read(self) -> bytes:
        return self.sets[-1]

    def status(self, token: str) -> str:
        return self.world.status(f"Bearer {token}")


@pytest.fixture
def issuer(known: KnownUsers, monkeypatch: pytest.MonkeyPatch) -> Issuer:
    made = Issuer(known, monkeypatch, "bearer", "oauthbearer")
    made.keys.read_now()
    return made


ALICE = str(HttpUser("alice", Role.ADMIN))


def test_whom_a_token_of_the_issuer_names(issuer: Issuer) -> None:
    assert issuer.status(token_of()) == ALICE
    assert issuer.status(token_of(sub="bob")) == str(HttpUser("bob", Role.READ))
    assert issuer.status(token_of(sub="carol")) == "403 Forbidden"
    assert issuer.status(TOKEN) == str(HttpUser("prometheus", Role.READ)), "those of the file hold as well"
    assert issuer.status(token_of(groups=["g" * 100] * 300)) == ALICE
    assert issuer.world.users.failures.failures == 0
    issuer.configure("oauthbearer")
    assert issuer.status(token_of()) == ALICE
    assert issuer.world.users.failures.failures == 0
    assert issuer.works == []


BAD_TOKENS = [
    token_of(exp=1), token_of(aud="another"), token_of(aud=None), token_of(iss="another"), token_of(exp=None),
    token_of(sub=None), token_of(sub=" "), token_of(sub="a\nb"), token_of(private_key("RSA", 1)),
    jwt.encode({"sub": "alice"}, None, algorithm="none"),
    token_of(private_key("P-256"), "ES256"), token_of()[:-8] + "AAAAAAAA", "a.b.c", "", "x" * 70_000,
    # Signed with the text of the public key, as if it were a secret that both sides know.
    token_of(str(public_jwk(private_key())["n"]), "HS256"),
]  # fmt: skip


@pytest.mark.parametrize("token", BAD_TOKENS)
def test_all_bad_tokens_get_one_answer(issuer: Issuer, token: str, caplog: pytest.LogCaptureFixture) -> None:
    issuer.configure("basic", "bearer", "oauthbearer")
    with pytest.raises(NotLetInError) as caught:
        issuer.world.users.identify(f"Bearer {token}", PEER)
    assert (caught.value.status, str(caught.value)) == (
        "401 Unauthorized", "The user, the password or the token is wrong.",
    )  # fmt: skip
    assert caught.value.headers == (
        ("WWW-Authenticate", 'Basic realm="tidelog", charset="UTF-8"'),
        ("WWW-Authenticate", 'Bearer realm="tidelog", error="invalid_token"'),
    )
    assert (caught.value.delay_s, issuer.world.users.failures.failures) == (0.1, 1)
    (line,) = caplog.messages
    assert len(line) < 300
    assert len(token) < 5 or token not in line


def test_who_brings_no_token_is_told_of_no_error(issuer: Issuer) -> None:
    with pytest.raises(NotLetInError) as caught:
        issuer.world.users.identify(None, PEER)
    assert caught.value.headers == (("WWW-Authenticate", 'Bearer realm="tidelog"'),)


def test_who_guesses_with_tokens_is_turned_away_and_who_has_one_is_not(issuer: Issuer) -> None:
    bad = token_of(exp=1)
    answers = [issuer.status(bad) for _ in range(MOST_FAILURES + 2)]
    assert answers == ["401 Unauthorized"] * MOST_FAILURES + ["429 Too Many Requests"] * 2
    assert issuer.status(token_of()) == ALICE


def test_before_keys_are_there_nobody_is_told_that_a_token_is_bad(
    known: KnownUsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer = Issuer(known, monkeypatch, "oauthbearer")
    assert issuer.status(token_of()) == "503 Service Unavailable"
    assert issuer.status(token_of()) == "503 Service Unavailable"
    (work,) = issuer.works
    work()
    assert issuer.status(token_of()) == ALICE
    assert known.users.failures.failures == 0


def test_while_no_keys_can_be_read_nobody_is_told_that_a_token_is_bad(
    known: KnownUsers, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer = Issuer(known, monkeypatch, "oauthbearer")
    issuer.sets = [b"no keys"]
    issuer.run = lambda work: work()
    with pytest.raises(NotLetInError, match="No token can be checked yet") as caught:
        known.users.identify(f"Bearer {token_of()}", PEER)
    assert (caught.value.status, caught.value.headers) == ("503 Service Unavailable", (("Retry-After", "1"),))
    assert known.users.failures.failures == 0


def test_a_new_key_is_waited_for_and_old_ones_are_not(issuer: Issuer) -> None:
    issuer.world.now += 3601
    assert issuer.status(token_of()) == ALICE, "the reading hangs, and the key from before holds"
    new = token_of(private_key("P-256"), "ES256", "two")
    assert issuer.status(new) == "503 Service Unavailable", "which says nothing against the token"
    issuer.sets.append(key_set(public_jwk(private_key("P-256"), "two")))
    (work,) = issuer.works
    work()
    assert issuer.status(new) == ALICE
    assert issuer.world.users.failures.failures == 0


def test_a_certificate_says_who_sends_a_request(known: KnownUsers) -> None:
    known.configure("basic", "bearer", "certificate", rules="RULE:^CN=([a-z]+),O=us$/$1/")
    identify = known.users.identify
    assert identify(None, PEER, "CN=alice,O=us") == HttpUser("alice", Role.ADMIN, by_certificate=True)
    assert identify(f"Bearer {TOKEN}", PEER, "CN=alice,O=us") == HttpUser("prometheus", Role.READ)
    for subject, text in (("CN=alice,O=them", "names no user"), (None, "Show a client certificate .*, or sign in")):
        with pytest.raises(NotLetInError, match=text) as caught:
            identify(None, PEER, subject)
        assert (caught.value.status, len(caught.value.headers)) == ("401 Unauthorized", 2)
    with pytest.raises(NotLetInError, match="may do nothing here"):
        identify(None, PEER, "CN=carol,O=us")
    assert known.users.failures.failures == 0
    with pytest.raises(NotLetInError, match="is wrong"):  # who says who they are is believed by that alone
        identify(basic("alice", "wrong"), PEER, "CN=alice,O=us")


def test_where_certificates_alone_say_who_is_who(known: KnownUsers) -> None:
    known.configure("certificate", rules="RULE:^CN=(x*)$/$1/,DEFAULT")
    for authorization, subject in ((None, None), (None, ""), (None, "CN="), ("Basic x", "CN=alice"), ("Bearer x", "a")):
        with pytest.raises(NotLetInError) as caught:
            known.users.identify(authorization, PEER, subject)
        assert (caught.value.status, caught.value.headers) == ("403 Forbidden", ())


def test_a_certificate_is_nobody_where_it_is_not_asked_for(known: KnownUsers) -> None:
    known.configure(rules="DEFAULT")
    with pytest.raises(NotLetInError, match="Sign in"):
        known.users.identify(None, PEER, "alice")
