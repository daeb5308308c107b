"""What a decision by access rules costs, in microseconds, and what a rule takes of memory. In one process, no daemon:

python benchmarks/bench_access_rules.py [RULES]
"""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, cast

from tidelog.broker.security.acl.authorizer import AclAuthorizer, stored_form
from tidelog.broker.security.acl.model import Acl, AclOperation, PatternType, Permission, ResourceType
from tidelog.config.broker_config import BrokerConfig

QUESTIONS = 2000
ROUNDS = 15
OPERATIONS = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)


def rules_of(count: int) -> list[Acl]:
    """Literal and prefixed ones of many users, with names of 8 to 48 characters."""
    chance = random.Random(1)
    found: dict[Acl, None] = {}
    while len(found) < count:
        name = f"topic-{chance.randrange(count)}-" + "x" * chance.randrange(40)
        pattern = chance.choice((PatternType.LITERAL, PatternType.PREFIXED))
        user, operation = f"User:u{chance.randrange(500)}", chance.choice(OPERATIONS)
        found[Acl(ResourceType.TOPIC, name, pattern, user, "*", operation, Permission.ALLOW)] = None
    return list(found)


def best_us(ask: Callable[[str], object], names: list[str], before: Callable[[], object] = lambda: None) -> float:
    """Of the best round, for one question."""
    best = float("inf")
    for _ in range(ROUNDS):
        before()
        start = time.perf_counter()
        for name in names:
            ask(name)
        best = min(best, time.perf_counter() - start)
    return best * 1e6 / len(names)


def main(count: int) -> int:
    stored = stored_form((rule, f"{number:036}") for number, rule in enumerate(rules_of(count)))
    tracemalloc.start()
    authorizer = AclAuthorizer(stored, cast(Any, None), BrokerConfig())
    rule_bytes = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    names = [
        rule.resource_name + "-eu" for rule in random.Random(2).sample(list(authorizer.rules), min(QUESTIONS, count))
    ]

    def ask(name: str) -> bool:
        return authorizer.allows("User:u3", "10.0.0.1", AclOperation.WRITE, ResourceType.TOPIC, name)

    new = best_us(ask, names, authorizer._forget)
    known = best_us(ask, names)
    print(
        f"{count} rules: a new decision {new:.2f} us, one that is remembered {known:.2f} us; {rule_bytes:.0f} bytes a rule"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
