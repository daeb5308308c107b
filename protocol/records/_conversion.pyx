# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Conversion between message formats, without an object for each record: `conversion.py` and `storage/log/validator.py` say what
is
converted, this module reads and writes the bytes. The layouts are in `record_batch` (format 2) and `legacy_record` (0 and 1).

    open_batch     records of a batch of format 2, decompressed           ─┐               ┌─ to_messages   a row of plain messages
    open_messages  of a row of messages, or of what a wrapper held         ├─► Records ────┤               of format 0 or 1
                   (and where the first fault is)                         ─┘               ├─ to_batch      one batch of format 2
                                                                                           └─ refused       what a topic's rules say
    walk_messages, walk_wrapped, first_newer, plain_run, look_at_messages    sizes and headers of a row
    patched        the same messages at other offsets and times

Records are never collected: each step walks the bytes again (some 10 ns a record). First everything is checked and counted, then what
is to be written is measured, then it is written into bytes of exactly that size. Codecs work in between, in `compression.py`.

Rules of this file: every read is bounds-checked against the end of the buffer, in each walk anew; every write against the end of what
was allocated (a buffer that somebody changes meanwhile gives a ValueError, not a wrong access). Sums wrap as in Kafka, by way of
unsigned. Any thread may call anything; the GIL is released above NOGIL_BYTES. What is wrong with a message of format 0 or 1 is not
said here: a fault is a position, and `legacy_record` raises for the message that stands there.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from typing import NamedTuple

from .compression import DEFAULT_MAX_BYTES, decompress
from .exceptions import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError

include "_records.pxi"
include "_record.pxi"
include "_messages.pxi"

cdef enum:
    # Releasing and taking back the GIL costs about as much as converting this many bytes.
    NOGIL_BYTES = 8192
    MAX_FAULTS = 1000
    MAGIC_V2 = 2

#: Why a record may not be appended, as `Records.refused` numbers it.
NO_KEY_FAULT, APPEND_TIME_FAULT, RANGE_FAULT = 1, 2, 3

tl_crc32c_start()
tl_crc32_start()


# ---- messages of formats 0 and 1 ---------------------------------------------------------------------------------------


cdef struct RawMessage:
    int64_t offset
    int64_t timestamp  # −1 in format 0
    int64_t key_size  # −1: null
    int64_t value_size
    const uint8_t *key
    const uint8_t *value
    int32_t magic
    int32_t attributes


cdef inline const uint8_t *read_message(const uint8_t *p, const uint8_t *end, RawMessage *out) noexcept nogil:
    """Position behind the message at p; NULL where `read_legacy_record` would raise."""
    cdef const uint8_t *at
    cdef const uint8_t *stop
    cdef int64_t size
    if end - p < HEADER_UP_TO_MAGIC:
        return NULL
    size = tl_i32(p + LENGTH_AT)
    out.magic = p[MAGIC_AT]
    if out.magic > 1 or size < (MIN_MESSAGE_SIZE_V1 if out.magic else MIN_MESSAGE_SIZE) or size > end - p - LOG_OVERHEAD:
        return NULL
    stop = p + LOG_OVERHEAD + size
    out.offset = tl_i64(p)
    out.attributes = p[LEGACY_ATTRIBUTES_AT]
    if out.magic:
        out.timestamp = tl_i64(p + LEGACY_TIMESTAMP_AT)
        at = p + KEY_AT_V1
    else:
        out.timestamp = -1
        at = p + KEY_AT_V0
    out.key_size = tl_i32(at)  # there: the size above has room for both lengths
    at += 4
    out.key = at
    if out.key_size > 0:
        if out.key_size > stop - 4 - at:
            return NULL
        at += out.key_size
    elif out.key_size < -1:
        return NULL
    out.value_size = tl_i32(at)
    at += 4
    out.value = at
    if out.value_size > 0:
        if out.value_size > stop - at:
            return NULL
        at += out.value_size
    elif out.value_size < -1:
        return NULL
    return at if at == stop else NULL


cdef inline bint is_sound(const uint8_t *p, const uint8_t *stop) noexcept nogil:
    return tl_crc32(p + MAGIC_AT, stop - p - MAGIC_AT) == tl_u32(p + LEGACY_CRC_AT)


