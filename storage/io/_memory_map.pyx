# cython: language_level=3
"""A file's bytes as memory, without a descriptor: what `mmap.mmap` would be if it did not keep one (until Python 3.13).

Two indexes a partition are mapped for as long as it is written to. With a descriptor each, ten thousand partitions need
thirty thousand of what systems often give twenty thousand of.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_FillInfo
from libc.errno cimport errno

import errno as _errno
import os

cdef extern from "<sys/mman.h>" nogil:
    void *mmap(void *address, size_t length, int protection, int flags, int fd, long offset)
    int munmap(void *address, size_t length)
    int madvise(void *address, size_t length, int advice)
    void *MAP_FAILED
    int PROT_READ
    int PROT_WRITE
    int MAP_SHARED
    int MADV_RANDOM


cdef class MemoryMap:
    """`size` bytes of an open file from its start, shared with it. The descriptor may be closed afterwards.

    Exports the buffer protocol. Any thread; whoever closes it must know that nobody starts to read at that moment, as with
    `mmap.mmap`.
    """

    cdef char *_address
    cdef size_t _size
    cdef Py_ssize_t _exports
    cdef bint _writable

    def __cinit__(self, int fd, size_t size, bint writable):
        """OSError when it can't be mapped; ValueError for no bytes at all."""
        self._address = NULL
        if size == 0:
            raise ValueError("no bytes to map")
        cdef void *address = mmap(NULL, size, PROT_READ | (PROT_WRITE if writable else 0), MAP_SHARED, fd, 0)
        if address == MAP_FAILED:
            raise OSError(errno, os.strerror(errno))
        self._address = <char *> address
        self._size = size
        self._writable = writable

    def __dealloc__(self):
        if self._address != NULL:
            munmap(self._address, self._size)

    def __len__(self):
        return self._size

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if self._address == NULL:
            raise ValueError("the map is closed")
        if flags & PyBUF_WRITABLE == PyBUF_WRITABLE and not self._writable:
            raise BufferError("the map is read-only")
        PyBuffer_FillInfo(buffer, self, self._address, self._size, not self._writable, flags)
        self._exports += 1

    def __releasebuffer__(self, Py_buffer *buffer):
        self._exports -= 1

    @property
    def closed(self):
        return self._address == NULL

    def expect_random_access(self):
        """No reading ahead: the first touch of a hole would fill megabytes with zeros."""
        if self._address != NULL and madvise(self._address, self._size, MADV_RANDOM) and errno != _errno.EINVAL:
            raise OSError(errno, os.strerror(errno))

    def close(self):
        """Unmaps. BufferError while somebody has a view of it."""
        if self._exports:
            raise BufferError(f"{self._exports} views of the map are in use")
        if self._address != NULL:
            munmap(self._address, self._size)
            self._address = NULL
