// loadgen: one thread, epoll and raw sockets, so that a benchmark measures the broker and not a client library.
//
// It sends what ordinary clients send (Produce v9..v12, Fetch v12..v17, one partition a request, topics by id where
// the version has ids) and believes nothing: every record it writes is distinct, every batch it reads has its CRC-32C,
// its size and its place in the offset sequence checked, and the sum of the CRCs of all acknowledged batches is
// printed, to be compared with the sum that a later `fetch --once` prints (a broker stores a batch's CRC as it came).
//
//   loadgen produce --port 9092 --topic t --value-bytes 1024 --records 62 --depth 5 --seconds 5 --pid BROKER
//   loadgen fetch   --port 9092 --topic t --max-bytes 1048576 --seconds 5 --pid BROKER
//   loadgen fetch   --port 9092 --topic t --once
//
// Options (a default in brackets):
//   --host A --port P --topic T --partitions N [1]      where; connection i works on partition i mod N
//   --connections N [1] --depth N [1]                   depth: requests in flight on a connection (fetch: always 1)
//   --seconds S [5] | --requests N | --bytes N          when to stop; bytes are those of whole batches
//   --warmup S [0]                                      seconds before the measured ones
//   --rate R                                            open loop, R requests/s in all; latency counts from the due time
//   --value-bytes N [1024] --records N [1]              produce: one batch a request; N records of N bytes
//   --codec none|lz4 [none] --acks 0|1|-1 [1]           lz4 needs liblz4.so.1; values are half random, half text
//   --keys N                                            produce: each record has one of N keys of 16 bytes (else none)
//   --seed N [1]                                        produce: other data for another seed
//   --max-bytes N [1048576] --min-bytes N [1] --max-wait MS [500]   fetch
//   --once                                              fetch: each partition from its start to its end, then stop
//   --tail                                              fetch: begin at the end and stay there; prints how old records
//                                                       are on arrival (age: from the producer's due time, same machine)
//   --session                                           fetch: incremental sessions, as Java clients use them
//   --offsets B:E                                       fetch: believe these offsets, ask for no metadata (sendfile_floor)
//   --api-version V [10, 16]                            of Produce or Fetch
//   --pid P[,P..]                                       count these processes' CPU seconds over the measured time
//
// One JSON line on stdout. Times: *_us microseconds, *_s seconds; bytes: whole batches; wire_bytes: all that moved.
// Exit status 0; 3 when an answer carried an error or did not pass a check; 1 when it could not run.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { API_PRODUCE = 0, API_FETCH = 1, API_LIST_OFFSETS = 2, API_METADATA = 3 };
enum { BATCH_HEADER = 61, CODEC_LZ4 = 3, STAMP = 16, KEY = 16, MAX_RESPONSE = 256 << 20, SLACK = 4096 };
#define SECOND 1000000000LL

static struct {
    bool produce, once, tail, session;
    const char *host, *topic, *codec, *pids, *offsets;
    int port, partitions, connections, depth, records, value_bytes, acks, version;
    int max_bytes, min_bytes, max_wait;
    double seconds, warmup, rate;
    int64_t requests, bytes;
    uint64_t seed, keys;
} opt = {.host = "127.0.0.1", .topic = "bench", .codec = "none", .port = 9092, .partitions = 1, .connections = 1,
         .depth = 1, .records = 1, .value_bytes = 1024, .acks = 1, .max_bytes = 1 << 20, .min_bytes = 1,
         .max_wait = 500, .seconds = 5, .seed = 1};

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static void *allocate(void *old, size_t size) {
    void *memory = realloc(old, size);
    if (!memory) die("no memory for %zu bytes", size);
    return memory;
}

static int64_t clock_ns(clockid_t clock) {
    struct timespec t;
    if (clock_gettime(clock, &t)) return -1;
    return t.tv_sec * SECOND + t.tv_nsec;
}

static int64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

// ------------------------------------------------------------------------------------------ CRC-32C
// x86 and ARM have an instruction for it; the table serves everything else.

static uint32_t crc_table[8][256];

static void crc_prepare(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
        crc_table[0][i] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++) crc_table[k][i] = crc_table[k - 1][i] >> 8 ^ crc_table[0][crc_table[k - 1][i] & 255];
}

static uint32_t crc_by_table(uint32_t c, const uint8_t *p, size_t n) {
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        word = le64toh(word) ^ c;
        c = 0;
        for (int k = 0; k < 8; k++) c ^= crc_table[7 - k][word >> (8 * k) & 255];
    }
    while (n--) c = c >> 8 ^ crc_table[0][(c ^ *p++) & 255];
    return c;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_by_hardware(uint32_t c, const uint8_t *p, size_t n) {
    uint64_t wide = c, word;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&word, p, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    c = (uint32_t)wide;
    while (n--) c = __builtin_ia32_crc32qi(c, *p++);
    return c;
}
static bool crc_has_hardware(void) { return __builtin_cpu_supports("sse4.2"); }
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
static uint32_t crc_by_hardware(uint32_t c, const uint8_t *p, size_t n) {
    uint64_t word;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&word, p, 8);
        c = __crc32cd(c, word);
    }
    while (n--) c = __crc32cb(c, *p++);
    return c;
}
static bool crc_has_hardware(void) { return true; }
#else
static uint32_t crc_by_hardware(uint32_t c, const uint8_t *p, size_t n) { return crc_by_table(c, p, n); }
static bool crc_has_hardware(void) { return false; }
#endif

static bool crc_hardware;
static uint32_t crc32c(const uint8_t *p, size_t n) {
    return ~(crc_hardware ? crc_by_hardware(~0u, p, n) : crc_by_table(~0u, p, n));
}