cdef inline bint says_append_time(const RawMessage *message) noexcept nogil:
    """Format 0 has no such bit."""
    return message.magic > 0 and (message.attributes & TIMESTAMP_TYPE_MASK) != 0


cdef inline bint is_whole(const uint8_t *p, const uint8_t *end) noexcept nogil:
    """False where a row of messages ends, as the last one of a fetch response may be cut off. What is impossible counts as whole."""
    cdef int64_t size
    if end - p < HEADER_UP_TO_MAGIC:
        return False
    size = tl_i32(p + LENGTH_AT)
    return size < MIN_MESSAGE_SIZE or LOG_OVERHEAD + size <= end - p


cdef class _View:
    """A buffer that is held until the object goes."""

    cdef Py_buffer view
    cdef bint held
    cdef const uint8_t *start
    cdef const uint8_t *end

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef int hold(self, buffer, Py_ssize_t position, Py_ssize_t end) except -1:
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.held = True
        if position < 0 or end > self.view.len or position > end:
            raise ValueError(f"bytes {position} to {end} are not within a buffer of {self.view.len}")
        self.start = <const uint8_t *>self.view.buf + position
        self.end = <const uint8_t *>self.view.buf + end
        return 0

    cdef int64_t at(self, const uint8_t *p) noexcept nogil:
        return p - <const uint8_t *>self.view.buf


cdef _View held(buffer, Py_ssize_t position, Py_ssize_t end):
    cdef _View view = _View.__new__(_View)
    view.hold(buffer, position, end)
    return view


cdef struct Row:
    int64_t count
    int32_t magic
    bint mixed
    bint wraps


cdef const uint8_t *walk_row(
    const uint8_t *p, const uint8_t *end, int64_t max_message_bytes, bint *faulty, Row *row
) noexcept nogil:
    cdef RawMessage message
    cdef const uint8_t *stop
    faulty[0] = False
    while is_whole(p, end):
        stop = read_message(p, end, &message)
        if stop == NULL or stop - p > max_message_bytes or not is_sound(p, stop):
            faulty[0] = True
            return p
        if row.count == 0:
            row.magic = message.magic
        row.mixed |= message.magic != row.magic
        row.wraps |= (message.attributes & COMPRESSION_MASK) != 0
        row.count += 1
        p = stop
    return p


def walk_messages(buffer, Py_ssize_t position, Py_ssize_t end, int64_t max_message_bytes):
    """(stop, is_faulty, count, is_mixed, has_wrapper) of the messages in [position, end): where the whole ones end, or where one is
    that is not sound or larger than `max_message_bytes`; how many precede it, whether of several formats, and with a wrapper.
    """
    cdef _View view = held(buffer, position, end)
    cdef const uint8_t *stop
    cdef bint faulty = False
    cdef Row row = [0, 0, False, False]
    if view.end - view.start > NOGIL_BYTES:
        with nogil:
            stop = walk_row(view.start, view.end, max_message_bytes, &faulty, &row)
    else:
        stop = walk_row(view.start, view.end, max_message_bytes, &faulty, &row)
    return view.at(stop), bool(faulty), row.count, bool(row.mixed), bool(row.wraps)


cdef const uint8_t *walk_sizes(const uint8_t *p, const uint8_t *end, int64_t *last_offset) noexcept nogil:
    cdef int64_t size
    while p < end:
        if end - p < LOG_OVERHEAD:
            break
        size = tl_i32(p + LENGTH_AT)
        if size < MIN_MESSAGE_SIZE or size > end - p - LOG_OVERHEAD:
            break
        last_offset[0] = tl_i64(p)
        p += LOG_OVERHEAD + size
    return p


def walk_wrapped(buffer):
    """(stop, offset of the last message) of what a wrapper held, by sizes alone; a stop before the end is a fault."""
    cdef _View view = held(buffer, 0, len(buffer))
    cdef const uint8_t *stop
    cdef int64_t last_offset = 0
    if view.end - view.start > NOGIL_BYTES:
        with nogil:
            stop = walk_sizes(view.start, view.end, &last_offset)
    else:
        stop = walk_sizes(view.start, view.end, &last_offset)
    return view.at(stop), last_offset


