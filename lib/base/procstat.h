#ifndef BASE_PROCSTAT_H
#define BASE_PROCSTAT_H

#include <stdint.h>

/* What this process uses, from /proc/self. */
struct procstat {
	uint64_t rss_bytes;
	double cpu_seconds;
	int open_fds;
};

void procstat_read(struct procstat *out);

#endif
