"""The settings that a topic can have of its own, each with the broker settings that stand in for it.

The broker's side (`log.segment.bytes` for `segment.bytes`) is derived in `definitions.py`: same type, range and text.
"""

from __future__ import annotations

from ..setting import (
    BOOLEAN,
    DOUBLE,
    HIGH,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    Allowed,
    Group,
    Setting,
    Status,
    Synonym,
    at_least,
    between,
    one_of,
    some_of,
)

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

# The smallest message of the oldest format: 4 CRC, 1 magic, 1 attributes, 4 + 4 lengths.
SMALLEST_SEGMENT = 14


# fmt: off
HONOURED_TOPIC_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "segment.bytes", type=INT, default=1024 * 1024 * 1024, allowed=at_least(SMALLEST_SEGMENT), group=Group.SEGMENTS,
        importance=HIGH, dynamic=True, synonyms=(Synonym("log.segment.bytes"),),
        doc="Size in bytes at which a log starts a new segment file. Retention and cleaning work on whole segments, so "
            "smaller ones make both finer, at the price of more files.",
        why_different="Kafka 4.1 and newer ask for 1 MiB at least; smaller segments work here",
    ),
    Setting(
        "segment.ms", type=LONG, default=7 * DAY_MS, allowed=at_least(1), group=Group.SEGMENTS, importance=HIGH, dynamic=True,
        synonyms=(Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR_MS)),
        doc="How much younger than a segment's first record a new one may be, in milliseconds, before a log starts a new "
            "segment even if the present one is not full, so that retention and cleaning can get at old records. Where "
            "nothing is written, the clock stands in for the new record.",
    ),
    Setting(
        "segment.jitter.ms", type=LONG, default=0, allowed=at_least(0), group=Group.SEGMENTS, dynamic=True,
        synonyms=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOUR_MS)),
        doc="Up to this many milliseconds are taken off segment.ms, by chance for each segment, so that the logs of a broker "
            "do not all roll at one moment.",
    ),
    Setting(
        "segment.index.bytes", type=INT, default=10 * 1024 * 1024, allowed=at_least(4), group=Group.SEGMENTS, dynamic=True,
        synonyms=(Synonym("log.index.size.max.bytes"),),
        doc="Space in bytes set aside for each index of the active segment, rounded down to a multiple of the entry size (8 "
            "and 12 bytes). An index that is full makes the log roll.",
    ),
    Setting(
        "index.interval.bytes", type=INT, default=4096, allowed=at_least(0), group=Group.SEGMENTS, dynamic=True,
        synonyms=(Synonym("log.index.interval.bytes"),),
        doc="Bytes of log between two index entries: fewer make look-ups shorter and the indexes larger.",
    ),
    Setting(
        "preallocate", type=BOOLEAN, default=False, group=Group.SEGMENTS, dynamic=True,
        synonyms=(Synonym("log.preallocate"),),
        doc="Whether a new segment file gets its full size on disk at once. The rest is given back when it is rolled, when "
            "the broker stops, and after a crash at the next start; sizes and retention count what was written.",
    ),
    Setting(
        "retention.ms", type=LONG, default=7 * DAY_MS, allowed=at_least(-1), group=Group.RETENTION, importance=HIGH,
        dynamic=True,
        synonyms=(Synonym("log.retention.ms"), Synonym("log.retention.minutes", MINUTE_MS),
                  Synonym("log.retention.hours", HOUR_MS)),
        doc="Milliseconds after which a segment may go, counted from its newest record; -1 keeps it whatever its age. Holds "
            "where cleanup.policy has delete in it.",
    ),
    Setting(
        "retention.bytes", type=LONG, default=-1, group=Group.RETENTION, importance=HIGH, dynamic=True,
        synonyms=(Synonym("log.retention.bytes"),),
        doc="Size in bytes above which a partition loses its oldest segments; -1 is no limit. It is a limit for each "
            "partition, and counts record files only, not indexes. Holds where cleanup.policy has delete in it.",
    ),
    Setting(
        "cleanup.policy", type=LIST, default=("delete",), allowed=some_of("compact", "delete"), group=Group.RETENTION,
        dynamic=True, synonyms=(Synonym("log.cleanup.policy"),),
        doc="What becomes of old records: delete drops whole segments by age and size, compact keeps the newest record of "
            "every key, both together do both.",
    ),
    Setting(
        "deletion.policies", type=LIST, default=("time", "size"),
        allowed=Allowed(pattern=r"^[A-Za-z0-9._-]+$", text="time, size, append-time, or the names of installed policies"),
        group=Group.RETENTION, dynamic=True, own=True, synonyms=(Synonym("log.deletion.policies"),),
        doc="Who decides which segments may go where cleanup.policy has delete in it: time (retention.ms, by the records' "
            "timestamps), size (retention.bytes), append-time (retention.ms, counted from the last write to the segment's "
            "file, so that no timestamp can hold it), or a policy that a package has brought along (see "
            "DELETION_POLICIES.md). Each may take what the others leave; empty keeps all. What DeleteRecords has cut off goes "
            "in any case.",
    ),
    Setting(
        "file.delete.delay.ms", type=LONG, default=MINUTE_MS, allowed=at_least(0), group=Group.RETENTION, importance=HIGH,
        dynamic=True, synonyms=(Synonym("log.segment.delete.delay.ms"),),
        doc="Milliseconds between the moment a segment leaves its log and the removal of its files.",
    ),
    Setting(
        "flush.messages", type=LONG, default=LONG_MAX, allowed=at_least(1), group=Group.DURABILITY, importance=HIGH,
        dynamic=True, synonyms=(Synonym("log.flush.interval.messages"),),
        doc="Records after which a log is synced to disk, before the last of them is acknowledged. 1 makes every answer wait "
            "for the sync that covers it (writers that wait together share one); the default leaves syncing to the operating "
            "system.",
    ),
    Setting(
        "flush.ms", type=LONG, default=LONG_MAX, allowed=at_least(0), group=Group.DURABILITY, importance=HIGH, dynamic=True,
        synonyms=(Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
        doc="Milliseconds that a record may stay unsynced. The default leaves syncing to the operating system.",
    ),
    Setting(
        "max.message.bytes", type=INT, default=1024 * 1024 + 12, allowed=at_least(0), group=Group.MESSAGES, importance=HIGH,
        dynamic=True, synonyms=(Synonym("message.max.bytes"),),
        doc="Largest record batch in bytes, after compression, that the log takes; a larger one is refused with "
            "MESSAGE_TOO_LARGE. Consumers still get batches that were larger than today's limit.",
    ),
    Setting(
        "message.format.version", type=STRING, default="3.0-IV1",
        allowed=Allowed(pattern=r"^([012]|0\.(8|9|10|11)\.\d+(\.\d+)?(-IV\d+)?|[1-9]\d*\.\d+(\.\d+)?(-IV\d+)?)$",
                        text="0, 1, 2, or a Kafka version such as 0.9.0, 0.10.2, 2.8-IV1 or 4.0"),
        group=Group.MESSAGES, dynamic=True, own=True, synonyms=(Synonym("log.message.format.version"),),
        doc="Message format that appends are stored in: 0, 1 or 2, or the Kafka version that brought it, as Kafka 3 and older "
            "name it: up to 0.9 is format 0, 0.10 is 1, 0.11 and later is 2. Older batches stay as they are, and are read as "
            "they are. Formats 0 and 1 have no headers (they are dropped), no zstd, no idempotent producers and no "
            "transactions (UNSUPPORTED_FOR_MESSAGE_FORMAT); 0 has no timestamps. Every append is then converted: slower.",
    ),
    Setting(
        "message.timestamp.type", type=STRING, default="CreateTime", allowed=one_of("CreateTime", "LogAppendTime"),
        group=Group.MESSAGES, dynamic=True, synonyms=(Synonym("log.message.timestamp.type"),),
        doc="Whose time a record carries: the producer's (CreateTime) or that of its arrival here (LogAppendTime).",
    ),
    Setting(
        "message.timestamp.before.max.ms", type=LONG, default=LONG_MAX, allowed=at_least(0), group=Group.MESSAGES,
        dynamic=True, synonyms=(Synonym("log.message.timestamp.before.max.ms"),),
        doc="Milliseconds by which a producer's timestamp may lie in the past; an older record is refused with "
            "INVALID_TIMESTAMP. Nothing is checked under LogAppendTime.",
    ),
    Setting(
        "message.timestamp.after.max.ms", type=LONG, default=HOUR_MS, allowed=at_least(0), group=Group.MESSAGES, dynamic=True,
        synonyms=(Synonym("log.message.timestamp.after.max.ms"),),
        doc="Milliseconds by which a producer's timestamp may lie in the future; a later record is refused with "
            "INVALID_TIMESTAMP. Nothing is checked under LogAppendTime.",
    ),
    Setting(
        "compression.type", type=STRING, default="producer",
        allowed=one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), group=Group.MESSAGES, importance=HIGH,
        dynamic=True, synonyms=(Synonym("compression.type"),),
        doc="Codec that batches are stored in. producer keeps each as it came, untouched; any other value recompresses those "
            "that came in another codec.",
    ),
    Setting(
        "compression.gzip.level", type=INT, default=-1, allowed=between(1, 9, also=(-1,)), group=Group.MESSAGES, dynamic=True,
        synonyms=(Synonym("compression.gzip.level"),),
        doc="Level for gzip where compression.type is gzip; -1 is zlib's own default.",
    ),
    Setting(
        "compression.lz4.level", type=INT, default=9, allowed=between(1, 17), group=Group.MESSAGES, dynamic=True,
        synonyms=(Synonym("compression.lz4.level"),),
        doc="Level for lz4 where compression.type is lz4.",
    ),
    Setting(
        "compression.zstd.level", type=INT, default=3, allowed=between(-131072, 22), group=Group.MESSAGES, dynamic=True,
        synonyms=(Synonym("compression.zstd.level"),),
        doc="Level for zstd where compression.type is zstd.",
    ),
    Setting(
        "min.insync.replicas", type=INT, default=1, allowed=at_least(1), group=Group.MESSAGES, importance=HIGH, dynamic=True,
        synonyms=(Synonym("min.insync.replicas"),),
        doc="Copies that must have a record before acks=all is answered. There is one copy here, so anything above 1 makes "
            "such produces fail with NOT_ENOUGH_REPLICAS, as it does on a Kafka with one broker left.",
    ),
    Setting(
        "delete.retention.ms", type=LONG, default=DAY_MS, allowed=at_least(0), group=Group.CLEANING, dynamic=True,
        synonyms=(Synonym("log.cleaner.delete.retention.ms"),),
        doc="Milliseconds that the deletion mark of a key (a record without value) stays readable in a compacted topic after "
            "the pass that cleaned up to it.",
    ),
    Setting(
        "min.compaction.lag.ms", type=LONG, default=0, allowed=at_least(0), group=Group.CLEANING, dynamic=True,
        synonyms=(Synonym("log.cleaner.min.compaction.lag.ms"),),
        doc="Milliseconds that a record stays untouched by compaction after it was written.",
    ),
    Setting(
        "max.compaction.lag.ms", type=LONG, default=LONG_MAX, allowed=at_least(1), group=Group.CLEANING, dynamic=True,
        synonyms=(Synonym("log.cleaner.max.compaction.lag.ms"),),
        doc="Milliseconds after which a record must have been through compaction, however little else is dirty.",
    ),
    Setting(
        "min.cleanable.dirty.ratio", type=DOUBLE, default=0.5, allowed=between(0, 1), group=Group.CLEANING, dynamic=True,
        synonyms=(Synonym("log.cleaner.min.cleanable.ratio"),),
        doc="Share of a log, in bytes, that must not have been cleaned yet before a pass is worth while.",
    ),
    Setting(
        "internal.segment.bytes", type=INT, default=None, allowed=at_least(SMALLEST_SEGMENT), group=Group.SEGMENTS,
        dynamic=True, internal=True,
        doc="The same as segment.bytes, and wins over it: Kafka's name for segments below 1 MiB.",
    ),
)





