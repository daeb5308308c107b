"""AclRules: access rules indexed by resource, and the decision that follows from them: Kafka's StandardAuthorizer.

- A rule is about a resource when it names it, names what its name begins with (prefixed), or names `*`.
- It is about a client when its principal is the client's or `User:*`, and its host the client's address, a range of addresses
  that has it (`10.0.0.0/8`, KIP-1276) or `*`.
- A rule that denies beats all that allow. Nothing that fits: denied, except where everybody is allowed what no rule,
  whoever it is for, is about.
- A principal that may READ, WRITE, DELETE or ALTER may DESCRIBE, and one that may ALTER_CONFIGS may DESCRIBE_CONFIGS. To deny
  the one does not deny the other. ALL is every operation, to allow and to deny.

Nothing here waits or stores: the daemon's authorizer and `tidelog acls explain` decide with it.

`new_rule` and `new_filter` make rules and filters of the numbers and texts of requests, and check them as Kafka does; the error
is INVALID_REQUEST. Beyond Kafka's checks texts have a bound (`LONGEST_TEXT`), since rules stay in memory.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ....protocol.errors import ErrorCode, ProtocolError
from ...runtime.cooperative import Steps
from .model import CLUSTER_NAME, EVERYTHING, Acl, AclOperation, PatternType, Permission, ResourceType

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    from ....protocol.messages.delete_acls import DeleteAclsMatchingAcl
    from ....protocol.messages.describe_acls import AclDescription, DescribeAclsResource
    from ....protocol.metadata_records import AccessControlEntryRecord

EVERYBODY = "User:*"
"""The principal of rules for all users."""

_DESCRIBE = frozenset(
    (AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
)
_DESCRIBE_CONFIGS = frozenset((AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS))
_ALLOWED_BY: Mapping[AclOperation, frozenset[AclOperation]] = {
    operation: {AclOperation.DESCRIBE: _DESCRIBE, AclOperation.DESCRIBE_CONFIGS: _DESCRIBE_CONFIGS}.get(
        operation, frozenset((operation,))
    )
    | {AclOperation.ALL}
    for operation in AclOperation
}
"""Operation → operations that imply it when a rule allows them."""

_LOOKS_IN_A_UNIT = 8
"""Rules examined in one unit of chunked work."""
_ANY_NAME = "hardcode"
"""Name with which Kafka asks whether a client may use any resource of a type: a rule whose prefix matches it, or a
default for it, counts. Clients can observe that, so it is the same here.
"""


class Policy(NamedTuple):
    """Decisions without rules: `super.users`, and whether everybody may use a resource that no rule is about."""

    super_users: frozenset[str] = frozenset()
    everyone_without_rule: bool = False


class Decision(NamedTuple):
    """A decision and its reason. `rule` is the one that decides; of several the most specific.

    `reason` is one of "super user", "rule", "no rule is about it" (the default holds) and "no rule allows it".
    """

    allowed: bool
    reason: str
    rule: Acl | None = None


class AclFilter(NamedTuple):
    """Search for rules. None and ANY match all. Pattern type MATCH finds rules that apply to the resource of that name."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: Permission = Permission.ANY

    def fits(self, rule: Acl) -> bool:
        """True if the filter finds this rule."""
        return (
            (self.resource_type is ResourceType.ANY or self.resource_type is rule.resource_type)
            and self._fits_name(rule)
            and (self.principal is None or self.principal == rule.principal)
            and (self.host is None or self.host == rule.host)
            and (self.operation is AclOperation.ANY or self.operation is rule.operation)
            and (self.permission is Permission.ANY or self.permission is rule.permission)
        )

    def _fits_name(self, rule: Acl) -> bool:
        name = self.resource_name
        if self.pattern_type is PatternType.MATCH:
            return name is None or is_about(rule, name)
        if self.pattern_type not in (PatternType.ANY, rule.pattern_type):
            return False
        return name is None or name == rule.resource_name


def rule_words(rule: Acl) -> str:
    """A rule as arguments of `tidelog acls add`: `User:alice allow READ topic orders- --prefixed --host 10.0.0.7`."""
    words = [
        rule.principal,
        rule.permission.name.lower(),
        rule.operation.name,
        rule.resource_type.name.lower().replace("_", "-"),
        rule.resource_name,
    ]
    options = ["--prefixed"] if rule.pattern_type is PatternType.PREFIXED else []
    if rule.host != EVERYTHING:
        options += ["--host", rule.host]
    return shlex.join(words + options)


