"""The record browser: pages of a partition by offset or time, the newest of each key, one record as a whole."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from .....protocol.records.attributes import Compression
from ....metadata.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ..html import Element, element
from ..layout import (
    badge,
    card,
    choice,
    document,
    facts,
    field,
    get_form,
    link,
    note,
    one_line,
    quiet,
    table,
    topic_link,
    topic_path,
)
from ..page_request import BAD_REQUEST, NOT_FOUND, OK, Page, PageError, whole_number
from ..record_text import Text, brief, whole
from ..units import count_text, exact_moment_text, plural, size_text, visible
from .record_reader import ABORTED, OPEN, Budget, Entry, RecordReader, Shown, Slice, Unread, offset_of
from .topics import TOPICS_CRUMB

if TYPE_CHECKING:
    from .....storage.log.unified_log import UnifiedLog
    from ..page_request import PageRequest
    from ..state import ConsoleState

COUNT = 50
MAX_COUNT = 500
KEY_BUDGET = 32 << 20
"""Bytes that one look for a key reads: the next one goes on."""
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
_HEX = "0x"
TIME_HINT = "as 2026-11-21T08:30:00, or milliseconds"
_HINT = f"text, or {_HEX} and hexadecimal digits; empty: of each key"

Decoder = Callable[[bytes | None, bytes | None], tuple[str | None, str | None]]


def browse(state: ConsoleState, request: PageRequest, topic: str, partition: str) -> Page:
    """A page of records: from ?offset, from ?time, below ?before, else the newest."""
    log = state.log_of(topic, partition)
    count = request.number("count", COUNT, low=1, high=MAX_COUNT)
    isolation = _isolation(request)
    path = topic_path(topic, partition, "records")
    with state.reading():
        reader = RecordReader(log, is_committed=isolation == READ_COMMITTED)
        remark = None
        if text := request.text("time"):
            found = log.lookup_by_timestamp(moment_ms(text), limit_offset=reader.limit)
            if found is None:
                remark = f"No record is from {text} or later: these are the newest."
                slice_ = reader.back(reader.limit, count, Budget())
            else:
                slice_ = reader.forward(found.offset, count, Budget())
        elif request.text("offset"):
            slice_ = reader.forward(request.number("offset", 0), count, Budget())
        else:
            slice_ = reader.back(request.number("before", reader.limit), count, Budget())
    kept = {"isolation": isolation, "count": count}
    return document(
        state, request, f"Records of {log.name}",
        get_form(
            path,
            field("offset", "From offset", request.text("offset"), inputmode="numeric", size=12),
            field("time", "or from a time, UTC", request.text("time"), hint=TIME_HINT),
            field("count", "Records", str(count), kind="number", min=1, max=MAX_COUNT),
            choice("isolation", "As seen by", isolation, [(READ_UNCOMMITTED,) * 2, (READ_COMMITTED,) * 2]),
        ),
        get_form(
            topic_path(topic, partition, "latest"),
            field("key", "Newest record of the key", request.text("key"), hint=_HINT),
            button="Find",
            isolation=isolation,
        ),
        quiet(remark) if remark else None,
        _pager(reader, slice_, path, kept, "Other records"),
        card(_range_text(reader, slice_), _table(slice_.entries, log, topic, partition)),
        _pager(reader, slice_, path, kept, "Other records, below the table") if len(slice_.entries) > 10 else None,
        trail=(link(*TOPICS_CRUMB), topic_link(topic), topic_link(topic, log.partition)),
    )  # fmt: skip


def latest(state: ConsoleState, request: PageRequest, topic: str, partition: str) -> Page:
    """The newest record of ?key, or of each key; below ?before."""
    log = state.log_of(topic, partition)
    count = request.number("count", COUNT, low=1, high=MAX_COUNT)
    isolation = _isolation(request)
    given = request.text("key")
    path = topic_path(topic, partition, "latest")
    budget = Budget(KEY_BUDGET)
    with state.reading():
        reader = RecordReader(log, is_committed=isolation == READ_COMMITTED)
        before = request.number("before", reader.limit)
        if given:
            wanted = _key_bytes(given)
            slice_ = reader.latest(before, 1, budget, lambda key: key == wanted)
        else:
            slice_ = reader.latest(before, count, budget)
    is_rest_unseen = slice_.first_offset > reader.start and not (given and slice_.entries)
    nothing = "No record has this key" if given else "No record is here"
    looked = f"in offsets {slice_.first_offset} to {slice_.next_offset}"
    older = (
        link("look further back", path, key=given or None, before=slice_.first_offset, isolation=isolation, count=count)
        if is_rest_unseen
        else None
    )
    if slice_.next_offset < reader.limit and slice_.entries and not given:
        remark = note(f"Newest {looked}: a key may have a newer record above.", kind="warn")
    else:
        remark = quiet(f"Looked {looked}.")
    return document(
        state, request, f"Newest records of {log.name}",
        get_form(
            path,
            field("key", "Key", given, hint=_HINT),
            choice("isolation", "As seen by", isolation, [(READ_UNCOMMITTED,) * 2, (READ_COMMITTED,) * 2]),
            button="Find",
        ),
        remark,
        card(
            "Newest record of the key" if given else "Newest record of each key",
            _table(slice_.entries, log, topic, partition) if slice_.entries else quiet(f"{nothing} {looked}."),
        ),
        element("p", older, class_="pager") if older is not None else None,
        element("p", link("all records", topic_path(topic, partition, "records"), isolation=isolation)),
        trail=(link(*TOPICS_CRUMB), topic_link(topic), topic_link(topic, log.partition)),
    )  # fmt: skip


def record(state: ConsoleState, request: PageRequest, topic: str, partition: str, offset: str) -> Page:
    """Page with one record, complete."""
    log = state.log_of(topic, partition)
    entry = _one(state, log, offset)
    records = topic_path(topic, partition, "records")
    own = topic_path(topic, partition, "records", offset)
    body: list[object]
    if isinstance(entry, Unread):
        body = [note(f"Offsets {entry.offset} to {entry.last_offset}: {entry.why}.", kind="warn")]
    else:
        body = _whole_record(entry, own, log)
    at = int(offset)
    return document(
        state, request, f"Record {offset} of {log.name}",
        element(
            "p",
            link("before it", records, before=at), link("from it on", records, offset=at),
            link("after it", records, offset=at + 1),
            class_="pager",
        ),
        body,
        trail=(
            link(*TOPICS_CRUMB), topic_link(topic), topic_link(topic, log.partition), link("records", records, offset=at),
        ),
    )  # fmt: skip


def value(state: ConsoleState, request: PageRequest, topic: str, partition: str, offset: str) -> Page:
    """A record's value as it is, to be saved."""
    return _bytes(state, topic, partition, offset, "value")


