"""Client quotas as values: their entities, which of them applies to a client, which match a filter (KIP-546).

An entity is a user, a client id, both, or an address; each by its name or as the default for those without a quota of
their own. For a client the most particular entity wins, in this order:

    user + client id · user + any client · user · any user + client id · any user + any client · any user ·
    client id · any client

All clients with an entity's names share its quota: a user's quota by all its clients, a client id's by all
users of it, and a default is each one's own. Pure functions and one table; any one thread.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from ...protocol.errors import ErrorCode, ProtocolError

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

_CLIENT_KEYS = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE})
_IP_KEYS = frozenset({CONNECTION_CREATION_RATE})
_WHOLE = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE})
_MOST_WHOLE = 2**63 - 1
_MOST_CONNECTIONS = 2**31 - 1
_MAX_NAME_LENGTH = 1000

Part = tuple[str, str | None]
"""(entity type, name); None is the default."""
Entity = tuple[Part, ...]
"""Parts of an entity, sorted by type."""


class Limit(NamedTuple):
    """A quota that applies to a client, and the name under which its use is counted."""

    bound: float
    scope: tuple[str | None, str | None]


class Match(Enum):
    """Ways in which a filter compares a part of an entity."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@dataclass(frozen=True, slots=True)
class Component:
    """One part of a filter; `name` is for EXACT alone."""

    entity_type: str
    match: Match
    name: str | None = None


def _invalid(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REQUEST, message)


def checked_entity(parts: Sequence[Part]) -> Entity:
    """Make the entity of these parts. Raises `ProtocolError` INVALID_REQUEST for an impossible one."""
    if not parts:
        raise _invalid("a client quota needs an entity")
    types = [kind for kind, _ in parts]
    for kind, name in parts:
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"there is no client quota entity type '{kind}': {USER}, {CLIENT_ID} and {IP} are known")
        if name is not None and not 0 < len(name) <= _MAX_NAME_LENGTH:
            raise _invalid(f"the name of a {kind} has 1 to {_MAX_NAME_LENGTH} characters, not {len(name)}")
    if len(set(types)) < len(types):
        raise _invalid(f"an entity has each type once, not {', '.join(types)}")
    if IP in types and len(types) > 1:
        raise _invalid(f"a quota on an {IP} can't be one on a {USER} or {CLIENT_ID} too")
    if types == [IP] and parts[0][1] is not None:
        _check_address(parts[0][1])
    return tuple(sorted(parts))


def _check_address(text: str) -> None:
    try:
        canonical_address(text)
    except ValueError:
        raise _invalid(f"'{text}' is not an IP address") from None


def canonical_address(text: str) -> str:
    """The address as connections spell it, an IPv4 address in IPv6 as the former. ValueError for what is none."""
    import ipaddress

    address = ipaddress.ip_address(text)
    return str(getattr(address, "ipv4_mapped", None) or address)


def _spelled(name: str | None) -> str | None:
    try:
        return name if name is None else canonical_address(name)
    except ValueError:  # a directory of Apache Kafka may have a name there, which nobody is called
        return name


def check_value(entity: Entity, key: str, value: float) -> None:
    """Raise `ProtocolError` INVALID_REQUEST unless `entity` can have this quota."""
    known = _IP_KEYS if entity[0][0] == IP else _CLIENT_KEYS
    if key not in known:
        raise _invalid(f"there is no quota '{key}' on {' and '.join(k for k, _ in entity)}: {', '.join(sorted(known))}")
    if not math.isfinite(value) or value <= 0:
        raise _invalid(f"quota {key} must be greater than 0, not {value}")
    if key in _WHOLE:
        most = _MOST_CONNECTIONS if key == CONNECTION_CREATION_RATE else _MOST_WHOLE
        if abs(value - round(value)) > 1e-6 or value > most:
            raise _invalid(f"quota {key} is a whole number up to {most}, not {value}")


def check_filter(components: Iterable[Component]) -> list[Component]:
    """The filter, of one component for each entity type at most. Raises `ProtocolError` at the first that contradicts those
    before it or names an unknown type: of any number, four are looked at."""
    checked: dict[str, Component] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("an entity type is empty")
        if kind not in (USER, CLIENT_ID, IP):
            raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, f"entity type '{kind}' is not known to this broker")
        if (component.match is Match.EXACT) == (component.name is None):
            raise _invalid(f"a {kind} is matched exactly with a name, and otherwise without one")
        if kind in checked:
            raise _invalid(f"a filter has each entity type once, not {', '.join([*checked, kind])}")
        checked[kind] = component
        if IP in checked and len(checked) > 1:
            raise _invalid(f"a filter can't ask for an {IP} together with a {USER} or {CLIENT_ID}")
    return list(checked.values())


def matches(entity: Entity, components: Iterable[Component], strict: bool) -> bool:
    """True if `entity` has a part for each component; `strict`: and no other part."""
    parts = dict(entity)
    asked = 0
    for component in components:
        asked += 1
        if component.entity_type not in parts:
            return False
        name = parts[component.entity_type]
        match component.match:
            case Match.EXACT:
                fits = name is not None and name == component.name
            case Match.DEFAULT:
                fits = name is None
            case Match.SPECIFIED:
                fits = name is not None
        if not fits:
            return False
    return not strict or asked == len(parts)


class QuotaTable:
    """All quotas: entity → key → limit."""

    __slots__ = ("_addresses", "_keys", "entries")

    def __init__(self) -> None:
        self.entries: dict[Entity, dict[str, float]] = {}
        # Address as connections spell it → quotas on it. An entity keeps the spelling of who set it, so that one address may have
        # several: the one that was set last holds.
        self._addresses: dict[str | None, dict[Entity, float]] = {}
        # Kind of quota → how many entities have one.
        self._keys: Counter[str] = Counter()

    def set(self, entity: Entity, values: Mapping[str, float]) -> None:
        """Replace the quotas of `entity`; an empty mapping removes it."""
        self._keys.subtract(self.entries.pop(entity, {}).keys())
        self._keys.update(values.keys())
        if values:
            self.entries[entity] = dict(values)
        if entity[0][0] == IP:
            bounds = self._addresses.setdefault(address := _spelled(entity[0][1]), {})
            bounds.pop(entity, None)
            if (bound := values.get(CONNECTION_CREATION_RATE)) is not None:
                bounds[entity] = bound
            if not bounds:
                del self._addresses[address]

    def has(self, key: str) -> bool:
        """True if any entity has a quota of this kind. A quick test: most brokers have none."""
        return self._keys[key] > 0

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        """The quota `key` that applies to this client; None if there is none."""
        if not self._keys[key]:
            return None
        for users, clients in (
            ((USER, user), (CLIENT_ID, client_id)),
            ((USER, user), (CLIENT_ID, None)),
            ((USER, user), None),
            ((USER, None), (CLIENT_ID, client_id)),
            ((USER, None), (CLIENT_ID, None)),
            ((USER, None), None),
            (None, (CLIENT_ID, client_id)),
            (None, (CLIENT_ID, None)),
        ):
            entity = tuple(part for part in (clients, users) if part is not None)
            bound = self.entries.get(entity, {}).get(key)
            if bound is not None:
                return Limit(bound, (user if users else None, client_id if clients else None))
        return None

    def address_limit(self, address: str) -> float | None:
        """New connections a second that `address` may make, spelled as connections do."""
        bounds = self._addresses.get(address) or self._addresses.get(None)
        return next(reversed(bounds.values())) if bounds else None