def is_about(rule: Acl, name: str) -> bool:
    """True if a rule applies to the resource of this name, given that the type matches."""
    if rule.pattern_type is PatternType.PREFIXED:
        return name.startswith(rule.resource_name)
    return rule.resource_name in (name, EVERYTHING)


def canonical_host(host: str) -> str:
    """Canonical spelling of an address: IPv6 without zone, IPv4 in IPv6 as IPv4. Other text is returned unchanged."""
    if ":" not in host:
        return host
    import ipaddress

    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)


def is_range(host: str) -> bool:
    """True if a rule's host is written as a range of addresses; whether it is a valid one, `address_range` tells."""
    return "/" in host


@lru_cache(maxsize=4096)  # a rule is asked with each new client
def address_range(host: str) -> IPv4Network | IPv6Network | None:
    """Addresses that ADDRESS/BITS stands for, the address being any of them; None for other text."""
    import ipaddress

    address, _, bits = host.partition("/")
    if not (bits.isascii() and bits.isdecimal()):  # no masks as in 10.0.0.0/255.0.0.0, which Python reads too
        return None
    try:
        found = ipaddress.ip_network(f"{address}/{bits}", strict=False)
    except ValueError:
        return None
    mapped = found.network_address.ipv4_mapped if isinstance(found, ipaddress.IPv6Network) else None
    if mapped is not None and found.prefixlen >= _MAPPED_BITS:  # clients' addresses are compared as IPv4
        return ipaddress.IPv4Network((mapped, found.prefixlen - _MAPPED_BITS))
    return found


_MAPPED_BITS = 96
"""Bits of an IPv6 address in front of the IPv4 address that it stands for."""


def _is_within(host: str, wanted: str) -> bool:
    """True if `host`, canonical, is an address of the range `wanted`."""
    import ipaddress

    found = address_range(wanted)
    if found is None:
        return False
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.version == found.version and address in found


class _OfType:
    """Rules about one type of resource."""

    __slots__ = ("lengths", "literal", "prefixed", "sizes")

    def __init__(self) -> None:
        # Name → rules, in order: of thousands for one name any may go.
        self.literal: dict[str, dict[Acl, None]] = {}
        self.prefixed: dict[str, dict[Acl, None]] = {}
        # Number of prefixes of each length, and the lengths from the longest on.
        self.sizes: Counter[int] = Counter()
        self.lengths: tuple[int, ...] = ()

    def names(self, rule: Acl) -> dict[str, dict[Acl, None]]:
        return self.prefixed if rule.pattern_type is PatternType.PREFIXED else self.literal

    def count(self, name: str, by: int) -> None:
        length = len(name)
        self.sizes[length] += by
        if (self.sizes[length] > 0) != (length in self.lengths):
            self.lengths = tuple(sorted((size for size, count in self.sizes.items() if count), reverse=True))


