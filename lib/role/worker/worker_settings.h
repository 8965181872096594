/* SPDX-License-Identifier: ISC */
#ifndef WORKER_WORKER_SETTINGS_H
#define WORKER_WORKER_SETTINGS_H

#include "worker/worker.h"

/* Applies changed settings to a worker (ps-consistency(7)). In bsp each settings epoch holds from
 * its own step on. In ssp and asp the worker applies them before its next step. Where another
 * synchronization mode begins, the worker jumps to its first step: slower workers do not make up
 * for the steps between.
 *
 * Training thread only. */
/* Before the first step: takes over the configuration that the view is based on. The job may have
 * begun with other settings than this worker proposed, and they may have changed since. */
enum err_code worker_settings_begin(struct worker *w, struct err *e);
/* Between two steps: applies what holds for the next one. */
enum err_code worker_settings_apply(struct worker *w, struct err *e);
/* Call it when the parameters of a step have arrived: from then on no change can take effect at that step
 * any more. Applies the changes that have become due since worker_settings_apply. *turned: some
 * setting changed. */
enum err_code worker_settings_apply_due(struct worker *w, bool *turned, struct err *e);

/* Fills *out with the codecs, filters and row-id encoding that the configuration selects for the
 * client. Pure. ERR_CONFIG for an unknown codec or filter. */
enum err_code worker_settings_coding(const struct conf *c, struct client_coding *out,
    struct err *e);

#endif
