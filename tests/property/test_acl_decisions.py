"""Access decisions against an oracle that goes through all rules and knows no index.

The oracle says what KIP-11, KIP-290 and KIP-679 say, in sets: which rules are about the resource and for the client, which
of them deny, which allow. Names are few and short, so that rules meet.
"""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.security.acl.authorizer import AclAuthorizer, stored_form
from tidelog.broker.security.acl.model import Acl, AclOperation, PatternType, Permission, ResourceType
from tidelog.broker.security.acl.rules import AclFilter, AclRules
from tidelog.config.broker_config import BrokerConfig

NAMES = st.sampled_from(("a", "ab", "aba", "b", "*"))
TYPES = st.sampled_from((ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP))
PRINCIPALS = st.sampled_from(("User:alice", "User:*", "User:bob", "Group:alice"))
RANGES = {"10.0.0.0/31": {"10.0.0.1"}, "10.0.0.2/30": {"10.0.0.1", "10.0.0.2"}, "::/16": {"::1"}}
"""A rule's host → which of the clients' addresses are in it."""
HOSTS = st.sampled_from(("*", "*", "10.0.0.1", "0:0:0:0:0:0:0:1", *RANGES))
# Those between which something is implied, and one for the others, which are alike.
ASKED = (
    AclOperation.READ,
    AclOperation.DESCRIBE,
    AclOperation.ALTER_CONFIGS,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.CREATE,
)
OPERATIONS = st.sampled_from((*ASKED, AclOperation.ALL))
RULES = st.builds(
    Acl,
    TYPES,
    NAMES,
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    PRINCIPALS,
    HOSTS,
    OPERATIONS,
    st.sampled_from((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
)
LISTS = st.lists(RULES, max_size=12, unique=True)
CLIENTS = st.tuples(
    st.sampled_from(("User:alice", "User:bob", "User:carol")), st.sampled_from(("10.0.0.1", "10.0.0.2", "::1"))
)
SETTINGS = st.builds(
    BrokerConfig,
    super_users=st.sampled_from(("", "User:carol")),
    allow_everyone_if_no_acl_found=st.booleans(),
    max_acl_rules=st.just(100),
)
IMPLIED = {
    (AclOperation.READ, AclOperation.DESCRIBE),
    (AclOperation.WRITE, AclOperation.DESCRIBE),
    (AclOperation.DELETE, AclOperation.DESCRIBE),
    (AclOperation.ALTER, AclOperation.DESCRIBE),
    (AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS),
}


def is_about(rule: Acl, kind: ResourceType, name: str) -> bool:
    if rule.resource_type != kind:
        return False
    if rule.pattern_type == PatternType.PREFIXED:
        return name[: len(rule.resource_name)] == rule.resource_name
    return rule.resource_name in ("*", name)


def is_for(rule: Acl, principal: str, host: str) -> bool:
    spellings = {host, "0:0:0:0:0:0:0:1"} if host == "::1" else {host}
    is_from = rule.host == "*" or rule.host in spellings or host in RANGES.get(rule.host, ())
    return (rule.principal == "User:*" or rule.principal == principal) and is_from


def oracle(
    rules: list[Acl],
    config: BrokerConfig,
    client: tuple[str, str],
    operation: AclOperation,
    kind: ResourceType,
    name: str,
) -> bool:
    if client[0] == config.super_users:
        return True
    about = [rule for rule in rules if is_about(rule, kind, name)]
    if not about:
        return config.allow_everyone_if_no_acl_found
    own = [rule for rule in about if is_for(rule, *client)]
    named = [rule for rule in own if rule.operation in (operation, AclOperation.ALL)]
    if any(rule.permission == Permission.DENY for rule in named):
        return False
    return any(
        rule.permission == Permission.ALLOW and (rule in named or (rule.operation, operation) in IMPLIED)
        for rule in own
    )


def authorizer_of(rules: list[Acl], config: BrokerConfig) -> AclAuthorizer:
    return AclAuthorizer(stored_form((rule, str(number)) for number, rule in enumerate(rules)), None, config)  # type: ignore[arg-type]


@given(LISTS, SETTINGS)
def test_decisions_are_the_oracles(rules: list[Acl], config: BrokerConfig) -> None:
    """Of every question that such rules tell apart."""
    authorizer = authorizer_of(rules, config)
    clients = itertools.product(("User:alice", "User:carol"), ("10.0.0.1", "::1"))
    names = ("a", "ab", "abab", "c")
    for client, operation, name in itertools.product(clients, ASKED, names):
        question = (operation, ResourceType.TOPIC, name)
        expected = oracle(rules, config, client, *question)
        assert authorizer.allows(*client, *question) is expected
        assert authorizer.allows(*client, *question) is expected  # as it is remembered
        decision = authorizer.rules.decide(authorizer.policy, *client, *question)
        assert decision.allowed is expected
        if decision.rule is not None:
            assert (decision.rule.permission is Permission.ALLOW) is expected
            assert decision.rule in rules
            # On its own it decides the same.
            assert oracle([decision.rule], config, client, *question) is expected
            concerned = authorizer.rules.concerned(*client, *question)
            assert concerned[0] == decision.rule


@given(LISTS, LISTS, SETTINGS, CLIENTS, OPERATIONS, TYPES, NAMES)
def test_what_comes_and_goes_leaves_no_trace(
    rules: list[Acl],
    gone: list[Acl],
    config: BrokerConfig,
    client: tuple[str, str],
    operation: AclOperation,
    kind: ResourceType,
    name: str,
) -> None:
    index = AclRules((rule, "") for rule in [*rules, *gone])
    for rule in gone:
        index.remove(rule)
    left = [rule for rule in rules if rule not in gone]
    assert list(index) == left
    assert sorted(index.about(kind, name)) == sorted(rule for rule in left if is_about(rule, kind, name))
    decision = index.decide(authorizer_of([], config).policy, *client, operation, kind, name)
    assert decision.allowed is oracle(left, config, client, operation, kind, name)


@given(
    LISTS,
    st.builds(
        AclFilter,
        TYPES | st.just(ResourceType.ANY),
        NAMES | st.none(),
        st.sampled_from((PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED)),
        PRINCIPALS | st.none(),
        HOSTS | st.none(),
        OPERATIONS | st.just(AclOperation.ANY),
        st.sampled_from((Permission.ANY, Permission.ALLOW, Permission.DENY)),
    ),
)
def test_filters_find_what_fits(rules: list[Acl], wanted: AclFilter) -> None:
    def fits(rule: Acl) -> bool:
        if wanted.pattern_type == PatternType.MATCH and wanted.resource_name is not None:
            named = is_about(rule, rule.resource_type, wanted.resource_name)
        else:
            named = wanted.pattern_type in (PatternType.ANY, PatternType.MATCH, rule.pattern_type)
            named = named and wanted.resource_name in (None, rule.resource_name)
        pairs = zip(wanted, rule, strict=True)
        kind, _, _, principal, host, operation, permission = (one in (None, 1, other) for one, other in pairs)
        return named and kind and principal and host and operation and permission

    assert sorted(AclRules((rule, "") for rule in rules).find(wanted)) == sorted(filter(fits, rules))


@given(LISTS, SETTINGS, CLIENTS, OPERATIONS)
def test_whether_there_is_any_topic(
    rules: list[Acl], config: BrokerConfig, client: tuple[str, str], operation: AclOperation
) -> None:
    """KIP-679 in words: a literal or prefix that is allowed, and that no denied literal, prefix or `*` covers."""
    own = [
        rule
        for rule in rules
        if rule.resource_type == ResourceType.TOPIC
        and is_for(rule, *client)
        and rule.operation in (operation, AclOperation.ALL)
    ]
    denied = [rule for rule in own if rule.permission == Permission.DENY]

    def is_covered(rule: Acl) -> bool:
        return any(
            other.resource_name == "*"
            if other.pattern_type == PatternType.LITERAL and rule.pattern_type == PatternType.PREFIXED
            else is_about(other, ResourceType.TOPIC, rule.resource_name)
            for other in denied
        )

    everything = Acl(ResourceType.TOPIC, "*", PatternType.LITERAL, "User:*", "*", operation, Permission.ALLOW)
    open_ones = [
        rule
        for rule in own
        if rule.permission == Permission.ALLOW
        and not (
            any(other[:3] == everything[:3] for other in denied) if rule[:3] == everything[:3] else is_covered(rule)
        )
    ]
    # No rule's prefix of this strategy fits the name that Kafka asks with; only `*` and defaults reach it.
    expected = bool(open_ones) or oracle(rules, config, client, operation, ResourceType.TOPIC, "hardcode")
    assert authorizer_of(rules, config).allows_any(*client, operation, ResourceType.TOPIC) is expected
