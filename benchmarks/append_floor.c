// append_floor: what a produce costs at the very least. A bare C server that does the work of Produce v9..v12 for one
// partition, and no more: it walks the request to the batch, checks the CRC-32C, writes the offset into the batch and the
// batch to a file, and answers. No topics, no limits, no metrics; the same requests from the same client as a broker's.
//
//   append_floor FILE       prints `ready PORT`; what it appends goes to FILE, which is cut to nothing first
//
// It serves 127.0.0.1 until SIGTERM. The client has to believe that there is a partition: `loadgen --offsets 0:0`.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RECEIVE = 1 << 20, BATCH_HEADER = 61 };
typedef struct { int fd; size_t length; uint8_t in[RECEIVE]; } connection_t;

static int epoll_fd, file;
static off_t file_size;
static int64_t next_offset;
static uint32_t crc_table[256];

static void die(const char *what) {
    fprintf(stderr, "append_floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t number(const uint8_t *p, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v = v << 8 | p[i];
    return v;
}

static uint8_t *put(uint8_t *p, uint64_t v, int bytes) {
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

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(const uint8_t *p, size_t n) {
    uint64_t crc = 0xFFFFFFFF;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    for (; n; n--) crc = __builtin_ia32_crc32qi((uint32_t)crc, *p++);
    return ~(uint32_t)crc;
}
#endif

static uint32_t crc32c(const uint8_t *p, size_t n) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) return crc_by_instruction(p, n);
#endif
    uint32_t crc = 0xFFFFFFFF;
    while (n--) crc = crc >> 8 ^ crc_table[(crc ^ *p++) & 255];
    return ~crc;
}

// Answers one request of one batch; false where it is anything else.
static bool answer(connection_t *c, uint8_t *frame, const uint8_t *end) {
    if (end - frame < 20 || number(frame + 4, 2) != 0) return false;
    uint64_t version = number(frame + 6, 2);
    const uint8_t *p = frame + 14 + number(frame + 12, 2) + 1;
    if (version < 9 || version > 12 || end - p < 12 || uvarint(&p, end) != 0) return false;
    uint64_t acks = number(p, 2);
    p += 2 + 4;
    if (uvarint(&p, end) != 2) return false;
    const uint8_t *name = p;
    uint64_t name_size = uvarint(&p, end) - 1;
    if ((uint64_t)(end - p) < name_size + 8 || name_size > 249) return false;
    p += name_size;
    size_t name_bytes = (size_t)(p - name);
    if (uvarint(&p, end) != 2) return false;
    const uint8_t *index = p;
    p += 4;
    uint64_t size = uvarint(&p, end) - 1;
    if (size < BATCH_HEADER || (uint64_t)(end - p) != size + 3 || p[16] != 2) return false;
    uint8_t *batch = frame + (p - frame);
    if (12 + number(batch + 8, 4) != size || crc32c(batch + 21, size - 21) != number(batch + 17, 4)) return false;
    int64_t base = next_offset;
    put(batch, (uint64_t)base, 8);
    put(batch + 12, 0, 4);  // leader epoch
    if (pwrite(file, batch, size, file_size) != (ssize_t)size) die("pwrite");
    file_size += (off_t)size;
    next_offset = base + (int64_t)number(batch + 23, 4) + 1;
    if (acks == 0) return true;
    uint8_t out[512], *q = out + 4;
    q = put(q, number(frame + 8, 4), 4);
    q = put(q, 0, 1);               // tags of the response header
    q = put(q, 2, 1);
    memcpy(q, name, name_bytes);
    q = put(q + name_bytes, 2, 1);
    memcpy(q, index, 4);
    q = put(q + 4, 0, 2);
    q = put(q, (uint64_t)base, 8);
    q = put(q, UINT64_MAX, 8);      // no append time
    q = put(q, 0, 8);               // log start offset
    q = put(q, 1, 1);               // no records at fault
    q = put(q, 0, 1);               // no message
    q = put(q, 0, 2);               // tags of partition and topic
    q = put(q, 0, 4);               // not throttled
    q = put(q, 0, 1);
    put(out, (uint64_t)(q - out - 4), 4);
    return send(c->fd, out, (size_t)(q - out), MSG_NOSIGNAL) == q - out;
}

static bool serve(connection_t *c) {
    ssize_t n = recv(c->fd, c->in + c->length, RECEIVE - c->length, 0);
    if (n <= 0) return n < 0 && errno == EAGAIN;
    c->length += (size_t)n;
    size_t at = 0;
    while (c->length - at >= 4) {
        size_t whole = 4 + (size_t)number(c->in + at, 4);
        if (whole > RECEIVE) return false;
        if (c->length - at < whole) break;
        if (!answer(c, c->in + at, c->in + at + whole)) return false;
        at += whole;
    }
    memmove(c->in, c->in + at, c->length -= at);
    return true;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: append_floor FILE\n");
        return 2;
    }
    for (uint32_t i = 0; i < 256; i++) {
        crc_table[i] = i;
        for (int k = 0; k < 8; k++) crc_table[i] = crc_table[i] >> 1 ^ (crc_table[i] & 1 ? 0x82F63B78 : 0);
    }
    file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) die(argv[1]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[64];
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 128) ||
        getsockname(listener, (struct sockaddr *)&address, &length) || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event))
        die("listen");
    printf("ready %d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int n = epoll_wait(epoll_fd, events, 64, -1);
        for (int i = 0; i < n; i++) {
            connection_t *c = events[i].data.ptr;
            if (c) {
                if (!serve(c)) {
                    close(c->fd);
                    free(c);
                }
                continue;
            }
            if (!(c = malloc(sizeof *c)) || (c->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0) die("accept");
            c->length = 0;
            setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            event = (struct epoll_event){.events = EPOLLIN, .data.ptr = c};
            epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
        }
    }
}
