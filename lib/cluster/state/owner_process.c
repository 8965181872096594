/* SPDX-License-Identifier: ISC */
#include "state/owner_process.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/boot.h"
#include "core/file.h"
#include "core/mem.h"

/* When a process began, in ticks since boot: with its pid and the boot id it is unique. 0: there
 * is no such process, or all of its threads have ended and it only waits for its parent. While one of them
 * has not, a process that was killed may still listen on its sockets. */
static uint64_t read_start_time(int64_t pid)
{
	char *path = mem_printf("/proc/%lld/stat", (long long)pid);
	const char *at = NULL;
	struct buf b = BUF_INIT;
	uint64_t ticks = 0;
	int threads = 0;
	char state = 'X';

	if (file_read(path, 4096, &b, NULL) == ERR_OK)
		at = strrchr((const char *)b.data, ')');
	/* The process name may contain anything; the state is field 3, the number of threads field 20 and
	 * the start time field 22. */
	if (at &&
	    sscanf(at,
	        ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d %*s %" SCNu64,
	        &state, &threads, &ticks) != 3)
		ticks = 0;
	buf_release(&b);
	free(path);
	return state == 'X' || (state == 'Z' && threads <= 1) ? 0 : ticks;
}

json_t *owner_describe_self(uint64_t incarnation)
{
	char host[64] = "", boot[BOOT_TEXT], namespace[BOOT_TEXT];

	gethostname(host, sizeof host - 1);
	boot_id(boot);
	boot_pid_namespace(namespace);
	return owner_encode(&(const struct owner){ .incarnation = incarnation,
	    .host = host,
	    .boot_id = boot,
	    .pid_namespace = namespace,
	    .pid = getpid(),
	    .started = read_start_time(getpid()) });
}

/* Was the process of this record started by the running kernel of this host, in our namespace? */
static bool is_of_this_host(const struct owner *o)
{
	char boot[BOOT_TEXT], namespace[BOOT_TEXT];

	boot_id(boot);
	boot_pid_namespace(namespace);
	return boot[0] && strcmp(o->boot_id, boot) == 0 && namespace[0] &&
	    strcmp(o->pid_namespace, namespace) == 0 && o->pid > 0 && o->started;
}

bool owner_lives_here(const struct owner *o)
{
	return is_of_this_host(o) && o->pid != getpid() && read_start_time(o->pid) == o->started;
}

bool owner_died_here(const struct owner *o)
{
	return is_of_this_host(o) && (o->pid == getpid() || read_start_time(o->pid) != o->started);
}
