"""`tidelog acls list|add|remove|explain`: access rules, and which of them decides.

They ask the daemon; with --config or --set log.dirs=DIR they work on the data of a stopped one instead, which is how the
first rule comes to be where there is no super user. A rule is said in one order everywhere: who, allow or deny, what, to
which resource: `tidelog acls add User:alice allow read,write topic orders- --prefixed`.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from .serve import add_configuration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..broker.security.acl.model import Acl
    from ..broker.security.acl.rules import AclFilter

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_RESOURCES = "topic, group, cluster, transactional-id, delegation-token or user"
_OPERATIONS = (
    "read, write, create, delete, alter, describe, cluster-action, describe-configs, alter-configs, idempotent-write, "
    "create-tokens, describe-tokens, two-phase-commit, all"
)


def add_parser(commands: Subparsers) -> None:
    from .support.kafka_client import add_actions

    action = add_actions(commands, "acls", "access rules, and which of them decides", __doc__)
    listing = action("list", run_list, "rules, all or those that the options find")
    add = action("add", run_add, "add rules; they hold from the next request on")
    remove = action("remove", run_remove, "remove one rule, or all that the options find, and print what went")
    explain = action("explain", run_explain, "whether a user may do something, and which rule says so")

    _add_rule(add, needed=True)
    _add_rule(remove, needed=False)
    for parser in (listing, remove):
        _add_filter(parser)
    _add_hosts(listing, "rules for this host; may be given again")
    explain.add_argument("principal", metavar="PRINCIPAL", type=_word("principal"), help="User:NAME")
    explain.add_argument("operation", metavar="OPERATION", type=_word("operation"), help=_OPERATIONS)
    explain.add_argument("resource", metavar="RESOURCE", type=_word("resource_type"), help=_RESOURCES)
    explain.add_argument("name", metavar="NAME", nargs="?", help="the resource's name; the cluster needs none")
    explain.add_argument(
        "--host",
        metavar="ADDRESS",
        type=_word("address"),
        default="*",
        help="from where; without it, rules for all hosts count",
    )
    for parser in (listing, add, remove, explain):
        add_configuration(parser)


def _add_rule(parser: argparse.ArgumentParser, *, needed: bool) -> None:
    count = None if needed else "?"
    for name, kind, text in (
        ("principal", "principal", "User:NAME, or 'User:*' for everybody"),
        ("permission", "permission", "allow or deny"),
        ("operations", "operations", f"one, or several with commas between: {_OPERATIONS}"),
        ("resource", "resource_type", _RESOURCES),
    ):
        parser.add_argument(name, metavar=name.upper(), nargs=count, type=_word(kind), help=text)
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="the resource's name, '*' for all of them; the cluster needs none"
    )
    parser.add_argument("--prefixed", action="store_true", help="all resources whose names begin with NAME")
    _add_hosts(
        parser,
        "only from this address, or range of them as 10.0.0.0/8; may be given again (default: from everywhere)",
    )


def _add_hosts(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--host", metavar="ADDRESS", type=_word("host"), action="append", default=[], help=text)


def _add_filter(parser: argparse.ArgumentParser) -> None:
    for option, kind, text in (
        ("--principal", "principal", "rules for this principal"),
        ("--permission", "permission", "allow or deny"),
        ("--operation", "operation", "rules about this operation"),
        ("--resource", "resource_type", f"rules about this kind of resource: {_RESOURCES}"),
    ):
        parser.add_argument(option, metavar=option[2:].upper(), dest=f"of_{option[2:]}", type=_word(kind), help=text)
    parser.add_argument("--name", metavar="NAME", dest="of_name", help="rules with this name")
    parser.add_argument(
        "--pattern",
        metavar="PATTERN",
        dest="of_pattern",
        type=_word("pattern"),
        help="literal or prefixed; match: all that bear on the resource of that name, by prefix and * too (default: any)",
    )


def _word(kind: str) -> Callable[[str], Any]:
    """Reads a word when it is there: `acl_words` is imported by these commands alone."""

    def read(text: str) -> Any:
        from .support import acl_words

        return getattr(acl_words, kind)(text)

    return read


def run_list(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    from ..broker.security.acl.rules import AclFilter
    from .support.acl_source import acl_source
    from .support.output import say_empty

    with acl_source(options) as source:
        rules = sorted(rule for wanted in _filters_of(options) for rule in source.find(wanted))
    _print(options, rules)
    if not rules:
        say_empty("there are no rules" if _filters_of(options) == [AclFilter()] else "there are no such rules")
    return 0


def run_add(options: Any) -> int:
    """Stores; returns 0. KafkaFailure, ConfigError, DataDirectoryError."""
    from .support import acl_words
    from .support.acl_source import acl_source
    from .support.kafka_client import KafkaFailure

    rules = _rules_of(options)
    if why := acl_words.pointless(options.resource, options.operations):
        raise KafkaFailure(why)
    with acl_source(options) as source:
        source.create(rules)
        if not source.is_on():
            print("tidelog: stored; rules hold where authorizer.class.name is set, and it is not", file=sys.stderr)
    if options.json:
        _print(options, rules)
    return 0


def run_remove(options: Any) -> int:
    """Prints what was removed; returns 0. KafkaFailure when there was nothing."""
    from ..broker.security.acl.rules import AclFilter
    from .support.acl_source import acl_source
    from .support.kafka_client import KafkaFailure

    filters = _filters_of(options)
    if options.principal is not None:
        if filters[0]._replace(host=None) != AclFilter():
            raise KafkaFailure("say the rule in words, or rules by --principal, --resource …, not both")
        filters = [AclFilter(*rule) for rule in _rules_of(options)]
    elif filters[0] == AclFilter():
        raise KafkaFailure(
            "say which rule, in the words of `tidelog acls add`, or which rules by --principal, --resource …"
        )
    with acl_source(options) as source:
        removed = [rule for wanted in filters for rule in source.delete(wanted)]
    if not removed:
        raise KafkaFailure("there is no such rule (`tidelog acls list` shows them)")
    _print(options, sorted(removed))
    return 0


def run_explain(options: Any) -> int:
    """Prints; returns 0, whatever the answer is."""
    from ..broker.security.acl.model import AclOperation, PatternType, ResourceType
    from ..broker.security.acl.rules import AclFilter, AclRules, Policy, rule_words
    from .support import acl_words
    from .support.acl_source import acl_source
    from .support.kafka_client import KafkaFailure

    name = _name_of(options)
    if options.operation is AclOperation.ALL:
        raise KafkaFailure("ask about one operation: no request is for ALL of them")
    if why := acl_words.pointless(options.resource, [options.operation]):
        raise KafkaFailure(why)
    with acl_source(options) as source:
        found = source.find(AclFilter(options.resource, name, PatternType.MATCH))
        known = source.policy()
        if not source.is_on():
            print("tidelog: authorizer.class.name is not set: until it is, everything is allowed", file=sys.stderr)
    rules = AclRules((rule, "") for rule in sorted(found))
    question = (options.principal, options.host, options.operation, options.resource, name)
    decision = rules.decide(known or Policy(), *question)
    concerned = [rule for rule in rules.concerned(*question) if rule != decision.rule]
    if options.json:
        import json

        facts = {
            "allowed": decision.allowed,
            "reason": decision.reason,
            "rule": acl_words.facts(decision.rule) if decision.rule else None,
            "other_rules": [acl_words.facts(rule) for rule in concerned],
        }
        print(json.dumps(facts, indent=2))
        return 0
    origin = "" if options.host == "*" else f" from {options.host}"
    what = "the cluster" if options.resource is ResourceType.CLUSTER else f"{acl_words.shown(options.resource)} {name}"
    verdict = "may" if decision.allowed else "may not"
    print(f"{options.principal}{origin} {verdict} {options.operation.name} {what}")
    print(f"  because: {rule_words(decision.rule) if decision.rule else _reason(decision.reason, decision.allowed)}")
    for rule in concerned:
        print(f"  also:    {rule_words(rule)}")
    if known is None:
        print("tidelog: super.users could not be read, and is taken for empty", file=sys.stderr)
    if options.host == "*" and any(rule.host != "*" for rule in found):
        print("tidelog: rules for single addresses were left out: say --host ADDRESS", file=sys.stderr)
    return 0


def _reason(reason: str, allowed: bool) -> str:
    if reason == "super user":
        return "it is one of super.users"
    if reason == "no rule is about it":
        return f"no rule is about it, and allow.everyone.if.no.acl.found={'true' if allowed else 'false'}"
    return "rules are about it, and none of them allows it"


def _filters_of(options: Any) -> list[AclFilter]:
    """Filters for the options, one for each host that they name."""
    from ..broker.security.acl.model import AclOperation, PatternType, Permission, ResourceType
    from ..broker.security.acl.rules import AclFilter

    return [
        AclFilter(
            options.of_resource or ResourceType.ANY,
            options.of_name,
            options.of_pattern or PatternType.ANY,
            options.of_principal,
            host,
            options.of_operation or AclOperation.ANY,
            options.of_permission or Permission.ANY,
        )
        for host in options.host or [None]
    ]


def _rules_of(options: Any) -> list[Acl]:
    """The rules that the words say, one for each operation and host. KafkaFailure where a word is missing."""
    from ..broker.security.acl.model import EVERYTHING, Acl, PatternType
    from .support.kafka_client import KafkaFailure

    if options.resource is None:
        raise KafkaFailure("a rule is PRINCIPAL allow|deny OPERATION RESOURCE NAME, as `tidelog acls add` has it")
    pattern = PatternType.PREFIXED if options.prefixed else PatternType.LITERAL
    return [
        Acl(options.resource, _name_of(options), pattern, options.principal, host, operation, options.permission)
        for operation in options.operations
        for host in options.host or [EVERYTHING]
    ]


def _name_of(options: Any) -> str:
    from ..broker.security.acl.model import CLUSTER_NAME, ResourceType
    from .support.kafka_client import KafkaFailure

    if options.resource is ResourceType.CLUSTER:
        if options.name not in (None, CLUSTER_NAME):
            raise KafkaFailure(f"there is one cluster; give no name, or {CLUSTER_NAME}")
        return CLUSTER_NAME
    if not options.name:
        raise KafkaFailure(f"a {options.resource.name.lower().replace('_', ' ')} needs a name: give it, or '*' for all")
    return str(options.name)


def _print(options: Any, rules: Sequence[Acl]) -> None:
    from .support import acl_words
    from .support.output import table

    if options.json:
        import json

        print(json.dumps([acl_words.facts(rule) for rule in rules], indent=2))
    elif rules:
        print("\n".join(table(acl_words.HEADINGS, [acl_words.row(rule) for rule in rules])))
