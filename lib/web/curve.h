#ifndef WEB_CURVE_H
#define WEB_CURVE_H

#include <jansson.h>

/* The past of a run for the dashboard's curves: some points of its whole length in bounded
 * memory.  When they are too many every other one goes, and from then on they are taken half
 * as often.  Not thread-safe. */
struct web_curve;

#define WEB_CURVE_POINTS 1024

struct web_curve *web_curve_new(void);
void web_curve_free(struct web_curve *c);
/* From a status (GET /v1/status), some time after the one before. */
void web_curve_add(struct web_curve *c, const json_t *status);
/* Points from a file of such lines, in order (metrics.jsonl): of a long one some lines, evenly
 * spread, are read.  What is no such line is passed over. */
void web_curve_read(struct web_curve *c, int fd);
/* {"score":NAME,"columns":[NAME, ...],"points":[[...], ...]} with null for what there is not;
 * a new reference.  The score is what an evaluation tells beside the loss; null for nothing. */
json_t *web_curve_json(const struct web_curve *c);

#endif
