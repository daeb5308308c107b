# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled half of protocol.records: the loops over batches and records that a broker runs for every byte it takes in,
recovers or searches. The bytes themselves are described in `record_batch`, the pure-Python twin of each function, against
which the tests hold it, in `reference`.

    produce    validate_and_assign   one batch: checksum, every record, then base offset and leader epoch in place
    recovery   BatchScanner          a whole segment, chunk by chunk: checksums, order, index entries
    look-up    find_batch, next_batch_position, count_records, find_timestamp, max_timestamp_record, read_header
    reading    decode_records        one batch, as a list of records
    checksum   crc32c                CRC-32C in hardware, by table elsewhere

What kernels share is included (`_records.pxi`, `_record.pxi`, `_messages.pxi`): a `cimport` does not survive this project's
folder layout. Message formats are converted in `_conversion.pyx`.

Rules of this file: every read is bounds-checked against [position, end) before it happens, sums are taken in 64 bits or
wrap as unsigned, nothing is allocated because a batch says so. Any thread may call anything here; two threads must not use
one `BatchScanner` at once. The GIL is released where the work is large enough to pay for it.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from .compression import DEFAULT_MAX_BYTES, decompress
from .exceptions import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordFault,
    UnsupportedCompressionError,
    UnsupportedFormatError,
    timestamp_fault,
)
from .record_batch import Record

include "_records.pxi"
include "_record.pxi"
include "_messages.pxi"

cdef enum:
    # Releasing and taking back the GIL costs about as much as checking this many bytes.
    NOGIL_BYTES = 8192
    # A refused batch names at most so many of its records.
    MAX_FAULTS = 1000

tl_crc32c_start()
tl_crc32_start()


def crc32c(data, uint32_t value=0):
    """CRC-32C of `data`, going on from `value`; any thread, lets others run where `data` is large."""
    cdef Py_buffer view
    cdef uint32_t crc
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    if view.len > NOGIL_BYTES:
        with nogil:
            crc = tl_crc32c(value, <const uint8_t *>view.buf, view.len)
    else:
        crc = tl_crc32c(value, <const uint8_t *>view.buf, view.len)
    PyBuffer_Release(&view)
    return crc


def _use_hardware(bint wanted):
    """For tests: whether checksums are computed in hardware from now on, in this process. Returns what is in force."""
    global tl_use_hardware
    tl_use_hardware = wanted and tl_has_hardware
    return bool(tl_use_hardware)


# ---- batch headers ---------------------------------------------------------------------------------------------------


@cython.final
@cython.freelist(64)
cdef class BatchInfo:
    """The header of one V2 batch. Fields as in the ruler of `record_batch`.

    `position` is where the batch starts: in the buffer it was read from, or, from a `BatchScanner`, in the file.
    The records_… fields are what `validate_and_assign` saw; −1 elsewhere.
    """

    cdef readonly int64_t position
    cdef readonly int64_t size
    cdef readonly int64_t base_offset
    cdef readonly int64_t last_offset
    cdef readonly int32_t partition_leader_epoch
    cdef readonly int32_t magic
    cdef readonly uint32_t crc
    cdef readonly int32_t attributes
    cdef readonly int32_t last_offset_delta
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t producer_id
    cdef readonly int32_t producer_epoch
    cdef readonly int32_t base_sequence
    cdef readonly int32_t record_count
    cdef readonly int64_t records_max_timestamp
    cdef readonly int64_t records_min_timestamp
    cdef readonly int32_t max_timestamp_delta

    def __init__(self):
        raise TypeError("BatchInfo comes from the functions of this module")

    @property
    def compression(self):
        """Codec id: a `Compression`, or 5 to 7, which mean nothing."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_append_time(self):
        """Every record has the batch's max timestamp, set by the broker."""
        return (self.attributes & TIMESTAMP_TYPE_MASK) != 0

    @property
    def is_transactional(self):
        """Part of a transaction, or its marker."""
        return (self.attributes & TRANSACTIONAL_MASK) != 0

    @property
    def is_control(self):
        """A marker, not for applications."""
        return (self.attributes & CONTROL_MASK) != 0

    @property
    def has_delete_horizon(self):
        """The base timestamp is the time at which tombstones and markers in here may go."""
        return (self.attributes & DELETE_HORIZON_MASK) != 0

    @property
    def last_sequence(self):
        """Sequence number of the last record; wraps from 2³¹ − 1 to 0; −1 when the batch has none."""
        if self.base_sequence == -1:
            return -1
        return <int64_t>((<uint32_t>self.base_sequence + <uint32_t>self.last_offset_delta) & 0x7FFFFFFF)

    def __repr__(self):
        return (
            f"BatchInfo(position={self.position}, size={self.size}, offsets={self.base_offset}..{self.last_offset}, "
            f"records={self.record_count}, attributes={self.attributes:#04x}, max_timestamp={self.max_timestamp}, "
            f"producer={self.producer_id}/{self.producer_epoch}, base_sequence={self.base_sequence})"
        )


cdef BatchInfo load(const uint8_t *p, int64_t position):
    """The header at p, of which RECORD_BATCH_OVERHEAD bytes are known to be there."""
    cdef BatchInfo info = BatchInfo.__new__(BatchInfo)
    info.position = position
    info.size = <int64_t>LOG_OVERHEAD + tl_i32(p + LENGTH_AT)
    info.base_offset = tl_i64(p)
    info.partition_leader_epoch = tl_i32(p + PARTITION_LEADER_EPOCH_AT)
    info.magic = p[MAGIC_AT]
    info.crc = tl_u32(p + CRC_AT)
    info.attributes = tl_i16(p + ATTRIBUTES_AT)
    info.last_offset_delta = tl_i32(p + LAST_OFFSET_DELTA_AT)
    info.last_offset = tl_add(info.base_offset, info.last_offset_delta)
    info.base_timestamp = tl_i64(p + BASE_TIMESTAMP_AT)
    info.max_timestamp = tl_i64(p + MAX_TIMESTAMP_AT)
    info.producer_id = tl_i64(p + PRODUCER_ID_AT)
    info.producer_epoch = tl_i16(p + PRODUCER_EPOCH_AT)
    info.base_sequence = tl_i32(p + BASE_SEQUENCE_AT)
    info.record_count = tl_i32(p + RECORD_COUNT_AT)
    info.records_max_timestamp = -1
    info.records_min_timestamp = -1
    info.max_timestamp_delta = -1
    return info


