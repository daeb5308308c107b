# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled half of the cleaner: the two loops over every record of a log that is cleaned. Bytes in, bytes out: no file,
no thread, no clock. The pure-Python twin of everything here, against which the tests hold it, is `reference`.

    pass 1   OffsetMap.build       batches of the dirty part → the last offset of each key
    pass 2   RecordFilter.filter   batches of the whole log → those that survive, re-encoded where records went
    both     Transactions          which producers' records were aborted, and which transactions still have records

The table itself is in `_offset_map.h` (ruler: `offset_map`), codecs without the GIL in `_codecs.h`, fields, varints and
checksums in `protocol/records/_records.h`; the layout of batches is described in `protocol.records.record_batch`.

What a surviving batch looks like. One that keeps all its records and needs no horizon is copied as it is. Otherwise the
header keeps base offset, last offset delta, leader epoch, producer fields, sequence and codec; count, length, max timestamp
(of the survivors; with append time as it was) and checksum are new; records are copied, not re-encoded, except where a
delete horizon is stamped: it takes the base timestamp's place (attribute bit 6, KIP-534), so every timestamp delta is
written anew. What must stay although it is empty is a header with count 0, no codec and no horizon.

Rules of this file: every read is bounds-checked before it happens, sums wrap as Kafka's do, nothing is allocated because a
batch says so. Checksums are looked at: a broken batch must not be sealed with a new one. An object may be used from any
thread, from one at a time; the GIL is released while batches are walked and taken back only for a codec that is not native.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

from ...protocol.records.compression import DEFAULT_MAX_BYTES, compress, decompress
from ...protocol.records.exceptions import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from .results import BuildStep, FilterCounts, FilterStep, Stop

include "../../protocol/records/_records.pxi"

cdef extern from "_offset_map.h":
    ctypedef struct tl_hash:
        uint64_t low
        uint64_t high
    ctypedef struct tl_entry:
        uint64_t low
        uint64_t high
        uint64_t place
    ctypedef struct tl_map:
        tl_entry *entries
        uint64_t slots
        uint64_t capacity
        uint64_t count
        uint64_t k0
        uint64_t k1
        uint64_t lookups
        uint64_t probes
        int64_t latest
    ctypedef struct tl_range:
        int64_t producer
        int64_t first
        int64_t last
    tl_hash tl_siphash(uint64_t k0, uint64_t k1, const uint8_t *p, size_t n) noexcept nogil
    void tl_siphash_start() noexcept nogil
    void tl_siphash_all(
        uint64_t k0, uint64_t k1, const uint8_t **keys, const int32_t *sizes, int64_t count, tl_hash *out
    ) noexcept nogil
    bint tl_has_lanes
    uint64_t tl_little64(const uint8_t *p) noexcept nogil
    void tl_prefetch(const tl_map *table, tl_hash hash) noexcept nogil
    bint tl_put(tl_map *table, tl_hash hash, int64_t offset) noexcept nogil
    int64_t tl_get(tl_map *table, tl_hash hash) noexcept nogil
    tl_entry *tl_map_memory(size_t size) noexcept nogil
    void tl_map_free(tl_entry *entries, size_t size) noexcept nogil
    void tl_map_clear(tl_entry *entries, size_t size, size_t used, bint give_back) noexcept nogil
    int64_t tl_range_of(const tl_range *ranges, int64_t count, int64_t producer, int64_t offset) noexcept nogil
    int64_t tl_upper(const tl_range *ranges, int64_t count, int64_t producer, int64_t first) noexcept nogil
    int64_t tl_lower(const int64_t *values, int64_t count, int64_t value) noexcept nogil

cdef extern from "_codecs.h":
    ctypedef struct tl_bytes_buffer:
        uint8_t *data
        size_t size
        size_t room
    ctypedef struct tl_codecs:
        tl_bytes_buffer plain
        tl_bytes_buffer kept
    bint tl_codec_load(int codec, const char *path)
    bint tl_reserve(tl_bytes_buffer *buffer, size_t room) noexcept nogil
    void tl_codecs_trim(tl_codecs *c, size_t keep) noexcept nogil
    void tl_codecs_free(tl_codecs *c) noexcept nogil
    bint tl_decode(tl_codecs *c, int codec, const uint8_t *data, size_t size, size_t limit) noexcept nogil
    size_t tl_encode_bound(tl_codecs *c, int codec, size_t size) noexcept nogil
    size_t tl_encode(tl_codecs *c, int codec, const uint8_t *data, size_t size, uint8_t *out, size_t room) noexcept nogil
    int[8] tl_native

cdef enum:
    ABORT = 0
    COMMIT = 1
    OTHER_MARKER = -1
    # Length, attributes, two deltas, two null fields, no headers: no record takes less.
    MIN_RECORD_SIZE = 7
    # A delta that is written anew takes at most 10 bytes where it took at least 1, and may lengthen the length's varint.
    STAMP_GROWTH = 14
    ENTRY_SIZE = 24
    # Records whose slots are fetched into the cache while the next ones are hashed. Fewer leave the memory's latency
    # uncovered, many more outrun what a core can have under way.
    BLOCK = 32
    # Buffers that one batch made larger than this are given back at the end of the call.
    SCRATCH_KEPT = 4 * 1024 * 1024

tl_crc32c_start()
tl_siphash_start()


cdef frozenset load_codecs():
    """Finds the C libraries of the codec packages; once a process, when the first map or filter is made."""
    import zlib
    from importlib.util import find_spec

    import lz4.frame

    cdef set found = set()
    # zstandard's C backend hides the library in it, the one for PyPy, which comes along in its wheels, does not.
    zstd = find_spec("zstandard._cffi")
    paths = {
        1: getattr(zlib, "__file__", None),  # none where zlib is linked into the interpreter
        3: lz4.frame._frame.__file__,
        4: zstd.origin if zstd is not None else None,
    }
    for codec, path in paths.items():
        if path is not None and tl_codec_load(codec, path.encode()):
            found.add(codec)
    return frozenset(found)


cdef frozenset _codecs = None


def native_codecs():
    """Ids of the codecs that work without the GIL here: those whose C library the codec packages let us find."""
    global _codecs
    if _codecs is None:
        _codecs = load_codecs()
    return _codecs


def _use_native(codecs):
    """For tests: only these codecs are native from now on, in this process, as far as they were found."""
    cdef int codec
    found = native_codecs()
    for codec in range(1, LAST_CODEC + 1):
        tl_native[codec] = codec in found and codec in codecs


def _use_lanes(bint wanted):
    """For tests: whether four keys are hashed at once from now on, in this process. Returns what is in force."""
    global tl_has_lanes
    tl_siphash_start()
    tl_has_lanes = wanted and tl_has_lanes
    return bool(tl_has_lanes)


def hash128(bytes secret, key):
    """The 16 bytes that stand for `key` in a map with this `secret` of 16 bytes: SipHash-2-4-128."""
    cdef Py_buffer view
    cdef tl_hash hash
    cdef const uint8_t *k = secret
    if len(secret) != 16:
        raise ValueError("the secret has 16 bytes")
    PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
    hash = tl_siphash(tl_little64(k), tl_little64(k + 8), <const uint8_t *>view.buf, view.len)
    PyBuffer_Release(&view)
    return int(hash.low).to_bytes(8, "little") + int(hash.high).to_bytes(8, "little")