// ------------------------------------------------------------------------------------------ writing the wire format

static inline uint8_t *put8(uint8_t *p, int v) { *p = (uint8_t)v; return p + 1; }
static inline uint8_t *put16(uint8_t *p, int v) { uint16_t x = htobe16((uint16_t)v); memcpy(p, &x, 2); return p + 2; }
static inline uint8_t *put32(uint8_t *p, int64_t v) { uint32_t x = htobe32((uint32_t)v); memcpy(p, &x, 4); return p + 4; }
static inline uint8_t *put64(uint8_t *p, int64_t v) { uint64_t x = htobe64((uint64_t)v); memcpy(p, &x, 8); return p + 8; }

static uint8_t *put_uvarint(uint8_t *p, uint64_t v) {
    for (; v >= 128; v >>= 7) *p++ = (uint8_t)(v | 128);
    *p++ = (uint8_t)v;
    return p;
}
static uint8_t *put_varint(uint8_t *p, int64_t v) { return put_uvarint(p, (uint64_t)v << 1 ^ (uint64_t)(v >> 63)); }
static int varint_size(int64_t v) { uint8_t scratch[10]; return (int)(put_varint(scratch, v) - scratch); }

static uint8_t *put_compact_string(uint8_t *p, const char *s) {
    size_t n = strlen(s);
    p = put_uvarint(p, n + 1);
    memcpy(p, s, n);
    return p + n;
}

// Size (filled in by `finish_request`), then request header v2: all the versions used here are flexible.
static uint8_t *begin_request(uint8_t *p, int key, int version, int32_t correlation) {
    p = put32(p, 0);
    p = put16(p, key);
    p = put16(p, version);
    p = put32(p, correlation);
    p = put16(p, 7);
    memcpy(p, "loadgen", 7);
    return put8(p + 7, 0);
}
static void finish_request(uint8_t *begin, uint8_t *end) { put32(begin, end - begin - 4); }

// ------------------------------------------------------------------------------------------ reading it, with bounds

typedef struct { const uint8_t *p, *end; bool bad; } reader_t;

static const uint8_t *take(reader_t *r, uint64_t n) {
    static const uint8_t nothing[16];
    if (r->bad || n > (uint64_t)(r->end - r->p)) { r->bad = true; return nothing; }
    const uint8_t *at = r->p;
    r->p += n;
    return at;
}
static int16_t get16(reader_t *r) { uint16_t x; memcpy(&x, take(r, 2), 2); return (int16_t)be16toh(x); }
static int32_t get32(reader_t *r) { uint32_t x; memcpy(&x, take(r, 4), 4); return (int32_t)be32toh(x); }
static int64_t get64(reader_t *r) { uint64_t x; memcpy(&x, take(r, 8), 8); return (int64_t)be64toh(x); }
static uint64_t get_uvarint(reader_t *r) {
    uint64_t v = 0;
    for (int shift = 0; shift < 64 && !r->bad; shift += 7) {
        uint8_t byte = *take(r, 1);
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return v;
    }
    r->bad = true;
    return 0;
}
static uint64_t get_length(reader_t *r) { uint64_t n = get_uvarint(r); return n ? n - 1 : 0; }  // null counts as empty
static void skip_compact(reader_t *r) { take(r, get_length(r)); }
static void skip_tags(reader_t *r) {
    for (uint64_t n = get_uvarint(r); n && !r->bad; n--) {
        get_uvarint(r);
        take(r, get_uvarint(r));
    }
}

// ------------------------------------------------------------------------------------------ batches

static int (*lz4_compress)(const char *, char *, int, int);
static uint8_t *plain, *packed;  // records before compression; the lz4 frame
static size_t batch_capacity;
static uint64_t random_state, records_made;