_NOT_TIERED = "Nothing is kept on remote storage here."

IDLE_TOPIC_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "unclean.leader.election.enable", type=BOOLEAN, default=False, group=Group.NO_MEANING, dynamic=True,
        status=Status.NO_MEANING,
        doc="One node is always its own leader: there is no election, clean or unclean.",
    ),
    Setting(
        "leader.replication.throttled.replicas", type=LIST, default=(), group=Group.NO_MEANING, dynamic=True,
        status=Status.NO_MEANING,
        doc="There is no replication to throttle.",
    ),
    Setting(
        "follower.replication.throttled.replicas", type=LIST, default=(), group=Group.NO_MEANING, dynamic=True,
        status=Status.NO_MEANING,
        doc="There is no replication to throttle.",
    ),
    Setting(
        "remote.storage.enable", type=BOOLEAN, default=False, allowed=one_of("false"), group=Group.NO_MEANING, dynamic=True,
        status=Status.NO_MEANING,
        doc=_NOT_TIERED,
    ),
    Setting(
        "remote.log.copy.disable", type=BOOLEAN, default=False, group=Group.NO_MEANING, dynamic=True,
        status=Status.NO_MEANING,
        doc=_NOT_TIERED,
    ),
    Setting(
        "remote.log.delete.on.disable", type=BOOLEAN, default=False, group=Group.NO_MEANING, dynamic=True,
        status=Status.NO_MEANING,
        doc=_NOT_TIERED,
    ),
    Setting(
        "local.retention.ms", type=LONG, default=-2, allowed=between(-2, LONG_MAX), group=Group.NO_MEANING, dynamic=True,
        status=Status.NO_MEANING,
        doc=_NOT_TIERED,
    ),
    Setting(
        "local.retention.bytes", type=LONG, default=-2, allowed=between(-2, LONG_MAX), group=Group.NO_MEANING, dynamic=True,
        status=Status.NO_MEANING,
        doc=_NOT_TIERED,
    ),
    Setting(
        "remote.copy.lag.ms", type=LONG, default=0, allowed=between(-1, LONG_MAX), group=Group.NO_MEANING, dynamic=True,
        status=Status.NO_MEANING,
        doc=_NOT_TIERED,
    ),
    Setting(
        "remote.copy.lag.bytes", type=LONG, default=-1, allowed=between(-1, LONG_MAX), group=Group.NO_MEANING, dynamic=True,
        status=Status.NO_MEANING,
        doc=_NOT_TIERED,
    ),
    Setting(
        "max.decompressed.message.bytes", type=INT, default=INT_MAX - 8, allowed=between(1, INT_MAX - 8), group=Group.NO_MEANING,
        dynamic=True, status=Status.NO_MEANING,
        doc="What all records of a compressed batch may take together is bounded for every topic: one above 128 MiB is refused.",
    ),
    Setting(
        "errors.deadletterqueue.group.enable", type=BOOLEAN, default=False, group=Group.NO_MEANING, dynamic=True,
        status=Status.NO_MEANING,
        doc="There are no dead-letter queues: what a share group gives up is archived (KIP-1191).",
    ),
)

TOPIC_ROWS: tuple[Setting, ...] = HONOURED_TOPIC_SETTINGS + IDLE_TOPIC_SETTINGS

assert all(row.type is not INT or not isinstance(row.default, int) or row.default <= INT_MAX for row in TOPIC_ROWS)