cdef int check_range(Py_buffer *view, Py_ssize_t position, Py_ssize_t end) except -1:
    if position < 0 or end > view.len or position > end:
        raise ValueError(f"bytes {position} to {end} are not within a buffer of {view.len}")
    return 0


cdef enum Verdict:
    WHOLE  # a V2 batch, all of it there
    CUT_OFF  # what is there is fine
    OLD_FORMAT  # a whole message of format 0 or 1
    BAD_SIZE
    BAD_MAGIC
    BAD_V2_SIZE


cdef Verdict judge(const uint8_t *p, int64_t available) noexcept nogil:
    """What begins at p, as far as the size and the magic tell."""
    cdef int64_t length
    if available < HEADER_UP_TO_MAGIC:
        return CUT_OFF
    length = tl_i32(p + LENGTH_AT)
    if length < MIN_MESSAGE_SIZE:
        return BAD_SIZE
    if p[MAGIC_AT] > 2:
        return BAD_MAGIC
    if LOG_OVERHEAD + length > available:
        return CUT_OFF
    if p[MAGIC_AT] < 2:
        return OLD_FORMAT
    if LOG_OVERHEAD + length < RECORD_BATCH_OVERHEAD:
        return BAD_V2_SIZE
    return WHOLE


cdef object header_error(Verdict verdict, const uint8_t *p, int64_t available):
    """The exception for a verdict other than WHOLE."""
    if verdict == CUT_OFF:
        if available < HEADER_UP_TO_MAGIC:
            return CorruptRecordError(f"no batch header in {available} bytes")
        return CorruptRecordError(f"batch of {<int64_t>LOG_OVERHEAD + tl_i32(p + LENGTH_AT)} bytes is cut off after {available}")
    if verdict == BAD_SIZE:
        return CorruptRecordError(f"batch size {tl_i32(p + LENGTH_AT)} is less than any message has")
    if verdict == BAD_MAGIC:
        return CorruptRecordError(f"no message format has the magic {p[MAGIC_AT]}")
    if verdict == OLD_FORMAT:
        return UnsupportedFormatError(f"message format {p[MAGIC_AT]} where format 2 is required")
    return CorruptRecordError(f"batch of {LOG_OVERHEAD + tl_i32(p + LENGTH_AT)} bytes is less than a header")


def read_header(buffer, Py_ssize_t position, Py_ssize_t end):
    """The header of the batch at `position`, which must be whole before `end`. The checksum is not looked at.

    Raises:
        CorruptRecordError: size or magic are impossible, or the batch is cut off.
        UnsupportedFormatError: message format 0 or 1.
        ValueError: position or end outside of the buffer.
    """
    cdef Py_buffer view
    cdef const uint8_t *p
    cdef Verdict verdict
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        check_range(&view, position, end)
        p = <const uint8_t *>view.buf + position
        verdict = judge(p, end - position)
        if verdict != WHOLE:
            raise header_error(verdict, p, end - position)
        return load(p, position)
    finally:
        PyBuffer_Release(&view)


cdef struct Found:
    int64_t position
    int64_t size
    int64_t last_offset


cdef Verdict walk_headers(const uint8_t *p, int64_t position, int64_t end, int64_t target, Found *found) noexcept nogil:
    """Goes from header to header up to the first batch whose last offset is ≥ target (WHOLE), or to the first one whose
    header is not wholly before `end` (CUT_OFF), or to an impossible one. `found` tells where that is.
    """
    cdef const uint8_t *head
    found.position = position
    while end - found.position >= HEADER_UP_TO_MAGIC:
        head = p + found.position
        if head[MAGIC_AT] == 2 and end - found.position < LAST_OFFSET_DELTA_AT + 4:
            break
        found.size = <int64_t>LOG_OVERHEAD + tl_i32(head + LENGTH_AT)
        if found.size < LOG_OVERHEAD + MIN_MESSAGE_SIZE:
            return BAD_SIZE
        if head[MAGIC_AT] == 2:
            if found.size < RECORD_BATCH_OVERHEAD:
                return BAD_V2_SIZE
            found.last_offset = tl_add(tl_i64(head), tl_i32(head + LAST_OFFSET_DELTA_AT))
        elif head[MAGIC_AT] < 2:
            found.last_offset = tl_i64(head)  # of a message, or of the last one in its wrapper
        else:
            return BAD_MAGIC
        if found.last_offset >= target and target != INT64_MAX:
            return WHOLE
        found.position += found.size
    return CUT_OFF


def find_batch(buffer, Py_ssize_t position, Py_ssize_t end, int64_t target_offset):
    """(position, size, last offset) of the first batch from `position` on whose last offset is ≥ `target_offset`, or None.

    Only the header (27 bytes of it) must lie before `end`: position + size may be beyond it. `position` must be the start
    of a batch. Takes message formats 0 and 1 as well, whose offset field is the last offset.

    Raises:
        CorruptRecordError: a size or magic on the way is impossible.
        ValueError: position or end outside of the buffer.
    """
    cdef Py_buffer view
    cdef Found found
    cdef Verdict verdict
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        check_range(&view, position, end)
        verdict = walk_headers(<const uint8_t *>view.buf, position, end, target_offset, &found)
        if verdict == WHOLE:
            return found.position, found.size, found.last_offset
        if verdict != CUT_OFF:
            raise header_error(verdict, <const uint8_t *>view.buf + found.position, end - found.position)
        return None
    finally:
        PyBuffer_Release(&view)


