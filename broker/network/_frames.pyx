# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The part of a connection that runs for each read of its socket, compiled: the buffer to read into, whole frames to their
dispatcher, one answer to the socket. `connection.py` has all else, and says what is promised; nothing is decided here that is
not told there.

A Kafka frame is a big-endian int32 size and so many bytes:

    0      4
    | size | request ...... | size | request ...

Loop thread. A read of the socket that holds one request whose answer is bytes costs no frame of Python here.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from ...protocol.framing import FrameTooLargeError, frame_end
from ..runtime.exceptions import ConnectionAborted, RequestDeferred
from .connection_state import State
from .fair_queue import HEAVY_NS as _HEAVY_NS
from .fair_queue import HEAVY_SLICE_NS as _HEAVY_SLICE_NS
from .fair_queue import LONGEST_NS as _LONGEST_NS
from .fair_queue import MEAN_SHIFT as _MEAN_SHIFT
from .outbound import BYTES_PER_TURN as _BYTES_PER_TURN
from .outbound import Outbound

include "../../protocol/records/_records.pxi"

cdef extern from *:
    """
    #include <sys/socket.h>
    #if defined(__linux__)
    #include <sys/sendfile.h>
    #define MORE (MSG_MORE | MSG_NOSIGNAL)
    #define WHOLE MSG_NOSIGNAL
    static inline Py_ssize_t send_file(int to, int from, int64_t position, size_t count) {
        off_t at = (off_t)position;
        return sendfile(to, from, &at, count);
    }
    #else /* `Outbound` does it */
    #define MORE 0
    #define WHOLE 0
    static inline Py_ssize_t send_file(int to, int from, int64_t position, size_t count) {
        (void)to; (void)from; (void)position; (void)count;
        return -1;
    }
    #endif
    """
    int MORE
    int WHOLE
    Py_ssize_t send(int to, const char *data, size_t count, int flags) nogil
    Py_ssize_t send_file(int to, int file, int64_t position, size_t count) nogil

cdef object READY = State.READY
cdef object CLOSED = State.CLOSED
cdef object LEAVING = State.LEAVING
cdef int64_t HEAVY_NS = _HEAVY_NS
cdef int64_t HEAVY_SLICE_NS = _HEAVY_SLICE_NS
cdef int64_t LONGEST_NS = _LONGEST_NS
cdef int MEAN_SHIFT = _MEAN_SHIFT
cdef int64_t BYTES_PER_TURN = _BYTES_PER_TURN
cdef enum:
    SIZE_BYTES = 4
    #: Answers of one chunk are sent when this many parts have gathered (or connection.outbound.max.bytes), which bounds what a
    #: burst of small requests queues.
    PARTS_PER_WRITE = 128
    #: Some more than a heavy client may send light ones in between.
    WATCHED_READS = 64
    #: What an answer may have beside the slices that fill a turn.
    HEADS_BYTES = 4096