cdef const uint8_t *find_newer(const uint8_t *p, const uint8_t *end, int32_t magic, bint *found) noexcept nogil:
    """The first batch of a newer format, or (found: False) where the whole ones end or a size is impossible."""
    cdef int64_t size
    found[0] = False
    while end - p >= HEADER_UP_TO_MAGIC:
        size = tl_i32(p + LENGTH_AT)
        if size < MIN_MESSAGE_SIZE or LOG_OVERHEAD + size > end - p:
            return p
        if p[MAGIC_AT] > magic:
            found[0] = True
            return p
        p += LOG_OVERHEAD + size
    return p


def first_newer(buffer, int32_t magic):
    """(position, found): the first whole batch of a newer format than `magic`; else where the whole ones end.

    Raises:
        CorruptRecordError: a size is impossible.
    """
    cdef _View view = held(buffer, 0, len(buffer))
    cdef const uint8_t *stop
    cdef bint found = False
    if view.end - view.start > NOGIL_BYTES:
        with nogil:
            stop = find_newer(view.start, view.end, magic, &found)
    else:
        stop = find_newer(view.start, view.end, magic, &found)
    if not found and view.end - stop >= HEADER_UP_TO_MAGIC and tl_i32(stop + LENGTH_AT) < MIN_MESSAGE_SIZE:
        raise CorruptRecordError(f"a batch of {tl_i32(stop + LENGTH_AT)} bytes at {view.at(stop)}")
    return view.at(stop), bool(found)


cdef const uint8_t *walk_run(
    const uint8_t *p, const uint8_t *end, int32_t lowest, int32_t highest, bint plain, int64_t max_bytes, int64_t *last_offset
) noexcept nogil:
    cdef RawMessage message
    cdef const uint8_t *stop
    while max_bytes > 0:
        stop = read_message(p, end, &message)
        if stop == NULL or message.magic < lowest or message.magic > highest:
            break
        if plain and (message.attributes & COMPRESSION_MASK or message.offset < 0):
            break
        last_offset[0] = message.offset
        max_bytes -= stop - p
        p = stop
    return p


def plain_run(
    buffer, Py_ssize_t position, Py_ssize_t end, int32_t lowest, int32_t highest, bint plain, int64_t max_bytes=INT64_MAX
):
    """(stop, last offset) of the readable messages from `position` on whose formats are `lowest` to `highest`, until they take
    `max_bytes`; `plain`: before one that is a wrapper or has a negative offset. The checksums are not looked at.
    """
    cdef _View view = held(buffer, position, end)
    cdef const uint8_t *stop
    cdef int64_t last_offset = -1
    if view.end - view.start > NOGIL_BYTES:
        with nogil:
            stop = walk_run(view.start, view.end, lowest, highest, plain, max_bytes, &last_offset)
    else:
        stop = walk_run(view.start, view.end, lowest, highest, plain, max_bytes, &last_offset)
    return view.at(stop), last_offset


cdef struct Look:
    int64_t count
    int64_t larger
    int64_t max_timestamp
    int64_t offset_of_max


cdef bint look_over(const uint8_t *p, const uint8_t *end, int64_t max_message_bytes, Look *look) noexcept nogil:
    cdef RawMessage message
    cdef const uint8_t *stop
    while p < end:
        stop = read_message(p, end, &message)
        if stop == NULL:
            return False
        if stop - p > max_message_bytes:
            look.larger = stop - p
            return True
        if message.timestamp > look.max_timestamp:
            look.max_timestamp = message.timestamp
            look.offset_of_max = message.offset
        p = stop
    return True


def look_at_messages(buffer, int64_t max_message_bytes):
    """(larger, max_timestamp, offset_of_max) of a row of messages that was written here: the size of the first one that is larger than
    `max_message_bytes`, 0 without one; the latest timestamp and the first message that has it, −1 and −1 where none has one.
    """
    cdef _View view = held(buffer, 0, len(buffer))
    cdef Look look = [0, 0, -1, -1]
    cdef bint whole
    if view.end - view.start > NOGIL_BYTES:
        with nogil:
            whole = look_over(view.start, view.end, max_message_bytes, &look)
    else:
        whole = look_over(view.start, view.end, max_message_bytes, &look)
    if not whole:
        raise ValueError("not a row of messages")
    return look.larger, look.max_timestamp, look.offset_of_max


