/* Prints one partition by tidelog's message-set protocol: offset, key and value of each record, a line each.
 *
 *     cc -O2 -o message_set_fetch message_set_fetch.c
 *     ./message_set_fetch 127.0.0.1 9093 TOPIC PARTITION [OFFSET]        OFFSET: -2 the earliest (default), -1 the latest
 *
 * Reads entries of formats 0, 1 and 2 that have no codec, to the end of the log. The protocol: docs/MESSAGE_SET.md. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FETCH = 1, OFFSETS = 4, OVERHEAD = 12, MAX_FETCH = 64 << 20 };

struct bytes { /* what is left to be read */
    const unsigned char *at, *end;
};

static void die(const char *what, int64_t number) {
    fprintf(stderr, "message_set_fetch: %s (%" PRId64 ")\n", what, number);
    exit(1);
}

/* A big-endian signed integer of `size` bytes. */
static int64_t take(struct bytes *from, int size) {
    if (from->end - from->at < size) die("an entry ends too early, bytes wanted", size);
    uint64_t value = *from->at & 0x80 ? UINT64_MAX : 0;
    for (int i = 0; i < size; i++) value = value << 8 | *from->at++;
    return (int64_t)value;
}

/* A zigzag varint, as records of format 2 have them. */
static int64_t take_varint(struct bytes *from) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        unsigned char byte = (unsigned char)take(from, 1);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return (int64_t)(value >> 1 ^ (0 - (value & 1)));
    }
    die("a varint is too long", 64);
    return 0;
}

/* `length` bytes as they are; a length of -1 is null. */
static struct bytes take_bytes(struct bytes *from, int64_t length) {
    struct bytes field = {NULL, NULL};
    if (length == -1) return field;
    if (length < 0 || length > from->end - from->at) die("a field has an impossible length", length);
    field.at = from->at;
    field.end = from->at += length;
    return field;
}

/* Without the overflow that C leaves undefined: the bytes may be anybody's. */
static int64_t plus(int64_t offset, int64_t delta) { return (int64_t)((uint64_t)offset + (uint64_t)delta); }

static void print(struct bytes field, char behind) {
    if (!field.at) fputs("(null)", stdout);
    else fwrite(field.at, 1, (size_t)(field.end - field.at), stdout);
    putchar(behind);
}

/* CRC-32 (polynomial 0xedb88320) of formats 0 and 1, CRC-32C (0x82f63b78) of format 2. */
static uint32_t checksum(const unsigned char *at, const unsigned char *end, uint32_t polynomial) {
    uint32_t crc = UINT32_MAX;
    while (at < end) {
        crc ^= *at++;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    }
    return ~crc;
}

static void print_record(int64_t offset, int64_t wanted, struct bytes key, struct bytes value) {
    if (offset < wanted) return; /* a fetch within an entry begins with the whole entry */
    printf("%" PRId64 "\t", offset);
    print(key, '\t');
    print(value, '\n');
}

/* Prints the records of the entry that fills `entry` from `wanted` on; returns the offset behind it. */
static int64_t print_entry(struct bytes entry, int64_t wanted) {
    int64_t base = take(&entry, 8);
    take(&entry, 4); /* the size, by which it was found */
    struct bytes ahead = {entry.at, entry.end};
    take(&ahead, 4);
    int magic = (int)take(&ahead, 1);
    if (magic < 0 || magic > 2) die("an entry of an unknown format", magic);
    if (magic < 2) { /* crc 4, magic 1, attributes 1, [timestamp 8,] key, value */
        uint32_t crc = (uint32_t)take(&entry, 4);
        if (checksum(entry.at, entry.end, 0xedb88320) != crc) die("a wrong checksum at offset", base);
        take(&entry, 1);
        if (take(&entry, 1) & 7) die("this client reads no codec; there is one at offset", base);
        if (magic == 1) take(&entry, 8);
        struct bytes key = take_bytes(&entry, take(&entry, 4));
        print_record(base, wanted, key, take_bytes(&entry, take(&entry, 4)));
        return plus(base, 1);
    }
    take(&entry, 4 + 1); /* leader epoch, magic */
    uint32_t crc = (uint32_t)take(&entry, 4);
    if (checksum(entry.at, entry.end, 0x82f63b78) != crc) die("a wrong checksum at offset", base);
    int64_t attributes = take(&entry, 2);
    int64_t next = plus(base, take(&entry, 4) + 1); /* last offset delta */
    take_bytes(&entry, 8 + 8 + 8 + 2 + 4); /* two timestamps, producer id, epoch and sequence */
    int64_t count = take(&entry, 4);
    if (attributes & 0x20) return next; /* a transaction's marker */
    if (attributes & 7) die("this client reads no codec; there is one at offset", base);
    for (; count > 0; count--) {
        struct bytes record = take_bytes(&entry, take_varint(&entry));
        take(&record, 1);
        take_varint(&record); /* timestamp delta */
        int64_t offset = plus(base, take_varint(&record));
        struct bytes key = take_bytes(&record, take_varint(&record));
        print_record(offset, wanted, key, take_bytes(&record, take_varint(&record))); /* headers are left */
    }
    return next;
}

