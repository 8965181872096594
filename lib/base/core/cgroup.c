/* SPDX-License-Identifier: ISC */
#include "core/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"

/* A limit of version 1 from here on means that there is none. */
#define NO_LIMIT (UINT64_C(1) << 60)

/* ---- files ---- */

/* Reads the first number of DIR/NAME. False: there is no such file, or it has a word, as "max". */
static bool read_number(const char *dir, const char *name, uint64_t *out)
{
	char *path = mem_printf("%s/%s", dir, name);
	FILE *f = fopen(path, "re");
	unsigned long long n;
	bool good = f && fscanf(f, "%llu", &n) == 1;

	if (good)
		*out = n;
	if (f)
		fclose(f);
	free(path);
	return good;
}

/* Reads the number after a word of DIR/NAME, whose lines are "word number". */
static bool read_member(const char *dir, const char *name, const char *word, uint64_t *out)
{
	char *path = mem_printf("%s/%s", dir, name), line[160], key[80];
	FILE *f = fopen(path, "re");
	unsigned long long n;
	bool found = false;

	while (f && !found && fgets(line, sizeof line, f))
		if (sscanf(line, "%79s %llu", key, &n) == 2 && strcmp(key, word) == 0) {
			*out = n;
			found = true;
		}
	if (f)
		fclose(f);
	free(path);
	return found;
}

/* ---- groups ---- */

/* A controller's tree, and the path of this process's group in it. */
struct group {
	char *mount, *path; /* path: "/user.slice/a"; "" is the top */
	bool v2;
};

static void group_release(struct group *g)
{
	free(g->mount);
	free(g->path);
}

/* Is the controller in the list, "cpu,cpuacct"? */
static bool has_controller(const char *list, size_t n, const char *controller)
{
	size_t len = strlen(controller);

	for (size_t at = 0; at < n; at += strcspn(list + at, ",:") + 1)
		if (strncmp(list + at, controller, len) == 0 &&
		    (list[at + len] == ',' || list[at + len] == ':'))
			return true;
	return false;
}

/* Finds the group of this process in the tree of a controller. A controller that version 1 has is
 * not in version 2. False: there are no groups. */
static bool find_group(const char *root, const char *controller, struct group *out)
{
	char *file = mem_printf("%s/proc/self/cgroup", root), line[4096];
	FILE *f = fopen(file, "re");

	*out = (struct group){ NULL, NULL, false };
	while (f && fgets(line, sizeof line, f)) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
		bool v2 = path == list + 1;

		if (!path ||
		    (!v2 && !has_controller(list + 1, (size_t)(path - list), controller)) ||
		    (v2 && out->path))
			continue;
		group_release(out);
		path[1 + strcspn(path + 1, "\n")] = '\0';
		*out = (struct group){ .path = mem_strdup(strcmp(path + 1, "/") ? path + 1 : ""),
			.v2 = v2 };
	}
	if (f)
		fclose(f);
	free(file);
	if (!out->path)
		return false;
	if (out->v2) {
		out->mount = mem_printf("%s/sys/fs/cgroup/unified", root);
		if (access(out->mount, F_OK) != 0)
			out->mount[strlen(out->mount) - strlen("/unified")] = '\0';
	} else {
		out->mount = mem_printf("%s/sys/fs/cgroup/%s", root, controller);
	}
	return true;
}

/* The group's folder, or that of the next group above it with each call; NULL after the top. A path
 * that is not there is passed over. The result is a fresh string. */
static char *next_folder(struct group *g)
{
	char *end, *dir;

	while (g->path) {
		dir = mem_printf("%s%s", g->mount, g->path);
		end = strrchr(g->path, '/');
		if (end) {
			*end = '\0';
		} else {
			free(g->path);
			g->path = NULL;
		}
		if (access(dir, F_OK) == 0)
			return dir;
		free(dir);
	}
	return NULL;
}

/* ---- limits ---- */

/* Reads limit and use of the group in dir. False: it has no limit. */
static bool read_group_memory(const char *dir, bool v2, struct cgroup_memory *out)
{
	uint64_t dropped = 0;

	if (!read_number(dir, v2 ? "memory.max" : "memory.limit_in_bytes", &out->limit) ||
	    out->limit >= NO_LIMIT || out->limit == 0 ||
	    !read_number(dir, v2 ? "memory.current" : "memory.usage_in_bytes", &out->used))
		return false;
	read_member(dir, "memory.stat", v2 ? "inactive_file" : "total_inactive_file", &dropped);
	out->used -= dropped < out->used ? dropped : out->used;
	return true;
}

void cgroup_read_memory(const char *root, struct cgroup_memory *out)
{
	struct cgroup_memory one;
	struct group g;
	char *dir;

	*out = (struct cgroup_memory){ 0, 0 };
	if (!find_group(root, "memory", &g))
		return;
	for (; (dir = next_folder(&g)); free(dir))
		if (read_group_memory(dir, g.v2, &one) &&
		    (!out->limit ||
		        (int64_t)(one.limit - one.used) < (int64_t)(out->limit - out->used)))
			*out = one;
	group_release(&g);
}

/* The processors that the group in dir allows. */
static unsigned read_group_processors(const char *dir, bool v2, unsigned most)
{
	char *path = mem_printf("%s/cpu.max", dir);
	FILE *f = v2 ? fopen(path, "re") : NULL;
	unsigned long long quota = 0, period = 0;
	uint64_t q = 0, p = 0;

	free(path);
	/* "max 100000" is not a limit, and has no number where the quota is; nor has -1. */
	if (f && fscanf(f, "%llu %llu", &quota, &period) == 2) {
		q = quota;
		p = period;
	}
	if (f)
		fclose(f);
	if (!v2 &&
	    (!read_number(dir, "cpu.cfs_quota_us", &q) ||
	        !read_number(dir, "cpu.cfs_period_us", &p) || q >= NO_LIMIT))
		return most;
	if (p == 0 || q == 0 || q / p >= most)
		return most;
	return q < p ? 1 : (unsigned)(q / p);
}

unsigned cgroup_processors(const char *root, unsigned most)
{
	struct group g;
	char *dir;

	if (!find_group(root, "cpu", &g))
		return most;
	for (; (dir = next_folder(&g)); free(dir))
		most = read_group_processors(dir, g.v2, most);
	group_release(&g);
	return most;
}

uint64_t cgroup_memory_kills(const char *root)
{
	uint64_t n = UINT64_MAX;
	struct group g;
	char *dir;

	if (!find_group(root, "memory", &g))
		return n;
	dir = next_folder(&g);
	if (dir)
		read_member(dir, g.v2 ? "memory.events" : "memory.oom_control", "oom_kill", &n);
	free(dir);
	group_release(&g);
	return n;
}
