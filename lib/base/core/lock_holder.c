/* SPDX-License-Identifier: ISC */
#include "core/lock_holder.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* Is the process stopped by a signal? */
static bool is_stopped(int pid)
{
	char path[64], text[512];
	const char *state;
	FILE *f;
	size_t n;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = '\0';
	/* The name, which may contain anything, ends with the last parenthesis. */
	state = strrchr(text, ')');
	return state && state[1] == ' ' && state[2] == 'T';
}

/* Has the process this file open? /proc/locks alone names inodes, but no file systems that could be
 * compared. */
static bool has_open(int pid, const struct stat *file)
{
	char path[64];
	const struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof path, "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		struct stat st;

		found = fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 &&
		    st.st_dev == file->st_dev && st.st_ino == file->st_ino;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* The process that holds a lock of this inode, by a line of /proc/locks; 0: another line. */
static int read_holder(const char *line, const struct stat *file)
{
	uintmax_t inode;
	int pid;

	/* "1: FLOCK  ADVISORY  WRITE 4711 08:01:123456 0 EOF"; a waiter has "->" after its
	 * number. */
	if (sscanf(line, "%*d: FLOCK %*s WRITE %d %*x:%*x:%ju", &pid, &inode) != 2 || pid <= 0 ||
	    inode != (uintmax_t)file->st_ino)
		return 0;
	return pid;
}

int lock_holder_stopped(int fd, int *pid)
{
	struct stat file;
	char line[256];
	int process = -1;
	FILE *f;

	if (fstat(fd, &file))
		return -1;
	f = fopen("/proc/locks", "re");
	while (f && process < 0 && fgets(line, sizeof line, f)) {
		*pid = read_holder(line, &file);
		if (!*pid)
			continue;
		/* The descriptor is opened first, so that it is of the process that is looked
		 * at. */
		process = pidfd_open(*pid, 0);
		if (process >= 0 && !(is_stopped(*pid) && has_open(*pid, &file))) {
			close(process);
			process = -1;
		}
	}
	if (f)
		fclose(f);
	return process;
}
