#ifndef SERVER_HISTORY_H
#define SERVER_HISTORY_H

#include <jansson.h>

#include "base/log.h"

/* What has happened to a cluster: events.jsonl, which a coordinator that begins again goes on
 * with, and the last of them in memory; and once a second how it stands, metrics.jsonl.  The
 * caller's lock covers it.  A full disk costs the history, not the job. */
struct history;

#define HISTORY_KEPT 1024

/* dir: the run directory, whose events are read; NULL: there is none.  Nothing is written
 * before history_open. */
struct history *history_new(const char *dir, struct log *log);
void history_open(struct history *h);
void history_free(struct history *h);

/* kind and text: see coord_event. */
void history_add(struct history *h, const char *kind, const char *text);
/* The points of metrics.jsonl, of a run that goes on. */
struct web_curve;
void history_curve(const struct history *h, struct web_curve *curve);
/* A line of metrics.jsonl. */
void history_metrics(struct history *h, const json_t *row);
/* How many events of each kind there were since history_new, each kind that there is from 0 on;
 * a new reference. */
json_t *history_counts(const struct history *h);

/* Those from number `since` on that are in memory, a new reference; *next: the number that the
 * next one will have. */
json_t *history_events(const struct history *h, uint64_t since, uint64_t *next);

#endif