def key(state: ConsoleState, request: PageRequest, topic: str, partition: str, offset: str) -> Page:
    """A record's key as it is."""
    return _bytes(state, topic, partition, offset, "key")


def _bytes(state: ConsoleState, topic: str, partition: str, offset: str, part: str) -> Page:
    log = state.log_of(topic, partition)
    entry = _one(state, log, offset)
    data = getattr(entry.record, part) if isinstance(entry, Shown) else None
    if data is None:
        raise PageError(NOT_FOUND, f"The record {offset} of {log.name} has no {part}.")
    name = f"{log.name}-{offset}.{part}"
    disposition = ("Content-Disposition", f'attachment; filename="{name}"')
    return Page(
        OK, "application/octet-stream", data, (disposition, ("Content-Security-Policy", "default-src 'none'; sandbox"))
    )


def _one(state: ConsoleState, log: UnifiedLog, offset: str) -> Entry:
    with state.reading():
        reader = RecordReader(log, is_committed=False)
        entry = reader.one(whole_number("offset", offset))
    if entry is None:
        raise PageError(
            NOT_FOUND,
            f"{log.name} has no record {offset}: its records are from offset {reader.start} on, below {reader.limit}, and "
            "compaction leaves gaps.",
        )
    return entry


def _isolation(request: PageRequest) -> str:
    given = request.text("isolation", READ_UNCOMMITTED)
    if given not in (READ_COMMITTED, READ_UNCOMMITTED):
        raise PageError(BAD_REQUEST, f"isolation is {READ_COMMITTED} or {READ_UNCOMMITTED}.")
    return given


