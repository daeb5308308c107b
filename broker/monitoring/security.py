"""Metrics of authentication, access control and certificates. Loop thread."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ...config.listener_settings import HTTP
from ..runtime.metric_family import COUNTER, GAUGE, Metric, Table, if_made

if TYPE_CHECKING:
    from ..network.socket_server import SocketServer
    from ..requests.audit_log import AuditLog
    from ..security.acl.authorizer import Authorizer
    from ..security.sasl.jwks import Keys
    from ..security.tls import TlsListener


class AuthenticationFacts(NamedTuple):
    """Counters, certificates and token keys of all listeners: Kafka's, message-set listeners, and HTTP's. Mappings are by the
    listener's name; listeners that do not authenticate, or have none of it, are not there.
    """

    failed_handshakes: int
    successes: Mapping[str, int]
    failures: Mapping[str, int]
    turned_away: Mapping[str, int]
    http_turned_away: int
    tls: Mapping[str, TlsListener]
    keys: Mapping[str, Keys]


class HttpAuthenticationFacts(NamedTuple):
    """Counters of the HTTP listener. `successes` and so on are of its users: None where it asks nobody who he is."""

    failed_handshakes: int = 0
    tls: TlsListener | None = None
    successes: int | None = None
    failures: int = 0
    turned_away: int = 0
    keys: Keys | None = None


def authentication_facts(server: SocketServer, http: HttpAuthenticationFacts | None = None) -> AuthenticationFacts:
    """Facts of the socket server's listeners and of HTTP's, where there is one."""
    http = http or HttpAuthenticationFacts()
    http_successes = {} if http.successes is None else {HTTP: http.successes}
    http_failures = {} if http.successes is None else {HTTP: http.failures}
    securities = server.securities.values()
    asking = [found for found in securities if found.sasl]
    tls = {found.name: found.tls for found in securities if found.tls is not None}
    keys = {found.name: found.tokens.keys for found in securities if found.tokens is not None}
    if http.tls is not None:
        tls[HTTP] = http.tls
    if http.keys is not None:
        keys[HTTP] = http.keys
    return AuthenticationFacts(
        server.failed_handshakes + http.failed_handshakes,
        {found.name: found.successes for found in asking} | http_successes,
        {found.name: found.failures for found in asking} | http_failures,
        {found.name: found.turned_away for found in asking},
        http.turned_away,
        tls,
        keys,
    )


# fmt: off
@cache
def security_metrics() -> Table[AuthenticationFacts]:
    """Metrics by listener, HTTP's too."""
    listener = ("listener",)
    return (
        Metric("tidelog_failed_tls_handshakes", COUNTER,
               "TLS handshakes that failed: no TLS, or a certificate that is not good.", lambda facts: facts.failed_handshakes),
        Metric("tidelog_authentications", COUNTER,
               "Clients that authenticated by SASL, by AUTHENTICATE of the message-set protocol, or by a password over HTTP.",
               lambda facts: facts.successes, listener),
        Metric("tidelog_failed_authentications", COUNTER, "Clients that gave a wrong user, password or token.",
               lambda facts: facts.failures, listener),
        Metric("tidelog_http_turned_away", COUNTER, "Requests by HTTP that were not looked at, because their user, at that "
               "address, or their address had failed too often.", lambda facts: facts.http_turned_away),
        Metric("tidelog_authentications_turned_away", COUNTER, "Attempts by SASL or AUTHENTICATE that were not looked at, "
               "because their user, at that address, or their address had failed too often.",
               lambda facts: facts.turned_away, listener),
        Metric("tidelog_token_key_reads", COUNTER, "Times that the public keys of tokens were read (OAUTHBEARER).",
               lambda facts: {name: keys.reads for name, keys in facts.keys.items()}, listener),
        Metric("tidelog_failed_token_key_reads", COUNTER,
               "Times that the public keys of tokens could not be read; the ones from before stayed.",
               lambda facts: {name: keys.failed_reads for name, keys in facts.keys.items()}, listener),
        Metric("tidelog_certificate_expiry_timestamp_seconds", GAUGE,
               "When a listener's certificate ends, in seconds since 1970; 0 where it is not good any more.",
               lambda facts: {name: tls.not_after_s for name, tls in facts.tls.items()}, listener),
        Metric("tidelog_certificate_reloads", COUNTER, "Times that a listener's certificate was read again.",
               lambda facts: {name: tls.reloads for name, tls in facts.tls.items()}, listener),
        Metric("tidelog_failed_certificate_reloads", COUNTER,
               "Times that a listener's certificate changed into one that can't be used; the old one stayed.",
               lambda facts: {name: tls.failed_reloads for name, tls in facts.tls.items()}, listener),
    )


@cache
def access_metrics() -> Table[Authorizer | None]:
    """Metrics of access control's decisions; no rows if it is not switched on (None)."""
    return (
        Metric("tidelog_access_decisions", COUNTER,
               "Answers of the authorizer to what requests asked, one for each resource and operation.",
               lambda found: None if found is None else {"allowed": found.allowed, "denied": found.denied}, ("result",)),
        Metric("tidelog_acl_rules", GAUGE, "Access rules that there are.",
               lambda found: None if found is None else found.rule_count),
    )


@cache
def audit_metrics() -> Table[AuditLog | None]:
    """Metrics of what access control has denied; None: nothing has been noted yet."""
    return (
        Metric("tidelog_authorization_denials", COUNTER,
               "Questions of access control that were answered with no, by the API that asked.",
               lambda audit: None if audit is None else {key.label: count for key, count in sorted(audit.denials.items())},
               ("api",)),
        Metric("tidelog_audit_lines_left_out", COUNTER, "Lines that the audit log left out since there were too many.",
               if_made(lambda audit: audit.left_out)),
    )
