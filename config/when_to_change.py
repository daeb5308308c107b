"""When a setting is worth changing: a sentence for each, for docs/SETTINGS.md. What it does stands in its row.

`WHEN` is read from the top: the first pattern (fnmatch's) that a name fits has its sentence. Families of bounds share one.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

_BOUND = "To keep groups from asking for extremes; the defaults fit, unless a group needs a value outside of them."
_INTERNAL = "Before the first start only, and hardly then: on one node fewer partitions do as well."
_PACE = "Hardly ever; tests shorten it to see the effect sooner."

WHEN: tuple[tuple[str, str], ...] = (
    # Network
    ("listeners", "Clients come from other machines, or are to be authenticated."),
    ("advertised.listeners",
     "Clients reach the daemon under another address or port than its own: NAT, a published "
     "port, a proxy."),
    ("listener.security.protocol.map", "A listener has a name of its own, as two with TLS must have."),
    ("controller.listener.names", "Never here; it is read so that a file of Kafka's starts."),
    ("http.listener",
     "The console or /metrics are wanted from other machines (see http.authentication first), "
     "or the port is taken."),
    ("socket.request.max.bytes", "Producers send batches larger than 100 MB, or memory is short and clients are not trusted."),
    ("socket.*.buffer.bytes", "One connection over a long, fast line does not fill it."),
    ("socket.listen.backlog.size", "Thousands of clients connect within the same second."),
    ("connection.outbound.max.bytes", "Memory is short with thousands of slow clients."),
    ("connections.max.idle.ms", "A firewall forgets idle connections earlier: stay below its time."),
    ("message.set.listeners", "A program speaks the message-set protocol."),
    ("message.set.authentication", "Message sets are served to others than this machine."),
    ("message.set.max.magic", "A client reads older formats only."),
    ("max.connection*", "Clients that are not trusted, or that have a leak, must leave room for others."),
    ("max.topics.per.principal", "Several teams share the daemon and topics are made by programs."),
    ("max.partitions*", "Several teams share the daemon, or memory and descriptors are bounded."),
    ("queued.max.response.bytes.per.client",
     "Many slow readers share one user, or one address; or one of several users takes too much."),
    ("queued.max.*.bytes", "Memory is short, or many clients send large requests at once and wait for each other."),
    ("fetch.cold.disk.percent",
     "Consumers that catch up are in a hurry and may slow others down (100), or others suffer still (less)."),
    ("request.receive.timeout.ms", "Clients come over very slow lines."),
    ("response.send.timeout.ms", "Clients come over very slow lines."),
    # HTTP
    ("http.admin.enable", "You want buttons in the console: clean, delete records, change settings."),
    ("http.allowed.hosts", "Prometheus or people use a name that the daemon does not know as its own and get 421."),
    ("http.authentication", "HTTP is to be reached from other machines."),
    ("http.users.*", "With http.authentication: name who may look and who may act."),
    ("http.tokens.file", "Programs such as Prometheus sign in with tokens."),
    ("http.health.open", "Nobody unknown may learn even that the daemon runs."),
    ("http.metrics.open", "The scraper can't authenticate, and metrics may be read by everybody."),
    ("container.gateway.localhost",
     "Other machines arrive from the gateway's address: rootless engines, Docker Desktop, a "
     "proxy."),
    # Node and directories
    ("node.id",
     "A directory of a Kafka node with another id is taken over and has no meta.properties, or "
     "several daemons are to be told apart."),
    ("broker.id", "Never; set node.id."),
    ("broker.rack", "Clients are told to prefer a rack."),
    ("log.dirs", "Always in production: name the data directory, or several disks."),
    ("log.dir", "Set log.dirs in its place."),
    ("log.dir.reserve.bytes",
     "The disk is shared with others, or segments are larger than the reserve and cleaning "
     "needs room for one more."),
    ("cordoned.log.dirs", "A disk is to be emptied or taken out."),
    ("log.damage.policy", "You would rather have no start than a gap (stop), or want exactly what Kafka does (kafka)."),
    # Topics
    ("auto.create.topics.enable", "A misspelt name must not become a topic: switch it off in production."),
    ("num.partitions", "Topics that make themselves are to be read by several members of a group."),
    ("*.replication.factor", "Never: there is one copy. A Kafka file may keep its numbers."),
    ("delete.topic.enable", "Nobody is to delete topics by mistake."),
    # Upkeep
    ("log.retention.check.interval.ms", "retention.ms is below some minutes and is to be exact."),
    ("log.flush*checkpoint.interval.ms", "Hardly ever: shorter makes recovery read a little less."),
    ("num.recovery.threads.per.data.dir", "A start after a crash is to use more cores."),
    ("background.threads", "Many disks, or many readers of old data, wait for each other."),
    ("tidelog.log.scrub.bytes.per.second",
     "The disks are large: so much that all is read within weeks. 0 where the file system has "
     "checksums and scrubs itself."),
    ("num.replica.alter.log.dirs.threads", "Many partitions are moved between disks at once."),
    ("replica.alter.log.dirs.io.max.bytes.per.second", "A move between disks slows clients down."),
    # Backup
    ("backup.url", "The machine may be lost, and what is on it must not be."),
    ("backup.endpoint", "The bucket is on a server of your own (MinIO, versitygw, Ceph, …)."),
    ("backup.region", "The bucket is in another region than the environment says."),
    ("backup.path.style", "The server finds buckets by the host's name alone."),
    ("backup.access.key.id", "The environment and the machine have no credentials, or not those of the backup."),
    ("backup.secret.access.key", "With backup.access.key.id."),
    ("backup.session.token", "The access key is a temporary one."),
    ("backup.credentials.file", "Google's tools find no credentials, or others, on this machine."),
    ("backup.ca.file", "The store's certificate is of an authority of your own."),
    ("backup.interval.ms", "Each cut costs too many requests (longer), or a second is too much to lose (shorter)."),
    ("backup.retention.ms", "You want to go back further, or deleted data has to be gone from the backup sooner."),
    ("backup.keep.*", "Cuts cost too much to list and to keep, or an hour of three weeks ago has to be there."),
    ("backup.max.bytes.per.second", "The backup takes the line from clients."),
    ("backup.fence.ms", "You would rather stand still than take records that one disk alone has; after the first cut is there."),
    ("backup.verify.interval.ms",
     "Always where reading costs nothing (a directory, a server of your own): 86400000, once a day. In a cloud as often "
     "as you would pay for."),
    ("backup.verify.max.bytes.per.second",
     "A drill takes the line, or the store's time, from others (less); it does not end in a day (more)."),
    ("backup.secrets", "Whoever reads the store must not get at salted passwords."),
    ("backup.secrets.key.file", "With backup.secrets=encrypt."),
    # Cleaning
    ("log.cleaner.enable", "Never, but to look at a log before it is cleaned."),
    ("log.cleaner.threads", "The cleaner has fallen behind and there are cores to spare."),
    ("log.cleaner.dedupe.buffer.size", "Logs have more keys than fit (some five million by default) and take many passes."),
    ("log.cleaner.io.buffer.load.factor", "Hardly ever: enlarge log.cleaner.dedupe.buffer.size instead."),
    ("log.cleaner.io.buffer.size", "Hardly ever: with several threads and large batches."),
    ("log.cleaner.io.max.bytes.per.second", "Cleaning takes the disk's time from clients."),
    ("log.cleaner.backoff.ms", "Tests that wait for the cleaner."),
    ("log.cleaner.process.enable", "A sandbox lets the daemon start no process, or 30 MiB are not there."),
    # Fetching
    ("fetch.max.bytes", "Clients ask for more than the network or they themselves can take."),
    ("max.incremental.fetch.session.cache.slots", "There are more than a thousand consumers at once."),
    # Groups
    ("group.initial.rebalance.delay.ms", "0 in tests and on a developer's machine: consumers start three seconds sooner."),
    ("group.m??.session.timeout.ms", _BOUND),
    ("group.*max.size", "A runaway deployment must not fill memory with members."),
    ("*.topic.num.partitions", _INTERNAL),
    ("transaction.state.log.num.partitions", _INTERNAL),
    ("offsets.topic.segment.bytes", "Many groups commit often, and a start takes long to load them."),
    ("transaction.state.log.segment.bytes", "Hardly ever: smaller ones are cleaned sooner."),
    ("share.coordinator.state.topic.segment.bytes", "Hardly ever: smaller ones are cleaned sooner."),
    ("offsets.retention.minutes", "A group may be stopped for longer than a week, and is to find its place again."),
    ("offsets.retention.check.interval.ms", _PACE),
    ("offset.metadata.max.bytes", "A client stores more than 4 KB with its offsets."),
    ("producer.id.expiration.ms", "Producers fall silent for longer than a day, and a retry after that must be known."),
    ("group.coordinator.rebalance.protocols", "A protocol is to be kept from clients."),
    ("group.streams.topology.descriptions.max.bytes",
     "There are hundreds of Streams applications, or nobody looks at topologies "
     "(0)."),
    ("group.share.partition.max.record.locks", "Many members read one partition and wait for records."),
    ("group.share.max.share.sessions", "There are more than 2,000 members of share groups."),
    ("group.*.m??.*", _BOUND),
    ("group.*.session.timeout.ms",
     "Members of groups pause for longer than this (garbage collection, slow machines), or are "
     "to be replaced sooner."),
    ("group.*.heartbeat.interval.ms", "Thousands of members load the broker with heartbeats, or changes are to arrive sooner."),
    ("group.consumer.assignors", "Partitions are to be given out by ranges first."),
    ("group.consumer.migration.policy", "A group must not change its protocol while members of both kinds are deployed."),
    ("group.*.assignment.interval.ms", "Groups with many members come and go, and assignments take the broker's time."),
    ("group.streams.num.standby.replicas", "A Streams application is to take over state without restoring it."),
    ("group.streams.initial.rebalance.delay.ms", "An application starts in many instances over a longer time; 0 in tests."),
    ("group.share.delivery.count.limit", "Records are to be tried more often, or given up sooner."),
    ("group.share.record.lock.duration.ms", "Members work on a record for longer than half a minute."),
    ("share.coordinator.snapshot.update.records.per.snapshot", _PACE),
    # Process, log lines, metrics
    ("event.loop", "uvloop can't be installed, or is suspected of a fault."),
    ("logging.level", "While looking for a fault; single loggers can be changed while it runs."),
    ("logging.format", "A program collects the log lines: json."),
    ("logging.audit.level", "Who did what is to be kept, or not."),
    ("metrics.per.*", "There are thousands of topics or groups, and scrapes become large."),
    ("metrics.max.*", "Dashboards need rows of more partitions than that, or scrapes are too large."),
    # Quotas and telemetry
    ("*quota.window.num", "Clients with quotas come in bursts: more windows allow longer ones."),
    ("*quota.window.size.seconds", "Clients with quotas come in bursts: larger windows allow longer ones."),
    ("telemetry.enable", "Clients' own metrics are to be collected."),
    ("telemetry.max.bytes", "Clients push larger metrics."),
    # Transactions
    ("transaction.max.timeout.ms", "A producer needs longer than 15 minutes for a transaction."),
    ("transactional.id.expiration.ms", "A transactional producer may be stopped for longer than a week."),
    ("transaction.*.cleanup.interval.ms", _PACE),
    ("transaction.partition.verification.enable", "Never, but to find out whether it is the cause of a refusal."),
    # TLS and SASL
    ("ssl.*store.type", "Never: PEM is the one format."),
    ("ssl.keystore.location", "Listeners speak TLS."),
    ("ssl.keystore.*", "Certificate and key come from a store of secrets and not from a file."),
    ("ssl.key.password", "The private key is encrypted."),
    ("ssl.truststore.location", "Clients show certificates."),
    ("ssl.truststore.certificates", "The authorities come from a store of secrets and not from a file."),
    ("ssl.client.auth", "Clients are to be known by certificates."),
    ("ssl.enabled.protocols", "Only TLS 1.3 is to be spoken."),
    ("ssl.cipher.suites", "A policy names the suites."),
    ("ssl.principal.mapping.rules", "Rules and quotas are to name short users and not whole subjects."),
    ("ssl.handshake.timeout.ms", "Clients come over very slow lines."),
    ("ssl.files.check.interval.ms", "A renewed certificate is to hold sooner."),
    ("sasl.enabled.mechanisms", "Clients speak another mechanism, or one is to be the only one."),
    ("sasl.jaas.config", "Users are to come from the file, as in a Kafka that is taken over."),
    ("connections.max.reauth.ms", "A user that was deleted is to lose open sessions in time."),
    ("connection.failed.authentication.delay.ms", "Guessing is to be slower still."),
    ("sasl.server.max.receive.size", "Tokens are larger than half a MB."),
    ("sasl.authentication.timeout.ms", "Clients come over very slow lines."),
    ("sasl.oauthbearer.jwks.endpoint.url", "Clients show tokens of an issuer: always."),
    ("sasl.oauthbearer.expected.*", "Clients show tokens of an issuer: always."),
    ("sasl.oauthbearer.allow.unverified.*", "Hardly ever: the issuer makes tokens for this broker alone."),
    ("sasl.oauthbearer.*.claim.name", "The issuer uses another claim."),
    ("sasl.oauthbearer.clock.skew.seconds", "Clocks differ and tokens are refused as too old or too new."),
    ("sasl.oauthbearer.jwks.endpoint.*", "Keys change often, or the issuer must be asked less often."),
    # Access control
    ("authorizer.class.name", "Not everybody who is let in may do everything."),
    ("super.users", "With authorizer.class.name: who sets the rules."),
    ("allow.everyone.if.no.acl.found", "While rules are introduced on a running system; afterwards false."),
    ("max.acl.rules", "There are more rules than that."),
    # Of topics
    ("segment.bytes", "Retention or compaction is to work in smaller steps: quiet topics, small disks."),
    ("internal.segment.bytes", "Tests that need many small segments."),
    ("segment.ms", "A quiet topic is to be cleaned or deleted sooner than after a week."),
    ("segment.jitter.ms", "Thousands of logs were made at the same time and roll together."),
    ("segment.index.bytes", "Hardly ever: with very large segments and a small index.interval.bytes."),
    ("index.interval.bytes", "Hardly ever: look-ups by offset are to read less."),
    ("preallocate", "The file system fragments files that grow together."),
    ("retention.ms", "Always: say how long the records are of use."),
    ("retention.bytes", "The disk is to be bounded whatever producers do: topics times partitions times this."),
    ("cleanup.policy", "The newest record of each key is what counts (compact), for ever or for a time (compact,delete)."),
    ("deletion.policies", "Producers' clocks can't be trusted (append-time), or a policy of your own decides."),
    ("file.delete.delay.ms", "Room is to be there at once."),
    ("flush.messages", "A power cut must not cost an acknowledged record: 1."),
    ("flush.ms", "A power cut may cost some seconds and not more."),
    ("max.message.bytes", "Records or batches are larger than 1 MB."),
    ("message.format.version",
     "Consumers are so old that they can't read format 2, and conversion for each read costs "
     "too much."),
    ("message.timestamp.type", "Producers' clocks can't be trusted."),
    ("message.timestamp.before.max.ms", "Old records are refused on purpose."),
    ("message.timestamp.after.max.ms", "Records are dated ahead on purpose; clocks are wrong otherwise."),
    ("compression.type", "Producers do not compress and the disk is to hold more; it costs CPU time here."),
    ("compression.*.level", "With compression.type: smaller and slower, or larger and faster."),
    ("min.insync.replicas", "Never: there is one copy."),
    ("delete.retention.ms",
     "Readers of a compacted topic take longer than a day for all of it, or deletions are to "
     "vanish sooner."),
    ("min.compaction.lag.ms", "Consumers must have time to see every change."),
    ("max.compaction.lag.ms", "What is superseded or deleted must be gone by a deadline, as the law may ask."),
    ("min.cleanable.dirty.ratio", "The topic is to take less room (lower, more passes) or the cleaner less time (higher)."),
)  # fmt: skip


def when_to_change(name: str) -> str:
    """The sentence for a setting's name; "" where there is none."""
    return next((sentence for pattern, sentence in WHEN if fnmatchcase(name, pattern)), "")
