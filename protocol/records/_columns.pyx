# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Records as columns in Apache Arrow's memory layout, for readers of many records at once.

A `ColumnBuilder` takes whole batches of format 2 and writes offsets, timestamps, keys, values and headers side by side;
`take` hands the columns over without a copy, as objects with a buffer, from which pyarrow makes arrays. Records of formats
0 and 1 come one by one through `add_record`: their parser is Python.

    column            buffers
    offsets           int64
    timestamps        int64, microseconds since 1970
    timestamp_types   int32: 0 CreateTime, 1 LogAppendTime
    keys, values      validity bits, int32 positions (rows + 1), bytes
    headers           int32 positions of lists (rows + 1); then names (positions, bytes), values (validity, positions, bytes)

Rules of this file: as of `_kernel.pyx`. Nothing is allocated because a count says so, only because bytes are there: a batch
reserves rows and bytes within its own payload's length. One thread at a time may use a builder; the GIL is released over a
batch that is worth it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from .compression import DEFAULT_MAX_BYTES, decompress
from .exceptions import CorruptRecordError, InvalidRecordError, RecordTooLargeError, UnsupportedCompressionError

include "_records.pxi"

tl_crc32c_start()

cdef enum:
    # Releasing and taking back the GIL costs about as much as decoding this many bytes.
    NOGIL_BYTES = 4096
    # A record has at least: length, attributes, two deltas, two null lengths, header count.
    MIN_RECORD_BYTES = 7
    # A header's count is believed up to so many records, and so many for a byte of the batch; above that they are walked.
    MOST_BY_HEADER = 1 << 20
    MOST_BY_BYTE = 200


cdef struct Memory:
    uint8_t *start
    int64_t used
    int64_t capacity


cdef int reserve(Memory *memory, int64_t more) noexcept nogil:
    """Makes room for `more` bytes behind those that are used; 0 when there is none."""
    cdef int64_t needed = memory.used + more, capacity
    cdef void *moved
    if needed <= memory.capacity:
        return 1
    capacity = max(needed, memory.capacity + memory.capacity // 2, 4096)
    moved = realloc(memory.start, capacity)
    if moved == NULL:
        return 0
    memory.start = <uint8_t *>moved
    memory.capacity = capacity
    return 1


cdef inline int64_t microseconds(int64_t ms) noexcept nogil:
    """Of what is out of range: the nearest that there is. Such timestamps are a producer's mistake, and no reason to fail."""
    if ms > INT64_MAX // 1000:
        return INT64_MAX
    if ms < INT64_MIN // 1000:
        return INT64_MIN
    return ms * 1000


cdef class Block:
    """Memory that a builder has filled, as a buffer; freed with the last who looks at it."""

    cdef uint8_t *_start
    cdef Py_ssize_t _size

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self._start, self._size, 1, flags)

    def __releasebuffer__(self, Py_buffer *view):
        pass

    def __len__(self):
        return self._size

    def __dealloc__(self):
        free(self._start)


cdef Block handed_over(Memory *memory):
    cdef Block block = Block.__new__(Block)
    # Never NULL: an empty Arrow buffer is one of no bytes.
    if memory.start == NULL:
        reserve(memory, 64)
    block._start = memory.start
    block._size = memory.used
    memory.start = NULL
    memory.used = memory.capacity = 0
    return block


cdef struct Binary:
    Memory validity
    Memory positions
    Memory data
    int64_t rows
    int64_t nulls


cdef int reserve_binary(Binary *column, int64_t rows, int64_t size) noexcept nogil:
    cdef int64_t bits = (column.rows + rows + 7) // 8
    cdef int64_t more = bits - column.validity.used
    if not (
        reserve(&column.validity, more)
        and reserve(&column.positions, 4 * (rows + 1))
        and reserve(&column.data, size)
    ):
        return 0
    if more > 0:
        memset(column.validity.start + column.validity.used, 0, more)
        column.validity.used = bits
    if column.positions.used == 0:
        (<int32_t *>column.positions.start)[0] = 0
        column.positions.used = 4
    return 1


cdef inline void put_binary(Binary *column, const uint8_t *p, int64_t size) noexcept nogil:
    """`size` −1: null. Room has been reserved."""
    cdef int64_t row = column.rows
    if size >= 0:
        memcpy(column.data.start + column.data.used, p, size)
        column.data.used += size
        column.validity.start[row >> 3] |= <uint8_t>(1 << (row & 7))
    else:
        column.nulls += 1
    column.rows = row + 1
    (<int32_t *>column.positions.start)[row + 1] = <int32_t>column.data.used
    column.positions.used += 4


