#ifndef BASE_PROCSTAT_H
#define BASE_PROCSTAT_H

#include <stdbool.h>
#include <stdint.h>

/* What this process uses, from /proc/self, and what it may. */
struct procstat {
	uint64_t rss_bytes;
	double cpu_seconds;
	int open_fds;
	uint64_t max_fds;               /* UINT64_MAX: no limit */
};

void procstat_read(struct procstat *out);
/* How many descriptors another process of ours has open, and may have (open_fds, max_fds; the rest
 * is 0).  False: it cannot be seen. */
bool procstat_files(int pid, struct procstat *out);
/* What this host has left for programs (MemAvailable), in bytes; 0: it does not tell. */
uint64_t procstat_memory(void);

#endif
