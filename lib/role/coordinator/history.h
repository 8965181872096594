/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_HISTORY_H
#define COORDINATOR_HISTORY_H

#include "core/json.h"
#include "core/log.h"
#include "msg/words.h"

/* The history of a cluster in its run directory. events.jsonl has every event; a coordinator that
 * is started again continues it, and at most HISTORY_KEPT events are in memory, of which rare kinds
 * stay longer. metrics.jsonl has about one row a second with the state of the cluster. A thread of
 * its own writes both (history_writer.h). When the disk is full, rows and events are lost, and the
 * job goes on. No lock of its own: the coordinator's lock covers it. */
struct history;

#define HISTORY_KEPT 1024

/* dir: the run directory, whose old events are read; NULL: none. Nothing is written before
 * history_open. */
struct history *history_new(const char *dir, struct log *log);
/* Open the files for appending, cut off an incomplete last line, and write events added so far. */
void history_open(struct history *h);
void history_free(struct history *h);

/* Add an event. kind and text are as in coord_event. */
void history_add(struct history *h, enum event_kind kind, const char *text);
/* Load the points of metrics.jsonl into the curve, for a run that is resumed. */
struct web_curve;
void history_curve(const struct history *h, struct web_curve *curve);
/* Append a row to metrics.jsonl. */
void history_metrics(struct history *h, const json_t *row);
/* The number of events of each kind since history_new, with 0 for kinds that have not occurred;
 * a new reference. */
json_t *history_counts(const struct history *h);

/* The events in memory from number `since` on, a new reference. *next is the number of the next
 * event. */
json_t *history_events(const struct history *h, uint64_t since, uint64_t *next);

#endif