def next_batch_position(buffer, Py_ssize_t position, Py_ssize_t end):
    """Where `find_batch` stopped when it returned None: the start of the first batch whose header is not wholly before
    `end`; it may be `end` or beyond. Walking a file window by window goes on from there.

    Raises what `find_batch` raises.
    """
    cdef Py_buffer view
    cdef Found found
    cdef Verdict verdict
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        check_range(&view, position, end)
        verdict = walk_headers(<const uint8_t *>view.buf, position, end, INT64_MAX, &found)
        if verdict != CUT_OFF:
            raise header_error(verdict, <const uint8_t *>view.buf + found.position, end - found.position)
        return found.position
    finally:
        PyBuffer_Release(&view)


def count_records(buffer, Py_ssize_t position, Py_ssize_t end, int64_t limit_offset):
    """(records, position, is_wrapper): data records of the batches from `position` on, and where the count stopped.

    It stops at the first batch whose header is not wholly before `end`, or whose last offset is ≥ `limit_offset`, or at a
    compressed message of format 0 or 1 (`is_wrapper`), whose records only decompression can count. Control records are none.
    The position may be `end` or beyond, as with `next_batch_position`.

    Raises what `find_batch` raises.
    """
    cdef Py_buffer view
    cdef Verdict verdict = CUT_OFF
    cdef int64_t at = position, size, records = 0
    cdef bint is_wrapper = False
    cdef const uint8_t *head
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        check_range(&view, position, end)
        with nogil:
            while end - at >= HEADER_UP_TO_MAGIC + 1:
                head = <const uint8_t *>view.buf + at
                size = <int64_t>LOG_OVERHEAD + tl_i32(head + LENGTH_AT)
                if size < LOG_OVERHEAD + MIN_MESSAGE_SIZE:
                    verdict = BAD_SIZE
                    break
                if head[MAGIC_AT] == 2:
                    if size < RECORD_BATCH_OVERHEAD:
                        verdict = BAD_V2_SIZE
                        break
                    if end - at < RECORD_BATCH_OVERHEAD:
                        break
                    if tl_add(tl_i64(head), tl_i32(head + LAST_OFFSET_DELTA_AT)) >= limit_offset:
                        break
                    if not head[ATTRIBUTES_AT + 1] & CONTROL_MASK:
                        records += max(tl_i32(head + RECORD_COUNT_AT), 0)
                elif head[MAGIC_AT] < 2:
                    if tl_i64(head) >= limit_offset:
                        break
                    if head[HEADER_UP_TO_MAGIC] & 7:  # the codec, in the low byte that follows the magic
                        is_wrapper = True
                        break
                    records += 1
                else:
                    verdict = BAD_MAGIC
                    break
                at += size
        if verdict != CUT_OFF:
            raise header_error(verdict, <const uint8_t *>view.buf + at, end - at)
        return records, at, bool(is_wrapper)
    finally:
        PyBuffer_Release(&view)


# ---- records ---------------------------------------------------------------------------------------------------------


cdef struct Walk:
    int64_t max_timestamp
    int64_t min_timestamp  # of those that have one; −1 when none has
    int32_t max_index  # of the first record with the max timestamp
    int32_t fault_index
    Fault fault


cdef void walk_records(
    const uint8_t *p,
    const uint8_t *end,
    int32_t count,
    int64_t base_timestamp,
    bint require_keys,
    int64_t earliest,
    int64_t latest,
    Walk *walk,
) noexcept nogil:
    """Checks that `count` records with offset deltas 0 … count − 1 fill [p, end) exactly, and looks at their timestamps."""
    cdef RawRecord record
    cdef int64_t timestamp, highest = -1, lowest = INT64_MAX
    cdef int32_t index, max_index = 0
    cdef bint timed = False
    cdef Fault fault = SOUND
    walk.fault = SOUND
    walk.fault_index = -1
    for index in range(count):
        p = read_record(p, end, &record, &fault)
        if p == NULL:
            walk.fault = fault
            walk.fault_index = index
            return
        if record.offset_delta != index:
            walk.fault = WRONG_OFFSET
            walk.fault_index = index
            return
        timestamp = tl_add(base_timestamp, record.timestamp_delta)
        if timestamp > highest:
            highest = timestamp
            max_index = index
        if timestamp != -1:
            timed = True
            if timestamp < lowest:
                lowest = timestamp
            if timestamp < earliest or timestamp > latest:
                # One wrong time decides the error of the whole batch, as in Kafka's LogValidator.
                if walk.fault != WRONG_TIME and (record.key_size >= 0 or not require_keys):
                    walk.fault = WRONG_TIME
                    walk.fault_index = index
        if require_keys and record.key_size < 0 and walk.fault == SOUND:
            walk.fault = NO_KEY
            walk.fault_index = index
    if p != end:
        walk.fault = LEFT_OVER
        walk.fault_index = -1
        return
    walk.max_timestamp = highest
    walk.min_timestamp = lowest if timed else -1
    walk.max_index = max_index


cdef object records_error(
    const uint8_t *p,
    const uint8_t *end,
    int32_t count,
    int64_t base_timestamp,
    bint require_keys,
    int64_t earliest,
    int64_t latest,
    const Walk *walk,
):
    """The exception for a walk that found a fault."""
    cdef RawRecord record
    cdef int64_t timestamp
    cdef int32_t index
    cdef Fault fault = SOUND
    if walk.fault == LEFT_OVER:
        return InvalidRecordError(f"bytes are left over behind the {count} records of the batch")
    if walk.fault != NO_KEY and walk.fault != WRONG_TIME:
        return InvalidRecordError(f"record {walk.fault_index} {_FAULTS[<int>walk.fault]}", walk.fault_index)
    faults = []
    wrong_time = "its timestamp can't be taken"
    for index in range(count):  # each was read without a fault before
        p = read_record(p, end, &record, &fault)
        timestamp = tl_add(base_timestamp, record.timestamp_delta)
        if require_keys and record.key_size < 0:
            faults.append(RecordFault(index, "a compacted topic takes no record without a key"))
        elif timestamp != -1 and (timestamp < earliest or timestamp > latest):
            text = timestamp_fault(timestamp, earliest, latest)
            if index == walk.fault_index:
                wrong_time = text
            faults.append(RecordFault(index, text))
        if len(faults) == MAX_FAULTS:
            break
    if walk.fault == WRONG_TIME:
        return InvalidTimestampError(
            f"record {walk.fault_index}: {wrong_time}",
            walk.fault_index,
            tuple(faults),
        )
    return InvalidRecordError(
        f"record {walk.fault_index}: a compacted topic takes no record without a key", walk.fault_index, tuple(faults)
    )


