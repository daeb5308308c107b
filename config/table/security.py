"""The settings of security: TLS and SASL; tokens are in `tokens.py`. Most can be set for one listener alone, as
`listener.name.<name>.<setting>` (`listener_settings.py`)."""

from __future__ import annotations

from ..setting import ANY, Importance, Setting, SettingType, at_least, one_of, some_of
from .tokens import TOKEN_ROWS

_TLS, _SASL = "TLS", "SASL"
_INT, _LIST, _LONG, _STRING = SettingType.INT, SettingType.LIST, SettingType.LONG, SettingType.STRING
_PASSWORD = SettingType.PASSWORD
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The SASL mechanisms that there are."""

_PEM_WHY = "PEM is the one format that is read here; see docs/SECURITY.md for how to convert a Java keystore"

_TLS_ROWS: tuple[Setting, ...] = (
    Setting(
        "ssl.keystore.type",
        _STRING,
        "PEM",
        "Format of the key store: PEM, where a listener speaks TLS.",
        ANY,
        dynamic=True,
        group=_TLS,
        why_different=_PEM_WHY,
    ),
    Setting(
        "ssl.keystore.location",
        _STRING,
        None,
        "PEM file with the private key and the certificate chain that listeners show, the listener's own first. It is read "
        "again when it changes (ssl.files.check.interval.ms).",
        ANY,
        _HIGH,
        dynamic=True,
        group=_TLS,
    ),
    Setting(
        "ssl.keystore.certificate.chain",
        _PASSWORD,
        None,
        "The certificate chain itself, as PEM, in place of ssl.keystore.location; with ssl.keystore.key.",
        ANY,
        _HIGH,
        dynamic=True,
        group=_TLS,
    ),
    Setting(
        "ssl.keystore.key",
        _PASSWORD,
        None,
        "The private key itself, as PEM, in place of ssl.keystore.location; with ssl.keystore.certificate.chain.",
        ANY,
        _HIGH,
        dynamic=True,
        group=_TLS,
    ),
    Setting(
        "ssl.key.password",
        _PASSWORD,
        None,
        "Password of the private key, where it is encrypted.",
        ANY,
        _HIGH,
        dynamic=True,
        group=_TLS,
    ),
    Setting(
        "ssl.truststore.type",
        _STRING,
        "PEM",
        "Format of the trust store: PEM, where a listener asks for certificates.",
        ANY,
        dynamic=True,
        group=_TLS,
        why_different=_PEM_WHY,
    ),
    Setting(
        "ssl.truststore.location",
        _STRING,
        None,
        "PEM file with the certificates of the authorities that clients' certificates must come from.",
        ANY,
        _HIGH,
        dynamic=True,
        group=_TLS,
    ),
    Setting(
        "ssl.truststore.certificates",
        _PASSWORD,
        None,
        "These certificates themselves, as PEM, in place of ssl.truststore.location.",
        ANY,
        _HIGH,
        dynamic=True,
        group=_TLS,
    ),
    Setting(
        "ssl.client.auth",
        _STRING,
        "none",
        "Whether a client must (required) or may (requested) show a certificate. Its subject is then who the client is, "
        "by ssl.principal.mapping.rules; on a SASL_SSL listener the certificate is checked and SASL says who it is.",
        one_of("required", "requested", "none"),
        dynamic=True,
        group=_TLS,
    ),
    Setting(
        "ssl.enabled.protocols",
        _LIST,
        ("TLSv1.2", "TLSv1.3"),
        "Versions of TLS that listeners speak.",
        some_of("TLSv1.2", "TLSv1.3"),
        dynamic=True,
        group=_TLS,
    ),
    Setting(
        "ssl.cipher.suites",
        _LIST,
        (),
        "Cipher suites of TLS 1.2, by their standard names (TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384) or OpenSSL's; empty for "
        "OpenSSL's choice of strong ones. TLS 1.3 has its own, all of which are allowed.",
        ANY,
        dynamic=True,
        group=_TLS,
    ),
    Setting(
        "ssl.principal.mapping.rules",
        _STRING,
        "DEFAULT",
        "How the subject of a client's certificate becomes a user: RULE:pattern/replacement/[LU] or DEFAULT (the whole "
        "subject), several separated by commas; the first whose pattern fits counts.",
        ANY,
        _LOW,
        group=_TLS,
    ),
    Setting(
        "ssl.handshake.timeout.ms",
        _INT,
        10_000,
        "Milliseconds that a client has for the TLS handshake; then it is disconnected.",
        at_least(1),
        _LOW,
        group=_TLS,
        own=True,
    ),
    Setting(
        "ssl.files.check.interval.ms",
        _LONG,
        60_000,
        "Milliseconds between two looks at the files of certificates and keys. One that changed is read again, and holds for "
        "connections that come from then on; one that can't be used is reported, and the last good one stays.",
        at_least(1000),
        _LOW,
        group=_TLS,
        own=True,
    ),
)

_SASL_ROWS: tuple[Setting, ...] = (
    Setting(
        "sasl.enabled.mechanisms",
        _LIST,
        ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        "SASL mechanisms of listeners that speak SASL_PLAINTEXT or SASL_SSL. PLAIN sends passwords as they are: use it under "
        "TLS. PLAIN and SCRAM check the users that `tidelog users create` or AlterUserScramCredentials made; OAUTHBEARER checks "
        "tokens (sasl.oauthbearer.jwks.endpoint.url) and needs the extra tidelog[oauth].",
        some_of(*MECHANISMS),
        group=_SASL,
        why_different="Kafka's default, GSSAPI, is not spoken here",
    ),
    Setting(
        "sasl.jaas.config",
        _PASSWORD,
        None,
        "Users of PLAIN and SCRAM in Kafka's spelling, for one listener and mechanism (listener.name.<name>.<mechanism>."
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";). Not '
        "needed: users of metadata.db are checked as well.",
        ANY,
        dynamic=True,
        group=_SASL,
    ),
    Setting(
        "connections.max.reauth.ms",
        _LONG,
        0,
        "Milliseconds after which a client has to authenticate again (KIP-368); one that goes on without is disconnected. 0: "
        "never.",
        ANY,
        group=_SASL,
    ),
    Setting(
        "connection.failed.authentication.delay.ms",
        _INT,
        100,
        "Milliseconds by which the answer to a failed authentication is held back, against guessing.",
        at_least(0),
        _LOW,
        group=_SASL,
    ),
    Setting(
        "sasl.server.max.receive.size",
        _INT,
        524288,
        "Largest request in bytes before a client is authenticated.",
        at_least(1024),
        group=_SASL,
        why_different="Kafka takes any number; below 1024 no client could begin",
    ),
    Setting(
        "sasl.authentication.timeout.ms",
        _INT,
        30_000,
        "Milliseconds that a client has from the connection to its authentication; then it is disconnected.",
        at_least(1),
        _LOW,
        group=_SASL,
        own=True,
    ),
)

SECURITY_ROWS: tuple[Setting, ...] = (*_TLS_ROWS, *_SASL_ROWS, *TOKEN_ROWS)
