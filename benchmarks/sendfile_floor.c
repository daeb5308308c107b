// sendfile_floor: what a fetch costs at the very least. A bare C server, one thread with epoll, around floor.h: a head, sendfile, the tags.
// It reads whatever broker wrote the files, so the comparison uses the same bytes, the same requests and the same client.
//
//   sendfile_floor DATA_DIR/TOPIC-PARTITION       prints `ready PORT BEGIN END` (END: one past the last offset)
//
// It serves 127.0.0.1 until SIGTERM. Exit status 1 when the directory has no batches.

#include "floor.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

typedef struct {
    int fd, state;                   // HEAD: head to send; BODY: file bytes; TAIL: the tags behind them; IDLE
    uint8_t in[4096], head[ANSWER];
    size_t in_length, head_length, head_sent, tail_sent;
    range_t range;
    bool waiting_to_write;
} connection_t;
enum { IDLE, HEAD, BODY, TAIL };

static int epoll_fd;

static void answer(connection_t *c, const uint8_t *frame) {
    c->head_length = fetch_answer(frame, c->head, &c->range);
    c->head_sent = c->tail_sent = 0;
    c->state = HEAD;
}

static bool send_some(connection_t *c) {  // false: the socket is full
    while (c->state == HEAD) {
        ssize_t n = send(c->fd, c->head + c->head_sent, c->head_length - c->head_sent, MSG_NOSIGNAL | MSG_MORE);
        if (n < 0) return false;
        if ((c->head_sent += (size_t)n) == c->head_length) c->state = BODY;
    }
    while (c->state == BODY && c->range.left) {
        ssize_t n = sendfile(c->fd, c->range.file, &c->range.position, c->range.left);
        if (n <= 0) return false;
        c->range.left -= (size_t)n;
    }
    c->state = TAIL;
    while (c->tail_sent < TAGS) {
        ssize_t n = send(c->fd, "\0\0\0", TAGS - c->tail_sent, MSG_NOSIGNAL);
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
    printf("ready %d %lld %lld\n", ntohs(address.sin_port), (long long)begin_offset, (long long)end_offset());
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
