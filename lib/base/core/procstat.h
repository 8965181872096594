/* SPDX-License-Identifier: ISC */
#ifndef CORE_PROCSTAT_H
#define CORE_PROCSTAT_H

#include <stdbool.h>
#include <stdint.h>

/* Figures from /proc about processes and this host. Any thread. CPU time is the time of all threads
 * of the process since its start, in user mode and in the kernel. */
struct procstat {
	uint64_t rss_bytes;
	double cpu_seconds;
};

/* Memory and CPU time of this process; zeroes when /proc cannot be read. */
void procstat_read(struct procstat *out);

/* The number of descriptors that a process of ours has open, and its limit. */
struct procfiles {
	int open;
	uint64_t most; /* UINT64_MAX: no limit */
};

/* pid 0: this process. False: it cannot be read. */
bool procstat_files(int pid, struct procfiles *out);
/* Raises this process's limit of descriptors to its hard limit; returns the limit. */
uint64_t procstat_raise_files(void);
/* Returns the number of processors that this process may use: its affinity (taskset), or
 * fewer if its cgroup, or one above it, allows less time (cgroup.h). A fraction of one counts as
 * one. */
unsigned procstat_processors(void);
/* Memory that this process may still use, in bytes: what the host has available for programs
 * (MemAvailable), or less if its cgroup has a limit; 0: unknown. */
uint64_t procstat_memory(void);

#endif
