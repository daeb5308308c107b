/* lz4, zstd and gzip without the GIL, through the very libraries that the Python packages carry.
 *
 * Nothing is linked and no header of theirs is needed at build time: tl_codecs_load() finds the functions in the shared
 * objects of the `lz4` and `zstandard` packages and of Python's zlib, by name. What is declared below is those libraries'
 * stable ABI. A codec whose functions are not found is not native; a stream that one of these refuses is left to
 * compression.py, which decides what is wrong with it. The settings are those of compression.py, so that both write the
 * same bytes. */
#ifndef TIDELOG_CODECS_H
#define TIDELOG_CODECS_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TL_GZIP = 1, TL_SNAPPY = 2, TL_LZ4 = 3, TL_ZSTD = 4 };

/* ---- lz4frame.h (since 1.8.0) */
typedef struct {
    unsigned block_size_id, block_mode, content_checksum, frame_type;
    unsigned long long content_size;
    unsigned dictionary_id, block_checksum;
} tl_lz4f_frame;
typedef struct {
    tl_lz4f_frame frame;
    int level;
    unsigned auto_flush, favor_decompression_speed, reserved[3];
} tl_lz4f_preferences;
static size_t (*tl_lz4f_bound)(size_t, const tl_lz4f_preferences *);
static size_t (*tl_lz4f_compress)(void *, size_t, const void *, size_t, const tl_lz4f_preferences *);
static unsigned (*tl_lz4f_is_error)(size_t);
static size_t (*tl_lz4f_new)(void **, unsigned);
static size_t (*tl_lz4f_free)(void *);
static size_t (*tl_lz4f_decompress)(void *, void *, size_t *, const void *, size_t *, const void *);
static void (*tl_lz4f_reset)(void *);

/* ---- zstd.h (since 1.4.0) */
typedef struct {
    void *data;
    size_t size, position;
} tl_zstd_buffer;
static void *(*tl_zstd_new_c)(void);
static void *(*tl_zstd_new_d)(void);
static size_t (*tl_zstd_free_c)(void *);
static size_t (*tl_zstd_free_d)(void *);
static size_t (*tl_zstd_bound)(size_t);
static size_t (*tl_zstd_compress)(void *, void *, size_t, const void *, size_t, int);
static size_t (*tl_zstd_stream)(void *, tl_zstd_buffer *, tl_zstd_buffer *);
static size_t (*tl_zstd_reset)(void *, int);
static unsigned (*tl_zstd_is_error)(size_t);

/* ---- zlib.h (since 1.2.0) */
typedef struct {
    const uint8_t *next_in;
    unsigned available_in;
    unsigned long total_in;
    uint8_t *next_out;
    unsigned available_out;
    unsigned long total_out;
    const char *message;
    void *state;
    void *(*allocate)(void *, unsigned, unsigned);
    void (*free)(void *, void *);
    void *opaque;
    int data_type;
    unsigned long adler, reserved;
} tl_zlib;
static int (*tl_inflate_start)(tl_zlib *, int, const char *, int);
static int (*tl_inflate)(tl_zlib *, int);
static int (*tl_inflate_reset)(tl_zlib *);
static int (*tl_inflate_end)(tl_zlib *);
static int (*tl_deflate_start)(tl_zlib *, int, int, int, int, int, const char *, int);
static int (*tl_deflate)(tl_zlib *, int);
static int (*tl_deflate_reset)(tl_zlib *);
static int (*tl_deflate_end)(tl_zlib *);
static unsigned long (*tl_deflate_bound)(tl_zlib *, unsigned long);

static int tl_native[8];

