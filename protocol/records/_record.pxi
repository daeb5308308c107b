# A record of format 2, read and checked: for the kernels that look into batches. Behind _records.pxi.

cdef enum Fault:
    SOUND
    BAD_VARINT
    BAD_LENGTH
    EMPTY
    BAD_FIELD
    BAD_HEADER_COUNT
    NULL_HEADER_KEY
    BYTES_BEHIND
    WRONG_OFFSET
    LEFT_OVER
    # These two belong to a record that can be read: the batch is walked to its end first.
    NO_KEY
    WRONG_TIME

_FAULTS = {
    BAD_VARINT: "has a varint that is cut off or too long",
    BAD_LENGTH: "claims more bytes than are left",
    EMPTY: "is empty",
    BAD_FIELD: "has a field that claims more bytes than are left",
    BAD_HEADER_COUNT: "claims more headers than it has bytes",
    NULL_HEADER_KEY: "has a header with a null key",
    BYTES_BEHIND: "has bytes behind its headers",
    WRONG_OFFSET: "does not have its place in the batch as offset delta",
}

cdef struct RawRecord:
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t key_size  # −1: null
    int32_t value_size
    const uint8_t *key
    const uint8_t *value


cdef inline const uint8_t *read_record(
    const uint8_t *p, const uint8_t *limit, RawRecord *out, Fault *fault
) noexcept nogil:
    """Position behind the record at p; NULL with `fault` set when it is broken."""
    cdef int32_t length, count
    cdef int64_t i
    cdef const uint8_t *end
    p = tl_varint(p, limit, &length)
    if p == NULL:
        fault[0] = BAD_VARINT
        return NULL
    if length <= 0 or length > limit - p:
        fault[0] = EMPTY if length == 0 else BAD_LENGTH
        return NULL
    end = p + length
    p = tl_varlong(p + 1, end, &out.timestamp_delta)  # + 1: attributes, none are defined
    if p != NULL:
        p = tl_varint(p, end, &out.offset_delta)
    if p != NULL:
        p = tl_varint(p, end, &length)
    if p == NULL:
        fault[0] = BAD_VARINT
        return NULL
    out.key = p
    out.key_size = length
    if length > 0:
        if length > end - p:
            fault[0] = BAD_FIELD
            return NULL
        p += length
    elif length < -1:
        fault[0] = BAD_FIELD
        return NULL
    p = tl_varint(p, end, &length)
    if p == NULL:
        fault[0] = BAD_VARINT
        return NULL
    out.value = p
    out.value_size = length
    if length > 0:
        if length > end - p:
            fault[0] = BAD_FIELD
            return NULL
        p += length
    elif length < -1:
        fault[0] = BAD_FIELD
        return NULL
    p = tl_varint(p, end, &count)
    if p == NULL:
        fault[0] = BAD_VARINT
        return NULL
    if count != 0:
        if count < 0 or count > end - p:
            fault[0] = BAD_HEADER_COUNT
            return NULL
        for i in range(2 * <int64_t>count):  # keys and values in turn
            p = tl_varint(p, end, &length)
            if p == NULL:
                fault[0] = BAD_VARINT
                return NULL
            if length < 0:
                if length < -1:
                    fault[0] = BAD_FIELD
                    return NULL
                if i & 1 == 0:
                    fault[0] = NULL_HEADER_KEY
                    return NULL
            else:
                if length > end - p:
                    fault[0] = BAD_FIELD
                    return NULL
                p += length
    if p != end:
        fault[0] = BYTES_BEHIND
        return NULL
    return p
