"""What our own readers are given by others: the Spark source and sink, message-set clients, tools that print records."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuzz.target import target
from fuzz.targets.coordinators import (
    heartbeat_group_records,
    offset_records,
    pair,
    share_states,
    split,
    transaction_states,
)
from fuzz.targets.files import metadata_values
from fuzz.targets.records import MOST, batches, logs, mended
from support.messages import random_struct
from tidelog.broker.coordinator import internal_records as record_text
from tidelog.cli.support.own_consumer import iterate_batch_records
from tidelog.cli.support.record_input import InputError, row_maker
from tidelog.cli.support.record_output import json_of
from tidelog.clients.kafka.connection import Connection
from tidelog.pipeline.exceptions import (
    BrokerUnreachableError,
    CorruptLogError,
    DataLossError,
    DirectoryError,
    OptionError,
    UnsupportedBrokerError,
)
from tidelog.pipeline.jobs.manifest import ArchiveError, read_archive_log
from tidelog.pipeline.planning.sparse_index import start_position
from tidelog.pipeline.planning.splits import Split
from tidelog.pipeline.planning.stream_plan import from_json, to_json
from tidelog.pipeline.reading.batch_decoder import AbortedAsFetched, BatchDecoder
from tidelog.pipeline.reading.fetch_reader import whole_batches
from tidelog.pipeline.reading.segment_files import SegmentFile, list_segments
from tidelog.pipeline.reading.segment_reader import read_split
from tidelog.pipeline.sink.commit_log import (
    CommitLog,
    CommitTopicError,
    closed_key,
    decode_token,
    encode_token,
    token_key,
)
from tidelog.pipeline.sink.commit_protocol import Part, Token
from tidelog.pipeline.wire.errors import explain
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.client_security import ClientSecurity, ClientSecurityError
from tidelog.protocol.headers import response_header_bytes
from tidelog.protocol.message_set import exchange
from tidelog.protocol.message_set.cursor import FetchCursor, OnOutOfRange
from tidelog.protocol.message_set.wire import MalformedAnswer, MessageSetError, message_set_header
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.exceptions import RecordError
from tidelog.protocol.records.record_batch import Record
from tidelog.protocol.schema import encode
from tidelog.storage.io.filesystem import RealFileSystem

DIRECTORY = tempfile.TemporaryDirectory(prefix="fuzz-readers-")
MANIFESTS = Path(DIRECTORY.name) / "_manifest"
FOLDER = Path(DIRECTORY.name) / "t-0"
FOLDER.mkdir()
END = 1 << 40
TOKEN = Token(7, "run", (Part(0, "id-0", 5, 1, 100, 12345), Part(1, "id-1", 6, 0, 0, 0)))


@target(RecordError, seeds=logs, extra=8 * MOST, growth=3000)
def consumed_records(data: bytes) -> None:
    """`tidelog consume` by our own client: what one fetch brought."""
    log = memoryview(mended(data))
    whole = whole_batches(log)
    if whole.is_broken:
        return
    for first in (0, 3):
        aborted = AbortedAsFetched()
        aborted.start([(5, 0), (6, 3)])
        for records in iterate_batch_records(log, whole.end, first, aborted):
            assert all(record.offset >= first for record in records)


def json_lines() -> Iterator[bytes]:
    yield json_of(3, 17, 1000, b"k", b"\xff", [(b"h", b"1"), (b"n", None)]).encode()
    yield b'{"key":null,"value":{"x":[1.5,true,"\\u00e9"]},"headers":{"a":"b"},"timestamp":-1}\n{"value":{"base64":"/w=="}}'


@target(InputError, seeds=json_lines)
def json_records(data: bytes) -> None:
    """Lines of `tidelog produce --input json`: what was read, printed as consume does, is read the same."""
    make = row_maker(as_json=True, separator=None, null=None, headers=[])
    rows = make(data.split(b"\n"), 1)
    assert rows.keys is not None
    assert rows.headers is not None
    assert rows.timestamps is not None
    printed = [
        json_of(0, 0, -1 if time is None else time, key, value, headers).encode()
        for key, value, headers, time in zip(rows.keys, rows.values, rows.headers, rows.timestamps, strict=True)
    ]
    again = make(printed, 1)
    assert (again.keys, again.values, again.headers, again.timestamps) == (
        rows.keys,
        rows.values,
        rows.headers,
        rows.timestamps,
    )


@target(RecordError, seeds=logs, extra=8 * MOST, growth=3000)
def fetched_columns(data: bytes) -> None:
    """The Spark source's decoder: what one fetch brought, in one go and skipping what is damaged."""
    log = memoryview(mended(data))
    whole = whole_batches(log)
    assert 0 <= whole.end <= len(log)
    for skip in (True, False):
        aborted = AbortedAsFetched()
        aborted.start([(5, 0), (5, 0), (6, 3)])
        decoder = BatchDecoder(0, END, aborted=aborted, skip_corrupt=skip)
        position = rows = 0
        while position < whole.end and not decoder.is_done:
            before = position
            position = decoder.feed(log, position, whole.end)
            assert before < position <= whole.end or decoder.needed or decoder.is_done or len(log) - position < 17
            if (columns := decoder.take()) is not None:
                rows += columns.rows
            if position == before:
                break
        assert rows <= 200 * max(1, len(log))