cdef bint patch(
    uint8_t *p, const uint8_t *end, int64_t first_offset, int64_t delta, bint sets_time, int32_t kind, int64_t timestamp
) noexcept nogil:
    cdef RawMessage message
    cdef const uint8_t *stop
    cdef int64_t wanted
    while p < end:
        stop = read_message(p, end, &message)
        if stop == NULL:
            return False
        if first_offset >= 0:
            tl_put64(p, <uint64_t>first_offset)
            first_offset += 1
        else:
            tl_put64(p, <uint64_t>tl_add(message.offset, delta))
        if sets_time and message.magic:
            wanted = timestamp if kind else message.timestamp
            if wanted != message.timestamp or (message.attributes & TIMESTAMP_TYPE_MASK) != kind:
                p[LEGACY_ATTRIBUTES_AT] = <uint8_t>(message.attributes & ~TIMESTAMP_TYPE_MASK | kind)
                tl_put64(p + LEGACY_TIMESTAMP_AT, <uint64_t>wanted)
                tl_put32(p + LEGACY_CRC_AT, tl_crc32(p + MAGIC_AT, stop - p - MAGIC_AT))
        p = <uint8_t *>stop
    return True


def patched(
    buffer,
    Py_ssize_t position,
    Py_ssize_t end,
    *,
    int64_t first_offset=-1,
    int64_t delta=0,
    bint sets_time=False,
    bint is_append_time=False,
    int64_t timestamp=-1,
):
    """A copy of the messages that fill buffer[position:end], with other offsets and, where `sets_time`, another timestamp type.

    Args:
        first_offset: of the first message, the others follow it; −1: `delta` is added to each one's own.
        is_append_time: every message of format 1 has `timestamp` then; else it keeps its own.

    Raises:
        ValueError: they are not readable messages.
    """
    cdef _View view = held(buffer, position, end)
    cdef Py_ssize_t size = end - position
    cdef bint whole
    cdef int32_t kind = TIMESTAMP_TYPE_MASK if is_append_time else 0
    out = PyBytes_FromStringAndSize(<const char *>view.start, size)
    cdef uint8_t *p = <uint8_t *>PyBytes_AS_STRING(out)  # nobody else has it yet
    if size > NOGIL_BYTES:
        with nogil:
            whole = patch(p, p + size, first_offset, delta, sets_time, kind, timestamp)
    else:
        whole = patch(p, p + size, first_offset, delta, sets_time, kind, timestamp)
    if not whole:
        raise ValueError("not a row of messages")
    return out


# ---- records of any format -----------------------------------------------------------------------------------------------


cdef struct Message:
    int64_t offset
    int64_t timestamp
    int64_t key_size  # −1: null
    int64_t value_size
    const uint8_t *key
    const uint8_t *value
    bint says_append_time


cdef struct Source:
    const uint8_t *start
    const uint8_t *end
    int64_t base_offset  # of a batch; of what a wrapper of format 1 held: what is added to an offset
    int64_t base_timestamp
    int64_t timestamp
    int32_t magic
    bint one_timestamp  # every record has `timestamp`


cdef inline const uint8_t *next_record(const Source *source, const uint8_t *p, Message *out, Fault *fault) noexcept nogil:
    """Position behind the record at p; NULL where it is broken, or a message of another format, or a wrapper."""
    cdef RawRecord record
    cdef RawMessage message
    if source.magic == MAGIC_V2:
        p = read_record(p, source.end, &record, fault)
        if p == NULL:
            return NULL
        out.offset = tl_add(source.base_offset, record.offset_delta)
        out.timestamp = source.timestamp if source.one_timestamp else tl_add(source.base_timestamp, record.timestamp_delta)
        out.key, out.key_size = record.key, record.key_size
        out.value, out.value_size = record.value, record.value_size
        out.says_append_time = source.one_timestamp
        return p
    p = read_message(p, source.end, &message)
    if p == NULL or message.magic != source.magic or message.attributes & COMPRESSION_MASK:
        return NULL
    out.offset = tl_add(source.base_offset, message.offset)
    out.timestamp = source.timestamp if source.one_timestamp else message.timestamp
    out.key, out.key_size = message.key, message.key_size
    out.value, out.value_size = message.value, message.value_size
    out.says_append_time = source.one_timestamp or says_append_time(&message)
    return p


