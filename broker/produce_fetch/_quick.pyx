# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=True
"""The compiled way of the two requests that carry the load, where there is nothing to decide (ADR 73):

    Produce 3 to 13    one batch of format 2 to one partition: neither compressed nor of a transaction, at most 64 KiB, for a
                       directory that is not slow
    Fetch 4 to 18      of one partition, by the request or its session, from a batch whose place is known: up to 16 KiB are
                       copied, more leaves by `sendfile`

Everything else is NotImplemented, of which nothing has been done, and the general way takes it: `broker/apis/produce.py` and
`fetch.py`. What is answered here gets the same answer and leaves the same state and the same bytes behind as there
(`tests/property/test_quick_path.py`). What the general way admits stands in `ProduceJob._admit`; here are only conditions under
which it has nothing to object to.

    Produce:  key i16 | version i16 | correlation i32 | client i16+bytes | [tags] | transactional id | acks i16 | timeout i32
              | 1 topic: name, from version 13 on its id | 1 partition: index i32, records i32+bytes
    Fetch:    the same header | [replica i32, to 14] | wait i32 | least i32 | most i32 | isolation i8
              | [session i32, epoch i32, from 7 on] | 0 or 1 topic: name or id | 1 partition: index i32, [epoch i32, from 9 on],
                offset i64, [last epoch i32, from 12 on], [log start i64, from 5 on], most i32
              | [0 forgotten, from 7 on] | [rack, from 11 on]

From version 9 of Produce and 12 of Fetch on, lengths and counts are varints of one more, and tagged fields follow each
struct: only those of no tagged fields are taken here. Loop thread.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from ...protocol.api_keys import ApiKey
from ...storage.clock import SystemTime
from ...storage.segment.segment_list import floor_index
from ..metadata.topics import INTERNAL_TOPICS
from ..network.outbound import FileSlice
from ..partitions.conversion_thread import TIMED_BYTES as _TIMED_BYTES
from ..partitions.partition import WARM_TAIL_BYTES as _WARM_TAIL_BYTES
from ..requests.throttling import RequestMeter
from ..security.acl.model import AclOperation, ResourceType
from .produce_job import ProduceJob

include "../../protocol/records/_records.pxi"

cdef extern from *:
    """
    #include <errno.h>
    #include <sys/uio.h>
    #include <time.h>
    #include <unistd.h>
    #if defined(__linux__)
    #include <sys/syscall.h>
    #endif

    /* Milliseconds since 1970. */
    static inline int64_t wall_ms(void) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    }
    /* As Python's perf_counter_ns. */
    static inline int64_t monotonic_ns(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    }
    /* Bytes of the file that are in memory, read without a wait for the disk; -1 where some are not, or on any failure. By its
       number, since the oldest C libraries that we run on do not have the function. */
    static inline Py_ssize_t read_cached(int fd, char *to, size_t count, int64_t position) {
    #if defined(__linux__) && defined(SYS_preadv2)
        struct iovec part = {to, count};
        return syscall(SYS_preadv2, fd, &part, 1UL, (unsigned long)position, (unsigned long)((uint64_t)position >> 32),
                       0x00000008 /* RWF_NOWAIT */);
    #else
        (void)fd; (void)to; (void)count; (void)position;
        return -1;
    #endif
    }
    /* Whether all pages of a stretch of the file are in memory; 0 also where the kernel (before 6.5) does not tell. */
    static inline int all_cached(int fd, int64_t position, int64_t count) {
    #if defined(__linux__)
        uint64_t stretch[2] = {(uint64_t)position, (uint64_t)count};
        uint64_t pages[5]; /* cached, dirty, being written, evicted, recently evicted */
        if (syscall(451 /* cachestat */, fd, stretch, pages, 0UL))
            return 0;
        long size = sysconf(_SC_PAGESIZE);
        return pages[0] >= (uint64_t)((position + count - 1) / size - position / size + 1);
    #else
        (void)fd; (void)position; (void)count;
        return 0;
    #endif
    }
    #define bits_of(n) ((n) <= 0 ? 0 : 64 - __builtin_clzll((unsigned long long)(n)))
    """
    int64_t wall_ms() nogil
    int64_t monotonic_ns() nogil
    Py_ssize_t read_cached(int fd, char *to, size_t count, int64_t position) nogil
    int all_cached(int fd, int64_t position, int64_t count) nogil
    int bits_of(int64_t n) nogil

cdef enum:
    PRODUCE = 0
    FETCH = 1
    ID_BYTES = 16
    READ_COMMITTED = 1
    FIRST_WITH_ZSTD = 10
    #: Topics have names of up to 249 characters.
    MOST_NAME_BYTES = 249
    HEAD_BYTES = 512
    #: What a fetch of little reads, to have a small batch in one go.
    PROBE_BYTES = 4096
    #: Headers of a slice that is not read that are looked at to know where the next fetch will begin.
    MOST_HEADERS = 64

#: More is sent by `sendfile`, and less is copied: by then the call costs more than the bytes.
cdef int64_t MOST_COPIED = 16 << 10
cdef int64_t TIMED_BYTES = _TIMED_BYTES
cdef int64_t WARM_TAIL_BYTES = _WARM_TAIL_BYTES
cdef bytes NO_TAGS = b"\0\0\0"
cdef int UNUSUAL_MASK = COMPRESSION_MASK | TRANSACTIONAL_MASK | CONTROL_MASK
cdef object READ = AclOperation.READ
cdef object WRITE = AclOperation.WRITE
cdef object TOPIC = ResourceType.TOPIC
assert ApiKey.PRODUCE == PRODUCE and ApiKey.FETCH == FETCH


cdef struct Cursor:
    const uint8_t *at
    const uint8_t *end
    bint flexible


# Each returns whether what is there is of the common kind, and stands behind it if so.

cdef inline bint skip(Cursor *c, int64_t count) noexcept nogil:
    if c.end - c.at < count:
        return False
    c.at += count
    return True


cdef inline bint no_tags(Cursor *c) noexcept nogil:
    if not c.flexible:
        return True
    if c.end - c.at < 1 or c.at[0] != 0:
        return False
    c.at += 1
    return True


cdef inline bint length(Cursor *c, int plain_bytes, int64_t *found) noexcept nogil:
    """A length or count, in `plain_bytes` (2 or 4) where it is no varint; -1: null. Those beyond the end are refused."""
    cdef int64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    if c.flexible:
        while True:
            if c.end - c.at < 1 or shift > 21:
                return False
            byte = c.at[0]
            c.at += 1
            value |= <int64_t>(byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        value -= 1
    else:
        if c.end - c.at < plain_bytes:
            return False
        value = tl_i16(c.at) if plain_bytes == 2 else tl_i32(c.at)
        c.at += plain_bytes
    found[0] = value
    return -1 <= value <= c.end - c.at


cdef inline bint header(Cursor *c) noexcept nogil:
    """The client's id, which is told in the old form in each version, and tagged fields."""
    cdef int64_t size
    if c.end - c.at < 10:
        return False
    size = tl_i16(c.at + 8)
    c.at += 10
    return size >= -1 and skip(c, size if size > 0 else 0) and no_tags(c)


