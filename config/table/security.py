"""The settings of security: TLS and SASL; tokens are in `tokens.py`. Most can be set for one listener alone, as
`listener.name.<name>.<setting>` (`listener_settings.py`)."""

from __future__ import annotations

from ..setting import HIGH, INT, LIST, LONG, LOW, PASSWORD, STRING, Group, Setting, at_least, one_of, some_of
from .tokens import TOKEN_ROWS

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The SASL mechanisms that there are."""

_PEM_WHY = "PEM is the one format that is read here; see docs/SECURITY.md for how to convert a Java keystore"

# fmt: off
_TLS_ROWS: tuple[Setting, ...] = (
    Setting(
        "ssl.keystore.type", type=STRING, default="PEM", group=Group.TLS, dynamic=True,
        doc="Format of the key store: PEM, where a listener speaks TLS.",
        why_different=_PEM_WHY,
    ),
    Setting(
        "ssl.keystore.location", type=STRING, default=None, group=Group.TLS, importance=HIGH, dynamic=True,
        doc="PEM file with the private key and the certificate chain that listeners show, the listener's own first. It is "
            "read again when it changes (ssl.files.check.interval.ms).",
    ),
    Setting(
        "ssl.keystore.certificate.chain", type=PASSWORD, default=None, group=Group.TLS, importance=HIGH, dynamic=True,
        doc="The certificate chain itself, as PEM, in place of ssl.keystore.location; with ssl.keystore.key.",
    ),
    Setting(
        "ssl.keystore.key", type=PASSWORD, default=None, group=Group.TLS, importance=HIGH, dynamic=True,
        doc="The private key itself, as PEM, in place of ssl.keystore.location; with ssl.keystore.certificate.chain.",
    ),
    Setting(
        "ssl.key.password", type=PASSWORD, default=None, group=Group.TLS, importance=HIGH, dynamic=True,
        doc="Password of the private key, where it is encrypted.",
    ),
    Setting(
        "ssl.truststore.type", type=STRING, default="PEM", group=Group.TLS, dynamic=True,
        doc="Format of the trust store: PEM, where a listener asks for certificates.",
        why_different=_PEM_WHY,
    ),
    Setting(
        "ssl.truststore.location", type=STRING, default=None, group=Group.TLS, importance=HIGH, dynamic=True,
        doc="PEM file with the certificates of the authorities that clients' certificates must come from.",
    ),
    Setting(
        "ssl.truststore.certificates", type=PASSWORD, default=None, group=Group.TLS, importance=HIGH, dynamic=True,
        doc="These certificates themselves, as PEM, in place of ssl.truststore.location.",
    ),
    Setting(
        "ssl.client.auth", type=STRING, default="none", allowed=one_of("required", "requested", "none"), group=Group.TLS,
        dynamic=True,
        doc="Whether a client must (required) or may (requested) show a certificate. Its subject is then who the client is, "
            "by ssl.principal.mapping.rules; on a SASL_SSL listener the certificate is checked and SASL says who it is.",
    ),
    Setting(
        "ssl.enabled.protocols", type=LIST, default=("TLSv1.2", "TLSv1.3"), allowed=some_of("TLSv1.2", "TLSv1.3"),
        group=Group.TLS, dynamic=True,
        doc="Versions of TLS that listeners speak.",
    ),
    Setting(
        "ssl.cipher.suites", type=LIST, default=(), group=Group.TLS, dynamic=True,
        doc="Cipher suites of TLS 1.2, by their standard names (TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384) or OpenSSL's; empty "
            "for OpenSSL's choice of strong ones. TLS 1.3 has its own, all of which are allowed.",
    ),
    Setting(
        "ssl.principal.mapping.rules", type=STRING, default="DEFAULT", group=Group.TLS, importance=LOW,
        doc="How the subject of a client's certificate becomes a user: RULE:pattern/replacement/[LU] or DEFAULT (the whole "
            "subject), several separated by commas; the first whose pattern fits counts.",
    ),
    Setting(
        "ssl.handshake.timeout.ms", type=INT, default=10_000, allowed=at_least(1), group=Group.TLS, importance=LOW, own=True,
        doc="Milliseconds that a client has for the TLS handshake; then it is disconnected.",
    ),
    Setting(
        "ssl.files.check.interval.ms", type=LONG, default=60_000, allowed=at_least(1000), group=Group.TLS, importance=LOW,
        own=True,
        doc="Milliseconds between two looks at the files of certificates and keys. One that changed is read again, and holds "
            "for connections that come from then on; one that can't be used is reported, and the last good one stays.",
    ),
)

_SASL_ROWS: tuple[Setting, ...] = (
    Setting(
        "sasl.enabled.mechanisms", type=LIST, default=("SCRAM-SHA-256", "SCRAM-SHA-512"), allowed=some_of(*MECHANISMS),
        group=Group.SASL,
        doc="SASL mechanisms of listeners that speak SASL_PLAINTEXT or SASL_SSL. PLAIN sends passwords as they are: use it "
            "under TLS. PLAIN and SCRAM check the users that `tidelog users create` or AlterUserScramCredentials made; "
            "OAUTHBEARER checks tokens (sasl.oauthbearer.jwks.endpoint.url) and needs the extra tidelog[oauth].",
        why_different="Kafka's default, GSSAPI, is not spoken here",
    ),
    Setting(
        "sasl.jaas.config", type=PASSWORD, default=None, group=Group.SASL, dynamic=True,
        doc="Users of PLAIN and SCRAM in Kafka's spelling, for one listener and mechanism "
            "(listener.name.<name>.<mechanism>.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule "
            "required user_alice=\"secret\";). Not needed: users of metadata.db are checked as well.",
    ),
    Setting(
        "connections.max.reauth.ms", type=LONG, default=0, group=Group.SASL,
        doc="Milliseconds after which a client has to authenticate again (KIP-368); one that goes on without is disconnected. "
            "0: never.",
    ),
    Setting(
        "connection.failed.authentication.delay.ms", type=INT, default=100, allowed=at_least(0), group=Group.SASL,
        importance=LOW,
        doc="Milliseconds by which the answer to a failed authentication is held back, against guessing.",
    ),
    Setting(
        "sasl.server.max.receive.size", type=INT, default=524288, allowed=at_least(1024), group=Group.SASL,
        doc="Largest request in bytes before a client is authenticated.",
        why_different="Kafka takes any number; below 1024 no client could begin",
    ),
    Setting(
        "sasl.authentication.timeout.ms", type=INT, default=30_000, allowed=at_least(1), group=Group.SASL, importance=LOW,
        own=True,
        doc="Milliseconds that a client has from the connection to its authentication; then it is disconnected.",
    ),
)

SECURITY_ROWS: tuple[Setting, ...] = (*_TLS_ROWS, *_SASL_ROWS, *TOKEN_ROWS)