cdef bint check_whole(
    const uint8_t *p, int64_t size, bint walk_too, bint require_keys, int64_t earliest, int64_t latest, Walk *walk
) noexcept nogil:
    """False when the checksum is wrong; else, with `walk_too`, the records are walked."""
    if tl_crc32c(0, p + ATTRIBUTES_AT, size - ATTRIBUTES_AT) != tl_u32(p + CRC_AT):
        return False
    if walk_too:
        walk_records(
            p + RECORDS_AT, p + size, tl_i32(p + RECORD_COUNT_AT), tl_i64(p + BASE_TIMESTAMP_AT),
            require_keys, earliest, latest, walk,
        )
    return True


cdef object batch_rule_broken(const uint8_t *p, bint from_client, int64_t append_time_ms):
    """The exception for a header that breaks a rule of produce, None when it keeps them."""
    cdef int32_t count = tl_i32(p + RECORD_COUNT_AT), last_delta = tl_i32(p + LAST_OFFSET_DELTA_AT)
    cdef int32_t attributes = tl_i16(p + ATTRIBUTES_AT)
    if (attributes & COMPRESSION_MASK) > LAST_CODEC:
        return UnsupportedCompressionError(f"no compression codec has the id {attributes & COMPRESSION_MASK}")
    if count <= 0:
        return InvalidRecordError(f"a batch of {count} records")
    if last_delta != count - 1:
        return InvalidRecordError(f"last offset delta {last_delta} in a batch of {count} records")
    if from_client:
        if tl_i64(p) != 0:
            return InvalidRecordError(f"base offset {tl_i64(p)}: a producer's batch starts at 0")
        if attributes & CONTROL_MASK:
            return InvalidRecordError("clients may not write control records")
        if attributes & DELETE_HORIZON_MASK:
            return InvalidRecordError("clients may not set a delete horizon")
        if tl_i64(p + PRODUCER_ID_AT) >= 0 and tl_i32(p + BASE_SEQUENCE_AT) < 0:
            return InvalidRecordError(
                f"sequence number {tl_i32(p + BASE_SEQUENCE_AT)} from the producer id {tl_i64(p + PRODUCER_ID_AT)}"
            )
    if attributes & TIMESTAMP_TYPE_MASK and (append_time_ms >= 0 or tl_i64(p + MAX_TIMESTAMP_AT) == -1):
        return InvalidTimestampError("a producer may not set the timestamp type to LogAppendTime")
    return None


