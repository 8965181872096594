/* SPDX-License-Identifier: ISC */
#ifndef CORE_FILE_H
#define CORE_FILE_H

/* Files and paths: whole reads, atomic replacement, directories. Any thread. Functions that
 * return a new string abort without memory; free() it. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/buf.h"
#include "core/err.h"

/* Appends the contents of a regular file of at most max bytes to out. ERR_NOTFOUND, ERR_IO,
 * ERR_LIMIT. */
enum err_code file_read(const char *path, size_t max, struct buf *out, struct err *e);
/* Writes a file that appears whole or not at all. file_new_open opens fd under a temporary name
 * beside path; the caller writes to fd; file_new_close syncs it, renames it and syncs the
 * directory. A file that was at path survives any failure. file_new_close called with an error
 * removes the temporary file and returns that error. */
struct file_new {
	int fd, dirfd;
	/* set by the caller: skip fsync, the file need not survive the machine */
	bool no_sync;
	/* Set by the caller, or NULL: called when the file is durable under its temporary name;
	 * when it fails, the file does not appear. */
	enum err_code (*may_appear)(void *ctx, struct err *e);
	void *ctx;
	char *path, *tmp;
};
enum err_code file_new_open(const char *path, mode_t mode, struct file_new *f, struct err *e);
enum err_code file_new_close(struct file_new *f, enum err_code rc, struct err *e);
/* Writes data as a file in the same way. */
enum err_code file_replace(const char *path, const void *data, size_t n, mode_t mode,
    struct err *e);
/* Removes temporary files from dir whose names begin with `begin` and which a process left that was
 * killed between file_new_open and file_new_close. No other process may write such files at the
 * time. */
void file_remove_torn(const char *dir, const char *begin);
/* Syncs a directory, so that the names in it are durable. */
enum err_code file_sync_dir(const char *path, struct err *e);
/* Read or write exactly n bytes; they retry after EINTR and short counts. */
enum err_code file_write_all(int fd, const void *data, size_t n, struct err *e);
enum err_code file_read_all(int fd, void *data, size_t n,
    struct err *e); /* ERR_CLOSED at an early end */
/* As mkdir -p; the mode is for the last component. */
enum err_code file_mkdirs(const char *path, mode_t mode, struct err *e);
/* Makes a directory of mode 0700 with a name of its own: the XXXXXX at the end of `pattern`, which
 * is freed, are replaced. *path is a new string; NULL on failure. ERR_IO. */
enum err_code file_make_unique_dir(char *pattern, char **path, struct err *e);
/* As rm -r; does not follow links. */
enum err_code file_remove_tree(const char *path, struct err *e);

/* The joined path as a new string. If `name` is absolute or "SCHEME://...", it is the result. */
char *path_join(const char *dir, const char *name);
/* The name of a temporary file or directory as a pattern for mkostemp and file_make_unique_dir:
 * "$TMPDIR/pskit-WHAT-XXXXXX", or in /tmp when TMPDIR is not set. */
char *path_temporary(const char *what);
char *path_dirname(const char *path);
const char *path_basename(const char *path);
/* The name without directory and last suffix, as a new string: "a/b.json" -> "b". */
char *path_stem(const char *path);
/* The real path of the directory part, plus the name; works for files that do not exist yet. A new
 * string. */
char *path_absolute(const char *path);
/* The present absolute path of an open descriptor, whose file may have been moved since. A new
 * string; NULL when it is unknown. */
char *path_of_fd(int fd);
/* The directory of the running program, where the other programs are; a new string, or NULL and e
 * when /proc does not show it. */
char *path_self_dir(struct err *e);

#endif
