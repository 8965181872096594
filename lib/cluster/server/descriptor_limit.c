/* SPDX-License-Identifier: ISC */
#include "server/descriptor_limit.h"

#include "conf/conf_rule.h"
#include "core/procstat.h"

/* Descriptors of event loops, listeners, logs and libraries. */
#define FILES_OWN 48u
/* Connections of the control plane that clients without a key can take (http/http_conns.c). */
#define FILES_HTTP 192u
/* Connections in their handshake: at least, whatever the limit is, and at most. */
#define HALF_OPEN_MIN 16u
#define HALF_OPEN_MAX 1024u

void descriptor_limit_raise(struct server *s)
{
	s->limits.files_most = procstat_raise_files();
}

uint64_t descriptor_limit_count(bool coordinator, uint64_t workers, uint64_t servers)
{
	/* The last term: connections that this server dials to the others. */
	return FILES_OWN + FILES_RESERVE + (coordinator ? FILES_HTTP : 0) + HALF_OPEN_MIN +
	    server_count_sessions(coordinator, workers, servers) + servers;
}

enum err_code descriptor_limit_check(const struct server *s, const struct conf *conf, struct err *e)
{
	uint64_t workers = conf_trains(conf) ? (uint64_t)conf->workers.max : 0,
	         servers = (uint64_t)conf->servers;
	uint64_t need = descriptor_limit_count(s->cfg.coordinator, workers, servers);

	if (s->limits.files_most >= need)
		return ERR_OK;
	return err_because(e, ERR_CONFIG, CAUSE_DESCRIPTORS,
	    "for %llu worker%s and %llu server%s this process may need %llu descriptors, and may "
	    "open %llu: set ulimit -n %llu (or LimitNOFILE=%llu in its systemd unit), or reduce "
	    "their number",
	    (unsigned long long)workers, workers == 1 ? "" : "s", (unsigned long long)servers,
	    servers == 1 ? "" : "s", (unsigned long long)need,
	    (unsigned long long)s->limits.files_most, (unsigned long long)need,
	    (unsigned long long)need);
}

unsigned descriptor_limit_half_open(const struct server *s)
{
	uint64_t part = s->limits.files_most / 4;

	return part > HALF_OPEN_MAX ? HALF_OPEN_MAX
	    : part < HALF_OPEN_MIN  ? HALF_OPEN_MIN
	                            : (unsigned)part;
}

unsigned descriptor_limit_half_open_host(const struct server *s)
{
	return descriptor_limit_half_open(s) / 2;
}

bool descriptor_limit_in_reserve(const struct server *s, int fd)
{
	return (uint64_t)fd + FILES_RESERVE >= s->limits.files_most;
}
