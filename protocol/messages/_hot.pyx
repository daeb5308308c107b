# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""Compiled parsing and writing of the two requests that carry the load: Produce 0–13 and Fetch 0–18.

Same bytes as the declared schemas in `produce.py` and `fetch.py`, which are the oracle in the tests. Nothing here
copies records: a Produce request is parsed into positions within the buffer that it was received in, and a Fetch
response is written as pieces of bytes between which the caller's file slices stand.

Every read is checked against the end of the request; counts are checked against the bytes that are left before
anything is allocated, and add up to `MAX_ELEMENTS` at most, those of tagged fields to `MAX_TAGS`. What is malformed raises
ValueError with what and where. Whoever wants to read few in one go says `most`: ManyElements is raised where a request has more
elements in its arrays, before those are read. Nothing else is raised.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_AS_STRING
from cpython.buffer cimport PyBUF_SIMPLE, PyObject_GetBuffer, PyBuffer_Release
from cpython.mem cimport PyMem_Malloc, PyMem_Realloc, PyMem_Free
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from ..errors import ManyElements
from ..primitives import MAX_ELEMENTS as _MAX_ELEMENTS
from ..primitives import MAX_TAGS as _MAX_TAGS

cdef int64_t MAX_ELEMENTS = _MAX_ELEMENTS
cdef int64_t MAX_TAGS = _MAX_TAGS

cdef extern from *:
    """
    typedef uint16_t any16 __attribute__((aligned(1), may_alias)); /* an attribute within a cast would not count */
    typedef uint32_t any32 __attribute__((aligned(1), may_alias));
    typedef uint64_t any64 __attribute__((aligned(1), may_alias));
    #define be16(p) ((int16_t)__builtin_bswap16(*(const any16 *)(p)))
    #define be32(p) ((int32_t)__builtin_bswap32(*(const any32 *)(p)))
    #define be64(p) ((int64_t)__builtin_bswap64(*(const any64 *)(p)))
    #define put16(p, v) (*(any16 *)(p) = __builtin_bswap16((uint16_t)(v)))
    #define put32(p, v) (*(any32 *)(p) = __builtin_bswap32((uint32_t)(v)))
    #define put64(p, v) (*(any64 *)(p) = __builtin_bswap64((uint64_t)(v)))
    """
    int16_t be16(const unsigned char *p) nogil
    int32_t be32(const unsigned char *p) nogil
    int64_t be64(const unsigned char *p) nogil
    void put16(unsigned char *p, int16_t v) nogil
    void put32(unsigned char *p, int32_t v) nogil
    void put64(unsigned char *p, int64_t v) nogil


