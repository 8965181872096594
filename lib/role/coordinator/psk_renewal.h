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
/* A renewal of the key */
struct psk_renewal {
	int64_t until; /* wall seconds until which the previous key is accepted */
	bool force;    /* also while the one before the present key is still accepted */
	const char *who;
};
/* Draws a new key, and returns when the saved state knows it, or cannot be written. After an error
 * nothing has changed. ERR_EXISTS: an earlier renewal promised that the previous key is accepted,
 * and without `force` it is kept. ERR_NOTREADY: the saved state does not know the present key
 * yet. */
enum err_code psk_renewal_rotate(struct coordinator *coordinator, const struct psk_renewal *renewal,
    struct err *e);

#endif
