/* libcuda.so.580.95.05, where a thread that waits for a GPU is found: the link libcuda.so.1 leads to it, as a driver's
 * does. The functions of the driver are in the runtime's library; this one only waits.
 *
 * The real driver waits with a processor at 100 %. Ranks that do so all the time leave nothing for the rest of a lab, so
 * they sleep, and spin while the file that $FAKE_CUDA_SPIN names is there. Then so does a thread that has the program's
 * name, as NCCL's does that moves data over the network (seen on an H200, NCCL 2.28.9). With $FAKE_CUDA_SPARES that
 * one is not there, and who spins has what others leave of the processors, and no more.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TURNS_IN_A_SPIN = 20000, SHORT = 2000000, LONG = 20000000 }; /* nanoseconds */

static void sleep_on(pthread_cond_t *moved, pthread_mutex_t *lock, long nanoseconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += nanoseconds;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
    pthread_cond_timedwait(moved, lock, &until);
}

static void spin(pthread_mutex_t *lock) {
    pthread_mutex_unlock(lock);
    for (volatile int turn = 0; turn < TURNS_IN_A_SPIN; turn++) __builtin_ia32_pause();
    sched_yield(); /* as it does where there are more contexts than processors */
    pthread_mutex_lock(lock);
}

static void *poll_network(void *spins) {
    while (!access(spins, F_OK)) sched_yield();
    return NULL;
}

static void start_proxy(const char *spins) {
    pthread_t thread;
    if (!pthread_create(&thread, NULL, poll_network, (void *)spins)) pthread_detach(thread);
}

/* With the lock held, until `done` says so. */
void fake_driver_wait(pthread_mutex_t *lock, pthread_cond_t *moved, int (*done)(void *), void *of) {
    const char *spins = getenv("FAKE_CUDA_SPIN");
    int has_proxy = 0;
    for (unsigned turn = 0; !done(of); turn++) {
        if (spins && turn > 100 && !access(spins, F_OK)) {
            if (!has_proxy++) {
                if (getenv("FAKE_CUDA_SPARES")) setpriority(PRIO_PROCESS, syscall(SYS_gettid), 19);
                else start_proxy(spins);
            }
            spin(lock);
        } else sleep_on(moved, lock, turn < 500 ? SHORT : LONG);
    }
}
