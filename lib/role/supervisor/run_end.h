/* SPDX-License-Identifier: ISC */
#ifndef SUPERVISOR_RUN_END_H
#define SUPERVISOR_RUN_END_H

#include "supervisor/supervisor.h"

/* The end of a run: a checkpoint after a signal, the model, the result, and the end of all
 * processes. run_loop.c calls these in that order, on the supervisor's thread. What takes long is
 * done by a child process (ps-ctl checkpoint, export), so that signals are still handled. */

/* Take a checkpoint of a running job before a signal ends it. Blocks for up to 12 s; a further
 * signal ends the wait. True when the checkpoint exists. */
bool run_end_take_checkpoint(struct supervisor *s);
/* Before a run is given up because its coordinator was killed too often: start it once more, take a
 * checkpoint and export its model, and say how to continue. Does nothing after other failures. */
void run_end_save_given_up(struct supervisor *s);
/* Is every partition still held by a server? Otherwise the servers cannot export the model. */
bool run_end_has_all_partitions(const struct supervisor *s);
/* Export the model from the servers to RUN/model.safetensors, unless that file exists. A failure
 * is a warning, stored in s->unsaved and in the result. For a failed job the result also says
 * when the model has values that are not finite. */
void run_end_export_model(struct supervisor *s, json_t *result);
/* Export the model of the newest checkpoint, if there is one, to RUN/model.safetensors. A failure
 * is a warning, because the checkpoint still has the model. */
void run_end_export_newest_checkpoint(struct supervisor *s);
/* The run's result so far: the coordinator's, or one made of its last status. A new reference. */
json_t *run_end_result(struct supervisor *s);
/* End all processes, and upload the checkpoints that the store lacks (s->unstored on failure). A
 * further signal ends all processes at once. why: for the coordinator's log. */
void run_end_processes(struct supervisor *s, const char *why);

#endif
