# Messages of formats 0 and 1 for the kernels: zlib's checksum, and the ruler of legacy_record as C constants. Behind _records.pxi.

cdef extern from "_crc32.h":
    uint32_t tl_crc32(const uint8_t *p, size_t n) noexcept nogil
    void tl_crc32_start() noexcept nogil

# The ruler of legacy_record once more.
cdef enum:
    LEGACY_CRC_AT = 12
    LEGACY_ATTRIBUTES_AT = 17
    LEGACY_TIMESTAMP_AT = 18
    KEY_AT_V0 = 18
    KEY_AT_V1 = 26
    MIN_MESSAGE_SIZE_V1 = 22