# ---- batches and records ---------------------------------------------------------------------------------------------


cdef enum Verdict:
    WHOLE  # a V2 batch, all of it there
    CUT_OFF
    OLD
    BAD_SIZE
    BAD_MAGIC
    BAD_COUNT
    BAD_CRC
    BAD_CODEC

_VERDICTS = {
    BAD_SIZE: "its size is impossible",
    BAD_MAGIC: "no message format has its magic",
    BAD_COUNT: "its record count or last offset is impossible",
    BAD_CRC: "its checksum is wrong",
}


cdef Verdict judge(const uint8_t *p, int64_t available, int64_t *needed) noexcept nogil:
    """What begins at p. `needed` is set for CUT_OFF: bytes of the batch, 0 when not even that can be told."""
    cdef int64_t length
    needed[0] = 0
    if available < HEADER_UP_TO_MAGIC:
        return CUT_OFF
    length = tl_i32(p + LENGTH_AT)
    if length < MIN_MESSAGE_SIZE:
        return BAD_SIZE
    if p[MAGIC_AT] > 2:
        return BAD_MAGIC
    if LOG_OVERHEAD + length > available:
        needed[0] = LOG_OVERHEAD + length
        return CUT_OFF
    if p[MAGIC_AT] < 2:
        return OLD
    if LOG_OVERHEAD + length < RECORD_BATCH_OVERHEAD:
        return BAD_SIZE
    return WHOLE


cdef Verdict inspect(const uint8_t *p, int64_t size, bint check_crc) noexcept nogil:
    """Whether a whole V2 batch is one that may be worked with."""
    cdef int32_t count = tl_i32(p + RECORD_COUNT_AT), delta = tl_i32(p + LAST_OFFSET_DELTA_AT)
    if check_crc and tl_crc32c(0, p + ATTRIBUTES_AT, size - ATTRIBUTES_AT) != tl_u32(p + CRC_AT):
        return BAD_CRC
    if count < 0 or delta < 0 or count > <int64_t>delta + 1 or tl_i64(p) < 0 or tl_i64(p) > INT64_MAX - 1 - delta:
        return BAD_COUNT
    if tl_i16(p + ATTRIBUTES_AT) & COMPRESSION_MASK > LAST_CODEC:
        return BAD_CODEC
    return WHOLE


cdef object verdict_error(Verdict verdict, const uint8_t *p):
    base_offset = tl_i64(p)
    if verdict == BAD_CODEC:
        return UnsupportedCompressionError(
            f"batch at offset {base_offset}: no compression codec has the id {tl_i16(p + ATTRIBUTES_AT) & COMPRESSION_MASK}"
        )
    return CorruptRecordError(f"batch at offset {base_offset}: {_VERDICTS[<int>verdict]}")


def check_offsets(buffer, Py_ssize_t start, Py_ssize_t end, int64_t lowest, int64_t limit):
    """Look at the offsets of the whole batches in buffer[start:end], of any format; one more than the last, else `lowest`.

    No checksum covers a batch's base offset, so its neighbours have to: it must be at or above `lowest`, the end of the batch
    before or the segment's base offset, and its last one below `limit`, the next segment's base offset. Ends without an error
    where no whole batch begins: the passes tell that.

    Raises:
        CorruptRecordError: a batch is not where its offsets belong.
        ValueError: start or end outside of the buffer.
    """
    cdef Py_buffer view
    cdef const uint8_t *p
    cdef int64_t position = start, needed = 0, base = 0, last = 0, bad = -1
    cdef Verdict verdict
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        check_range(&view, start, end)
        with nogil:
            while True:
                p = <const uint8_t *>view.buf + position
                verdict = judge(p, end - position, &needed)
                if verdict != WHOLE and verdict != OLD:
                    break
                base = last = tl_i64(p)  # of a wrapper of format 0 or 1 it is the last one
                if verdict == WHOLE:
                    last = tl_add(base, tl_i32(p + LAST_OFFSET_DELTA_AT))
                if base < lowest or last < base or last >= limit:
                    bad = position
                    break
                lowest = last + 1
                position += LOG_OVERHEAD + tl_i32(p + LENGTH_AT)
    finally:
        PyBuffer_Release(&view)
    if bad >= 0:
        raise CorruptRecordError(
            f"batch at offset {base}: it ends at {last} and stands where offsets from {lowest} to {limit - 1} belong"
        )
    return lowest


cdef struct Raw:
    const uint8_t *key  # NULL for a null key
    int32_t key_size
    int32_t offset_delta
    int64_t timestamp_delta
    bint has_value


cdef inline const uint8_t *read_record(const uint8_t *p, const uint8_t *limit, Raw *out) noexcept nogil:
    """Position behind the record at p; NULL when it is broken. Headers are not looked into: they move as they are."""
    cdef int32_t length
    cdef const uint8_t *end
    p = tl_varint(p, limit, &length)
    if p == NULL or length <= 0 or length > limit - p:
        return NULL
    end = p + length
    p = tl_varlong(p + 1, end, &out.timestamp_delta)  # + 1: attributes, none are defined
    if p == NULL:
        return NULL
    p = tl_varint(p, end, &out.offset_delta)
    if p == NULL:
        return NULL
    p = tl_varint(p, end, &length)
    if p == NULL or length < -1 or length > end - p:
        return NULL
    out.key = NULL
    out.key_size = 0
    if length >= 0:
        out.key = p
        out.key_size = length
        p += length
    p = tl_varint(p, end, &length)
    if p == NULL or length < -1 or length > end - p:
        return NULL
    out.has_value = length >= 0
    return end


cdef int check_range(Py_buffer *view, Py_ssize_t start, Py_ssize_t end) except -1:
    if start < 0 or end > view.len or start > end:
        raise ValueError(f"bytes {start} to {end} are not within a buffer of {view.len}")
    return 0


cdef object broken_record(const uint8_t *p, int64_t index):
    if index < 0:
        return InvalidRecordError(f"batch at offset {tl_i64(p)}: bytes are left over behind its records")
    return InvalidRecordError(f"batch at offset {tl_i64(p)}: record {index} is broken", index)


cdef void seal(uint8_t *out, int64_t size) noexcept nogil:
    """Writes length and checksum of a batch whose other bytes are there."""
    tl_put32(out + LENGTH_AT, <uint32_t>(size - LOG_OVERHEAD))
    tl_put32(out + CRC_AT, tl_crc32c(0, out + ATTRIBUTES_AT, size - ATTRIBUTES_AT))


# ---- transactions ----------------------------------------------------------------------------------------------------


