"""TLS contexts made from PEM files and settings, and their renewal while connections are open.

A context belongs to one listener. `TlsListener.context` is what new connections are made with; when files or settings change, a
new context takes its place, and what is open stays as it is. A certificate that can't be used never replaces one that can.
"""

from __future__ import annotations

import logging
import os
import ssl
from typing import TYPE_CHECKING, NamedTuple

from ...config.exceptions import ConfigError
from ...storage.io.platform import as_file

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig

log = logging.getLogger(__name__)

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_ASKS = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_FILES = ("ssl.keystore.location", "ssl.truststore.location")
_SETTINGS = (
    *_FILES, "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.key.password", "ssl.truststore.certificates",
    "ssl.client.auth", "ssl.enabled.protocols", "ssl.cipher.suites",
)  # fmt: skip


class TlsError(ConfigError):
    """Certificates or keys can't be used; the text says which, why, and what to do."""

    def __init__(self, problem: str) -> None:
        super().__init__([problem])


class FileState(NamedTuple):
    """Identity of a file's contents for noticing a replacement, which may have the same size, or the same second."""

    device: int
    inode: int
    size: int
    modified_ns: int


class TlsListener:
    """TLS of one listener. Made before its socket is bound; `context` is read on the loop thread, other methods may
    block.
    """

    def __init__(self, listener: str, config: BrokerConfig) -> None:
        """Raises `TlsError` naming the setting that is wrong."""
        self.listener = listener
        self.reloads = 0
        self.failed_reloads = 0
        self._values = _values(config, listener)
        self._files = _states(self._values)
        self.context = make_context(self._values)
        self.not_after_s = expiry_s(self._values)
        """Expiry of the certificate, in seconds since 1970; 0 if unknown."""

    def is_changed(self, config: BrokerConfig) -> bool:
        """True if the settings differ from those in force."""
        return _values(config, self.listener) != self._values

    def try_settings(self, config: BrokerConfig) -> None:
        """Raise `TlsError` if a configuration gives no context; called before a change is accepted."""
        make_context(_values(config, self.listener))

    def renew(self, config: BrokerConfig) -> bool:
        """Make a new context if settings or files have changed; True when a new one is in force.

        A context that can't be made is reported once for each state of the files, and the old one stays. Pool thread.
        """
        values = _values(config, self.listener)
        files = _states(values)
        if values == self._values and files == self._files:
            return False
        self._files = files  # a broken file is complained of once
        try:
            context = make_context(values)
        except TlsError as error:
            self.failed_reloads += 1
            log.error("%s: the certificates in use stay, as what is there now can't be used: %s", self.listener, error)
            return False
        self._values, self.context = values, context
        self.not_after_s = expiry_s(values)
        self.reloads += 1
        log.info("%s: certificates were read again and hold for new connections", self.listener)
        return True


def make_context(values: dict[str, object]) -> ssl.SSLContext:
    """Make a server's context. `values`: by setting, as `_SETTINGS`. Raises `TlsError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A client that renegotiates makes the server work for nothing; compression gives secrets away.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    versions = sorted(_VERSIONS[name] for name in values["ssl.enabled.protocols"])  # type: ignore[attr-defined]
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if suites := values["ssl.cipher.suites"]:
        _set_ciphers(context, suites)  # type: ignore[arg-type]
    _load_own(context, values)
    asks = str(values["ssl.client.auth"])
    if asks != "none":
        _load_authorities(context, values)
    context.verify_mode = _ASKS[asks]
    return context


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a TLS 1.2 cipher suite, given its standard name; other names are returned unchanged."""
    if "_WITH_" not in suite:
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    for standard, openssl in (
        ("AES_128_", "AES128_"), ("AES_256_", "AES256_"), ("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305"),
        ("AES128_CBC_", "AES128_"), ("AES256_CBC_", "AES256_"),
    ):  # fmt: skip
        cipher = cipher.replace(standard, openssl)
    parts = [] if exchange == "RSA" else [exchange]
    return "_".join([*parts, cipher]).replace("_", "-")


