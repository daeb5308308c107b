"""Principals: the identity of a client, `User:alice` in Kafka's spelling. From a certificate it is the subject as Java
writes it (RFC 2253), mapped by `ssl.principal.mapping.rules` (KIP-371).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

# OpenSSL's long names → RFC 2253's keywords. All others are written as an object identifier and DER in hexadecimal.
_KEYWORDS = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_UTF8, _PRINTABLE, _IA5 = 0x0C, 0x13, 0x16
# Long name → object identifier, and the string type that certificates give it.
_OTHERS = {
    "emailAddress": ("1.2.840.113549.1.9.1", _IA5),
    "serialNumber": ("2.5.4.5", _PRINTABLE),
    "title": ("2.5.4.12", _UTF8),
    "surname": ("2.5.4.4", _UTF8),
    "givenName": ("2.5.4.42", _UTF8),
    "initials": ("2.5.4.43", _UTF8),
    "generationQualifier": ("2.5.4.44", _UTF8),
    "dnQualifier": ("2.5.4.46", _PRINTABLE),
    "pseudonym": ("2.5.4.65", _UTF8),
    "businessCategory": ("2.5.4.15", _UTF8),
    "organizationIdentifier": ("2.5.4.97", _UTF8),
}

ANONYMOUS = "User:ANONYMOUS"
"""Principal of a client that did not authenticate."""


def user(name: str) -> str:
    return f"User:{name}"


def subject_of(certificate: Mapping[str, Any]) -> str:
    """The subject in RFC 2253's form, from the result of `SSLObject.getpeercert()`: the last part first, `CN=a,O=b`."""
    parts = reversed(certificate.get("subject", ()))
    return ",".join("+".join(_attribute(name, value) for name, value in part) for part in parts)


def _attribute(name: str, value: str) -> str:
    if name in _KEYWORDS:
        return f"{_KEYWORDS[name]}={_escaped(value)}"
    identifier, tag = _OTHERS.get(name, (name, _UTF8))
    content = value.encode()
    size = bytes([len(content)]) if len(content) < 128 else _long_size(len(content))
    return f"{identifier}=#{(bytes([tag]) + size + content).hex()}"


def _long_size(size: int) -> bytes:
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(digits)]) + digits


def _escaped(value: str) -> str:
    text = re.sub(r'([,=+<>#;"\\])', r"\\\1", value)
    if text.startswith(" "):
        text = "\\" + text
    if text.endswith(" ") and len(text) > 1:
        text = text[:-1] + "\\ "
    return text


class MappingRule(NamedTuple):
    """`pattern` None: the subject is used unchanged. `case` "L" or "U" changes the case of the result, "" does not."""

    pattern: Any
    replacement: str
    case: str


_RULE = re.compile(r"\s*(?:DEFAULT|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)", re.DOTALL)


def parse_rules(text: str) -> tuple[MappingRule, ...]:
    """Parse `ssl.principal.mapping.rules`. ValueError says which rule can't be read.

    Patterns are RE2's: what comes from outside is matched in linear time. Groups are `$1` to `$9` in a replacement.
    """
    rules: list[MappingRule] = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:
            raise ValueError(f"{text[position:]!r} is neither DEFAULT nor RULE:pattern/replacement/[L|U]")
        position = match.end()
        if match[1] is None:
            rules.append(MappingRule(None, "", ""))
            continue
        import re2

        options = re2.Options()
        options.log_errors = False
        try:
            pattern = re2.compile(match[1], options)
        except re2.error as error:
            raise ValueError(f"pattern {match[1]!r}: {error}") from None
        rules.append(MappingRule(pattern, match[2], match[3]))
    return tuple(rules) or (MappingRule(None, "", ""),)


def name_of(subject: str, rules: Iterable[MappingRule]) -> str | None:
    """User name for a subject, by the first rule whose pattern matches all of it; None if no rule matches."""
    for rule in rules:
        if rule.pattern is None:
            return subject
        match = rule.pattern.fullmatch(subject)
        if match is None:
            continue
        name = _filled(rule.replacement, match)
        return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name
    return None


def _filled(replacement: str, match: Any) -> str:
    """Insert the matched groups for `$1` … in the replacement; nothing for a group that does not exist."""

    def group(reference: re.Match[str]) -> str:
        number = int(reference[1])
        return (match[number] or "") if number <= match.re.groups else ""

    return re.sub(r"\$(\d)", group, replacement)
