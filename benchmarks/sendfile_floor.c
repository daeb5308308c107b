// sendfile_floor: what a fetch costs at the very least. A bare C server that answers Fetch v13..v17 for one partition
// out of its segment files: look-up in a table in memory, a header, sendfile. No sessions, no limits, no metrics; it
// reads whatever broker wrote the files, so the comparison uses the same bytes, the same requests and the same client.
//
//   sendfile_floor DATA_DIR/TOPIC-PARTITION       prints `ready PORT BEGIN END` (END: one past the last offset)
//
// It serves 127.0.0.1 until SIGTERM. Exit status 1 when the directory has no batches.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct { int64_t last_offset, position; int file; } batch_t;
typedef struct {
    int fd, state;                   // HEAD: header to send; BODY: file bytes; TAIL: the tags behind them; IDLE
    uint8_t in[4096], head[256];
    size_t in_length, head_length, head_sent, tail_sent;
    int file;
    off_t position;
    size_t left;
    bool waiting_to_write;
} connection_t;
enum { IDLE, HEAD, BODY, TAIL };

static batch_t *batches;
static int batch_count, files[4096], file_count, epoll_fd;
static off_t file_sizes[4096];
static int64_t begin_offset = -1;

static void die(const char *what) {
    fprintf(stderr, "sendfile_floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int is_log(const struct dirent *entry) {
    size_t n = strlen(entry->d_name);
    return n == 24 && !strcmp(entry->d_name + 20, ".log");
}

static int64_t number(const uint8_t *p, int bytes) {
    int64_t v = (int8_t)p[0];
    for (int i = 1; i < bytes; i++) v = v * 256 + p[i];
    return v;
}

static void read_table(const char *directory) {
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

static uint8_t *put(uint8_t *p, int64_t v, int bytes) {
    for (int i = bytes; i--; v >>= 8) p[i] = (uint8_t)v;
    return p + bytes;
}
static uint8_t *put_uvarint(uint8_t *p, uint64_t v) {
    for (; v >= 128; v >>= 7) *p++ = (uint8_t)(v | 128);
    *p++ = (uint8_t)v;
    return p;
}

// The frame's fixed places: only the client id and (v15 on) the missing replica id move them.
static void answer(connection_t *c, const uint8_t *frame) {
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
    c->left = 0;
    if (low < batch_count) {
        batch_t *b = &batches[low];
        off_t end = low + 1 < batch_count && b[1].file == b->file ? b[1].position : file_sizes[b->file];
        off_t all = file_sizes[b->file] - b->position, least = end - b->position;
        c->file = files[b->file];
        c->position = b->position;
        c->left = (size_t)(maximum < least ? least : maximum < all ? maximum : all);
    }
    int64_t end_offset = batches[batch_count - 1].last_offset + 1;
    uint8_t *p = c->head + 4;
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
    p = put(p, end_offset, 8);        // high watermark, last stable offset, log start offset
    p = put(p, end_offset, 8);
    p = put(p, begin_offset, 8);
    p = put(p, 0, 1);                 // aborted transactions: null
    p = put(p, -1, 4);
    p = put_uvarint(p, c->left + 1);
    c->head_length = (size_t)(p - c->head);
    put(c->head, (int64_t)(c->head_length - 4 + c->left + 3), 4);
    c->head_sent = c->tail_sent = 0;
    c->state = HEAD;
}

static bool send_some(connection_t *c) {  // false: the socket is full
    while (c->state == HEAD) {
        ssize_t n = send(c->fd, c->head + c->head_sent, c->head_length - c->head_sent, MSG_NOSIGNAL | MSG_MORE);
        if (n < 0) return false;
        if ((c->head_sent += (size_t)n) == c->head_length) c->state = BODY;
    }
    while (c->state == BODY && c->left) {
        ssize_t n = sendfile(c->fd, c->file, &c->position, c->left);
        if (n <= 0) return false;
        c->left -= (size_t)n;
    }
    c->state = TAIL;
    while (c->tail_sent < 3) {
        ssize_t n = send(c->fd, "\0\0\0", 3 - c->tail_sent, MSG_NOSIGNAL);
        if (n < 0) return false;
        c->tail_sent += (size_t)n;
    }
    c->state = IDLE;
    return true;
}

static void serve(connection_t *c, uint32_t events) {
    if (events & EPOLLIN) {
        ssize_t n = recv(c->fd, c->in + c->in_length, sizeof c->in - c->in_length, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            close(c->fd);
            free(c);
            return;
        }
        if (n > 0) c->in_length += (size_t)n;
    }
    bool full = c->state != IDLE && !send_some(c);
    while (!full && c->in_length >= 4) {
        size_t whole = 4 + (size_t)number(c->in, 4);
        if (whole > sizeof c->in || c->in_length < whole) break;
        answer(c, c->in);
        memmove(c->in, c->in + whole, c->in_length -= whole);
        full = !send_some(c);
    }
    if (full != c->waiting_to_write) {
        struct epoll_event event = {.events = full ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
        c->waiting_to_write = full;
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: sendfile_floor PARTITION_DIRECTORY\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);  // sendfile has no flag for it
    read_table(argv[1]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[64];
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 64) ||
        getsockname(listener, (struct sockaddr *)&address, &length) || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event))
        die("listen");
    printf("ready %d %lld %lld\n", ntohs(address.sin_port), (long long)begin_offset,
           (long long)batches[batch_count - 1].last_offset + 1);
    fflush(stdout);
    for (;;) {
        int n = epoll_wait(epoll_fd, events, 64, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr) {
                serve(events[i].data.ptr, events[i].events);
                continue;
            }
            connection_t *c = calloc(1, sizeof *c);
            if (!c || (c->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0) die("accept");
            setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            event = (struct epoll_event){.events = EPOLLIN, .data.ptr = c};
            epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event);
        }
    }
}