def expiry_s(values: dict[str, object]) -> int:
    """Expiry of the listener's certificate as a client sees it, in seconds since 1970; 0 if no client would accept it.

    Shakes hands with itself in memory, asking for no certificate of the client's: OpenSSL tells it without a parser of ours.
    """
    context = make_context({**values, "ssl.client.auth": "none"})
    chain = _text(values, "ssl.keystore.certificate.chain")
    begin = chain.find("-----BEGIN CERTIFICATE-----")
    end = chain.find("-----END CERTIFICATE-----", begin)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.minimum_version, client.maximum_version = context.minimum_version, context.maximum_version
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        client.load_verify_locations(cadata=chain[begin : end + len("-----END CERTIFICATE-----")] + "\n")
        ours = context.wrap_bio(to_server, to_client, server_side=True)
        theirs = client.wrap_bio(to_client, to_server)
        for side in (theirs, ours) * 3:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
        certificate = theirs.getpeercert() or {}
    except (ssl.SSLError, ValueError) as error:
        log.warning("the certificate is not valid today: %s", error)
        return 0
    return int(ssl.cert_time_to_seconds(str(certificate["notAfter"]))) if "notAfter" in certificate else 0


def _text(values: dict[str, object], setting: str) -> str:
    """PEM text from a setting, or else from the file; "" if unreadable."""
    if values[setting] is not None:
        return str(values[setting])
    try:
        with open(str(values["ssl.keystore.location"]), encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _values(config: BrokerConfig, listener: str) -> dict[str, object]:
    return {name: config.of_listener(listener, name) for name in _SETTINGS}


def _states(values: dict[str, object]) -> tuple[FileState | None, ...]:
    return tuple(_state(values[name]) for name in _FILES)


def _state(path: object) -> FileState | None:
    try:
        status = os.stat(str(path)) if path else None
    except OSError:
        return None
    return status and FileState(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _set_ciphers(context: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    older = [openssl_name(suite) for suite in suites if not suite.startswith("TLS_") or "_WITH_" in suite]
    if not older:
        return  # TLS 1.3's only, which are all allowed
    for name, suite in zip(older, suites, strict=False):
        try:
            context.set_ciphers(name)
        except ssl.SSLError:
            raise TlsError(
                f"ssl.cipher.suites: OpenSSL knows no {suite!r}; `openssl ciphers -stdname` lists what it knows"
            ) from None
    context.set_ciphers(":".join(older))


def _load_own(context: ssl.SSLContext, values: dict[str, object]) -> None:
    password = str(values["ssl.key.password"] or "")
    location, chain, key = (
        values[name] for name in ("ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key")
    )
    setting = "ssl.keystore.location" if location else "ssl.keystore.key"
    what = f"{setting}={location}" if location else "ssl.keystore.certificate.chain and ssl.keystore.key"
    try:
        if location:
            context.load_cert_chain(str(location), password=lambda: password)
        else:
            with as_file(str(chain)) as chain_file, as_file(str(key)) as key_file:
                context.load_cert_chain(chain_file, key_file, password=lambda: password)
    except ssl.SSLError as error:
        reason = (error.reason or "").upper()
        if "KEY_VALUES_MISMATCH" in reason:
            why = "the private key is not that of the first certificate"
        elif "ENCRYPTED" in _text(values, "ssl.keystore.key"):  # OpenSSL does not say which it was
            why = "ssl.key.password is wrong, or missing"
        elif "KEY_TOO_SMALL" in reason or "MD_TOO_WEAK" in reason:
            why = f"OpenSSL finds the key or its signature too weak ({reason.lower().replace('_', ' ')})"
        else:
            why = "it must have the private key and the certificate chain as PEM, the listener's own certificate first"
        raise TlsError(f"{what}: {why}") from None
    except OSError as error:
        raise TlsError(f"{what}: can't be read: {error.strerror}") from None


def _load_authorities(context: ssl.SSLContext, values: dict[str, object]) -> None:
    location, certificates = values["ssl.truststore.location"], values["ssl.truststore.certificates"]
    what = f"ssl.truststore.location={location}" if location else "ssl.truststore.certificates"
    try:
        if location:
            context.load_verify_locations(str(location))
        else:
            context.load_verify_locations(cadata=str(certificates))
    except ssl.SSLError:
        raise TlsError(f"{what}: it must have certificates of authorities, as PEM") from None
    except OSError as error:
        raise TlsError(f"{what}: can't be read: {error.strerror}") from None
