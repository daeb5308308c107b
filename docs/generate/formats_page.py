"""Writes docs/FORMATS.md: `make docs`.

Each layout is the ruler from the docstring of the module that owns the bytes, beside bytes that this module's code has
written (`formats_samples.py`); so the page can't say what the code doesn't do. A test compares it with what is committed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from generate import formats_samples as samples
from tidelog.broker.groups.store import records as offsets_records
from tidelog.broker.metadata import store as metadata_store
from tidelog.protocol.records import attributes, legacy_record, record_batch, varint
from tidelog.storage.index import offset_index, time_index, transaction_index
from tidelog.storage.inspect.verify_report import RULES
from tidelog.storage.io import checkpoint, checkpoint_copy, checkpoint_room
from tidelog.storage.io.checkpoint import format_lines
from tidelog.storage.log import partition_metadata, stop_record
from tidelog.storage.manager import meta_properties
from tidelog.storage.producers import snapshot as producer_snapshot
from tidelog.storage.producers import transaction_marker
from tidelog.storage.scrub import memory as scrub_memory
from tidelog.storage.segment import names as log_names

_INTRODUCTION = """\
# Formats

Every file that tidelog keeps, byte by byte. They are Apache Kafka's: DumpLogSegments reads them, and tidelog opens what
Kafka wrote. `tidelog log dump FILE` explains a file of yours in the same terms, `tidelog log verify DIR` checks that all
of them agree.

This page is generated (`make docs`): the rulers are those in the code, the bytes were written by it. In a dump, each row
is a position, the bytes, the field, and its value. All integers are big-endian.
"""


def _rulers(module: ModuleType) -> str:
    """The drawings in a module's docstring: its indented paragraphs, and what stands between them."""
    paragraphs = (module.__doc__ or "").strip("\n").split("\n\n")
    drawn = [index for index, text in enumerate(paragraphs) if text.startswith("    ")]
    assert drawn, f"{module.__name__} draws nothing"
    blocks = [_block("\n".join(line.removeprefix("    ") for line in paragraphs[i].split("\n"))) for i in drawn]
    return "\n".join(blocks)


def _block(text: str) -> str:
    return f"```text\n{text.strip(chr(10))}\n```\n"


def _sample(sample: samples.Sample) -> str:
    return _block(samples.annotate(sample))


def _home(path: str) -> str:
    return f"Its home is `{path}`.\n"


def render() -> str:
    """The page."""
    found = samples.lookups()
    parts = [
        _INTRODUCTION,
        "## Names\n",
        _rulers(log_names),
        *_batches(),
        *_messages(),
        _sizes(),
        *_indexes(found),
        *_producers(),
        *_small_files(),
        *_internal_topics(),
        _rules(),
    ]
    return "\n".join(parts)


def _batches() -> list[str]:
    return [
        "## Message format 2: record batches (`.log`)\n",
        _home("protocol/records/record_batch.py"),
        _rulers(record_batch),
        "Attributes:\n",
        _rulers(attributes),
        "Varints:\n",
        _rulers(varint),
        f"Two records at offset {samples.BASE_OFFSET:,}, the first of a segment that is therefore called\n"
        f"`{log_names.file_name(samples.BASE_OFFSET, '.log')}`. The second one is a tombstone, 64 ms younger:\n",
        _sample(samples.batch()),
        "With a codec the header stays readable; only the records are compressed, all of them as one stream:\n",
        _sample(samples.compressed_batch()),
        "A transaction ends in a control batch. Its one record says how:\n",
        _rulers(transaction_marker),
        _sample(samples.marker()[0]),
        _sample(samples.marker()[1]),
    ]


def _messages() -> list[str]:
    return [
        "## Message formats 0 and 1 (`.log`)\n",
        _home("protocol/records/legacy_record.py"),
        _rulers(legacy_record),
        "Format 0:\n",
        _sample(samples.message(0)),
        "Format 1:\n",
        _sample(samples.message(1)),
        "A wrapper of format 1 around two messages; its offset is the last one's:\n",
        _sample(samples.wrapper()),
        "In it, at relative offsets:\n",
        _sample(samples.inner()),
    ]