static inline uint64_t random64(void) {  // splitmix64
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void batches_prepare(void) {
    if (opt.value_bytes < STAMP) die("--value-bytes %d: %d at least, each value carries its number and time", opt.value_bytes, STAMP);
    if (opt.records < 1) die("--records %d: 1 at least", opt.records);
    batch_capacity = BATCH_HEADER + (size_t)opt.records * (size_t)(opt.value_bytes + KEY + 32);
    batch_capacity += batch_capacity / 64 + 1024;
    if (batch_capacity > 128 << 20) die("a batch of %zu bytes is too large", batch_capacity);
    random_state = opt.seed * 0x2545f4914f6cdd1du;
    if (!strcmp(opt.codec, "none")) return;
    if (strcmp(opt.codec, "lz4")) die("--codec %s: none or lz4", opt.codec);
    void *library = dlopen("liblz4.so.1", RTLD_NOW);
    if (!library) die("--codec lz4 needs liblz4.so.1 (Debian: apt-get install liblz4-1): %s", dlerror());
    *(void **)&lz4_compress = dlsym(library, "LZ4_compress_default");
    if (!lz4_compress) die("liblz4.so.1 lacks LZ4_compress_default");
    plain = allocate(NULL, batch_capacity);
    packed = allocate(NULL, batch_capacity);
}

// A number, a time, then 32 random bytes and 32 of text in turn: distinct in every record, and lz4 about halves it.
static uint8_t *put_value(uint8_t *p, int64_t due) {
    static const char text[33] = "tidelog keeps what it was given.";
    uint8_t *end = p + opt.value_bytes;
    p = put64(p, (int64_t)(records_made++ ^ opt.seed << 40));
    p = put64(p, due);
    while (end - p >= 64) {
        for (int i = 0; i < 4; i++, p += 8) { uint64_t word = random64(); memcpy(p, &word, 8); }
        memcpy(p, text, 32);
        p += 32;
    }
    for (; end - p >= 8; p += 8) { uint64_t word = random64(); memcpy(p, &word, 8); }
    while (p < end) *p++ = (uint8_t)random64();
    return p;
}

// One of --keys, by chance: sixteen hexadecimal digits.
static uint8_t *put_key(uint8_t *p) {
    uint64_t number = random64() % opt.keys;
    for (int digit = 0; digit < KEY; digit++, number >>= 4) p[KEY - 1 - digit] = (uint8_t)"0123456789abcdef"[number & 15];
    return p + KEY;
}

// One LZ4 frame: independent blocks of up to 64 KiB, no checksums; 0x82 is the header's own for these flags.
static size_t put_lz4_frame(uint8_t *out, const uint8_t *data, size_t size) {
    static const uint8_t head[7] = {0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82};
    uint8_t *p = out;
    memcpy(p, head, 7);
    p += 7;
    for (size_t at = 0; at < size;) {
        int raw = size - at > 65536 ? 65536 : (int)(size - at);
        int n = lz4_compress((const char *)data + at, (char *)p + 4, raw, raw - 1);
        uint32_t word = htole32(n > 0 ? (uint32_t)n : (uint32_t)raw | 0x80000000u);
        if (n <= 0) memcpy(p + 4, data + at, (size_t)(n = raw));
        memcpy(p, &word, 4);
        p += 4 + n;
        at += (size_t)raw;
    }
    memset(p, 0, 4);
    return (size_t)(p + 4 - out);
}

static size_t put_batch(uint8_t *out, int64_t due, uint32_t *crc) {
    uint8_t *records = lz4_compress ? plain : out + BATCH_HEADER, *p = records;
    for (int i = 0; i < opt.records; i++) {
        int key = opt.keys ? KEY : -1;
        int body = 1 + 1 + varint_size(i) + 1 + (opt.keys ? KEY : 0) + varint_size(opt.value_bytes) + opt.value_bytes + 1;
        p = put_varint(p, body);
        p = put8(p, 0);               // attributes
        p = put8(p, 0);               // timestamp delta
        p = put_varint(p, i);         // offset delta
        p = put_varint(p, key);       // -1: null
        if (opt.keys) p = put_key(p);
        p = put_varint(p, opt.value_bytes);
        p = put_value(p, due);
        p = put8(p, 0);               // headers: none
    }
    size_t size = (size_t)(p - records);
    if (lz4_compress) {
        size = put_lz4_frame(packed, plain, size);
        memcpy(out + BATCH_HEADER, packed, size);
    }
    int64_t timestamp = clock_ns(CLOCK_REALTIME) / 1000000;
    p = put64(out, 0);                                   // base offset: the broker's
    p = put32(p, (int64_t)size + BATCH_HEADER - 12);
    p = put32(p, -1);                                    // leader epoch: the broker's
    p = put8(p, 2);
    uint8_t *checked = p + 4;
    p = put16(checked, lz4_compress ? CODEC_LZ4 : 0);
    p = put32(p, opt.records - 1);
    p = put64(p, timestamp);
    p = put64(p, timestamp);
    p = put64(p, -1);                                    // no producer id, epoch, sequence
    p = put16(p, -1);
    p = put32(p, -1);
    put32(p, opt.records);
    *crc = crc32c(checked, (size_t)(out + BATCH_HEADER + size - checked));
    put32(checked - 4, *crc);
    return BATCH_HEADER + size;
}

// ------------------------------------------------------------------------------------------ latency: 128 steps an octave

typedef struct { int64_t count[64 * 128], total, max; } histogram_t;

static void histogram_add(histogram_t *h, int64_t ns) {
    if (ns < 1) ns = 1;
    int octave = 63 - __builtin_clzll((uint64_t)ns);
    int step = octave < 7 ? (int)ns : (octave - 6) * 128 + (int)(ns >> (octave - 7) & 127);
    h->count[step]++;
    h->total++;
    if (ns > h->max) h->max = ns;
}
static double histogram_us(const histogram_t *h, double share) {
    int64_t wanted = (int64_t)(share * (double)h->total), seen = 0;
    for (int i = 0; i < 64 * 128; i++) {
        seen += h->count[i];
        if (seen > wanted) return (double)(i < 128 ? i : (128LL + i % 128) << (i / 128 - 1)) / 1000;
    }
    return (double)h->max / 1000;
}

// ------------------------------------------------------------------------------------------ connections and counts

typedef struct { int64_t begin, next, end; } cursor_t;
typedef struct { int64_t due; int32_t correlation; uint32_t crc; int64_t bytes; } pending_t;
typedef struct {
    int fd, partition;
    uint8_t *out, *in;
    size_t out_capacity, out_length, out_sent, in_capacity, in_length;
    pending_t *pending;      // ring of `depth`
    int first, in_flight;
    int32_t correlation, session_id, session_epoch;
    bool waiting_to_write, done;
    cursor_t cursor;
} connection_t;

typedef struct { int64_t requests, records, bytes, wire_bytes, value_bytes, empty; } counts_t;

static connection_t *connections;
static cursor_t *partition_ends;
static uint8_t topic_id[16];
static int epoll_fd;
static counts_t measured, all;
static histogram_t latency, age;
static uint64_t checksum;
static int64_t issued_requests, issued_bytes, failures, failure_by_code[256];
static char first_failure[200];
static bool measuring, stopping;

static void __attribute__((format(printf, 2, 3))) fail(int code, const char *format, ...) {
    if (!failures++) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(first_failure, sizeof first_failure, format, arguments);
        va_end(arguments);
    }
    failure_by_code[code & 255]++;
    if (failures > 1000) die("more than 1000 failures; the first: %s", first_failure);
}

