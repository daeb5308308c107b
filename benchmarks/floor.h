// What the bare servers share: they walk a Produce or Fetch request of one partition, do its work, and lay out the answer. No topics, no
// limits, no metrics. append_floor.c and sendfile_floor.c put an epoll loop around it, loop_handler.c the event loop that the daemon runs on.

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

// The checksum is the daemon's own: what it costs is part of what a request costs at least.
#include "../protocol/records/_records.h"

enum { RECEIVE = 1 << 20, BATCH_HEADER = 61, ANSWER = 512, TAGS = 3 };

static void die(const char *what) {
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t number(const uint8_t *p, int bytes) {
    int64_t v = (int8_t)p[0];
    for (int i = 1; i < bytes; i++) v = v * 256 + p[i];
    return v;
}

static uint8_t *put(uint8_t *p, int64_t v, int bytes) {
    for (int i = bytes; i--; v >>= 8) p[i] = (uint8_t)v;
    return p + bytes;
}

static uint64_t uvarint(const uint8_t **p, const uint8_t *end) {
    uint64_t v = 0;
    for (int shift = 0; *p < end && shift < 35; shift += 7) {
        uint8_t byte = *(*p)++;
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) break;
    }
    return v;
}

static uint8_t *put_uvarint(uint8_t *p, uint64_t v) {
    for (; v >= 128; v >>= 7) *p++ = (uint8_t)(v | 128);
    *p++ = (uint8_t)v;
    return p;
}

// Produce v9..v12: the batch's CRC-32C is checked, its offset written into it, and the batch to the file.

static int append_file;
static off_t append_size;
static int64_t next_offset;

static inline void open_append(const char *path) {
    tl_crc32c_start();
    append_file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (append_file < 0) die(path);
}

// Bytes of the answer, which is in `out`; 0 where none is wanted (acks=0), -1 where it is anything but a request of one batch.
static inline ssize_t append_answer(uint8_t *frame, const uint8_t *end, uint8_t out[ANSWER]) {
    if (end - frame < 20 || number(frame + 4, 2) != 0) return -1;
    int64_t version = number(frame + 6, 2);
    const uint8_t *p = frame + 14 + number(frame + 12, 2) + 1;
    if (version < 9 || version > 12 || end - p < 12 || uvarint(&p, end) != 0) return -1;
    int64_t acks = number(p, 2);
    p += 2 + 4;
    if (uvarint(&p, end) != 2) return -1;
    const uint8_t *name = p;
    uint64_t name_size = uvarint(&p, end) - 1;
    if ((uint64_t)(end - p) < name_size + 8 || name_size > 249) return -1;
    p += name_size;
    size_t name_bytes = (size_t)(p - name);
    if (uvarint(&p, end) != 2) return -1;
    const uint8_t *index = p;
    p += 4;
    uint64_t size = uvarint(&p, end) - 1;
    if (size < BATCH_HEADER || (uint64_t)(end - p) != size + TAGS || p[16] != 2) return -1;
    uint8_t *batch = frame + (p - frame);
    if (12 + number(batch + 8, 4) != (int64_t)size || tl_crc32c(0, batch + 21, size - 21) != (uint32_t)number(batch + 17, 4)) return -1;
    int64_t base = next_offset;
    put(batch, base, 8);
    put(batch + 12, 0, 4);      // leader epoch
    if (pwrite(append_file, batch, size, append_size) != (ssize_t)size) die("pwrite");
    append_size += (off_t)size;
    next_offset = base + number(batch + 23, 4) + 1;
    if (acks == 0) return 0;
    uint8_t *q = out + 4;
    q = put(q, number(frame + 8, 4), 4);
    q = put(q, 0, 1);           // tags of the response header
    q = put(q, 2, 1);
    memcpy(q, name, name_bytes);
    q = put(q + name_bytes, 2, 1);
    memcpy(q, index, 4);
    q = put(q + 4, 0, 2);
    q = put(q, base, 8);
    q = put(q, -1, 8);          // no append time
    q = put(q, 0, 8);           // log start offset
    q = put(q, 1, 1);           // no records at fault
    q = put(q, 0, 1);           // no message
    q = put(q, 0, 2);           // tags of partition and topic
    q = put(q, 0, 4);           // not throttled
    q = put(q, 0, 1);
    put(out, q - out - 4, 4);
    return q - out;
}

