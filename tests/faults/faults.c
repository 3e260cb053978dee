/* Faults of a disk, for processes that load this before the C library (LD_PRELOAD).
 *
 * It watches how files below the folder TFR_EXT_FAULT_ROOT are opened and renamed, and
 * folders made, by Python and by the C++ of TensorFlow and LightGBM alike. A line of the
 * file TFR_EXT_FAULT_LOG tells each such event: 'read', 'write', 'mkdir', 'rename' or
 * 'renamed' (the same afterwards), and the path below that folder. At the event
 * TFR_EXT_FAULT_AT whose path matches the pattern TFR_EXT_FAULT_PATH, from the
 * TFR_EXT_FAULT_NUMBER-th of a process on, the fault TFR_EXT_FAULT happens:
 *
 * full    the disk is full from then on, for all processes, while the file
 *         TFR_EXT_FAULT_MARK, made then, exists;
 * killed  the process is killed, after TFR_EXT_FAULT_DELAY microseconds;
 * N       the call fails with the error of that number (errno).
 *
 * The environment is read anew at each event. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* System calls, which this file does not watch. */
static int open_unwatched(const char *path, int flags) {
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0644);
}

/* Returns the path below the watched folder, or NULL. */
static const char *below(const char *path) {
  const char *root = getenv("TFR_EXT_FAULT_ROOT");
  size_t length = root ? strlen(root) : 0;
  if (!length || !path || strncmp(path, root, length) || path[length] != '/')
    return NULL;
  return path + length + 1;
}

static int is_full(void) {
  const char *mark = getenv("TFR_EXT_FAULT_MARK");
  return mark && access(mark, F_OK) == 0;
}

/* Lets every further write to a file fail. Locks stay as they are. */
static void fill(int descriptor, const char *path) {
  size_t length = strlen(path);
  if (length > 5 && !strcmp(path + length - 5, ".lock")) return;
  int full = open_unwatched("/dev/full", O_WRONLY | O_CLOEXEC);
  dup3(full, descriptor, fcntl(descriptor, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0);
  close(full);
}

/* Does so with all files that are open for writing. */
static void fill_open_files(void) {
  DIR *folder = opendir("/proc/self/fd");
  struct dirent *entry;
  while (folder && (entry = readdir(folder))) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%.20s", entry->d_name);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) continue;
    path[length] = 0;
    int descriptor = atoi(entry->d_name);
    if (below(path) && (fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDONLY)
      fill(descriptor, path);
  }
  if (folder) closedir(folder);
}

static void kill_later(void) {
  const char *delay = getenv("TFR_EXT_FAULT_DELAY");
  long microseconds = delay ? atol(delay) : 0;
  if (!microseconds) kill(getpid(), SIGKILL);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
  struct itimerspec when = {
      .it_value = {microseconds / 1000000, microseconds % 1000000 * 1000}};
  timer_t timer;
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  timer_settime(timer, 0, &when, NULL);
}

/* Tells of an event; returns the error with which it fails, or 0. */
static int happens(const char *event, const char *path) {
  const char *name = below(path);
  if (!name) return 0;
  int before = errno;
  const char *log = getenv("TFR_EXT_FAULT_LOG");
  if (log) {
    char line[4200];
    int length = snprintf(line, sizeof line, "%s %s\n", event, name);
    int file = open_unwatched(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC);
    if (write(file, line, length) < 0) abort();
    close(file);
  }
  errno = before;
  const char *fault = getenv("TFR_EXT_FAULT"), *at = getenv("TFR_EXT_FAULT_AT");
  const char *pattern = getenv("TFR_EXT_FAULT_PATH");
  if (!fault || !at || !pattern || strcmp(at, event) || fnmatch(pattern, name, 0))
    return 0;
  const char *number = getenv("TFR_EXT_FAULT_NUMBER");
  static int seen;
  if (number && __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST) < atoi(number)) return 0;
  if (!strcmp(fault, "killed")) kill_later();
  if (!strcmp(fault, "full") && !is_full()) {
    close(open_unwatched(getenv("TFR_EXT_FAULT_MARK"), O_WRONLY | O_CREAT));
    fill_open_files();
  }
  errno = before;
  return atoi(fault);
}

/* Does what an opened file asks for; returns the error with which it fails. */
static int opened(const char *path, int descriptor, int writes) {
  int error = happens(writes ? "write" : "read", path);
  if (!error && writes && descriptor >= 0 && below(path) && is_full())
    fill(descriptor, path);
  return error;
}

#define OPEN(name)                                                       \
  int name(const char *path, int flags, ...) {                           \
    va_list rest;                                                        \
    va_start(rest, flags);                                               \
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                        \
    if (flags & O_DIRECTORY) return REAL(name)(path, flags, mode);       \
    int file = REAL(name)(path, flags, mode);                            \
    int error = opened(path, file, (flags & O_ACCMODE) != O_RDONLY);     \
    if (!error) return file;                                             \
    if (file >= 0) close(file);                                          \
    errno = error;                                                       \
    return -1;                                                           \
  }
OPEN(open)
OPEN(open64)

#define FOPEN(name)                                                      \
  FILE *name(const char *path, const char *mode) {                       \
    FILE *file = REAL(name)(path, mode);                                 \
    int error = opened(path, file ? fileno(file) : -1, *mode != 'r' || strchr(mode, '+')); \
    if (!error) return file;                                             \
    if (file) fclose(file);                                              \
    errno = error;                                                       \
    return NULL;                                                         \
  }
FOPEN(fopen)
FOPEN(fopen64)

int mkdir(const char *path, mode_t mode) {
  int error = happens("mkdir", path);
  if (!error && below(path) && is_full()) error = ENOSPC;
  if (!error) return REAL(mkdir)(path, mode);
  errno = error;
  return -1;
}

int rename(const char *from, const char *to) {
  int error = happens("rename", to);
  if (error) {
    errno = error;
    return -1;
  }
  int result = REAL(rename)(from, to);
  if (!result) happens("renamed", to);
  return result;
}