cdef class _Reader:
    """A cursor over one request; `begin` is where positions count from."""

    cdef Py_buffer buffer
    cdef const unsigned char *base
    cdef const unsigned char *at
    cdef const unsigned char *end
    cdef bint flexible
    cdef bint open
    cdef int64_t elements
    cdef int64_t most
    cdef int64_t tags

    def __cinit__(self):
        self.open = False
        self.elements = self.tags = 0
        self.most = MAX_ELEMENTS

    cdef int start(self, object data, Py_ssize_t first, Py_ssize_t last) except -1:
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.open = True
        if first < 0 or last < first or last > self.buffer.len:
            raise ValueError("the request lies outside its buffer")
        self.base = <const unsigned char *> self.buffer.buf
        self.at = self.base + first
        self.end = self.base + last
        return 0

    cdef void finish(self) noexcept:
        if self.open:
            self.open = False
            PyBuffer_Release(&self.buffer)

    def __dealloc__(self):
        self.finish()

    cdef int fail(self, str what) except -1:
        raise ValueError(f"{what} at byte {self.at - self.base}")

    cdef inline int need(self, Py_ssize_t count) except -1:
        if self.end - self.at < count:
            self.fail("the request ends in mid-field")
        return 0

    cdef inline int int8(self) except? -32768:
        self.need(1)
        cdef int value = <int8_t> self.at[0]
        self.at += 1
        return value

    cdef inline int int16(self) except? -32768:
        self.need(2)
        cdef int value = be16(self.at)
        self.at += 2
        return value

    cdef inline int64_t int32(self) except? -1000000000000:
        self.need(4)
        cdef int64_t value = be32(self.at)
        self.at += 4
        return value

    cdef inline int64_t int64(self) except? -7777777777777777:
        self.need(8)
        cdef int64_t value = be64(self.at)
        self.at += 8
        return value

    cdef inline int64_t uvarint(self) except -1:
        cdef uint64_t value = 0
        cdef int shift = 0
        cdef unsigned char byte
        while True:
            self.need(1)
            byte = self.at[0]
            self.at += 1
            value |= (<uint64_t> (byte & 0x7F)) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                self.fail("a varint is longer than five bytes")
        if value > 0xFFFFFFFF:
            self.fail("a varint is above 32 bits")
        return <int64_t> value

    cdef inline int64_t length(self, bint short_string) except -2:
        """Length of a string or of bytes; −1 for null."""
        cdef int64_t value
        if self.flexible:
            value = self.uvarint() - 1
        elif short_string:
            value = self.int16()
        else:
            value = self.int32()
        if value < -1:
            self.fail("a negative length")
        if value > self.end - self.at:
            self.fail("a length beyond the request")
        return value

    cdef inline object string(self, bint nullable):
        cdef int64_t size = self.length(True)
        if size < 0:
            if not nullable:
                self.fail("a null string where there must be one")
            return None
        try:
            text = PyUnicode_DecodeUTF8(<const char *> self.at, size, NULL)
        except UnicodeDecodeError:
            self.fail("a string that is not UTF-8")
        self.at += size
        return text

    cdef inline int64_t count(self, int64_t least) except -2:
        """Number of elements; each takes at least `least` bytes. None of these arrays may be null."""
        cdef int64_t value
        if self.flexible:
            value = self.uvarint() - 1
        else:
            value = self.int32()
        if value < 0:
            self.fail("a null array where there must be one")
        if value * least > self.end - self.at:
            self.fail("more elements than the request has bytes for")
        if value > 0:
            self.elements += value
            if self.elements > self.most:
                if self.elements > MAX_ELEMENTS:
                    self.fail("more elements than a request may have in all its arrays")
                raise ManyElements(f"more than {self.most} elements")
        return value

    cdef inline int skip_tags(self) except -1:
        cdef int64_t tags, size
        if not self.flexible:
            return 0
        tags = self.uvarint()
        self.tags += tags
        if self.tags > MAX_TAGS:
            self.fail("more tagged fields than a request may have")
        while tags > 0:
            tags -= 1
            self.uvarint()
            size = self.uvarint()
            self.need(size)
            self.at += size
        return 0

    cdef object client_id(self):
        """The header's nullable string, which stays the old form in flexible headers (KIP-482)."""
        cdef bint flexible = self.flexible
        self.flexible = False
        text = self.string(True)
        self.flexible = flexible
        self.skip_tags()
        self.tags = 0  # as the declared reader, which reads header and body apart
        return text


def parse_produce(object buffer, Py_ssize_t start, Py_ssize_t end, int version, int64_t most=MAX_ELEMENTS):
    """Parses a Produce request, header included, from `buffer[start:end]`.

    Returns (client id, transactional id, acks, timeout in ms, topics): topics is a list of (name, from version 13 on the
    16-byte id, partitions), partitions a list of (index, start, end) with the place of the record set in `buffer`;
    (−1, −1) where it is null.
    """
    cdef _Reader r = _Reader.__new__(_Reader)
    cdef int64_t topic_count, partition_count, size, first
    r.start(buffer, start, end)
    try:
        r.most = most
        r.flexible = version >= 9
        r.need(8)
        r.at += 8
        client_id = r.client_id()
        transactional_id = r.string(True) if version >= 3 else None
        acks = r.int16()
        timeout = r.int32()
        topics = []
        topic_count = r.count(16 if version >= 13 else 3)
        while topic_count > 0:
            topic_count -= 1
            if version >= 13:
                r.need(16)
                name = PyBytes_FromStringAndSize(<const char *> r.at, 16)
                r.at += 16
            else:
                name = r.string(False)
            partitions = []
            partition_count = r.count(5)
            while partition_count > 0:
                partition_count -= 1
                index = r.int32()
                size = r.length(False)
                if size < 0:
                    partitions.append((index, -1, -1))
                else:
                    first = r.at - r.base
                    partitions.append((index, first, first + size))
                    r.at += size
                r.skip_tags()
            r.skip_tags()
            topics.append((name, partitions))
        r.skip_tags()
        return client_id, transactional_id, acks, timeout, topics
    finally:
        r.finish()


