"""The settings of access control: whether there is any, and what holds beside the rules."""

from __future__ import annotations

from ..setting import Allowed, Importance, Setting, SettingType, at_least

_GROUP = "Access control"

AUTHORIZERS = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)
"""What Kafka calls its authorizers: of today, and of the days of ZooKeeper."""

ACCESS_ROWS: tuple[Setting, ...] = (
    Setting(
        "authorizer.class.name",
        SettingType.STRING,
        "",
        f"{AUTHORIZERS[0]} (or {AUTHORIZERS[1]}, as older files have it) switches access rules on: a client may then do what "
        "super.users or a rule lets it do. Empty: whoever is let in may do everything.",
        Allowed(
            choices=("", *AUTHORIZERS),
            text=f"empty, {AUTHORIZERS[0]} or {AUTHORIZERS[1]}; Java plug-ins can't be loaded",
        ),
        Importance.LOW,
        group=_GROUP,
        why_different="Java plug-ins can't be loaded, and starting without the one that was named would let everybody in",
    ),
    Setting(
        "super.users",
        SettingType.STRING,
        "",
        "Users who may do everything whatever the rules say, as in User:admin;User:CN=ops,O=example: semicolons between them, "
        "since a certificate's subject has commas. Kafka's setting for its authorizer.",
        Allowed(
            pattern=r"^(\s*|[^:;]+:[^;]+)(;(\s*|[^:;]+:[^;]+))*$",
            text="User:NAME, several with semicolons between them",
        ),
        Importance.HIGH,
        group=_GROUP,
        own=True,
    ),
    Setting(
        "allow.everyone.if.no.acl.found",
        SettingType.BOOLEAN,
        False,
        "Whether everybody may do everything with a resource that no rule is about. One rule for a resource ends that for it. "
        "Kafka's setting for its authorizer.",
        importance=Importance.HIGH,
        group=_GROUP,
        own=True,
    ),
    Setting(
        "max.acl.rules",
        SettingType.INT,
        20_000,
        "Most access rules that are kept; each takes about half a KiB of memory. CreateAcls answers POLICY_VIOLATION to those "
        "above it.",
        at_least(1),
        Importance.LOW,
        group=_GROUP,
        own=True,
    ),
)
