"""The settings that a topic can have of its own, each with the broker settings that stand in for it.

The broker's side (`log.segment.bytes` for `segment.bytes`) is derived in `definitions.py`: same type, range and text.
"""

from __future__ import annotations

from ..setting import (
    ANY,
    INT_MAX,
    LONG_MAX,
    Allowed,
    Importance,
    Setting,
    SettingType,
    Status,
    Synonym,
    Value,
    at_least,
    between,
    one_of,
    some_of,
)

_BOOLEAN, _DOUBLE, _INT, _LIST, _LONG, _STRING = (
    SettingType.BOOLEAN,
    SettingType.DOUBLE,
    SettingType.INT,
    SettingType.LIST,
    SettingType.LONG,
    SettingType.STRING,
)
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

# The smallest message of the oldest format: 4 CRC, 1 magic, 1 attributes, 4 + 4 lengths.
SMALLEST_SEGMENT = 14


def _row(
    name: str,
    kind: SettingType,
    default: Value,
    allowed: Allowed,
    doc: str,
    *synonyms: str | Synonym,
    importance: Importance = Importance.MEDIUM,
    group: str = "Logs",
    own: bool = False,
    why_different: str = "",
) -> Setting:
    return Setting(
        name,
        kind,
        default,
        doc,
        allowed,
        importance,
        dynamic=True,
        synonyms=tuple(Synonym(s) if isinstance(s, str) else s for s in synonyms),
        group=group,
        own=own,
        why_different=why_different,
    )


_ROLL = "Segments"
_RETENTION = "Retention"
_FLUSH = "Durability"
_MESSAGES = "Messages"
_CLEANER = "Cleaning"

