/* SPDX-License-Identifier: ISC */
#ifndef WORKER_CODING_H
#define WORKER_CODING_H

#include "conf/conf.h"
#include "worker/worker.h"

/* Fills *out with the codecs, filters and row-id encoding that the configuration selects for the
 * client. Pure. ERR_CONFIG for an unknown codec or filter. */
enum err_code coding_from_conf(const struct conf *c, struct client_coding *out, struct err *e);

#endif
