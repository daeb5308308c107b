"""The settings of the continuous backup to an object store."""

from __future__ import annotations

from ..setting import INT, INT_MAX, LONG, LONG_MAX, LOW, STRING, Group, Setting, at_least, between, one_of

# fmt: off
BACKUP_ROWS: tuple[Setting, ...] = (
    Setting(
        "backup.url", type=STRING, default="", group=Group.BACKUP, own=True,
        doc="Where the daemon backs itself up to, all the time: file:///mnt/nas/tidelog, or another store's URL. One place for "
            "one daemon. Empty: no backup. `tidelog restore` makes a data directory of it again (docs/how-to/backup.md).",
    ),
    Setting(
        "backup.interval.ms", type=INT, default=1000, allowed=between(100, INT_MAX), group=Group.BACKUP, own=True,
        doc="How often a cut through all partitions is made and sent. When the disk is lost, what was acknowledged within this "
            "time and one upload before is lost.",
    ),
    Setting(
        "backup.retention.ms", type=LONG, default=30 * 24 * 3600 * 1000, allowed=between(3600 * 1000, LONG_MAX),
        group=Group.BACKUP, own=True,
        doc="How old a cut that can be restored may become, and so how long records that were deleted or compacted away, or "
            "whose topic was deleted, may still be in the backup; objects go a day later. The newest "
            "cut always stays. Within it one cut a minute is kept for a day, then one an hour for a week, then one a day.",
    ),
    Setting(
        "backup.max.bytes.per.second", type=LONG, default=0, allowed=at_least(0), group=Group.BACKUP, own=True,
        doc="Bound of what is sent to the store, on average. 0: none. With less than producers write, the backup falls "
            "behind, which tidelog_backup_lag_seconds shows.",
    ),
    Setting(
        "backup.secrets", type=STRING, default="keep", allowed=one_of("keep", "omit"), group=Group.BACKUP, importance=LOW,
        own=True,
        doc="Whether salted passwords of users and settings that are passwords are in the backup (keep), or left out (omit): "
            "users have to be given passwords again after a restore then. The backup is not encrypted: have the store do it.",
    ),
)
# fmt: on