@cython.final
cdef class Transactions:
    """What a pass knows of transactions. One for both passes, carried over all segments and groups in offset order.

    A batch belongs to an aborted transaction when it is transactional and one of the `aborted` ranges of its producer
    holds its base offset: that needs no state, so the build pass may begin anywhere. The filter pass starts at the log's
    beginning and keeps the producers whose present transaction still has a record, or a batch that stays without any: its
    marker gets no horizon yet.
    """

    cdef tl_range *ranges
    cdef int64_t range_count
    cdef int64_t *live  # producers, sorted
    cdef int64_t live_count, live_room
    cdef int64_t *markers  # pairs of producer and offset: abort markers that were kept
    cdef int64_t marker_count, marker_room

    def __init__(self, aborted=()):
        """`aborted`: (producer id, first offset, offset of the abort marker) of each, in any order."""
        cdef int64_t i
        if self.ranges != NULL:
            raise TypeError("made already")
        ordered = sorted(aborted)
        self.ranges = <tl_range *>malloc(max(1, len(ordered)) * sizeof(tl_range))
        if self.ranges == NULL:
            raise MemoryError
        for i, (producer, first, last) in enumerate(ordered):
            self.ranges[i].producer = producer
            self.ranges[i].first = first
            self.ranges[i].last = last
        self.range_count = len(ordered)

    def __dealloc__(self):
        free(self.ranges)
        free(self.live)
        free(self.markers)

    cdef bint aborted(self, int64_t producer, int64_t offset) noexcept nogil:
        return self.range_count > 0 and tl_range_of(self.ranges, self.range_count, producer, offset) >= 0

    cdef bint has_live(self, int64_t producer) noexcept nogil:
        cdef int64_t at = tl_lower(self.live, self.live_count, producer)
        return at < self.live_count and self.live[at] == producer

    cdef int add_live(self, int64_t producer) noexcept nogil:
        """−1 when there is no memory."""
        cdef int64_t at = tl_lower(self.live, self.live_count, producer)
        cdef int64_t room
        cdef int64_t *grown
        if at < self.live_count and self.live[at] == producer:
            return 0
        if self.live_count == self.live_room:
            room = 2 * self.live_room + 16
            grown = <int64_t *>realloc(self.live, room * sizeof(int64_t))
            if grown == NULL:
                return -1
            self.live = grown
            self.live_room = room
        memmove(self.live + at + 1, self.live + at, (self.live_count - at) * sizeof(int64_t))
        self.live[at] = producer
        self.live_count += 1
        return 0

    cdef void drop_live(self, int64_t producer) noexcept nogil:
        cdef int64_t at = tl_lower(self.live, self.live_count, producer)
        if at < self.live_count and self.live[at] == producer:
            self.live_count -= 1
            memmove(self.live + at, self.live + at + 1, (self.live_count - at) * sizeof(int64_t))

    cdef int keep_marker(self, int64_t producer, int64_t offset) noexcept nogil:
        """−1 when there is no memory."""
        cdef int64_t room
        cdef int64_t *grown
        if self.range_count == 0:
            return 0
        if self.marker_count == self.marker_room:
            room = 2 * self.marker_room + 16
            grown = <int64_t *>realloc(self.markers, 2 * room * sizeof(int64_t))
            if grown == NULL:
                return -1
            self.markers = grown
            self.marker_room = room
        self.markers[2 * self.marker_count] = producer
        self.markers[2 * self.marker_count + 1] = offset
        self.marker_count += 1
        return 0

    def is_aborted(self, int64_t producer_id, int64_t base_offset):
        """Whether a transactional batch of this producer at this offset was aborted."""
        return bool(self.aborted(producer_id, base_offset))

    def open_producers(self):
        """Producers of whose transaction a record was kept and no marker seen yet."""
        return [self.live[i] for i in range(self.live_count)]

    def take_kept_aborts(self):
        """(producer id, first offset, marker's offset) of the aborted transactions whose marker the filter kept since the
        last call: what the transaction index of the new segments says. While its marker is there a transaction stays
        listed, so that a fetch which still holds the old segment finds it aborted.
        """
        cdef int64_t i, at
        taken = []
        for i in range(self.marker_count):
            at = tl_range_of(self.ranges, self.range_count, self.markers[2 * i], self.markers[2 * i + 1])
            if at >= 0 and self.ranges[at].last == self.markers[2 * i + 1]:
                taken.append((self.ranges[at].producer, self.ranges[at].first, self.ranges[at].last))
        self.marker_count = 0
        return taken

    def copy(self):
        """As it is now, for a group that may have to be done again."""
        cdef Transactions other = Transactions(
            [(self.ranges[i].producer, self.ranges[i].first, self.ranges[i].last) for i in range(self.range_count)]
        )
        cdef int64_t i
        for i in range(self.live_count):
            if other.add_live(self.live[i]) < 0:
                raise MemoryError
        for i in range(self.marker_count):
            if other.keep_marker(self.markers[2 * i], self.markers[2 * i + 1]) < 0:
                raise MemoryError
        return other


# ---- pass 1: the map -------------------------------------------------------------------------------------------------


# Keys between being read and being put: of one batch or of several, hashed once BLOCK are there or their batch is over.
cdef struct Pending:
    const uint8_t *keys[BLOCK]
    int32_t sizes[BLOCK]
    tl_hash hashes[BLOCK]
    int64_t offsets[BLOCK]
    int64_t positions[BLOCK]  # of their batches
    int64_t held
    int64_t hashed


