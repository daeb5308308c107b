"""Who is let in and who is not, and how long certificates last, as metrics. Loop thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...config.listener_checks import HTTP
from ..runtime.metric_family import COUNTER, GAUGE, AnyFamily, Family, by, one

if TYPE_CHECKING:
    from ..http.server import HttpServer
    from ..network.socket_server import SocketServer
    from ..requests.audit_log import AuditLog
    from ..security.acl.authorizer import Authorizer


def security_families(server: SocketServer, http: HttpServer | None = None) -> Iterator[AnyFamily]:
    """By listener, HTTP's too; listeners that ask for nothing are not there."""
    securities = server.securities.values()
    https = None if http is None else http.https
    users = None if http is None or http.gate is None else http.gate.users
    yield one(
        "tidelog_failed_tls_handshakes",
        COUNTER,
        "TLS handshakes that failed: no TLS, or a certificate that is not good.",
        server.failed_handshakes + (0 if https is None else https.failed_handshakes),
    )
    yield by(
        "tidelog_authentications",
        COUNTER,
        "Clients that authenticated by SASL, by AUTHENTICATE of the message-set protocol, or by a password over HTTP.",
        "listener",
        {one.name: one.successes for one in securities if one.sasl}
        | ({} if users is None else {HTTP: users.successes}),
    )
    yield by(
        "tidelog_failed_authentications",
        COUNTER,
        "Clients that gave a wrong user, password or token.",
        "listener",
        {one.name: one.failures for one in securities if one.sasl}
        | ({} if users is None else {HTTP: users.failures.failures}),
    )
    yield one(
        "tidelog_http_turned_away",
        COUNTER,
        "Requests by HTTP that were not looked at, because their user, at that address, or their address had failed too often.",
        0 if users is None else users.failures.turned_away,
    )
    yield by(
        "tidelog_authentications_turned_away",
        COUNTER,
        "Attempts by SASL or AUTHENTICATE that were not looked at, because their user, at that address, or their address had "
        "failed too often.",
        "listener",
        {one.name: one.turned_away for one in securities if one.sasl},
    )
    with_tls = {one.name: one.tls for one in securities if one.tls is not None} | (
        {} if https is None else {HTTP: https.tls}
    )
    tokens = {one.name: one.tokens.keys for one in securities if one.tokens is not None}
    if users is not None and users.verifier is not None:
        tokens[HTTP] = users.verifier.keys
    yield by(
        "tidelog_token_key_reads",
        COUNTER,
        "Times that the public keys of tokens were read (OAUTHBEARER).",
        "listener",
        {name: keys.reads for name, keys in tokens.items()},
    )
    yield by(
        "tidelog_failed_token_key_reads",
        COUNTER,
        "Times that the public keys of tokens could not be read; the ones from before stayed.",
        "listener",
        {name: keys.failed_reads for name, keys in tokens.items()},
    )
    yield by(
        "tidelog_certificate_expiry_timestamp_seconds",
        GAUGE,
        "When a listener's certificate ends, in seconds since 1970; 0 where it is not good any more.",
        "listener",
        {name: tls.not_after_s for name, tls in with_tls.items()},
    )
    yield by(
        "tidelog_certificate_reloads",
        COUNTER,
        "Times that a listener's certificate was read again.",
        "listener",
        {name: tls.reloads for name, tls in with_tls.items()},
    )
    yield by(
        "tidelog_failed_certificate_reloads",
        COUNTER,
        "Times that a listener's certificate changed into one that can't be used; the old one stayed.",
        "listener",
        {name: tls.failed_reloads for name, tls in with_tls.items()},
    )


def access_families(authorizer: Authorizer | None) -> Iterator[AnyFamily]:
    """What access control decided; no rows where it is not switched on."""
    counts = {} if authorizer is None else {("allowed",): authorizer.allowed, ("denied",): authorizer.denied}
    yield Family(
        "tidelog_access_decisions",
        COUNTER,
        "Answers of the authorizer to what requests asked, one for each resource and operation.",
        ("result",),
        list(counts.items()),
    )
    yield Family(
        "tidelog_acl_rules",
        GAUGE,
        "Access rules that there are.",
        (),
        [] if authorizer is None else [((), authorizer.rule_count)],
    )


def audit_families(audit: AuditLog | None) -> Iterator[AnyFamily]:
    """What access control said no to; None: nothing has been noted yet."""
    yield by(
        "tidelog_authorization_denials",
        COUNTER,
        "Questions of access control that were answered with no, by the API that asked.",
        "api",
        {key.label: count for key, count in sorted(audit.denials.items())} if audit is not None else {},
    )
    yield one(
        "tidelog_audit_lines_left_out",
        COUNTER,
        "Lines that the audit log left out since there were too many.",
        audit.left_out if audit is not None else 0,
    )
