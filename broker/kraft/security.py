"""Users with SCRAM credentials and access rules, between Apache Kafka's metadata records and `metadata.db`: the same facts in
both, so that a directory can go from the one to the other and back and let in the same people.

Records that only a newer Kafka understands (a mechanism, an operation, a type of resource that is not known here) are not taken
over, with a line in the log, and handed back as they came.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from ...protocol.metadata_records import AccessControlEntryRecord, UserScramCredentialRecord
from ..metadata.store import ACL, SCRAM
from ..security.acl.authorizer import read_rules, stored_form
from ..security.acl.rules import acl_of
from ..security.credentials import NUMBERS, Credential, parse_credential

if TYPE_CHECKING:
    from ...protocol.metadata_records import MetadataRecord
    from ..security.acl.model import Acl

    Resources = Mapping[str, Mapping[str, Mapping[str, str]]]

log = logging.getLogger(__name__)


def is_ours(record: MetadataRecord) -> bool:
    """True if `metadata.db` holds this record's content after an import."""
    match record:
        case UserScramCredentialRecord():
            return record.mechanism in NUMBERS
        case AccessControlEntryRecord():
            return _rule(record) is not None
        case _:
            return False


def security_resources(
    records: Iterable[MetadataRecord], before: Resources | None = None
) -> dict[str, dict[str, dict[str, str]]]:
    """Users and rules as `metadata.db` has them. Users and rules of `before`, if given, stay; the records win.

    ValueError where a rule of `before` can't be read.
    """
    before = before or {}
    users = {name: dict(own) for name, own in before.get(SCRAM, {}).items()}
    rules = {rule: rule_id for rule_id, rule in _rules(before)}
    for record in records:
        if isinstance(record, UserScramCredentialRecord):
            if record.mechanism in NUMBERS:
                credential = Credential(record.salt, record.stored_key, record.server_key, record.iterations)
                users.setdefault(record.name, {})[NUMBERS[record.mechanism]] = credential.text()
            else:
                log.warning(
                    "user %r has a credential of a kind that is not known here (%d)", record.name, record.mechanism
                )
        elif isinstance(record, AccessControlEntryRecord):
            if (rule := _rule(record)) is not None:
                rules[rule] = str(UUID(bytes=record.id))
            else:
                log.warning("a rule for %r is about things that are not known here: %s", record.principal, record)
    found = {SCRAM: users, ACL: stored_form(rules.items())}
    return {kind: resources for kind, resources in found.items() if resources}


def security_records(resources: Resources) -> Iterator[MetadataRecord]:
    """Records of the users and rules in `metadata.db`. ValueError where it can't be read."""
    numbers = {name: number for number, name in NUMBERS.items()}
    for user, texts in resources.get(SCRAM, {}).items():
        for mechanism, text in texts.items():
            credential = parse_credential(text)
            yield UserScramCredentialRecord(
                name=user,
                mechanism=numbers[mechanism],
                salt=credential.salt,
                stored_key=credential.stored_key,
                server_key=credential.server_key,
                iterations=credential.iterations,
            )
    for rule_id, rule in _rules(resources):
        yield AccessControlEntryRecord(
            id=UUID(rule_id).bytes,
            resource_type=rule.resource_type,
            resource_name=rule.resource_name,
            pattern_type=rule.pattern_type,
            principal=rule.principal,
            host=rule.host,
            operation=rule.operation,
            permission_type=rule.permission,
        )


def _rules(resources: Resources) -> list[tuple[str, Acl]]:
    rules = read_rules(resources.get(ACL, {}))
    return [(rules.id_of(rule), rule) for rule in rules]


def _rule(record: AccessControlEntryRecord) -> Acl | None:
    try:
        return acl_of(record, record)
    except ValueError:
        return None