@cython.final
cdef class OffsetMap:
    """Key → last offset, in a fixed memory of 24 bytes an entry. See `offset_map` for ruler and arithmetic.

    Memory is address space until it is touched, and of it only what a pass needs (`reset`) is. One thread at a time.

    Attributes:
        memory: bytes it was given; load_factor: the share of its slots that may be taken.
        slots: memory / 24; capacity: the most entries it takes.
        entries: distinct keys in it; utilization: entries / slots.
        latest_offset: largest offset put since `reset`, −1 for none.
        lookups, probes: keys looked up since `reset`, and slots looked at for them.
    """

    cdef tl_map table
    cdef tl_codecs codecs
    cdef readonly size_t memory
    cdef readonly double load_factor
    cdef readonly uint64_t slots
    cdef readonly uint64_t capacity
    cdef uint64_t touched  # slots that may not be empty
    cdef int64_t records  # looked at by the present call

    def __init__(self, memory, double load_factor=0.9):
        """Raises ValueError for less than one entry or an impossible load factor, MemoryError."""
        if self.table.entries != NULL:
            raise TypeError("made already")
        if memory < ENTRY_SIZE:
            raise ValueError(f"{memory} bytes hold no entry: one takes {ENTRY_SIZE}")
        if not 0.0 < load_factor <= 1.0:
            raise ValueError(f"load factor {load_factor} is not within (0, 1]")
        native_codecs()
        self.memory = memory
        self.load_factor = load_factor
        self.slots = self.memory // ENTRY_SIZE
        self.capacity = max(1, int(self.slots * load_factor))
        self.table.entries = tl_map_memory(self.memory)
        if self.table.entries == NULL:
            raise MemoryError(f"no {memory} bytes for an offset map")
        self.table.slots = self.slots
        self.table.capacity = 0  # until reset() gives a secret
        self.table.latest = -1

    def __dealloc__(self):
        tl_map_free(self.table.entries, self.memory)
        tl_codecs_free(&self.codecs)

    @property
    def entries(self):
        return self.table.count

    @property
    def utilization(self):
        return self.table.count / <double>self.slots

    @property
    def latest_offset(self):
        return self.table.latest

    @property
    def lookups(self):
        return self.table.lookups

    @property
    def probes(self):
        return self.table.probes

    def reset(self, bytes secret, expected=None):
        """Empties it for a pass whose keys are hashed with `secret`: 16 random bytes, never used again.

        Args:
            secret: keeps producers from building two keys with one hash.
            expected: the most keys that may come, where that is known: then only memory for twice as many is touched.
        """
        cdef const uint8_t *k = secret
        cdef uint64_t wanted = self.slots
        if len(secret) != 16:
            raise ValueError("the secret has 16 bytes")
        if expected is not None:
            wanted = min(self.slots, max(64, 2 * expected))
        with nogil:
            tl_map_clear(self.table.entries, self.memory, self.touched * ENTRY_SIZE, False)
        self.touched = wanted
        self.table.slots = wanted
        self.table.capacity = min(self.capacity, wanted)
        self.table.count = 0
        self.table.k0 = tl_little64(k)
        self.table.k1 = tl_little64(k + 8)
        self.table.lookups = 0
        self.table.probes = 0
        self.table.latest = -1

    def release(self):
        """Empties it and gives its memory back to the system; it must be `reset` before it is used again."""
        with nogil:
            tl_map_clear(self.table.entries, self.memory, self.touched * ENTRY_SIZE, True)
        self.touched = 0
        self.table.count = 0
        self.table.capacity = 0
        self.table.latest = -1

    def put(self, key, int64_t offset):
        """Notes that `key` is at `offset`, unless it is at a larger one already. False when it is new and there is no room."""
        cdef Py_buffer view
        cdef bint done
        if offset < 0:
            raise ValueError(f"offset {offset} is negative")
        PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
        done = tl_put(&self.table, self.hash_of(<const uint8_t *>view.buf, view.len), offset)
        PyBuffer_Release(&view)
        return bool(done)

    def get(self, key):
        """The last offset of `key`, −1 when it is not there."""
        cdef Py_buffer view
        cdef int64_t offset
        PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
        offset = tl_get(&self.table, self.hash_of(<const uint8_t *>view.buf, view.len))
        PyBuffer_Release(&view)
        return offset

    cdef inline tl_hash hash_of(self, const uint8_t *key, size_t size) noexcept nogil:
        return tl_siphash(self.table.k0, self.table.k1, key, size)

    cdef void hash_pending(self, Pending *pending) noexcept nogil:
        """Hashes those whose keys may not be there for long, and has their slots fetched."""
        cdef int64_t i, begin = pending.hashed
        tl_siphash_all(
            self.table.k0, self.table.k1, pending.keys + begin, pending.sizes + begin, pending.held - begin,
            pending.hashes + begin,
        )
        for i in range(begin, pending.held):
            tl_prefetch(&self.table, pending.hashes[i])
        pending.hashed = pending.held

    cdef int64_t flush(self, Pending *pending) noexcept nogil:
        """Puts them in order; index of the one that did not fit, −1 when all did."""
        cdef int64_t i, count = pending.held
        pending.held = pending.hashed = 0
        for i in range(count):
            if not tl_put(&self.table, pending.hashes[i], pending.offsets[i]):
                return i
        return -1

    def build(
        self,
        buffer,
        Py_ssize_t start,
        Py_ssize_t end,
        int64_t first_offset,
        int64_t end_offset,
        Transactions transactions not None,
        *,
        bint check_crc=True,
        Py_ssize_t max_decompressed=DEFAULT_MAX_BYTES,
    ):
        """Puts the keyed records with first_offset ≤ offset < end_offset of the whole batches in buffer[start:end], but for
        control batches and batches of aborted transactions.

        Returns a BuildStep; see `results`.

        Raises:
            CorruptRecordError, InvalidRecordError, UnsupportedCompressionError, RecordTooLargeError: a batch cannot be
                read; the map is then to be reset.
            ValueError: start or end outside of the buffer.
        """
        cdef Py_buffer view
        cdef Py_buffer plain_view
        cdef const uint8_t *p
        cdef int64_t position = start, limit = end, size = 0, needed = 0, full = -1, bad = -1
        cdef Verdict verdict = WHOLE
        cdef Pending pending
        cdef bint foreign, ended = False
        cdef int64_t broken = -2  # record index; −1 left over; −2 sound
        if not self.table.capacity:
            raise ValueError("the map has no secret: reset it first")
        if first_offset < 0:
            first_offset = 0
        self.records = 0
        pending.held = pending.hashed = 0
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            check_range(&view, start, end)
            p = <const uint8_t *>view.buf
            while True:
                foreign = False
                with nogil:
                    while True:
                        verdict = judge(p + position, limit - position, &needed)
                        if verdict != WHOLE:
                            break
                        if tl_i64(p + position) >= end_offset:
                            ended = True
                            break
                        size = LOG_OVERHEAD + tl_i32(p + position + LENGTH_AT)
                        verdict = inspect(p + position, size, check_crc)
                        if verdict != WHOLE:
                            break
                        broken = self.take_batch(
                            p, position, size, NULL, 0, first_offset, end_offset, transactions, max_decompressed,
                            &pending, &full, &foreign,
                        )
                        if broken != -2 or full >= 0 or foreign:
                            break
                        position += size
                    if not foreign and full < 0 and broken == -2:
                        full = self.flush(&pending)
                if foreign:
                    plain = decompress(
                        tl_i16(p + position + ATTRIBUTES_AT) & COMPRESSION_MASK,
                        memoryview(buffer)[position + RECORD_BATCH_OVERHEAD : position + size],
                        max_decompressed,
                    )
                    PyObject_GetBuffer(plain, &plain_view, PyBUF_SIMPLE)
                    try:
                        with nogil:
                            broken = self.take_batch(
                                p, position, size, <const uint8_t *>plain_view.buf, plain_view.len, first_offset,
                                end_offset, transactions, max_decompressed, &pending, &full, &foreign,
                            )
                    finally:
                        PyBuffer_Release(&plain_view)
                    if broken == -2 and full < 0:
                        position += size
                        continue
                break
            if broken != -2:
                raise broken_record(p + position, broken)
            if full >= 0:
                return BuildStep(
                    pending.positions[full] - start, Stop.MAP_FULL, 0, pending.offsets[full], self.records
                )
            if ended:
                return BuildStep(position - start, Stop.END, 0, -1, self.records)
            if verdict == CUT_OFF:
                return BuildStep(position - start, Stop.INPUT, needed, -1, self.records)
            if verdict == OLD:
                return BuildStep(position - start, Stop.OLD_FORMAT, 0, -1, self.records)
            raise verdict_error(verdict, p + position)
        finally:
            tl_codecs_trim(&self.codecs, SCRATCH_KEPT)
            PyBuffer_Release(&view)

    cdef int64_t take_batch(
        self,
        const uint8_t *buffer,
        int64_t position,
        int64_t size,
        const uint8_t *plain,
        int64_t plain_size,
        int64_t first_offset,
        int64_t end_offset,
        Transactions transactions,
        int64_t max_decompressed,
        Pending *pending,
        int64_t *full,
        bint *foreign,
    ) noexcept nogil:
        """One batch into the map; −2 when it is sound, else as in `broken_record`. `full` is set to the index in `pending`
        of the record that did not fit, `foreign` when the codec needs Python (then call again with `plain`).
        """
        cdef const uint8_t *p = buffer + position
        cdef const uint8_t *at
        cdef const uint8_t *stop
        cdef int64_t base_offset = tl_i64(p), offset, previous = -1, misfit
        cdef int32_t count = tl_i32(p + RECORD_COUNT_AT), attributes = tl_i16(p + ATTRIBUTES_AT), index
        cdef int32_t last_delta = tl_i32(p + LAST_OFFSET_DELTA_AT)
        cdef Raw record
        foreign[0] = False
        if (
            count == 0
            or attributes & CONTROL_MASK
            or base_offset + last_delta < first_offset
            or (attributes & TRANSACTIONAL_MASK and transactions.aborted(tl_i64(p + PRODUCER_ID_AT), base_offset))
        ):
            self.records += count
            return -2
        at = p + RECORD_BATCH_OVERHEAD
        stop = p + size
        if attributes & COMPRESSION_MASK:
            if plain == NULL:
                if not tl_decode(&self.codecs, attributes & COMPRESSION_MASK, at, stop - at, max_decompressed):
                    foreign[0] = True
                    return -2
                plain = self.codecs.plain.data
                plain_size = self.codecs.plain.size
            at = plain
            stop = plain + plain_size
        self.records += count
        for index in range(count):
            at = read_record(at, stop, &record)
            if at == NULL or record.offset_delta <= previous or record.offset_delta > last_delta:
                return index
            previous = record.offset_delta
            if record.key == NULL:
                continue
            offset = base_offset + record.offset_delta
            if offset < first_offset or offset >= end_offset:
                continue
            pending.keys[pending.held] = record.key
            pending.sizes[pending.held] = record.key_size
            pending.offsets[pending.held] = offset
            pending.positions[pending.held] = position
            pending.held += 1
            if pending.held == BLOCK:
                self.hash_pending(pending)
                misfit = self.flush(pending)
                if misfit >= 0:
                    full[0] = misfit
                    return -2
        self.hash_pending(pending)
        return -2 if at == stop else -1


