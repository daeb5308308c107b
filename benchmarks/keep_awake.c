/* Keeps every processor from sleeping, at SCHED_IDLE: whoever else wants to run does at once.
 *
 * On a virtual machine an idle processor is handed back to the host, and waking it (each answer wakes the client) costs the
 * one who wakes. That is the host's business and not the brokers'. Ends with its parent.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(void) {
    struct sched_param none = {0};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        return 0;
    for (long i = 1; i < processors; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            break;
        }
    if (sched_setscheduler(0, SCHED_IDLE, &none))
        return 1;
    for (;;)
#if defined(__x86_64__)
        __builtin_ia32_pause();
#else
        __asm__ volatile("" ::: "memory");
#endif
}
