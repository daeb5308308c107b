"""The settings of access control: whether there is any, and what holds beside the rules."""

from __future__ import annotations

from ..setting import BOOLEAN, HIGH, INT, LOW, STRING, Allowed, Group, Setting, at_least

AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""Class names of Kafka's authorizers: today's, and the one of ZooKeeper's days."""

# fmt: off
ACCESS_ROWS: tuple[Setting, ...] = (
    Setting(
        "authorizer.class.name", type=STRING, default="",
        allowed=Allowed(choices=("", *AUTHORIZERS),
                        text=f"empty, {AUTHORIZERS[0]} or {AUTHORIZERS[1]}; Java plug-ins can't be loaded"),
        group=Group.ACCESS, importance=LOW,
        doc=f"{AUTHORIZERS[0]} (or {AUTHORIZERS[1]}, as older files have it) switches access rules on: a client may then do what "
        "super.users or a rule lets it do. Empty: whoever is let in may do everything.",
        why_different="Java plug-ins can't be loaded, and starting without the one that was named would let everybody in",
    ),
    Setting(
        "super.users", type=STRING, default="",
        allowed=Allowed(pattern=r"^(\s*|[^:;]+:[^;]+)(;(\s*|[^:;]+:[^;]+))*$",
                        text="User:NAME, several with semicolons between them"),
        group=Group.ACCESS, importance=HIGH, own=True,
        doc="Users who may do everything whatever the rules say, as in User:admin;User:CN=ops,O=example: semicolons between "
            "them, since a certificate's subject has commas. Kafka's setting for its authorizer.",
    ),
    Setting(
        "allow.everyone.if.no.acl.found", type=BOOLEAN, default=False, group=Group.ACCESS, importance=HIGH, own=True,
        doc="Whether everybody may do everything with a resource that no rule is about. One rule for a resource ends that for "
            "it. Kafka's setting for its authorizer.",
    ),
    Setting(
        "max.acl.rules", type=INT, default=20_000, allowed=at_least(1), group=Group.ACCESS, importance=LOW, own=True,
        doc="Most access rules that are kept; each takes about half a KiB of memory. CreateAcls answers POLICY_VIOLATION to "
            "those above it.",
    ),
)