# ---- pass 2: the filter ----------------------------------------------------------------------------------------------


cdef int marker_type(const uint8_t *p, const uint8_t *end) noexcept nogil:
    """ABORT or COMMIT, as the key of a control record says (version int16, type int16); OTHER_MARKER for what else there is."""
    cdef Raw record
    cdef int type
    if read_record(p, end, &record) == NULL or record.key == NULL or record.key_size < 4:
        return OTHER_MARKER
    type = tl_i16(record.key + 2)
    return type if type == ABORT or type == COMMIT else OTHER_MARKER


cdef enum Outcome:
    DONE
    NO_ROOM
    NEED_PLAIN
    NEED_CODED
    BROKEN
    NO_MEMORY


# What is counted, of one batch and of a stretch: see FilterCounts.
cdef struct Tally:
    int64_t superseded
    int64_t tombstones_expired
    int64_t aborted
    int64_t keyless
    int64_t markers_expired
    int64_t below_start
    int64_t tombstones_kept
    int64_t kept
    int64_t kept_bytes  # of records as they stand
    int64_t max_timestamp


# A record between being hashed and being looked up.
cdef struct Look:
    int64_t place  # of its key's hash among those of the block
    int64_t offset
    int64_t timestamp
    int32_t size
    bint has_key
    bint has_value
    bint dropped  # whatever the map says
    bint in_map  # below the map's end, with a key