cdef void free_binary(Binary *column) noexcept:
    free(column.validity.start)
    free(column.positions.start)
    free(column.data.start)


cdef tuple take_binary(Binary *column):
    """(nulls, validity, positions, bytes). Room for the one position of no rows is made here."""
    if not reserve_binary(column, 0, 0):
        raise MemoryError
    # Bits were reserved by batch; a reader wants no more than there are rows.
    column.validity.used = (column.rows + 7) // 8
    taken = (column.nulls, handed_over(&column.validity), handed_over(&column.positions), handed_over(&column.data))
    column.rows = column.nulls = 0
    return taken


cdef class ColumnBuilder:
    """Collects records with offsets in [first_offset, end_offset) and timestamps in [min_timestamp, max_timestamp]; without
    `end_offset` up to the last there is, 2^63 - 1.

    Timestamps in milliseconds; `keys`, `values`, `headers`, `timestamps`: whether that column is wanted. A column that is not
    wanted costs nothing but its walk; the timestamps are zeros then, or right. Where the header of a batch says all that is
    wanted, its records are neither decompressed nor walked.
    """

    cdef Memory _offsets
    cdef Memory _timestamps
    cdef Memory _types
    cdef Binary _keys
    cdef Binary _values
    cdef Memory _lists
    cdef Binary _names
    cdef Binary _header_values
    cdef readonly int64_t rows
    cdef bint _want_keys
    cdef bint _want_values
    cdef bint _want_headers
    cdef bint _want_timestamps
    cdef int64_t _first
    cdef int64_t _last
    cdef int64_t _earliest
    cdef int64_t _latest

    def __init__(
        self, *, bint keys=True, bint values=True, bint headers=False, bint timestamps=True, int64_t first_offset=INT64_MIN,
        end_offset=None, int64_t min_timestamp=INT64_MIN, int64_t max_timestamp=INT64_MAX,
    ):
        self._want_keys = keys
        self._want_values = values
        self._want_headers = headers
        self._want_timestamps = timestamps
        self._first = first_offset
        if end_offset == INT64_MIN:  # nothing is below it, and there is no last offset to say so
            self._first, self._last = INT64_MAX, INT64_MIN
        else:
            self._last = INT64_MAX if end_offset is None else end_offset - 1
        self._earliest = min_timestamp
        self._latest = max_timestamp

    def __dealloc__(self):
        free(self._offsets.start)
        free(self._timestamps.start)
        free(self._types.start)
        free(self._lists.start)
        free_binary(&self._keys)
        free_binary(&self._values)
        free_binary(&self._names)
        free_binary(&self._header_values)

    @property
    def data_bytes(self):
        """Bytes of keys, values and headers so far: Arrow's positions have 31 bits."""
        return max(self._keys.data.used, self._values.data.used, self._names.data.used, self._header_values.data.used)

    cdef int _reserve(self, int64_t rows, int64_t size) noexcept nogil:
        if not (
            reserve(&self._offsets, 8 * rows) and reserve(&self._timestamps, 8 * rows) and reserve(&self._types, 4 * rows)
        ):
            return 0
        if self._want_keys and not reserve_binary(&self._keys, rows, size):
            return 0
        if self._want_values and not reserve_binary(&self._values, rows, size):
            return 0
        if self._want_headers:
            if not reserve(&self._lists, 4 * (rows + 1)):
                return 0
            if self._lists.used == 0:
                (<int32_t *>self._lists.start)[0] = 0
                self._lists.used = 4
        return 1

    def add_batch(
        self, buffer, Py_ssize_t position, Py_ssize_t end, *, bint check_crc=True,
        Py_ssize_t max_decompressed=DEFAULT_MAX_BYTES,
    ):
        """Adds the wanted records of the V2 batch in buffer[position:end], which is whole; returns how many there were.

        Raises:
            CorruptRecordError: the checksum is wrong, or it is no whole V2 batch.
            InvalidRecordError: a record is broken. Nothing of the batch stays.
            UnsupportedCompressionError, RecordTooLargeError: as decompression; too large also for Arrow's 31 bits.
        """
        cdef Py_buffer view
        cdef Py_buffer payload_view
        cdef const uint8_t *p
        cdef int64_t size, rows_before = self.rows
        cdef int32_t fault, count, codec
        cdef bint intact = True
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            if position < 0 or end > view.len or end - position < RECORD_BATCH_OVERHEAD:
                raise CorruptRecordError(f"no record batch in bytes {position} to {end} of {view.len}")
            p = <const uint8_t *>view.buf + position
            size = end - position
            if p[MAGIC_AT] != 2 or LOG_OVERHEAD + <int64_t>tl_i32(p + LENGTH_AT) != size:
                raise CorruptRecordError(f"bytes {position} to {end} are not one batch of format 2")
            if check_crc:
                if size > NOGIL_BYTES:
                    with nogil:
                        intact = tl_crc32c(0, p + ATTRIBUTES_AT, size - ATTRIBUTES_AT) == tl_u32(p + CRC_AT)
                else:
                    intact = tl_crc32c(0, p + ATTRIBUTES_AT, size - ATTRIBUTES_AT) == tl_u32(p + CRC_AT)
                if not intact:
                    raise CorruptRecordError(f"the checksum of the batch at offset {tl_i64(p)} is wrong")
            count = tl_i32(p + RECORD_COUNT_AT)
            if count < 0:
                raise InvalidRecordError(f"record count {count}")
            if count == 0:
                return 0
            codec = tl_i16(p + ATTRIBUTES_AT) & COMPRESSION_MASK
            if codec > LAST_CODEC:
                raise UnsupportedCompressionError(f"no compression codec has the id {codec}")
            if self._is_too_old(p):
                return 0
            if self._is_in_header(p, count):
                if not codec and count > (size - RECORDS_AT) // MIN_RECORD_BYTES:
                    raise InvalidRecordError(f"{count} records in {size - RECORDS_AT} bytes")
                if count <= min(MOST_BY_HEADER, (size - RECORDS_AT) * MOST_BY_BYTE):
                    if not self._by_header(p, count):
                        raise MemoryError
                    return self.rows - rows_before
            payload = memoryview(buffer)[position + RECORDS_AT : end]
            if codec:
                payload = decompress(codec, payload, max_decompressed)
            PyObject_GetBuffer(payload, &payload_view, PyBUF_SIMPLE)
            try:
                if count > payload_view.len // MIN_RECORD_BYTES:
                    raise InvalidRecordError(f"{count} records in {payload_view.len} bytes")
                if payload_view.len + self.data_bytes > INT32_MAX:
                    raise RecordTooLargeError(f"a batch of {payload_view.len} bytes, on {self.data_bytes}, for one column")
                if payload_view.len > NOGIL_BYTES:
                    with nogil:
                        fault = self._walk(p, <const uint8_t *>payload_view.buf, payload_view.len, count)
                else:
                    fault = self._walk(p, <const uint8_t *>payload_view.buf, payload_view.len, count)
            finally:
                PyBuffer_Release(&payload_view)
            if fault == -2:
                raise MemoryError
            if fault >= 0:
                raise InvalidRecordError(f"record {fault} of the batch at offset {tl_i64(p)} is broken", fault)
            return self.rows - rows_before
        finally:
            PyBuffer_Release(&view)

    cdef bint _is_too_old(self, const uint8_t *batch) noexcept nogil:
        """True if no record of the batch has a wanted timestamp, by its header: all are at or below its largest, and of
        LogAppendTime all have that one.
        """
        cdef int64_t largest = tl_i64(batch + MAX_TIMESTAMP_AT)
        if largest < self._earliest:
            return True
        return largest > self._latest and tl_i16(batch + ATTRIBUTES_AT) & TIMESTAMP_TYPE_MASK != 0

    cdef bint _is_in_header(self, const uint8_t *batch, int32_t count) noexcept nogil:
        """True if the header says all that is wanted of the batch's `count` records: their offsets have no gaps, and their
        timestamp is one, or not asked for.
        """
        if self._want_keys or self._want_values or self._want_headers:
            return False
        if tl_i32(batch + LAST_OFFSET_DELTA_AT) != count - 1 or tl_i64(batch) > INT64_MAX - count:
            return False
        if tl_i16(batch + ATTRIBUTES_AT) & TIMESTAMP_TYPE_MASK:
            return True
        return not self._want_timestamps and self._earliest == INT64_MIN and self._latest == INT64_MAX

    cdef int _by_header(self, const uint8_t *batch, int32_t count) noexcept nogil:
        """Adds the wanted ones of `count` records with offsets from the batch's base offset on; 0: no memory."""
        cdef int64_t at, first = tl_i64(batch), last = tl_i64(batch) + count - 1, time = 0
        cdef int32_t kind = 1 if tl_i16(batch + ATTRIBUTES_AT) & TIMESTAMP_TYPE_MASK else 0
        first, last = max(first, self._first), min(last, self._last)
        if first > last:
            return 1
        if not self._reserve(last - first + 1, 0):
            return 0
        if kind:
            time = microseconds(tl_i64(batch + MAX_TIMESTAMP_AT))
        for at in range(last - first + 1):
            (<int64_t *>self._offsets.start)[self.rows] = first + at
            (<int64_t *>self._timestamps.start)[self.rows] = time
            (<int32_t *>self._types.start)[self.rows] = kind
            self.rows += 1
        self._offsets.used = self._timestamps.used = 8 * self.rows
        self._types.used = 4 * self.rows
        return 1

    cdef int32_t _walk(self, const uint8_t *batch, const uint8_t *p, int64_t size, int32_t count) noexcept nogil:
        """−1: done; −2: no memory; else the record that is broken, and the columns are as they were."""
        cdef int64_t rows = self.rows, base = tl_i64(batch), base_time = tl_i64(batch + BASE_TIMESTAMP_AT)
        cdef int64_t append_time = tl_i64(batch + MAX_TIMESTAMP_AT), offset, time
        cdef int64_t key_bytes = self._keys.data.used, key_nulls = self._keys.nulls
        cdef int64_t value_bytes = self._values.data.used, value_nulls = self._values.nulls
        cdef int64_t names = self._names.rows, name_bytes = self._names.data.used
        cdef int64_t header_bytes = self._header_values.data.used, header_nulls = self._header_values.nulls
        cdef int32_t kind = 1 if tl_i16(batch + ATTRIBUTES_AT) & TIMESTAMP_TYPE_MASK else 0
        cdef int32_t index, i, length, key_length, value_length, headers, delta
        cdef int64_t time_delta
        cdef const uint8_t *stop = p + size
        cdef const uint8_t *end
        cdef const uint8_t *key
        cdef const uint8_t *value
        if not self._reserve(count, size):
            return -2
        for index in range(count):
            p = tl_varint(p, stop, &length)
            if p == NULL or length <= 0 or length > stop - p:
                break
            end = p + length
            p = tl_varlong(p + 1, end, &time_delta)
            if p == NULL:
                break
            p = tl_varint(p, end, &delta)
            if p == NULL:
                break
            p = tl_varint(p, end, &key_length)
            if p == NULL or key_length < -1 or key_length > end - p:
                break
            key = p
            if key_length > 0:
                p += key_length
            p = tl_varint(p, end, &value_length)
            if p == NULL or value_length < -1 or value_length > end - p:
                break
            value = p
            if value_length > 0:
                p += value_length
            p = tl_varint(p, end, &headers)
            if p == NULL or headers < 0 or headers > (end - p) // 2:
                break
            offset = tl_add(base, delta)
            time = append_time if kind else tl_add(base_time, time_delta)
            if offset < self._first or offset > self._last or time < self._earliest or time > self._latest:
                p = end
                continue
            if headers:
                if not self._want_headers:
                    p = end  # whoever does not want them does not check them
                else:
                    p = self._headers(p, end, headers)
            elif self._want_headers:
                self._end_list()
            if p != end:
                break
            (<int64_t *>self._offsets.start)[self.rows] = offset
            (<int64_t *>self._timestamps.start)[self.rows] = microseconds(time)
            (<int32_t *>self._types.start)[self.rows] = kind
            if self._want_keys:
                put_binary(&self._keys, key, key_length)
            if self._want_values:
                put_binary(&self._values, value, value_length)
            self.rows += 1
        else:
            if p == stop:
                self._offsets.used = self._timestamps.used = 8 * self.rows
                self._types.used = 4 * self.rows
                return -1
            index = count - 1
        # What the batch has added goes again.
        self.rows = rows
        self._offsets.used = self._timestamps.used = 8 * rows
        self._types.used = 4 * rows
        self._back(&self._keys, rows if self._want_keys else 0, key_bytes, key_nulls)
        self._back(&self._values, rows if self._want_values else 0, value_bytes, value_nulls)
        if self._want_headers:
            self._lists.used = 4 * (rows + 1)
            self._back(&self._names, names, name_bytes, 0)
            self._back(&self._header_values, names, header_bytes, header_nulls)
        return index

    cdef void _back(self, Binary *column, int64_t rows, int64_t size, int64_t nulls) noexcept nogil:
        cdef int64_t row
        if column.positions.used == 0:
            return
        for row in range(rows, column.rows):
            column.validity.start[row >> 3] &= <uint8_t>~(1 << (row & 7))
        column.rows = rows
        column.nulls = nulls
        column.data.used = size
        column.positions.used = 4 * (rows + 1)

    cdef inline void _end_list(self) noexcept nogil:
        (<int32_t *>(self._lists.start + self._lists.used))[0] = <int32_t>self._names.rows
        self._lists.used += 4

    cdef const uint8_t *_headers(self, const uint8_t *p, const uint8_t *end, int32_t count) noexcept nogil:
        """Position behind `count` headers at p; NULL when one is broken or there is no memory."""
        cdef int32_t i, length
        cdef const uint8_t *name
        if not reserve_binary(&self._names, count, end - p) or not reserve_binary(&self._header_values, count, end - p):
            return NULL
        for i in range(count):
            p = tl_varint(p, end, &length)
            if p == NULL or length < 0 or length > end - p:
                return NULL
            name = p
            p += length
            put_binary(&self._names, name, length)
            p = tl_varint(p, end, &length)
            if p == NULL or length < -1 or length > end - p:
                put_binary(&self._header_values, name, -1)  # both columns stay of one length
                return NULL
            put_binary(&self._header_values, p, length)
            if length > 0:
                p += length
        self._end_list()
        return p

    def add_record(
        self, int64_t offset, int64_t timestamp, int32_t timestamp_type, bytes key, bytes value, headers=()
    ):
        """Adds one record, if it is wanted: how those of formats 0 and 1 come. `timestamp` in ms; True when it was added."""
        cdef int64_t size = (len(key) if key is not None else 0) + (len(value) if value is not None else 0)
        cdef int64_t more = 0
        cdef bytes name
        cdef bytes content
        if offset < self._first or offset > self._last or timestamp < self._earliest or timestamp > self._latest:
            return False
        for name, content in headers:
            more += len(name) + (len(content) if content is not None else 0)
        if size + more + self.data_bytes > INT32_MAX:
            raise RecordTooLargeError(f"a record of {size + more} bytes, on {self.data_bytes}, for one column")
        if not self._reserve(1, size):
            raise MemoryError
        if self._want_headers:
            if not reserve_binary(&self._names, len(headers), more) or not reserve_binary(
                &self._header_values, len(headers), more
            ):
                raise MemoryError
            for name, content in headers:
                put_binary(&self._names, name, len(name))
                if content is None:
                    put_binary(&self._header_values, NULL, -1)
                else:
                    put_binary(&self._header_values, content, len(content))
            self._end_list()
        (<int64_t *>self._offsets.start)[self.rows] = offset
        (<int64_t *>self._timestamps.start)[self.rows] = microseconds(timestamp)
        (<int32_t *>self._types.start)[self.rows] = timestamp_type
        if self._want_keys:
            if key is None:
                put_binary(&self._keys, NULL, -1)
            else:
                put_binary(&self._keys, key, len(key))
        if self._want_values:
            if value is None:
                put_binary(&self._values, NULL, -1)
            else:
                put_binary(&self._values, value, len(value))
        self.rows += 1
        self._offsets.used = self._timestamps.used = 8 * self.rows
        self._types.used = 4 * self.rows
        return True

    def take(self):
        """(rows, offsets, timestamps, timestamp types, keys, values, headers); the builder is empty afterwards.

        Keys and values are (nulls, validity, positions, bytes) or None; headers None or (list positions, names, values), the
        names and values as keys are.
        """
        cdef int64_t rows = self.rows
        if not self._reserve(0, 0):
            raise MemoryError
        headers = None
        if self._want_headers:
            count = self._names.rows
            headers = (handed_over(&self._lists), count, take_binary(&self._names), take_binary(&self._header_values))
        taken = (
            rows,
            handed_over(&self._offsets),
            handed_over(&self._timestamps),
            handed_over(&self._types),
            take_binary(&self._keys) if self._want_keys else None,
            take_binary(&self._values) if self._want_values else None,
            headers,
        )
        self.rows = 0
        return taken
