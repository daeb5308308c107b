"""`tidelog configs list|describe|alter`: settings in force, where each comes from, and changing them while the daemon runs.

Of a topic (`--topic T`), of a broker (`--broker ID`) or of all brokers (`--broker` alone), of a group (`--group G`), of the
levels of the daemon's loggers (`--loggers ID`).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..protocol.messages.describe_configs import DescribeConfigsResourceResult
    from .support.kafka_client import KafkaClient

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
#: By option: Kafka's number of the kind of resource.
RESOURCES = {"topic": 2, "broker": 4, "loggers": 8, "client_metrics": 16, "group": 32}
SOURCES = {
    1: "topic",
    2: "broker, while running",
    3: "all brokers, while running",
    4: "start",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
_CHANGED = {1, 2, 3, 4, 6, 7, 8}


def add_parser(commands: Subparsers) -> None:
    from .support.kafka_client import add_bootstrap_argument, add_json_argument

    parser = commands.add_parser("configs", help="show and change settings while running", description=__doc__)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    action = actions.add_parser("list", help="what has settings", description="Everything that has settings, by kind.")
    action.set_defaults(run=run_list)
    add_bootstrap_argument(action)
    add_json_argument(action)
    for name, run, summary in (
        ("describe", run_describe, "settings that differ from their defaults; all of them with --all"),
        ("alter", run_alter, "change settings; the new values hold at once"),
    ):
        action = actions.add_parser(name, help=summary, description=summary)
        action.set_defaults(run=run)
        add_bootstrap_argument(action)
        add_json_argument(action)
        which = action.add_mutually_exclusive_group(required=True)
        which.add_argument("--topic", metavar="TOPIC")
        which.add_argument("--broker", metavar="ID", nargs="?", const="", help="without an id: what all brokers share")
        which.add_argument("--loggers", metavar="ID", help="levels of a broker's loggers")
        which.add_argument("--group", metavar="GROUP")
        which.add_argument("--client-metrics", metavar="NAME")
        if name == "describe":
            action.add_argument("--all", action="store_true", help="defaults too")
            action.add_argument("names", metavar="NAME", nargs="*", help="only these settings")
        else:
            action.add_argument(
                "--config", metavar="NAME=VALUE", action="append", default=[], help="may be given again"
            )
            action.add_argument(
                "--delete-config", metavar="NAME", action="append", default=[], help="back to what holds without it"
            )
            action.add_argument(
                "--append", metavar="NAME=VALUE", action="append", default=[], help="add to a list (cleanup.policy, …)"
            )
            action.add_argument(
                "--subtract", metavar="NAME=VALUE", action="append", default=[], help="take from a list"
            )
            action.add_argument("--dry-run", action="store_true", help="check it, change nothing")


def run_list(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    import json

    from ..protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
    from .support.kafka_client import check, client_of
    from .support.output import table

    with client_of(options) as client:
        answer = client.ask(ListConfigResourcesRequest(), ListConfigResourcesResponse)
    check("settings", answer.error_code)
    kinds = {number: option.replace("_", " ") for option, number in RESOURCES.items()}
    found = sorted(
        (kinds.get(resource.resource_type, str(resource.resource_type)), resource.resource_name)
        for resource in answer.config_resources
    )
    if options.json:
        print(json.dumps([{"kind": kind, "name": name} for kind, name in found], indent=2))
    else:
        print("\n".join(table(("kind", "name"), found)))
    return 0


def _resource(options: Any) -> tuple[int, str, str]:
    """(kind, name, what to call it)."""
    for option, kind in RESOURCES.items():
        name = getattr(options, option)
        if name is not None:
            what = option.replace("_", " ")
            return kind, name, f"{what} {name}" if name else "all brokers"
    raise AssertionError("argparse wants one of them")


def described(
    client: KafkaClient, resources: Sequence[tuple[int, str]], names: Sequence[str] | None = None
) -> list[Sequence[DescribeConfigsResourceResult]]:
    """The settings of each resource. KafkaFailure."""
    from ..protocol.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
        DescribeConfigsResponse,
    )
    from .support.kafka_client import check
    from .support.missing import check_topic

    if not resources:
        return []
    asked = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=names or None)
        for kind, name in resources
    ]
    answer = client.ask(DescribeConfigsRequest(resources=asked, include_documentation=False), DescribeConfigsResponse)
    found = {}
    for result in answer.results:
        what = f"settings of {result.resource_name or 'all brokers'}"
        if result.resource_type == RESOURCES["topic"]:
            check_topic(client, result.resource_name, result.error_code, result.error_message)
        check(what, result.error_code, result.error_message)
        found[result.resource_type, result.resource_name] = result.configs
    return [found[resource] for resource in resources]


def alter(
    client: KafkaClient,
    kind: int,
    name: str,
    what: str,
    settings: Mapping[str, str],
    deleted: Sequence[str] = (),
    *,
    appended: Mapping[str, str] | None = None,
    subtracted: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> None:
    """Sets, deletes, appends to and takes from settings of one resource, all or none. KafkaFailure."""
    from ..protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from .support.kafka_client import check
    from .support.missing import check_topic

    changes = [AlterableConfig(name=key, config_operation=_DELETE, value=None) for key in deleted]
    for operation, values in ((_SET, settings), (_APPEND, appended or {}), (_SUBTRACT, subtracted or {})):
        changes += [AlterableConfig(name=key, config_operation=operation, value=value) for key, value in values.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=dry_run)
    (answer,) = client.ask(request, IncrementalAlterConfigsResponse).responses
    if kind == RESOURCES["topic"]:
        check_topic(client, name, answer.error_code, answer.error_message)
    check(what, answer.error_code, answer.error_message)


def unknown_setting(what: str, name: str, names: Sequence[str]) -> str:
    """The sentence for a setting that is not among `names`, those of the resource `what`."""
    from .support.nearest import did_you_mean

    return f"{what} has no setting {name}{did_you_mean(name, names) or ' (--all shows those that there are)'}"


def run_describe(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    import json

    from ..config.definitions import find_broker_setting
    from .support.kafka_client import KafkaFailure, client_of
    from .support.output import table

    kind, name, what = _resource(options)
    with client_of(options) as client:
        (entries,) = described(client, [(kind, name)], options.names)
        found = {entry.name for entry in entries}
        # What all brokers share is told as far as it is set: a setting that is not set is none that is not there.
        unset = (
            []
            if name or kind != RESOURCES["broker"]
            else [known for known in options.names if find_broker_setting(known)]
        )
        if missing := [wanted for wanted in options.names if wanted not in found and wanted not in unset]:
            (every,) = described(client, [(kind, name)])
            raise KafkaFailure(unknown_setting(what, missing[0], [entry.name for entry in every]))
    shown = [entry for entry in entries if options.all or options.names or entry.config_source in _CHANGED]
    shown.sort(key=lambda entry: entry.name)
    if options.json:
        content = {
            entry.name: {
                "value": entry.value,
                "source": SOURCES.get(entry.config_source, str(entry.config_source)),
                "readOnly": entry.read_only,
                "sensitive": entry.is_sensitive,
            }
            for entry in shown
        }
        print(json.dumps(content, indent=2))
        return 0
    rows = [
        (
            entry.name,
            "(hidden)" if entry.is_sensitive else entry.value,
            SOURCES.get(entry.config_source, entry.config_source),
            "at start only" if entry.read_only else "",
        )
        for entry in shown
    ]
    lines = table(("setting", "value", "from", ""), rows)
    print("\n".join(lines) if lines else "all settings have their defaults (--all shows them)")
    return 0


def run_alter(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    import json

    from .support.kafka_client import KafkaFailure, client_of, pairs_of

    kind, name, what = _resource(options)
    settings = pairs_of(options.config, "--config")
    appended, subtracted = pairs_of(options.append, "--append"), pairs_of(options.subtract, "--subtract")
    if not (settings or appended or subtracted or options.delete_config):
        raise KafkaFailure("nothing to change: give --config NAME=VALUE or --delete-config NAME")
    with client_of(options) as client:
        alter(
            client,
            kind,
            name,
            what,
            settings,
            options.delete_config,
            appended=appended,
            subtracted=subtracted,
            dry_run=options.dry_run,
        )
    if options.json:
        changed = {"set": settings, "deleted": options.delete_config, "appended": appended, "subtracted": subtracted}
        print(json.dumps({"resource": what, **changed, "dryRun": options.dry_run}, indent=2))
    else:
        print(f"{what} could be altered; nothing was changed" if options.dry_run else f"altered {what}")
    return 0
