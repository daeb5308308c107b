"""The settings of OAUTHBEARER: where the keys of tokens are, and what tokens must have in them."""

from __future__ import annotations

from ..setting import HIGH, INT, LIST, LONG, LOW, STRING, Group, Setting, at_least

_PREFIX = "sasl.oauthbearer."

# fmt: off
TOKEN_ROWS: tuple[Setting, ...] = (
    Setting(
        _PREFIX + "jwks.endpoint.url", type=STRING, default=None, group=Group.SASL, importance=HIGH,
        doc="Where the public keys are that tokens are signed with, as a JSON web key set: https://…, http://… or file:///…. "
            "They are kept, and read again when they are old or a token names one that is not there. OAUTHBEARER needs it.",
    ),
    Setting(
        _PREFIX + "expected.audience", type=LIST, default=(), group=Group.SASL, importance=HIGH,
        doc="Audiences of which a token must name one (aud). Empty: tokens that name none are let in, and no others.",
    ),
    Setting(
        _PREFIX + "expected.issuer", type=STRING, default=None, group=Group.SASL, importance=HIGH,
        doc="The issuer that a token must name (iss). Not set: any.",
    ),
    Setting(
        _PREFIX + "sub.claim.name", type=STRING, default="sub", group=Group.SASL, importance=LOW,
        doc="The claim of a token that says who the client is: its text is the user's name.",
    ),
    Setting(
        _PREFIX + "scope.claim.name", type=STRING, default="scope", group=Group.SASL, importance=LOW,
        doc="The claim of a token that has its scopes: a text, or a list of different ones. No scope is asked for.",
    ),
    Setting(
        _PREFIX + "clock.skew.seconds", type=INT, default=30, allowed=at_least(0), group=Group.SASL, importance=LOW,
        doc="Seconds by which the clocks of the issuer and of this machine may differ.",
        why_different="Kafka takes any number; below 0 means nothing",
    ),
    Setting(
        _PREFIX + "jwks.endpoint.refresh.ms", type=LONG, default=3_600_000, allowed=at_least(1000), group=Group.SASL,
        importance=LOW,
        doc="Milliseconds after which keys are old and read again when the next token comes.",
        why_different="Kafka takes any positive number; below a second the issuer would be asked with every token",
    ),
    Setting(
        _PREFIX + "jwks.endpoint.retry.backoff.ms", type=LONG, default=100, allowed=at_least(1), group=Group.SASL,
        importance=LOW,
        doc="Milliseconds between a reading of keys that failed and the next, doubled from one failure to the next.",
        why_different="Kafka takes any number; below 1 there is no pause",
    ),
    Setting(
        _PREFIX + "jwks.endpoint.retry.backoff.max.ms", type=LONG, default=10_000, allowed=at_least(1), group=Group.SASL,
        importance=LOW,
        doc="The most that this pause becomes, in milliseconds.",
        why_different="Kafka takes any number; below 1 there is no pause",
    ),
)
