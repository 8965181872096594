/* SPDX-License-Identifier: ISC */
#ifndef CORE_CGROUP_H
#define CORE_CGROUP_H

#include <stdint.h>

/* The limits that the kernel sets to this process by its control group (cgroups(7)) or one above
 * it: those of a container, a unit of systemd or a job of Slurm. Version 1 and version 2 are read,
 * also when a host has both. In a container the path of the group may name a folder that is not
 * there; then the group is the one that the container has mounted. Any thread; files are read at
 * each call.
 *
 * root is "" but in tests: the folder that has proc/ and sys/. */

/* Memory, in bytes. Where several groups have a limit, these are the figures of the group that has
 * the least left. */
struct cgroup_memory {
	uint64_t limit; /* 0: none has a limit */
	uint64_t used;  /* without what the kernel can drop at once, as clean pages of files */
};

void cgroup_read_memory(const char *root, struct cgroup_memory *out);
/* The number of processors whose time the groups allow, at most `most`. A fraction of one counts as
 * one. */
unsigned cgroup_processors(const char *root, unsigned most);
/* How many processes of this group and those below it the kernel has killed because the group had
 * no memory left; UINT64_MAX: not known. */
uint64_t cgroup_memory_kills(const char *root);

#endif