@target(CorruptLogError, DirectoryError, DataLossError, seeds=logs, extra=16 * MOST, growth=3000)
def segment_columns(data: bytes) -> None:
    """The Spark source reading a segment file, with an index that may be another's."""
    content = mended(data)
    (FOLDER / "00000000000000000000.log").write_bytes(content)
    (FOLDER / "00000000000000000000.index").write_bytes(data[-64:])
    (segment,) = list_segments(FOLDER, sleep=lambda _: None)
    for skip in (True, False):
        split = Split("t", 0, 0, END, segment, 0)
        rows = sum(found.rows for found in read_split(split, skip_corrupt=skip, fail_on_data_loss=False))
        assert rows <= 200 * max(1, len(content))
    assert 0 <= start_position_in(segment, 3) <= segment.size


def start_position_in(segment: SegmentFile, offset: int) -> int:
    file = RealFileSystem().open(segment.path)
    try:
        return start_position(file, segment, offset)
    finally:
        file.close()


class SaidTransport:
    """A broker that has said everything already. Frames whose size is announced larger than they are end the stream."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def sendall(self, data: object) -> None:
        pass

    def recv_into(self, buffer: memoryview) -> int:
        if len(buffer) > 1 << 20:  # memory for the whole answer, of up to a gigabyte, is taken before
            return 0
        size = min(len(buffer), len(self._data))
        buffer[:size], self._data = self._data[:size], self._data[size:]
        return size

    def close(self) -> None:
        pass


def said_answers() -> Iterator[bytes]:
    versions = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=0, max_version=12)])
    first = response_header_bytes(18, 3, 1) + encode(versions, 3)
    metadata = response_header_bytes(3, 12, 2) + encode(random_struct(random.Random(1), MetadataResponse, 12), 12)
    yield b"".join(len(one).to_bytes(4, "big") + one for one in (first, metadata))
    old = response_header_bytes(18, 0, 1) + (35).to_bytes(2, "big") + bytes(4)
    yield len(old).to_bytes(4, "big") + old
    yield b"HTTP/1.1 400 Bad Request"


@target(BrokerUnreachableError, UnsupportedBrokerError, seeds=said_answers, max_input=4096, extra=4 << 20, growth=3000)
def broker_answers(data: bytes) -> None:
    """The Spark source's connection, to what may be no broker."""
    if int.from_bytes(data[:4], "big") > 1 << 20:
        return
    connection = Connection(
        ("fuzz", 1),
        ClientSettings((("fuzz", 1),)),
        explain=explain,
        connect=lambda *_: SaidTransport(data),
        clock=lambda: 0.0,
    )
    connection.request(MetadataRequest(), MetadataResponse, up_to=12)


def commit_topics() -> Iterator[bytes]:
    yield from batches()
    rows = [
        Record(0, 0, token_key("q"), encode_token(TOKEN)),
        Record(1, 0, b'{"query": "q", "task": 0}', b'{"batch":7,"run":"run"}'),
    ]
    yield b"\1" + bytes(build_batch(rows, producer_id=5, producer_epoch=1, base_sequence=0, is_transactional=True))
    yield b"\1" + bytes(
        build_batch(
            [Record(0, 0, token_key("q"), b'{"parts":1}')],
            producer_id=5,
            producer_epoch=1,
            base_sequence=0,
            is_transactional=True,
        )
    )
    yield from closed_batches()


def closed_batches() -> Iterator[bytes]:
    for value in (b'{"batch":7,"run":"run"}', b'{"batch":1e999,"run":"run"}', None):
        yield b"\1" + bytes(
            build_batch([Record(0, 0, closed_key("q"), value)], producer_id=6, producer_epoch=0, base_sequence=0)
        )


@target(RecordError, CommitTopicError, seeds=commit_topics, extra=8 * MOST, growth=3000)
def commit_topic(data: bytes) -> None:
    """The sink's commit topic, which another program may have written to."""
    log = CommitLog()
    log.feed(mended(data))
    log.finish(END)
    for query in {"q", *log.queries()}:
        view = log.view(query)
        log.is_closed(query, "r", 1)
        start = log.start_of(query, 0)
        assert view.token is None or start is not None


def tokens() -> Iterator[bytes]:
    yield encode_token(TOKEN)
    yield b'{"batch":1e999,"run":"r","parts":[]}'
    yield b"[" * 1800


@target(CommitTopicError, seeds=tokens, extra=1 << 20)
def commit_token(data: bytes) -> None:
    token = decode_token(data)
    assert decode_token(encode_token(token)) == token