def validate_and_assign(
    buffer,
    Py_ssize_t position,
    Py_ssize_t end,
    int64_t base_offset,
    int32_t leader_epoch,
    int64_t append_time_ms,
    bint require_keys,
    bint from_client=True,
    int64_t earliest_timestamp=INT64_MIN,
    int64_t latest_timestamp=INT64_MAX,
    Py_ssize_t max_decompressed=DEFAULT_MAX_BYTES,
    is_due=None,
):
    """Checks the one V2 batch that fills buffer[position:end] and makes it ready to be appended, in place.

    Checked: size, magic, checksum, codec, count = last offset delta + 1 > 0, every record (lengths that add up, offset
    deltas 0 … n − 1, headers, keys), and for clients also base offset 0, no control batch, no delete horizon, a sequence
    number where there is a producer id. Compressed records are decompressed for it.
    Then base offset and leader epoch are written, and the max timestamp is set from the records where it differs (the
    timestamp type with it); only that changes the checksum. Nothing is written when an exception is raised.

    Args:
        buffer: writable and contiguous.
        position, end: where the batch is.
        base_offset: for the first record.
        leader_epoch: of this leader.
        append_time_ms: −1 for CreateTime topics; else every record gets this time (LogAppendTime).
        require_keys: the topic is compacted.
        from_client: False for batches that the broker made itself (markers, coordinators' records).
        earliest_timestamp, latest_timestamp: ms, what CreateTime records with a timestamp may have.
        max_decompressed: bytes.
        is_due: whether time is up, as `decompress` asks it.

    Returns:
        The header as it now stands; records_max_timestamp (−1 when no record has one), records_min_timestamp (of the
        records that have one) and max_timestamp_delta (offset delta of the first record with the max) are set.

    Raises:
        CorruptRecordError: size, magic, checksum or compressed data.
        InvalidRecordError: a rule above is broken; a batch that is cut off, or not the only one, is such a case too.
        UnsupportedFormatError: message format 0 or 1.
        UnsupportedCompressionError: no such codec.
        InvalidTimestampError: a timestamp out of range; or a client says LogAppendTime on a topic with that type.
        RecordTooLargeError: more than `max_decompressed`.
        OutOfTimeError: `is_due` said so.
        ValueError: position or end outside of the buffer. BufferError: the buffer is read-only.
    """
    cdef Py_buffer view, inner
    cdef uint8_t *p
    cdef const uint8_t *records
    cdef int64_t size = end - position
    cdef int64_t max_timestamp
    cdef int32_t attributes, wanted
    cdef Py_ssize_t length
    cdef Verdict verdict
    cdef bint sound, compressed
    cdef Walk walk
    cdef BatchInfo info
    PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    try:
        check_range(&view, position, end)
        p = <uint8_t *>view.buf + position
        verdict = judge(p, size)
        if verdict != WHOLE:
            if verdict == CUT_OFF:
                raise InvalidRecordError(f"{size} bytes do not hold a whole batch")
            raise header_error(verdict, p, size)
        if LOG_OVERHEAD + <int64_t>tl_i32(p + LENGTH_AT) != size:
            raise InvalidRecordError("more than one batch where exactly one is allowed")
        attributes = tl_i16(p + ATTRIBUTES_AT)
        compressed = (attributes & COMPRESSION_MASK) != 0
        if append_time_ms >= 0:  # then the records' own timestamps do not count
            earliest_timestamp = INT64_MIN
            latest_timestamp = INT64_MAX
        if size > NOGIL_BYTES:
            with nogil:
                sound = check_whole(
                    p, size, not compressed, require_keys, earliest_timestamp, latest_timestamp, &walk
                )
        else:
            sound = check_whole(p, size, not compressed, require_keys, earliest_timestamp, latest_timestamp, &walk)
        if not sound:
            raise CorruptRecordError(
                f"checksum {tl_u32(p + CRC_AT):#010x} where the batch has "
                f"{tl_crc32c(0, p + ATTRIBUTES_AT, size - ATTRIBUTES_AT):#010x}"
            )
        error = batch_rule_broken(p, from_client, append_time_ms)
        if error is not None:
            raise error
        if not compressed:
            if walk.fault != SOUND:
                raise records_error(
                    p + RECORDS_AT, p + size, tl_i32(p + RECORD_COUNT_AT), tl_i64(p + BASE_TIMESTAMP_AT),
                    require_keys, earliest_timestamp, latest_timestamp, &walk,
                )
        else:
            payload = decompress(
                attributes & COMPRESSION_MASK,
                memoryview(buffer)[position + RECORDS_AT : end],
                max_decompressed,
                is_due,
            )
            PyObject_GetBuffer(payload, &inner, PyBUF_SIMPLE)
            try:
                records = <const uint8_t *>inner.buf
                length = inner.len
                if length > NOGIL_BYTES:
                    with nogil:
                        walk_records(
                            records, records + length, tl_i32(p + RECORD_COUNT_AT), tl_i64(p + BASE_TIMESTAMP_AT),
                            require_keys, earliest_timestamp, latest_timestamp, &walk,
                        )
                else:
                    walk_records(
                        records, records + length, tl_i32(p + RECORD_COUNT_AT), tl_i64(p + BASE_TIMESTAMP_AT),
                        require_keys, earliest_timestamp, latest_timestamp, &walk,
                    )
                if walk.fault != SOUND:
                    raise records_error(
                        records, records + length, tl_i32(p + RECORD_COUNT_AT), tl_i64(p + BASE_TIMESTAMP_AT),
                        require_keys, earliest_timestamp, latest_timestamp, &walk,
                    )
            finally:
                PyBuffer_Release(&inner)

        # All is well: from here on nothing can fail.
        tl_put64(p, <uint64_t>base_offset)
        tl_put32(p + PARTITION_LEADER_EPOCH_AT, <uint32_t>leader_epoch)
        if append_time_ms >= 0:
            wanted = attributes | TIMESTAMP_TYPE_MASK
            max_timestamp = append_time_ms
        else:
            wanted = attributes & ~TIMESTAMP_TYPE_MASK
            max_timestamp = walk.max_timestamp
        if wanted != attributes or tl_i64(p + MAX_TIMESTAMP_AT) != max_timestamp:
            tl_put16(p + ATTRIBUTES_AT, <uint32_t>wanted)
            tl_put64(p + MAX_TIMESTAMP_AT, <uint64_t>max_timestamp)
            if size > NOGIL_BYTES:
                with nogil:
                    tl_put32(p + CRC_AT, tl_crc32c(0, p + ATTRIBUTES_AT, size - ATTRIBUTES_AT))
            else:
                tl_put32(p + CRC_AT, tl_crc32c(0, p + ATTRIBUTES_AT, size - ATTRIBUTES_AT))
        info = load(p, position)
        info.records_max_timestamp = walk.max_timestamp
        info.records_min_timestamp = walk.min_timestamp
        info.max_timestamp_delta = walk.max_index
        return info
    finally:
        PyBuffer_Release(&view)


# ---- look-up by time ---------------------------------------------------------------------------------------------------


cdef object payload_of(object buffer, BatchInfo info, Py_ssize_t max_decompressed):
    """The records of a batch as an object with a buffer, decompressed where needed."""
    cdef int32_t codec = info.attributes & COMPRESSION_MASK
    if info.record_count < 0:
        raise InvalidRecordError(f"record count {info.record_count}")
    payload = memoryview(buffer)[info.position + RECORDS_AT : info.position + info.size]
    if codec == 0 or info.record_count == 0:
        return payload
    if codec > LAST_CODEC:
        raise UnsupportedCompressionError(f"no compression codec has the id {codec}")
    return decompress(codec, payload, max_decompressed)


def find_timestamp(
    buffer,
    Py_ssize_t position,
    Py_ssize_t end,
    int64_t target_timestamp,
    int64_t starting_offset=INT64_MIN,
    Py_ssize_t max_decompressed=DEFAULT_MAX_BYTES,
):
    """(timestamp, offset) of the first record, by offset, of the batch at `position` whose timestamp is ≥ the target and
    whose offset is ≥ `starting_offset`; None when there is none. The checksum is not looked at.

    Raises what `read_header` raises, InvalidRecordError for broken records, and what decompression raises.
    """
    cdef BatchInfo info = read_header(buffer, position, end)
    cdef Py_buffer view
    cdef const uint8_t *p
    cdef const uint8_t *stop
    cdef RawRecord record
    cdef Fault fault = SOUND
    cdef int64_t timestamp, offset
    cdef int32_t index
    payload = payload_of(buffer, info, max_decompressed)
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        p = <const uint8_t *>view.buf
        stop = p + view.len
        for index in range(info.record_count):
            p = read_record(p, stop, &record, &fault)
            if p == NULL:
                raise InvalidRecordError(f"record {index} {_FAULTS[<int>fault]}", index)
            if info.attributes & TIMESTAMP_TYPE_MASK:
                timestamp = info.max_timestamp
            else:
                timestamp = tl_add(info.base_timestamp, record.timestamp_delta)
            offset = tl_add(info.base_offset, record.offset_delta)
            if timestamp >= target_timestamp and offset >= starting_offset:
                return timestamp, offset
        return None
    finally:
        PyBuffer_Release(&view)


