/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_DESCRIPTION_STORE_H
#define COORDINATOR_DESCRIPTION_STORE_H

#include "coordinator/coordinator.h"
#include "msg/large_description.h"

/* A large description of the training data (msg/large_description.h), such as a million names of categories, in
 * a file of its own in the run directory: RUN/description-DIGEST.json. state.json, which is written at every
 * change of the cluster, only refers to it. The file is written before a state that refers to it, and its name
 * says what it contains, so that a crash between the two leaves the former state whole. */

/* With the coordinator's lock held: the description whose file must be written before the present state, with
 * a reference; NULL: none must. */
struct large_description *description_store_begin(const struct coordinator *coordinator);
/* Writes the file in the run directory. Without the lock. ERR_IO. */
enum err_code description_store_write(const char *run_dir, const struct large_description *d,
    struct err *e);
/* Removes the files of other descriptions, when the state that refers to this one has been written. */
void description_store_clean(const char *run_dir, const struct large_description *d);
/* Reads the description that a state's document refers to; *out is NULL if it has its description itself, or
 * none. ERR_FORMAT, ERR_IO: it is missing or damaged. */
enum err_code description_store_read(const char *run_dir, const json_t *state,
    struct large_description **out, struct err *e);

#endif