cdef struct Target:
    int32_t magic
    int32_t attributes
    int64_t first_offset  # −1: each record's own
    int64_t relative_to
    int64_t timestamp
    bint one_timestamp
    int64_t floor
    int64_t limit


cdef struct Made:
    int64_t size
    int64_t count
    int64_t looked_at_count
    int64_t looked_at  # own offset of the last record that was looked at
    int64_t last_offset  # as written, but for `relative_to`
    int64_t max_timestamp
    int64_t largest
    bint rises
    bint starts_below


cdef inline uint8_t *put_field(uint8_t *out, const uint8_t *data, int64_t size) noexcept nogil:
    tl_put32(out, <uint32_t>size)
    out += 4
    if size > 0:
        memcpy(out, data, <size_t>size)
        out += size
    return out


cdef bint make_messages(
    const Source *source, int64_t count, const Target *target, uint8_t *out, int64_t room, Made *made
) noexcept nogil:
    """Writes the records as messages to `out`, or only measures them where that is NULL. False: they are not what they were when they
    were checked.
    """
    cdef const uint8_t *p = source.start
    cdef uint8_t *at
    cdef Message record
    cdef Fault fault = SOUND
    cdef int64_t index, size, offset, timestamp
    cdef int64_t overhead = LOG_OVERHEAD + (MIN_MESSAGE_SIZE_V1 if target.magic else MIN_MESSAGE_SIZE)
    made.size = made.count = made.largest = made.looked_at_count = 0
    made.looked_at = made.last_offset = made.max_timestamp = -1
    made.rises = True
    made.starts_below = False
    for index in range(count):
        p = next_record(source, p, &record, &fault)
        if p == NULL:
            return False
        made.looked_at = record.offset
        made.looked_at_count += 1
        if record.offset < target.floor:
            continue
        size = overhead + max(record.key_size, 0) + max(record.value_size, 0)
        offset = record.offset if target.first_offset < 0 else target.first_offset + made.count
        timestamp = target.timestamp if target.one_timestamp else record.timestamp
        if made.count == 0:
            made.starts_below = offset < 0
        elif offset <= made.last_offset:
            made.rises = False
        if out != NULL:
            if size > room - made.size:
                return False
            at = out + made.size
            tl_put64(at, <uint64_t>offset - <uint64_t>target.relative_to)
            tl_put32(at + LENGTH_AT, <uint32_t>(size - LOG_OVERHEAD))
            at[MAGIC_AT] = <uint8_t>target.magic
            at[LEGACY_ATTRIBUTES_AT] = <uint8_t>target.attributes
            if target.magic:
                tl_put64(at + LEGACY_TIMESTAMP_AT, <uint64_t>timestamp)
                at = put_field(at + KEY_AT_V1, record.key, record.key_size)
            else:
                at = put_field(at + KEY_AT_V0, record.key, record.key_size)
            put_field(at, record.value, record.value_size)
            at = out + made.size
            tl_put32(at + LEGACY_CRC_AT, tl_crc32(at + MAGIC_AT, size - MAGIC_AT))
        made.last_offset = offset
        if timestamp > made.max_timestamp:
            made.max_timestamp = timestamp
        if size > made.largest:
            made.largest = size
        made.size += size
        made.count += 1
        if made.size >= target.limit:
            break
    return True


cdef inline uint8_t *put_nullable(uint8_t *out, const uint8_t *data, int64_t size) noexcept nogil:
    out = tl_put_varlong(out, size)
    if size > 0:
        memcpy(out, data, <size_t>size)
        out += size
    return out


cdef bint make_records(
    const Source *source, int64_t count, int64_t base_offset, bint renumbers, int64_t base_timestamp, uint8_t *out, int64_t room,
    int64_t *made
) noexcept nogil:
    """The same for the records of a batch of format 2, without its header."""
    cdef const uint8_t *p = source.start
    cdef uint8_t *at
    cdef Message record
    cdef Fault fault = SOUND
    cdef int64_t index, body, size, delta, timestamp_delta
    made[0] = 0
    for index in range(count):
        p = next_record(source, p, &record, &fault)
        if p == NULL:
            return False
        delta = index if renumbers else <int64_t>(<uint64_t>record.offset - <uint64_t>base_offset)
        timestamp_delta = <int64_t>(<uint64_t>record.timestamp - <uint64_t>base_timestamp)
        body = (
            2 + tl_varlong_size(timestamp_delta) + tl_varlong_size(delta)  # 2: attributes, and no headers
            + tl_varlong_size(record.key_size) + max(record.key_size, 0)
            + tl_varlong_size(record.value_size) + max(record.value_size, 0)
        )
        size = tl_varlong_size(body) + body
        if out != NULL:
            if size > room - made[0]:
                return False
            at = tl_put_varlong(out + made[0], body)
            at[0] = 0
            at = tl_put_varlong(at + 1, timestamp_delta)
            at = tl_put_varlong(at, delta)
            at = put_nullable(at, record.key, record.key_size)
            at = put_nullable(at, record.value, record.value_size)
            at[0] = 0
        made[0] += size
    return True


