#ifndef BASE_PROCSTAT_H
#define BASE_PROCSTAT_H

#include <stdbool.h>
#include <stdint.h>

/* What this process uses. */
struct procstat {
	uint64_t rss_bytes;
	double cpu_seconds;
};

void procstat_read(struct procstat *out);

/* How many descriptors a process of ours has open, and may have. */
struct procfiles {
	int open;
	uint64_t most;                  /* UINT64_MAX: no limit */
};

/* pid 0: this one.  False: it cannot be seen. */
bool procstat_files(int pid, struct procfiles *out);
/* What this host has left for programs (MemAvailable), in bytes; 0: it does not tell. */
uint64_t procstat_memory(void);

#endif
