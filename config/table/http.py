"""The settings of HTTP's users: how they show who they are, and what they may do. None changes while the daemon runs: who may
change settings by Kafka's protocol could let themselves in by HTTP."""

from __future__ import annotations

from ..setting import ANY, Allowed, Importance, Setting, SettingType

_GROUP = "Network"

HTTP_MECHANISMS = ("basic", "bearer", "oauthbearer", "certificate")
"""How users of HTTP show who they are."""

HTTP_ROWS: tuple[Setting, ...] = (
    Setting(
        "http.authentication",
        SettingType.LIST,
        (),
        "How users of HTTP show who they are, one way or several: basic (a user that `tidelog users create` made, with the "
        "password), bearer (a token of http.tokens.file), oauthbearer (an issuer's token as a bearer token, checked by the "
        "settings sasl.oauthbearer.…), certificate (a client's certificate, as ssl.client.auth and ssl.principal.mapping.rules "
        "of https:// have it). Empty: nobody is asked, and the console acts only for this machine.",
        Allowed(choices=HTTP_MECHANISMS),
        Importance.HIGH,
        group=_GROUP,
        own=True,
    ),
    Setting(
        "http.users.read",
        SettingType.LIST,
        (),
        "Users of HTTP who may look: the console with all records, metrics, /why. *: whoever is known. With http.authentication.",
        ANY,
        Importance.HIGH,
        group=_GROUP,
        own=True,
    ),
    Setting(
        "http.users.admin",
        SettingType.LIST,
        (),
        "Users of HTTP who may look and act: POST /clean and, with http.admin.enable, the console's actions, from wherever they "
        "come. Access control lists are not asked.",
        ANY,
        Importance.HIGH,
        group=_GROUP,
        own=True,
    ),
    Setting(
        "http.tokens.file",
        SettingType.STRING,
        None,
        "File of the tokens for http.authentication=bearer: lines of a user's name, a blank, and the token or sha256: and the "
        "token's SHA-256 in hexadecimal. It is read again when it changes.",
        ANY,
        Importance.MEDIUM,
        group=_GROUP,
        own=True,
    ),
    Setting(
        "http.health.open",
        SettingType.BOOLEAN,
        True,
        "Whether /health/live and /health/ready answer those who have not said who they are, with one word. With "
        "http.authentication.",
        ANY,
        Importance.LOW,
        group=_GROUP,
        own=True,
    ),
    Setting(
        "http.metrics.open",
        SettingType.BOOLEAN,
        False,
        "Whether /metrics answers those who have not said who they are. With http.authentication.",
        ANY,
        Importance.LOW,
        group=_GROUP,
        own=True,
    ),
)