def max_timestamp_record(buffer, Py_ssize_t position, Py_ssize_t end, Py_ssize_t max_decompressed=DEFAULT_MAX_BYTES):
    """(timestamp, offset) of the first record of the batch at `position` that has the largest timestamp of all of them;
    None when the batch is empty. The checksum is not looked at.

    Raises what `read_header` raises, InvalidRecordError for broken records, and what decompression raises.
    """
    cdef BatchInfo info = read_header(buffer, position, end)
    cdef Py_buffer view
    cdef const uint8_t *p
    cdef const uint8_t *stop
    cdef RawRecord record
    cdef Fault fault = SOUND
    cdef int64_t timestamp, highest = INT64_MIN, offset = -1
    cdef int32_t index
    payload = payload_of(buffer, info, max_decompressed)
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        p = <const uint8_t *>view.buf
        stop = p + view.len
        for index in range(info.record_count):
            p = read_record(p, stop, &record, &fault)
            if p == NULL:
                raise InvalidRecordError(f"record {index} {_FAULTS[<int>fault]}", index)
            if info.attributes & TIMESTAMP_TYPE_MASK:
                timestamp = info.max_timestamp
            else:
                timestamp = tl_add(info.base_timestamp, record.timestamp_delta)
            if index == 0 or timestamp > highest:
                highest = timestamp
                offset = tl_add(info.base_offset, record.offset_delta)
        if info.record_count == 0:
            return None
        if p != stop:
            raise InvalidRecordError(f"bytes are left over behind the {info.record_count} records of the batch")
        return highest, offset
    finally:
        PyBuffer_Release(&view)


# ---- whole records -----------------------------------------------------------------------------------------------------

_new_tuple = tuple.__new__


cdef inline object take_field(const uint8_t **at, const uint8_t *end):
    """The nullable bytes at at[0] of a record that `read_record` found sound; at[0] moves behind them."""
    cdef int32_t length = -1
    at[0] = tl_varint(at[0], end, &length)
    if length < 0:
        return None
    data = (<const char *>at[0])[:length]
    at[0] += length
    return data


def decode_records(buffer, Py_ssize_t position, Py_ssize_t end, Py_ssize_t max_decompressed=DEFAULT_MAX_BYTES):
    """The records of the batch at `position`, decompressed, as a list of `Record`; what `iterate_records` gives, some ten
    times as fast. The checksum is not looked at.

    Raises what `read_header` raises, InvalidRecordError for broken records, and what decompression raises.
    """
    cdef BatchInfo info = read_header(buffer, position, end)
    cdef Py_buffer view
    cdef const uint8_t *p
    cdef const uint8_t *at
    cdef const uint8_t *stop
    cdef RawRecord record
    cdef Fault fault = SOUND
    cdef int64_t timestamp
    cdef int32_t index, count = 0, i
    cdef list records = []
    payload = payload_of(buffer, info, max_decompressed)
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        p = <const uint8_t *>view.buf
        stop = p + view.len
        for index in range(info.record_count):
            at = p
            p = read_record(p, stop, &record, &fault)
            if p == NULL:
                raise InvalidRecordError(f"record {index} {_FAULTS[<int>fault]}", index)
            # Sound, so the second look below needs no checks: length, attributes, two deltas, then what matters.
            at = tl_varint(at, p, &count) + 1
            at = tl_varlong(at, p, &timestamp)
            at = tl_varint(at, p, &count)
            key = take_field(&at, p)
            value = take_field(&at, p)
            at = tl_varint(at, p, &count)
            headers = ()
            if count:
                pairs = []
                for i in range(count):
                    header_key = take_field(&at, p)
                    pairs.append((header_key, take_field(&at, p)))
                headers = tuple(pairs)
            if info.attributes & TIMESTAMP_TYPE_MASK:
                timestamp = info.max_timestamp
            else:
                timestamp = tl_add(info.base_timestamp, record.timestamp_delta)
            offset = tl_add(info.base_offset, record.offset_delta)
            records.append(_new_tuple(Record, (offset, timestamp, key, value, headers)))
        if info.record_count and p != stop:
            raise InvalidRecordError(f"bytes are left over behind the {info.record_count} records of the batch")
        return records
    finally:
        PyBuffer_Release(&view)


# ---- recovery ----------------------------------------------------------------------------------------------------------


cdef enum Stop:
    GOING
    STOP_SIZE
    STOP_MAGIC
    STOP_CRC
    STOP_COUNT
    STOP_ORDER
    STOP_OFFSET_RANGE
    STOP_POSITION_RANGE

_STOPS = {
    STOP_SIZE: "impossible batch size",
    STOP_MAGIC: "impossible magic",
    STOP_CRC: "wrong checksum",
    STOP_COUNT: "impossible record count",
    STOP_ORDER: "offsets out of order",
    STOP_OFFSET_RANGE: "offset too far from the segment's base offset",
    STOP_POSITION_RANGE: "segment beyond 2 GiB",
}

cdef enum EventKind:
    INDEX_ENTRY
    TIME_ENTRY
    EPOCH
    BATCH

cdef struct Event:
    EventKind kind
    int64_t first  # INDEX_ENTRY: last offset    TIME_ENTRY: timestamp    EPOCH: epoch        BATCH: place in the buffer
    int64_t second  #              position                   offset               base offset         position

cdef enum:
    EVENTS = 256
    EVENTS_PER_BATCH = 4