def moment_ms(text: str) -> int:
    """A time of a form, UTC, or milliseconds since 1970. PageError."""
    if text.isascii() and text.isdigit():
        return whole_number("time", text)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise PageError(BAD_REQUEST, f"time={text[:40]} is no time: write it as 2026-11-21T08:30:00, in UTC.") from None


def _key_bytes(text: str) -> bytes:
    if not text.startswith(_HEX):
        return text.encode("utf-8", "replace")
    try:
        return bytes.fromhex(text[len(_HEX) :])
    except ValueError:
        raise PageError(BAD_REQUEST, f"{text[:40]} is not {_HEX} and pairs of hexadecimal digits.") from None


def _range_text(reader: RecordReader, slice_: Slice) -> str:
    if not slice_.entries:
        return "No records"
    first, last = offset_of(slice_.entries[0]), offset_of(slice_.entries[-1])
    return f"Offsets {first} to {last} of {reader.start} to {reader.limit}"


def _pager(reader: RecordReader, slice_: Slice, path: str, kept: dict[str, object], label: str) -> Element:
    """Links to older and newer records; `label` tells the two of a page apart for who hears it."""
    first, following = slice_.first_offset, slice_.next_offset
    older = newer = None
    if first > reader.start:
        older = [link("oldest", path, offset=reader.start, **kept), link("older", path, before=first, **kept)]
    if following < reader.limit:
        newer = [link("newer", path, offset=following, **kept), link("newest", path, **kept)]
    if older is None and newer is None:
        return quiet("All there is.")
    return element("nav", older, newer, class_="pager", aria_label=label)


def _table(entries: list[Entry], log: UnifiedLog, topic: str, partition: str) -> Element:
    if not entries:
        return quiet("Nothing to show here: there are no records, or those that are here are not to be seen.")
    decoder = _decoder(topic)
    rows = [_row(entry, topic, partition, decoder) for entry in entries]
    return table(("offset", "time, UTC", "key", "value", ""), rows, {0}, caption=f"Records of {log.name}")


def _row(entry: Entry, topic: str, partition: str, decoder: Decoder | None) -> tuple[object, ...]:
    path = topic_path(topic, partition, "records", offset_of(entry))
    if isinstance(entry, Unread):
        return (
            link(entry.offset, path),
            "",
            "",
            badge(f"to {entry.last_offset}: {entry.why}", "warn"),
            size_text(entry.size),
        )
    record, batch = entry.record, entry.batch
    when = exact_moment_text(record.timestamp) if record.timestamp >= 0 else "none"
    shown_key: list[object]
    shown_value: list[object]
    if entry.marker:
        shown_key, shown_value = [badge("control")], [visible(entry.marker)]
    else:
        key_text, value_text = _briefs(entry, decoder)
        shown_key = [_data(key_text)]
        shown_value = [_data(value_text)] if record.value is not None else [badge("tombstone", "dirty")]
        if value_text.is_cut:
            shown_value += [" ", one_line(link(f"all {size_text(len(record.value or b''))}", path))]
    more: list[object] = []
    if entry.transaction in (ABORTED, OPEN):
        more += [badge(entry.transaction, "warn"), " "]
    if record.headers:
        more += [plural(len(record.headers), "header"), " "]
    if not batch.is_intact:
        more += [badge("wrong checksum", "bad"), " "]
    if batch.compression:
        more.append(codec_text(batch.compression))
    return (
        link(record.offset, path),
        one_line(when),
        shown_key,
        shown_value,
        element("span", more, class_="quiet small"),
    )


