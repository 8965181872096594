/* SPDX-License-Identifier: ISC */
#ifndef COORDINATOR_DASHBOARD_FEED_H
#define COORDINATOR_DASHBOARD_FEED_H

/* The board: what dashboards are shown. A snapshot of the cluster is taken at most once a
 * second, and only while a dashboard asks. Each dashboard gets the parts that changed since it
 * asked last. So any number of dashboards costs the coordinator one snapshot a second, and a
 * slow one costs no memory.
 *
 * Thread-safe. The board's lock is taken before the coordinator's lock, never under it. */

struct dashboard_feed;

/* Without a snapshot; the first request of a dashboard takes one. */
struct dashboard_feed *routes_web_feed_new(void);
void routes_web_feed_free(struct dashboard_feed *b);

#endif
