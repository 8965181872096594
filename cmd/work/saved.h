/* SPDX-License-Identifier: ISC */
#ifndef CMD_WORK_SAVED_H
#define CMD_WORK_SAVED_H

#include <stdbool.h>

#include "core/err.h"

/* Serves a model that no cluster serves (saved/saved_model.h) by a read-only server process in a
 * temporary directory, which ends with this process:
 *
 * saved_server_find: is there such a model? saved_server_run: start the server and fork. The child
 * goes on as a client of the server; the parent waits for the child, forwards signals to it, and
 * cleans up.
 *
 * Call these before any thread is started. */

/* The path of the model file, the checkpoint, or the run directory whose run has ended, that is named
 * by run_dir (option -C, may be NULL), else by PS_CLUSTER, else as the only run here. To be freed.
 * NULL: it names a live cluster, a join file, or nothing. Standard error says so when a run has
 * ended. */
char *saved_server_find(const char *prog, const char *run_dir);

/* Returns true in the child: *run_dir is the server's run directory, to be freed. Returns false
 * with the exit code in the parent, after the child and the server have ended, or at once when the
 * server cannot be started. */
bool saved_server_run(const char *prog, const char *where, char **run_dir, int *code);

#endif