static void count(int64_t records, int64_t bytes, int64_t wire_bytes) {
    counts_t *both[2] = {&all, &measured};
    for (int i = 0; i < (measuring ? 2 : 1); i++) {
        both[i]->requests++;
        both[i]->records += records;
        both[i]->bytes += bytes;
        both[i]->wire_bytes += wire_bytes;
        both[i]->value_bytes += opt.produce ? records * opt.value_bytes : 0;
        both[i]->empty += bytes == 0;
    }
}

static int dial(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)opt.port)};
    if (inet_pton(AF_INET, opt.host, &address.sin_addr) != 1) die("--host %s: an IPv4 address is wanted", opt.host);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        die("cannot connect to %s:%d: %s", opt.host, opt.port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return fd;
}

// One blocking request; the answer's body (behind correlation id and tags) through `reader`; memory stays allocated.
static reader_t ask(int fd, uint8_t *request, uint8_t *end) {
    finish_request(request, end);
    if (send(fd, request, (size_t)(end - request), MSG_NOSIGNAL) != end - request) die("cannot send: %s", strerror(errno));
    uint8_t head[4];
    if (recv(fd, head, 4, MSG_WAITALL) != 4) die("the broker closed the connection on a set-up request");
    reader_t size = {head, head + 4, false};
    int32_t n = get32(&size);
    if (n < 5 || n > MAX_RESPONSE) die("a set-up answer of %d bytes", n);
    uint8_t *body = allocate(NULL, (size_t)n);
    if (recv(fd, body, (size_t)n, MSG_WAITALL) != n) die("a set-up answer was cut short");
    reader_t r = {body, body + n, false};
    get32(&r);
    skip_tags(&r);
    return r;
}

static void look_up_topic(int fd) {
    for (int attempt = 0;; attempt++) {
        uint8_t request[1024], *p = begin_request(request, API_METADATA, 12, 1);
        p = put_uvarint(p, 2);
        memset(p, 0, 16);
        p = put_compact_string(p + 16, opt.topic);
        memset(p, 0, 4);  // topic's tags; no auto-creation; no authorized operations; tags
        reader_t r = ask(fd, request, p + 4);
        get32(&r);
        for (uint64_t n = get_length(&r); n && !r.bad; n--) {
            get32(&r);
            skip_compact(&r);
            get32(&r);
            skip_compact(&r);
            skip_tags(&r);
        }
        skip_compact(&r);
        get32(&r);
        if (get_length(&r) != 1) die("Metadata has no answer for topic %s", opt.topic);
        int error = get16(&r);
        skip_compact(&r);
        memcpy(topic_id, take(&r, 16), 16);
        take(&r, 1);
        uint64_t partitions = get_length(&r);
        if (r.bad) die("Metadata answer cannot be read");
        if (!error && partitions >= (uint64_t)opt.partitions) return;
        if (attempt == 100) die("topic %s: error %d, %llu partitions", opt.topic, error, (unsigned long long)partitions);
        usleep(100000);  // just created, not yet known everywhere
    }
}

static int64_t list_offset(int fd, int partition, int64_t timestamp) {
    for (int attempt = 0;; attempt++) {
        uint8_t request[1024], *p = begin_request(request, API_LIST_OFFSETS, 7, 2);
        p = put32(p, -1);
        p = put8(p, 0);
        p = put_uvarint(p, 2);
        p = put_compact_string(p, opt.topic);
        p = put_uvarint(p, 2);
        p = put32(p, partition);
        p = put32(p, -1);
        p = put64(p, timestamp);
        memset(p, 0, 3);
        reader_t r = ask(fd, request, p + 3);
        get32(&r);
        get_uvarint(&r);
        skip_compact(&r);
        get_uvarint(&r);
        get32(&r);
        int error = get16(&r);
        get64(&r);
        int64_t offset = get64(&r);
        if (r.bad) die("ListOffsets answer cannot be read");
        if (!error) return offset;
        if (attempt == 100) die("ListOffsets of %s-%d: error %d", opt.topic, partition, error);
        usleep(100000);
    }
}

// Several readers of one partition begin spread over it.
static void place(connection_t *c, int partition, int rank, int readers) {
    cursor_t e = partition_ends[partition];
    c->partition = partition;
    c->cursor = e;
    if (opt.tail) c->cursor.next = e.end;
    else c->cursor.next = e.begin + (e.end - e.begin) / readers * rank;
}

static void prepare_connections(void) {
    partition_ends = allocate(NULL, sizeof *partition_ends * (size_t)opt.partitions);
    if (opt.offsets) {
        long long begin, end;
        if (sscanf(opt.offsets, "%lld:%lld", &begin, &end) != 2) die("--offsets %s: BEGIN:END is wanted", opt.offsets);
        for (int i = 0; i < opt.partitions; i++) partition_ends[i] = (cursor_t){begin, begin, end};
    } else {
        int fd = dial();
        look_up_topic(fd);
        for (int i = 0; i < opt.partitions; i++) {
            int64_t begin = list_offset(fd, i, -2), end = list_offset(fd, i, -1);  // also waits for a new partition's leader
            partition_ends[i] = (cursor_t){begin, begin, end};
            if (!opt.produce && !opt.tail && begin == end) die("%s-%d is empty: nothing to fetch", opt.topic, i);
        }
        close(fd);
    }
    connections = calloc((size_t)opt.connections, sizeof *connections);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!connections || epoll_fd < 0) die("no memory or no epoll");
    for (int i = 0; i < opt.connections; i++) {
        connection_t *c = &connections[i];
        c->fd = dial();
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        c->pending = allocate(NULL, sizeof *c->pending * (size_t)opt.depth);
        c->in = allocate(NULL, c->in_capacity = 65536);
        int readers = (opt.connections + opt.partitions - 1 - i % opt.partitions) / opt.partitions;
        place(c, i % opt.partitions, opt.once ? 0 : i / opt.partitions, readers);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &event)) die("epoll: %s", strerror(errno));
    }
}

