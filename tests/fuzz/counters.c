/* What kernels call that gcc built with -fsanitize-coverage=trace-pc,trace-cmp, for libFuzzer, which knows clang's calls only.
 *
 * gcc reports each basic block by a call, and leaves to the callee what to do with the return address. Here it chooses one of
 * 65,536 counters, as AFL does, which libFuzzer takes for clang's inline ones. Comparisons are handed on to it: it learns from
 * them which constants to try.
 *
 * Preloaded into the process. libFuzzer is loaded later, with atheris; until it is registered, calls do nothing more.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#define COUNTERS 65536

static uint8_t counters[COUNTERS];
static uintptr_t table[2 * COUNTERS]; /* pairs of address and flags */

void __sanitizer_cov_trace_pc(void) {
    uintptr_t pc = (uintptr_t)__builtin_return_address(0);
    counters[(pc ^ (pc >> 16)) % COUNTERS]++;
}

#define COMPARE(name, type)                                                                                                      \
    static void (*to_##name)(type, type);                                                                                        \
    void __sanitizer_cov_trace_##name(type a, type b) {                                                                          \
        if (to_##name)                                                                                                           \
            to_##name(a, b);                                                                                                     \
    }
COMPARE(cmp1, uint8_t)
COMPARE(cmp2, uint16_t)
COMPARE(cmp4, uint32_t)
COMPARE(cmp8, uint64_t)
COMPARE(const_cmp1, uint8_t)
COMPARE(const_cmp2, uint16_t)
COMPARE(const_cmp4, uint32_t)
COMPARE(const_cmp8, uint64_t)

static void (*to_switch)(uint64_t, uint64_t *);
void __sanitizer_cov_trace_switch(uint64_t value, uint64_t *cases) {
    if (to_switch)
        to_switch(value, cases);
}
void __sanitizer_cov_trace_cmpf(float a, float b) { (void)a, (void)b; }
void __sanitizer_cov_trace_cmpd(double a, double b) { (void)a, (void)b; }

/* `path` is the library with libFuzzer, loaded already. */
int tidelog_register(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return -1;
    void (*add)(uint8_t *, uint8_t *) = dlsym(library, "__sanitizer_cov_8bit_counters_init");
    void (*describe)(const uintptr_t *, const uintptr_t *) = dlsym(library, "__sanitizer_cov_pcs_init");
    if (!add || !describe)
        return -1;
    for (int i = 0; i < COUNTERS; i++)
        table[2 * i] = (uintptr_t)&counters[i];
    add(counters, counters + COUNTERS);
    describe(table, table + 2 * COUNTERS);
#define CONNECT(name) to_##name = dlsym(library, "__sanitizer_cov_trace_" #name)
    CONNECT(cmp1);
    CONNECT(cmp2);
    CONNECT(cmp4);
    CONNECT(cmp8);
    CONNECT(const_cmp1);
    CONNECT(const_cmp2);
    CONNECT(const_cmp4);
    CONNECT(const_cmp8);
    CONNECT(switch);
    return 0;
}