cdef inline uint8_t *put_length(uint8_t *at, int64_t value, bint flexible, int plain_bytes) noexcept nogil:
    cdef uint64_t rest
    if not flexible:
        if plain_bytes == 2:
            tl_put16(at, <int16_t>value)
        else:
            tl_put32(at, <int32_t>value)
        return at + plain_bytes
    rest = <uint64_t>(value + 1)
    while rest >= 0x80:
        at[0] = <uint8_t>(rest | 0x80)
        rest >>= 7
        at += 1
    at[0] = <uint8_t>rest
    return at + 1


cdef inline uint8_t *put_tags(uint8_t *at, bint flexible) noexcept nogil:
    if flexible:
        at[0] = 0
        return at + 1
    return at


cdef inline int64_t batch_size(const uint8_t *data, int64_t available) noexcept nogil:
    """Size of the batch of format 2 that begins here, all of which is available; else -1."""
    cdef int64_t size
    if available < RECORDS_AT or data[MAGIC_AT] != 2 or tl_i32(data + LAST_OFFSET_DELTA_AT) < 0:
        return -1
    size = LOG_OVERHEAD + <int64_t>tl_i32(data + LENGTH_AT)
    return size if RECORDS_AT <= size <= available else -1


cdef class QuickPath:
    """The quick way of one node's requests. Loop thread."""

    cdef object services, by_name, by_id, authorizer, quotas, counters, latencies, nanoseconds, sessions, sends, clock_ms, metered
    #: Requests that were answered here: Produce, Fetch.
    cdef readonly int64_t produces
    cdef readonly int64_t fetches
    cdef uint8_t probe[PROBE_BYTES]

    def __init__(self, services, metered):
        """`metered`: charges an answer to a client's quotas, as the dispatcher does."""
        self.services, self.metered = services, metered
        self.by_name, self.by_id = services.partitions.by_name, services.partitions.by_id
        self.authorizer, self.quotas = services.authorizer, services.quotas
        self.counters = services.counters
        self.latencies, self.nanoseconds = services.counters.latencies, services.counters.nanoseconds
        self.sessions = services.fetch_sessions
        self.sends = services.socket_server.send_counters
        self.clock_ms = None if type(services.time) is SystemTime else services.time.milliseconds

    def take(self, bytearray buffer not None, Py_ssize_t start, Py_ssize_t end, connection):
        """The answer to the request in buffer[start:end] as `Dispatcher.dispatch` would give it, or NotImplemented."""
        cdef const uint8_t *at = <const uint8_t *>PyByteArray_AS_STRING(buffer) + start
        cdef int version
        if not 0 <= start <= end <= PyByteArray_GET_SIZE(buffer) or end - start < 8 or at[0] != 0 or at[1] > FETCH:
            return NotImplemented
        version = tl_i16(at + 2)
        if at[1] == PRODUCE:
            return self.produce(buffer, start, end, version, connection) if 3 <= version <= 13 else NotImplemented
        return self.fetch(buffer, start, end, version, connection) if 4 <= version <= 18 else NotImplemented

    cdef object topic_of(self, const uint8_t *name, int64_t size, bint is_id):
        """The topic of that name or id; None: it is to be looked for, or is not there."""
        if is_id:
            return (<dict>self.by_id).get(PyBytes_FromStringAndSize(<const char *>name, ID_BYTES))
        try:
            return PyUnicode_DecodeUTF8(<const char *>name, size, NULL)
        except UnicodeDecodeError:
            return None

    cdef object partition_of(self, object topic, int32_t index):
        cdef object partitions = (<dict>self.by_name).get(topic)
        return None if partitions is None else (<dict>partitions).get(index)

    cdef int answered(self, int key, object connection) except -1:
        """Count a request that is answered now, as the dispatcher does."""
        cdef int64_t taken = monotonic_ns() - <int64_t>connection.last_active
        cdef list row = (<list>self.latencies)[key]
        row[bits_of(taken)] += 1
        (<list>self.nanoseconds)[key] += taken
        return 0

    cdef object produce(self, bytearray buffer, Py_ssize_t start, Py_ssize_t end, int version, object connection):
        cdef const uint8_t *base = <const uint8_t *>PyByteArray_AS_STRING(buffer)
        cdef Cursor c
        cdef int acks
        cdef int32_t index, correlation
        cdef int64_t count, name_size, size, now
        cdef const uint8_t *name
        cdef Py_ssize_t first
        cdef object topic, partition, log, key, info, job, meter = None, answer
        c.at, c.end, c.flexible = base + start, base + end, version >= 9
        correlation = tl_i32(c.at + 4)
        if not header(&c) or not length(&c, 2, &count) or count != -1 or c.end - c.at < 6:
            return NotImplemented
        acks = tl_i16(c.at)
        c.at += 6
        if not -1 <= acks <= 1 or not length(&c, 4, &count) or count != 1:
            return NotImplemented
        if version >= 13:
            name_size = ID_BYTES
        elif not length(&c, 2, &name_size) or not 0 < name_size <= MOST_NAME_BYTES:
            return NotImplemented
        name = c.at
        if not skip(&c, name_size) or not length(&c, 4, &count) or count != 1 or c.end - c.at < 4:
            return NotImplemented
        index = tl_i32(c.at)
        c.at += 4
        if not length(&c, 4, &size) or not RECORDS_AT < size <= TIMED_BYTES:
            return NotImplemented
        first = c.at - base
        if c.at[MAGIC_AT] != 2 or c.at[ATTRIBUTES_AT + 1] & UNUSUAL_MASK or not skip(&c, size):
            return NotImplemented
        if not no_tags(&c) or not no_tags(&c) or not no_tags(&c) or c.at != c.end:
            return NotImplemented

        topic = self.topic_of(name, name_size, version >= 13)
        partition = self.partition_of(topic, index)
        if partition is None or topic in INTERNAL_TOPICS or partition.offload.active:
            return NotImplemented
        log = partition.log
        if log.converts_batches or (acks < 0 and log.rules_config.min_insync_replicas > 1):
            return NotImplemented
        if self.authorizer is not None and not self.authorizer.is_known_to_allow(
            connection.principal, connection.peer_host, WRITE, TOPIC, topic
        ):
            return NotImplemented

        if self.quotas.active:
            meter = RequestMeter(self.quotas, buffer, start, end, PRODUCE, version, connection.user)
        key = PyBytes_FromStringAndSize(<const char *>name, ID_BYTES) if version >= 13 else topic
        try:
            info = log.append_as_leader(
                buffer, first, first + size, now=wall_ms() if self.clock_ms is None else self.clock_ms()
            )
        except Exception as error:
            job = self.job(version, correlation, acks, connection)
            job.failed(key, index, error)
            answer = job.answer()
        else:
            self.counters.produced_bytes += size
            self.counters.produced_records += (<tuple>info)[4]
            if log.needs_sync:
                partition.sync()
            elif partition.waiters:
                partition.wake()
            if acks == 0:
                answer = None
            elif log.high_watermark > (<tuple>info)[1]:
                answer = produce_answer(version, correlation, name, name_size, index, <tuple>info)
            else:
                job = self.job(version, correlation, acks, connection)
                job.appended(key, index, partition, info)
                answer = job.answer()
        self.produces += 1
        if meter is not None:
            answer = self.metered(answer, meter, connection)
        if answer is None or type(answer) is bytes:
            self.answered(PRODUCE, connection)
        else:
            connection.pending_key, connection.pending_since = PRODUCE, connection.last_active
        return answer

    cdef object job(self, int version, int32_t correlation, int acks, object connection):
        """What answers a request of one batch that was refused, or is not durable yet."""
        return ProduceJob(
            self.services.partitions, self.counters, version, correlation, None, acks, connection.client, 0
        )

    cdef object fetch(self, bytearray buffer, Py_ssize_t start, Py_ssize_t end, int version, object connection):
        cdef const uint8_t *base = <const uint8_t *>PyByteArray_AS_STRING(buffer)
        cdef const uint8_t *name = NULL
        cdef uint8_t *data
        cdef uint8_t head[HEAD_BYTES]
        cdef uint8_t *at
        cdef Cursor c
        cdef int32_t index = 0, correlation, session_id = 0, session_epoch = -1, leader_epoch = -1
        cdef int64_t topics, count, name_size = 0, offset = 0, most, least, wait, cap, partition_most = 0
        cdef int64_t position, left, high_watermark, log_start, limit, batch, passed, following = 0
        cdef Py_ssize_t total, probed
        cdef int fd
        cdef uint8_t behind[HEADER_UP_TO_MAGIC]
        cdef bint committed, copied, warm, is_sound = False
        cdef object session = None, wanted = None, topic, key, raw, partition, log, meter = None, segment, hints, hint, file
        cdef tuple high, segments
        cdef list parts = None
        cdef bytes answer
        c.at, c.end, c.flexible = base + start, base + end, version >= 12
        correlation = tl_i32(c.at + 4)
        if not header(&c) or c.end - c.at < (17 if version <= 14 else 13):
            return NotImplemented
        if version <= 14:
            c.at += 4  # no replica reads from us
        wait, least, most = tl_i32(c.at), tl_i32(c.at + 4), tl_i32(c.at + 8)
        if c.at[12] > READ_COMMITTED or most < 0:
            return NotImplemented
        committed = c.at[12] == READ_COMMITTED
        c.at += 13
        if version >= 7:
            if c.end - c.at < 8:
                return NotImplemented
            session_id, session_epoch = tl_i32(c.at), tl_i32(c.at + 4)
            c.at += 8
        if not length(&c, 4, &topics) or not 0 <= topics <= 1:
            return NotImplemented
        if topics:
            if version >= 13:
                name_size = ID_BYTES
            elif not length(&c, 2, &name_size) or name_size <= 0:
                return NotImplemented
            name = c.at
            if not skip(&c, name_size) or not length(&c, 4, &count) or count != 1:
                return NotImplemented
            if c.end - c.at < 16 + (8 if version >= 5 else 0) + (4 if version >= 9 else 0) + (4 if version >= 12 else 0):
                return NotImplemented
            index = tl_i32(c.at)
            c.at += 4
            if version >= 9:
                leader_epoch = tl_i32(c.at)
                c.at += 4
            offset = tl_i64(c.at)
            c.at += 8
            if version >= 12:
                c.at += 4
            if version >= 5:
                c.at += 8
            partition_most = tl_i32(c.at)
            c.at += 4
            if not no_tags(&c) or not no_tags(&c):
                return NotImplemented
        if version >= 7 and (not length(&c, 4, &count) or count != 0):
            return NotImplemented
        if version >= 11 and (not length(&c, 2, &count) or not skip(&c, count if count > 0 else 0)):
            return NotImplemented
        if not no_tags(&c) or c.at != c.end:
            return NotImplemented

        if session_epoch > 0 and session_id:
            session = self.sessions.single(session_id, session_epoch, version >= 13)
            if session is None:
                return NotImplemented
            ((key, wanted),) = session.partitions.items()
            raw, topic = key[0], None
            if version < 13:
                topic, raw = raw, (<str>raw).encode()
            if topics and (key[1] != index or PyBytes_FromStringAndSize(<const char *>name, name_size) != raw):
                return NotImplemented
            if not topics:
                index, leader_epoch = key[1], wanted.leader_epoch
                offset, partition_most = wanted.offset, wanted.max_bytes
                name, name_size = <const uint8_t *>PyBytes_AS_STRING(raw), len(<bytes>raw)
        elif session_id or session_epoch != -1 or not topics:
            return NotImplemented
        if partition_most < 0 or name_size > MOST_NAME_BYTES:
            return NotImplemented

        topic = self.topic_of(name, name_size, version >= 13)
        partition = self.partition_of(topic, index)
        if partition is None:
            return NotImplemented
        log = partition.log
        if leader_epoch >= 0 and leader_epoch != <int64_t>log.leader_epoch:
            return NotImplemented
        if version < FIRST_WITH_ZSTD and log.rules_config.compression_type == "zstd":
            return NotImplemented
        if self.quotas.active:
            meter = RequestMeter(self.quotas, buffer, start, end, FETCH, version, connection.user)
            most = min(most, <int64_t>self.quotas.most_fetched(meter.client_id, connection.user))
        most = min(most, <int64_t>self.services.fetch_max_bytes)
        cap = min(partition_most, most)

        # As `UnifiedLog.read` and `storage/log/reader.py`, where it is known in which place of a segment the offset is.
        high = <tuple>log.high  # a named one
        high_watermark = high[0]
        log_start = log.log_start_offset
        if not log_start <= offset < high_watermark or log.producers.ongoing or log.producers.unreplicated:
            return NotImplemented  # behind the second: the last stable offset is not the high watermark
        segments = log.segments
        segment = segments[len(segments) - 1]
        if segment.base_offset != high[1]:
            return NotImplemented
        limit = <int64_t>high[2]
        if offset < <int64_t>segment.base_offset:
            segment = segments[floor_index(segments, offset)]
            limit = INT64_MAX  # all of it lies below
        hints = segment.hints
        hint = (<dict>hints).get(offset)
        if hint is None:
            hint = segment.hint(offset)
            if hint is None:
                return NotImplemented
        position = hint
        left = min(<int64_t>segment.size, limit) - position
        if left < RECORDS_AT or (min(left, max(cap, PROBE_BYTES)) < min(least, most) and wait > 0):
            return NotImplemented
        try:
            if committed and not log.has_none_aborted_from(offset):
                return NotImplemented
            file = segment.lease_file()
        except Exception:  # the general way meets it too, and says what follows
            return NotImplemented
        try:
            fd = file.fileno()
            probed = 0
            count = min(left, cap)
            if cap < left and cap < PROBE_BYTES:
                # Perhaps less than a batch, and the first is sent whole: one look tells how large it is, and has its bytes.
                probed = read_cached(fd, <char *>&self.probe[0], min(left, PROBE_BYTES), position)
                batch = batch_size(&self.probe[0], min(probed, left))
                if batch < 0 and probed >= RECORDS_AT:
                    batch = batch_size(&self.probe[0], left)
                    probed = 0
                if batch < 0:
                    return NotImplemented
                count = max(cap, batch)
            if count < min(least, most) and wait > 0:
                return NotImplemented
            copied = count <= MOST_COPIED
            if not copied and meter is not None:
                return NotImplemented
            at = &head[4]
            tl_put32(at, correlation)
            at = put_tags(at + 4, c.flexible)
            tl_put32(at, 0)  # not throttled
            at += 4
            if version >= 7:
                tl_put16(at, 0)
                tl_put32(at + 2, session_id)
                at += 6
            at = put_length(at, 1, c.flexible, 4)
            if version < 13:
                at = put_length(at, name_size, c.flexible, 2)
            memcpy(at, name, name_size)
            at = put_length(at + name_size, 1, c.flexible, 4)
            tl_put32(at, index)
            tl_put16(at + 4, 0)
            tl_put64(at + 6, high_watermark)
            tl_put64(at + 14, high_watermark)
            at += 22
            if version >= 5:
                tl_put64(at, log_start)
                at += 8
            at = put_length(at, 0 if committed else -1, c.flexible, 4)  # aborted transactions: none, or not asked for
            if version >= 11:
                tl_put32(at, -1)
                at += 4
            at = put_length(at, count, c.flexible, 4)
            total = (at - &head[0]) + count + (3 if c.flexible else 0)
            tl_put32(&head[0], <int32_t>(total - 4))
            answer = PyBytes_FromStringAndSize(NULL, total if copied else at - &head[0])
            memcpy(PyBytes_AS_STRING(answer), &head[0], at - &head[0])
            data = NULL
            if copied:
                data = <uint8_t *>PyBytes_AS_STRING(answer) + (at - &head[0])
                if c.flexible:
                    data[count] = data[count + 1] = data[count + 2] = 0
                if probed:
                    memcpy(data, &self.probe[0], count)
                elif read_cached(fd, <char *>data, count, position) != count:
                    return NotImplemented
            passed = 0
            if count < left:  # where the next fetch will begin
                passed = self.whole_batches(fd, data, position, count, &following)
                if passed == 0:
                    return NotImplemented
                # As `begins_from` in storage/segment/file_records.py. What is not in memory is not known to be sound.
                if read_cached(fd, <char *>&behind[0], HEADER_UP_TO_MAGIC, position + passed) == HEADER_UP_TO_MAGIC:
                    if behind[MAGIC_AT] > 2 or tl_i32(&behind[LENGTH_AT]) <= 0 or tl_i64(&behind[0]) < following:
                        return NotImplemented
                    is_sound = True
            # Last, since it is counted; who may not read gets nothing of what was read.
            if self.authorizer is not None and not self.authorizer.is_known_to_allow(
                connection.principal, connection.peer_host, READ, TOPIC, topic
            ):
                return NotImplemented
            if not copied:
                warm = (limit != INT64_MAX and <int64_t>segment.size - position <= WARM_TAIL_BYTES) or all_cached(
                    fd, position, count
                )
                parts = [answer, FileSlice(file, position, count, warm)]
                file = None  # the slice has the lease now
                if c.flexible:
                    parts.append(NO_TAGS)
        except OSError:
            return NotImplemented
        finally:
            if file is not None:
                file.release()
        if passed and is_sound:
            segment.note_hint(hints, following, position + passed)

        if session is not None:
            self.sessions.step(session)
            wanted.leader_epoch, wanted.offset, wanted.max_bytes = leader_epoch, offset, partition_most
            wanted.changed(0, high_watermark, log_start, True)
        self.counters.fetched_bytes += count
        self.fetches += 1
        if not copied:
            self.answered(FETCH, connection)
            return parts
        self.sends.copy_fetch_bytes += count
        if meter is not None:
            told = self.metered(answer, meter, connection)
            self.answered(FETCH, connection)
            return told
        self.answered(FETCH, connection)
        return answer

    cdef int64_t whole_batches(self, int fd, const uint8_t *data, int64_t position, int64_t count, int64_t *following):
        """Bytes of the whole batches at the start of a slice, and the offset behind them; 0: there is none, or it is not known.

        `data`: the slice, or NULL where it is not in this process's memory: then headers are read from the page cache.
        """
        cdef uint8_t header[RECORDS_AT]
        cdef const uint8_t *at
        cdef int64_t passed = 0, size
        cdef int looked = 0
        while count - passed >= RECORDS_AT and (data != NULL or looked < MOST_HEADERS):
            looked += 1
            at = data + passed
            if data == NULL:
                at = &header[0]
                if read_cached(fd, <char *>at, RECORDS_AT, position + passed) != RECORDS_AT:
                    break
            size = batch_size(at, count - passed)
            if size < 0:
                break
            passed += size
            following[0] = tl_i64(at) + tl_i32(at + LAST_OFFSET_DELTA_AT) + 1
        return passed


