"""Defects of access rights, which are none of order: `lost right` and its oracle have to show them (`test_planted.py`)."""

from __future__ import annotations

from simulation.defects.defect import Defect, Edit

OF_RIGHTS = [
    Defect(
        "rights/denied-and-let-in",
        "a rule that decides nothing",
        "The authorizer looks at the rules, counts who is denied, and lets him in: a batch is taken from who may not write.",
        "A rule that denies a client to write to a topic is acknowledged; the client writes there, and is told the offset.",
        ("a rule that is acknowledged", "a batch behind it"),
        (
            Edit(
                "tidelog.broker.security.acl.authorizer",
                """\
                self._known[key] = allowed
        if allowed:
            self.allowed += 1
        else:
            self.denied += 1
        return allowed
""",
                """\
                self._known[key] = allowed
        if allowed:
            self.allowed += 1
        else:
            self.denied += 1
        return True
""",
            ),
        ),
    ),
    Defect(
        "rights/decisions-outlive-rules",
        "a cache that is not emptied",
        "What was decided for a client is kept when a rule changes: he writes on with a right that was taken from him.",
        "A client has written to a topic; a rule that denies it to him is acknowledged; he writes there again.",
        ("a batch before the rule", "a rule that is acknowledged", "a batch behind it"),
        (
            Edit(
                "tidelog.broker.security.acl.authorizer",
                """\
        self._known.clear()
        self._known_any.clear()
""",
                """\
        self._known_any.clear()
""",
            ),
        ),
    ),
]
