# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Record batches of format 2 from columns in Apache Arrow's memory layout: the other way round of `_columns.pyx`.

A `BatchBuilder` has one open batch per partition. `add` spreads rows over them as Kafka's producer does: to the partition
that a row names, else by the murmur2 hash of its key, else (no key) to one partition until a batch of it is full, then to
another. A batch that is full is closed: compressed, stamped with producer id, epoch and sequence, sealed with its checksum.

    column            buffers
    keys, values      (validity bits or None, int32 positions, bytes, first row): any slice of a binary or string array
    headers           (validity bits or None, int32 positions of lists, first row, names, values), those two as keys are
    timestamps        (validity bits or None, int64 microseconds since 1970, first row)
    partitions        (validity bits or None, int32, first row)

Rules of this file: as of `_kernel.pyx`; positions come from a caller, so each is held against its buffer before bytes are
copied. One thread at a time may use a builder; the GIL is released while rows are written.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from .compression import compress
from .exceptions import RecordTooLargeError

include "_records.pxi"

tl_crc32c_start()

cdef enum:
    # A record's length, two deltas, key and value length and header count, each at its longest, and the attributes.
    RECORD_MARGIN = 48
    HEADER_MARGIN = 10


cdef struct View:
    const uint8_t *validity
    int64_t validity_size
    const int32_t *positions
    const uint8_t *data
    int64_t data_size
    int64_t first
    int64_t rows  # that the positions have


cdef struct OpenBatch:
    uint8_t *start
    int64_t used
    int64_t capacity
    int32_t count
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t sequence


cdef inline uint32_t murmur2_of(const uint8_t *p, int64_t size) noexcept nogil:
    """Kafka's: seed 9747b28c, words little-endian."""
    cdef uint32_t h = <uint32_t>0x9747B28C ^ <uint32_t>size, k
    cdef int64_t words = size // 4, i
    for i in range(words):
        memcpy(&k, p + 4 * i, 4)
        k *= <uint32_t>0x5BD1E995
        k ^= k >> 24
        k *= <uint32_t>0x5BD1E995
        h *= <uint32_t>0x5BD1E995
        h ^= k
    p += 4 * words
    size &= 3
    if size == 3:
        h ^= <uint32_t>p[2] << 16
    if size >= 2:
        h ^= <uint32_t>p[1] << 8
    if size >= 1:
        h ^= p[0]
        h *= <uint32_t>0x5BD1E995
    h ^= h >> 13
    h *= <uint32_t>0x5BD1E995
    h ^= h >> 15
    return h


def murmur2(bytes data):
    """Kafka's 32-bit hash of a key, unsigned; any thread. Little-endian machines only, as Arrow's buffers are."""
    return murmur2_of(data, len(data))