// ------------------------------------------------------------------------------------------ sending

static void flush(connection_t *c) {
    while (c->out_sent < c->out_length) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_length - c->out_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) die("cannot send: %s", strerror(errno));
        c->out_sent += (size_t)n;
    }
    bool more = c->out_sent < c->out_length;
    if (!more) c->out_sent = c->out_length = 0;
    if (more != c->waiting_to_write) {
        struct epoll_event event = {.events = more ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &event);
        c->waiting_to_write = more;
    }
}

static uint8_t *put_produce(uint8_t *p, connection_t *c, pending_t *request, const uint8_t *batch, size_t size) {
    p = begin_request(p, API_PRODUCE, opt.version, request->correlation);
    p = put8(p, 0);                  // no transaction
    p = put16(p, opt.acks);
    p = put32(p, 30000);
    p = put_uvarint(p, 2);
    p = put_compact_string(p, opt.topic);
    p = put_uvarint(p, 2);
    p = put32(p, c->partition);
    p = put_uvarint(p, size + 1);
    memcpy(p, batch, size);
    memset(p + size, 0, 3);
    return p + size + 3;
}

static uint8_t *put_fetch(uint8_t *p, connection_t *c, pending_t *request) {
    p = begin_request(p, API_FETCH, opt.version, request->correlation);
    if (opt.version < 15) p = put32(p, -1);
    p = put32(p, opt.max_wait);
    p = put32(p, opt.min_bytes);
    p = put32(p, 50 << 20);
    p = put8(p, 0);
    p = put32(p, opt.session ? c->session_id : 0);
    p = put32(p, opt.session ? c->session_epoch : -1);
    p = put_uvarint(p, 2);
    if (opt.version < 13) p = put_compact_string(p, opt.topic);
    else { memcpy(p, topic_id, 16); p += 16; }
    p = put_uvarint(p, 2);
    p = put32(p, c->partition);
    p = put32(p, -1);
    p = put64(p, c->cursor.next);
    p = put32(p, -1);
    p = put64(p, -1);
    p = put32(p, opt.max_bytes);
    p = put8(p, 0);
    p = put8(p, 0);
    p = put_uvarint(p, 1);           // no forgotten topics
    p = put_uvarint(p, 1);           // no rack
    return put8(p, 0);
}

static void issue(connection_t *c, int64_t due) {
    static uint8_t *batch;
    if (!batch && opt.produce) batch = allocate(NULL, batch_capacity);
    pending_t request = {.due = due, .correlation = ++c->correlation};
    size_t size = opt.produce ? put_batch(batch, due, &request.crc) : 0;
    request.bytes = (int64_t)size;
    if (c->out_sent && c->out_sent == c->out_length) c->out_sent = c->out_length = 0;
    size_t wanted = c->out_length + size + SLACK;
    if (wanted > c->out_capacity) c->out = allocate(c->out, c->out_capacity = wanted * 2);
    uint8_t *begin = c->out + c->out_length;
    uint8_t *end = opt.produce ? put_produce(begin, c, &request, batch, size) : put_fetch(begin, c, &request);
    finish_request(begin, end);
    c->out_length = (size_t)(end - c->out);
    issued_requests++;
    issued_bytes += (int64_t)size;
    if (opt.produce && opt.acks == 0) {  // nothing will come back
        checksum += request.crc;
        count(opt.records, (int64_t)size, end - begin);
        return;
    }
    c->pending[(c->first + c->in_flight++) % opt.depth] = request;
}

static bool may_issue(void) {
    if (stopping) return false;
    if ((opt.requests && issued_requests >= opt.requests) || (opt.bytes && (opt.produce ? issued_bytes : all.bytes) >= opt.bytes))
        stopping = true;
    return !stopping;
}

// Closed loop: keep `depth` requests in flight; without acks, as many as the socket takes.
static void top_up(connection_t *c, int64_t now) {
    if (opt.rate > 0) return;
    bool unanswered = opt.produce && opt.acks == 0;
    while (!c->done && (unanswered ? c->out_length == c->out_sent : c->in_flight < opt.depth) && may_issue()) {
        issue(c, now);
        flush(c);
        if (unanswered && measuring && now_ns() - now > SECOND / 100) break;
    }
}

// ------------------------------------------------------------------------------------------ answers

static void answer_produce(connection_t *c, pending_t *request, reader_t *r, size_t wire) {
    get_uvarint(r);
    skip_compact(r);
    get_uvarint(r);
    int partition = get32(r), error = get16(r);
    int64_t base_offset = get64(r);
    if (r->bad) die("Produce answer cannot be read");
    if (error) { fail(error, "Produce to partition %d: error %d", c->partition, error); count(0, 0, 0); return; }
    if (partition != c->partition || base_offset < 0) fail(255, "Produce answer names partition %d, offset %lld", partition, (long long)base_offset);
    checksum += request->crc;
    count(opt.records, request->bytes, request->bytes + (int64_t)wire);
}

