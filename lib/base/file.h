#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* The whole of a regular file of at most max bytes, appended to out. */
enum err_code file_read(const char *path, size_t max, struct buf *out, struct err *e);
/* A file that appears whole or not at all: written to fd under another name
 * beside it; then fsync, rename, fsync of the directory.  What was at path
 * survives any failure.  file_new_close with an error takes it back, and
 * returns that error. */
struct file_new {
	int fd, dirfd;
	bool no_sync;                   /* set by the caller: it need only survive this process */
	char *path, *tmp;
};
enum err_code file_new_open(const char *path, mode_t mode, struct file_new *f, struct err *e);
enum err_code file_new_close(struct file_new *f, enum err_code rc, struct err *e);
/* The same with data that is there already. */
enum err_code file_replace(const char *path, const void *data, size_t n, mode_t mode, struct err *e);
/* Removes from dir what a process that was killed amid file_new_open and file_new_close has
 * left of files whose names begin with `begin`; nobody else may be writing such now. */
void file_remove_torn(const char *dir, const char *begin);
/* fsync of a directory, so that the names in it last. */
enum err_code file_sync_dir(const char *path, struct err *e);
/* Whole reads and writes on a descriptor, EINTR and short counts seen to. */
enum err_code fd_write_all(int fd, const void *data, size_t n, struct err *e);
enum err_code fd_read_all(int fd, void *data, size_t n, struct err *e);   /* ERR_CLOSED at an early end */
/* mkdir -p with the mode for the last component. */
enum err_code file_mkdirs(const char *path, mode_t mode, struct err *e);
/* rm -r, without following links out of it. */
enum err_code file_remove_tree(const char *path, struct err *e);

/* Joined path in a fresh string: absolute `name`, or "SCHEME://...", wins over dir. */
char *path_join(const char *dir, const char *name);
char *path_dirname(const char *path);
const char *path_basename(const char *path);
/* Base name without directory and last suffix: "a/b.json" -> "b", fresh. */
char *path_stem(const char *path);
/* realpath of the directory part plus the name; works for files to be made. */
char *path_absolute(const char *path);
/* The directory of the running program, where its siblings lie; fresh string,
 * NULL and e when /proc does not tell. */
char *path_self_dir(struct err *e);

#endif