def offsets() -> Iterator[bytes]:
    yield b'{"orders":{"0":23,"1":345}}'
    yield b'{"orders":{"0":23},"topic ids":{"orders":"WSaPqH3DTKKfkASHybcnlA"}}'
    yield b'{"orders":{"0":23},"first offsets":{"orders":{"0":20}}}'
    yield b'{"orders":{"0":1e999}}'
    yield b'{"orders":{"x":[]}}'


@target(OptionError, seeds=offsets)
def stream_offsets(data: bytes) -> None:
    """What Spark has kept of a stream's offset: any JSON."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return
    position = from_json(content)
    assert from_json(to_json(position)) == position


def manifests() -> Iterator[bytes]:
    yield b'{"topic":"t","ends":{"0":5},"files":[{"path":"data/x","rows":1,"bytes":2}]}'
    yield b'{"topic":"t","ends":{"0":1e999},"files":[]}'
    yield b"[" * 1800
    yield b"\xff"


@target(ArchiveError, seeds=manifests, extra=1 << 20)
def archive_manifest(data: bytes) -> None:
    MANIFESTS.mkdir(exist_ok=True)
    (MANIFESTS / "00000001.json").write_bytes(data)
    found = read_archive_log(DIRECTORY.name)
    assert found is not None
    assert found.version == 1


def record_pairs() -> Iterator[bytes]:
    for number, seeds in enumerate((heartbeat_group_records, offset_records, transaction_states, share_states)):
        yield from (bytes([0 if number < 2 else number - 1]) + data for data in seeds())
    yield from (b"\3" + pair(b"", value) for value in metadata_values())


@target(ValueError, seeds=record_pairs, growth=3000)
def printed_records(data: bytes) -> None:
    """What `tidelog log dump` and the console say of records of internal topics: JSON, or that it is none."""
    decoders = (
        record_text.offsets_text, record_text.transactions_text, record_text.share_state_text, record_text.metadata_text,
    )  # fmt: skip
    key, value = split(data[1:])
    for given in (value, None):
        for text in decoders[data[0] % 4 if data else 0](key, given):
            assert text is None or text.startswith("<") or json.loads(text) is not None


def answers() -> Iterator[bytes]:
    for data in logs():
        content = data[1:]
        yield b"\0" + message_set_header(len(content))[4:] + content
        yield b"\x10" + message_set_header(len(content))[4:] + content
        yield b"\1" + message_set_header(len(content) + 6)[4:] + message_set_header(len(content)) + content
    yield b"\2\0\0" + bytes(8)
    yield b"\3\0\0\0\1" + bytes(10)
    yield b"\4\0\0" + (2).to_bytes(4, "big") + bytes(16)
    yield b"\5\0\0\0\0\0\0" + bytes(4)


@target(RecordError, MalformedAnswer, MessageSetError, seeds=answers, extra=8 * MOST, growth=3000)
def client_answers(data: bytes) -> None:
    """Message-set clients: what an answer means to the request before it, and to one who reads on and on."""
    if not data:
        return
    exchanges: tuple[exchange.Exchange[Any], ...] = (
        exchange.fetch("t", 0, 5, 1000),
        exchange.multi_fetch([("t", 0, 5, 1000)]),
        exchange.produce("t", 0, b"set"),
        exchange.multi_produce([("t", 0, b"set")]),
        exchange.offsets("t", 0, -1, 9),
        exchange.authenticate("user", "secret"),
    )
    if data[0] < 16:
        one = exchanges[data[0] % len(exchanges)]
        exchange.check_total(len(data) - 1, max(one.limit, 4000))
        one.read(data[1:])
        return
    cursor = FetchCursor("t", 0, 5, on_out_of_range=OnOutOfRange.EARLIEST)
    cursor.request()
    records = cursor.receive(data[1:])
    assert cursor.offset >= 5 or not records
    cursor.request()


def sasl_answers() -> Iterator[bytes]:
    yield b"r=NONCEserver,s=c2FsdA==,i=4096"
    yield b"r=NONCE,s==,i=99999999999999999999999"
    yield b"r=NONCE,s=c2FsdA==,i=\xd9\xa3"
    yield b"e=other-error"


@target(ClientSecurityError, seeds=sasl_answers, max_input=400)
def scram_answers(data: bytes) -> None:
    """SCRAM as a client: what may be a wrong server says first and last. `NONCE` is the client's; the work is bounded."""
    said = ClientSecurity("SASL_PLAINTEXT", "SCRAM-SHA-256", "user", "pencil").tokens()
    first = said(None)
    assert first is not None
    nonce = first.rpartition(b"r=")[2]
    before, _, iterations = data.partition(b"i=")
    if iterations[:7].isdigit():  # as many as a client lets itself be told take half a second
        iterations = b"4096"  # the fewest that it does
    answer = said(before.replace(b"NONCE", nonce) + (b"i=" + iterations if iterations else b""))
    if answer is not None:
        said(data)
        raise AssertionError("a server that does not know the password is believed")
