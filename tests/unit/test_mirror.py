"""The shape of the code: every module has its test beside it in the mirror, and none grows beyond what one can read."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("broker", "cleaner", "clients", "config", "protocol", "storage", "pipeline")
MOST_LINES = 600

#: Modules whose tests are not `tests/unit/<package>/test_<module>.py`, and where they are, or why there is nothing to test.
ELSEWHERE: dict[str, str] = {
    # Tables and values without logic.
    "broker/__main__.py": "one call",
    "broker/http_user.py": "values",
    "broker/http_handler.py": "tests/unit/broker/test_http_server.py",
    "broker/https.py": "tests/client/test_http_authentication.py",
    "broker/authorized_operations.py": "tests/unit/broker/apis/test_metadata.py, tests/client/test_permissions.py",
    "broker/metric_family.py": "values",
    "broker/group_events.py": "values; used in each test of groups",
    "broker/modern_groups/assignment_spec.py": "values",
    "broker/modern_groups/range_assignor.py": "tests/property/test_assignors.py",
    "broker/modern_groups/uniform_assignor.py": "tests/property/test_assignors.py",
    "broker/modern_groups/outcome.py": "values; used in each test of modern groups",
    "broker/modern_groups/machine.py": "an interface; tests/unit/broker/modern_groups/test_modern_groups.py",
    "broker/long_fetch.py": "tests/client/test_many_names.py",
    "broker/request_context.py": "tests/client/test_permissions.py",
    "broker/timer.py": "one call to the loop; its mock has tests",
    "config/definitions_access.py": "a table: tests/unit/config/test_definitions.py",
    "config/definitions_administration.py": "a table: tests/unit/config/test_definitions.py",
    "config/definitions_groups.py": "a table: tests/unit/config/test_definitions.py",
    "config/definitions_broker.py": "a table: tests/unit/config/test_definitions.py",
    "config/definitions_resources.py": "a table: tests/unit/broker/apis/test_incremental_alter_configs.py",
    "config/definitions_share.py": "a table: tests/unit/config/test_definitions.py",
    "config/definitions_ignored.py": "a table: tests/unit/config/test_definitions.py",
    "config/definitions_http.py": "a table: tests/unit/config/test_broker_config.py",
    "config/definitions_message_set.py": "a table: tests/unit/config/test_definitions.py",
    "config/definitions_operation.py": "a table: tests/unit/config/test_definitions.py",
    "config/definitions_transactions.py": "a table: tests/unit/config/test_definitions.py",
    "config/listener_checks.py": "tests/unit/config/test_broker_config.py",
    "config/definitions_tokens.py": "a table: tests/unit/config/test_definitions.py",
    "config/definitions_security.py": "a table: tests/unit/config/test_definitions.py",
    "broker/security/acl.py": "values",
    "broker/security/authorizer.py": "an interface",
    "broker/security/mechanism.py": "types",
    "broker/share/state_requests.py": "tests/client/test_share_groups.py",
    "config/definitions_limits.py": "a table: tests/unit/config/test_definitions.py",
    "config/definitions_topic.py": "a table: tests/unit/config/test_definitions.py",
    "config/exceptions.py": "types",
    "protocol/records/attributes.py": "constants",
    "protocol/http_exchange.py": "tests/client/test_oauthbearer.py, tests/client/test_oauth_clients.py",
    "storage/clock.py": "calls to the system's clocks",
    "storage/exceptions.py": "types",
    "storage/log_values.py": "values",
    "cleaner/exceptions.py": "types",
    # Whole programs: what they do shows in the rings that start them.
    "broker/server.py": "tests/client, tests/unit/broker/test_start_up.py",
    "broker/cli/main.py": "tests/client, tests/packaging",
    "broker/cli/serve.py": "tests/client",
    "broker/cli/settings.py": "tests/packaging",
    "broker/cli/log.py": "its commands have tests each",
    "broker/console/turned_away.py": "tests/client/test_http_authentication.py",
    "broker/console/cleaner.py": "tests/client/test_console.py",
    "broker/console/config_action.py": "tests/client/test_console_actions.py",
    "broker/console/confirming.py": "tests/client/test_console_actions.py",
    "broker/console/connections.py": "tests/client/test_console.py",
    "broker/console/disks.py": "tests/client/test_console.py",
    "broker/console/group_actions.py": "tests/client/test_console_actions.py",
    "broker/console/loggers.py": "tests/client/test_console_actions.py",
    "broker/console/log_actions.py": "tests/client/test_console_actions.py",
    "broker/console/groups.py": "tests/client/test_console.py",
    "broker/console/overview.py": "tests/client/test_console.py",
    "broker/console/records.py": "tests/client/test_console.py",
    "broker/console/settings.py": "tests/client/test_console.py",
    "broker/console/state.py": "tests/unit/broker/console/test_pages.py, tests/client/test_console.py",
    "broker/console/topics.py": "tests/unit/broker/console/test_pages.py",
    "broker/console/transactions.py": "tests/client/test_console.py",
    "broker/cli/completion.py": "tests/compat/test_cli.py",
    "broker/cli/acls.py": "tests/client/test_acls.py",
    "broker/cli/acl_source.py": "tests/client/test_acls.py",
    "broker/cli/offline.py": "tests/client/test_acls.py, tests/client/test_security.py",
    "broker/cli/users.py": "tests/client/test_security.py",
    "broker/cli/configs.py": "tests/client/test_admin_commands.py",
    "broker/cli/offsets.py": "tests/client/test_admin_commands.py",
    "broker/cli/topics.py": "tests/client/test_admin_commands.py",
    "broker/cli/transactions.py": "tests/client/test_admin_commands.py",
    "broker/testing/broker.py": "tests/client/test_testing.py",
    "broker/testing/life.py": "tests/client/test_testing.py",
    "broker/testing/plugin.py": "tests/client/test_testing.py",
    "broker/testing/process.py": "tests/client/test_testing.py",
    "clients/message_set_client.py": "sockets: tests/client/test_message_set_clients.py",
    "clients/async_message_set_client.py": "sockets: tests/client/test_message_set_clients.py",
    # Tested together with what they are a part of.
    "broker/apis/share_group_heartbeat.py": "tests/client/test_share_groups.py",
    "broker/apis/share_group_describe.py": "tests/client/test_share_groups.py",
    "broker/apis/share_fetch.py": "tests/client/test_share_groups.py",
    "broker/apis/share_acknowledge.py": "tests/client/test_share_groups.py",
    "broker/apis/initialize_share_group_state.py": "tests/client/test_share_groups.py",
    "broker/apis/read_share_group_state.py": "tests/client/test_share_groups.py",
    "broker/apis/write_share_group_state.py": "tests/client/test_share_groups.py",
    "broker/apis/delete_share_group_state.py": "tests/client/test_share_groups.py",
    "broker/apis/read_share_group_state_summary.py": "tests/client/test_share_groups.py",
    "broker/apis/describe_share_group_offsets.py": "tests/client/test_share_groups.py",
    "broker/apis/alter_share_group_offsets.py": "tests/client/test_share_groups.py",
    "broker/apis/delete_share_group_offsets.py": "tests/client/test_share_groups.py",
    "broker/share/acknowledgements.py": "tests/client/test_share_groups.py",
    "broker/share/fetch.py": "tests/client/test_share_groups.py",
    "broker/share/groups.py": "tests/client/test_share_groups.py",
    "broker/share/manager.py": "tests/client/test_share_groups.py",
    "broker/share/batches.py": "tests/property/test_share_partition_model.py",
    "broker/share/in_flight.py": "tests/property/test_share_partition_model.py",
    "broker/share/state.py": "tests/unit/broker/share/test_coordinator.py",
    "broker/share/loading.py": "tests/unit/broker/share/test_coordinator.py",
    "broker/modern_groups/share_group.py": "tests/unit/broker/modern_groups/test_share_groups.py",
    "broker/modern_groups/share_records.py": "tests/unit/broker/modern_groups/test_share_groups.py",
    "broker/dispatcher.py": "tests/client/test_wire.py, tests/compat/test_bad_input.py",
    "broker/apis/consumer_group_describe.py": "tests/unit/broker/apis/test_consumer_group_heartbeat.py",
    "broker/apis/delete_groups.py": "tests/unit/broker/apis/test_group_apis.py",
    "broker/apis/describe_groups.py": "tests/unit/broker/apis/test_group_apis.py",
    "broker/apis/find_coordinator.py": "tests/unit/broker/apis/test_group_apis.py",
    "broker/apis/heartbeat.py": "tests/unit/broker/apis/test_group_apis.py",
    "broker/apis/join_group.py": "tests/unit/broker/apis/test_group_apis.py",
    "broker/apis/leave_group.py": "tests/unit/broker/apis/test_group_apis.py",
    "broker/apis/list_groups.py": "tests/unit/broker/apis/test_group_apis.py",
    "broker/apis/offset_commit.py": "tests/unit/broker/apis/test_group_apis.py",
    "broker/apis/offset_delete.py": "tests/unit/broker/apis/test_group_apis.py",
    "broker/apis/offset_fetch.py": "tests/unit/broker/apis/test_group_apis.py",
    "broker/apis/add_raft_voter.py": "tests/unit/broker/apis/test_single_node_apis.py",
    "broker/apis/alter_partition_reassignments.py": "tests/unit/broker/apis/test_single_node_apis.py",
    "broker/apis/alter_user_scram_credentials.py": "tests/unit/broker/apis/test_security_apis.py",
    "broker/apis/create_acls.py": "tests/unit/broker/apis/test_acl_apis.py",
    "broker/apis/create_delegation_token.py": "tests/unit/broker/apis/test_security_apis.py",
    "broker/apis/delete_acls.py": "tests/unit/broker/apis/test_acl_apis.py",
    "broker/apis/describe_acls.py": "tests/unit/broker/apis/test_acl_apis.py",
    "broker/apis/describe_delegation_token.py": "tests/unit/broker/apis/test_security_apis.py",
    "broker/apis/describe_quorum.py": "tests/unit/broker/apis/test_single_node_apis.py",
    "broker/apis/describe_user_scram_credentials.py": "tests/unit/broker/apis/test_security_apis.py",
    "broker/apis/elect_leaders.py": "tests/unit/broker/apis/test_single_node_apis.py",
    "broker/apis/expire_delegation_token.py": "tests/unit/broker/apis/test_security_apis.py",
    "broker/apis/list_partition_reassignments.py": "tests/unit/broker/apis/test_single_node_apis.py",
    "broker/apis/remove_raft_voter.py": "tests/unit/broker/apis/test_single_node_apis.py",
    "broker/apis/renew_delegation_token.py": "tests/unit/broker/apis/test_security_apis.py",
    "broker/apis/sasl_authenticate.py": "tests/unit/broker/apis/test_security_apis.py",
    "broker/apis/sasl_handshake.py": "tests/unit/broker/apis/test_security_apis.py",
    "broker/apis/unregister_broker.py": "tests/unit/broker/apis/test_single_node_apis.py",
    "broker/apis/alter_client_quotas.py": "tests/unit/broker/apis/test_client_quota_apis.py",
    "broker/apis/describe_client_quotas.py": "tests/unit/broker/apis/test_client_quota_apis.py",
    "broker/apis/add_offsets_to_txn.py": "tests/unit/broker/apis/test_transaction_apis.py",
    "broker/apis/add_partitions_to_txn.py": "tests/unit/broker/apis/test_transaction_apis.py",
    "broker/apis/describe_producers.py": "tests/unit/broker/apis/test_transaction_apis.py",
    "broker/apis/describe_transactions.py": "tests/unit/broker/apis/test_transaction_apis.py",
    "broker/apis/end_txn.py": "tests/unit/broker/apis/test_transaction_apis.py",
    "broker/apis/list_transactions.py": "tests/unit/broker/apis/test_transaction_apis.py",
    "broker/apis/txn_offset_commit.py": "tests/unit/broker/apis/test_transaction_apis.py",
    "broker/apis/write_txn_markers.py": "tests/unit/broker/apis/test_transaction_apis.py",
    "broker/apis/get_telemetry_subscriptions.py": "tests/unit/broker/test_client_telemetry.py",
    "broker/apis/push_telemetry.py": "tests/unit/broker/test_client_telemetry.py",
    "broker/apis/sync_group.py": "tests/unit/broker/apis/test_group_apis.py",
    "protocol/codec.py": "tests/unit/protocol/test_schema.py, tests/property/test_message_codecs.py",
    "protocol/records/builder.py": "tests/golden/test_records_golden.py, tests/property/test_records_against_clients.py",
    "protocol/records/crc.py": "tests/unit/protocol/records/test_kernel.py",
    "protocol/records/reference.py": "an oracle: tests/unit/protocol/records/test_kernel.py holds the kernel to it",
    "pipeline/arrow.py": "tests/spark",
    "pipeline/source.py": "tests/spark",
    "pipeline/stream_source.py": "tests/spark",
    "pipeline/batch_decoder.py": "tests/unit/pipeline/test_segment_reader.py, tests/property/test_segment_reader.py",
    "pipeline/columns.py": "values",
    "pipeline/exceptions.py": "types",
    "pipeline/jobs/profile.py": "tests/spark/test_jobs.py",
    "pipeline/jobs/upsert.py": "tests/tables/test_upsert.py",
    "pipeline/sink/arrow_rows.py": "tests/spark/test_sink.py",
    "pipeline/sink/committer.py": "tests/client/test_sink.py",
    "pipeline/sink/producer.py": "tests/client/test_sink.py",
    "pipeline/sink/task.py": "tests/spark/test_sink.py",
    "pipeline/sink/writers.py": "tests/spark/test_sink.py, test_sink_kills.py",
    "pipeline/sparse_index.py": "tests/unit/pipeline/test_segment_reader.py, tests/property/test_segment_reader.py",
    "pipeline/splits.py": "tests/unit/pipeline/test_segment_reader.py, tests/property/test_segment_reader.py",
    "pipeline/places.py": "tests/unit/pipeline/test_batch_plan.py, tests/client/test_pipeline_sources.py",
    "pipeline/reading.py": "two calls: tests/property/test_pipeline_sources.py",
    "pipeline/timestamps.py": "tests/property/test_pipeline_sources.py",
    "pipeline/latest_view.py": "tests/spark",
    "pipeline/views.py": "tests/property/test_pipeline_views.py, tests/spark",
    "pipeline/wire/transport.py": "sockets: tests/client/test_pipeline_sources.py",
    "storage/data_directory.py": "tests/unit/storage/test_log_loader.py",
    "storage/local_log.py": "tests/unit/storage/test_unified_log.py",
    "storage/log_reader.py": "tests/unit/storage/test_unified_log.py, tests/property/test_log_model.py",
    "storage/log_segment.py": "tests/unit/storage/test_unified_log.py, tests/property/test_log_model.py",
    "storage/producer_replay.py": "tests/unit/storage/test_log_loader.py, tests/property/test_producer_state_model.py",
    "storage/segment_files.py": "tests/unit/storage/test_unified_log.py, test_file_cache.py",
    "storage/segment_scan.py": "tests/unit/storage/test_log_loader.py, tests/crash",
}
#: Longer than they should be; these bounds only fall.
LONGER: dict[str, int] = {}
#: Declared messages: all of them at once against two other implementations, in tests/property/test_message_codecs.py.
DECLARED = "protocol/messages/"


def modules() -> list[str]:
    return sorted(
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py*")
        if path.suffix in (".py", ".pyx") and path.name != "__init__.py"
    )


def mirror(module: str) -> Path:
    path = Path(module)
    return ROOT / "tests" / "unit" / path.parent / f"test_{path.stem.removeprefix('_')}.py"


@pytest.mark.parametrize("module", modules())
def test_every_module_has_its_test(module: str) -> None:
    if mirror(module).exists():
        assert module not in ELSEWHERE, "has a test of its own now"
    else:
        assert module in ELSEWHERE or (module.startswith(DECLARED) and module.endswith(".py")), mirror(module)


def test_the_exceptions_are_modules() -> None:
    assert set(ELSEWHERE) - set(modules()) == set()


@pytest.mark.parametrize("module", [name for name in modules() if name.endswith(".py")])
def test_no_module_is_too_long(module: str) -> None:
    assert len((ROOT / module).read_text().splitlines()) <= LONGER.get(module, MOST_LINES)
