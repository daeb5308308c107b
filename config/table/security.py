"""The settings of security: TLS, SASL, OAUTHBEARER's tokens, access control, users of HTTP.

Most of TLS and SASL can be set for one listener alone, as `listener.name.<name>.<setting>` (`listener_settings.py`). None of
HTTP's changes while the daemon runs: users who may change settings by Kafka's protocol could let themselves in by HTTP.
"""

from __future__ import annotations

from ..setting import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    PASSWORD,
    STRING,
    Allowed,
    Group,
    Setting,
    at_least,
    one_of,
    some_of,
)

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
        doc="Audiences of which a token must name one (aud). OAUTHBEARER needs it, or "
            "sasl.oauthbearer.allow.unverified.audience=true.",
    ),
    Setting(
        _PREFIX + "expected.issuer", type=STRING, default=None, group=Group.SASL, importance=HIGH,
        doc="The issuer that a token must name (iss). OAUTHBEARER needs it, or sasl.oauthbearer.allow.unverified.issuer=true.",
    ),
    Setting(
        _PREFIX + "allow.unverified.audience", type=BOOLEAN, default=False, group=Group.SASL,
        doc="Whether tokens are let in whatever audience they name, or none, where sasl.oauthbearer.expected.audience is not "
            "set: also those that were made for somebody else.",
    ),
    Setting(
        _PREFIX + "allow.unverified.issuer", type=BOOLEAN, default=False, group=Group.SASL,
        doc="Whether tokens of any issuer are let in, if a key at sasl.oauthbearer.jwks.endpoint.url signed them, where "
            "sasl.oauthbearer.expected.issuer is not set.",
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


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The SASL mechanisms that there are."""

_PEM_WHY = (
    "PEM is the one format that is read here; docs/how-to/tls-and-users.md#a-java-key-store has how to convert a Java key store"
)

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


AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Class names of Kafka's authorizers: today's, and the one of ZooKeeper's days."""

# fmt: off
ACCESS_ROWS: tuple[Setting, ...] = (
    Setting(
        "authorizer.class.name", type=STRING, default="",
        allowed=Allowed(choices=("", *AUTHORIZERS),
                        text=f"empty, {AUTHORIZERS[0]} or {AUTHORIZERS[1]}; Java plug-ins can't be loaded"),
        group=Group.ACCESS, importance=LOW,
        doc=f"{AUTHORIZERS[0]} (or {AUTHORIZERS[1]}, as older files have it) switches access rules on: a client may then do what "
        "super.users or a rule lets it do. Empty: whoever is let in may do everything.",
        why_different="Java plug-ins can't be loaded, and starting without the one that was named would let everybody in",
    ),
    Setting(
        "super.users", type=STRING, default="",
        allowed=Allowed(pattern=r"^(\s*|[^:;]+:[^;]+)(;(\s*|[^:;]+:[^;]+))*$",
                        text="User:NAME, several with semicolons between them"),
        group=Group.ACCESS, importance=HIGH, own=True,
        doc="Users who may do everything whatever the rules say, as in User:admin;User:CN=ops,O=example: semicolons between "
            "them, since a certificate's subject has commas. Kafka's setting for its authorizer.",
    ),
    Setting(
        "allow.everyone.if.no.acl.found", type=BOOLEAN, default=False, group=Group.ACCESS, importance=HIGH, own=True,
        doc="Whether everybody may do everything with a resource that no rule is about. One rule for a resource ends that for "
            "it. Kafka's setting for its authorizer.",
    ),
    Setting(
        "max.acl.rules", type=INT, default=20_000, allowed=at_least(1), group=Group.ACCESS, importance=LOW, own=True,
        doc="Most access rules that are kept; each takes about half a KiB of memory. CreateAcls answers POLICY_VIOLATION to "
            "those above it.",
    ),
)


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
