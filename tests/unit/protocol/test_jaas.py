from __future__ import annotations

import pytest
from tidelog.protocol.jaas import options_of, users_of

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_tokens_list_no_users() -> None:
    text = 'a.OAuthBearerLoginModule required user_alice="x" ssl.truststore.location="/ca.pem";'
    assert users_of(text, "OAUTHBEARER") == {}
    assert options_of(text, "OAUTHBEARER")["ssl.truststore.location"] == "/ca.pem"


@pytest.mark.parametrize(
    ("text", "users"),
    [
        (None, {}),
        ("  ", {}),
        (f"{PLAIN} required;", {}),
        (
            f'{PLAIN} required username="admin" password="x" user_admin="x" user_alice="a b;c=d";',
            {"admin": "x", "alice": "a b;c=d"},
        ),
        (f"{PLAIN} required\n  user_alice='it\\'s' ;", {"alice": "it's"}),
        (f'{PLAIN} REQUIRED user_alice="quote\\"d\\\\";', {"alice": 'quote"d\\'}),
        (f"{PLAIN} required user_alice=bare;", {"alice": "bare"}),
    ],
)  # fmt: skip
def test_users_are_read_as_kafka_reads_them(text: str | None, users: dict[str, str]) -> None:
    assert users_of(text, "PLAIN") == users


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f'{PLAIN} required user_alice="x"', "a semicolon ends it"),
        (f'{PLAIN} required user_alice="x;', "a quote that nothing ends"),
        (f"{PLAIN} required user_alice;", "not NAME=VALUE"),
        (f"{PLAIN} perhaps;", "does not begin with …PlainLoginModule required"),
        ("com.example.Mine required;", "does not begin with …PlainLoginModule required"),
    ],
)
def test_what_can_not_be_read_is_said_without_its_secrets(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        users_of(text, "PLAIN")
    assert "alice" not in str(caught.value)
