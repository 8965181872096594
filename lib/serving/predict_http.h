/* SPDX-License-Identifier: ISC */
#ifndef SERVING_PREDICT_HTTP_H
#define SERVING_PREDICT_HTTP_H

#include "conf/conf.h"
#include "serving/served.h"

/* The HTTP endpoint of a read-only server: predictions for programs and people, as ps-predict-http(7)
 * specifies. Off unless the key serve_http names an address.
 *
 * One thread runs libmicrohttpd without threads of its own, answers, and computes. What arrives while
 * it computes is computed together afterwards: batching costs no waiting. A second thread answers
 * requests with large bodies one by one, so that the others do not wait for them. */
struct predict_http;

/* Binds, opens the model, and starts the thread. conf is borrowed for the call. ERR_CONFIG: an
 * address, or a file of tokens or keys, cannot be used; ERR_EXISTS: the port is taken; errors of
 * served_reader_open. */
enum err_code predict_http_start(const struct conf *conf, struct served *served, struct log *log,
    struct predict_http **out, struct err *e);
/* Reads the file of tokens again. ERR_CONFIG: it cannot be used, and the old ones stay valid. Any
 * thread. */
enum err_code predict_http_reload(struct predict_http *h, struct err *e);
/* Answers the requests under way, refuses new ones, and ends. Waits for serve_deadline, and 5 s, at
 * most. NULL is fine. */
void predict_http_stop(struct predict_http *h);

#endif
