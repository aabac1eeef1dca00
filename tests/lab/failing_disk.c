/* A file layer that fails: loaded before the C library, it counts the calls by which a process changes the files below
 * one folder, and at a chosen one does what a bad disk, a full disk or a kill would do. SQLite, Python and everything
 * else in the process go through it.
 *
 * disk_watch(folder, mode, at, log) begins to count. Modes:
 *   0  only count, and write each call to the open file `log` if that is not negative
 *   1  the call number `at` fails with EIO, and no other
 *   2  from the call number `at` on the disk is full: a write is cut in half there, later ones fail with ENOSPC
 *   3  at the call number `at` the process is killed; a write is cut in half first
 * disk_calls() is how many there were.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[4096];
static size_t folder_length = 0;
static int mode = 0, log_file = -1;
static long at = 0, calls = 0;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef ssize_t (*write_call)(int, const void *, size_t);
typedef ssize_t (*pwrite_call)(int, const void *, size_t, off_t);
typedef int (*fd_call)(int);
typedef int (*truncate_call)(int, off_t);
typedef int (*path_call)(const char *);
typedef int (*two_paths_call)(const char *, const char *);
typedef int (*mkdir_call)(const char *, mode_t);
#define REAL(kind, name) ((kind)dlsym(RTLD_NEXT, name))

void disk_watch(const char *below, int how, long number, int log)
{
    strncpy(folder, below, sizeof folder - 1);
    folder_length = strlen(folder);
    mode = how, at = number, calls = 0, log_file = log;
}

long disk_calls(void) { return calls; }

static int is_watched(const char *path) { return folder_length && !strncmp(path, folder, folder_length); }

/* The path of an open file below the folder, and its inode. */
static int watched(int fd, char *path, struct stat *about)
{
    char link[64];
    if (!folder_length || fd == log_file || fstat(fd, about) || !(S_ISREG(about->st_mode) || S_ISDIR(about->st_mode)))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, 4095);
    if (size < 0)
        return 0;
    path[size] = 0;
    return is_watched(path);
}

static void record(char what, uint64_t inode, int64_t offset, const char *path, const char *other, const void *data,
                   size_t size)
{
    if (log_file < 0)
        return;
    char head[4096 * 2 + 128];
    int length = snprintf(head, sizeof head, "%c\t%llu\t%lld\t%zu\t%s\t%s\n", what, (unsigned long long)inode,
                          (long long)offset, size, path, other);
    write_call put = REAL(write_call, "write");
    if (put(log_file, head, length) != length || (size && put(log_file, data, size) != (ssize_t)size))
        _exit(99);
}

enum fate { GO_ON, HALF, FAIL };

/* Count a call, and say what becomes of it; `half` tells a write, which can be cut. */
static enum fate count(int half)
{
    calls++;
    if (mode == 1 && calls == at) {
        errno = EIO;
        return FAIL;
    }
    if (mode == 2 && calls >= at) {
        errno = ENOSPC;
        return calls == at && half ? HALF : FAIL;
    }
    if (mode == 3 && calls == at)
        return half ? HALF : (_exit(137), FAIL);
    return GO_ON;
}

static ssize_t written(int fd, const void *data, size_t size, off_t offset, int positioned)
{
    write_call put = REAL(write_call, "write");
    pwrite_call put_at = REAL(pwrite_call, "pwrite");
    char path[4096];
    struct stat about;
    if (!watched(fd, path, &about))
        return positioned ? put_at(fd, data, size, offset) : put(fd, data, size);
    pthread_mutex_lock(&lock);
    off_t where = positioned ? offset : lseek(fd, 0, SEEK_CUR);
    enum fate fate = count(1);
    if (fate == HALF)
        size /= 2;
    ssize_t result = -1;
    if (fate != FAIL && size) {
        result = positioned ? put_at(fd, data, size, offset) : put(fd, data, size);
        if (result > 0)
            record('w', about.st_ino, where, path, "", data, result);
    }
    if (fate == HALF && mode == 3)
        _exit(137);
    pthread_mutex_unlock(&lock);
    return result;
}

ssize_t write(int fd, const void *data, size_t size) { return written(fd, data, size, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return written(fd, data, size, offset, 1); }
ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) { return written(fd, data, size, offset, 1); }

static int of_file(char what, int fd, off_t size, const char *name)
{
    char path[4096];
    struct stat about;
    int seen = watched(fd, path, &about);
    if (seen) {
        pthread_mutex_lock(&lock);
        if (mode == 2 && what == 's')
            seen = 0, calls++; /* a full disk still syncs */
        else if (count(0) != GO_ON)
            seen = -1;
        else
            record(what, about.st_ino, size, path, S_ISDIR(about.st_mode) ? "folder" : "", 0, 0);
        pthread_mutex_unlock(&lock);
        if (seen < 0)
            return -1;
    }
    return what == 's' ? REAL(fd_call, name)(fd) : REAL(truncate_call, name)(fd, size);
}

int fsync(int fd) { return of_file('s', fd, 0, "fsync"); }
int fdatasync(int fd) { return of_file('s', fd, 0, "fdatasync"); }
int ftruncate(int fd, off_t size) { return of_file('t', fd, size, "ftruncate"); }
int ftruncate64(int fd, off_t size) { return of_file('t', fd, size, "ftruncate64"); }

/* Whether a call that names files may go on. */
static int may(char what, const char *path, const char *other, int on_a_full_disk)
{
    int allowed = 1;
    if (!is_watched(path) && !is_watched(other))
        return 1;
    pthread_mutex_lock(&lock);
    if (mode == 2 && on_a_full_disk)
        calls++;
    else
        allowed = count(0) == GO_ON;
    if (allowed) {
        struct stat about = {0};
        if (stat(path, &about))
            about.st_ino = 0;
        record(what, about.st_ino, 0, path, other, 0, 0);
    }
    pthread_mutex_unlock(&lock);
    return allowed;
}

int rename(const char *from, const char *to)
{
    return may('r', from, to, 0) ? REAL(two_paths_call, "rename")(from, to) : -1;
}
int link(const char *from, const char *to)
{
    return may('l', from, to, 0) ? REAL(two_paths_call, "link")(from, to) : -1;
}
int unlink(const char *path) { return may('u', path, "", 1) ? REAL(path_call, "unlink")(path) : -1; }
int rmdir(const char *path) { return may('u', path, "", 1) ? REAL(path_call, "rmdir")(path) : -1; }
int mkdir(const char *path, mode_t permissions)
{
    return may('m', path, "", 0) ? REAL(mkdir_call, "mkdir")(path, permissions) : -1;
}
