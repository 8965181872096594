/* SPDX-License-Identifier: ISC */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rundir/rundir.h"

/* The descriptor of the directory lets us find the lock file under any name that the directory
 * may get: only a directory that is removed has it no longer. */
enum err_code rundir_watch_open(const char *path, struct rundir_watch *w, struct err *e)
{
	*w = (struct rundir_watch){ -1, -1 };
	w->dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->dir < 0)
		return err_sys(e, ERR_IO, "cannot open %s", path);
	w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->fd < 0 || inotify_add_watch(w->fd, path, IN_DELETE) < 0) {
		err_sys(e, ERR_IO, "cannot watch %s for its removal", path);
		rundir_watch_close(w);
		return e->code;
	}
	return ERR_OK;
}

bool rundir_watch_gone(struct rundir_watch *w)
{
	char events[8 * (sizeof(struct inotify_event) + NAME_MAX + 1)];
	struct stat lock;

	if (w->fd < 0)
		return false;
	while (read(w->fd, events, sizeof events) > 0)
		;
	return fstatat(w->dir, "lock", &lock, AT_SYMLINK_NOFOLLOW) != 0;
}

void rundir_watch_close(struct rundir_watch *w)
{
	if (w->dir >= 0)
		close(w->dir);
	if (w->fd >= 0)
		close(w->fd);
	*w = (struct rundir_watch){ -1, -1 };
}