@cython.final
cdef class BatchScanner:
    """Walks the batches of one segment from front to back, in chunks, for recovery and for rebuilding indexes.

    Feed it the file in order; it takes whole batches and says how many bytes that was; what is left is fed again with more
    behind it (`needed` says how much the next batch takes). It stops at the first batch that is not sound and stays
    stopped. What precedes is good: `valid_bytes` is where the file is to be truncated. A batch that the end of the file
    cuts off is no stop: `stopped` is None then, and `valid_bytes` is less than the file's size. Messages of formats 0 and 1
    count as batches of one record, wrappers too: what is within is neither looked at nor counted.

    Index entries are Kafka's: an entry for a batch when more than `index_interval_bytes` lie between its position and that
    of the last one indexed; its *last* offset beside its start; at the same time a time index entry of the largest
    timestamp so far, unless the one before has it. The entry that closes a time index (largest timestamp at the end) is
    the caller's, from `max_timestamp` and `offset_of_max_timestamp`.

    Attributes:
        valid_bytes: position in the file behind the last sound batch.
        next_offset: one more than the last offset; the base offset before the first batch.
        max_timestamp, offset_of_max_timestamp: the largest of the batches' max timestamps and the last offset of the first
            batch that has it; −1 and −1 when no batch has a timestamp.
        first_timestamp: max timestamp of the first batch, −1 without one.
        batch_count, record_count: sound ones.
        leader_epoch: the largest so far, −1 without one.
        offset_index_entries: packed, 8 bytes each: relative offset, position; the caller may drain it.
        time_index_entries: packed, 12 bytes each: timestamp, relative offset; the caller may drain it.
        leader_epochs: (epoch, base offset of its first batch), rising; the caller may drain it.
        stateful_batches: headers with a producer id or the control bit, `position` in the file; the caller drains it.
        needed: size of the batch that the last chunk cut off, 17 when not even that could be read, 0 when none was.
        stopped: why, None while all is well; `valid_bytes` is the place.

    One thread at a time; `feed` works without the GIL.
    """

    cdef readonly int64_t valid_bytes
    cdef readonly int64_t next_offset
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t offset_of_max_timestamp
    cdef readonly int64_t first_timestamp
    cdef readonly int64_t batch_count
    cdef readonly int64_t record_count
    cdef readonly int64_t needed
    cdef readonly int32_t leader_epoch
    cdef readonly bytearray offset_index_entries
    cdef readonly bytearray time_index_entries
    cdef readonly list leader_epochs
    cdef readonly list stateful_batches
    cdef int64_t base_offset
    cdef int64_t index_interval_bytes
    cdef int64_t last_indexed
    cdef int64_t last_time_entry
    cdef bint check_crc
    cdef bint find_stateful
    cdef bint started
    cdef Stop reason
    cdef Event events[EVENTS]
    cdef int event_count

    def __init__(
        self, int64_t index_interval_bytes, int64_t base_offset, bint check_crc=True, *, bint find_stateful=True
    ):
        """`find_stateful`: whether somebody wants `stateful_batches`; each is an object made under the GIL."""
        if base_offset < 0 or index_interval_bytes < 0:
            raise ValueError("neither the index interval nor the base offset can be negative")
        self.index_interval_bytes = index_interval_bytes
        self.base_offset = base_offset
        self.check_crc = check_crc
        self.find_stateful = find_stateful
        self.valid_bytes = 0
        self.last_indexed = 0
        self.started = False
        self.next_offset = base_offset
        self.max_timestamp = -1
        self.offset_of_max_timestamp = -1
        self.first_timestamp = -1
        self.last_time_entry = -1
        self.leader_epoch = -1
        self.batch_count = 0
        self.record_count = 0
        self.needed = 0
        self.reason = GOING
        self.offset_index_entries = bytearray()
        self.time_index_entries = bytearray()
        self.leader_epochs = []
        self.stateful_batches = []

    @property
    def stopped(self):
        """Why the scan stopped at `valid_bytes`, None while all is well."""
        return None if self.reason == GOING else _STOPS[<int>self.reason]

    @property
    def is_too_wide(self):
        """It stopped at a batch that is sound but whose offsets the segment's indexes can't say."""
        return self.reason == STOP_OFFSET_RANGE

    def feed(self, buffer, Py_ssize_t start, Py_ssize_t end, int64_t file_position):
        """Takes whole batches from buffer[start:end], whose first byte stands at `file_position` of the file.

        Returns how many bytes were taken; 0 once stopped. The next call goes on at file_position + that.

        Raises:
            ValueError: start or end outside of the buffer, or `file_position` is not where the last call ended.
        """
        cdef Py_buffer view
        cdef const uint8_t *p
        cdef int64_t taken = 0, step, size = end - start
        if self.reason != GOING:
            return 0
        if not self.started:
            if file_position < 0:
                raise ValueError("file_position is negative")
            self.started = True
            self.valid_bytes = self.last_indexed = file_position
        elif file_position != self.valid_bytes:
            raise ValueError(f"the next byte wanted is at {self.valid_bytes}, not at {file_position}")
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            check_range(&view, start, end)
            p = <const uint8_t *>view.buf + start
            while True:  # as often as the events fill up
                self.event_count = 0
                if size - taken > NOGIL_BYTES:
                    with nogil:
                        step = self.walk(p + taken, size - taken)
                else:
                    step = self.walk(p + taken, size - taken)
                self.drain(p + taken)
                taken += step
                if step == 0 or self.event_count <= EVENTS - EVENTS_PER_BATCH:
                    return taken
        finally:
            PyBuffer_Release(&view)

    def take_checked(self, head, int64_t file_position):
        """Takes one batch whose bytes need not be in memory: `head` is its header, at `file_position` of the file.

        The caller has found that the batch is whole and its checksum right. Returns its size; 0 once stopped.

        Raises:
            ValueError: `head` is shorter than a header of format 2, or `file_position` is not where the last call ended.
        """
        cdef Py_buffer view
        cdef const uint8_t *p
        cdef int64_t taken
        cdef bint check_crc = self.check_crc
        if self.reason != GOING:
            return 0
        if self.started and file_position != self.valid_bytes:
            raise ValueError(f"the next byte wanted is at {self.valid_bytes}, not at {file_position}")
        PyObject_GetBuffer(head, &view, PyBUF_SIMPLE)
        try:
            p = <const uint8_t *>view.buf
            if view.len < RECORD_BATCH_OVERHEAD:
                raise ValueError(f"{view.len} bytes are no header")
            if not self.started:
                self.started = True
                self.valid_bytes = self.last_indexed = file_position
            self.event_count = 0
            self.check_crc = False
            taken = self.walk(p, <int64_t>LOG_OVERHEAD + tl_i32(p + LENGTH_AT))  # reads no further than the header
            self.check_crc = check_crc
            self.drain(p)
            return taken
        finally:
            PyBuffer_Release(&view)

    cdef int64_t walk(self, const uint8_t *start, int64_t available) noexcept nogil:
        """Takes batches until they end, one is bad, or the events are full; returns the bytes taken."""
        cdef const uint8_t *p
        cdef int64_t taken = 0, size, base, last, max_timestamp
        cdef int32_t count, last_delta, epoch
        cdef Verdict verdict
        cdef bint legacy
        self.needed = 0
        while self.event_count <= EVENTS - EVENTS_PER_BATCH:
            p = start + taken
            verdict = judge(p, available - taken)
            legacy = verdict == OLD_FORMAT
            if verdict != WHOLE and not legacy:
                if verdict == CUT_OFF:
                    if available - taken >= HEADER_UP_TO_MAGIC:
                        self.needed = <int64_t>LOG_OVERHEAD + tl_i32(p + LENGTH_AT)
                    elif available - taken > 0:
                        self.needed = HEADER_UP_TO_MAGIC
                else:
                    self.reason = STOP_MAGIC if verdict == BAD_MAGIC else STOP_SIZE
                break
            size = <int64_t>LOG_OVERHEAD + tl_i32(p + LENGTH_AT)
            if legacy:
                if p[MAGIC_AT] == 1 and size < LOG_OVERHEAD + MIN_MESSAGE_SIZE_V1:
                    self.reason = STOP_SIZE
                    break
                if self.check_crc and tl_crc32(p + MAGIC_AT, size - MAGIC_AT) != tl_u32(p + LEGACY_CRC_AT):
                    self.reason = STOP_CRC
                    break
                count = 1
                last_delta = 0  # the offset is that of the last one in a wrapper; it need only rise
                max_timestamp = tl_i64(p + LEGACY_TIMESTAMP_AT) if p[MAGIC_AT] == 1 else -1
            else:
                if self.check_crc and tl_crc32c(0, p + ATTRIBUTES_AT, size - ATTRIBUTES_AT) != tl_u32(p + CRC_AT):
                    self.reason = STOP_CRC
                    break
                count = tl_i32(p + RECORD_COUNT_AT)
                last_delta = tl_i32(p + LAST_OFFSET_DELTA_AT)
                # Compaction leaves fewer records than offsets, never more.
                if count < 0 or last_delta < 0 or count - 1 > last_delta:
                    self.reason = STOP_COUNT
                    break
                max_timestamp = tl_i64(p + MAX_TIMESTAMP_AT)
            base = tl_i64(p)
            last = tl_add(base, last_delta)
            if base < self.next_offset or last < base:
                self.reason = STOP_ORDER
                break
            if last == INT64_MAX:
                self.reason = STOP_ORDER
                break
            if last - self.base_offset > INT32_MAX:
                self.reason = STOP_OFFSET_RANGE
                break
            if self.valid_bytes > INT32_MAX - size:
                self.reason = STOP_POSITION_RANGE
                break
            if max_timestamp > self.max_timestamp:
                self.max_timestamp = max_timestamp
                self.offset_of_max_timestamp = last
            if self.batch_count == 0:
                self.first_timestamp = max_timestamp
            if self.valid_bytes - self.last_indexed > self.index_interval_bytes:
                self.add(INDEX_ENTRY, last, self.valid_bytes)
                self.last_indexed = self.valid_bytes
                if self.max_timestamp > self.last_time_entry:
                    self.add(TIME_ENTRY, self.max_timestamp, self.offset_of_max_timestamp)
                    self.last_time_entry = self.max_timestamp
            if not legacy:  # the old formats have neither epoch nor producer
                epoch = tl_i32(p + PARTITION_LEADER_EPOCH_AT)
                if epoch > self.leader_epoch:
                    self.leader_epoch = epoch
                    self.add(EPOCH, epoch, base)
                if self.find_stateful and (
                    tl_i64(p + PRODUCER_ID_AT) >= 0 or tl_i16(p + ATTRIBUTES_AT) & CONTROL_MASK
                ):
                    self.add(BATCH, taken, self.valid_bytes)
            self.next_offset = last + 1
            self.batch_count += 1
            self.record_count += count
            self.valid_bytes += size
            taken += size
        return taken

    cdef inline void add(self, EventKind kind, int64_t first, int64_t second) noexcept nogil:
        self.events[self.event_count].kind = kind
        self.events[self.event_count].first = first
        self.events[self.event_count].second = second
        self.event_count += 1

    cdef int drain(self, const uint8_t *start) except -1:
        """Turns the events of one walk, which began at `start`, into entries and objects."""
        cdef Event *event
        cdef uint8_t entry[12]
        cdef int i
        for i in range(self.event_count):
            event = &self.events[i]
            if event.kind == INDEX_ENTRY:
                tl_put32(entry, <uint32_t>(event.first - self.base_offset))
                tl_put32(entry + 4, <uint32_t>event.second)
                self.offset_index_entries += (<char *>entry)[:8]
            elif event.kind == TIME_ENTRY:
                tl_put64(entry, <uint64_t>event.first)
                tl_put32(entry + 8, <uint32_t>(event.second - self.base_offset))
                self.time_index_entries += (<char *>entry)[:12]
            elif event.kind == EPOCH:
                self.leader_epochs.append((event.first, event.second))
            else:
                self.stateful_batches.append(load(start + event.first, event.second))
        return 0
