"""`tidelog why TOPIC[-PARTITION]`: why each segment is not cleaned or not deleted yet, and when that changes.

For each segment the settings that hold it, with their values, and until when, or which event ends it. Times are those of
the earliest look that finds it so: cleaner threads look every log.cleaner.backoff.ms, retention every
log.retention.check.interval.ms. Damage that the scrubber has found in a partition is told too, with what to do; and
with a backup (backup.url) which segments are safe there, since when.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .support.output import plural

if TYPE_CHECKING:
    from .support.http_client import HttpDaemon

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: Subparsers) -> None:
    from .support.http_client import add_http_argument

    parser = commands.add_parser("why", help="why segments are not cleaned or deleted yet", description=__doc__)
    parser.add_argument("topic", metavar="TOPIC[-PARTITION]", help="a topic, or one of its partitions")
    parser.add_argument("--json", action="store_true", help="print the daemon's answer as JSON")
    add_http_argument(parser)
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    import json

    from .support.http_client import daemon_of, naming_nearest

    with naming_nearest(options, options.topic):
        found = fetch(daemon_of(options), options.topic)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print("\n".join(picture(found)))
    return 0


def fetch(daemon: HttpDaemon, name: str) -> Any:
    """The answer for a topic of that name or, where there is none, for the partition that the name ends with."""
    from urllib.parse import quote

    from .support.http_client import HttpFailure, ask

    try:
        return ask(daemon, "GET", f"/why/{quote(name, safe='')}")
    except HttpFailure as failure:
        topic, dash, partition = name.rpartition("-")
        if failure.status != 404 or not dash or not partition.isdecimal():
            raise
        no_such_topic = failure
    try:
        return ask(daemon, "GET", f"/why/{quote(topic, safe='')}/{int(partition)}")
    except HttpFailure as failure:
        if str(failure).startswith("there is no topic"):  # what was given is the topic's name, whatever it ends with
            raise no_such_topic from None
        raise


def picture(found: Any) -> list[str]:
    """The answer as lines of aligned text; the last one says where the settings in it are explained."""
    from ..config.page import pointer

    lines: list[str] = []
    for partition in found["partitions"]:
        if lines:
            lines.append("")
        lines += _partition(partition)
    cleaner_s, retention_s = found["cleanerBackoffMs"] / 1000, found["retentionCheckIntervalMs"] / 1000
    lines += ["", f"Looked at every {cleaner_s:g} s by the cleaner, every {retention_s:g} s by retention."]
    if explained := pointer("\n".join(lines)):
        lines.append(f"What the settings do: {explained}.")
    return lines


def _partition(partition: Any) -> list[str]:
    now = partition["asOfMs"]
    head = f"{partition['topic']}-{partition['partition']}  offsets {partition['logStartOffset']} to "
    head += (
        f"{partition['logEndOffset']}, {plural(partition['size'], 'byte')}, cleanup.policy={partition['cleanupPolicy']}"
    )
    lines = [head]
    if partition["dirtyRatio"] is not None:
        lines.append(
            f"  dirty from {partition['firstDirtyOffset']}: {partition['dirtyBytes']:,} of "
            f"{plural(partition['dirtyBytes'] + partition['cleanBytes'], 'byte')} that can be cleaned are dirty, "
            f"{partition['dirtyRatio']:.2f} (min.cleanable.dirty.ratio={partition['minCleanableDirtyRatio']:g})"
            + (", a thread is at it" if partition["inWork"] else "")
        )
    ledger = partition["ledger"]
    counted = "what is left of it has not been counted yet: the first pass, deletion or `tidelog clean` does"
    lines.append(f"  {counted if ledger is None else ledger_line(ledger)}")
    if partition["holes"]:
        from .log.anatomy_picture import holes_line

        lines.append(f"  {holes_line([(hole['firstOffset'], hole['lastOffset']) for hole in partition['holes']])}")
    lines += scrub_lines(partition)
    always: dict[tuple[str, str, str], None] = {}
    backup = partition.get("backup")
    if backup is not None:
        lines.append(f"  {backup_line(backup, now)}")
    rows = [("segment", "to", "bytes", "part", *(("in the backup",) if backup else ()), "not", "because of", "until")]
    for segment in partition["segments"]:
        place = (
            str(segment["baseOffset"]),
            str(segment["endOffset"]),
            f"{segment['size']:,}",
            segment["section"],
            *((safe_text(segment["backup"]),) if backup else ()),
        )
        rest = [reason for reason in segment["reasons"] if not _is_topics(reason)] or segment["reasons"][:1]
        for reason in segment["reasons"]:
            what = {"clean": "cleaned", "delete": "deleted"}[reason["action"]]
            if reason not in rest:  # once is enough
                always[what, cause_text(reason), until_text(reason, now)] = None
            else:
                rows.append((*place, what, cause_text(reason), until_text(reason, now)))
                place = ("",) * len(place)
    columns = len(rows[0]) - 1
    widths = [max(len(row[column]) for row in rows) for column in range(columns)]
    for row in rows:
        cells = [
            text.rjust(width) if column < 3 else text.ljust(width)
            for column, (text, width) in enumerate(zip(row[:columns], widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells) + "  " + row[columns]).rstrip())
    lines += [f"  No segment is {what}: {cause}, until {until}." for what, cause, until in always]
    if partition["segmentsOmitted"]:
        lines.append(f"  {plural(partition['segmentsOmitted'], 'more segment')} before the last one")
    return lines


def scrub_lines(partition: Any) -> list[str]:
    """When its closed segments were last read to look for damage, what is damaged, and what to do about that."""
    scrub, damage = partition["scrub"], partition["damage"]
    lines = [] if scrub is None else [f"  {_scrub_text(scrub)}"]
    for found in damage:
        place = found["file"] if found["position"] is None else f"{found['file']} at byte {found['position']}"
        since = f"found {time_text(found['foundMs'])}{', mended since' if found['isMended'] else ''}"
        lines.append(f"  damaged: {place}: {found['rule']}, {found['meaning']} ({found['detail']}), {since}")
    if partition["damageOmitted"]:
        lines.append(f"  damaged: {plural(partition['damageOmitted'], 'more place')}")
    present = dict.fromkeys(found["remedy"] for found in damage if not found["isMended"])
    return [*lines, *(f"    do: {remedy}" for remedy in present)]


def backup_line(backup: Any, now_ms: int) -> str:
    """How far the partition is in the backup."""
    if backup["cut"] is None:
        return "nothing of it is in the backup yet"
    cut, end, age_s = backup["cut"], backup["endOffset"], max(0, now_ms - backup["takenMs"]) / 1000
    return f"in the backup up to offset {end} (by cut {cut}, {age_s:,.0f} s ago)"


def safe_text(safe: Any) -> str:
    """How much of a segment is in the backup, and since when."""
    if not safe["bytes"]:
        return "no"
    return f"since {time_text(safe['sinceMs'])}" if safe["isWhole"] else plural(safe["bytes"], "byte")


def _scrub_text(scrub: Any) -> str:
    if scrub["wholeMs"] is not None:
        begun, end = time_text(scrub["wholeBegunMs"]), time_text(scrub["wholeMs"])
        return f"closed segments last read whole to look for damage: {begun} to {end}"
    if not scrub["bytesPerSecond"]:
        return "closed segments are not read to look for damage: tidelog.log.scrub.bytes.per.second=0"
    if scrub["state"] == "failed":
        return f"closed segments are not read to look for damage: {scrub['reason']}"
    share = 100 * scrub["passDoneBytes"] // max(1, scrub["passBytes"])
    return f"closed segments are read to look for damage for the first time: {share} % of their directory so far"


def _is_topics(reason: Any) -> bool:
    """True if the reason is the same for every segment of the topic."""
    return reason["reason"] == "cleanup.policy" or (reason["value"] == -1 and reason["untilMs"] is None)


def ledger_line(ledger: Any) -> str:
    """The ledger in one line: `19 appended = 12 live + 4 superseded + 3 aborted`."""
    parts = [f"{ledger['live']:,} live", *(f"{count:,} {cause}" for cause, count in ledger["removed"].items())]
    return f"{ledger['appended']:,} appended = {' + '.join(parts)}"


def cause_text(reason: Any) -> str:
    """The rule that holds a segment, with its setting and value."""
    name, setting, value = reason["reason"], reason["setting"], reason["value"]
    shown = str(value).lower() if isinstance(value, bool) else value
    if setting is None:
        return {"clean": "clean already"}.get(name, str(name))
    name = {"tombstones": "tombstones or markers"}.get(name, name)
    text = f"{setting}={shown}" if name == setting else f"{name} ({setting}={shown})"
    ratio = reason["facts"].get("dirtyRatio")
    return f"{text}, now {ratio:.2f}" if ratio is not None else text


def until_text(reason: Any, now_ms: int) -> str:
    """A time, or what must happen; the cause of a failure too."""
    parts = []
    if reason["reason"] == "due":
        return str(reason["event"])
    if reason["untilMs"] is not None:
        parts.append(f"{time_text(reason['untilMs'])} ({span_text(reason['untilMs'] - now_ms)})")
    if reason["event"]:
        parts.append(reason["event"])
    if "futureMs" in reason["facts"]:
        parts.append(f"a record is dated {time_text(reason['facts']['newestMs'])}, in the future")
    if "cause" in reason["facts"]:
        attempts = reason["facts"]["attempts"]
        parts.append(f"failed {'once' if attempts == 1 else f'{attempts} times'}: {reason['facts']['cause']}")
    told = parts[1:2] if reason["untilMs"] is not None and reason["event"] else []
    rest = parts[1 + len(told) :]
    return "; or ".join([*parts[:1], *told]) + "".join(f"; {part}" for part in rest)


def time_text(milliseconds: int) -> str:
    """Format milliseconds since 1970 as a time in UTC."""
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"  # beyond the calendar


def span_text(milliseconds: int) -> str:
    """Format a duration in its largest useful unit."""
    if milliseconds <= 0:
        return "now"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds >= 2 * size:
            return f"in {milliseconds // size:,} {unit}"
    return f"in {milliseconds} ms"
