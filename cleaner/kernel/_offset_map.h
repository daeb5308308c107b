/* The table behind OffsetMap, in C: keyed hash, slots, probes. The ruler and the reasons are in offset_map.py. */
#ifndef TIDELOG_OFFSET_MAP_H
#define TIDELOG_OFFSET_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* ---- SipHash-2-4 with 128 bits of output (Aumasson, Bernstein) --------------------------------------------------- */
#define TL_ROTATE(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
#define TL_SIP_ROUND \
    do { \
        v0 += v1; v1 = TL_ROTATE(v1, 13); v1 ^= v0; v0 = TL_ROTATE(v0, 32); \
        v2 += v3; v3 = TL_ROTATE(v3, 16); v3 ^= v2; \
        v0 += v3; v3 = TL_ROTATE(v3, 21); v3 ^= v0; \
        v2 += v1; v1 = TL_ROTATE(v1, 17); v1 ^= v2; v2 = TL_ROTATE(v2, 32); \
    } while (0)

typedef struct {
    uint64_t low, high;
} tl_hash;

static inline uint64_t tl_little64(const uint8_t *p) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
#else
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--) word = word << 8 | p[i];
    return word;
#endif
}

static inline tl_hash tl_siphash(uint64_t k0, uint64_t k1, const uint8_t *p, size_t n) {
    uint64_t v0 = 0x736f6d6570736575u ^ k0, v1 = 0x646f72616e646f6du ^ k1 ^ 0xee;
    uint64_t v2 = 0x6c7967656e657261u ^ k0, v3 = 0x7465646279746573u ^ k1;
    uint64_t last = (uint64_t)n << 56;
    const uint8_t *words_end = p + (n & ~(size_t)7);
    tl_hash hash;
    for (; p < words_end; p += 8) {
        uint64_t word = tl_little64(p);
        v3 ^= word;
        TL_SIP_ROUND;
        TL_SIP_ROUND;
        v0 ^= word;
    }
    switch (n & 7) {
    case 7: last |= (uint64_t)p[6] << 48; /* fall through */
    case 6: last |= (uint64_t)p[5] << 40; /* fall through */
    case 5: last |= (uint64_t)p[4] << 32; /* fall through */
    case 4: last |= (uint64_t)p[3] << 24; /* fall through */
    case 3: last |= (uint64_t)p[2] << 16; /* fall through */
    case 2: last |= (uint64_t)p[1] << 8; /* fall through */
    case 1: last |= (uint64_t)p[0];
    }
    v3 ^= last;
    TL_SIP_ROUND;
    TL_SIP_ROUND;
    v0 ^= last;
    v2 ^= 0xee;
    TL_SIP_ROUND;
    TL_SIP_ROUND;
    TL_SIP_ROUND;
    TL_SIP_ROUND;
    hash.low = v0 ^ v1 ^ v2 ^ v3;
    v1 ^= 0xdd;
    TL_SIP_ROUND;
    TL_SIP_ROUND;
    TL_SIP_ROUND;
    TL_SIP_ROUND;
    hash.high = v0 ^ v1 ^ v2 ^ v3;
    return hash;
}

/* Four keys at once, in the lanes of AVX2 where the processor has it and the keys have as many whole words; a single SipHash
   leaves most of a core idle, since each of its steps waits for the one before. The results are the same. */
#if defined(__x86_64__) && defined(__GNUC__)
#define TL_SIPHASH4
typedef uint64_t tl_four __attribute__((vector_size(32)));

static inline uint64_t tl_last_word(const uint8_t *p, size_t n) {
    uint64_t last = (uint64_t)n << 56;
    p += n & ~(size_t)7;
    for (size_t i = 0; i < (n & 7); i++) last |= (uint64_t)p[i] << (8 * i);
    return last;
}

