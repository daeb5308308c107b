"""Authorizer: decides who may do what. APIs call it through `RequestContext.allows`.

`AclAuthorizer` (`authorizer.class.name`) decides by the rules in `metadata.db`, which clients change while it runs. Decisions are
kept until a rule changes, as produce and fetch ask the same again and again. A change is stored first, then it holds, then it
is acknowledged.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ....config.broker_config import super_users_of
from ....protocol.errors import ErrorCode, ProtocolError
from ....storage.exceptions import DataDirectoryError
from ...metadata.store import ACL
from ...runtime.cooperative import run_in_rounds
from .model import CLUSTER_NAME, Acl, AclOperation, PatternType, Permission, ResourceType
from .rules import EVERYBODY, AclFilter, AclRules, Policy, rule_words

if TYPE_CHECKING:
    from ....config.broker_config import BrokerConfig
    from ...metadata.store import MetadataStore
    from ...runtime.cooperative import Steps
    from .model import AclOperation, ResourceType


class Authorizer(ABC):
    """Makes access decisions; never blocks and never raises. Loop thread. Absent if `authorizer.class.name` is empty.

    `allowed` and `denied` count answers since the start; `rule_count` is how many rules there are.
    """

    allowed: int = 0
    denied: int = 0

    @property
    def rule_count(self) -> int:
        return 0

    @abstractmethod
    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """True if `principal` ("User:alice") from `host` (an address) may do this operation on this resource."""

    def is_known_to_allow(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """True if `allows` would be, and that is known without a look at the rules; counted as there. False: ask `allows`."""
        return False

    @abstractmethod
    def allows_any(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        """True if there may be a resource of this type, of any name, on which it may do this operation (KIP-679)."""

    def why(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> str:
        """The rule that decides this question, for a log line; "" if unknown. Not counted."""
        return ""


log = logging.getLogger(__name__)

_KEY = "rule"
"""Key of a rule's text in `metadata.db`, whose resource is the rule's id."""
_MOST_KNOWN = 10_000
"""Size of the cache of decisions, of about 300 bytes each."""
_AT_ONCE = 100
"""Rules that are made ready between two rounds of the loop."""
_MOST_FOUND = 100_000
"""Rules that one request may find and delete, counted once for each filter that finds it; or else all rules there are.
"""
_MOST_LOGGED = 20
"""Rules of one request that are logged one by one."""
_LONGEST_KNOWN = 512
"""Length up to which names are cached: longer ones could fill the memory."""


def acl_text(rule: Acl) -> str:
    """A rule as stored; `parse_acl` reads it."""
    return json.dumps([part.name if isinstance(part, int) else part for part in rule], ensure_ascii=False)


def parse_acl(text: str) -> Acl:
    """Parse `acl_text`. ValueError for anything else."""
    try:
        resource_type, name, pattern, principal, host, operation, permission = json.loads(text)
        rule = Acl(
            ResourceType[resource_type],
            name,
            PatternType[pattern],
            principal,
            host,
            AclOperation[operation],
            Permission[permission],
        )
        if not all(isinstance(part, str) for part in (name, principal, host)):
            raise ValueError
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ValueError(f"not a stored access rule: {text}") from None
    return rule


def stored_form(rules: Iterable[tuple[Acl, str]]) -> dict[str, dict[str, str]]:
    """(rule, id) in the form of `metadata.db`."""
    return {rule_id: {_KEY: acl_text(rule)} for rule, rule_id in rules}


def read_rules(stored: Mapping[str, Mapping[str, str]]) -> AclRules:
    """Rules from `metadata.db`.

    Raises ValueError for one that can't be read: without it, somebody might get in whom it kept out.
    """
    return AclRules((parse_acl(parts.get(_KEY, "")), rule_id) for rule_id, parts in stored.items())


def policy_of(super_users: str, everyone_without_rule: bool) -> Policy:
    """Policy of `super.users` and `allow.everyone.if.no.acl.found`."""
    return Policy(super_users_of(super_users), everyone_without_rule)


class AclAuthorizer(Authorizer):
    """The authorizer that decides by stored rules. Loop thread."""

    def __init__(
        self,
        stored: Mapping[str, Mapping[str, str]],
        store: MetadataStore,
        config: BrokerConfig,
        new_id: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        """`stored`: id → parts of the rule, as in `metadata.db`. ValueError for an unreadable one."""
        self.rules = read_rules(stored)
        self.policy = policy_of(config.super_users, config.allow_everyone_if_no_acl_found)
        self._store = store
        self._max_rules = config.max_acl_rules
        self._new_id = new_id
        self._alone = asyncio.Lock()
        # Both are emptied when a rule changes.
        self._known: dict[tuple[str, str, AclOperation, ResourceType, str], bool] = {}
        self._known_any: dict[tuple[str, str, AclOperation, ResourceType], bool] = {}

    @classmethod
    def read(cls, stored: Mapping[str, Mapping[str, str]], store: MetadataStore, config: BrokerConfig) -> AclAuthorizer:
        """Make an authorizer with the rules of `store`. Raises `DataDirectoryError` for an unreadable one."""
        try:
            return cls(stored, store, config)
        except ValueError as error:
            raise DataDirectoryError(
                store.path,
                str(error),
                "if a newer tidelog wrote it, start that one; else put a copy of the file in its place",
            ) from None

    def log_state(self) -> None:
        """Log at the start who may do what, and whether nobody could change it."""
        policy, rules = self.policy, self.rules
        users = ", ".join(sorted(policy.super_users)) or "none"
        log.info("access rules are on: %d rules, super users: %s", len(rules), users)
        for user in sorted(policy.super_users):
            if ",User:" in user:
                log.warning("super.users has one user %r: several have semicolons between them", user)
            if user == EVERYBODY:
                log.warning("super.users has %r, which is a user of that name and not everybody", user)
        if policy.super_users:
            return
        about_cluster = list(rules.about(ResourceType.CLUSTER, CLUSTER_NAME))
        if not about_cluster and policy.everyone_without_rule:
            log.warning(
                "allow.everyone.if.no.acl.found=true, and there is neither a super user nor a rule for the cluster: everybody "
                "may change the rules"
            )
        elif not any(_lets_change_rules(rule) for rule in about_cluster):
            log.warning(
                "there are no super.users, and no rule lets anybody ALTER the cluster: clients can't change the rules. Name a "
                "super user, or stop the daemon and use tidelog acls add ... --config FILE"
            )

    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        key = (principal, host, operation, resource_type, resource_name)
        allowed = self._known.get(key)
        if allowed is None:
            allowed = self.rules.decide(self.policy, *key).allowed
            if len(resource_name) <= _LONGEST_KNOWN:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[key] = allowed
        if allowed:
            self.allowed += 1
        else:
            self.denied += 1
        return allowed

    def is_known_to_allow(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        if self._known.get((principal, host, operation, resource_type, resource_name)):
            self.allowed += 1
            return True
        return False

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        key = (principal, host, operation, resource_type)
        allowed = self._known_any.get(key)
        if allowed is None:
            if len(self._known_any) >= _MOST_KNOWN:
                self._known_any.clear()
            allowed = self._known_any[key] = self.rules.allows_any(self.policy, *key)
        if allowed:
            self.allowed += 1
        else:
            self.denied += 1
        return allowed

    @property
    def rule_count(self) -> int:
        return len(self.rules)

    def why(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> str:
        decision = self.rules.decide(self.policy, principal, host, operation, resource_type, resource_name)
        return decision.reason if decision.rule is None else rule_words(decision.rule)

    async def create(self, rules: Sequence[Acl]) -> list[ProtocolError | None]:
        """Add rules, all that there is room for, in one commit; None for each rule that exists afterwards, else its
        error.

        Raises `KafkaStorageError`; then nothing changed. Goes on to its end when the client does not wait for it.
        """
        return await asyncio.shield(self._create(rules))

    async def _create(self, rules: Sequence[Acl]) -> list[ProtocolError | None]:
        async with self._alone:
            new: dict[Acl, str] = {}
            stored: dict[str, dict[str, str]] = {}
            results: list[ProtocolError | None] = []
            for number, rule in enumerate(rules, 1):
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
                refused = None
                if rule not in self.rules and rule not in new:
                    if len(self.rules) + len(new) >= self._max_rules:
                        refused = ProtocolError(
                            ErrorCode.POLICY_VIOLATION,
                            f"there are {self._max_rules} rules, as many as max.acl.rules allows",
                        )
                    else:
                        new[rule] = str(self._new_id())
                        stored |= stored_form([(rule, new[rule])])
                results.append(refused)
            if new:
                await self._store.set_resources(ACL, stored)
                for rule, rule_id in new.items():
                    self.rules.add(rule, rule_id)
                self._forget()
                _log_change("added", new)
            return results

    async def delete(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """Delete all rules that a filter finds, in one commit; returns the rules that each filter found.

        Raises `KafkaStorageError`, or `ProtocolError` where they find too many; then nothing changed. Goes on to its end
        when the client does not wait for it.
        """
        return await asyncio.shield(self._delete(filters))

    async def _delete(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        async with self._alone:
            found = await run_in_rounds(self._find(filters))  # nobody else changes rules meanwhile
            gone = dict.fromkeys(rule for rules in found for rule in rules)
            if gone:
                await self._store.set_resources(ACL, {self.rules.id_of(rule): {} for rule in gone})
                for rule in gone:
                    self.rules.remove(rule)
                self._forget()
                _log_change("removed", gone)
            return found

    def _find(self, filters: Sequence[AclFilter]) -> Steps[list[list[Acl]]]:
        """The rules that each filter finds: there may be very many of both, about one resource."""
        found: list[list[Acl]] = []
        room = max(_MOST_FOUND, len(self.rules))
        for wanted in filters:
            yield 1
            found.append((yield from self.rules.find_in_steps(wanted)))
            room -= len(found[-1])
            if room < 0:
                raise ProtocolError(
                    ErrorCode.INVALID_REQUEST,
                    f"the filters find more than {_MOST_FOUND} rules together: ask with fewer of them at once",
                )
        return found

    def _forget(self) -> None:
        self._known.clear()
        self._known_any.clear()


def _log_change(what: str, rules: Collection[Acl]) -> None:
    for rule in itertools.islice(rules, _MOST_LOGGED):
        log.info("access rule %s: %s", what, rule_words(rule))
    if len(rules) > _MOST_LOGGED:
        log.info("%d more access rules were %s with these", len(rules) - _MOST_LOGGED, what)


def _lets_change_rules(rule: Acl) -> bool:
    return rule.permission is Permission.ALLOW and rule.operation in (AclOperation.ALTER, AclOperation.ALL)