// The producer's due time, out of an uncompressed batch's first record.
static void note_age(const uint8_t *batch, const uint8_t *end, int64_t now) {
    reader_t r = {batch + BATCH_HEADER, end, false};
    get_uvarint(&r);
    take(&r, 1);
    get_uvarint(&r);
    get_uvarint(&r);
    take(&r, 1);  // null key
    get_uvarint(&r);
    get64(&r);
    int64_t due = get64(&r);
    if (!r.bad && measuring && due > 0 && due <= now) histogram_add(&age, now - due);
}

// Checks every whole batch of a record set, moves the cursor; returns bytes of whole batches.
static int64_t check_batches(connection_t *c, const uint8_t *set, size_t size, int64_t *records, int64_t now) {
    size_t at = 0;
    while (size - at >= BATCH_HEADER) {
        const uint8_t *batch = set + at;
        reader_t r = {batch, batch + BATCH_HEADER, false};
        int64_t base = get64(&r);
        int64_t whole = 12 + (int64_t)get32(&r);
        get32(&r);
        int magic = *take(&r, 1);
        uint32_t crc = (uint32_t)get32(&r);
        int attributes = get16(&r), last_delta = get32(&r);
        r.p = batch + 57;
        int n = get32(&r);
        if (whole < BATCH_HEADER || magic != 2) { fail(255, "a batch of size %lld, magic %d at offset %lld", (long long)whole, magic, (long long)base); break; }
        if ((uint64_t)whole > size - at) break;  // cut off by max-bytes, as the protocol allows
        if (crc32c(batch + 21, (size_t)whole - 21) != crc) fail(255, "CRC wrong in the batch at offset %lld", (long long)base);
        if (base > c->cursor.next || base + last_delta < c->cursor.next || n != last_delta + 1)
            fail(255, "offset %lld wanted, a batch of %lld..%lld with %d records came", (long long)c->cursor.next,
                 (long long)base, (long long)base + last_delta, n);
        checksum += crc;
        *records += base + last_delta + 1 - c->cursor.next;
        c->cursor.next = base + last_delta + 1;
        if (opt.tail && !(attributes & 7)) note_age(batch, batch + whole, now);
        at += (size_t)whole;
    }
    return (int64_t)at;
}

static void answer_fetch(connection_t *c, reader_t *r, size_t wire, int64_t now) {
    get32(r);
    int error = get16(r);
    int32_t session = get32(r);
    int64_t bytes = 0, records = 0;
    size_t set_size = 0;
    if (error) fail(error, "Fetch: error %d", error);
    if (opt.session) {
        c->session_id = session;
        c->session_epoch = session ? c->session_epoch % INT32_MAX + 1 : 0;
    }
    for (uint64_t topics = get_length(r); topics && !r->bad; topics--) {
        if (opt.version < 13) skip_compact(r);
        else take(r, 16);
        for (uint64_t partitions = get_length(r); partitions && !r->bad; partitions--) {
            int partition = get32(r);
            int code = get16(r);
            get64(r);
            get64(r);
            get64(r);
            for (uint64_t aborted = get_length(r); aborted && !r->bad; aborted--) { take(r, 16); skip_tags(r); }
            get32(r);
            set_size = get_length(r);
            const uint8_t *set = take(r, set_size);
            skip_tags(r);
            if (r->bad) break;
            if (code) fail(code, "Fetch of partition %d at %lld: error %d", partition, (long long)c->cursor.next, code);
            else if (partition != c->partition) fail(255, "Fetch of partition %d was answered for %d", c->partition, partition);
            else bytes += check_batches(c, set, set_size, &records, now);
        }
        skip_tags(r);
    }
    skip_tags(r);
    if (r->bad) die("Fetch answer cannot be read");
    if (set_size && !bytes) fail(255, "Fetch at %lld: %zu bytes and no whole batch", (long long)c->cursor.next, set_size);
    if (!set_size && !error && !opt.tail) fail(255, "Fetch at %lld of %lld: nothing came", (long long)c->cursor.next, (long long)c->cursor.end);
    count(records, bytes, (int64_t)wire);
    if (opt.tail || c->cursor.next < c->cursor.end) return;
    if (!opt.once) { c->cursor.next = c->cursor.begin; return; }
    int following = c->partition + opt.connections;
    if (following < opt.partitions) {
        place(c, following, 0, 1);
        c->session_id = c->session_epoch = 0;  // the old partition would stay in the session
    } else c->done = true;
}

static void read_answers(connection_t *c) {
    ssize_t n = recv(c->fd, c->in + c->in_length, c->in_capacity - c->in_length, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) die("the broker closed a connection%s%s", n < 0 ? ": " : "", n < 0 ? strerror(errno) : "");
    c->in_length += (size_t)n;
    size_t at = 0;
    while (c->in_length - at >= 4) {
        reader_t r = {c->in + at, c->in + c->in_length, false};
        int32_t size = get32(&r);
        if (size < 5 || size > MAX_RESPONSE) die("an answer of %d bytes", size);
        size_t whole = 4 + (size_t)size;
        if (c->in_length - at < whole) {
            if (whole > c->in_capacity) c->in = allocate(c->in, c->in_capacity = whole + 65536);
            break;
        }
        int64_t now = now_ns();
        r.end = c->in + at + whole;
        if (!c->in_flight) die("an answer that was not asked for");
        pending_t request = c->pending[c->first];
        c->first = (c->first + 1) % opt.depth;
        c->in_flight--;
        int32_t correlation = get32(&r);
        if (correlation != request.correlation) die("answer %d came where %d was due: out of order", correlation, request.correlation);
        skip_tags(&r);
        if (measuring) histogram_add(&latency, now - request.due);
        if (opt.produce) answer_produce(c, &request, &r, whole);
        else answer_fetch(c, &r, whole, now);
        at += whole;
        top_up(c, now);
    }
    memmove(c->in, c->in + at, c->in_length - at);
    c->in_length -= at;
}