cdef bytes produce_answer(
    int version, int32_t correlation, const uint8_t *name, int64_t name_size, int32_t index, tuple info
):
    """The frame that tells one partition's append, `LogAppendInfo`, to have gone well."""
    cdef uint8_t frame[HEAD_BYTES]
    cdef bint flexible = version >= 9
    cdef uint8_t *at = &frame[4]
    tl_put32(at, correlation)
    at = put_tags(at + 4, flexible)
    at = put_length(at, 1, flexible, 4)
    if version < 13:
        at = put_length(at, name_size, flexible, 2)
    memcpy(at, name, name_size)
    at = put_length(at + name_size, 1, flexible, 4)
    tl_put32(at, index)
    tl_put16(at + 4, 0)
    tl_put64(at + 6, <int64_t>info[0])
    tl_put64(at + 14, <int64_t>info[2])
    at += 22
    if version >= 5:
        tl_put64(at, <int64_t>info[3])
        at += 8
    if version >= 8:
        at = put_length(at, 0, flexible, 4)  # records at fault
        at = put_length(at, -1, flexible, 2)  # and why
    at = put_tags(put_tags(at, flexible), flexible)
    tl_put32(at, 0)  # not throttled
    at = put_tags(at + 4, flexible)
    tl_put32(&frame[0], <int32_t>(at - &frame[4]))
    return PyBytes_FromStringAndSize(<char *>&frame[0], at - &frame[0])