def first_elsewhere(int64_t rows, keys, int32_t partition, int32_t partitions):
    """The first row whose key Kafka's default partitioner puts into another of the `partitions`; −1: none.

    `keys` is a column as `ColumnBuilder.take` gives it; rows without a key may be anywhere.
    """
    cdef Py_buffer validity, positions, data
    cdef int64_t row, found = -1
    cdef const int32_t *at
    cdef const uint8_t *bits
    _, validity_block, positions_block, data_block = keys
    if partitions < 1:
        raise ValueError(f"{partitions} partitions")
    PyObject_GetBuffer(validity_block, &validity, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(positions_block, &positions, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(data_block, &data, PyBUF_SIMPLE)
            try:
                if rows < 0 or validity.len * 8 < rows or positions.len < 4 * (rows + 1):
                    raise ValueError("a buffer is too small")
                at, bits = <const int32_t *>positions.buf, <const uint8_t *>validity.buf
                with nogil:
                    for row in range(rows):
                        if not bits[row >> 3] >> (row & 7) & 1:
                            continue
                        if at[row] < 0 or at[row] > at[row + 1] or at[row + 1] > data.len:
                            found = -2
                            break
                        if (
                            murmur2_of(<const uint8_t *>data.buf + at[row], at[row + 1] - at[row]) & <uint32_t>0x7FFFFFFF
                        ) % <uint32_t>partitions != <uint32_t>partition:
                            found = row
                            break
            finally:
                PyBuffer_Release(&data)
        finally:
            PyBuffer_Release(&positions)
    finally:
        PyBuffer_Release(&validity)
    if found == -2:
        raise ValueError("a position lies outside of the keys' bytes")
    return found


cdef inline uint64_t mixed(uint64_t value) noexcept nogil:
    """The end of splitmix64: any bit of `value` moves about half of the result's."""
    value = (value ^ (value >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    value = (value ^ (value >> 27)) * <uint64_t>0x94D049BB133111EB
    return value ^ (value >> 31)


cdef inline bint is_valid(const View *view, int64_t row) noexcept nogil:
    row += view.first
    return view.validity == NULL or (view.validity[row >> 3] >> (row & 7)) & 1


cdef inline int64_t size_at(const View *view, int64_t row) noexcept nogil:
    """Bytes of a row; −1: null; −2: its positions are not within the data."""
    cdef int64_t start, end
    if not is_valid(view, row):
        return -1
    row += view.first
    start = view.positions[row]
    end = view.positions[row + 1]
    if start < 0 or end < start or end > view.data_size:
        return -2
    return end - start


cdef class _Buffers:
    """Holds on to the buffers of one call."""

    cdef list _taken

    def __cinit__(self):
        self._taken = []

    cdef _Held take(self, source):
        cdef _Held held = _Held.__new__(_Held)
        PyObject_GetBuffer(source, &held.view, PyBUF_SIMPLE)
        held.taken = True
        self._taken.append(held)
        return held


cdef class _Held:
    cdef Py_buffer view
    cdef bint taken

    def __dealloc__(self):
        if self.taken:
            PyBuffer_Release(&self.view)


cdef int look_at(_Buffers buffers, column, int64_t rows, View *view, int width) except -1:
    """Fills in the view of a column that has `rows` rows from its first on. `width` of its items; 0: positions and bytes."""
    cdef _Held held
    validity, positions, data, first = column if not width else (column[0], None, column[1], column[2])
    memset(view, 0, sizeof(View))
    view.first = first
    view.rows = rows
    if first < 0 or rows < 0:
        raise ValueError(f"a column from row {first} on, of {rows}")
    if validity is not None:
        held = buffers.take(validity)
        view.validity = <const uint8_t *>held.view.buf
        if held.view.len * 8 < view.first + rows:
            raise ValueError(f"{held.view.len} bytes of validity for {view.first + rows} rows")
    held = buffers.take(data)
    view.data = <const uint8_t *>held.view.buf
    view.data_size = held.view.len
    if width:
        if held.view.len < (view.first + rows) * width:
            raise ValueError(f"{held.view.len} bytes for {view.first + rows} rows of {width}")
        return 0
    held = buffers.take(positions)
    view.positions = <const int32_t *>held.view.buf
    if held.view.len < (view.first + rows + 1) * 4 and rows:
        raise ValueError(f"{held.view.len} bytes of positions for {view.first + rows} rows")
    return 0


cdef class BatchBuilder:
    """Batches of one topic.

    Attributes:
        rows: taken so far.
        fingerprint: of those rows, whatever their order and partition: key, value, headers and what the rows name, 64 bits.
            Not of timestamps that the builder sets itself.
    """

    cdef OpenBatch *_open
    cdef readonly int32_t partitions
    cdef readonly int64_t rows
    cdef readonly uint64_t fingerprint
    cdef int64_t _batch_bytes
    cdef int64_t _max_record
    cdef int _codec
    cdef object _level
    cdef int64_t _producer_id
    cdef int16_t _epoch
    cdef bint _transactional
    cdef object _choose
    cdef int32_t _sticky
    cdef list _closed

    def __cinit__(self, int32_t partitions, *args, **options):
        if partitions < 1:
            raise ValueError(f"{partitions} partitions")
        self._open = <OpenBatch *>calloc(partitions, sizeof(OpenBatch))
        if self._open == NULL:
            raise MemoryError
        self.partitions = partitions

    def __init__(
        self, int32_t partitions, choose, *, int64_t batch_bytes=512 * 1024, int64_t max_record=1048576 - 128, int codec=0,
        level=None, int64_t producer_id=-1, int16_t epoch=-1, bint transactional=False,
    ):
        """`choose()` gives the next partition for rows without a key. `batch_bytes`: a batch is closed at so many, before
        compression; `max_record`: no record may be larger. The rest: of every batch.
        """
        self._choose = choose
        self._sticky = -1
        self._batch_bytes = batch_bytes
        self._max_record = max_record
        self._codec = codec
        self._level = level
        self._producer_id = producer_id
        self._epoch = epoch
        self._transactional = transactional
        self._closed = []

    def __dealloc__(self):
        cdef int32_t i
        if self._open != NULL:
            for i in range(self.partitions):
                free(self._open[i].start)
            free(self._open)

    @property
    def open_bytes(self):
        """Of rows in batches that are not closed."""
        cdef int64_t total = 0
        cdef int32_t i
        for i in range(self.partitions):
            total += self._open[i].used
        return total

    def add(self, int64_t rows, values, *, keys=None, headers=None, timestamps=None, partitions=None, int64_t now):
        """Adds rows; columns as above, None for one that is not there. `now`: ms, of rows without a timestamp.

        Raises:
            RecordTooLargeError: a row is beyond `max_record`.
            ValueError: a row names a partition that there is not, or a column's buffers are not its rows'.
        """
        cdef _Buffers buffers = _Buffers()
        cdef View views[7]
        cdef int64_t row = 0
        cdef int32_t full = -1
        cdef int32_t fault
        cdef bint has_keys = keys is not None, has_headers = headers is not None
        cdef bint has_times = timestamps is not None, has_partitions = partitions is not None
        cdef int64_t names, first
        cdef const int32_t *lists
        memset(views, 0, sizeof(views))
        look_at(buffers, values, rows, &views[0], 0)
        if has_keys:
            look_at(buffers, keys, rows, &views[1], 0)
        if has_headers:
            validity, positions, first_list, header_names, header_values = headers
            # The lists' positions are int32 like those of bytes: what they point at are rows of the two columns inside.
            look_at(buffers, (validity, positions, b"", first_list), rows, &views[2], 0)
            names = 0
            if rows:
                lists = views[2].positions + views[2].first
                names = lists[rows]
            look_at(buffers, header_names, names, &views[3], 0)
            look_at(buffers, header_values, names, &views[4], 0)
            views[2].data_size = names
        if has_times:
            look_at(buffers, timestamps, rows, &views[5], 8)
        if has_partitions:
            look_at(buffers, partitions, rows, &views[6], 4)
        if self._sticky < 0:
            self._choose_sticky()
        while row < rows:
            with nogil:
                fault = self._write(
                    views, has_keys, has_headers, has_times, has_partitions, now, rows, &row, &full
                )
            if fault == 1:
                raise MemoryError
            if fault == 2:
                raise ValueError(f"row {row}: its positions are not within its column's bytes")
            if fault == 3:
                raise RecordTooLargeError(f"row {row} makes a record beyond the {self._max_record} bytes of max.request.size")
            if fault == 4:
                wanted = (<const int32_t *>views[6].data)[views[6].first + row]
                raise ValueError(f"row {row} names partition {wanted}; the topic has 0 to {self.partitions - 1}")
            if full >= 0:
                self._close(full)
                if full == self._sticky:
                    self._choose_sticky()
                full = -1

    cdef int _choose_sticky(self) except -1:
        cdef int32_t chosen = self._choose()
        if not 0 <= chosen < self.partitions:
            raise ValueError(f"partition {chosen} was chosen; there are 0 to {self.partitions - 1}")
        self._sticky = chosen
        return 0

    cdef int32_t _write(
        self, const View *views, bint has_keys, bint has_headers, bint has_times, bint has_partitions, int64_t now,
        int64_t rows, int64_t *at, int32_t *full,
    ) noexcept nogil:
        """From row `at` on, until all are written or partition `full` is. 0, or what is wrong with row `at`."""
        cdef const View *values = &views[0]
        cdef const View *keys = &views[1]
        cdef const View *lists = &views[2]
        cdef const View *names = &views[3]
        cdef const View *contents = &views[4]
        cdef const View *times = &views[5]
        cdef const View *wanted = &views[6]
        cdef int64_t row, time, key_size, value_size, header_first, header_end, header, size, name_size, content_size
        cdef int64_t body, micros
        cdef int32_t partition
        cdef const uint8_t *key
        cdef const uint8_t *value
        cdef OpenBatch *batch
        cdef uint8_t *p
        cdef uint32_t crc
        cdef uint64_t identity
        row = at[0]
        while row < rows:
            at[0] = row
            value_size = size_at(values, row)
            key_size = size_at(keys, row) if has_keys else -1
            if value_size == -2 or key_size == -2:
                return 2
            value = values.data + values.positions[values.first + row] if value_size > 0 else NULL
            key = keys.data + keys.positions[keys.first + row] if key_size > 0 else NULL
            header_first = header_end = 0
            size = RECORD_MARGIN + (key_size if key_size > 0 else 0) + (value_size if value_size > 0 else 0)
            if has_headers and is_valid(lists, row):
                header_first = lists.positions[lists.first + row]
                header_end = lists.positions[lists.first + row + 1]
                if header_first < 0 or header_end < header_first or header_end > lists.data_size:
                    return 2
                for header in range(header_first, header_end):
                    name_size = size_at(names, header)
                    content_size = size_at(contents, header)
                    if name_size < 0 or content_size == -2:
                        return 2
                    size += HEADER_MARGIN + name_size + (content_size if content_size > 0 else 0)
            if size - RECORD_MARGIN > self._max_record:
                return 3
            time = now
            if has_times and is_valid(times, row):
                micros = (<const int64_t *>times.data)[times.first + row]
                # Rounded down, before 1970 too: C's division rounds towards zero.
                time = micros // 1000 - (1 if micros < 0 and micros % 1000 else 0)
            if has_partitions and is_valid(wanted, row):
                partition = (<const int32_t *>wanted.data)[wanted.first + row]
                if partition < 0 or partition >= self.partitions:
                    return 4
                identity = <uint64_t>partition + 1
            else:
                identity = 0
                if key_size >= 0:
                    partition = <int32_t>((murmur2_of(key, key_size) & <uint32_t>0x7FFFFFFF) % <uint32_t>self.partitions)
                else:
                    partition = self._sticky
            batch = &self._open[partition]
            if batch.count and batch.used + size > self._batch_bytes:
                full[0] = partition
                return 0
            if batch.used + size > batch.capacity and not grow(batch, size):
                return 1
            if not batch.count:
                batch.base_timestamp = time
                batch.max_timestamp = -1
            if time > batch.max_timestamp:
                batch.max_timestamp = time
            # The length is known when the rest is there: it is written behind the room that the longest would take.
            p = batch.start + batch.used + 5
            p[0] = 0
            p = tl_put_varlong(p + 1, <int64_t>(<uint64_t>time - <uint64_t>batch.base_timestamp))
            p = tl_put_varlong(p, batch.count)
            crc = tl_crc32c(<uint32_t>key_size, key, key_size if key_size > 0 else 0)
            p = put(p, key, key_size)
            crc = tl_crc32c(crc ^ <uint32_t>value_size, value, value_size if value_size > 0 else 0)
            p = put(p, value, value_size)
            p = tl_put_varlong(p, header_end - header_first)
            for header in range(header_first, header_end):
                name_size = size_at(names, header)
                key = names.data + names.positions[names.first + header]
                crc = tl_crc32c(crc ^ <uint32_t>name_size, key, name_size)
                p = put(p, key, name_size)
                content_size = size_at(contents, header)
                key = contents.data + contents.positions[contents.first + header] if content_size > 0 else NULL
                crc = tl_crc32c(crc ^ <uint32_t>content_size, key, content_size if content_size > 0 else 0)
                p = put(p, key, content_size)
            if has_times and is_valid(times, row):
                identity ^= mixed(<uint64_t>time + 1) << 32
            self.fingerprint += mixed((<uint64_t>crc << 32 | crc) + mixed(identity + <uint64_t>0x9E3779B97F4A7C15))
            body = p - (batch.start + batch.used + 5)
            p = tl_put_varlong(batch.start + batch.used, body)
            if p != batch.start + batch.used + 5:
                move(p, batch.start + batch.used + 5, body)
            batch.used = p + body - batch.start
            batch.count += 1
            self.rows += 1
            row += 1
            at[0] = row
        return 0

    cdef int _close(self, int32_t partition) except -1:
        """Seals the partition's open batch; does nothing when there is none."""
        cdef OpenBatch *batch = &self._open[partition]
        cdef uint8_t *p
        cdef int64_t size
        cdef uint8_t[::1] view
        if not batch.count:
            return 0
        payload = <bytes>(<char *>batch.start)[: batch.used]
        if self._codec:
            payload = compress(self._codec, payload, self._level)
        size = RECORD_BATCH_OVERHEAD + len(payload)
        sealed = bytearray(size)
        sealed[RECORD_BATCH_OVERHEAD:] = payload
        view = sealed
        p = &view[0]
        tl_put64(p, 0)
        tl_put32(p + LENGTH_AT, <uint32_t>(size - LOG_OVERHEAD))
        tl_put32(p + PARTITION_LEADER_EPOCH_AT, <uint32_t>-1)
        p[MAGIC_AT] = 2
        tl_put16(p + ATTRIBUTES_AT, <uint32_t>(self._codec | (TRANSACTIONAL_MASK if self._transactional else 0)))
        tl_put32(p + LAST_OFFSET_DELTA_AT, <uint32_t>(batch.count - 1))
        tl_put64(p + BASE_TIMESTAMP_AT, <uint64_t>batch.base_timestamp)
        tl_put64(p + MAX_TIMESTAMP_AT, <uint64_t>batch.max_timestamp)
        tl_put64(p + PRODUCER_ID_AT, <uint64_t>self._producer_id)
        tl_put16(p + PRODUCER_EPOCH_AT, <uint32_t>self._epoch)
        tl_put32(p + BASE_SEQUENCE_AT, <uint32_t>(batch.sequence if self._producer_id >= 0 else -1))
        tl_put32(p + RECORD_COUNT_AT, <uint32_t>batch.count)
        tl_put32(p + CRC_AT, tl_crc32c(0, p + ATTRIBUTES_AT, size - ATTRIBUTES_AT))
        # Sequence numbers wrap from 2³¹ − 1 to 0.
        batch.sequence = (batch.sequence + batch.count) & 0x7FFFFFFF
        self._closed.append((partition, batch.count, sealed))
        batch.used = 0
        batch.count = 0
        return 0

    def take(self, bint everything=False):
        """Closed batches so far as (partition, records, bytearray), in order per partition; with `everything` the open
        ones are closed first.
        """
        cdef int32_t i
        if everything:
            for i in range(self.partitions):
                self._close(i)
        taken = self._closed
        self._closed = []
        return taken


cdef int grow(OpenBatch *batch, int64_t more) noexcept nogil:
    cdef int64_t needed = batch.used + more
    cdef int64_t capacity = max(needed, batch.capacity * 2, 4096)
    cdef void *moved = realloc(batch.start, capacity)
    if moved == NULL:
        return 0
    batch.start = <uint8_t *>moved
    batch.capacity = capacity
    return 1


cdef extern from "string.h" nogil:
    void *memmove(void *to, const void *source, size_t size)


cdef inline void move(uint8_t *to, const uint8_t *source, int64_t size) noexcept nogil:
    memmove(to, source, size)


cdef inline uint8_t *put(uint8_t *p, const uint8_t *data, int64_t size) noexcept nogil:
    p = tl_put_varlong(p, size)
    if size > 0:
        memcpy(p, data, size)
        p += size
    return p