HONOURED_TOPIC_SETTINGS: tuple[Setting, ...] = (
    _row(
        "segment.bytes",
        _INT,
        1024 * 1024 * 1024,
        at_least(SMALLEST_SEGMENT),
        "Size in bytes at which a log starts a new segment file. Retention and cleaning work on whole segments, so "
        "smaller ones make both finer, at the price of more files.",
        "log.segment.bytes",
        importance=Importance.HIGH,
        group=_ROLL,
        why_different="Kafka 4.1 and newer ask for 1 MiB at least; smaller segments work here",
    ),
    _row(
        "segment.ms",
        _LONG,
        7 * DAY_MS,
        at_least(1),
        "How much younger than a segment's first record a new one may be, in milliseconds, before a log starts a new "
        "segment even if the present one is not full, so that retention and cleaning can get at old records. Where "
        "nothing is written, the clock stands in for the new record.",
        "log.roll.ms",
        Synonym("log.roll.hours", HOUR_MS),
        importance=Importance.HIGH,
        group=_ROLL,
    ),
    _row(
        "segment.jitter.ms",
        _LONG,
        0,
        at_least(0),
        "Up to this many milliseconds are taken off segment.ms, by chance for each segment, so that the logs of a "
        "broker do not all roll at one moment.",
        "log.roll.jitter.ms",
        Synonym("log.roll.jitter.hours", HOUR_MS),
        group=_ROLL,
    ),
    _row(
        "segment.index.bytes",
        _INT,
        10 * 1024 * 1024,
        at_least(4),
        "Space in bytes set aside for each index of the active segment, rounded down to a multiple of the entry size "
        "(8 and 12 bytes). An index that is full makes the log roll.",
        "log.index.size.max.bytes",
        group=_ROLL,
    ),
    _row(
        "index.interval.bytes",
        _INT,
        4096,
        at_least(0),
        "Bytes of log between two index entries: fewer make look-ups shorter and the indexes larger.",
        "log.index.interval.bytes",
        group=_ROLL,
    ),
    _row(
        "preallocate",
        _BOOLEAN,
        False,
        ANY,
        "Whether a new segment file gets its full size on disk at once. The rest is given back when it is rolled, when "
        "the broker stops, and after a crash at the next start; sizes and retention count what was written.",
        "log.preallocate",
        group=_ROLL,
    ),
    _row(
        "retention.ms",
        _LONG,
        7 * DAY_MS,
        at_least(-1),
        "Milliseconds after which a segment may go, counted from its newest record; -1 keeps it whatever its age. "
        "Holds where cleanup.policy has delete in it.",
        "log.retention.ms",
        Synonym("log.retention.minutes", MINUTE_MS),
        Synonym("log.retention.hours", HOUR_MS),
        importance=Importance.HIGH,
        group=_RETENTION,
    ),
    _row(
        "retention.bytes",
        _LONG,
        -1,
        ANY,
        "Size in bytes above which a partition loses its oldest segments; -1 is no limit. It is a limit for each "
        "partition, and counts record files only, not indexes. Holds where cleanup.policy has delete in it.",
        "log.retention.bytes",
        importance=Importance.HIGH,
        group=_RETENTION,
    ),
    _row(
        "cleanup.policy",
        _LIST,
        ("delete",),
        some_of("compact", "delete"),
        "What becomes of old records: delete drops whole segments by age and size, compact keeps the newest record of "
        "every key, both together do both.",
        "log.cleanup.policy",
        group=_RETENTION,
    ),
    _row(
        "deletion.policies",
        _LIST,
        ("time", "size"),
        Allowed(pattern=r"^[A-Za-z0-9._-]+$", text="time, size, append-time, or the names of installed policies"),
        "Who decides which segments may go where cleanup.policy has delete in it: time (retention.ms, by the records' "
        "timestamps), size (retention.bytes), append-time (retention.ms, counted from the last write to the segment's "
        "file, so that no timestamp can hold it), or a policy that a package has brought along (see "
        "DELETION_POLICIES.md). Each may take what the others leave; empty keeps all. What DeleteRecords has cut off "
        "goes in any case.",
        "log.deletion.policies",
        group=_RETENTION,
        own=True,
    ),
    _row(
        "file.delete.delay.ms",
        _LONG,
        MINUTE_MS,
        at_least(0),
        "Milliseconds between the moment a segment leaves its log and the removal of its files.",
        "log.segment.delete.delay.ms",
        importance=Importance.HIGH,
        group=_RETENTION,
    ),
    _row(
        "flush.messages",
        _LONG,
        LONG_MAX,
        at_least(1),
        "Records after which a log is synced to disk, before the last of them is acknowledged. 1 makes every answer "
        "wait for the sync that covers it (writers that wait together share one); the default leaves syncing to the "
        "operating system.",
        "log.flush.interval.messages",
        importance=Importance.HIGH,
        group=_FLUSH,
    ),
    _row(
        "flush.ms",
        _LONG,
        LONG_MAX,
        at_least(0),
        "Milliseconds that a record may stay unsynced. The default leaves syncing to the operating system.",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
        importance=Importance.HIGH,
        group=_FLUSH,
    ),
    _row(
        "max.message.bytes",
        _INT,
        1024 * 1024 + 12,
        at_least(0),
        "Largest record batch in bytes, after compression, that the log takes; a larger one is refused with "
        "MESSAGE_TOO_LARGE. Consumers still get batches that were larger than today's limit.",
        "message.max.bytes",
        importance=Importance.HIGH,
        group=_MESSAGES,
    ),
    _row(
        "message.format.version",
        _STRING,
        "3.0-IV1",
        Allowed(
            pattern=r"^([012]|0\.(8|9|10|11)\.\d+(\.\d+)?(-IV\d+)?|[1-9]\d*\.\d+(\.\d+)?(-IV\d+)?)$",
            text="0, 1, 2, or a Kafka version such as 0.9.0, 0.10.2, 2.8-IV1 or 4.0",
        ),
        "Message format that appends are stored in: 0, 1 or 2, or the Kafka version that brought it, as Kafka 3 and older "
        "name it: up to 0.9 is format 0, 0.10 is 1, 0.11 and later is 2. Older batches stay as they are, and are read as "
        "they are. Formats 0 and 1 have no headers (they are dropped), no zstd, no idempotent producers and no "
        "transactions (UNSUPPORTED_FOR_MESSAGE_FORMAT); 0 has no timestamps. Every append is then converted: slower.",
        "log.message.format.version",
        group=_MESSAGES,
        own=True,
    ),
    _row(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whose time a record carries: the producer's (CreateTime) or that of its arrival here (LogAppendTime).",
        "log.message.timestamp.type",
        group=_MESSAGES,
    ),
    _row(
        "message.timestamp.before.max.ms",
        _LONG,
        LONG_MAX,
        at_least(0),
        "Milliseconds by which a producer's timestamp may lie in the past; an older record is refused with "
        "INVALID_TIMESTAMP. Nothing is checked under LogAppendTime.",
        "log.message.timestamp.before.max.ms",
        group=_MESSAGES,
    ),
    _row(
        "message.timestamp.after.max.ms",
        _LONG,
        HOUR_MS,
        at_least(0),
        "Milliseconds by which a producer's timestamp may lie in the future; a later record is refused with "
        "INVALID_TIMESTAMP. Nothing is checked under LogAppendTime.",
        "log.message.timestamp.after.max.ms",
        group=_MESSAGES,
    ),
    _row(
        "compression.type",
        _STRING,
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "Codec that batches are stored in. producer keeps each as it came, untouched; any other value recompresses "
        "those that came in another codec.",
        "compression.type",
        importance=Importance.HIGH,
        group=_MESSAGES,
    ),
    _row(
        "compression.gzip.level",
        _INT,
        -1,
        between(1, 9, also=(-1,)),
        "Level for gzip where compression.type is gzip; -1 is zlib's own default.",
        "compression.gzip.level",
        group=_MESSAGES,
    ),
    _row(
        "compression.lz4.level",
        _INT,
        9,
        between(1, 17),
        "Level for lz4 where compression.type is lz4.",
        "compression.lz4.level",
        group=_MESSAGES,
    ),
    _row(
        "compression.zstd.level",
        _INT,
        3,
        between(-131072, 22),
        "Level for zstd where compression.type is zstd.",
        "compression.zstd.level",
        group=_MESSAGES,
    ),
    _row(
        "min.insync.replicas",
        _INT,
        1,
        at_least(1),
        "Copies that must have a record before acks=all is answered. There is one copy here, so anything above 1 "
        "makes such produces fail with NOT_ENOUGH_REPLICAS, as it does on a Kafka with one broker left.",
        "min.insync.replicas",
        importance=Importance.HIGH,
        group=_MESSAGES,
    ),
    _row(
        "delete.retention.ms",
        _LONG,
        DAY_MS,
        at_least(0),
        "Milliseconds that the deletion mark of a key (a record without value) stays readable in a compacted topic "
        "after the pass that cleaned up to it.",
        "log.cleaner.delete.retention.ms",
        group=_CLEANER,
    ),
    _row(
        "min.compaction.lag.ms",
        _LONG,
        0,
        at_least(0),
        "Milliseconds that a record stays untouched by compaction after it was written.",
        "log.cleaner.min.compaction.lag.ms",
        group=_CLEANER,
    ),
    _row(
        "max.compaction.lag.ms",
        _LONG,
        LONG_MAX,
        at_least(1),
        "Milliseconds after which a record must have been through compaction, however little else is dirty.",
        "log.cleaner.max.compaction.lag.ms",
        group=_CLEANER,
    ),
    _row(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        0.5,
        between(0, 1),
        "Share of a log, in bytes, that must not have been cleaned yet before a pass is worth while.",
        "log.cleaner.min.cleanable.ratio",
        group=_CLEANER,
    ),
    Setting(
        "internal.segment.bytes",
        _INT,
        None,
        "The same as segment.bytes, and wins over it: Kafka's name for segments below 1 MiB.",
        at_least(SMALLEST_SEGMENT),
        dynamic=True,
        internal=True,
        group=_ROLL,
    ),
)


