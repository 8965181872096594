#ifndef SERVER_HOST_H
#define SERVER_HOST_H

/* Inside of the coordinator's host: shared by host.c and routes.c. */
#include "coord/coord.h"
#include "http/server.h"
#include "server/state.h"

#define EVENTS_KEPT 1024

/* Everything here is covered by `lock`, which is taken before no other lock
 * of ours; lanes and HTTP threads hold it for the length of one message. */
struct host {
	struct server *server;
	pthread_mutex_t lock;
	struct coord *coord;
	struct coord_config cfg;
	json_t *config;                 /* effective configuration */
	char cluster_id[40];
	bool dirty;                     /* the view must go out */
	bool told_end;
	json_t *event[EVENTS_KEPT];     /* event n lies at n modulo EVENTS_KEPT */
	uint64_t nevents;
	struct http_server *http;
	int metrics_fd;                 /* metrics.jsonl, or -1 */
	int64_t next_metrics;
	pthread_t ticker;
	_Atomic bool stop;
	pthread_cond_t stopped;
};

void host_lock(struct host *h);
/* Sends the view out when it has changed, then unlocks. */
void host_unlock(struct host *h);
json_t *host_keys(struct host *h);

extern const struct http_route host_routes[];
extern const size_t host_nroutes;
bool host_find_key(void *ctx, const uint8_t pk[KEY_BYTES], struct http_peer *peer);
bool host_find_token(void *ctx, const char *token, struct http_peer *peer);

#endif