class AclRules:
    """A set of rules, each with an id. One thread changes it and decides; any thread may call `len`."""

    def __init__(self, rules: Mapping[Acl, str] | Iterable[tuple[Acl, str]] = ()) -> None:
        """`rules`: rule → id."""
        self._ids: dict[Acl, str] = {}
        self._types: dict[ResourceType, _OfType] = {}
        # Rules of one user about one type, in order: `allows_any` does not know a name.
        self._users: dict[tuple[ResourceType, str], dict[Acl, None]] = {}
        for rule, rule_id in dict(rules).items():
            self.add(rule, rule_id)

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._ids)

    def __contains__(self, rule: Acl) -> bool:
        return rule in self._ids

    def id_of(self, rule: Acl) -> str:
        return self._ids[rule]

    def add(self, rule: Acl, rule_id: str) -> None:
        """Add a rule, unless it is there."""
        if rule in self._ids:
            return
        self._ids[rule] = rule_id
        self._users.setdefault((rule.resource_type, rule.principal), {})[rule] = None
        of_type = self._types.setdefault(rule.resource_type, _OfType())
        names = of_type.names(rule)
        if rule.resource_name not in names:
            names[rule.resource_name] = {}
            if names is of_type.prefixed:
                of_type.count(rule.resource_name, 1)
        names[rule.resource_name][rule] = None

    def remove(self, rule: Acl) -> None:
        """Remove a rule, if it is there."""
        if self._ids.pop(rule, None) is None:
            return
        user = (rule.resource_type, rule.principal)
        del self._users[user][rule]
        if not self._users[user]:
            del self._users[user]
        of_type = self._types[rule.resource_type]
        names = of_type.names(rule)
        del names[rule.resource_name][rule]
        if not names[rule.resource_name]:
            del names[rule.resource_name]
            if names is of_type.prefixed:
                of_type.count(rule.resource_name, -1)

    def about(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        """Rules about one resource: literal ones first, then prefixes from the longest on, `*` last."""
        of_type = self._types.get(resource_type)
        if of_type is None:
            return
        yield from of_type.literal.get(name, ())
        prefixed, size = of_type.prefixed, len(name)
        for length in of_type.lengths:
            if length <= size and (found := prefixed.get(name[:length])):
                yield from found
        if name != EVERYTHING:
            yield from of_type.literal.get(EVERYTHING, ())

    def find(self, wanted: AclFilter) -> list[Acl]:
        """Rules that match a filter. Examines every rule only if the filter names no resource."""
        return [rule for rule in self._candidates(wanted) if wanted.fits(rule)]

    def find_in_steps(self, wanted: AclFilter) -> Steps[list[Acl]]:
        """As `find`, in chunks (`runtime/cooperative.py`): finds rules that were there at the beginning and still are."""
        found = []
        for number, rule in enumerate(list(self._candidates(wanted))):
            if rule in self._ids and wanted.fits(rule):
                found.append(rule)
            if number % _LOOKS_IN_A_UNIT == 0:
                yield 1
        return found

    def _candidates(self, wanted: AclFilter) -> Iterable[Acl]:
        name = wanted.resource_name
        if name is None:
            return self._ids
        types = tuple(self._types) if wanted.resource_type is ResourceType.ANY else (wanted.resource_type,)
        if wanted.pattern_type is PatternType.MATCH:
            return (rule for kind in types for rule in self.about(kind, name))
        return (
            rule
            for kind in types
            if (of_type := self._types.get(kind)) is not None
            for names in (of_type.literal, of_type.prefixed)
            for rule in names.get(name, ())
        )

    def decide(
        self,
        policy: Policy,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> Decision:
        """Decide if `principal` from `host` may do this operation on this resource."""
        if principal in policy.super_users:
            return Decision(True, "super user")
        host, allowed_by = canonical_host(host), _ALLOWED_BY[operation]
        allowing: Acl | None = None
        is_any_about = False
        for rule in self.about(resource_type, resource_name):
            is_any_about = True
            if not _is_for(rule, principal, host):
                continue
            if rule.permission is Permission.ALLOW:
                if allowing is None and rule.operation in allowed_by:
                    allowing = rule
            elif rule.operation in (operation, AclOperation.ALL):
                return Decision(False, "rule", rule)
        if allowing is not None:
            return Decision(True, "rule", allowing)
        if is_any_about:
            return Decision(False, "no rule allows it")
        return Decision(policy.everyone_without_rule, "no rule is about it")

    def concerned(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> list[Acl]:
        """Rules that bear on such a question, denying ones first."""
        host, allowed_by = canonical_host(host), _ALLOWED_BY[operation]
        found = [rule for rule in self.about(resource_type, resource_name) if _is_for(rule, principal, host)]
        denying = [
            rule
            for rule in found
            if rule.permission is Permission.DENY and rule.operation in (operation, AclOperation.ALL)
        ]
        return denying + [
            rule for rule in found if rule.permission is Permission.ALLOW and rule.operation in allowed_by
        ]

    def allows_any(
        self, policy: Policy, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """True if some resource of this type is open to `principal` for `operation` (KIP-679).

        As in Kafka: what other operations imply does not count, and of what is denied, only what covers a rule that
        allows: the same name, a prefix of its name, or `*`.
        """
        if self.decide(policy, principal, host, operation, resource_type, _ANY_NAME).allowed:
            return True
        host = canonical_host(host)
        allowed: list[Acl] = []
        denied_names: set[str] = set()
        denied_prefixes: set[str] = set()
        own = (self._users.get((resource_type, whose), ()) for whose in {principal, EVERYBODY})
        for rule in chain.from_iterable(own):
            if rule.operation not in (operation, AclOperation.ALL) or not _is_for(rule, principal, host):
                continue
            if rule.permission is Permission.ALLOW:
                allowed.append(rule)
            elif rule.pattern_type is PatternType.PREFIXED:
                denied_prefixes.add(rule.resource_name)
            elif rule.resource_name == EVERYTHING:
                return False
            else:
                denied_names.add(rule.resource_name)
        return any(_is_open(rule, denied_names, denied_prefixes) for rule in allowed)


def _is_for(rule: Acl, principal: str, host: str) -> bool:
    """True if the rule applies to this principal and host; `host` is canonical."""
    if rule.principal not in (principal, EVERYBODY):
        return False
    if rule.host in (host, EVERYTHING):
        return True
    if is_range(rule.host):
        return _is_within(host, rule.host)
    return ":" in rule.host and canonical_host(rule.host) == host


def _is_open(rule: Acl, denied_names: set[str], denied_prefixes: set[str]) -> bool:
    """True if the denying rules leave some of the resources that `rule` allows."""
    name = rule.resource_name
    if rule.pattern_type is PatternType.LITERAL:
        if name == EVERYTHING:
            return True
        if name in denied_names:
            return False
    return not any(name[:length] in denied_prefixes for length in range(1, len(name) + 1))


E = TypeVar("E", bound=IntEnum)

ADDRESS_RANGES_LEVEL = 32
"""The level of metadata.version from which a rule's host may be a range of addresses: Kafka 4.4's, older ones would take it
for an address that nobody has."""
LONGEST_TEXT = 2048
"""Maximum length of a name, a principal or a host in characters; a certificate's subject has a few hundred."""


def new_rule(
    resource_type: int,
    resource_name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
    *,
    ranges: bool = True,
) -> Acl:
    """Make a rule to add; `ranges`: its host may be a range of addresses. Raises `ProtocolError`."""
    rule = Acl(
        _one_of(ResourceType, resource_type, "resource type"),
        resource_name,
        _one_of(PatternType, pattern_type, "pattern type"),
        principal,
        host,
        _one_of(AclOperation, operation, "operation"),
        _one_of(Permission, permission, "permission type"),
    )
    if rule.resource_type is ResourceType.ANY:
        raise _refused("Invalid resourceType ANY")
    if rule.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _refused(f"Invalid patternType {rule.pattern_type.name}")
    if rule.operation is AclOperation.ANY:
        raise _refused("Invalid operation ANY")
    if rule.permission not in (Permission.ALLOW, Permission.DENY):
        raise _refused(f"Invalid permissionType {rule.permission.name}")
    if rule.resource_type is ResourceType.CLUSTER and resource_name != CLUSTER_NAME:
        raise _refused(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not resource_name:
        raise _refused("Invalid empty resource name")
    if ":" not in principal:
        raise _refused(f"Could not parse principal {principal!r}: it has no colon, as in User:alice")
    for text in (resource_name, principal, host):
        if len(text) > LONGEST_TEXT:
            raise _refused(f"a name, principal or host has {len(text)} characters; at most {LONGEST_TEXT} are kept")
    if is_range(host):
        if not ranges:
            raise ProtocolError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"CIDR-based ACL host patterns require metadata.version {ADDRESS_RANGES_LEVEL} or higher: raise it by "
                "kafka-features.sh upgrade --metadata 4.4-IV1",
            )
        if address_range(host) is None:
            raise _refused(f"Invalid CIDR notation: {host!r} is not ADDRESS/BITS, as in 10.0.0.0/8")
    return rule


def acl_of(
    resource: DescribeAclsResource | DeleteAclsMatchingAcl | AccessControlEntryRecord,
    entry: AclDescription | DeleteAclsMatchingAcl | AccessControlEntryRecord,
) -> Acl:
    """Make the rule that a broker told, or wrote: `entry`, about `resource`. ValueError: a number that is not known here."""
    return Acl(
        ResourceType(resource.resource_type),
        resource.resource_name,
        PatternType(resource.pattern_type),
        entry.principal,
        entry.host,
        AclOperation(entry.operation),
        Permission(entry.permission_type),
    )


def new_filter(
    resource_type: int,
    resource_name: str | None,
    pattern_type: int,
    principal: str | None,
    host: str | None,
    operation: int,
    permission: int,
) -> AclFilter:
    """Make a filter. Raises `ProtocolError`."""
    return AclFilter(
        _one_of(ResourceType, resource_type, "resource type"),
        resource_name,
        _one_of(PatternType, pattern_type, "pattern type"),
        principal,
        host,
        _one_of(AclOperation, operation, "operation"),
        _one_of(Permission, permission, "permission type"),
    )


def _one_of(kind: type[E], number: int, what: str) -> E:
    """The enum member of a number. UNKNOWN (0) is invalid too: clients send it for numbers that they don't know."""
    try:
        if number:
            return kind(number)
    except ValueError:
        pass
    raise _refused(f"unknown {what} {number}")


def _refused(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REQUEST, message)
