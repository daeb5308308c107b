# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What was last said of each key: a hash table from keys to numbers, fed with whole columns.

    slot    0           8           16      24
            +-----------+-----------+-------+
            | hash low  | hash high | value |    value −1: free; probes go on to the next slot
            +-----------+-----------+-------+

Keys themselves are not kept: the hash is SipHash-2-4 with 128 bits and a secret key, as the cleaner's, so that two keys of one
hash do not come up by chance, nor by intent. At most three of five slots are taken; the table doubles when they are. One
thread at a time; the GIL is released over a column.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc


cdef extern from "../../cleaner/kernel/_offset_map.h":
    ctypedef struct tl_hash:
        uint64_t low
        uint64_t high
    uint64_t tl_little64(const uint8_t *p) noexcept nogil
    tl_hash tl_siphash(uint64_t k0, uint64_t k1, const uint8_t *p, size_t n) noexcept nogil

cdef extern from *:
    """
    #define TL_PREFETCH(p) __builtin_prefetch((p), 1)
    """
    void TL_PREFETCH(void *p) noexcept nogil


cdef enum:
    FIRST_SLOTS = 1024
    # Slots that are on their way to the cache while keys before them are looked up.
    AHEAD = 32


cdef struct Slot:
    uint64_t low
    uint64_t high
    int64_t value