cdef class FrameReader:
    """State and methods of `Connection` that each read of its socket needs. Not used by itself."""

    cdef public object _server
    cdef public object _dispatcher
    cdef public object _outbound
    #: A buffer of its own while a request is incomplete or pending; None: the shared scratch is used.
    cdef public object _buffer
    cdef public object _state
    #: Timer or ticket that the next request waits for; set in other states than MUTED too.
    cdef public object _muted
    #: Its requests took the loop for long: the next ones wait for their turn. None: it has had none yet, and waits too where
    #: others do.
    cdef public object _is_heavy
    #: In the mean, nanoseconds of the loop thread that a read of the socket took; -1: none yet.
    cdef public int64_t _mean_ns
    #: So many reads to come are measured by the thread's own clock: the first, and those after one that took long by the wall's.
    cdef public int _watched_reads
    #: When something came last, `perf_counter_ns`.
    cdef public int64_t last_active

    def get_buffer(self, Py_ssize_t sizehint):
        """Where the loop reads to, as `asyncio.BufferedProtocol`."""
        if self._buffer is None:
            if self._state is READY or self._state >= LEAVING:
                return self._server.scratch_view
            self._take_waiting_buffer()
        return self._buffer.free

    def buffer_updated(self, Py_ssize_t nbytes):
        """So many bytes have come, as `asyncio.BufferedProtocol`."""
        cdef object server = self._server
        cdef object buffer
        cdef Py_ssize_t used, end
        if self._state is not READY and self._state >= LEAVING:
            return
        server.received_bytes += nbytes
        self.last_active = server.now()
        if self._is_heavy is not False:
            server.heavy_bytes += nbytes
            if self._muted is None and (self._is_heavy or server.fair_queue.has_row):
                self._join_fair_queue()
        buffer = self._buffer
        if buffer is None:
            # While an answer is pending, what comes is only kept: handling it now would answer it first.
            used = self.handle(server.scratch, 0, nbytes, self.last_active) if self._state is READY else 0
            if used < nbytes and self._state < LEAVING:
                self._keep(server.scratch, used, nbytes)
            return
        end = buffer.end + nbytes
        buffer.end = end
        if end < buffer.frame_end and end < buffer.capacity:
            return
        if self._state is READY:
            self._advance(buffer)
        elif end == buffer.capacity:
            self._pause()

    def _process(self, bytearray buffer not None, Py_ssize_t start, Py_ssize_t end):
        """Handles the whole frames in buffer[start:end]; returns where the first one begins that was not handled."""
        return self.handle(buffer, start, end, self._server.now())

    cdef Py_ssize_t handle(self, bytearray buffer, Py_ssize_t start, Py_ssize_t end, int64_t began) except -1:
        cdef object server = self._server
        cdef object now = server.now
        cdef object dispatcher = self._dispatcher
        cdef object quick = dispatcher.quick
        cdef object dispatch = dispatcher.dispatch
        cdef int64_t limit = server.max_request_bytes, most = server.max_outbound_bytes
        cdef int64_t gathered = 0, size, watched = -1
        cdef int64_t longest = HEAVY_SLICE_NS if self._is_heavy is True else LONGEST_NS
        cdef bint sliced = False
        cdef Py_ssize_t position = start, frame = start, following
        cdef object answer, single = None
        cdef list parts = None
        if end > PyByteArray_GET_SIZE(buffer):
            raise ValueError("more bytes than the buffer has")
        if self._watched_reads:
            watched = server.thread_now()
        while position < end:
            frame = position + SIZE_BYTES
            try:
                if frame > end or (size := tl_i32(<const uint8_t *>PyByteArray_AS_STRING(buffer) + position)) < 0 or size > limit:
                    frame_end(buffer, position, end, limit)  # raises where the size is none
                    break
                following = frame + size
                if following > end:
                    break
                position = following
                answer = NotImplemented if quick is None else quick(buffer, frame, following, self)
                if answer is NotImplemented:
                    answer = dispatch(buffer, frame, following, self)
            except RequestDeferred:
                position = frame - SIZE_BYTES
                break
            except (ConnectionAborted, FrameTooLargeError) as error:
                parts = _gathered(parts, single)
                if isinstance(error, ConnectionAborted) and error.answer:
                    parts.append(error.answer)
                self._flush(parts, sliced)
                self._abort(str(error))
                return end
            if answer is None:
                pass
            elif type(answer) is bytes:
                gathered += len(<bytes> answer)
                if parts is not None:
                    parts.append(answer)
                elif single is None:
                    single = answer
                else:
                    parts = [single, answer]
            elif type(answer) is list:
                parts = _gathered(parts, single)
                parts.extend(answer)
                sliced = True
            else:
                self.flush_gathered(parts, single, sliced)
                self._wait(answer)
                return position
            if self._state is not READY:
                break
            if position < end and now() - began > longest:
                self._join_fair_queue()
                break
            if gathered >= most or (parts is not None and len(parts) >= PARTS_PER_WRITE):
                if not self.flush_gathered(parts, single, sliced):
                    self.measure(<int64_t> now() - began, watched)
                    return position
                if self._state is CLOSED:
                    return end
                parts = single = None
                gathered = 0
                sliced = False
        if position != start:  # looking at a part of a request says nothing of what it takes
            self.measure(<int64_t> now() - began, watched)
        self.flush_gathered(parts, single, sliced)
        return position

    cdef int measure(self, int64_t took, int64_t watched) except -1:
        """Note that a read took so many nanoseconds of the wall's clock; `watched`: where the thread's stood before, or -1.

        On a busy machine the wall's time has others' turns in it. So one that is long by it counts for nothing, but has the next
        reads measured by the thread's clock, which is a system call, and what that says counts; so does the first read of a
        connection. A short one is short by either.
        """
        cdef int64_t mean = self._mean_ns
        if watched >= 0:
            took = <int64_t> self._server.thread_now() - watched
            self._watched_reads = WATCHED_READS if took > HEAVY_NS else self._watched_reads - 1
        elif took > HEAVY_NS:
            self._watched_reads = WATCHED_READS
            return 0
        self._mean_ns = mean = took if mean < 0 else mean + ((took - mean) >> MEAN_SHIFT)
        self._is_heavy = mean > HEAVY_NS
        return 0

    cdef bint flush_gathered(self, list parts, object single, bint sliced) except -1:
        """Sends what has gathered: `parts`, or if that is None the one answer in `single`, if any. As `_flush`."""
        cdef object outbound, sent
        if parts is not None:
            return self.flush_slices(parts) if sliced else self._flush(parts, False)
        if single is None:
            return True
        outbound = self._outbound
        if type(outbound) is not Outbound or self._state is CLOSED or outbound.queue:
            return self._flush([single], False)
        try:
            sent = outbound.send(single)
        except OSError:  # the next try meets it too, and does what follows from it
            return self._flush([single], False)
        outbound.counters.sent_bytes += sent
        if <Py_ssize_t> sent < len(<bytes> single):
            return self._flush([single[sent:]], False)
        return True


    cdef bint flush_slices(self, list parts) except -1:
        """Sends answers of which some are slices of files. As `_flush`, which gets what does not go out here at once: of cold
        pages, for a socket that is full, or more than one connection may send in its turn.
        """
        cdef object outbound = self._outbound, part, file
        cdef int64_t total = 0, count, position
        cdef Py_ssize_t sent = 0, at = 0
        cdef int to, source
        if type(outbound) is not Outbound or self._state is CLOSED or outbound.queue or (to := outbound.descriptor) < 0:
            return self._flush(parts, True)
        for part in parts:
            total += len(<bytes> part) if type(part) is bytes else <int64_t> part.count
        if total > BYTES_PER_TURN + HEADS_BYTES:
            return self._flush(parts, True)
        total = 0
        while at < len(parts):
            part = parts[at]
            if type(part) is bytes:
                count = len(<bytes> part)
                sent = send(to, PyBytes_AS_STRING(part), count, WHOLE if at + 1 == len(parts) else MORE)
                if sent < count:
                    if sent > 0:
                        parts[at] = (<bytes> part)[sent:]
                    break
            else:
                count, position, file = part.count, part.position, part.file
                if <int64_t> part.warm_until - position < count:
                    sent = 0
                    break
                source = file.fileno()
                with nogil:
                    sent = send_file(to, source, position, count)
                if sent < count:
                    if sent > 0:
                        part.position, part.count = position + sent, count - sent
                        outbound.counters.sendfile_bytes += sent
                    break
                outbound.counters.sendfile_bytes += sent
                file.release()
            total += sent
            at += 1
        if sent > 0 and at < len(parts):
            total += sent
        outbound.counters.sent_bytes += total
        return True if at == len(parts) else self._flush(parts[at:], True)


cdef list _gathered(list parts, object single):
    if parts is not None:
        return parts
    return [] if single is None else [single]
