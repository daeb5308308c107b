/* The C that every kernel needs for record batches: big-endian fields, zig-zag varints, CRC-32C. Static and inline
 * throughout: whoever includes it has a copy of its own, and calls tl_crc32c_start() once before the first checksum.
 *
 * Reads of varints are bounded by `end` and give NULL for what is cut off or too long. The layouts themselves are in
 * record_batch.py. */
#ifndef TIDELOG_RECORDS_H
#define TIDELOG_RECORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

/* ---- big-endian fields; compilers make one instruction of each --------------------------------------------- */
static inline uint32_t tl_u32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static inline uint64_t tl_u64(const uint8_t *p) { return (uint64_t)tl_u32(p) << 32 | tl_u32(p + 4); }
static inline int16_t tl_i16(const uint8_t *p) { return (int16_t)((uint16_t)p[0] << 8 | p[1]); }
static inline int32_t tl_i32(const uint8_t *p) { return (int32_t)tl_u32(p); }
static inline int64_t tl_i64(const uint8_t *p) { return (int64_t)tl_u64(p); }
static inline void tl_put16(uint8_t *p, uint16_t v) { p[0] = (uint8_t)(v >> 8); p[1] = (uint8_t)v; }
static inline void tl_put32(uint8_t *p, uint32_t v) { tl_put16(p, (uint16_t)(v >> 16)); tl_put16(p + 2, (uint16_t)v); }
static inline void tl_put64(uint8_t *p, uint64_t v) { tl_put32(p, (uint32_t)(v >> 32)); tl_put32(p + 4, (uint32_t)v); }
/* Sums that wrap, as Kafka's do; signed overflow would be undefined. */
static inline int64_t tl_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

/* ---- CRC-32C ------------------------------------------------------------------------------------------------ */
/* Reflected Castagnoli polynomial. In this form bit 31 stands for x^0. */
#define TL_POLY 0x82f63b78u
/* The CRC instruction takes one word a cycle but answers after three: three lanes keep it busy. A lane's length is
   one of three, so that short batches profit too; lanes are joined by appending a lane's length of zeros. */
#define TL_LONG 4096
#define TL_MIDDLE 512
#define TL_SHORT 64

static uint32_t tl_bytes[8][256];
static uint32_t tl_zeros_long[4][256], tl_zeros_middle[4][256], tl_zeros_short[4][256];
static int tl_has_hardware, tl_use_hardware;

static uint32_t tl_multiply(uint32_t a, uint32_t b) { /* polynomials modulo TL_POLY; a is never 0 here */
    uint32_t mask = 1u << 31, product = 0;
    for (;;) {
        if (a & mask) {
            product ^= b;
            if ((a & (mask - 1)) == 0) return product;
        }
        mask >>= 1;
        b = b & 1 ? (b >> 1) ^ TL_POLY : b >> 1;
    }
}
static void tl_make_zeros(uint32_t table[4][256], size_t length) {
    uint32_t power = 1u << 31, square = 1u << 30; /* x^0 and x^1 */
    size_t bits = length * 8;
    for (; bits; bits >>= 1) {
        if (bits & 1) power = tl_multiply(square, power);
        square = tl_multiply(square, square);
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int k = 0; k < 4; k++) table[k][n] = tl_multiply(power, n << (8 * k));
}
static inline uint32_t tl_append_zeros(uint32_t table[4][256], uint32_t crc) {
    return table[0][crc & 0xff] ^ table[1][crc >> 8 & 0xff] ^ table[2][crc >> 16 & 0xff] ^ table[3][crc >> 24];
}

static uint32_t tl_crc32c_table(uint32_t crc, const uint8_t *p, size_t n) {
    crc = ~crc;
    while (n >= 8) { /* slicing by 8: eight look-ups that do not wait for one another */
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = tl_bytes[7][low & 0xff] ^ tl_bytes[6][low >> 8 & 0xff] ^ tl_bytes[5][low >> 16 & 0xff]
            ^ tl_bytes[4][low >> 24] ^ tl_bytes[3][p[4]] ^ tl_bytes[2][p[5]] ^ tl_bytes[1][p[6]] ^ tl_bytes[0][p[7]];
        p += 8;
        n -= 8;
    }
    while (n--) crc = crc >> 8 ^ tl_bytes[0][(crc ^ *p++) & 0xff];
    return ~crc;
}

/* In assembler, because compilers disagree on what enables the intrinsics; only called where the processor has it. */
#if defined(__x86_64__)
#define TL_HARDWARE
#define TL_STEP8(crc, word) __asm__("crc32q %1, %0" : "+r"(crc) : "rm"(word))
#define TL_STEP1(crc, byte) __asm__("crc32b %1, %k0" : "+r"(crc) : "rm"(byte))
#elif defined(__aarch64__)
#define TL_HARDWARE
#define TL_STEP8(crc, word) __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word))
#define TL_STEP1(crc, byte) \
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)(byte)))
#endif