def parse_fetch(object buffer, Py_ssize_t start, Py_ssize_t end, int version, int64_t most=MAX_ELEMENTS):
    """Parses a Fetch request, header included, from `buffer[start:end]`.

    Returns (client id, max wait in ms, min bytes, max bytes, isolation level, session id, session epoch, topics,
    forgotten). topics: list of (name or 16-byte id, partitions), partitions: list of (index, current leader epoch,
    fetch offset, last fetched epoch, log start offset, partition max bytes). forgotten: list of (name or id, indexes).
    """
    cdef _Reader r = _Reader.__new__(_Reader)
    cdef int64_t topic_count, partition_count, value
    r.start(buffer, start, end)
    try:
        r.most = most
        r.flexible = version >= 12
        r.need(8)
        r.at += 8
        client_id = r.client_id()
        if version <= 14:
            r.int32()  # replica id: no replica reads from us
        max_wait = r.int32()
        min_bytes = r.int32()
        max_bytes = r.int32() if version >= 3 else 0x7FFFFFFF
        isolation = r.int8() if version >= 4 else 0
        session_id, session_epoch = 0, -1
        if version >= 7:
            session_id = r.int32()
            session_epoch = r.int32()
        topics = []
        topic_count = r.count(16 if version >= 13 else 3)
        while topic_count > 0:
            topic_count -= 1
            if version >= 13:
                r.need(16)
                name = PyBytes_FromStringAndSize(<const char *> r.at, 16)
                r.at += 16
            else:
                name = r.string(False)
            partitions = []
            partition_count = r.count(16)
            while partition_count > 0:
                partition_count -= 1
                index = r.int32()
                epoch = r.int32() if version >= 9 else -1
                offset = r.int64()
                last_epoch = r.int32() if version >= 12 else -1
                log_start = r.int64() if version >= 5 else -1
                partition_max = r.int32()
                r.skip_tags()
                partitions.append((index, epoch, offset, last_epoch, log_start, partition_max))
            r.skip_tags()
            topics.append((name, partitions))
        forgotten = []
        if version >= 7:
            topic_count = r.count(16 if version >= 13 else 3)
            while topic_count > 0:
                topic_count -= 1
                if version >= 13:
                    r.need(16)
                    name = PyBytes_FromStringAndSize(<const char *> r.at, 16)
                    r.at += 16
                else:
                    name = r.string(False)
                partition_count = r.count(4)
                indexes = []
                while partition_count > 0:
                    partition_count -= 1
                    indexes.append(r.int32())
                r.skip_tags()
                forgotten.append((name, indexes))
        if version >= 11:
            r.string(True)  # rack id
        r.skip_tags()
        return (client_id, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch, topics, forgotten)
    finally:
        r.finish()


cdef class _Writer:
    """A growing buffer. `flexible` chooses compact lengths and tagged fields."""

    cdef unsigned char *data
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity
    cdef bint flexible

    def __cinit__(self):
        self.capacity = 512
        self.used = 0
        self.data = <unsigned char *> PyMem_Malloc(self.capacity)
        if self.data == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.data)

    cdef inline unsigned char *room(self, Py_ssize_t count) except NULL:
        cdef unsigned char *grown
        cdef unsigned char *at
        if self.used + count > self.capacity:
            self.capacity = 2 * (self.used + count)
            grown = <unsigned char *> PyMem_Realloc(self.data, self.capacity)
            if grown == NULL:
                raise MemoryError
            self.data = grown
        at = self.data + self.used
        self.used += count
        return at

    cdef inline int int8(self, int value) except -1:
        self.room(1)[0] = <unsigned char> value
        return 0

    cdef inline int int16(self, int value) except -1:
        put16(self.room(2), <int16_t> value)
        return 0

    cdef inline int int32(self, int64_t value) except -1:
        put32(self.room(4), <int32_t> value)
        return 0

    cdef inline int int64(self, int64_t value) except -1:
        put64(self.room(8), value)
        return 0

    cdef inline int uvarint(self, uint64_t value) except -1:
        while value >= 0x80:
            self.room(1)[0] = <unsigned char> (value | 0x80)
            value >>= 7
        self.room(1)[0] = <unsigned char> value
        return 0

    cdef inline int array(self, Py_ssize_t count) except -1:
        if self.flexible:
            return self.uvarint(count + 1)
        return self.int32(count)

    cdef inline int string(self, object text) except -1:
        cdef bytes raw
        cdef Py_ssize_t size
        if text is None:
            if self.flexible:
                return self.int8(0)
            return self.int16(-1)
        raw = (<str> text).encode()
        size = len(raw)
        if self.flexible:
            self.uvarint(size + 1)
        else:
            self.int16(<int> size)
        memcpy(self.room(size), PyBytes_AS_STRING(raw), size)
        return 0

    cdef inline int tags(self) except -1:
        if self.flexible:
            self.int8(0)
        return 0

    cdef inline bytes take(self):
        cdef bytes piece = PyBytes_FromStringAndSize(<char *> self.data, self.used)
        self.used = 0
        return piece