class Messages(NamedTuple):
    """A row of plain messages.

    Attributes:
        data: their bytes.
        message_count: how many they are.
        last_offset: of the last one, before `relative_to` is taken off; −1 without any.
        max_timestamp: the greatest, −1 at least.
        rises: whether the offsets rise, from 0 or more.
        looked_at, looked_at_count: own offset of the last record that was looked at, and its number.
    """

    data: bytes
    message_count: int
    last_offset: int
    max_timestamp: int
    rises: bool
    looked_at: int
    looked_at_count: int


@cython.final
cdef class Records:
    """The records of one batch, wrapper or row of messages, all of them checked; they stay where they are, in a buffer that is held.

    Attributes:
        count: how many there are.
        first_offset, last_offset: of the first and the last; −1 and −1 without any.
        first_timestamp: of the first one.
        max_timestamp, index_of_max: the greatest, and the first record that has it.
        rises: whether the offsets rise, from 0 or more.
        counts_from_zero: whether they are 0, 1, 2 …
        fault_position, fault_index: where in the buffer the first message is that can't be taken, and how many precede it; −1 and −1
            where all are sound.
    """

    cdef _View view
    cdef Source source
    cdef readonly int64_t count
    cdef readonly int64_t first_offset
    cdef readonly int64_t last_offset
    cdef readonly int64_t first_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t index_of_max
    cdef readonly bint rises
    cdef readonly bint counts_from_zero
    cdef readonly int64_t fault_position
    cdef readonly int64_t fault_index
    cdef Fault fault

    def __init__(self):
        raise TypeError("Records come from open_batch and open_messages")

    cdef void start_at(self, _View view) noexcept:
        self.view = view
        self.source.start = view.start
        self.source.end = view.end
        self.count = 0
        self.first_offset = self.last_offset = self.first_timestamp = self.max_timestamp = -1
        self.index_of_max = self.fault_position = self.fault_index = -1
        self.rises = self.counts_from_zero = True
        self.fault = SOUND

    cdef const uint8_t *walk(self, int64_t most, bint check_crc, bint must_rise) noexcept nogil:
        """Looks at up to `most` records; where it stopped. Faults are noted."""
        cdef const uint8_t *p = self.source.start
        cdef const uint8_t *stop
        cdef Message record
        while self.count < most and (self.source.magic == MAGIC_V2 or p < self.source.end):
            stop = next_record(&self.source, p, &record, &self.fault)
            if stop == NULL or (check_crc and not is_sound(p, stop)) or (
                must_rise
                and (record.offset <= self.last_offset or <int64_t>(<uint64_t>record.offset - <uint64_t>self.source.base_offset) < 0)
            ):
                self.fault_position = self.view.at(p)
                self.fault_index = self.count
                break
            if self.count == 0:
                self.first_offset = record.offset
                self.first_timestamp = self.max_timestamp = record.timestamp
                self.index_of_max = 0
                self.rises = record.offset >= 0
            else:
                if record.offset <= self.last_offset:
                    self.rises = False
                if record.timestamp > self.max_timestamp:
                    self.max_timestamp = record.timestamp
                    self.index_of_max = self.count
            if record.offset != self.count:
                self.counts_from_zero = False
            self.last_offset = record.offset
            self.count += 1
            p = stop
        return p

    cdef bint is_large(self) noexcept:
        return self.source.end - self.source.start > NOGIL_BYTES

    def count_from(self, int64_t floor):
        """How many have `floor` or a greater offset."""
        cdef Made made
        cdef Target target = [0, 0, -1, 0, -1, False, floor, INT64_MAX]
        self.measure(&target, &made)
        return made.count

    cdef int measure(self, const Target *target, Made *made) except -1:
        cdef bint whole
        if self.is_large():
            with nogil:
                whole = make_messages(&self.source, self.count, target, NULL, 0, made)
        else:
            whole = make_messages(&self.source, self.count, target, NULL, 0, made)
        if not whole:
            raise ValueError("records that were changed meanwhile")
        return 0

    def to_messages(
        self,
        int32_t magic,
        *,
        int64_t first_offset=-1,
        int64_t relative_to=0,
        bint is_append_time=False,
        int64_t append_time=-1,
        int64_t floor=INT64_MIN,
        int64_t limit=INT64_MAX,
    ):
        """The records as a row of plain messages of format `magic`: `Messages`.

        Args:
            first_offset: the messages count from it; −1: they keep their offsets.
            relative_to: what is taken off every offset.
            is_append_time: every message has `append_time`, and says so.
            floor: records with a lower offset are left out.
            limit: bytes; the message that reaches them is the last one.

        Raises:
            ValueError: a message would be larger than 2 GiB.
        """
        cdef Made made
        cdef Target target = [
            magic, 0, first_offset, relative_to, append_time, False, floor, limit
        ]
        cdef bint whole
        cdef int64_t size
        cdef uint8_t *at
        if is_append_time:
            target.one_timestamp = True
            target.attributes = TIMESTAMP_TYPE_MASK
        self.measure(&target, &made)
        if made.largest - LOG_OVERHEAD > INT32_MAX:
            raise ValueError(f"a message of {made.largest} bytes is too large for its format")
        size = made.size
        out = PyBytes_FromStringAndSize(NULL, size)
        at = <uint8_t *>PyBytes_AS_STRING(out)  # nobody else has it yet
        if size > NOGIL_BYTES:
            with nogil:
                whole = make_messages(&self.source, self.count, &target, at, size, &made)
        else:
            whole = make_messages(&self.source, self.count, &target, at, size, &made)
        if not whole or made.size != size:
            raise ValueError("records that were changed meanwhile")
        return Messages(
            out, made.count, made.last_offset, made.max_timestamp, bool(made.rises and not made.starts_below), made.looked_at,
            made.looked_at_count,
        )

    def to_batch(self, int64_t first_offset=-1, *, Py_ssize_t header_size=RECORD_BATCH_OVERHEAD):
        """The records as those of a batch of format 2, behind `header_size` bytes of zeros, in which the caller writes.

        Args:
            first_offset: the base offset, and the records count from it; −1: they keep their offsets, of which the first is the base.
        """
        cdef int64_t size = 0, written = 0
        cdef int64_t base = self.first_offset if first_offset < 0 else first_offset
        cdef bint renumbers = first_offset >= 0, whole
        cdef int64_t base_timestamp = self.first_timestamp
        cdef uint8_t *at
        if self.is_large():
            with nogil:
                whole = make_records(&self.source, self.count, base, renumbers, base_timestamp, NULL, 0, &size)
        else:
            whole = make_records(&self.source, self.count, base, renumbers, base_timestamp, NULL, 0, &size)
        if not whole:
            raise ValueError("records that were changed meanwhile")
        out = bytearray(header_size + size)
        at = <uint8_t *>(<char *>out) + header_size
        if size > NOGIL_BYTES:
            with nogil:
                whole = make_records(&self.source, self.count, base, renumbers, base_timestamp, at, size, &written)
        else:
            whole = make_records(&self.source, self.count, base, renumbers, base_timestamp, at, size, &written)
        if not whole or written != size:
            raise ValueError("records that were changed meanwhile")
        return out

    cdef int64_t next_refused(
        self, const uint8_t **at, int64_t *index, bint require_keys, bint is_append_time, int64_t earliest, int64_t latest,
        int64_t *timestamp
    ) noexcept nogil:
        """Number of the fault of the first record from at[0] on, whose number is index[0], that has one; both move behind it."""
        cdef Message record
        cdef Fault fault = SOUND
        cdef int64_t found = 0
        while index[0] < self.count:
            at[0] = next_record(&self.source, at[0], &record, &fault)
            if at[0] == NULL:
                return -1
            index[0] += 1
            if require_keys and record.key_size < 0:
                found = 1
            elif record.says_append_time and (is_append_time or record.timestamp == -1):
                found = 2
            elif not is_append_time and record.timestamp != -1 and not earliest <= record.timestamp <= latest:
                found = 3
            if found:
                timestamp[0] = record.timestamp
                return found
        return 0

    def refused(self, bint require_keys, bint is_append_time, int64_t earliest, int64_t latest):
        """What a topic refuses: None, or (index of the first record with a wrong timestamp or −1, [(index, fault, timestamp), …] of the
        first `MAX_FAULTS`). The faults are NO_KEY_FAULT, APPEND_TIME_FAULT (a producer says LogAppendTime) and RANGE_FAULT.
        """
        cdef const uint8_t *at = self.source.start
        cdef int64_t index = 0, timestamp = 0, wrong_time = -1, fault
        cdef list faults = []
        while True:
            if self.is_large():
                with nogil:
                    fault = self.next_refused(&at, &index, require_keys, is_append_time, earliest, latest, &timestamp)
            else:
                fault = self.next_refused(&at, &index, require_keys, is_append_time, earliest, latest, &timestamp)
            if fault < 0:
                raise ValueError("records that were changed meanwhile")
            if fault == 0:
                return (wrong_time, faults) if faults else None
            if len(faults) < MAX_FAULTS:
                faults.append((index - 1, fault, timestamp))
            if fault > 1 and wrong_time < 0:
                wrong_time = index - 1
            if wrong_time >= 0 and len(faults) >= MAX_FAULTS:
                return wrong_time, faults