static unsigned char *put(unsigned char *at, uint64_t value, int size) {
    for (int i = size - 1; i >= 0; i--) *at++ = (unsigned char)(value >> 8 * i);
    return at;
}

static void receive(int server, unsigned char *to, size_t size) {
    while (size > 0) {
        ssize_t got = read(server, to, size);
        if (got <= 0) die("the connection ended, bytes still to come", (int64_t)size);
        to += got;
        size -= (size_t)got;
    }
}

/* One request and its answer, without the error code; die() on an error. FETCH and OFFSETS have the same shape. */
static struct bytes ask(int server, int type, const char *topic, int partition, int64_t place, int32_t number) {
    static unsigned char *answer;
    unsigned char request[2 * 1024], *at = request, size[4];
    size_t length = strlen(topic);
    if (length > 1024) die("the topic is too long", (int64_t)length);
    at = put(at, 2 + 2 + length + 4 + 8 + 4, 4); /* what follows the size */
    at = put(at, (uint64_t)type, 2);
    at = put(at, length, 2);
    memcpy(at, topic, length);
    at = put(at + length, (uint64_t)partition, 4);
    at = put(at, (uint64_t)place, 8);
    at = put(at, (uint64_t)number, 4);
    if (write(server, request, (size_t)(at - request)) != at - request) die("the request can't be sent", 0);
    receive(server, size, sizeof size);
    struct bytes total = {size, size + sizeof size};
    int64_t count = take(&total, 4);
    if (count < 2 || count > 2 + (int64_t)MAX_FETCH) die("an answer of an impossible size", count);
    answer = realloc(answer, (size_t)count);
    if (!answer) die("no memory for an answer of bytes", count);
    receive(server, answer, (size_t)count);
    struct bytes body = {answer, answer + count};
    int64_t error = take(&body, 2);
    if (error) die("the broker answers with Kafka's error", error);
    return body;
}

int main(int argc, char **argv) {
    if (argc < 5 || argc > 6) {
        fprintf(stderr, "usage: %s HOST PORT TOPIC PARTITION [OFFSET]\n", argv[0]);
        return 2;
    }
    const char *topic = argv[3];
    int partition = atoi(argv[4]);
    int64_t offset = argc == 6 ? strtoll(argv[5], NULL, 10) : -2;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(argv[1], argv[2], &hints, &found) != 0) die("no such host", 0);
    int server = socket(found->ai_family, found->ai_socktype, 0);
    if (server < 0 || connect(server, found->ai_addr, found->ai_addrlen) != 0) die("nothing answers there", 0);
    freeaddrinfo(found);
    if (offset < 0) { /* count 4, offsets of 8 */
        struct bytes offsets = ask(server, OFFSETS, topic, partition, offset, 1);
        if (take(&offsets, 4) < 1) die("no offset for this time", offset);
        offset = take(&offsets, 8);
    }
    for (int32_t fetch_size = 64 << 10;;) {
        struct bytes set = ask(server, FETCH, topic, partition, offset, fetch_size);
        if (set.at == set.end) return fflush(stdout) != 0; /* the end of the log */
        int64_t before = offset;
        while (set.end - set.at >= OVERHEAD) {
            struct bytes header = {set.at + 8, set.end};
            int64_t size = OVERHEAD + take(&header, 4);
            if (size < OVERHEAD + 14) die("an entry of an impossible size", size);
            if (size > set.end - set.at) break; /* cut off: it comes again */
            struct bytes entry = {set.at, set.at + size};
            int64_t next = print_entry(entry, offset);
            if (next <= offset) die("an entry below the offset that was asked for", next);
            offset = next;
            set.at += size;
        }
        if (offset > before) continue;
        if (fetch_size >= MAX_FETCH) die("an entry larger than this client takes", fetch_size);
        fetch_size *= 2; /* not one whole entry */
    }
}