def _idle(name: str, kind: SettingType, default: Value, doc: str, allowed: Allowed = ANY) -> Setting:
    return Setting(name, kind, default, doc, allowed, dynamic=True, status=Status.NO_MEANING, group="No meaning here")


_NOT_TIERED = "Nothing is kept on remote storage here."

IDLE_TOPIC_SETTINGS: tuple[Setting, ...] = (
    _idle(
        "unclean.leader.election.enable",
        _BOOLEAN,
        False,
        "One node is always its own leader: there is no election, clean or unclean.",
    ),
    _idle("leader.replication.throttled.replicas", _LIST, (), "There is no replication to throttle."),
    _idle("follower.replication.throttled.replicas", _LIST, (), "There is no replication to throttle."),
    _idle("remote.storage.enable", _BOOLEAN, False, _NOT_TIERED, one_of("false")),
    _idle("remote.log.copy.disable", _BOOLEAN, False, _NOT_TIERED),
    _idle("remote.log.delete.on.disable", _BOOLEAN, False, _NOT_TIERED),
    _idle("local.retention.ms", _LONG, -2, _NOT_TIERED, between(-2, LONG_MAX)),
    _idle("local.retention.bytes", _LONG, -2, _NOT_TIERED, between(-2, LONG_MAX)),
)

TOPIC_ROWS: tuple[Setting, ...] = HONOURED_TOPIC_SETTINGS + IDLE_TOPIC_SETTINGS

assert all(row.type is not _INT or not isinstance(row.default, int) or row.default <= INT_MAX for row in TOPIC_ROWS)