__attribute__((target("avx2"))) static void tl_siphash_lanes(
    uint64_t k0, uint64_t k1, const uint8_t *const *keys, const int32_t *sizes, tl_hash *out
) {
    const tl_four zero = {0, 0, 0, 0};
    tl_four v0 = zero + (0x736f6d6570736575u ^ k0), v1 = zero + (0x646f72616e646f6du ^ k1 ^ 0xee);
    tl_four v2 = zero + (0x6c7967656e657261u ^ k0), v3 = zero + (0x7465646279746573u ^ k1), word, low;
    size_t whole = (size_t)sizes[0] & ~(size_t)7;
    for (size_t at = 0; at < whole; at += 8) {
        word = (tl_four){tl_little64(keys[0] + at), tl_little64(keys[1] + at), tl_little64(keys[2] + at), tl_little64(keys[3] + at)};
        v3 ^= word;
        TL_SIP_ROUND;
        TL_SIP_ROUND;
        v0 ^= word;
    }
    word = (tl_four){tl_last_word(keys[0], sizes[0]), tl_last_word(keys[1], sizes[1]), tl_last_word(keys[2], sizes[2]),
        tl_last_word(keys[3], sizes[3])};
    v3 ^= word;
    TL_SIP_ROUND;
    TL_SIP_ROUND;
    v0 ^= word;
    v2 ^= zero + 0xee;
    TL_SIP_ROUND;
    TL_SIP_ROUND;
    TL_SIP_ROUND;
    TL_SIP_ROUND;
    low = v0 ^ v1 ^ v2 ^ v3;
    v1 ^= zero + 0xdd;
    TL_SIP_ROUND;
    TL_SIP_ROUND;
    TL_SIP_ROUND;
    TL_SIP_ROUND;
    word = v0 ^ v1 ^ v2 ^ v3;
    for (int i = 0; i < 4; i++) {
        out[i].low = low[i];
        out[i].high = word[i];
    }
}
#endif

static int tl_has_lanes;

static void tl_siphash_start(void) {
#ifdef TL_SIPHASH4
    __builtin_cpu_init();
    tl_has_lanes = __builtin_cpu_supports("avx2");
#endif
}