// ------------------------------------------------------------------------------------------ the run

static clockid_t broker_clocks[16];
static int brokers;

static void find_brokers(void) {
    char *list = opt.pids ? strdup(opt.pids) : NULL;
    for (char *pid = list ? strtok(list, ",") : NULL; pid && brokers < 16; pid = strtok(NULL, ","))
        if (clock_getcpuclockid(atoi(pid), &broker_clocks[brokers++])) die("--pid %s: no such process", pid);
    free(list);
}
// The same user + system time as in /proc/PID/stat, in nanoseconds and not in ticks of ten milliseconds.
static int64_t broker_cpu_ns(void) {
    int64_t sum = 0;
    for (int i = 0; i < brokers; i++) {
        int64_t one = clock_ns(broker_clocks[i]);
        if (one < 0) die("the broker's process has gone");
        sum += one;
    }
    return sum;
}

static int64_t run_start, run_end, cpu_start, cpu_end, own_start, own_end;

static void begin_measuring(int64_t now) {
    measuring = true;
    memset(&latency, 0, sizeof latency);
    run_start = now;
    cpu_start = broker_cpu_ns();
    own_start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}
static void end_measuring(void) {
    if (!measuring) return;
    run_end = now_ns();
    cpu_end = broker_cpu_ns();
    own_end = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    measuring = false;
}

static bool any_outstanding(void) {
    for (int i = 0; i < opt.connections; i++)
        if (connections[i].in_flight || connections[i].out_length > connections[i].out_sent) return true;
    return false;
}
static bool all_done(void) {
    for (int i = 0; i < opt.connections; i++)
        if (!connections[i].done) return false;
    return true;
}

// Open loop: requests fall due at a fixed pace, whether the last ones were answered or not.
static void issue_due(int64_t now, int64_t start, int64_t *sent) {
    static int turn;
    while (!stopping) {
        int64_t due = start + (int64_t)((double)*sent * 1e9 / opt.rate);
        if (due > now) return;
        connection_t *free_one = NULL;
        for (int i = 0; i < opt.connections && !free_one; i++) {
            connection_t *c = &connections[(turn + i) % opt.connections];
            if (c->in_flight < opt.depth) { free_one = c; turn = (turn + i + 1) % opt.connections; }
        }
        if (!free_one || !may_issue()) return;  // stays due: the wait counts as latency
        issue(free_one, due);
        flush(free_one);
        ++*sent;
    }
}

static void run(void) {
    bool by_time = !opt.requests && !opt.bytes && !opt.once;
    int64_t start = now_ns(), measure_from = start + (int64_t)(opt.warmup * 1e9);
    int64_t stop_at = by_time ? measure_from + (int64_t)(opt.seconds * 1e9) : INT64_MAX, give_up = INT64_MAX, sent = 0;
    struct epoll_event events[64];
    if (opt.rate > 0) {
        int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        int64_t interval = (int64_t)(1e9 / opt.rate);
        struct itimerspec every = {.it_interval = {interval / SECOND, interval % SECOND}, .it_value = {0, 1}};
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)timer << 1 | 1};  // odd: not a connection
        if (timer < 0 || timerfd_settime(timer, 0, &every, NULL)) die("timer: %s", strerror(errno));
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer, &event);
    }
    if (opt.warmup <= 0) begin_measuring(start);
    for (int i = 0; i < opt.connections; i++) top_up(&connections[i], now_ns());
    for (;;) {
        int64_t now = now_ns();
        if (!measuring && !stopping && !run_end && now >= measure_from) begin_measuring(now);
        if (now >= stop_at && !stopping) {
            stopping = true;
            end_measuring();
        }
        if (opt.once && all_done()) stopping = true;
        if (stopping) {
            // A reader at the tail may have a long poll outstanding; nothing of it is lost by leaving.
            if (!any_outstanding() || (!opt.produce && by_time)) break;
            if (give_up == INT64_MAX) give_up = now + 60 * SECOND;
            if (now > give_up) die("answers are outstanding for a minute");
        }
        if (opt.rate > 0) issue_due(now, start, &sent);
        int n = epoll_wait(epoll_fd, events, 64, 5);
        if (n < 0 && errno != EINTR) die("epoll: %s", strerror(errno));
        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 & 1) {
                uint64_t expirations;
                (void)!read((int)(events[i].data.u64 >> 1), &expirations, 8);
                continue;
            }
            connection_t *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) flush(c);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_answers(c);
            else top_up(c, now_ns());
        }
        if (opt.produce && opt.acks == 0)
            for (int i = 0; i < opt.connections; i++) top_up(&connections[i], now_ns());
    }
    end_measuring();
}