def write_produce_response(int version, int correlation_id, list topics, int throttle_ms=0):
    """The whole frame of a Produce response without record errors.

    topics: list of (name or 16-byte id, partitions), partitions: list of (index, error code, base offset, log append time in ms or
    −1, log start offset, error message or None).
    """
    cdef _Writer w = _Writer.__new__(_Writer)
    w.flexible = version >= 9
    w.room(4)
    w.int32(correlation_id)
    w.tags()
    w.array(len(topics))
    for name, partitions in topics:
        if version >= 13:
            memcpy(w.room(16), PyBytes_AS_STRING(<bytes?> name), 16)
        else:
            w.string(name)
        w.array(len(<list> partitions))
        for index, error, base_offset, append_time, log_start, message in <list> partitions:
            w.int32(index)
            w.int16(error)
            w.int64(base_offset)
            if version >= 2:
                w.int64(append_time)
            if version >= 5:
                w.int64(log_start)
            if version >= 8:
                w.array(0)
                w.string(message)
            w.tags()
        w.tags()
    if version >= 1:
        w.int32(throttle_ms)
    w.tags()
    put32(w.data, <int32_t> (w.used - 4))
    return w.take()


def write_fetch_response(
    int version, int correlation_id, int error_code, int session_id, list topics, int throttle_ms=0
):
    """The parts of a Fetch response frame: bytes, and between them the record slices that were passed in.

    topics: list of (name or 16-byte id, partitions), partitions: list of (index, error code, high watermark, last
    stable offset, log start offset, aborted transactions or None, records). aborted: list of (producer id, first
    offset). records: None for an empty set, bytes, or an object with a `count` of bytes that is put into the list.
    """
    cdef _Writer w = _Writer.__new__(_Writer)
    cdef int64_t total = 0, count
    cdef list parts = []
    cdef bytes piece
    w.flexible = version >= 12
    w.room(4)
    w.int32(correlation_id)
    w.tags()
    if version >= 1:
        w.int32(throttle_ms)
    if version >= 7:
        w.int16(error_code)
        w.int32(session_id)
    w.array(len(topics))
    for name, partitions in topics:
        if version >= 13:
            memcpy(w.room(16), PyBytes_AS_STRING(<bytes?> name), 16)
        else:
            w.string(name)
        w.array(len(<list> partitions))
        for index, error, high_watermark, stable, log_start, aborted, records in <list> partitions:
            w.int32(index)
            w.int16(error)
            w.int64(high_watermark)
            if version >= 4:
                w.int64(stable)
            if version >= 5:
                w.int64(log_start)
            if version >= 4:
                if aborted is None:
                    w.array(-1)
                else:
                    w.array(len(aborted))
                    for producer_id, first_offset in aborted:
                        w.int64(producer_id)
                        w.int64(first_offset)
                        w.tags()
            if version >= 11:
                w.int32(-1)  # preferred read replica: none
            if records is None:
                count = 0
            elif type(records) is bytes:
                count = len(<bytes> records)
            else:
                count = records.count
            if w.flexible:
                w.uvarint(count + 1)
            else:
                w.int32(count)
            if count:
                piece = w.take()
                total += len(piece) + count
                parts.append(piece)
                parts.append(records)
            w.tags()
        w.tags()
    w.tags()
    if w.used:
        piece = w.take()
        total += len(piece)
        parts.append(piece)
    piece = <bytes> parts[0]
    # The first piece is ours alone until it is returned: its size field is filled in last.
    put32(<unsigned char *> PyBytes_AS_STRING(piece), <int32_t> (total - 4))
    return parts