cdef class KeyTable:
    """One partition's keys. `secret`: 16 random bytes."""

    cdef Slot *_slots
    cdef uint64_t _mask
    cdef readonly int64_t keys
    cdef uint64_t _k0
    cdef uint64_t _k1

    def __cinit__(self, bytes secret):
        cdef const uint8_t *k = secret
        if len(secret) != 16:
            raise ValueError("a secret has 16 bytes")
        self._k0, self._k1 = tl_little64(k), tl_little64(k + 8)
        self._slots = new_slots(FIRST_SLOTS)
        if self._slots == NULL:
            raise MemoryError
        self._mask = FIRST_SLOTS - 1

    def __dealloc__(self):
        free(self._slots)

    @property
    def memory(self):
        """Bytes of the table."""
        return (self._mask + 1) * sizeof(Slot)

    def replace(self, int64_t rows, keys, values, previous):
        """Says values[i] ≥ 0 of each row's key; previous[i] is what was said of it before, −1 when nothing was.

        `keys` is a column as `ColumnBuilder.take` gives it; a row without a key says nothing, and gets −1. `values` and
        `previous` are buffers of `rows` int64. ValueError: a buffer is too small, or a value negative.
        """
        cdef Py_buffer validity, positions, data, said, before
        cdef int fault
        _, validity_block, positions_block, data_block = keys
        PyObject_GetBuffer(validity_block, &validity, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(positions_block, &positions, PyBUF_SIMPLE)
            try:
                PyObject_GetBuffer(data_block, &data, PyBUF_SIMPLE)
                try:
                    PyObject_GetBuffer(values, &said, PyBUF_SIMPLE)
                    try:
                        PyObject_GetBuffer(previous, &before, PyBUF_SIMPLE | PyBUF_WRITABLE)
                        try:
                            if (
                                rows < 0 or validity.len * 8 < rows or positions.len < 4 * (rows + 1)
                                or said.len < 8 * rows or before.len < 8 * rows
                            ):
                                raise ValueError("a buffer is too small")
                            with nogil:
                                fault = self._replace(
                                    rows, <const uint8_t *>validity.buf, <const int32_t *>positions.buf,
                                    <const uint8_t *>data.buf, data.len, <const int64_t *>said.buf, <int64_t *>before.buf,
                                )
                        finally:
                            PyBuffer_Release(&before)
                    finally:
                        PyBuffer_Release(&said)
                finally:
                    PyBuffer_Release(&data)
            finally:
                PyBuffer_Release(&positions)
        finally:
            PyBuffer_Release(&validity)
        if fault == 1:
            raise MemoryError
        if fault == 2:
            raise ValueError("a value is negative, or a position lies outside of the keys' bytes")

    def buckets(self, int64_t rows, keys, int64_t count, found):
        """found[i]: to which of `count` buckets row i's key belongs, −1 for a row without a key. Says nothing of any key.

        By other bits of the hash than those that choose slots. `found` is a buffer of `rows` int64. ValueError: a buffer is
        too small, or there are no buckets.
        """
        cdef Py_buffer validity, positions, data, into
        cdef int fault
        _, validity_block, positions_block, data_block = keys
        PyObject_GetBuffer(validity_block, &validity, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(positions_block, &positions, PyBUF_SIMPLE)
            try:
                PyObject_GetBuffer(data_block, &data, PyBUF_SIMPLE)
                try:
                    PyObject_GetBuffer(found, &into, PyBUF_SIMPLE | PyBUF_WRITABLE)
                    try:
                        if (
                            rows < 0 or count <= 0 or validity.len * 8 < rows or positions.len < 4 * (rows + 1)
                            or into.len < 8 * rows
                        ):
                            raise ValueError("a buffer is too small, or there are no buckets")
                        with nogil:
                            fault = self._buckets(
                                rows, <const uint8_t *>validity.buf, <const int32_t *>positions.buf,
                                <const uint8_t *>data.buf, data.len, count, <int64_t *>into.buf,
                            )
                    finally:
                        PyBuffer_Release(&into)
                finally:
                    PyBuffer_Release(&data)
            finally:
                PyBuffer_Release(&positions)
        finally:
            PyBuffer_Release(&validity)
        if fault:
            raise ValueError("a position lies outside of the keys' bytes")

    cdef int _buckets(
        self, int64_t rows, const uint8_t *validity, const int32_t *positions, const uint8_t *data, int64_t size,
        int64_t count, int64_t *found,
    ) noexcept nogil:
        """0; 2: an input is wrong."""
        cdef int64_t row
        cdef tl_hash hashed
        for row in range(rows):
            if not validity[row >> 3] >> (row & 7) & 1:
                found[row] = -1
                continue
            if positions[row] < 0 or positions[row] > positions[row + 1] or positions[row + 1] > size:
                return 2
            hashed = tl_siphash(self._k0, self._k1, data + positions[row], positions[row + 1] - positions[row])
            found[row] = <int64_t>(hashed.high % <uint64_t>count)
        return 0

    cdef int _replace(
        self, int64_t rows, const uint8_t *validity, const int32_t *positions, const uint8_t *data, int64_t size,
        const int64_t *values, int64_t *previous,
    ) noexcept nogil:
        """0; 1: no memory; 2: an input is wrong."""
        cdef tl_hash hashes[AHEAD]
        cdef int64_t first, i, count, row
        cdef Slot *slot
        cdef uint64_t at
        first = 0
        while first < rows:
            count = min(<int64_t>AHEAD, rows - first)
            while (self.keys + count) * 5 > <int64_t>(self._mask + 1) * 3:
                if not self._grow():
                    return 1
            for i in range(count):
                row = first + i
                if not validity[row >> 3] >> (row & 7) & 1:
                    continue
                if positions[row] < 0 or positions[row] > positions[row + 1] or positions[row + 1] > size:
                    return 2
                hashes[i] = tl_siphash(self._k0, self._k1, data + positions[row], positions[row + 1] - positions[row])
                TL_PREFETCH(self._slots + (hashes[i].low & self._mask))
            for i in range(count):
                row = first + i
                previous[row] = -1
                if not validity[row >> 3] >> (row & 7) & 1:
                    continue
                if values[row] < 0:
                    return 2
                at = hashes[i].low & self._mask
                while True:
                    slot = self._slots + at
                    if slot.value < 0:
                        slot.low, slot.high = hashes[i].low, hashes[i].high
                        self.keys += 1
                        break
                    if slot.low == hashes[i].low and slot.high == hashes[i].high:
                        previous[row] = slot.value
                        break
                    at = (at + 1) & self._mask
                slot.value = values[row]
            first += count
        return 0

    cdef int _grow(self) noexcept nogil:
        cdef uint64_t count = (self._mask + 1) * 2, i, at
        cdef Slot *fresh = new_slots(count)
        if fresh == NULL:
            return 0
        for i in range(self._mask + 1):
            if self._slots[i].value >= 0:
                at = self._slots[i].low & (count - 1)
                while fresh[at].value >= 0:
                    at = (at + 1) & (count - 1)
                fresh[at] = self._slots[i]
        free(self._slots)
        self._slots = fresh
        self._mask = count - 1
        return 1


cdef Slot *new_slots(uint64_t count) noexcept nogil:
    cdef Slot *slots = <Slot *>malloc(count * sizeof(Slot))
    cdef uint64_t i
    if slots != NULL:
        for i in range(count):
            slots[i].value = -1
    return slots