static void print_result(void) {
    double seconds = (double)(run_end - run_start) / 1e9, cpu = (double)(cpu_end - cpu_start) / 1e9;
    counts_t *m = &measured;
    printf("{\"mode\":\"%s\",\"seconds\":%.6f,\"requests\":%lld,\"records\":%lld,\"bytes\":%lld,\"wire_bytes\":%lld,\"value_bytes\":%lld,\"empty\":%lld",
           opt.produce ? "produce" : "fetch", seconds, (long long)m->requests, (long long)m->records, (long long)m->bytes,
           (long long)m->wire_bytes, (long long)m->value_bytes, (long long)m->empty);
    printf(",\"requests_per_s\":%.1f,\"MB_per_s\":%.3f", (double)m->requests / seconds, (double)m->bytes / seconds / 1e6);
    printf(",\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f", histogram_us(&latency, 0.5),
           histogram_us(&latency, 0.99), histogram_us(&latency, 0.999), (double)latency.max / 1000);
    if (age.total)
        printf(",\"age_p50_us\":%.1f,\"age_p99_us\":%.1f,\"age_p999_us\":%.1f,\"age_max_us\":%.1f", histogram_us(&age, 0.5),
               histogram_us(&age, 0.99), histogram_us(&age, 0.999), (double)age.max / 1000);
    printf(",\"server_cpu_s\":%.6f,\"own_cpu_s\":%.6f", cpu, (double)(own_end - own_start) / 1e9);
    int64_t useful = opt.produce ? m->value_bytes : m->bytes;  // what a user has of it: the values he sent, the batches he got
    if (brokers && m->requests)
        printf(",\"cpu_us_per_request\":%.3f,\"cpu_s_per_GB\":%.4f", cpu * 1e6 / (double)m->requests,
               useful ? cpu * 1e9 / (double)useful : 0);
    printf(",\"all_requests\":%lld,\"all_records\":%lld,\"all_bytes\":%lld,\"checksum\":\"%016llx\",\"failures\":%lld,\"failure_codes\":{",
           (long long)all.requests, (long long)all.records, (long long)all.bytes, (unsigned long long)checksum, (long long)failures);
    for (int i = 0, some = 0; i < 256; i++)
        if (failure_by_code[i]) printf("%s\"%d\":%lld", some++ ? "," : "", i == 255 ? -1 : i, (long long)failure_by_code[i]);
    printf("}}\n");
    if (failures) fprintf(stderr, "loadgen: %lld failures; the first: %s\n", (long long)failures, first_failure);
}

int main(int argc, char **argv) {
    static const struct option names[] = {
        {"host", 1, 0, 'h'}, {"port", 1, 0, 'p'}, {"topic", 1, 0, 't'}, {"partitions", 1, 0, 'P'}, {"connections", 1, 0, 'c'},
        {"depth", 1, 0, 'd'}, {"seconds", 1, 0, 's'}, {"requests", 1, 0, 'r'}, {"bytes", 1, 0, 'b'}, {"warmup", 1, 0, 'w'},
        {"rate", 1, 0, 'R'}, {"value-bytes", 1, 0, 'v'}, {"records", 1, 0, 'n'}, {"codec", 1, 0, 'C'}, {"acks", 1, 0, 'a'},
        {"seed", 1, 0, 'S'}, {"keys", 1, 0, 'k'}, {"max-bytes", 1, 0, 'm'}, {"min-bytes", 1, 0, 'M'}, {"max-wait", 1, 0, 'W'}, {"once", 0, 0, 'o'},
        {"tail", 0, 0, 'T'}, {"session", 0, 0, 'e'}, {"offsets", 1, 0, 'O'}, {"api-version", 1, 0, 'V'}, {"pid", 1, 0, 'i'}, {0, 0, 0, 0}};
    if (argc < 2 || (strcmp(argv[1], "produce") && strcmp(argv[1], "fetch"))) die("say produce or fetch first; the options are at the top of loadgen.c");
    opt.produce = !strcmp(argv[1], "produce");
    for (int o; (o = getopt_long(argc - 1, argv + 1, "", names, NULL)) != -1;) switch (o) {
        case 'h': opt.host = optarg; break;
        case 'p': opt.port = atoi(optarg); break;
        case 't': opt.topic = optarg; break;
        case 'P': opt.partitions = atoi(optarg); break;
        case 'c': opt.connections = atoi(optarg); break;
        case 'd': opt.depth = atoi(optarg); break;
        case 's': opt.seconds = atof(optarg); break;
        case 'r': opt.requests = atoll(optarg); break;
        case 'b': opt.bytes = atoll(optarg); break;
        case 'w': opt.warmup = atof(optarg); break;
        case 'R': opt.rate = atof(optarg); break;
        case 'v': opt.value_bytes = atoi(optarg); break;
        case 'n': opt.records = atoi(optarg); break;
        case 'C': opt.codec = optarg; break;
        case 'a': opt.acks = atoi(optarg); break;
        case 'k': opt.keys = strtoull(optarg, NULL, 10); break;
        case 'S': opt.seed = strtoull(optarg, NULL, 10); break;
        case 'm': opt.max_bytes = atoi(optarg); break;
        case 'M': opt.min_bytes = atoi(optarg); break;
        case 'W': opt.max_wait = atoi(optarg); break;
        case 'o': opt.once = true; break;
        case 'T': opt.tail = true; break;
        case 'e': opt.session = true; break;
        case 'O': opt.offsets = optarg; break;
        case 'V': opt.version = atoi(optarg); break;
        case 'i': opt.pids = optarg; break;
        default: return 1;
    }
    if (!opt.version) opt.version = opt.produce ? 10 : 16;
    if (opt.produce ? opt.version < 9 || opt.version > 12 : opt.version < 12 || opt.version > 17)
        die("--api-version %d: Produce 9..12, Fetch 12..17", opt.version);
    if (opt.connections < 1 || opt.depth < 1 || opt.partitions < 1) die("connections, depth and partitions: 1 at least");
    if (strlen(opt.topic) > 249) die("--topic: 249 characters at most");
    if (!opt.produce) opt.depth = 1;
    if (opt.once && opt.connections > opt.partitions) opt.connections = opt.partitions;
    crc_prepare();
    crc_hardware = crc_has_hardware();
    if (opt.produce) batches_prepare();
    find_brokers();
    prepare_connections();
    run();
    print_result();
    return failures ? 3 : 0;
}
