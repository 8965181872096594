/* SPDX-License-Identifier: ISC */
#ifndef WEB_CURVE_H
#define WEB_CURVE_H

#include "core/json.h"

/* The history of a run for the dashboard's curves: up to WEB_CURVE_POINTS points, spread over its
 * whole length. When there is no room for another point, every other one is dropped, and from then
 * on points are taken half as often. Not thread-safe. */
struct web_curve;

#define WEB_CURVE_POINTS 1024

struct web_curve *web_curve_new(void);
void web_curve_free(struct web_curve *c);
/* Adds a point from a status (GET /v1/status), unless it follows the last one too soon. */
void web_curve_add(struct web_curve *c, const json_t *status);
/* Adds points from a file of status lines in order (metrics.jsonl). Of a long file only some
 * evenly spread lines are read. Other lines are skipped. */
void web_curve_read(struct web_curve *c, int fd);
/* Returns {"score":NAME,"columns":[NAME, ...],"points":[[...], ...]} as a new reference; missing
 * numbers are null. The score is the figure that evaluations have besides the loss, or null. */
json_t *web_curve_json(const struct web_curve *c);

#endif