def _sizes() -> str:
    lines = [
        "## What records cost\n",
        "Bytes in the log for so many records in one batch, uncompressed, with null keys and no headers:\n",
        f"| value | format | {' | '.join(f'{count:,}' for count in samples.COUNTS)} | overhead a record, at most and least |",
        "|---|---|" + "---:|" * (len(samples.COUNTS) + 1),
    ]
    for size in samples.VALUE_SIZES:
        for magic in (0, 1, 2):
            stored = [samples.stored_bytes(magic, count, size) for count in samples.COUNTS]
            most, least = stored[0] - size, stored[-1] / samples.COUNTS[-1] - size
            name = f"{size} B" if size < 1024 else f"{size // 1024} KiB"
            cells = " | ".join(f"{value:,}" for value in stored)
            lines.append(f"| {name} | {magic} | {cells} | {most}, {least:.1f} |")
    lines.append(
        "\nA batch of format 2 pays 61 bytes once and some seven or more for each record; formats 0 and 1 pay 26 and 34 for "
        "each.\nSo a single small record is dearer in format 2, and from a handful on it is the cheapest.\n"
    )
    return "\n".join(lines)


def _indexes(found: samples.Lookups) -> list[str]:
    return [
        "## Offset index (`.index`)\n",
        _home("storage/index/offset_index.py"),
        _rulers(offset_index),
        _sample(found.offset_index),
        f"To read from offset 23: the greatest entry not above it is (22, {found.found_at}), so the walk begins at position "
        f"{found.found_at}.\nThe file's limit was set to 67 bytes: it has {found.size_of_67}, whole entries only.\n",
        "## Time index (`.timeindex`)\n",
        _home("storage/index/time_index.py"),
        _rulers(time_index),
        _sample(found.time_index),
        f"To find the first record not older than {samples.SOUGHT_TIME}: the greatest entry not above it names offset "
        f"{found.time_found};\neverything up to there is older or came late, so the search goes on behind it.\n",
        "## Transaction index (`.txnindex`)\n",
        _home("storage/index/transaction_index.py"),
        _rulers(transaction_index),
        _sample(samples.aborted_transaction()),
    ]


def _producers() -> list[str]:
    return [
        "## Producer snapshot (`.snapshot`)\n",
        _home("storage/producers/snapshot.py"),
        _rulers(producer_snapshot),
        _sample(samples.snapshot()),
    ]


def _small_files() -> list[str]:
    return [
        "## Checkpoints\n",
        _home("storage/io/checkpoint.py"),
        _rulers(checkpoint),
        "`leader-epoch-checkpoint` in each partition has the same form, with an epoch and the offset that it starts at:\n",
        _block(format_lines(["0 0", "5 114514"]).decode()),
        "Three of the four have a copy of tidelog's own, which Kafka passes over.\n"
        + _home("storage/io/checkpoint_copy.py"),
        _rulers(checkpoint_copy),
        "Behind that of log starts there is room for changes since.\n" + _home("storage/io/checkpoint_room.py"),
        _rulers(checkpoint_room),
        "A clean stop leaves one more file.\n" + _home("storage/log/stop_record.py"),
        _rulers(stop_record),
        "The scrubber remembers how far it is in another.\n" + _home("storage/scrub/memory.py"),
        _rulers(scrub_memory),
        "## `partition.metadata`\n",
        _home("storage/log/partition_metadata.py"),
        _rulers(partition_metadata),
        "## `meta.properties`\n",
        _home("storage/manager/meta_properties.py"),
        _rulers(meta_properties),
    ]


def _internal_topics() -> list[str]:
    key, value = samples.offset_commit()
    return [
        "## Records of `__consumer_offsets`\n",
        _home("broker/groups/store/records.py"),
        _rulers(offsets_records),
        "Group `g` has committed offset 42 of `orders-0`:\n",
        _sample(key),
        _sample(value),
        "## `metadata.db`\n",
        "The one file that Kafka does not have; what Kafka keeps in `__cluster_metadata-0` is here, in SQLite.\n"
        + _home("broker/metadata/store.py"),
        _rulers(metadata_store),
    ]


def _rules() -> str:
    lines = [
        "## What must hold between them\n",
        "`tidelog log verify` checks all of it. A fault makes its exit code 1; a note is worth knowing.\n",
        "| finding | kind | what it says | what to do |",
        "|---|---|---|---|",
    ]
    for name, rule in RULES.items():
        lines.append(f"| `{name}` | {'fault' if rule.is_fault else 'note'} | {rule.meaning} | {rule.remedy} |")
    return "\n".join(lines) + "\n"


def main(docs: Path) -> None:
    """Writes the page into `docs`."""
    (docs / "FORMATS.md").write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1])
