"""The settings of OAUTHBEARER: where the keys of tokens are, and what tokens must have in them."""

from __future__ import annotations

from ..setting import ANY, Importance, Setting, SettingType, at_least

_SASL = "SASL"
_INT, _LIST, _LONG, _STRING = SettingType.INT, SettingType.LIST, SettingType.LONG, SettingType.STRING
_HIGH, _LOW = Importance.HIGH, Importance.LOW
_PREFIX = "sasl.oauthbearer."

TOKEN_ROWS: tuple[Setting, ...] = (
    Setting(
        _PREFIX + "jwks.endpoint.url",
        _STRING,
        None,
        "Where the public keys are that tokens are signed with, as a JSON web key set: https://…, http://… or file:///…. They "
        "are kept, and read again when they are old or a token names one that is not there. OAUTHBEARER needs it.",
        ANY,
        _HIGH,
        group=_SASL,
    ),
    Setting(
        _PREFIX + "expected.audience",
        _LIST,
        (),
        "Audiences of which a token must name one (aud). Empty: tokens that name none are let in, and no others.",
        ANY,
        _HIGH,
        group=_SASL,
    ),
    Setting(
        _PREFIX + "expected.issuer",
        _STRING,
        None,
        "The issuer that a token must name (iss). Not set: any.",
        ANY,
        _HIGH,
        group=_SASL,
    ),
    Setting(
        _PREFIX + "sub.claim.name",
        _STRING,
        "sub",
        "The claim of a token that says who the client is: its text is the user's name.",
        ANY,
        _LOW,
        group=_SASL,
    ),
    Setting(
        _PREFIX + "scope.claim.name",
        _STRING,
        "scope",
        "The claim of a token that has its scopes: a text, or a list of different ones. No scope is asked for.",
        ANY,
        _LOW,
        group=_SASL,
    ),
    Setting(
        _PREFIX + "clock.skew.seconds",
        _INT,
        30,
        "Seconds by which the clocks of the issuer and of this machine may differ.",
        at_least(0),
        _LOW,
        group=_SASL,
        why_different="Kafka takes any number; below 0 means nothing",
    ),
    Setting(
        _PREFIX + "jwks.endpoint.refresh.ms",
        _LONG,
        3_600_000,
        "Milliseconds after which keys are old and read again when the next token comes.",
        at_least(1000),
        _LOW,
        group=_SASL,
        why_different="Kafka takes any positive number; below a second the issuer would be asked with every token",
    ),
    Setting(
        _PREFIX + "jwks.endpoint.retry.backoff.ms",
        _LONG,
        100,
        "Milliseconds between a reading of keys that failed and the next, doubled from one failure to the next.",
        at_least(1),
        _LOW,
        group=_SASL,
        why_different="Kafka takes any number; below 1 there is no pause",
    ),
    Setting(
        _PREFIX + "jwks.endpoint.retry.backoff.max.ms",
        _LONG,
        10_000,
        "The most that this pause becomes, in milliseconds.",
        at_least(1),
        _LOW,
        group=_SASL,
        why_different="Kafka takes any number; below 1 there is no pause",
    ),
)
