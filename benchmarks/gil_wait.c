/* Preloaded into CPython: how long each thread has waited for the interpreter's lock.
 *
 * CPython waits for the lock in pthread_cond_timedwait, a switch interval at a time; locks of `threading` are semaphores, so
 * that the loop's thread calls it for nothing else. The file that GIL_WAIT names is an array of the struct below, one for each
 * thread, with GIL_WAIT_THREADS places; whoever maps it reads along.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 256, BUCKETS = 6 };

/* A wait may be several calls: one for each switch interval. They are one wait when nothing lay between them. */
struct waits {
    int64_t thread, count, total_ns, longest_ns;
    int64_t at_least[BUCKETS]; /* waits of 50, 100, 200, 500, 1000, 5000 µs and more */
};

static const int64_t bounds_ns[BUCKETS] = {50000, 100000, 200000, 500000, 1000000, 5000000};
static struct waits *places;
static int used;
static __thread struct waits *mine;
static __thread int64_t begun_ns;
static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("GIL_WAIT");
    size_t size = THREADS * sizeof(struct waits);
    real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0 || ftruncate(file, (off_t)size))
        return;
    void *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (room != MAP_FAILED)
        places = room;
    close(file);
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    if (!places)
        return real(condition, mutex, until);
    if (!mine) {
        int place = __atomic_fetch_add(&used, 1, __ATOMIC_RELAXED);
        mine = &places[place < THREADS ? place : THREADS - 1];
        mine->thread = syscall(SYS_gettid);
    }
    int64_t begin_ns = begun_ns ? begun_ns : now_ns();
    int result = real(condition, mutex, until);
    if (result == ETIMEDOUT) { /* the interval is over, the lock still taken: the same wait goes on */
        begun_ns = begin_ns;
        return result;
    }
    begun_ns = 0;
    int64_t waited_ns = now_ns() - begin_ns;
    mine->count++;
    mine->total_ns += waited_ns;
    if (waited_ns > mine->longest_ns)
        mine->longest_ns = waited_ns;
    for (int i = 0; i < BUCKETS; i++)
        mine->at_least[i] += waited_ns >= bounds_ns[i];
    return result;
}
