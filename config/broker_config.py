"""The broker's settings as attributes, typed: what the daemon reads instead of names and texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from .definitions import BROKER_SETTINGS, HONOURED_BROKER
from .exceptions import ConfigError
from .listener import (
    Listener,
    ListenerLimits,
    parse_address,
    parse_address_limits,
    parse_listener,
    parse_message_set_address,
    parse_protocol_map,
)
from .listener_settings import (
    http_problems,
    limits_of,
    securable_listeners,
    security_problems,
    split_name,
    unknown_listener,
    whole_name,
)
from .setting import Value, text_of
from .table.share import SHARE_ORDER


@dataclass(frozen=True, slots=True, init=False)
class BrokerConfig:
    """One attribute for each honoured row of the table, by the row's name with underscores for dots.

    Immutable; any thread reads it. Made by `loader.load_config`; tests say `BrokerConfig(num_partitions=3)`, where what is not
    named has its default. Five attributes are derived from the text: the four listener settings are parsed (controllers'
    listeners left out), and `log_dirs` is `log.dir` where log.dirs is not set. `node_id` is broker.id where only that is set.
    """

    # Network
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    listener_security_protocol_map: dict[str, str]
    controller_listener_names: tuple[str, ...]
    message_set_listeners: tuple[Listener, ...]
    message_set_authentication: str
    message_set_max_magic: int
    http_listener: Listener | None
    http_admin_enable: bool
    http_allowed_hosts: tuple[str, ...]
    http_authentication: tuple[str, ...]
    http_users_read: tuple[str, ...]
    http_users_admin: tuple[str, ...]
    http_tokens_file: str | None
    http_health_open: bool
    http_metrics_open: bool
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_listen_backlog_size: int
    connection_outbound_max_bytes: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: dict[str, int]
    max_connection_creation_rate: int
    max_connections_per_principal: int
    queued_max_request_bytes: int
    queued_max_response_bytes: int
    queued_max_response_bytes_per_client: int
    fetch_cold_disk_percent: int
    request_receive_timeout_ms: int
    response_send_timeout_ms: int
    connections_max_idle_ms: int
    # Node and directories
    node_id: int
    broker_id: int
    broker_rack: str | None
    log_dirs: tuple[str, ...]
    log_dir: tuple[str, ...]
    cordoned_log_dirs: tuple[str, ...]
    log_dir_reserve_bytes: int
    log_damage_policy: str
    # Topics
    max_topics_per_principal: int
    max_partitions_per_principal: int
    max_partitions: int
    auto_create_topics_enable: bool
    num_partitions: int
    default_replication_factor: int
    offsets_topic_replication_factor: int
    transaction_state_log_replication_factor: int
    share_coordinator_state_topic_replication_factor: int
    delete_topic_enable: bool
    # Logs' upkeep
    log_roll_hours: int
    log_roll_jitter_hours: int
    log_retention_minutes: int | None
    log_retention_hours: int
    log_retention_check_interval_ms: int
    log_initial_task_delay_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    num_recovery_threads_per_data_dir: int
    num_replica_alter_log_dirs_threads: int | None
    replica_alter_log_dirs_io_max_bytes_per_second: int
    tidelog_log_scrub_bytes_per_second: int
    background_threads: int
    # Backup
    backup_url: str
    backup_endpoint: str
    backup_region: str
    backup_path_style: bool
    backup_access_key_id: str
    backup_secret_access_key: str | None
    backup_session_token: str | None
    backup_credentials_file: str
    backup_ca_file: str
    backup_interval_ms: int
    backup_retention_ms: int
    backup_keep_hourly: int
    backup_keep_daily: int
    backup_keep_weekly: int
    backup_max_bytes_per_second: int
    backup_fence_ms: int
    backup_verify_interval_ms: int
    backup_verify_max_bytes_per_second: int
    backup_secrets: str
    backup_secrets_key_file: str
    # Fetching
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    # Groups and producers
    group_initial_rebalance_delay_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    offsets_topic_num_partitions: int
    offsets_topic_segment_bytes: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offset_metadata_max_bytes: int
    # Consumer groups
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_consumer_session_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_heartbeat_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_migration_policy: str
    group_consumer_assignment_interval_ms: int
    group_consumer_min_assignment_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_regex_refresh_interval_ms: int
    group_streams_session_timeout_ms: int
    group_streams_min_session_timeout_ms: int
    group_streams_max_session_timeout_ms: int
    group_streams_heartbeat_interval_ms: int
    group_streams_min_heartbeat_interval_ms: int
    group_streams_max_heartbeat_interval_ms: int
    group_streams_max_size: int
    group_streams_num_standby_replicas: int
    group_streams_max_standby_replicas: int
    group_streams_initial_rebalance_delay_ms: int
    group_streams_assignment_interval_ms: int
    group_streams_min_assignment_interval_ms: int
    group_streams_max_assignment_interval_ms: int
    group_streams_topology_descriptions_max_bytes: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    transaction_state_log_num_partitions: int
    transaction_state_log_segment_bytes: int
    # Transactions
    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    # Share groups
    group_share_session_timeout_ms: int
    group_share_min_session_timeout_ms: int
    group_share_max_session_timeout_ms: int
    group_share_heartbeat_interval_ms: int
    group_share_min_heartbeat_interval_ms: int
    group_share_max_heartbeat_interval_ms: int
    group_share_max_size: int
    group_share_assignment_interval_ms: int
    group_share_min_assignment_interval_ms: int
    group_share_max_assignment_interval_ms: int
    group_share_delivery_count_limit: int
    group_share_min_delivery_count_limit: int
    group_share_max_delivery_count_limit: int
    group_share_record_lock_duration_ms: int
    group_share_min_record_lock_duration_ms: int
    group_share_max_record_lock_duration_ms: int
    group_share_partition_max_record_locks: int
    group_share_min_partition_max_record_locks: int
    group_share_max_partition_max_record_locks: int
    group_share_max_share_sessions: int
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_segment_bytes: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_cold_partition_snapshot_interval_ms: int
    # Process, log lines and metrics
    event_loop: str
    logging_level: str
    logging_audit_level: str | None
    logging_format: str
    metrics_per_topic: bool
    metrics_per_group: bool
    metrics_max_group_partitions: int
    metrics_max_partitions: int
    container_gateway_localhost: bool
    # Quotas and telemetry
    telemetry_enable: bool
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    telemetry_max_bytes: int
    # TLS
    ssl_keystore_type: str
    ssl_keystore_location: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: str | None
    ssl_key_password: str | None
    ssl_truststore_type: str
    ssl_truststore_location: str | None
    ssl_truststore_certificates: str | None
    ssl_client_auth: str
    ssl_enabled_protocols: tuple[str, ...]
    ssl_cipher_suites: tuple[str, ...]
    ssl_principal_mapping_rules: str
    ssl_handshake_timeout_ms: int
    ssl_files_check_interval_ms: int
    # SASL
    sasl_enabled_mechanisms: tuple[str, ...]
    sasl_jaas_config: str | None
    connections_max_reauth_ms: int
    connection_failed_authentication_delay_ms: int
    sasl_server_max_receive_size: int
    sasl_authentication_timeout_ms: int
    # Access control
    authorizer_class_name: str
    super_users: str
    allow_everyone_if_no_acl_found: bool
    max_acl_rules: int
    sasl_oauthbearer_jwks_endpoint_url: str | None
    sasl_oauthbearer_expected_audience: tuple[str, ...]
    sasl_oauthbearer_expected_issuer: str | None
    sasl_oauthbearer_allow_unverified_audience: bool
    sasl_oauthbearer_allow_unverified_issuer: bool
    sasl_oauthbearer_sub_claim_name: str
    sasl_oauthbearer_scope_claim_name: str
    sasl_oauthbearer_clock_skew_seconds: int
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int
    # Segments
    log_segment_bytes: int
    log_roll_ms: int | None
    log_roll_jitter_ms: int | None
    log_index_size_max_bytes: int
    log_index_interval_bytes: int
    log_preallocate: bool
    # Retention
    log_retention_ms: int | None
    log_retention_bytes: int
    log_cleanup_policy: tuple[str, ...]
    log_deletion_policies: tuple[str, ...]
    log_segment_delete_delay_ms: int
    # Durability
    log_flush_interval_messages: int
    log_flush_interval_ms: int | None
    # Messages
    message_max_bytes: int
    log_message_format_version: str
    log_message_timestamp_type: str
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_after_max_ms: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    min_insync_replicas: int
    # Cleaning
    log_cleaner_delete_retention_ms: int
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_backoff_ms: int
    log_cleaner_process_enable: bool
    listener_limits: Mapping[str, ListenerLimits]
    """By a listener's name as `listeners` has it, those that have a limit of their own."""
    listener_values: Mapping[str, Value]
    """Settings of single listeners, by their whole names; see `of_listener`."""
    given: Mapping[str, str]
    """Settings of the user, name → text, honoured ones only. Everything else has its default."""
    origins: Mapping[str, str]
    """Origin of each of these settings: a file's path, `environment NAME` or `--set`; empty where nothing was loaded."""
    notices: tuple[str, ...]
    """Lines to log at the start: settings that were taken and mean nothing here, and why."""

    def __init__(self, **values: Any) -> None:
        """Defaults for what `values` (attribute → value) does not name. TypeError on an attribute that is not there."""
        defaults = _defaults()
        if unknown := values.keys() - defaults.keys():
            raise TypeError(f"no such attribute of BrokerConfig: {', '.join(sorted(unknown))}")
        for attribute, default in defaults.items():
            object.__setattr__(self, attribute, values.get(attribute, default))

    @property
    def securable_listeners(self) -> tuple[Listener, ...]:
        """Listeners that may have settings of their own."""
        return securable_listeners(
            self.listeners, self.message_set_listeners, self.http_listener, self.http_authentication
        )

    def of_listener(self, listener: str, setting: str, mechanism: str = "") -> Any:
        """The value of `setting` for a listener, or for one mechanism of it: the narrowest that was set counts."""
        for prefix in dict.fromkeys((mechanism, "")):
            name = whole_name(listener, setting, prefix)
            if name in self.listener_values:
                return self.listener_values[name]
        return getattr(self, setting.replace(".", "_"))


