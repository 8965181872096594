/* SPDX-License-Identifier: ISC */
#ifndef SERVING_RESP_SERVER_H
#define SERVING_RESP_SERVER_H

#include "conf/conf.h"
#include "serving/served.h"

/* The endpoint of a read-only server for look-ups in Redis' protocol ("Redis" in ps-serve(8)). Off unless
 * the key serve_redis names an address.
 *
 * One thread has all connections, over epoll. A connection reads only while its output is empty, so it has at
 * most one command's input (RESP_BYTES) and the output of resp_answer in memory. A client that does not read
 * its answers for serve_deadline is closed; idle ones stay. */
struct resp_server;

/* Binds, opens the model, and starts the thread. conf is borrowed for the call. ERR_CONFIG: the file of
 * tokens cannot be used; errors of net_listen and of served_reader_open. */
enum err_code resp_server_start(const struct conf *conf, struct served *served, struct log *log,
    struct resp_server **out, struct err *e);
/* Reads the file of tokens again. ERR_CONFIG: it cannot be used, and the old ones stay valid. Any thread. */
enum err_code resp_server_reload(struct resp_server *s, struct err *e);
/* Sends the output that sockets take at once, closes all connections and ends the thread. NULL is fine. */
void resp_server_stop(struct resp_server *s);

#endif
