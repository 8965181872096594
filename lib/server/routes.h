#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

/* Inside of the control plane's routes: routes.c asks, routes_post.c changes, routes_key.c sees to
 * keys, routes_web.c and routes_web_feed.c are for the dashboard. */
#include "server/host.h"

/* What is answered; each gives HTTP_DONE. */
int route_fail(struct http_answer *a, const struct err *e);
int route_answer(struct http_answer *a, json_t *json);

int host_post_checkpoints(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_stop(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_log(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_scale(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_drain(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_rebalance(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_set(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_tables(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_invite(void *ctx, const struct http_request *req, struct http_answer *a);
int get_web(void *ctx, const struct http_request *req, struct http_answer *a);
int get_feed(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_dashboard(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_session(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_session_end(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_trace(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_pause(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_probe(void *ctx, const struct http_request *req, struct http_answer *a);

/* routes_key.c */
int host_get_keys(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_keys(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_release(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_secret(void *ctx, const struct http_request *req, struct http_answer *a);
int host_post_revoke(void *ctx, const struct http_request *req, struct http_answer *a);

#endif
