// append_floor: what a produce costs at the very least. A bare C server, one thread with epoll, around floor.h.
//
//   append_floor FILE       prints `ready PORT`; what it appends goes to FILE, which is cut to nothing first
//
// It serves 127.0.0.1 until SIGTERM. The client has to believe that there is a partition: `loadgen --offsets 0:0`.

#include "floor.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

typedef struct { int fd; size_t length; uint8_t in[RECEIVE]; } connection_t;

static bool serve(connection_t *c) {
    ssize_t n = recv(c->fd, c->in + c->length, RECEIVE - c->length, 0);
    if (n <= 0) return n < 0 && errno == EAGAIN;
    c->length += (size_t)n;
    size_t at = 0;
    while (c->length - at >= 4) {
        size_t whole = 4 + (size_t)number(c->in + at, 4);
        if (whole > RECEIVE) return false;
        if (c->length - at < whole) break;
        uint8_t out[ANSWER];
        ssize_t size = append_answer(c->in + at, c->in + at + whole, out);
        if (size < 0 || (size && send(c->fd, out, (size_t)size, MSG_NOSIGNAL) != size)) return false;
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
    open_append(argv[1]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), epoll_fd = epoll_create1(EPOLL_CLOEXEC), yes = 1;
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