@cython.final
cdef class RecordFilter:
    """Pass 2 over a whole log, batch by batch in offset order, through as many segments and groups as it has.

    One for a pass: it carries the transactions. Records below `map_end` survive when no later record in the map has their
    key; at and above it nothing is touched, a batch across it loses what is superseded below it and gets no horizon.
    One thread at a time.
    """

    cdef OffsetMap map
    cdef Transactions transactions
    cdef tl_codecs codecs
    cdef int64_t map_end, now, horizon, keep_last, log_start
    cdef int64_t max_decompressed
    cdef bint check_crc
    cdef tl_range *producers  # producer, last data offset, epoch
    cdef int64_t producer_count
    cdef uint8_t *survives  # one a record of the present batch
    cdef int64_t survives_room
    cdef Tally total
    cdef int64_t records_read, bytes_read, batches_read
    cdef int64_t records_kept, bytes_kept, batches_kept, batches_copied, markers_kept
    cdef int64_t earliest_horizon, last_offset, max_timestamp, offset_of_max_timestamp
    cdef int64_t broken  # index of the broken record, −1 for bytes left over
    cdef int64_t needed  # bytes of output, after NO_ROOM
    cdef bint copied  # the present batch, as it was

    def __init__(
        self,
        OffsetMap offset_map not None,
        int64_t map_end,
        Transactions transactions not None,
        int64_t now_ms,
        int64_t delete_retention_ms,
        *,
        int64_t keep_last_offset=-1,
        producers=(),
        int64_t log_start_offset=0,
        bint check_crc=True,
        Py_ssize_t max_decompressed=DEFAULT_MAX_BYTES,
    ):
        """
        Args:
            offset_map: what the build pass made.
            map_end: every record below it is in the map, as far as it may be.
            transactions: of this pass.
            now_ms: horizons at or before it have passed.
            delete_retention_ms: how long tombstones and markers stay from now on, where no horizon says so yet.
            keep_last_offset: batches that end at or above it stay, if need be empty, so that the log's end is remembered
                (KAFKA-17076); −1 for none.
            producers: (producer id, last data offset, epoch) of the active ones: the batch that ends at that offset
                stays, if need be empty, since it has the producer's last sequence number. With −1 as offset its markers
                of that epoch do, which keep old epochs out.
            log_start_offset: records below it go.
            check_crc: whether checksums are compared.
            max_decompressed: bytes that one batch may expand to.
        """
        cdef int64_t i
        if self.producers != NULL:
            raise TypeError("made already")
        if now_ms < 0 or delete_retention_ms < 0:
            raise ValueError("times are not negative")
        self.map = offset_map
        self.map_end = map_end
        self.transactions = transactions
        self.now = now_ms
        self.horizon = now_ms + delete_retention_ms if now_ms <= INT64_MAX - delete_retention_ms else INT64_MAX
        self.keep_last = keep_last_offset if keep_last_offset >= 0 else INT64_MAX
        self.log_start = log_start_offset
        self.check_crc = check_crc
        self.max_decompressed = max_decompressed
        ordered = sorted(producers)
        self.producers = <tl_range *>malloc(max(1, len(ordered)) * sizeof(tl_range))
        if self.producers == NULL:
            raise MemoryError
        for i, (producer, last, epoch) in enumerate(ordered):
            self.producers[i].producer = producer
            self.producers[i].first = last
            self.producers[i].last = epoch
        self.producer_count = len(ordered)
        self.start_over()

    def __dealloc__(self):
        free(self.producers)
        free(self.survives)
        tl_codecs_free(&self.codecs)

    cdef void start_over(self) noexcept nogil:
        memset(&self.total, 0, sizeof(Tally))
        self.records_read = self.bytes_read = self.batches_read = 0
        self.records_kept = self.bytes_kept = self.batches_kept = self.batches_copied = self.markers_kept = 0
        self.earliest_horizon = self.last_offset = self.max_timestamp = self.offset_of_max_timestamp = -1

    def counts(self):
        """FilterCounts since the last `take_counts`."""
        return FilterCounts(
            self.total.superseded,
            self.total.tombstones_expired,
            self.total.aborted,
            self.total.keyless,
            self.total.markers_expired,
            self.total.below_start,
            self.records_read,
            self.bytes_read,
            self.batches_read,
            self.records_kept,
            self.bytes_kept,
            self.batches_kept,
            self.batches_copied,
            self.total.tombstones_kept,
            self.markers_kept,
            self.earliest_horizon,
            self.last_offset,
            self.max_timestamp,
            self.offset_of_max_timestamp,
        )

    def take_counts(self):
        """`counts`, which begin anew."""
        counts = self.counts()
        self.start_over()
        return counts

    def filter(self, buffer, Py_ssize_t start, Py_ssize_t end, output):
        """Writes what survives of the whole batches in buffer[start:end] to `output`, from its beginning.

        Returns a FilterStep; see `results`. What it says is consumed is counted, the rest is not.

        Raises:
            CorruptRecordError, InvalidRecordError, UnsupportedCompressionError, RecordTooLargeError: a batch cannot be
                read; nothing of it is counted, what was written before it is to be thrown away.
            ValueError: start or end outside of the buffer.
        """
        cdef Py_buffer view
        cdef Py_buffer room_view
        cdef Py_buffer plain_view
        cdef Py_buffer coded_view
        cdef const uint8_t *p
        cdef uint8_t *out
        cdef const uint8_t *plain_at
        cdef const uint8_t *coded_at
        cdef int64_t position = start, limit = end, size = 0, needed = 0, produced = 0, room, written = 0
        cdef int64_t plain_size, coded_size
        cdef Verdict verdict = WHOLE
        cdef Outcome outcome = DONE
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(output, &room_view, PyBUF_WRITABLE)
            try:
                check_range(&view, start, end)
                p = <const uint8_t *>view.buf
                out = <uint8_t *>room_view.buf
                room = room_view.len
                while True:
                    with nogil:
                        while True:
                            outcome = DONE
                            verdict = judge(p + position, limit - position, &needed)
                            if verdict != WHOLE:
                                break
                            size = LOG_OVERHEAD + tl_i32(p + position + LENGTH_AT)
                            verdict = inspect(p + position, size, self.check_crc)
                            if verdict != WHOLE:
                                break
                            outcome = self.one_batch(
                                p + position, size, NULL, 0, NULL, 0, out + produced, room - produced, &written
                            )
                            if outcome != DONE:
                                break
                            position += size
                            produced += written
                    if outcome == NEED_PLAIN or outcome == NEED_CODED:
                        codec = tl_i16(p + position + ATTRIBUTES_AT) & COMPRESSION_MASK
                        plain = coded = None
                        if outcome == NEED_PLAIN:
                            plain = decompress(
                                codec,
                                memoryview(buffer)[position + RECORD_BATCH_OVERHEAD : position + size],
                                self.max_decompressed,
                            )
                        while outcome == NEED_PLAIN or outcome == NEED_CODED:
                            # A batch whose codec is not native is gone through again once its survivors are compressed:
                            # nothing is counted before it is written, and the second time gives what the first did.
                            if outcome == NEED_CODED:
                                coded = compress(codec, <bytes>self.codecs.kept.data[: self.codecs.kept.size])
                            PyObject_GetBuffer(b"" if plain is None else plain, &plain_view, PyBUF_SIMPLE)
                            PyObject_GetBuffer(b"" if coded is None else coded, &coded_view, PyBUF_SIMPLE)
                            # NULL is what asks for it, so nothing must have an address where a stream holds nothing.
                            plain_at = NULL if plain is None else <const uint8_t *>plain_view.buf
                            coded_at = NULL if coded is None else <const uint8_t *>coded_view.buf
                            plain_size = plain_view.len
                            coded_size = coded_view.len
                            with nogil:
                                outcome = self.one_batch(
                                    p + position, size, plain_at, plain_size, coded_at, coded_size,
                                    out + produced, room - produced, &written,
                                )
                            PyBuffer_Release(&plain_view)
                            PyBuffer_Release(&coded_view)
                        if outcome == DONE:
                            position += size
                            produced += written
                            continue
                    break
                if outcome == NO_ROOM:
                    return FilterStep(position - start, produced, Stop.OUTPUT, 0 if produced else self.needed)
                if outcome == NO_MEMORY:
                    raise MemoryError
                if outcome == BROKEN:
                    raise broken_record(p + position, self.broken)
                if verdict == CUT_OFF:
                    return FilterStep(position - start, produced, Stop.INPUT, needed)
                if verdict == OLD:
                    return FilterStep(position - start, produced, Stop.OLD_FORMAT, 0)
                raise verdict_error(verdict, p + position)
            finally:
                PyBuffer_Release(&room_view)
        finally:
            tl_codecs_trim(&self.codecs, SCRATCH_KEPT)
            if self.survives_room > SCRATCH_KEPT:
                free(self.survives)
                self.survives = NULL
                self.survives_room = 0
            PyBuffer_Release(&view)

    cdef bint must_stay(self, const uint8_t *p, int64_t last_offset) noexcept nogil:
        """Whether the batch stays even when it is empty."""
        cdef int64_t producer = tl_i64(p + PRODUCER_ID_AT), at
        if last_offset >= self.keep_last:
            return True
        if producer < 0 or self.producer_count == 0:
            return False
        at = tl_upper(self.producers, self.producer_count, producer, INT64_MAX) - 1
        if at < 0 or self.producers[at].producer != producer:
            return False
        if self.producers[at].first >= 0:
            return last_offset == self.producers[at].first
        return (
            tl_i16(p + ATTRIBUTES_AT) & CONTROL_MASK != 0 and tl_i16(p + PRODUCER_EPOCH_AT) == self.producers[at].last
        )

    cdef Outcome one_batch(
        self,
        const uint8_t *p,
        int64_t size,
        const uint8_t *plain,
        int64_t plain_size,
        const uint8_t *coded,
        int64_t coded_size,
        uint8_t *out,
        int64_t room,
        int64_t *written,
    ) noexcept nogil:
        """One batch; nothing is counted or remembered unless it is DONE. `plain`: its records where Python decompressed
        them; `coded`: its survivors where Python compressed them.
        """
        cdef int64_t base_offset = tl_i64(p), last_offset = base_offset + tl_i32(p + LAST_OFFSET_DELTA_AT)
        cdef int64_t producer = tl_i64(p + PRODUCER_ID_AT)
        cdef int32_t count = tl_i32(p + RECORD_COUNT_AT), attributes = tl_i16(p + ATTRIBUTES_AT)
        cdef bint control = attributes & CONTROL_MASK != 0
        cdef bint transactional = attributes & TRANSACTIONAL_MASK != 0
        cdef bint has_horizon = attributes & DELETE_HORIZON_MASK != 0
        cdef bint due, aborted, verbatim = base_offset >= self.map_end
        cdef bint stamp = False, removable = False
        cdef int marker = OTHER_MARKER
        cdef const uint8_t *at = p + RECORD_BATCH_OVERHEAD
        cdef const uint8_t *stop = p + size
        cdef Tally tally
        cdef Outcome outcome
        memset(&tally, 0, sizeof(Tally))
        tally.max_timestamp = -1
        aborted = transactional and not control and self.transactions.aborted(producer, base_offset)
        due = has_horizon and tl_i64(p + BASE_TIMESTAMP_AT) <= self.now
        written[0] = 0
        self.copied = False

        if (verbatim and not control) or count == 0:
            if verbatim or self.must_stay(p, last_offset):
                # What is beyond the map is not looked into; its horizon, if it has one, is taken at its word.
                tally.kept = count
                removable = has_horizon and count > 0
                outcome = self.copy_batch(p, size, out, room, written)
            else:
                outcome = DONE
            if outcome == DONE:
                # A batch that stays without records counts too: whoever rebuilds its producer's state must find its marker.
                if transactional and not control and written[0] and (count == 0 or not aborted):
                    if self.transactions.add_live(producer) < 0:
                        return NO_MEMORY
                self.commit(p, size, out, written[0], &tally, removable, 0)
            return outcome

        if aborted and base_offset >= self.log_start:
            tally.aborted = count
            return self.finish_empty(p, size, last_offset, out, room, written, &tally)
        # The marker of a batch that stays, though empty, stays with it: the log's start may step back after a crash.
        if last_offset < self.log_start and not (control and self.transactions.has_live(producer)):
            tally.below_start = count
            outcome = self.finish_empty(p, size, last_offset, out, room, written, &tally)
            if outcome == DONE and control:
                self.transactions.drop_live(producer)
            return outcome

        if attributes & COMPRESSION_MASK:
            if plain == NULL:
                if not tl_decode(&self.codecs, attributes & COMPRESSION_MASK, at, stop - at, self.max_decompressed):
                    return NEED_PLAIN
                plain = self.codecs.plain.data
                plain_size = self.codecs.plain.size
            at = plain
            stop = plain + plain_size

        if control:
            if count == 1:
                marker = marker_type(at, stop)
            tally.kept = count
            removable = verbatim and has_horizon
            if marker != OTHER_MARKER and not verbatim and not self.transactions.has_live(producer):
                if due:
                    tally.kept = 0
                    tally.markers_expired = count
                    outcome = self.finish_empty(p, size, last_offset, out, room, written, &tally)
                    if outcome == DONE:
                        self.transactions.drop_live(producer)
                    return outcome
                removable = True
                stamp = not has_horizon
            if not stamp:
                outcome = self.copy_batch(p, size, out, room, written)
            else:
                if not self.room_to_mark(count):
                    return NO_MEMORY
                memset(self.survives, 1, count)
                outcome = self.rebuild(p, size, at, stop, count, count, stop - at, tl_i64(p + MAX_TIMESTAMP_AT), True,
                                       coded, coded_size, out, room, written)
            if outcome == DONE:
                if marker == ABORT and self.transactions.keep_marker(producer, last_offset) < 0:
                    return NO_MEMORY
                if marker != OTHER_MARKER:
                    self.transactions.drop_live(producer)
                self.commit(p, size, out, written[0], &tally, removable, count)
            return outcome

        outcome = self.decide(p, at, stop, count, due, aborted, &tally)
        if outcome != DONE:
            return outcome
        if tally.kept == 0:
            return self.finish_empty(p, size, last_offset, out, room, written, &tally)
        stamp = tally.tombstones_kept > 0 and not has_horizon and last_offset < self.map_end
        removable = tally.tombstones_kept > 0 and (has_horizon or stamp)
        if tally.kept == count and not stamp:
            outcome = self.copy_batch(p, size, out, room, written)
        else:
            if attributes & TIMESTAMP_TYPE_MASK:
                tally.max_timestamp = tl_i64(p + MAX_TIMESTAMP_AT)
            outcome = self.rebuild(p, size, at, stop, count, <int32_t>tally.kept, tally.kept_bytes, tally.max_timestamp,
                                   stamp, coded, coded_size, out, room, written)
        if outcome == DONE:
            if transactional and self.transactions.add_live(producer) < 0:
                return NO_MEMORY
            self.commit(p, size, out, written[0], &tally, removable, 0)
        return outcome


    cdef bint room_to_mark(self, int64_t count) noexcept nogil:
        """Makes `survives` as long as the batch; false without memory."""
        cdef uint8_t *grown
        if count > self.survives_room:
            grown = <uint8_t *>realloc(self.survives, count)
            if grown == NULL:
                return False
            self.survives = grown
            self.survives_room = count
        return True

    cdef Outcome decide(
        self,
        const uint8_t *p,
        const uint8_t *at,
        const uint8_t *stop,
        int32_t count,
        bint due,
        bint aborted,
        Tally *tally,
    ) noexcept nogil:
        """Which records of a data batch survive: into `survives` and `tally`."""
        cdef int64_t base_offset = tl_i64(p), base_timestamp = tl_i64(p + BASE_TIMESTAMP_AT)
        cdef int32_t last_delta = tl_i32(p + LAST_OFFSET_DELTA_AT)
        cdef int64_t previous = -1
        cdef int32_t index = 0, block, i
        cdef const uint8_t *begin
        cdef Raw raw
        cdef Look[BLOCK] looks
        cdef Look *look
        cdef const uint8_t *keys[BLOCK]
        cdef int32_t sizes[BLOCK]
        cdef tl_hash hashes[BLOCK]
        cdef int64_t hashed
        cdef bint stays
        if count > (stop - at) // MIN_RECORD_SIZE:
            self.broken = -1
            return BROKEN
        if not self.room_to_mark(count):
            return NO_MEMORY
        while index < count:
            block = min(count - index, <int32_t>BLOCK)
            hashed = 0
            for i in range(block):
                begin = at
                at = read_record(at, stop, &raw)
                if at == NULL or raw.offset_delta <= previous or raw.offset_delta > last_delta:
                    self.broken = index + i
                    return BROKEN
                previous = raw.offset_delta
                look = &looks[i]
                look.offset = base_offset + raw.offset_delta
                look.timestamp = tl_add(base_timestamp, raw.timestamp_delta)
                look.size = <int32_t>(at - begin)
                look.has_key = raw.key != NULL
                look.has_value = raw.has_value
                look.dropped = False
                look.in_map = False
                if look.offset < self.log_start:
                    tally.below_start += 1
                    look.dropped = True
                elif aborted:
                    tally.aborted += 1
                    look.dropped = True
                elif look.offset < self.map_end:
                    if raw.key == NULL:
                        tally.keyless += 1
                        look.dropped = True
                    else:
                        look.in_map = True
                        look.place = hashed
                        keys[hashed] = raw.key
                        sizes[hashed] = raw.key_size
                        hashed += 1
            tl_siphash_all(self.map.table.k0, self.map.table.k1, keys, sizes, hashed, hashes)
            for i in range(<int32_t>hashed):
                tl_prefetch(&self.map.table, hashes[i])
            for i in range(block):
                look = &looks[i]
                stays = not look.dropped
                if look.in_map:
                    if tl_get(&self.map.table, hashes[look.place]) > look.offset:
                        tally.superseded += 1
                        stays = False
                    elif due and not look.has_value:
                        tally.tombstones_expired += 1
                        stays = False
                self.survives[index + i] = stays
                if stays:
                    tally.kept += 1
                    tally.kept_bytes += look.size
                    tally.tombstones_kept += look.has_key and not look.has_value
                    if look.timestamp > tally.max_timestamp:
                        tally.max_timestamp = look.timestamp
            index += block
        if at != stop:
            self.broken = -1
            return BROKEN
        return DONE

    cdef Outcome copy_batch(
        self, const uint8_t *p, int64_t size, uint8_t *out, int64_t room, int64_t *written
    ) noexcept nogil:
        """The batch as it is."""
        if size > room:
            self.needed = size
            return NO_ROOM
        memcpy(out, p, size)
        written[0] = size
        self.copied = True
        return DONE

    cdef Outcome finish_empty(
        self,
        const uint8_t *p,
        int64_t size,
        int64_t last_offset,
        uint8_t *out,
        int64_t room,
        int64_t *written,
        const Tally *tally,
    ) noexcept nogil:
        """A batch of which no record survives: nothing, or a header without records where it must stay."""
        cdef int32_t attributes
        if self.must_stay(p, last_offset):
            if room < RECORD_BATCH_OVERHEAD:
                self.needed = RECORD_BATCH_OVERHEAD
                return NO_ROOM
            memcpy(out, p, RECORD_BATCH_OVERHEAD)
            tl_put16(out + ATTRIBUTES_AT, tl_i16(p + ATTRIBUTES_AT) & ~(COMPRESSION_MASK | DELETE_HORIZON_MASK))
            tl_put64(out + BASE_TIMESTAMP_AT, <uint64_t>-1)
            tl_put32(out + RECORD_COUNT_AT, 0)
            seal(out, RECORD_BATCH_OVERHEAD)
            written[0] = RECORD_BATCH_OVERHEAD
            attributes = tl_i16(p + ATTRIBUTES_AT)
            if attributes & TRANSACTIONAL_MASK and not attributes & CONTROL_MASK:
                if self.transactions.add_live(tl_i64(p + PRODUCER_ID_AT)) < 0:
                    return NO_MEMORY
        self.commit(p, size, out, written[0], tally, False, 0)
        return DONE

    cdef Outcome rebuild(
        self,
        const uint8_t *p,
        int64_t size,
        const uint8_t *at,
        const uint8_t *stop,
        int32_t count,
        int32_t kept,
        int64_t kept_bytes,
        int64_t max_timestamp,
        bint stamp,
        const uint8_t *coded,
        int64_t coded_size,
        uint8_t *out,
        int64_t room,
        int64_t *written,
    ) noexcept nogil:
        """The batch with those of its records that `survives` says, with a horizon where `stamp` says."""
        cdef int32_t attributes = tl_i16(p + ATTRIBUTES_AT), index, length = 0
        cdef int codec = attributes & COMPRESSION_MASK
        cdef int64_t bound = kept_bytes + (<int64_t>STAMP_GROWTH * kept if stamp else 0)
        cdef int64_t shift = tl_add(tl_i64(p + BASE_TIMESTAMP_AT), <int64_t>(0 - <uint64_t>self.horizon))
        cdef int64_t delta = 0
        cdef const uint8_t *run
        cdef const uint8_t *body
        cdef const uint8_t *end
        cdef uint8_t *target
        cdef uint8_t *begin
        if codec and coded == NULL:
            if not tl_reserve(&self.codecs.kept, max(bound, 1)):
                return NO_MEMORY
            target = self.codecs.kept.data
        else:
            if coded == NULL and bound + RECORD_BATCH_OVERHEAD > room:
                self.needed = bound + RECORD_BATCH_OVERHEAD
                return NO_ROOM
            target = out + RECORD_BATCH_OVERHEAD
        begin = target

        if coded == NULL:
            run = at
            for index in range(count):  # each was read without a fault before
                body = tl_varint(at, stop, &length)
                end = body + length
                if not self.survives[index]:
                    memcpy(target, run, at - run)
                    target += at - run
                    run = end
                elif stamp:
                    run = tl_varlong(body + 1, end, &delta)
                    delta = tl_add(delta, shift)
                    target = tl_put_varlong(target, 1 + tl_varlong_size(delta) + (end - run))
                    target[0] = body[0]
                    target = tl_put_varlong(target + 1, delta)
                    memcpy(target, run, end - run)
                    target += end - run
                    run = end
                at = end
            memcpy(target, run, at - run)
            target += at - run
            kept_bytes = target - begin
            if codec:
                self.codecs.kept.size = kept_bytes
                bound = tl_encode_bound(&self.codecs, codec, kept_bytes)
                if bound == 0:
                    return NEED_CODED
                if bound + RECORD_BATCH_OVERHEAD > room:
                    self.needed = bound + RECORD_BATCH_OVERHEAD
                    return NO_ROOM
                kept_bytes = tl_encode(
                    &self.codecs, codec, begin, kept_bytes, out + RECORD_BATCH_OVERHEAD, room - RECORD_BATCH_OVERHEAD
                )
                if kept_bytes == 0:
                    return NEED_CODED
        else:
            if coded_size + RECORD_BATCH_OVERHEAD > room:
                self.needed = coded_size + RECORD_BATCH_OVERHEAD
                return NO_ROOM
            memcpy(target, coded, coded_size)
            kept_bytes = coded_size

        size = RECORD_BATCH_OVERHEAD + kept_bytes
        memcpy(out, p, RECORD_BATCH_OVERHEAD)
        if stamp:
            tl_put16(out + ATTRIBUTES_AT, attributes | DELETE_HORIZON_MASK)
            tl_put64(out + BASE_TIMESTAMP_AT, self.horizon)
        tl_put64(out + MAX_TIMESTAMP_AT, max_timestamp)
        tl_put32(out + RECORD_COUNT_AT, kept)
        seal(out, size)
        written[0] = size
        return DONE

    cdef void commit(
        self,
        const uint8_t *p,
        int64_t size,
        const uint8_t *out,
        int64_t written,
        const Tally *tally,
        bint removable,
        int32_t markers,
    ) noexcept nogil:
        """Counts a batch that is done: `written` bytes of it, 0 when it went."""
        cdef int64_t horizon
        self.total.superseded += tally.superseded
        self.total.tombstones_expired += tally.tombstones_expired
        self.total.aborted += tally.aborted
        self.total.keyless += tally.keyless
        self.total.markers_expired += tally.markers_expired
        self.total.below_start += tally.below_start
        self.total.tombstones_kept += tally.tombstones_kept
        self.batches_read += 1
        self.bytes_read += size
        self.records_read += tl_i32(p + RECORD_COUNT_AT)
        if written:
            self.batches_kept += 1
            self.batches_copied += self.copied
            self.bytes_kept += written
            self.records_kept += tally.kept
            self.markers_kept += markers
            self.last_offset = tl_add(tl_i64(out), tl_i32(out + LAST_OFFSET_DELTA_AT))
            if tl_i64(out + MAX_TIMESTAMP_AT) > self.max_timestamp:
                self.max_timestamp = tl_i64(out + MAX_TIMESTAMP_AT)
                self.offset_of_max_timestamp = self.last_offset
            if removable:
                horizon = max(0, tl_i64(out + BASE_TIMESTAMP_AT))  # below 0 is long past, and would say "none"
                if self.earliest_horizon < 0 or horizon < self.earliest_horizon:
                    self.earliest_horizon = horizon
