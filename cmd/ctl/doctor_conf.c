#include "doctor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/procstat.h"
#include "ctl.h"
#include "wire/net.h"

/* Of a process that has no peers: event loops, listeners, logs, the control plane's connections. */
#define FILES_OWN 40u
/* Each peer has one connection for its data and one to the coordinator. */
#define FILES_PEER 2u

/* open: how many it has now, or -1; others: who may be connected to it at once. */
void doctor_descriptors(struct doctor *d, const char *id, uint64_t limit, int64_t open, uint64_t others)
{
	static const char remedy[] = "raise the limit: ulimit -n 65536, or LimitNOFILE= of its systemd unit";
	uint64_t need = FILES_OWN + FILES_PEER * others;

	/* It may have been seen here, and tell itself. */
	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->list[i].check, "files") == 0 && strcmp(d->list[i].about, id) == 0)
			return;
	if (open > 0 && (uint64_t)open + 2 > limit)
		doctor_say(d, DOCTOR_FAIL, DOCTOR_CAUSE, "files", id, remedy, "%s has all of the %llu descriptors open that it may", id,
		    (unsigned long long)limit);
	else if (limit < need)
		doctor_say(d, DOCTOR_FAIL, DOCTOR_CAUSE, "files", id, remedy, "%s may have %llu descriptors open, and may come to need %llu", id,
		    (unsigned long long)limit, (unsigned long long)need);
	else if (open > 0 && (uint64_t)open > limit / 10 * 9)
		doctor_say(d, DOCTOR_WARN, DOCTOR_CAUSE, "files", id, remedy, "%s has %lld descriptors open, of the %llu that it may", id,
		    (long long)open, (unsigned long long)limit);
}

/* What cannot be bound now cannot be bound by the server either. */
static void check_port(struct doctor *d, const char *key, const char *addr)
{
	const char *port = strrchr(addr, ':');
	char bound[NET_TEXT], remedy[200];
	struct err e = { 0 };
	int fd;

	if (net_listen(addr, 1, &fd, bound, &e) == ERR_OK) {
		close(fd);
		return;
	}
	snprintf(remedy, sizeof remedy, "--set %s=HOST:0 takes a free port; ss -ltnp 'sport = %.20s' shows who has this one", key, port ? port : "");
	if (e.code == ERR_EXISTS)
		doctor_say(d, DOCTOR_FAIL, DOCTOR_CAUSE, "ports", addr, remedy, "%s: %s", key, e.msg);
	else
		doctor_words(d, DOCTOR_FAIL, DOCTOR_CAUSE, addr, e.msg);
}

static void check_memory(struct doctor *d, const struct conf *c)
{
	uint64_t left = procstat_memory(), may = c->mem_limit * (uint64_t)c->servers;
	char a[16], b[16];

	num_human((double)left, a);
	num_human((double)may, b);
	if (may > left)
		doctor_say(d, DOCTOR_WARN, DOCTOR_PLAIN, "memory", "", "lower mem_limit, or start servers on other hosts",
		    "mem_limit lets %lld server%s come to %sB, and this host has %sB left", (long long)c->servers, ctl_plural(c->servers), b, a);
	doctor_well(d, "memory", "this host has %sB left", a);
}

static void check_descriptors(struct doctor *d, const struct conf *c)
{
	uint64_t others = (uint64_t)c->servers + (conf_trains(c) ? (uint64_t)c->workers.max : 0);
	struct rlimit files = { 0 };

	getrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_cur != RLIM_INFINITY)
		doctor_descriptors(d, "server-0", files.rlim_cur, -1, others);
	doctor_well(d, "files", "%llu descriptors for each process", (unsigned long long)files.rlim_cur);
}

/* The directory that the run directory is, or will be made in. */
static void check_place(struct doctor *d)
{
	char *parent = path_dirname(d->dir);

	doctor_disk(d, access(d->dir, F_OK) == 0 ? d->dir : parent);
	free(parent);
}

void doctor_file(struct doctor *d, const struct conf *c)
{
	doctor_say(d, DOCTOR_OK, DOCTOR_PLAIN, "config", "", "", "every key is as it should be");
	if (c->has_job)
		doctor_say(d, DOCTOR_OK, DOCTOR_PLAIN, "data", "", "", "all of job.data and job.eval is here, and can be read");
	if (!d->alive) {
		check_port(d, "listen", c->listen);
		check_port(d, "http", c->http);
		doctor_well(d, "ports", "%s and %s can be had", c->listen, c->http);
		check_place(d);
	}
	check_descriptors(d, c);
	check_memory(d, c);
}
