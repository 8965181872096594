/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_ROUTES_H
#define COORDINATOR_ROUTES_H

/* The routes of the control plane (ps-http(7)), listed in routes.def. routes.c has the GET
 * routes, routes_post.c the routes that change the cluster, routes_key.c those for keys and
 * secrets, routes_web.c and routes_web_feed.c those for the dashboard.
 *
 * Handlers run on HTTP threads without a lock and take the coordinator's lock themselves. ctx is
 * the struct coordinator. They return HTTP_DONE with the answer in a, or HTTP_PARK to be run again
 * later: after coordinator_wake_parked, or when a->park_ms have passed (then req->late is set). */

#include "coordinator/coordinator.h"

/* Fill in the answer: an error, or a JSON document whose reference is taken. Both return
 * HTTP_DONE. */
int routes_fail(struct http_answer *a, const struct err *e);
int routes_answer(struct http_answer *a, json_t *json);

/* The result of the job as it is now; a new reference. Takes the coordinator's lock. */
json_t *routes_make_result(struct coordinator *coordinator);

int routes_post_checkpoints(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_stop(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_ended(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_log(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_scale(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_drain(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_rebalance(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_set(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_tables(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_invite(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_web_get(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_web_feed_get(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_dashboard(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_session(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_session_end(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_trace(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_pause(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_probe(void *ctx, const struct http_request *req, struct http_answer *a);

/* routes_key.c */
int routes_get_keys(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_keys(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_secret(void *ctx, const struct http_request *req, struct http_answer *a);
int routes_post_revoke(void *ctx, const struct http_request *req, struct http_answer *a);

#endif