def broker_config(
    values: Mapping[str, Value],
    given: Mapping[str, str] | None = None,
    notices: tuple[str, ...] = (),
    origins: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """The configuration where each setting named in `values` (Kafka's name → parsed value) has that value.

    Raises `ConfigError` with everything that does not fit together.
    """
    attributes, problems = _resolve(values)
    if problems:
        raise ConfigError(problems)
    attributes["given"] = dict(given) if given is not None else {n: text_of(v) or "" for n, v in values.items()}
    attributes["notices"] = notices
    attributes["origins"] = dict(origins or {})
    return BrokerConfig(**attributes)


@cache
def _defaults() -> dict[str, Any]:
    attributes, problems = _resolve({})
    assert not problems, problems
    return {**attributes, "given": {}, "origins": {}, "notices": ()}


def _resolve(values: Mapping[str, Value]) -> tuple[dict[str, Any], list[str]]:
    """Attributes for every honoured setting, and what is wrong between settings."""
    problems: list[str] = []
    attributes: dict[str, Any] = {row.attribute: values.get(row.name, row.default) for row in HONOURED_BROKER}
    _resolve_listeners(attributes, problems)
    _resolve_listener_settings(attributes, values, problems)
    _resolve_node(attributes, values, problems)
    _resolve_limits(attributes, values, problems)
    if bool(attributes["backup_access_key_id"]) != bool(attributes["backup_secret_access_key"]):
        problems.append("backup.access.key.id and backup.secret.access.key belong together: set both, or none of them")
    if attributes["backup_secrets"] == "encrypt" and not attributes["backup_secrets_key_file"]:
        problems.append("backup.secrets=encrypt needs backup.secrets.key.file")
    low, high = attributes["group_min_session_timeout_ms"], attributes["group_max_session_timeout_ms"]
    if low > high:
        problems.append(f"group.min.session.timeout.ms={low} is above group.max.session.timeout.ms={high}")
    for lower, upper in SHARE_ORDER:
        low, high = attributes[BROKER_SETTINGS[lower].attribute], attributes[BROKER_SETTINGS[upper].attribute]
        if low > high:
            problems.append(f"{lower}={low} is above {upper}={high}")
    beat, session = attributes["group_share_heartbeat_interval_ms"], attributes["group_share_session_timeout_ms"]
    if beat >= session:
        problems.append(
            f"group.share.heartbeat.interval.ms={beat} is not below group.share.session.timeout.ms={session}"
        )
    return attributes, problems


def _resolve_node(attributes: dict[str, Any], values: Mapping[str, Value], problems: list[str]) -> None:
    node, older = values.get("node.id", -1), values.get("broker.id", -1)
    if node != older and "node.id" in values and "broker.id" in values:
        problems.append(f"node.id={node} and broker.id={older} are two names of one setting: set one of them")
    attributes["node_id"] = attributes["broker_id"] = node if "node.id" in values else older
    directories = attributes["log_dirs"] or attributes["log_dir"]
    if len(set(directories)) < len(directories):
        problems.append(f"log.dirs={','.join(directories)!r} names a directory twice")
    attributes["log_dirs"] = directories


def _resolve_listener_settings(attributes: dict[str, Any], values: Mapping[str, Value], problems: list[str]) -> None:
    """A listener's setting whose listener is not there would be a wish that nobody sees unfulfilled: it is refused."""
    securable = securable_listeners(
        attributes["listeners"],
        attributes["message_set_listeners"],
        attributes["http_listener"],
        attributes["http_authentication"],
    )
    controllers = {name.lower() for name in attributes["controller_listener_names"]}
    own = attributes["listener_values"] = {}
    for name, value in values.items():
        parts = split_name(name)
        if parts is not None and parts.listener not in controllers:
            problems.extend(unknown_listener(name, parts, securable))
            own[name] = value
    attributes["listener_limits"] = limits_of(own, securable)
    problems.extend(security_problems(securable, own, attributes))
    problems.extend(http_problems(own, attributes))


def _resolve_limits(attributes: dict[str, Any], values: Mapping[str, Value], problems: list[str]) -> None:
    queued, largest = attributes["queued_max_request_bytes"], attributes["socket_request_max_bytes"]
    if 0 <= queued < largest:
        if "queued.max.request.bytes" in values:
            problems.append(f"queued.max.request.bytes={queued} is below socket.request.max.bytes={largest}")
        attributes["queued_max_request_bytes"] = largest
    overrides = attributes["max_connections_per_ip_overrides"]
    try:
        attributes["max_connections_per_ip_overrides"] = parse_address_limits(overrides)
    except ValueError as error:
        problems.append(f"max.connections.per.ip.overrides: {error}")
    cordoned, directories = attributes["cordoned_log_dirs"] or (), attributes["log_dirs"]
    if cordoned == ("*",):
        cordoned = directories
    if unknown := sorted(set(cordoned) - set(directories)):
        problems.append(f"cordoned.log.dirs={','.join(unknown)!r} is not in log.dirs ({','.join(directories)})")
    attributes["cordoned_log_dirs"] = tuple(cordoned)


def _resolve_listeners(attributes: dict[str, Any], problems: list[str]) -> None:
    def attempt(setting: str, parse: Any, *arguments: Any) -> Any:
        try:
            return parse(*arguments)
        except ValueError as error:
            problems.append(f"{setting}: {error}")
            return None

    protocols = {name: name for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")}
    more = attempt("listener.security.protocol.map", parse_protocol_map, attributes["listener_security_protocol_map"])
    attributes["listener_security_protocol_map"] = protocols = {**protocols, **(more or {})}
    controllers = {name.upper() for name in attributes["controller_listener_names"]}
    known = {**dict.fromkeys(controllers, "PLAINTEXT"), **protocols}

    def listeners_of(setting: str, texts: tuple[str, ...] | None) -> tuple[Listener, ...]:
        parsed = (attempt(setting, parse_listener, text, known) for text in texts or ())
        kept = tuple(listener for listener in parsed if listener is not None and listener.name not in controllers)
        names = [listener.name for listener in kept]
        problems.extend(
            f"{setting}: {name} is there twice" for name in sorted({n for n in names if names.count(n) > 1})
        )
        return kept

    listeners = listeners_of("listeners", attributes["listeners"])
    if not listeners and not problems:
        problems.append("listeners: there is none left for clients")
    advertised = listeners_of("advertised.listeners", attributes["advertised_listeners"])
    for listener in advertised:
        if listener.name not in {known_listener.name for known_listener in listeners}:
            problems.append(f"advertised.listeners: {listener} has a name that listeners does not have")
        if listener.host in ("", "0.0.0.0", "::") or not listener.port:  # noqa: S104 - refused here, not bound
            problems.append(f"advertised.listeners: {listener} is no address that a client could connect to")
    attributes["listeners"], attributes["advertised_listeners"] = listeners, advertised
    parse = partial(parse_message_set_address, asks=attributes["message_set_authentication"] != "none")
    message_sets = [attempt("message.set.listeners", parse, text) for text in attributes["message_set_listeners"]]
    attributes["message_set_listeners"] = tuple(listener for listener in message_sets if listener is not None)
    http = attributes["http_listener"]
    attributes["http_listener"] = attempt("http.listener", parse_address, http, "http", "https") if http else None
    bound = [
        (listener.host, listener.port)
        for listener in (*listeners, *attributes["message_set_listeners"], attributes["http_listener"])
        if listener is not None and listener.port
    ]
    if len(set(bound)) < len(bound):
        problems.append("listeners, message.set.listeners, http.listener: two of them have the same host and port")


def super_users_of(setting: str) -> frozenset[str]:
    """Principals in `super.users`, which semicolons separate."""
    return frozenset(filter(None, map(str.strip, setting.split(";"))))
