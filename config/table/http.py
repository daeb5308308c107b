"""The settings of HTTP's users: how they show who they are, and what they may do. None changes while the daemon runs: who may
change settings by Kafka's protocol could let themselves in by HTTP."""

from __future__ import annotations

from ..setting import BOOLEAN, HIGH, LIST, LOW, STRING, Allowed, Group, Setting

HTTP_MECHANISMS = ("basic", "bearer", "oauthbearer", "certificate")
"""Mechanisms by which HTTP's users authenticate."""

# fmt: off
HTTP_ROWS: tuple[Setting, ...] = (
    Setting(
        "http.authentication", type=LIST, default=(), allowed=Allowed(choices=HTTP_MECHANISMS), group=Group.NETWORK,
        importance=HIGH, own=True,
        doc="How users of HTTP show who they are, one way or several: basic (a user that `tidelog users create` made, with "
            "the password), bearer (a token of http.tokens.file), oauthbearer (an issuer's token as a bearer token, checked "
            "by the settings sasl.oauthbearer.…), certificate (a client's certificate, as ssl.client.auth and "
            "ssl.principal.mapping.rules of https:// have it). Empty: nobody is asked, and the console acts only for this "
            "machine.",
    ),
    Setting(
        "http.users.read", type=LIST, default=(), group=Group.NETWORK, importance=HIGH, own=True,
        doc="Users of HTTP who may look: the console with all records, metrics, /why. *: whoever is known. With "
            "http.authentication.",
    ),
    Setting(
        "http.users.admin", type=LIST, default=(), group=Group.NETWORK, importance=HIGH, own=True,
        doc="Users of HTTP who may look and act: POST /clean and, with http.admin.enable, the console's actions, from "
            "wherever they come. Access control lists are not asked.",
    ),
    Setting(
        "http.tokens.file", type=STRING, default=None, group=Group.NETWORK, own=True,
        doc="File of the tokens for http.authentication=bearer: lines of a user's name, a blank, and the token or sha256: and "
            "the token's SHA-256 in hexadecimal. It is read again when it changes.",
    ),
    Setting(
        "http.health.open", type=BOOLEAN, default=True, group=Group.NETWORK, importance=LOW, own=True,
        doc="Whether /health/live and /health/ready answer those who have not said who they are, with one word. With "
            "http.authentication.",
    ),
    Setting(
        "http.metrics.open", type=BOOLEAN, default=False, group=Group.NETWORK, importance=LOW, own=True,
        doc="Whether /metrics answers those who have not said who they are. With http.authentication.",
    ),
)
