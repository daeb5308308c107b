# What the kernels share, included by each: the C of _records.h, and the ruler of record_batch as C constants.

cdef extern from "_records.h":
    int16_t tl_i16(const uint8_t *p) noexcept nogil
    int32_t tl_i32(const uint8_t *p) noexcept nogil
    uint32_t tl_u32(const uint8_t *p) noexcept nogil
    int64_t tl_i64(const uint8_t *p) noexcept nogil
    int64_t tl_add(int64_t a, int64_t b) noexcept nogil
    void tl_put16(uint8_t *p, uint32_t v) noexcept nogil
    void tl_put32(uint8_t *p, uint32_t v) noexcept nogil
    void tl_put64(uint8_t *p, uint64_t v) noexcept nogil
    uint32_t tl_crc32c(uint32_t crc, const uint8_t *p, size_t n) noexcept nogil
    void tl_crc32c_start() noexcept nogil
    bint tl_has_hardware
    bint tl_use_hardware
    const uint8_t *tl_varint(const uint8_t *p, const uint8_t *end, int32_t *out) noexcept nogil
    const uint8_t *tl_varlong(const uint8_t *p, const uint8_t *end, int64_t *out) noexcept nogil
    uint8_t *tl_put_varlong(uint8_t *p, int64_t value) noexcept nogil
    int tl_varlong_size(int64_t value) noexcept nogil

cdef enum:
    LOG_OVERHEAD = 12
    HEADER_UP_TO_MAGIC = 17
    RECORD_BATCH_OVERHEAD = 61
    MIN_MESSAGE_SIZE = 14
    LENGTH_AT = 8
    PARTITION_LEADER_EPOCH_AT = 12
    MAGIC_AT = 16
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    LAST_OFFSET_DELTA_AT = 23
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    PRODUCER_ID_AT = 43
    PRODUCER_EPOCH_AT = 51
    BASE_SEQUENCE_AT = 53
    RECORD_COUNT_AT = 57
    RECORDS_AT = 61
    COMPRESSION_MASK = 0x07
    TIMESTAMP_TYPE_MASK = 0x08
    TRANSACTIONAL_MASK = 0x10
    CONTROL_MASK = 0x20
    DELETE_HORIZON_MASK = 0x40
    LAST_CODEC = 4
