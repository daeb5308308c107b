"""Names out of certificates, as Java's X500Principal and Kafka's rules make them (KIP-371)."""

from __future__ import annotations

from typing import Any

import pytest
from tidelog.broker.security.principal import name_of, parse_rules, subject_of


def certificate(*parts: tuple[str, str]) -> dict[str, Any]:
    return {"subject": tuple((part,) for part in parts)}


@pytest.mark.parametrize(
    ("parts", "subject"),
    [
        ((("countryName", "DE"), ("organizationName", "ACME"), ("commonName", "alice")), "CN=alice,O=ACME,C=DE"),
        ((("commonName", "a,b+c\\d"),), "CN=a\\,b\\+c\\\\d"),
        ((("commonName", " a "),), "CN=\\ a\\ "),
        ((("domainComponent", "org"), ("domainComponent", "example"), ("userId", "u")), "UID=u,DC=example,DC=org"),
        ((("emailAddress", "a@b"),), "1.2.840.113549.1.9.1=#1603614062"),
        ((("title", "x" * 200),), "2.5.4.12=#0c81c8" + "78" * 200),
        ((("1.2.3.4", "é"),), "1.2.3.4=#0c02c3a9"),
        ((), ""),
    ],
)
def test_a_subject_is_written_as_java_writes_it(parts: tuple[tuple[str, str], ...], subject: str) -> None:
    assert subject_of(certificate(*parts)) == subject


def test_parts_with_several_attributes_stay_together() -> None:
    both = {"subject": ((("commonName", "a"), ("userId", "b")), (("organizationName", "c"),))}
    assert subject_of(both) == "O=c,CN=a+UID=b"


# The examples of KIP-371.
KIP_371 = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,"
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("O=Unknown,cn=JQ.Public", "jq.public"),
        ("O=Unknown", "O=Unknown"),
    ],
)
def test_the_first_rule_that_fits_counts(subject: str, name: str) -> None:
    assert name_of(subject, parse_rules(KIP_371)) == name


def test_slashes_and_commas_within_a_rule_and_upper_case() -> None:
    rules = parse_rules(r"RULE:^CN=(a\/b),.*$/x\,$1$9/U")
    assert name_of("CN=a/b,O=c", rules) == "X\\,A/B"
    assert name_of("CN=other", rules) is None, "no rule fits, and there is no DEFAULT"
    assert name_of("CN=x", parse_rules("")) == "CN=x"


@pytest.mark.parametrize("text", ["RULE:x", "RULE:(/a/", "rule:a/b/", "DEFAULT;DEFAULT", r"RULE:(a)\1/b/"])
def test_a_rule_that_can_not_be_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"RULE|pattern|neither"):
        parse_rules(text)
