/* What libraries do that change the time or count memory for a program: it takes the place of clock_gettime
   and of malloc, and allocates before it is ready.

   With -DPROGRAM it is a program whose own malloc reads the clock first, as an allocator does that takes the
   place of the C library's: under the library it cannot start. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#ifdef PROGRAM

static char memory[1 << 20];
static size_t taken;

void *malloc(size_t size) {
    struct timespec now;
    if (!taken) clock_gettime(CLOCK_MONOTONIC, &now);
    void *given = memory + taken;
    taken += (size + 15) / 16 * 16;
    return taken <= sizeof memory ? given : NULL;
}

void free(void *memory) { (void)memory; }

int main(void) {
    free(malloc(1));
    return 0;
}

#else

static int (*next_clock)(clockid_t, struct timespec *);
static void *(*next_malloc)(size_t);
static unsigned long clocks, mallocs;

void *malloc(size_t size) {
    if (!next_malloc) next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    __atomic_add_fetch(&mallocs, 1, __ATOMIC_RELAXED);
    return next_malloc(size);
}

int clock_gettime(clockid_t id, struct timespec *now) {
    if (!next_clock) {
        void *volatile work = malloc(64);
        next_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
        free(work);
    }
    __atomic_add_fetch(&clocks, 1, __ATOMIC_RELAXED);
    return next_clock(id, now);
}

__attribute__((constructor)) static void begin(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
}

/* Writes what it was called for to the file that the program names. */
__attribute__((destructor)) static void end(void) {
    const char *path = getenv("PRELOAD_COUNTS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%lu %lu\n", clocks, mallocs);
    fclose(file);
}

#endif
