/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_DESCRIPTION_STORE_H
#define COORDINATOR_DESCRIPTION_STORE_H

#include "coordinator/coordinator.h"

/* A large description of the training data, such as a million names of categories, in a file of its own in
 * the run directory: RUN/description-DIGEST.json. state.json, which is written at every change of the
 * cluster, has only the name of the file (coord_large_facts). The file is written before a state that names
 * it, and its name says what it contains, so that a crash between the two leaves the former state whole. */

/* With the coordinator's lock held: the text of the description that must be written before the present
 * state, in a new string, and its file's name in a second one; NULL: none must. */
char *description_store_begin(const struct coordinator *coordinator, char **name);
/* Writes the file in the run directory. Without the lock. ERR_IO. */
enum err_code description_store_write(const char *run_dir, const char *name, const char *text,
    struct err *e);
/* Removes the files of other descriptions, when the state that names this one has been written. */
void description_store_clean(const char *run_dir, const char *name);
/* Puts the description that a state's document names in the place of its name. ERR_FORMAT, ERR_IO: it is
 * missing or damaged. */
enum err_code description_store_read(const char *run_dir, json_t *state, struct err *e);

#endif
