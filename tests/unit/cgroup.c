/* SPDX-License-Identifier: ISC */
/* Limits of control groups, in trees of files as the kernel shows them. */
#include "core/cgroup.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "core/mem.h"
#include "tap.h"

static char root[] = "/tmp/pskit-cgroup.XXXXXX";

/* Writes a file below root, and makes its folders. */
static void put(const char *name, const char *text)
{
	char *path = mem_printf("%s/%s", root, name), *command, *dir = mem_strdup(path);
	struct err e;

	*strrchr(dir, '/') = '\0';
	command = mem_printf("mkdir -p %s", dir);
	if (system(command) || file_replace(path, text, strlen(text), 0644, &e))
		abort();
	free(command);
	free(dir);
	free(path);
}

static void clear(void)
{
	char *command = mem_printf("rm -rf %s/proc %s/sys", root, root);

	if (system(command))
		abort();
	free(command);
}

static struct cgroup_memory memory(void)
{
	struct cgroup_memory m;

	cgroup_read_memory(root, &m);
	return m;
}

static void no_groups(void)
{
	ok(memory().limit == 0 && cgroup_processors(root, 8) == 8 &&
	        cgroup_memory_kills(root) == UINT64_MAX,
	    "without groups there are no limits");
}

static void version_2(void)
{
	put("proc/self/cgroup", "0::/slice/unit\n");
	put("sys/fs/cgroup/slice/memory.max", "1000\n");
	put("sys/fs/cgroup/slice/memory.current", "900\n");
	put("sys/fs/cgroup/slice/cpu.max", "400000 100000\n");
	put("sys/fs/cgroup/slice/unit/memory.max", "max\n");
	put("sys/fs/cgroup/slice/unit/memory.current", "100\n");
	put("sys/fs/cgroup/slice/unit/cpu.max", "max 100000\n");
	put("sys/fs/cgroup/slice/unit/memory.events", "low 0\noom 3\noom_kill 2\n");
	ok(memory().limit == 1000 && memory().used == 900, "the limit of the group above counts");
	ok(cgroup_processors(root, 8) == 4 && cgroup_processors(root, 2) == 2,
	    "so does its share of the processors, as far as there are so many");
	ok(cgroup_memory_kills(root) == 2, "processes that were killed for memory are counted");
	put("sys/fs/cgroup/slice/unit/memory.max", "300\n");
	put("sys/fs/cgroup/slice/unit/memory.stat", "anon 10\ninactive_file 60\n");
	put("sys/fs/cgroup/slice/unit/cpu.max", "50000 100000\n");
	ok(memory().limit == 1000 && memory().used == 900, "the least that is left decides");
	put("sys/fs/cgroup/slice/memory.current", "400\n");
	ok(memory().limit == 300 && memory().used == 40,
	    "pages of files that can be dropped are free");
	ok(cgroup_processors(root, 8) == 1, "half a processor counts as one");
	clear();
}

static void version_1(void)
{
	put("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n");
	put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "512\n");
	put("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "500\n");
	put("sys/fs/cgroup/memory/a/b/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n");
	put("sys/fs/cgroup/memory/a/b/memory.oom_control",
	    "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
	put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "300000\n");
	put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
	put("sys/fs/cgroup/unified/cgroup.procs", "");
	ok(memory().limit == 512 && memory().used == 400 && cgroup_memory_kills(root) == 1,
	    "version 1: memory");
	ok(cgroup_processors(root, 8) == 3, "and processors");
	put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
	ok(cgroup_processors(root, 8) == 8, "-1 is no limit");
	clear();
}

/* The path is that of the host, and the container has its own group as the top. */
static void in_a_container(void)
{
	put("proc/self/cgroup", "4:memory:/pods/x\n2:cpu:/pods/x\n0::/pods/x\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "256\n");
	put("sys/fs/cgroup/memory/memory.usage_in_bytes", "200\n");
	put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
	put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	ok(memory().limit == 256 && memory().used == 200 && cgroup_processors(root, 8) == 2,
	    "the group that is mounted counts where the path is not there");
	clear();
}

int main(void)
{
	if (!mkdtemp(root))
		abort();
	no_groups();
	version_2();
	version_1();
	in_a_container();
	rmdir(root);
	return tap_done();
}
