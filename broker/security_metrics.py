"""Who is let in and who is not, and how long certificates last, as metrics. Loop thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .metric_family import COUNTER, GAUGE, AnyFamily, Family, by, one

if TYPE_CHECKING:
    from .security.authorizer import Authorizer
    from .socket_server import SocketServer


def security_families(server: SocketServer) -> Iterator[AnyFamily]:
    """By listener; listeners that ask for nothing are not there."""
    securities = server.securities.values()
    yield one(
        "tidelog_failed_tls_handshakes",
        COUNTER,
        "TLS handshakes that failed: no TLS, or a certificate that is not good.",
        server.failed_handshakes,
    )
    yield by(
        "tidelog_authentications",
        COUNTER,
        "Clients that authenticated by SASL.",
        "listener",
        {one.name: one.successes for one in securities if one.sasl},
    )
    yield by(
        "tidelog_failed_authentications",
        COUNTER,
        "Clients that SASL did not let in.",
        "listener",
        {one.name: one.failures for one in securities if one.sasl},
    )
    with_tls = {one.name: one.tls for one in securities if one.tls is not None}
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