def open_batch(buffer, header, Py_ssize_t max_decompressed=DEFAULT_MAX_BYTES):
    """The records of the batch of format 2 whose `header` was read from `buffer`. The checksum is not looked at.

    Raises what `decode_records` raises.
    """
    cdef Records records = Records.__new__(Records)
    cdef int64_t start = header.position + RECORDS_AT, end = header.position + header.size
    cdef int32_t codec = header.compression
    cdef int32_t count = header.record_count
    cdef const uint8_t *stop
    if count < 0:
        raise InvalidRecordError(f"record count {count}")
    if codec == 0 or count == 0:
        records.start_at(held(buffer, start, end))
    elif codec > LAST_CODEC:
        raise UnsupportedCompressionError(f"no compression codec has the id {codec}")
    else:
        payload = decompress(codec, memoryview(buffer)[start:end], max_decompressed)
        records.start_at(held(payload, 0, len(payload)))
    records.source.magic = MAGIC_V2
    records.source.base_offset = header.base_offset
    records.source.base_timestamp = header.base_timestamp
    records.source.one_timestamp = header.is_append_time
    records.source.timestamp = header.max_timestamp
    if records.is_large():
        with nogil:
            stop = records.walk(count, False, False)
    else:
        stop = records.walk(count, False, False)
    if records.fault_index >= 0:
        raise InvalidRecordError(f"record {records.fault_index} {_FAULTS[<int>records.fault]}", records.fault_index)
    if count and stop != records.source.end:
        raise InvalidRecordError(f"bytes are left over behind the {count} records of the batch")
    return records


def open_messages(
    buffer,
    Py_ssize_t position,
    Py_ssize_t end,
    int32_t magic,
    *,
    int64_t base_offset=0,
    bint one_timestamp=False,
    int64_t timestamp=-1,
    bint check_crc=False,
    bint must_rise=False,
    int64_t most=INT64_MAX,
):
    """The messages of format `magic` that fill buffer[position:end], none of them a wrapper; `Records.fault_index` says where one can't
    be read.

    Args:
        base_offset: what is added to each one's offset.
        one_timestamp: every one has `timestamp`, as its wrapper says.
        check_crc: whether a wrong checksum is a fault.
        must_rise: whether an offset that does not rise, or that was negative before `base_offset` was added, is a fault.
        most: no further messages are looked at.
    """
    cdef Records records = Records.__new__(Records)
    records.start_at(held(buffer, position, end))
    records.source.magic = magic
    records.source.base_offset = base_offset
    records.source.base_timestamp = 0
    records.source.one_timestamp = one_timestamp
    records.source.timestamp = timestamp
    if records.is_large():
        with nogil:
            records.walk(most, check_crc, must_rise)
    else:
        records.walk(most, check_crc, must_rise)
    return records
