#ifndef CMD_STAT_STAT_H
#define CMD_STAT_STAT_H

#include "client/identity.h"
#include "cmd/stat/plan.h"

/* The way to a cluster's control plane. */
struct stat_link {
	struct identity id;
	struct http_client *http;
	char *dir;                      /* the run directory; NULL: there is none here */
};

/* The control plane of the run directory, or, signed, that of a join file.  stop may be NULL
 * (http/client.h).  To be closed in any case. */
enum err_code stat_connect(const struct stat_options *o, const atomic_bool *stop, struct stat_link *l, struct err *e);
void stat_disconnect(struct stat_link *l);

/* Reports, one after the other; the exit code. */
int stream_run(const struct plan *p);
/* Until then, by the clock of clock_now. */
void stream_pause(int64_t until);

/* Histograms instead of rows. */
json_t *hists_fetch(const struct plan *p, struct http_client *c, struct err *e);
void hists_print(const struct plan *p, const json_t *hists, const json_t *before);

#endif