/* Hashes of `count` keys. */
static inline void tl_siphash_all(
    uint64_t k0, uint64_t k1, const uint8_t *const *keys, const int32_t *sizes, int64_t count, tl_hash *out
) {
    int64_t i = 0;
#ifdef TL_SIPHASH4
    if (tl_has_lanes)
        for (; i + 4 <= count; i += 4) {
            int32_t words = sizes[i] >> 3;
            if ((sizes[i + 1] >> 3 == words) & (sizes[i + 2] >> 3 == words) & (sizes[i + 3] >> 3 == words))
                tl_siphash_lanes(k0, k1, keys + i, sizes + i, out + i);
            else
                for (int64_t j = i; j < i + 4; j++) out[j] = tl_siphash(k0, k1, keys[j], (size_t)sizes[j]);
        }
#endif
    for (; i < count; i++) out[i] = tl_siphash(k0, k1, keys[i], (size_t)sizes[i]);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */
typedef struct {
    uint64_t low, high;
    uint64_t place; /* offset + 1; 0 says that the slot is empty, so that fresh memory is an empty table */
} tl_entry;

typedef char tl_entry_takes_24_bytes[sizeof(tl_entry) == 24 ? 1 : -1];

typedef struct {
    tl_entry *entries;
    uint64_t slots; /* that this pass uses, from the start of the memory */
    uint64_t capacity; /* entries at which it is full */
    uint64_t count;
    uint64_t k0, k1;
    uint64_t lookups, probes;
    int64_t latest; /* largest offset that was put */
} tl_map;

/* The hash as a fraction of the slots: any count of them will do, beyond 2^32 too. */
static inline uint64_t tl_home(const tl_map *map, uint64_t low) {
#ifdef __SIZEOF_INT128__
    return (uint64_t)(((unsigned __int128)low * map->slots) >> 64);
#else
    return low % map->slots;
#endif
}

static inline void tl_prefetch(const tl_map *map, tl_hash hash) {
#if defined(__GNUC__)
    /* Entries lie across cache lines, and the next one may have to be looked at. */
    const tl_entry *entry = map->entries + tl_home(map, hash.low);
    __builtin_prefetch(entry);
    __builtin_prefetch((const char *)entry + 40);
#else
    (void)map;
    (void)hash;
#endif
}

/* The slot that has this hash, or the empty one where it belongs; NULL when neither is there (a table without a gap).
   One predicate without short cuts: which of the two it is cannot be predicted, and the branch would cost more than the
   two comparisons. */
static inline tl_entry *tl_find(tl_map *map, tl_hash hash) {
    tl_entry *entry = map->entries + tl_home(map, hash.low);
    tl_entry *const stop = map->entries + map->slots;
    uint64_t left = map->slots;
    map->lookups++;
    do {
        map->probes++;
        if ((entry->place == 0) | ((entry->low == hash.low) & (entry->high == hash.high))) return entry;
        if (++entry == stop) entry = map->entries;
    } while (--left);
    return NULL;
}

/* False when the key is new and there is no room for it. An entry keeps the largest of its offsets. */
static inline int tl_put(tl_map *map, tl_hash hash, int64_t offset) {
    tl_entry *entry = tl_find(map, hash);
    uint64_t place = (uint64_t)offset + 1;
    if (entry == NULL) return 0;
    if (entry->place == 0) {
        if (map->count >= map->capacity) return 0;
        entry->low = hash.low;
        entry->high = hash.high;
        map->count++;
    }
    if (place > entry->place) entry->place = place;
    if (offset > map->latest) map->latest = offset;
    return 1;
}

/* Offset of the key; -1 when it has none. */
static inline int64_t tl_get(tl_map *map, tl_hash hash) {
    const tl_entry *entry = tl_find(map, hash);
    return entry == NULL ? -1 : (int64_t)entry->place - 1;
}

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

/* Address space now, memory when it is touched. NULL when there is none. */
static inline tl_entry *tl_map_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
    /* Every access is to another page: small ones would cost a walk of the page table each. */
    if (size >= (size_t)4 << 20) madvise(memory, size, MADV_HUGEPAGE);
#endif
    return (tl_entry *)memory;
}

static inline void tl_map_free(tl_entry *entries, size_t size) {
    if (entries != NULL) munmap(entries, size);
}

/* Empties the first `used` bytes. Large stretches are handed back with `give_back`, which empties them too. */
static inline void tl_map_clear(tl_entry *entries, size_t size, size_t used, int give_back) {
#ifdef __linux__
    if (give_back && madvise(entries, size, MADV_DONTNEED) == 0) return;
#else
    (void)size, (void)give_back; /* elsewhere the call is advice, and the bytes may stay */
#endif
    memset(entries, 0, used);
}

/* ---- small sorted arrays ------------------------------------------------------------------------------------------ */
typedef struct {
    int64_t producer, first, last;
} tl_range;

/* Index behind the last range that is <= (producer, first). */
static inline int64_t tl_upper(const tl_range *ranges, int64_t count, int64_t producer, int64_t first) {
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const tl_range *range = ranges + middle;
        if (range->producer < producer || (range->producer == producer && range->first <= first)) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The range of the producer that holds the offset; -1 for none. */
static inline int64_t tl_range_of(const tl_range *ranges, int64_t count, int64_t producer, int64_t offset) {
    int64_t index = tl_upper(ranges, count, producer, offset) - 1;
    if (index < 0 || ranges[index].producer != producer || ranges[index].last < offset) return -1;
    return index;
}

/* Index of the first value that is >= `value`. */
static inline int64_t tl_lower(const int64_t *values, int64_t count, int64_t value) {
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (values[middle] < value) low = middle + 1;
        else high = middle;
    }
    return low;
}

#endif