// Fetch v13..v17 out of the segment files that a broker wrote: a table of batches in memory, a head, a range of a file, three tags behind it.

typedef struct { int64_t last_offset, position; int file; } batch_t;
typedef struct { int file; off_t position; size_t left; } range_t;

static batch_t *batches;
static int batch_count, files[4096], file_count;
static off_t file_sizes[4096];
static int64_t begin_offset = -1;

static inline int is_log(const struct dirent *entry) {
    size_t n = strlen(entry->d_name);
    return n == 24 && !strcmp(entry->d_name + 20, ".log");
}

static inline void read_table(const char *directory) {
    struct dirent **names;
    int n = scandir(directory, &names, is_log, alphasort), capacity = 0;
    if (n <= 0 || n > 4096) die(directory);
    for (int i = 0; i < n; i++) {
        char path[4096];
        struct stat status;
        snprintf(path, sizeof path, "%s/%s", directory, names[i]->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &status)) die(path);
        files[file_count] = fd;
        off_t at = 0;
        uint8_t head[27];
        while (pread(fd, head, sizeof head, at) == sizeof head && number(head + 8, 4) > 0) {
            int64_t size = 12 + number(head + 8, 4);
            if (at + size > status.st_size) break;
            if (batch_count == capacity && !(batches = realloc(batches, sizeof *batches * (size_t)(capacity = capacity * 2 + 1024)))) die("memory");
            if (begin_offset < 0) begin_offset = number(head, 8);
            batches[batch_count++] = (batch_t){number(head, 8) + number(head + 23, 4), at, file_count};
            at += size;
        }
        file_sizes[file_count++] = at;
    }
    if (!batch_count) die("no batches there");
}

static inline int64_t end_offset(void) {
    return batches[batch_count - 1].last_offset + 1;
}

// Bytes of the answer's head, which is in `head`; `range` is what goes behind it. The request's places are fixed: only the client id and
// (v15 on) the missing replica id move them.
static inline size_t fetch_answer(const uint8_t *frame, uint8_t head[ANSWER], range_t *range) {
    int version = (int)number(frame + 6, 2);
    const uint8_t *body = frame + 14 + number(frame + 12, 2) + 1 + (version < 15 ? 4 : 0);
    const uint8_t *topic = body + 4 + 4 + 4 + 1 + 4 + 4 + 1, *partition = topic + 16 + 1;
    int64_t offset = number(partition + 8, 8), maximum = number(partition + 28, 4);
    int low = 0, high = batch_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (batches[middle].last_offset < offset) low = middle + 1;
        else high = middle;
    }
    range->left = 0;
    if (low < batch_count) {
        batch_t *b = &batches[low];
        off_t end = low + 1 < batch_count && b[1].file == b->file ? b[1].position : file_sizes[b->file];
        off_t all = file_sizes[b->file] - b->position, least = end - b->position;
        range->file = files[b->file];
        range->position = b->position;
        range->left = (size_t)(maximum < least ? least : maximum < all ? maximum : all);
    }
    uint8_t *p = head + 4;
    p = put(p, number(frame + 8, 4), 4);
    p = put(p, 0, 1);                 // tags of the response header
    p = put(p, 0, 4);                 // throttle time
    p = put(p, 0, 2);
    p = put(p, 0, 4);                 // no session
    p = put(p, 2, 1);
    memcpy(p, topic, 16);
    p = put(p + 16, 2, 1);
    memcpy(p, partition, 4);
    p = put(p + 4, 0, 2);
    p = put(p, end_offset(), 8);      // high watermark, last stable offset, log start offset
    p = put(p, end_offset(), 8);
    p = put(p, begin_offset, 8);
    p = put(p, 0, 1);                 // aborted transactions: null
    p = put(p, -1, 4);
    p = put_uvarint(p, range->left + 1);
    put(head, (p - head) - 4 + (int64_t)range->left + TAGS, 4);
    return (size_t)(p - head);
}