def _briefs(entry: Shown, decoder: Decoder | None) -> tuple[Text, Text]:
    record = entry.record
    if decoder is not None:
        try:
            key_text, value_text = decoder(record.key, record.value)
        except ValueError:
            pass
        else:
            return brief(_encoded(key_text)), brief(_encoded(value_text), 600)
    return brief(record.key), brief(record.value)


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "replace")


def _decoder(topic: str) -> Decoder | None:
    """Decoder for records of the broker's own topics; None for other topics."""
    if topic not in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        return None
    from ....coordinator.internal_records import offsets_text, transactions_text

    return offsets_text if topic == CONSUMER_OFFSETS else transactions_text


def _data(text: Text) -> Element:
    if text.kind in ("null", "empty"):
        return badge(text.text)
    shown = f"{text.text}…" if text.is_cut else text.text
    return element("code", shown, class_="data", title="hexadecimal" if text.kind == "hex" else None)


def codec_text(compression: int) -> str:
    """none, gzip, snappy, lz4, zstd."""
    known = {int(codec): codec.name.lower() for codec in Compression}
    return known.get(compression, f"codec {compression}")


def _whole_record(entry: Shown, own: str, log: UnifiedLog) -> list[object]:
    record, batch = entry.record, entry.batch
    parts: list[object] = []
    if entry.marker:
        parts.append(note(f"A control record: {entry.marker}. Consumers are not handed it."))
    if not batch.is_intact:
        parts.append(note("The checksum of its batch is wrong: what is shown may not be what was written.", kind="bad"))
    decoder = _decoder(log.topic)
    meaning: tuple[str | None, str | None] = (None, None)
    if decoder is not None:
        try:
            meaning = decoder(record.key, record.value)
        except ValueError:
            meaning = (None, None)
    size = len(record.value) if record.value is not None else None
    parts.append(
        card(
            "Record",
            facts(
                ("offset", str(record.offset)),
                ("time, UTC", exact_moment_text(record.timestamp) if record.timestamp >= 0 else "none"),
                ("time is", "when it was appended" if batch.is_append_time else "its producer's"),
                ("key", "null" if record.key is None else size_text(len(record.key))),
                ("value", "null: a tombstone" if size is None else size_text(size)),
                ("transaction", entry.transaction or "none"),
            ),
        )
    )  # fmt: skip
    parts.append(card("Key", _block(record.key, meaning[0], f"{own}/key")))
    parts.append(card("Value", _block(record.value, meaning[1], f"{own}/value")))
    rows = [
        (visible(name.decode("utf-8", "backslashreplace")), _data(brief(data, 2000))) for name, data in record.headers
    ]
    parts.append(card("Headers", table(("name", "value"), rows, caption="Headers") if rows else quiet("None.")))
    parts.append(
        card(
            "Its batch",
            facts(
                ("offsets", f"{batch.base_offset} to {batch.last_offset}"),
                ("records", count_text(batch.records)),
                ("in the file", f"{size_text(batch.size)}, {codec_text(batch.compression)}"),
                ("format", str(batch.magic)),
                ("producer id / epoch", f"{batch.producer_id} / {batch.producer_epoch}" if batch.producer_id >= 0 else "none"),
                ("base sequence", str(batch.base_sequence) if batch.base_sequence >= 0 else "none"),
                ("leader epoch", str(batch.leader_epoch)),
            ),
        )
    )  # fmt: skip
    return parts


def _block(data: bytes | None, meaning: str | None, path: str) -> list[object]:
    parts: list[object] = []
    if meaning is not None:
        parts += [quiet("What it means:"), element("pre", whole(_encoded(meaning)).text, tabindex=0)]
    text = whole(data)
    if text.kind in ("null", "empty"):
        return [*parts, element("p", badge(text.text))]
    download = element("a", f"save {size_text(len(data or b''))} as they are", href=path, download=True)
    kind = f"{text.kind}, the beginning of it" if text.is_cut else text.kind
    parts.append(element("p", kind, " · ", download, class_="quiet small"))
    parts.append(element("pre", text.text, class_="data", tabindex=0))
    return parts
