"""The settings of the continuous backup to an object store."""

from __future__ import annotations

from ..setting import (
    BOOLEAN,
    INT,
    INT_MAX,
    LONG,
    LONG_MAX,
    LOW,
    PASSWORD,
    STRING,
    Allowed,
    Group,
    Setting,
    at_least,
    between,
    one_of,
)

_HOUR_MS = 3600 * 1000

# fmt: off
BACKUP_ROWS: tuple[Setting, ...] = (
    Setting(
        "backup.url", type=STRING, default="", group=Group.BACKUP, own=True,
        allowed=Allowed(
            pattern=r"^(|(file|s3|gs|az)://.+|memory:.*)$",
            text="a URL that begins with file://, s3://, gs:// or az://; memory: for tests",
        ),
        doc="Where the daemon backs itself up to, all the time: file:///mnt/nas/tidelog, or another store's URL. One place "
            "for one daemon. Empty: no backup. `tidelog restore` makes a data directory of it again (docs/how-to/back-up.md).",
    ),
    Setting(
        "backup.endpoint", type=STRING, default="", group=Group.BACKUP, own=True,
        allowed=Allowed(pattern=r"^(|https?://[^/@?#]+(/[^@?#]*)?)$", text="a URL that begins with https:// or http://"),
        doc="Address of a server that speaks S3, or of an emulator of another cloud; http:// sends records in the clear. "
            "Empty: AWS_ENDPOINT_URL in the environment, else the cloud itself.",
    ),
    Setting(
        "backup.region", type=STRING, default="", group=Group.BACKUP, own=True,
        doc="Region of the bucket, as eu-central-1. Empty: AWS_REGION in the environment, else that of AWS's profile, else "
            "us-east-1.",
    ),
    Setting(
        "backup.path.style", type=BOOLEAN, default=True, group=Group.BACKUP, importance=LOW, own=True,
        doc="S3: whether the bucket stands in the path of a request's address (https://host/bucket/key), which every server "
            "takes, or before the host (https://bucket.host/key).",
    ),
    Setting(
        "backup.access.key.id", type=STRING, default="", group=Group.BACKUP, own=True,
        doc="Access key of S3, or name of the account of Azure; with backup.secret.access.key. Empty: as the cloud's own "
            "tools find credentials (environment, profile, role of the machine): docs/how-to/backup-stores.md.",
    ),
    Setting(
        "backup.secret.access.key", type=PASSWORD, default=None, group=Group.BACKUP, own=True,
        doc="Secret that belongs to backup.access.key.id.",
    ),
    Setting(
        "backup.session.token", type=PASSWORD, default=None, group=Group.BACKUP, importance=LOW, own=True,
        doc="Token of a temporary access key. It ends, and a daemon runs on: a role of the machine renews its own.",
    ),
    Setting(
        "backup.credentials.file", type=STRING, default="", group=Group.BACKUP, own=True,
        doc="Google Cloud Storage: path of the service account's JSON file. Empty: as Google's tools find it.",
    ),
    Setting(
        "backup.ca.file", type=STRING, default="", group=Group.BACKUP, importance=LOW, own=True,
        doc="PEM file with certificate authorities that the store's certificate may be of, beside the system's.",
    ),
    Setting(
        "backup.interval.ms", type=INT, default=1000, allowed=between(100, INT_MAX), group=Group.BACKUP, own=True,
        doc="How often a cut through all partitions is made and sent. When the disk is lost, what was acknowledged within "
            "this time and one upload before is lost.",
    ),
    Setting(
        "backup.retention.ms", type=LONG, default=30 * 24 * _HOUR_MS, allowed=between(_HOUR_MS, LONG_MAX),
        group=Group.BACKUP, own=True,
        doc="How old a cut that can be restored may become, and so how long records that were deleted or compacted away, or "
            "whose topic was deleted, may still be in the backup; objects go a day later. The newest cut always stays. Within"
            " it one cut a minute is kept for a day, and what backup.keep.hourly, backup.keep.daily and backup.keep.weekly say.",
    ),
    Setting(
        "backup.keep.hourly", type=INT, default=7 * 24, allowed=between(-1, INT_MAX), group=Group.BACKUP, own=True,
        doc="For how many hours the last cut of each is kept, within backup.retention.ms. Hours (days, weeks) without a cut "
            "are not counted; they are UTC's. -1: as many as backup.retention.ms allows. 0: none for their own sake.",
    ),
    Setting(
        "backup.keep.daily", type=INT, default=-1, allowed=between(-1, INT_MAX), group=Group.BACKUP, own=True,
        doc="For how many days the last cut of each is kept, as backup.keep.hourly.",
    ),
    Setting(
        "backup.keep.weekly", type=INT, default=-1, allowed=between(-1, INT_MAX), group=Group.BACKUP, own=True,
        doc="For how many weeks, from Monday, the last cut of each is kept, as backup.keep.hourly. For a year of them set "
            "backup.retention.ms to a year, and backup.keep.daily to a number of days.",
    ),
    Setting(
        "backup.max.bytes.per.second", type=LONG, default=0, allowed=at_least(0), group=Group.BACKUP, own=True,
        doc="Bound of what is sent to the store, on average. 0: none. With less than producers write, the backup falls "
            "behind, which tidelog_backup_lag_seconds shows.",
    ),
    Setting(
        "backup.fence.ms", type=LONG, default=0, allowed=between(5000, LONG_MAX, also=(0,)), group=Group.BACKUP,
        importance=LOW, own=True,
        doc="When nothing of so long is in the backup, the daemon takes no more records of clients (NOT_ENOUGH_REPLICAS, "
            "after which they try again) until it has caught up; none at all when another daemon has published a cut. Commits"
            " and ends of transactions are taken. 0: it never refuses, and goes on without a backup.",
    ),
    Setting(
        "backup.verify.interval.ms", type=LONG, default=0, allowed=between(60_000, LONG_MAX, also=(0,)), group=Group.BACKUP,
        own=True,
        doc="How often the daemon reads its newest cut whole and holds every byte against the cut's sums, as `tidelog backup "
            "verify` does: a drill for the day on which it is needed. 86400000 is once a day. 0: never, since a cloud charges"
            " for what is read.",
    ),
    Setting(
        "backup.verify.max.bytes.per.second", type=LONG, default=16 << 20, allowed=at_least(1 << 16), group=Group.BACKUP,
        importance=LOW, own=True,
        doc="Bound of what such a drill reads, on average: 16 MiB a second are 1.3 TiB a day.",
    ),
    Setting(
        "backup.secrets", type=STRING, default="keep", allowed=one_of("keep", "encrypt", "omit"), group=Group.BACKUP,
        importance=LOW, own=True,
        doc="Whether salted passwords of users and settings that are passwords are in the backup as they are (keep), sealed "
            "with the key of backup.secrets.key.file (encrypt), or left out (omit): users have to be given passwords again "
            "after a restore then. Records and all else are not encrypted: have the store do it.",
    ),
    Setting(
        "backup.secrets.key.file", type=STRING, default="", group=Group.BACKUP, importance=LOW, own=True,
        doc="Path of a file with 64 hexadecimal digits, the key for backup.secrets=encrypt (`openssl rand -hex 32`). A "
            "restore needs it: keep it elsewhere, and not in the store. Its name in messages is a hash of it.",
    ),
)
# fmt: on
