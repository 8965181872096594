/* SPDX-License-Identifier: ISC */
#include "doctor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/file.h"
#include "core/num.h"
#include "core/procstat.h"
#include "ctl.h"
#include "math/blas.h"
#include "socket/net.h"
#include "server/server.h"

/* Descriptors that a process needs without any peer: event loops, listeners, logs, HTTP
 * connections. */
#define FILES_OWN 40u
/* Each peer has one connection for its data and one to the coordinator. */
#define FILES_PEER 2u

static const char raise_limit[] =
    "raise the limit: ulimit -n 65536, or LimitNOFILE= of its systemd unit";

/* A process is estimated to need FILES_OWN descriptors and FILES_PEER for each peer. */
void doctor_descriptors(struct doctor *d, const char *id, uint64_t limit, int64_t open,
    uint64_t others)
{
	uint64_t need = FILES_OWN + FILES_PEER * others;

	/* Report a process once: it may have been examined from outside, and also report its own
	 * figures. */
	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->list[i].check, "files") == 0 && strcmp(d->list[i].about, id) == 0)
			return;
	if (open > 0 && (uint64_t)open + 2 > limit)
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "files", id, raise_limit,
		    "%s has reached its limit of %llu open descriptors", id,
		    (unsigned long long)limit);
	else if (limit < need)
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "files", id, raise_limit,
		    "%s may open %llu descriptors, but can need up to %llu", id,
		    (unsigned long long)limit, (unsigned long long)need);
	else if (open > 0 && (uint64_t)open > limit / 10 * 9)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_CAUSE, "files", id, raise_limit,
		    "%s has opened %lld of at most %llu descriptors", id, (long long)open,
		    (unsigned long long)limit);
}

/* Tries to listen at addr, as the server will have to. */
static void check_port_is_free(struct doctor *d, const char *key, const char *addr)
{
	const char *port = strrchr(addr, ':');
	char bound[NET_TEXT], remedy[200];
	struct err e = { 0 };
	int fd;

	if (net_listen(addr, 1, &fd, bound, &e) == ERR_OK) {
		close(fd);
		return;
	}
	snprintf(remedy, sizeof remedy,
	    "--set %s=HOST:0 takes a free port; ss -ltnp 'sport = %.20s' shows the process that uses this one",
	    key, port ? port : "");
	if (e.code == ERR_EXISTS)
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "ports", addr, remedy, "%s: %s",
		    key, e.msg);
	else
		doctor_add_message(d, DOCTOR_FAIL, DOCTOR_CAUSE, addr, e.cause, e.msg);
}

static void check_memory_of_host(struct doctor *d, const struct conf *c)
{
	uint64_t left = procstat_memory(), may = c->mem_limit * (uint64_t)c->servers;
	char a[16], b[16];

	num_human((double)left, a);
	num_human((double)may, b);
	if (may > left)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_PLAIN, "memory", "",
		    "lower mem_limit, or start servers on other hosts",
		    "mem_limit allows %lld server%s to use %sB, but this host has %sB left",
		    (long long)c->servers, NUM_S(c->servers), b, a);
	doctor_add_ok(d, "memory", "this host has %sB left", a);
}

static void check_inherited_descriptors(struct doctor *d, const struct conf *c)
{
	uint64_t need = descriptor_limit_count(true, conf_trains(c) ? (uint64_t)c->workers.max : 0,
	    (uint64_t)c->servers);
	struct rlimit files = { 0 };

	/* Compare with the hard limit: servers raise their soft limit to it. */
	getrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_max < need)
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "files", "server-0", raise_limit,
		    "server-0 may open %llu descriptors, but can need up to %llu",
		    (unsigned long long)files.rlim_max, (unsigned long long)need);
	doctor_add_ok(d, "files", "%llu descriptors for each process",
	    (unsigned long long)files.rlim_max);
}

/* Checks the disk of the run directory, or of its parent while it does not exist yet. */
static void check_run_disk(struct doctor *d)
{
	char *parent = path_dirname(d->dir);

	doctor_disk(d, access(d->dir, F_OK) == 0 ? d->dir : parent);
	free(parent);
}

/* Checks the disk of spill_dir on this host; servers make the directory. */
static void check_spill_disk(struct doctor *d, const struct conf *c)
{
	char *parent;

	if (!conf_is_named(c->spill_dir))
		return;
	parent = path_dirname(c->spill_dir);
	doctor_disk(d, access(c->spill_dir, F_OK) == 0 ? c->spill_dir : parent);
	free(parent);
}

static void check_blas_kernels(struct doctor *d)
{
	const char *core = blas_better_core();
	char remedy[96];

	if (core && getenv("OPENBLAS_CORETYPE")) {
		snprintf(remedy, sizeof remedy, "set OPENBLAS_CORETYPE=%s, or unset it", core);
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_PLAIN, "blas", "", remedy,
		    "OPENBLAS_CORETYPE selects OpenBLAS's kernels for %s, which do not use the "
		    "AVX2 instructions of this processor",
		    blas_core());
	}
	doctor_add_ok(d, "blas", "workers use OpenBLAS's kernels for %s",
	    core ? core : blas_core());
}

void doctor_file(struct doctor *d, const struct conf *c)
{
	doctor_add_finding(d, DOCTOR_OK, DOCTOR_PLAIN, "config", "", "",
	    "every key of the file is valid");
	if (c->has_job)
		doctor_add_finding(d, DOCTOR_OK, DOCTOR_PLAIN, "data", "", "",
		    "all files of job.data and job.eval can be read");
	if (!d->alive) {
		check_port_is_free(d, "listen", c->listen);
		check_port_is_free(d, "http", c->http);
		doctor_add_ok(d, "ports", "%s and %s are free", c->listen, c->http);
		check_run_disk(d);
		check_spill_disk(d, c);
	}
	check_inherited_descriptors(d, c);
	check_memory_of_host(d, c);
	if (conf_trains(c))
		check_blas_kernels(d);
}
