/* The machine that the fake driver pretends to be: lines "key=value" in the file that $FAKE_NVIDIA_MACHINE names.
 *
 * What a GPU is asked for stands as "gpu.3.NAME", or "gpu.*.NAME" for all; what the description lacks, the GPU does
 * not support. "call.FUNCTION.3", "call.FUNCTION", "call.*.3" and "call.*" (the first that is there counts) make a
 * function misbehave: "fail:15" returns 15, "block" never returns, "crash" is a segmentation fault, "lie" succeeds with
 * garbage, "ok" does nothing.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIE (-1)
#define NOBODY (-1)
#define GARBAGE 0xF5 /* no byte of UTF-8 */

struct entry { char *key, *value; };

static struct entry *entries;
static size_t count_of_entries;
static pthread_once_t loaded = PTHREAD_ONCE_INIT;

static int by_key(const void *one, const void *other) {
    return strcmp(((const struct entry *)one)->key, ((const struct entry *)other)->key);
}

static void load(void) {
    const char *path = getenv("FAKE_NVIDIA_MACHINE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char *line = NULL;
    size_t size = 0;
    if (!file) return;
    while (getline(&line, &size, file) > 0) {
        char *equals = strchr(line, '=');
        if (!equals) continue;
        line[strcspn(line, "\n")] = 0;
        *equals = 0;
        entries = realloc(entries, (count_of_entries + 1) * sizeof *entries);
        entries[count_of_entries++] = (struct entry){strdup(line), strdup(equals + 1)};
    }
    qsort(entries, count_of_entries, sizeof *entries, by_key);
    free(line);
    fclose(file);
}

static const char *look(const char *key) {
    pthread_once(&loaded, load);
    struct entry wanted = {(char *)key, NULL};
    struct entry *found = bsearch(&wanted, entries, count_of_entries, sizeof *entries, by_key);
    return found ? found->value : NULL;
}

static long long number(const char *key, long long otherwise) {
    const char *value = look(key);
    return value ? strtoll(value, NULL, 0) : otherwise;
}

static const char *of_gpu(int gpu, const char *name) {
    char key[160];
    snprintf(key, sizeof key, "gpu.%d.%s", gpu, name);
    const char *value = look(key);
    if (value) return value;
    snprintf(key, sizeof key, "gpu.*.%s", name);
    return look(key);
}

static int gpus(void) { return (int)number("gpus", 0); }

static int driver_major(void) { return (int)number("driver", 580); }

/* 0 to go on, LIE to answer with garbage, else the code to return. */
static int ordered(const char *function, int gpu) {
    char key[160];
    const char *order = NULL;
    for (int form = 0; form < 4 && !order; form++) {
        if (form % 2 == 0 && gpu == NOBODY) continue;
        if (form % 2 == 0) snprintf(key, sizeof key, "call.%s.%d", form ? "*" : function, gpu);
        else snprintf(key, sizeof key, "call.%s", form > 1 ? "*" : function);
        order = look(key);
    }
    if (!order) return 0;
    if (!strcmp(order, "lie")) return LIE;
    if (!strncmp(order, "fail:", 5)) return atoi(order + 5);
    if (!strcmp(order, "block"))
        for (;;) pause();
    if (!strcmp(order, "crash")) raise(SIGSEGV);
    return 0;
}

/* First line of every function that gives an answer: misbehave as ordered. */
#define OBEY(gpu, out, size)                        \
    do {                                            \
        int order = ordered(__func__, gpu);         \
        if (order == LIE) {                         \
            memset((out), GARBAGE, (size));         \
            return 0;                               \
        }                                           \
        if (order) return order;                    \
    } while (0)
