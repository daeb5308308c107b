"""Names that Kafka has and one node of ours has no use for, and the few that it must not take silently.

Both lists hold names only: a value is never parsed. The names are those of Kafka 4.4, and of older versions whose
`server.properties` files are still around. NO_MEANING: taken with one log line. REFUSED: an error, unless the value
is one that changes nothing.
"""

from __future__ import annotations

from ..setting import STRING, Group, Setting, Status, one_of

_NO_CLIENT = "GSSAPI is not spoken, and this broker is no client of others"

# (why it means nothing here, the names)
_NO_MEANING: tuple[tuple[str, str], ...] = (
    (
        "there are no controllers: one node keeps its own metadata",
        """
        process.roles broker.heartbeat.interval.ms broker.session.timeout.ms initial.broker.registration.timeout.ms
        controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
        controller.quorum.append.linger.ms controller.quorum.auto.join.enable controller.quorum.bootstrap.servers
        controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
        controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
        controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
        controller.quorum.voters controller.socket.timeout.ms control.plane.listener.name early.start.listeners
        controlled.shutdown.enable controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms
        metadata.log.dir metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
        metadata.log.segment.bytes metadata.log.segment.min.bytes metadata.log.segment.ms
        metadata.max.idle.interval.ms metadata.max.retention.bytes metadata.max.retention.ms
        internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
        internal.metadata.max.batch.size.in.bytes sasl.mechanism.controller.protocol server.max.startup.time.ms
        unstable.api.versions.enable unstable.feature.versions.enable
        broker.id.generation.enable reserved.broker.max.id zookeeper.metadata.migration.enable
        """,
    ),
    (
        "there is no replication: one node has the only copy",
        """
        auto.leader.rebalance.enable leader.imbalance.check.interval.seconds leader.imbalance.per.broker.percentage
        num.replica.fetchers replica.fetch.backoff.ms replica.fetch.max.bytes
        replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms
        replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms replica.selector.class
        replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
        leader.replication.throttled.rate follower.replication.throttled.rate
        replication.quota.window.size.seconds alter.log.dirs.replication.quota.window.num
        alter.log.dirs.replication.quota.window.size.seconds unclean.leader.election.enable
        unclean.leader.election.interval.ms eligible.leader.replicas.enable follower.fetch.last.tiered.offset.enable
        inter.broker.listener.name inter.broker.protocol.version security.inter.broker.protocol
        sasl.mechanism.inter.broker.protocol request.timeout.ms socket.connection.setup.timeout.ms
        socket.connection.setup.timeout.max.ms log.dir.failure.timeout.ms
        offsets.commit.timeout.ms transaction.state.log.min.isr
        share.coordinator.state.topic.min.isr
        """,
    ),
    (
        "one event loop does the network's work, and requests wait in no queue",
        """
        num.network.threads num.io.threads queued.max.requests
        fetch.purgatory.purge.interval.requests producer.purgatory.purge.interval.requests
        delete.records.purgatory.purge.interval.requests share.fetch.purgatory.purge.interval.requests
        group.coordinator.threads group.coordinator.background.threads group.coordinator.append.linger.ms
        group.coordinator.cached.buffer.max.bytes group.coordinator.new.enable offsets.load.buffer.size
        share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes share.coordinator.load.buffer.size
        share.coordinator.threads share.coordinator.write.timeout.ms share.coordinator.state.topic.compression.codec
        transaction.state.log.load.buffer.size max.request.partition.size.limit
        """,
    ),
    (
        "metrics are Prometheus', at http.listener",
        """
        kafka.metrics.polling.interval.secs kafka.metrics.reporters metric.reporters metrics.num.samples
        metrics.recording.level metrics.sample.window.ms auto.include.jmx.reporter
        """,
    ),
    (
        "nothing is kept on remote storage",
        """
        log.local.retention.bytes log.local.retention.ms log.remote.copy.lag.bytes log.remote.copy.lag.ms
        remote.fetch.max.wait.ms
        remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
        remote.log.index.file.cache.ttl.ms remote.log.manager.copier.thread.pool.size
        remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
        remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
        remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
        remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.follower.thread.pool.size
        remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
        remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter
        remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
        remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
        remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
        remote.log.reader.max.pending.tasks remote.log.reader.threads remote.log.storage.manager.class.name
        remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
        """,
    ),
    (
        "there are no delegation tokens, and no security providers as Java has them",
        """
        security.providers delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
        delegation.token.max.lifetime.ms delegation.token.secret.key delegation.token.master.key
        password.encoder.secret password.encoder.old.secret password.encoder.keyfactory.algorithm
        password.encoder.cipher.algorithm password.encoder.key.length password.encoder.iterations
        """,
    ),
    (
        "assignments are made where the group is",
        """
        group.consumer.assignor.offload.enable group.share.assignor.offload.enable group.streams.assignor.offload.enable
        """,
    ),
    (
        "streams groups have no warm-up tasks, and one assignor, which is Kafka's built-in one and knows no tags",
        """
        group.streams.acceptable.recovery.lag group.streams.assignors group.streams.max.warmup.replicas
        group.streams.min.task.offset.interval.ms group.streams.num.warmup.replicas group.streams.rack.aware.assignment.tags
        group.streams.task.offset.interval.ms
        """,
    ),
    (
        "what a share group gives up is archived: there is no dead-letter queue (KIP-1191)",
        """
        errors.deadletterqueue.auto.create.topics.enable errors.deadletterqueue.topic.name.prefix
        group.share.dlq.manager.class.name
        """,
    ),
    (
        "all records of a compressed batch may take 128 MiB together, whatever the topic",
        "max.decompressed.message.bytes",
    ),
    ("the daemon keeps descriptions of topologies itself", "group.streams.topology.description.plugin.class"),
    (
        "that protocol is not answered by this version",
        """
        transaction.two.phase.commit.enable
        """,
    ),
    (
        "share.version says whether there are share groups, and what it names there is one of",
        """
        group.share.assignors group.share.enable group.share.max.groups group.share.persister.class.name
        """,
    ),
    (
        "quotas are set by AlterClientQuotas, as in every Kafka since 3.0",
        "quota.producer.default quota.consumer.default",
    ),
    (
        "the coordinator is in the same process, so that nothing is retried on the way to it",
        """
        add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
        group.share.initialize.retry.interval.ms
        """,
    ),
    (
        "every record is answered in a format that its client reads",
        """
        log.message.downconversion.enable log.message.timestamp.difference.max.ms
        offsets.topic.compression.codec
        """,
    ),
    ("values are taken as they stand", "config.providers"),
    (
        "OpenSSL has no such choice, or only a client of other brokers would need it",
        """
        ssl.allow.dn.changes ssl.allow.san.changes ssl.endpoint.identification.algorithm ssl.keymanager.algorithm
        ssl.keystore.password ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
        ssl.truststore.password
        """,
    ),
    (
        _NO_CLIENT,
        """
        sasl.client.callback.handler.class sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.scope
        sasl.oauthbearer.token.endpoint.url
        """,
    ),
)