#ifdef TL_HARDWARE
static inline uint64_t tl_word(const uint8_t *p) { uint64_t word; memcpy(&word, p, 8); return word; }

#define TL_LANES(LENGTH, TABLE) \
    while (n >= 3 * LENGTH) { \
        uint64_t second = 0, third = 0; \
        const uint8_t *stop = p + LENGTH; \
        do { \
            uint64_t a = tl_word(p), b = tl_word(p + LENGTH), c = tl_word(p + 2 * LENGTH); \
            TL_STEP8(crc, a); \
            TL_STEP8(second, b); \
            TL_STEP8(third, c); \
            p += 8; \
        } while (p < stop); \
        crc = tl_append_zeros(TABLE, (uint32_t)crc) ^ second; \
        crc = tl_append_zeros(TABLE, (uint32_t)crc) ^ third; \
        p += 2 * LENGTH; \
        n -= 3 * LENGTH; \
    }

static uint32_t tl_crc32c_hardware(uint32_t start, const uint8_t *p, size_t n) {
    uint64_t crc = (uint32_t)~start;
    TL_LANES(TL_LONG, tl_zeros_long)
    TL_LANES(TL_MIDDLE, tl_zeros_middle)
    TL_LANES(TL_SHORT, tl_zeros_short)
    while (n >= 8) {
        uint64_t word = tl_word(p);
        TL_STEP8(crc, word);
        p += 8;
        n -= 8;
    }
    while (n--) {
        uint8_t byte = *p++;
        TL_STEP1(crc, byte);
    }
    return ~(uint32_t)crc;
}
#endif

static inline uint32_t tl_crc32c(uint32_t crc, const uint8_t *p, size_t n) {
#ifdef TL_HARDWARE
    if (tl_use_hardware) return tl_crc32c_hardware(crc, p, n);
#endif
    return tl_crc32c_table(crc, p, n);
}

static void tl_crc32c_start(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ TL_POLY : crc >> 1;
        tl_bytes[0][n] = crc;
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int k = 1; k < 8; k++)
            tl_bytes[k][n] = tl_bytes[k - 1][n] >> 8 ^ tl_bytes[0][tl_bytes[k - 1][n] & 0xff];
    tl_make_zeros(tl_zeros_long, TL_LONG);
    tl_make_zeros(tl_zeros_middle, TL_MIDDLE);
    tl_make_zeros(tl_zeros_short, TL_SHORT);
#if defined(__x86_64__)
    unsigned int eax, ebx, ecx, edx;
    tl_has_hardware = __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & (1u << 20)) != 0; /* SSE4.2 */
#elif defined(__aarch64__) && defined(__linux__)
    tl_has_hardware = (getauxval(AT_HWCAP) & (1 << 7)) != 0; /* HWCAP_CRC32 */
#elif defined(__aarch64__) && defined(__APPLE__)
    tl_has_hardware = 1; /* every Apple core has it */
#endif
    tl_use_hardware = tl_has_hardware;
}

/* ---- varints -------------------------------------------------------------------------------------------------- */
/* Position behind the varint at p, NULL when it is malformed: cut off, a sixth byte, or a 33rd bit. */
static inline const uint8_t *tl_varint(const uint8_t *p, const uint8_t *end, int32_t *out) {
    uint32_t raw, byte;
    int shift = 7;
    if (p >= end) return NULL;
    raw = *p++;
    if (raw >= 0x80) {
        raw &= 0x7f;
        for (;;) {
            if (p >= end) return NULL;
            byte = *p++;
            if (shift == 28 && byte > 0x0f) return NULL;
            raw |= (byte & 0x7f) << shift;
            if (byte < 0x80) break;
            shift += 7;
        }
    }
    *out = (int32_t)((raw >> 1) ^ (0 - (raw & 1)));
    return p;
}
/* The same for 64 bits. */
static inline const uint8_t *tl_varlong(const uint8_t *p, const uint8_t *end, int64_t *out) {
    uint64_t raw, byte;
    int shift = 7;
    if (p >= end) return NULL;
    raw = *p++;
    if (raw >= 0x80) {
        raw &= 0x7f;
        for (;;) {
            if (p >= end) return NULL;
            byte = *p++;
            if (shift == 63 && byte > 0x01) return NULL;
            raw |= (byte & 0x7f) << shift;
            if (byte < 0x80) break;
            shift += 7;
        }
    }
    *out = (int64_t)((raw >> 1) ^ (0 - (raw & 1)));
    return p;
}
/* Writes a varlong (a varint is the same bytes) and returns the position behind it: at most 10 bytes. */
static inline uint8_t *tl_put_varlong(uint8_t *p, int64_t value) {
    uint64_t raw = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    while (raw >= 0x80) {
        *p++ = (uint8_t)(raw | 0x80);
        raw >>= 7;
    }
    *p++ = (uint8_t)raw;
    return p;
}
static inline int tl_varlong_size(int64_t value) {
    uint64_t raw = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    int size = 1;
    while (raw >= 0x80) {
        raw >>= 7;
        size++;
    }
    return size;
}

#endif
