/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_PSK_RENEWAL_H
#define COORDINATOR_PSK_RENEWAL_H

#include "coordinator/coordinator.h"

/* The cluster's pre-shared key, as its coordinator renews it. For a grace period after a renewal
 * the previous key is accepted, too. Other processes of the run directory notice the new files
 * by themselves (auth/secrets.h). All functions are called with the coordinator's lock held, except
 * psk_renewal_rotate, which takes it. */

/* Seconds for which the previous key is accepted: the default and the maximum. */
#define SECRET_GRACE     600
#define SECRET_GRACE_MAX (30 * 86400)

/* At the start: set the cluster's id from the key. If a state from before names the id of the
 * previous key, because its coordinator ended during psk_renewal_rotate, update that id. */
void psk_renewal_begin(struct coordinator *coordinator);
/* Give the HTTP server the current and the previous key. */
void psk_renewal_update_http(struct coordinator *coordinator);
/* At each tick: remove the previous key's files once its grace period is over. */
void psk_renewal_tick(struct coordinator *coordinator);
/* Draw a new key; the previous one is accepted until `until` (wall seconds). who: for the event.
 * ERR_IO: nothing has changed. */
enum err_code psk_renewal_rotate(struct coordinator *coordinator, int64_t until, const char *who,
    struct err *e);

#endif