# (what to do instead, the names, each with the values that are harmless)
_REFUSED: tuple[tuple[str, dict[str, tuple[str, ...]]], ...] = (
    (
        "Java plug-ins can't be loaded, and leaving this one out would lift a rule that you rely on",
        {
            "create.topic.policy.class.name": ("",),
            "alter.config.policy.class.name": ("",),
            "client.quota.callback.class": ("",),
            "principal.builder.class": (
                "",
                "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
            ),
            "ssl.engine.factory.class": ("",),
            "sasl.server.callback.handler.class": (
                "",
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
                "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
            ),
            "sasl.oauthbearer.jwt.validator.class": (
                "",
                "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
                "org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
            ),
        },
    ),
    ("nothing is kept on remote storage", {"remote.log.storage.system.enable": ("false",)}),
    ("say listeners=PLAINTEXT://HOST:PORT", {"host.name": ("",), "port": ("",)}),
    (
        "say advertised.listeners=PLAINTEXT://HOST:PORT",
        {"advertised.host.name": ("",), "advertised.port": ("",)},
    ),
)

# Whole families of names, by how they begin.
FAMILIES: tuple[tuple[str, str], ...] = (
    ("zookeeper.", "there is no ZooKeeper: one node keeps its own metadata"),
    ("rsm.config.", "nothing is kept on remote storage"),
    ("rlmm.config.", "nothing is kept on remote storage"),
    ("sasl.kerberos.", _NO_CLIENT),
    ("sasl.login.", _NO_CLIENT),
    ("sasl.oauthbearer.assertion.", _NO_CLIENT),
    ("sasl.oauthbearer.client.credentials.", _NO_CLIENT),
)


IGNORED_ROWS: tuple[Setting, ...] = tuple(
    Setting(name, type=STRING, default=None, group=Group.NO_MEANING, status=Status.NO_MEANING, doc=reason)
    for reason, names in _NO_MEANING
    for name in names.split()
) + tuple(
    Setting(
        name,
        type=STRING,
        default=None,
        allowed=one_of(*harmless),
        group=Group.REFUSED,
        status=Status.REFUSED,
        doc=hint,
    )
    for hint, names in _REFUSED
    for name, harmless in names.items()
)
