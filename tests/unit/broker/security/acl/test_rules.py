"""Single cases of decisions; tests/property/test_acl_decisions.py compares all of them with a naive oracle."""

from __future__ import annotations

from time import thread_time

import pytest
from tidelog.broker.security.acl.model import Acl, AclOperation, PatternType, Permission, ResourceType
from tidelog.broker.security.acl.rules import AclFilter, AclRules, Policy, address_range, canonical_host, rule_words

TOPIC = ResourceType.TOPIC
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
NOBODY = Policy()


def acl(
    name: str,
    permission: Permission = ALLOW,
    operation: AclOperation = READ,
    pattern: PatternType = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    kind: ResourceType = TOPIC,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def rules_of(*rules: Acl) -> AclRules:
    return AclRules((rule, str(number)) for number, rule in enumerate(rules))


def allows(
    rules: AclRules, operation: AclOperation, name: str, who: str = "User:alice", host: str = "10.0.0.1"
) -> bool:
    return rules.decide(NOBODY, who, host, operation, TOPIC, name).allowed


def test_what_names_a_resource() -> None:
    rules = rules_of(acl("orders"), acl("pay", pattern=PREFIXED))
    assert allows(rules, READ, "orders")
    assert not allows(rules, READ, "orders2")
    assert allows(rules, READ, "payments")
    assert allows(rules, READ, "pay")
    assert not allows(rules, READ, "pa")
    assert not allows(rules, READ, "orders", who="User:bob")
    assert allows(rules_of(acl("*")), READ, "whatever")
    # A prefix `*` is a prefix like any other.
    assert not allows(rules_of(acl("*", pattern=PREFIXED)), READ, "whatever")


def test_who_denies_wins_wherever_it_stands() -> None:
    everything = acl("*", operation=AclOperation.ALL, principal="User:*")
    for denying in (acl("orders", DENY), acl("or", DENY, pattern=PREFIXED), acl("*", DENY, AclOperation.ALL)):
        for rules in (rules_of(everything, denying), rules_of(denying, everything)):
            decision = rules.decide(NOBODY, "User:alice", "10.0.0.1", READ, TOPIC, "orders")
            assert decision == (False, "rule", denying)
    assert allows(rules_of(everything, acl("orders", DENY)), WRITE, "orders")


def test_what_is_allowed_implies_what_is_denied_does_not() -> None:
    for operation in (READ, WRITE, AclOperation.DELETE, AclOperation.ALTER):
        assert allows(rules_of(acl("t", operation=operation)), DESCRIBE, "t")
        assert allows(rules_of(acl("t", operation=DESCRIBE), acl("t", DENY, operation)), DESCRIBE, "t")
    assert not allows(rules_of(acl("t", operation=AclOperation.CREATE)), DESCRIBE, "t")
    assert allows(rules_of(acl("t", operation=AclOperation.ALTER_CONFIGS)), AclOperation.DESCRIBE_CONFIGS, "t")
    assert not allows(rules_of(acl("t", operation=AclOperation.ALTER_CONFIGS)), DESCRIBE, "t")
    assert not allows(rules_of(acl("t", operation=DESCRIBE)), READ, "t")


def test_addresses_are_compared_and_not_their_spellings() -> None:
    rules = rules_of(acl("t", host="0:0:0:0:0:0:0:1"), acl("t", host="10.0.0.7"))
    assert allows(rules, READ, "t", host="::1")
    assert allows(rules, READ, "t", host="::ffff:10.0.0.7")
    assert not allows(rules, READ, "t", host="10.0.0.8")
    assert canonical_host("fe80::1%eth0") == "fe80::1"
    assert canonical_host("no:address") == "no:address"


@pytest.mark.parametrize(
    ("host", "inside", "outside"),
    [
        ("10.0.0.0/8", ("10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"), ("11.0.0.0", "9.255.255.255", "::a00:1")),
        ("10.1.2.3/24", ("10.1.2.0", "10.1.2.255"), ("10.1.3.0",)),  # any address of the range names it
        ("10.0.0.7/32", ("10.0.0.7",), ("10.0.0.6",)),
        ("0.0.0.0/0", ("1.2.3.4",), ("::1",)),
        ("::/0", ("::1",), ("1.2.3.4",)),
        ("2001:db8::/32", ("2001:db8::1", "2001:DB8:ffff::"), ("2001:db9::",)),
        ("::ffff:10.0.0.0/104", ("10.9.9.9",), ("11.0.0.0",)),
        *(
            (wrong, (), ("10.0.0.1", "::1"))
            for wrong in ("10.0.0.0/33", "1.2.3.4/", "x/8", "10.0.0.0/255.0.0.0", "/8", "a/b/8")
        ),
    ],
)
def test_a_range_of_addresses_is_for_those_in_it(host: str, inside: tuple[str, ...], outside: tuple[str, ...]) -> None:
    allowing, denying = rules_of(acl("t", host=host)), rules_of(acl("t"), acl("t", DENY, host=host))
    for address, is_in in (*((one, True) for one in inside), *((one, False) for one in outside)):
        assert allows(allowing, READ, "t", host=address) is is_in
        assert allows(denying, READ, "t", host=address) is not is_in
    assert (address_range(host) is None) is (not inside)


def test_defaults() -> None:
    rules = rules_of(acl("orders", principal="User:bob"))
    everyone = Policy(frozenset({"User:admin"}), True)
    assert rules.decide(everyone, "User:admin", "h", READ, TOPIC, "orders") == (True, "super user", None)
    assert rules.decide(everyone, "User:alice", "h", READ, TOPIC, "others") == (True, "no rule is about it", None)
    # Somebody's rule is about it, so that the default does not hold for anybody.
    assert rules.decide(everyone, "User:alice", "h", READ, TOPIC, "orders") == (False, "no rule allows it", None)
    assert rules.decide(NOBODY, "User:alice", "h", READ, TOPIC, "others") == (False, "no rule is about it", None)


@pytest.mark.parametrize(
    ("rules", "any_of_them"),
    [
        ([acl("t")], True),
        ([acl("t", operation=WRITE)], False),
        ([acl("t"), acl("t", DENY)], False),
        ([acl("topics"), acl("top", DENY, pattern=PREFIXED)], False),
        ([acl("to", pattern=PREFIXED), acl("top", DENY, pattern=PREFIXED)], True),
        ([acl("to", pattern=PREFIXED), acl("to", DENY, pattern=PREFIXED)], False),
        ([acl("to", pattern=PREFIXED), acl("to", DENY)], True),
        ([acl("*"), acl("t", DENY)], True),
        ([acl("t"), acl("*", DENY)], False),
        ([acl("t", principal="User:bob")], False),
        ([acl("t", host="10.0.0.9")], False),
    ],
)
def test_whether_there_is_any_topic_to_read(rules: list[Acl], any_of_them: bool) -> None:
    assert rules_of(*rules).allows_any(NOBODY, "User:alice", "10.0.0.1", READ, TOPIC) is any_of_them
    assert not rules_of(*rules).allows_any(NOBODY, "User:alice", "10.0.0.1", READ, ResourceType.GROUP)


def test_rules_come_and_go() -> None:
    one, two, three = acl("pay", pattern=PREFIXED), acl("pay", operation=WRITE, pattern=PREFIXED), acl("payments")
    rules = rules_of(one, two, three)
    rules.add(one, "again")
    assert (len(rules), rules.id_of(one)) == (3, "0")
    assert list(rules.about(TOPIC, "payments")) == [three, one, two]
    rules.remove(one)
    rules.remove(one)
    assert list(rules.about(TOPIC, "payments")) == [three, two]
    rules.remove(two)
    assert list(rules.about(TOPIC, "payments")) == [three]
    assert one not in rules
    rules.add(one, "new")
    assert list(rules.about(TOPIC, "payx")) == [one]
    assert list(rules.about(ResourceType.USER, "payx")) == []


def test_filters() -> None:
    rules = [acl("orders"), acl("or", pattern=PREFIXED), acl("*"), acl("or"), acl("orders", kind=ResourceType.GROUP)]
    index = rules_of(*rules)

    def found(**wanted: object) -> list[int]:
        return sorted(rules.index(rule) for rule in index.find(AclFilter(**wanted)))  # type: ignore[arg-type]

    assert found() == [0, 1, 2, 3, 4]
    assert found(resource_type=TOPIC, resource_name="orders") == [0]
    assert found(resource_name="orders") == [0, 4]
    assert found(resource_type=TOPIC, resource_name="orders", pattern_type=PatternType.MATCH) == [0, 1, 2]
    assert found(resource_type=TOPIC, pattern_type=PatternType.MATCH) == [0, 1, 2, 3]
    assert found(resource_name="or") == [1, 3]
    assert found(resource_name="or", pattern_type=PREFIXED) == [1]
    assert found(resource_name="or", pattern_type=LITERAL) == [3]
    assert (
        found(principal="User:bob") == found(host="10.0.0.1") == found(operation=WRITE) == found(permission=DENY) == []
    )


def test_words_of_a_rule() -> None:
    assert rule_words(acl("orders")) == "User:alice allow READ topic orders"
    words = rule_words(acl("a b", DENY, AclOperation.ALL, PREFIXED, "User:CN=x", "::1", ResourceType.TRANSACTIONAL_ID))
    assert words == "User:CN=x deny ALL transactional-id 'a b' --prefixed --host ::1"


def test_of_very_many_rules_about_one_name_any_is_removed_at_once() -> None:
    """All that came before it were looked at: 4,000 of 20,000 took two seconds."""
    rules = [acl("t", principal=f"User:{number}") for number in range(20_000)]
    known = AclRules((rule, str(number)) for number, rule in enumerate(rules))
    began = thread_time()
    for rule in reversed(rules[-4_000:]):
        known.remove(rule)
    assert thread_time() - began < 0.5
    assert list(known.about(TOPIC, "t")) == rules[:-4_000]
