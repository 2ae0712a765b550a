/* Injects faults into file operations on SQLite's files: svc.db, its log and its index.

   The library is preloaded into a program under test. Operations fail by a plan, a file of 64-bit numbers
   that is mapped into the program, so that a test changes it and reads its counters meanwhile. */
#define _GNU_SOURCE
#define _LARGEFILE64_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { READS = 1, WRITES = 2, SYNCS = 4 };

struct plan {
    uint64_t on;
    uint64_t operations;  /* which of the above */
    uint64_t error;       /* errno of a failing call */
    uint64_t nth;         /* this call fails, once; 0: none */
    uint64_t every;       /* every so many calls one fails; 0: none */
    uint64_t halves;      /* a failing write writes half, and the thread's next one fails */
    uint64_t writer_only; /* only on the threads that write */
    uint64_t budget;      /* total bytes of the files; 0: unlimited */
    uint64_t calls;       /* calls that the plan covers */
    uint64_t failed;      /* of them, those that failed */
    uint64_t refused;     /* calls for which there was no space */
};

static struct plan *plan;
static unsigned char tracked[65536];
static char base[PATH_MAX];
static __thread int cut_short;

static uint64_t get(const uint64_t *number) { return __atomic_load_n(number, __ATOMIC_SEQ_CST); }
static uint64_t add(uint64_t *number) { return __atomic_add_fetch(number, 1, __ATOMIC_SEQ_CST); }

__attribute__((constructor)) static void map_plan(void) {
    const char *path = getenv("FAULT_PLAN");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED) plan = mapped;
}

#define NEXT(name) ((__typeof__(&name))next(#name))
static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

static int is_tracked(int fd) {
    return plan && fd >= 0 && fd < (int)sizeof tracked && __atomic_load_n(&tracked[fd], __ATOMIC_SEQ_CST);
}

static int opened(int fd, const char *path) {
    if (fd < 0 || fd >= (int)sizeof tracked) return fd;
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    int ours = strncmp(name, "svc.db", 6) == 0;
    if (ours && !base[0] && strlen(path) < sizeof base - 8) snprintf(base, (size_t)(name - path) + 7, "%s", path);
    __atomic_store_n(&tracked[fd], (unsigned char)ours, __ATOMIC_SEQ_CST);
    return fd;
}

static int on_writer(void) {
    char name[32] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    return strncmp(name, "svc-writer", 10) == 0;
}

/* Whether this call is one that fails. */
static int fails(int fd, uint64_t operation) {
    if (!is_tracked(fd) || !get(&plan->on) || !(get(&plan->operations) & operation)) return 0;
    if (get(&plan->writer_only) && !on_writer()) return 0;
    uint64_t call = add(&plan->calls), nth = get(&plan->nth), every = get(&plan->every);
    if (!(nth && call == nth) && !(every && call % every == 0)) return 0;
    add(&plan->failed);
    errno = (int)get(&plan->error);
    return 1;
}

static off_t size_of(const char *ending) {
    char path[PATH_MAX + 8];
    struct stat found;
    snprintf(path, sizeof path, "%s%s", base, ending);
    return stat(path, &found) == 0 ? found.st_size : 0;
}

/* Whether there is no room for what the file would grow by if it had bytes from here to there. */
static int no_room(int fd, off_t from, off_t end) {
    struct stat found;
    uint64_t budget = is_tracked(fd) ? get(&plan->budget) : 0;
    if (!budget || fstat(fd, &found) != 0 || end <= found.st_size) return 0;
    off_t more = end - (from > found.st_size ? from : found.st_size);
    off_t all = size_of("") + size_of("-wal") + size_of("-shm") + more;
    if ((uint64_t)all <= budget) return 0;
    add(&plan->refused);
    errno = ENOSPC;
    return 1;
}

/* How many of a write's bytes are written; -1 when it fails. */
static ssize_t allowed(int fd, size_t length, off_t at) {
    if (cut_short && is_tracked(fd)) {
        cut_short = 0;
        errno = (int)get(&plan->error);
        return -1;
    }
    if (no_room(fd, 0, at + (off_t)length)) return -1;
    if (!fails(fd, WRITES)) return (ssize_t)length;
    if (!get(&plan->halves) || length < 2) return -1;
    cut_short = 1;
    return (ssize_t)(length / 2);
}

#define OPEN(name)                                                    \
    int name(const char *path, int flags, ...) {                      \
        va_list more;                                                 \
        va_start(more, flags);                                        \
        mode_t mode = (mode_t)va_arg(more, int);                      \
        va_end(more);                                                 \
        return opened(NEXT(name)(path, flags, mode), path);           \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                  \
    int name(int folder, const char *path, int flags, ...) {          \
        va_list more;                                                 \
        va_start(more, flags);                                        \
        mode_t mode = (mode_t)va_arg(more, int);                      \
        va_end(more);                                                 \
        return opened(NEXT(name)(folder, path, flags, mode), path);   \
    }
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
    if (fd >= 0 && fd < (int)sizeof tracked) __atomic_store_n(&tracked[fd], 0, __ATOMIC_SEQ_CST);
    return NEXT(close)(fd);
}

ssize_t read(int fd, void *into, size_t length) {
    return fails(fd, READS) ? -1 : NEXT(read)(fd, into, length);
}

ssize_t write(int fd, const void *from, size_t length) {
    ssize_t some = is_tracked(fd) ? allowed(fd, length, lseek(fd, 0, SEEK_CUR)) : (ssize_t)length;
    return some < 0 ? -1 : NEXT(write)(fd, from, (size_t)some);
}

#define PREAD(name, position)                                                 \
    ssize_t name(int fd, void *into, size_t length, position at) {            \
        return fails(fd, READS) ? -1 : NEXT(name)(fd, into, length, at);      \
    }
PREAD(pread, off_t)
PREAD(pread64, off64_t)

#define PWRITE(name, position)                                                \
    ssize_t name(int fd, const void *from, size_t length, position at) {      \
        ssize_t some = allowed(fd, length, (off_t)at);                        \
        return some < 0 ? -1 : NEXT(name)(fd, from, (size_t)some, at);        \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define SYNC(name)                                                            \
    int name(int fd) { return fails(fd, SYNCS) ? -1 : NEXT(name)(fd); }
SYNC(fsync)
SYNC(fdatasync)

#define TRUNCATE(name, position)                                              \
    int name(int fd, position length) {                                       \
        return no_room(fd, 0, (off_t)length) ? -1 : NEXT(name)(fd, length);      \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define ALLOCATE(name, position)                                              \
    int name(int fd, position at, position length) {                          \
        return no_room(fd, (off_t)at, (off_t)(at + length)) ? errno : NEXT(name)(fd, at, length); \
    }
ALLOCATE(posix_fallocate, off_t)
ALLOCATE(posix_fallocate64, off64_t)

#define FALLOCATE(name, position)                                                       \
    int name(int fd, int mode, position at, position length) {                          \
        if (no_room(fd, (off_t)at, (off_t)(at + length)) || fails(fd, WRITES)) return -1;           \
        return NEXT(name)(fd, mode, at, length);                                         \
    }
FALLOCATE(fallocate, off_t)
FALLOCATE(fallocate64, off64_t)
