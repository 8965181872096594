/* SPDX-License-Identifier: ISC */
#include "core/procstat.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/cgroup.h"

/* The number of names in a directory, without those that begin with a dot. */
static int count_entries(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	int n = 0;

	while (dir && (d = readdir(dir)))
		n += d->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

void procstat_read(struct procstat *out)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long long size, resident;
	struct rusage ru;

	*out = (struct procstat){ 0 };
	if (f) {
		if (fscanf(f, "%llu %llu", &size, &resident) == 2)
			out->rss_bytes = resident * (uint64_t)sysconf(_SC_PAGESIZE);
		fclose(f);
	}
	if (getrusage(RUSAGE_SELF, &ru) == 0)
		out->cpu_seconds = (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
		    (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1e-6;
}

bool procstat_files(int pid, struct procfiles *out)
{
	char path[40], line[160];
	int who = pid ? pid : getpid();
	unsigned long long n;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/fd", who);
	*out = (struct procfiles){ count_entries(path), UINT64_MAX };
	snprintf(path, sizeof path, "/proc/%d/limits", who);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "Max open files %llu", &n) == 1)
			out->most = n;
	if (f)
		fclose(f);
	return f != NULL;
}

uint64_t procstat_raise_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return UINT64_MAX;
	if (files.rlim_cur != files.rlim_max) {
		struct rlimit all = { files.rlim_max, files.rlim_max };

		/* If it is refused, the old limit stays. */
		if (setrlimit(RLIMIT_NOFILE, &all) == 0)
			files = all;
	}
	return files.rlim_cur == RLIM_INFINITY ? UINT64_MAX : files.rlim_cur;
}

/* A process may not use all that the host has. */
static uint64_t limit_by_group(uint64_t left)
{
	struct cgroup_memory group;
	uint64_t more;

	cgroup_read_memory("", &group);
	/* 0 would mean that nothing is known. */
	more = group.limit > group.used ? group.limit - group.used : 1;
	return group.limit && more < left ? more : left;
}

uint64_t procstat_memory(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[120];

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return limit_by_group(kib * 1024);
}

unsigned procstat_processors(void)
{
	cpu_set_t set;
	unsigned n = 1;

	if (sched_getaffinity(0, sizeof set, &set) == 0)
		n = cgroup_processors("", (unsigned)CPU_COUNT(&set));
	return n < 1 ? 1 : n;
}
