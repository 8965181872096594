/* SPDX-License-Identifier: ISC */
#ifndef SAVED_SAVED_STATE_H
#define SAVED_SAVED_STATE_H

/* Reads the coordinator's state from the files of a run directory:
 *
 *   state.json               the part "membership", and which files have the other parts:
 *                            "parts": { PART: { "file", "size", "blake2b" } ... }
 *   state-PART-ID-N.json     another part, as write N of the coordinator ID has left it
 *   state.leases-ID          the log of leases, which state.json names as "lease_log"
 *
 * A part's file is never changed once state.json names it, so that replacing state.json replaces
 * all parts at once. Earlier versions of pskit had the whole state in state.json, and a large
 * description in description-DIGEST.json; such a state is read, too.
 *
 * Any thread. While a coordinator runs, its next write may remove a part's file between the time at
 * which state.json was read and that at which the file is opened: then state.json is read again. */
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "msg/state_part.h"

struct saved_state {
	struct buf part[STATE_PARTS]; /* the texts */
	/* "file", "size" and "blake2b" of each part's file; NULL: state.json has the part, or there
	 * is none */
	json_t *entry[STATE_PARTS];
	char *log;         /* the name of the log of leases; NULL: none */
	uint64_t revision; /* N of the last write */
};

/* Reads the state in this directory; which: a bit (1u << part) for each part whose text is wanted.
 * *out is to be released, also after an error. ERR_NOTFOUND: there is no state.json. ERR_FORMAT,
 * ERR_IO: a file is missing or damaged, named in e. */
enum err_code saved_state_read(const char *run, unsigned which, struct saved_state *out,
    struct err *e);
void saved_state_release(struct saved_state *s);

#endif