/* dlsym gives an object pointer, POSIX says it may become a function pointer. */
static int tl_take(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

/* Looks for one codec in the shared object at `path` and in what it links to; true when all of it is there. */
static int tl_codec_load(int codec, const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return 0;
    if (codec == TL_LZ4)
        tl_native[codec] = tl_take(library, "LZ4F_compressFrameBound", &tl_lz4f_bound)
            && tl_take(library, "LZ4F_compressFrame", &tl_lz4f_compress)
            && tl_take(library, "LZ4F_isError", &tl_lz4f_is_error)
            && tl_take(library, "LZ4F_createDecompressionContext", &tl_lz4f_new)
            && tl_take(library, "LZ4F_freeDecompressionContext", &tl_lz4f_free)
            && tl_take(library, "LZ4F_decompress", &tl_lz4f_decompress)
            && tl_take(library, "LZ4F_resetDecompressionContext", &tl_lz4f_reset);
    if (codec == TL_ZSTD)
        tl_native[codec] = tl_take(library, "ZSTD_createCCtx", &tl_zstd_new_c)
            && tl_take(library, "ZSTD_createDCtx", &tl_zstd_new_d) && tl_take(library, "ZSTD_freeCCtx", &tl_zstd_free_c)
            && tl_take(library, "ZSTD_freeDCtx", &tl_zstd_free_d) && tl_take(library, "ZSTD_compressBound", &tl_zstd_bound)
            && tl_take(library, "ZSTD_compressCCtx", &tl_zstd_compress)
            && tl_take(library, "ZSTD_decompressStream", &tl_zstd_stream)
            && tl_take(library, "ZSTD_DCtx_reset", &tl_zstd_reset) && tl_take(library, "ZSTD_isError", &tl_zstd_is_error);
    if (codec == TL_GZIP)
        tl_native[codec] = tl_take(library, "inflateInit2_", &tl_inflate_start) && tl_take(library, "inflate", &tl_inflate)
            && tl_take(library, "inflateReset", &tl_inflate_reset) && tl_take(library, "inflateEnd", &tl_inflate_end)
            && tl_take(library, "deflateInit2_", &tl_deflate_start) && tl_take(library, "deflate", &tl_deflate)
            && tl_take(library, "deflateReset", &tl_deflate_reset) && tl_take(library, "deflateEnd", &tl_deflate_end)
            && tl_take(library, "deflateBound", &tl_deflate_bound);
    /* The handle stays open: the functions must stay where they are. */
    return tl_native[codec];
}

/* ---- one user's contexts and its two buffers; not for two threads at once ----------------------------------------- */
typedef struct {
    uint8_t *data;
    size_t size, room;
} tl_bytes_buffer;

typedef struct {
    tl_bytes_buffer plain; /* what the last batch held */
    tl_bytes_buffer kept; /* the records of it that stay */
    void *lz4_d, *zstd_c, *zstd_d;
    tl_zlib inflate, deflate;
    int inflating, deflating;
} tl_codecs;

static int tl_reserve(tl_bytes_buffer *buffer, size_t room) {
    uint8_t *data;
    if (room <= buffer->room) return 1;
    data = (uint8_t *)realloc(buffer->data, room);
    if (data == NULL) return 0;
    buffer->data = data;
    buffer->room = room;
    return 1;
}

/* More room for output of unknown size, at most up to `limit`; false when there is no more. */
static int tl_grow(tl_bytes_buffer *buffer, size_t limit) {
    size_t room = buffer->room < 65536 ? 65536 : buffer->room * 2;
    if (buffer->room >= limit) return 0;
    return tl_reserve(buffer, room < limit ? room : limit);
}

/* Buffers beyond `keep` bytes go back: one huge batch shall not set the memory of the months that follow. */
static void tl_codecs_trim(tl_codecs *c, size_t keep) {
    tl_bytes_buffer *buffers[2] = {&c->plain, &c->kept};
    for (int i = 0; i < 2; i++)
        if (buffers[i]->room > keep) {
            free(buffers[i]->data);
            memset(buffers[i], 0, sizeof *buffers[i]);
        }
}

static void tl_codecs_free(tl_codecs *c) {
    tl_codecs_trim(c, 0);
    if (c->lz4_d) tl_lz4f_free(c->lz4_d);
    if (c->zstd_c) tl_zstd_free_c(c->zstd_c);
    if (c->zstd_d) tl_zstd_free_d(c->zstd_d);
    if (c->inflating) tl_inflate_end(&c->inflate);
    if (c->deflating) tl_deflate_end(&c->deflate);
    memset(c, 0, sizeof *c);
}

static int tl_decode_lz4(tl_codecs *c, const uint8_t *data, size_t size, size_t limit) {
    size_t taken = 0, room, part, more = 1;
    if (c->lz4_d == NULL && tl_lz4f_is_error(tl_lz4f_new(&c->lz4_d, 100))) return 0;
    tl_lz4f_reset(c->lz4_d);
    c->plain.size = 0;
    while (more) {
        /* With a whole block's room behind it, the library decodes in place. */
        if (c->plain.room - c->plain.size < 65536 && !tl_grow(&c->plain, limit + 65536)) return 0;
        room = c->plain.room - c->plain.size;
        part = size - taken;
        if (room == 0) return 0;
        more = tl_lz4f_decompress(c->lz4_d, c->plain.data + c->plain.size, &room, data + taken, &part, NULL);
        if (tl_lz4f_is_error(more) || (room == 0 && part == 0)) return 0;
        c->plain.size += room;
        taken += part;
        if (c->plain.size > limit) return 0;
    }
    return taken == size;
}

static int tl_decode_zstd(tl_codecs *c, const uint8_t *data, size_t size, size_t limit) {
    tl_zstd_buffer in = {(void *)data, size, 0}, out;
    size_t more = 1;
    if (c->zstd_d == NULL && (c->zstd_d = tl_zstd_new_d()) == NULL) return 0;
    tl_zstd_reset(c->zstd_d, 1);
    c->plain.size = 0;
    while (more) {
        size_t before_in = in.position;
        if (c->plain.room - c->plain.size < 65536 && !tl_grow(&c->plain, limit + 65536)) return 0;
        out.data = c->plain.data;
        out.size = c->plain.room;
        out.position = c->plain.size;
        more = tl_zstd_stream(c->zstd_d, &out, &in);
        if (tl_zstd_is_error(more) || (out.position == c->plain.size && in.position == before_in)) return 0;
        c->plain.size = out.position;
        if (c->plain.size > limit) return 0;
    }
    return in.position == size;
}

static int tl_decode_gzip(tl_codecs *c, const uint8_t *data, size_t size, size_t limit) {
    int status = 0;
    if (!c->inflating) {
        if (tl_inflate_start(&c->inflate, 31, "1.2.11", (int)sizeof(tl_zlib)) != 0) return 0;
        c->inflating = 1;
    } else if (tl_inflate_reset(&c->inflate) != 0) return 0;
    c->inflate.next_in = data;
    c->inflate.available_in = (unsigned)size;
    c->plain.size = 0;
    while (status == 0) {
        size_t room;
        if (c->plain.room - c->plain.size < 65536 && !tl_grow(&c->plain, limit + 65536)) return 0;
        room = c->plain.room - c->plain.size;
        if (room > 1u << 30) room = 1u << 30;
        c->inflate.next_out = c->plain.data + c->plain.size;
        c->inflate.available_out = (unsigned)room;
        status = tl_inflate(&c->inflate, 0);
        room -= c->inflate.available_out;
        c->plain.size += room;
        if (c->plain.size > limit || (status == 0 && room == 0)) return 0;
    }
    return status == 1 && c->inflate.available_in == 0; /* one member and nothing behind it */
}

/* What `data` was before it was compressed, into c->plain. False for whatever reason: not native, broken, too large. */
static int tl_decode(tl_codecs *c, int codec, const uint8_t *data, size_t size, size_t limit) {
    if (!tl_native[codec & 7] || size > INT32_MAX) return 0;
    if (codec == TL_LZ4) return tl_decode_lz4(c, data, size, limit);
    if (codec == TL_ZSTD) return tl_decode_zstd(c, data, size, limit);
    return tl_decode_gzip(c, data, size, limit);
}

static int tl_deflate_ready(tl_codecs *c) {
    if (c->deflating) return tl_deflate_reset(&c->deflate) == 0;
    /* Level -1, gzip's header and trailer, memory level 8, default strategy: as zlib.compressobj(-1, DEFLATED, 31). */
    if (tl_deflate_start(&c->deflate, -1, 8, 31, 8, 0, "1.2.11", (int)sizeof(tl_zlib)) != 0) return 0;
    c->deflating = 1;
    return 1;
}

/* 64 KiB independent blocks, no checksum, no content size, the fast compressor; flushed as a whole. */
static const tl_lz4f_preferences tl_lz4_settings = {{4, 1, 0, 0, 0, 0, 0}, 0, 0, 0, {0, 0, 0}};

/* The most bytes that tl_encode may write for `size`; 0 when it cannot. */
static size_t tl_encode_bound(tl_codecs *c, int codec, size_t size) {
    if (!tl_native[codec & 7] || size > INT32_MAX) return 0;
    if (codec == TL_LZ4) return tl_lz4f_bound(size, &tl_lz4_settings);
    if (codec == TL_ZSTD) return tl_zstd_bound(size);
    return tl_deflate_ready(c) ? tl_deflate_bound(&c->deflate, (unsigned long)size) : 0;
}

/* Bytes written to `out`; 0 when it failed. */
static size_t tl_encode(tl_codecs *c, int codec, const uint8_t *data, size_t size, uint8_t *out, size_t room) {
    size_t written;
    if (codec == TL_LZ4) {
        written = tl_lz4f_compress(out, room, data, size, &tl_lz4_settings);
        return tl_lz4f_is_error(written) ? 0 : written;
    }
    if (codec == TL_ZSTD) {
        if (c->zstd_c == NULL && (c->zstd_c = tl_zstd_new_c()) == NULL) return 0;
        written = tl_zstd_compress(c->zstd_c, out, room, data, size, 3);
        return tl_zstd_is_error(written) ? 0 : written;
    }
    if (room > UINT32_MAX) room = UINT32_MAX;
    c->deflate.next_in = data;
    c->deflate.available_in = (unsigned)size;
    c->deflate.next_out = out;
    c->deflate.available_out = (unsigned)room;
    if (tl_deflate(&c->deflate, 4) != 1) return 0;
    return room - c->deflate.available_out;
}

#endif
