/* SPDX-License-Identifier: ISC */
#include "doctor.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "ctl.h"

/* The links from the workers to the servers, measured by the workers themselves
 * (session/probe.h). */

#define PACE_MS 100
/* How long all measurements together may take. One broken link can use all of it. */
#define LONG (20 * NSEC_PER_SEC)
/* Bytes a second. A link is slow below SLOW, or when it is SLOWER times slower than the median
 * link and below GOOD. Links within a host are never reported: their rate only shows how busy the
 * host is. */
#define SLOW   1e6
#define SLOWER 4.0
#define GOOD   20e6

struct link {
	const char *worker;
	const json_t *found;
};

struct links {
	struct link *link;
	size_t n;
	double middle, least, most; /* bytes a second, in the slower direction */
	double model;               /* bytes of all parameters */
};

static double slower_rate(const json_t *found)
{
	double up = json_num(found, "up_bytes_per_second", 0),
	       down = json_num(found, "down_bytes_per_second", 0);

	return up < down ? up : down;
}

static bool is_measured(const json_t *found)
{
	return strcmp(json_str(found, "stage", ""), "done") == 0;
}

static int compare_rates(const void *a, const void *b)
{
	double x = slower_rate(((const struct link *)a)->found),
	       y = slower_rate(((const struct link *)b)->found);

	return (x > y) - (x < y);
}

/* ---- findings ---- */

/* The stage at which a probe failed tells the cause: no connection (port, address), no handshake
 * (keys, another program), no large record (MTU). */
static void report_broken_link(struct doctor *d, const struct link *l)
{
	static const struct {
		const char *stage, *how, *remedy;
	} kinds[] = {
		{ "connect", "cannot reach",
		    "open this port in the firewall, or give the server an address that the "
		    "worker can reach: --listen, --advertise" },
		{ "handshake", "fails the handshake with",
		    "ps-ctl doctor on the server's host checks the keys; another program may use the port" },
		{ "transfer", "cannot send large records to",
		    "test the MTU: ping -M do -s 1472 HOST; lower it (ip link set dev DEV mtu "
		    "1400), or allow ICMP \"fragmentation needed\"" },
	};
	const char *stage = json_str(l->found, "stage", "");

	for (size_t i = 0; i < CTL_COUNT(kinds); i++)
		if (strcmp(kinds[i].stage, stage) == 0)
			doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "links", l->worker,
			    kinds[i].remedy, "%s %s %s (%s): %s", l->worker, kinds[i].how,
			    json_str(l->found, "id", "?"), json_str(l->found, "address", "?"),
			    json_str(l->found, "error", ""));
}

static void report_slow_link(struct doctor *d, const struct links *s, const struct link *l)
{
	double x = slower_rate(l->found);
	char up[16], down[16], usual[16], model[80] = "";

	if (*json_str(l->found, "address", "") == '/' ||
	    (x >= SLOW && (x >= GOOD || x * SLOWER >= s->middle)))
		return;
	num_count(json_num(l->found, "up_bytes_per_second", 0), up);
	num_count(json_num(l->found, "down_bytes_per_second", 0), down);
	num_count(s->middle, usual);
	if (s->model > 0)
		snprintf(model, sizeof model, "; sending all parameters takes %.3g s",
		    s->model / x);
	doctor_add_finding(d, DOCTOR_WARN, DOCTOR_CAUSE, "links", l->worker,
	    "ethtool DEV and iperf3 show the rate of the link; codec, pull_codec and "
	    "local_steps send less (ps-bandwidth(7))",
	    "%s's link to %s (%s) is slow: %sB/s there, %sB/s back, round trip %.3g ms; the "
	    "median of all links is %sB/s%s",
	    l->worker, json_str(l->found, "id", "?"), json_str(l->found, "address", "?"), up, down,
	    1e3 * json_num(l->found, "rtt_seconds", 0), usual, model);
}

/* Reports broken links, then slow ones, which are measured against the median. Sorts s->link. */
static void report_links(struct doctor *d, struct links *s)
{
	char least[16], most[16];
	size_t whole = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (is_measured(s->link[i].found))
			s->link[whole++] = s->link[i];
		else
			report_broken_link(d, &s->link[i]);
	}
	if (!whole)
		return;
	qsort(s->link, whole, sizeof *s->link, compare_rates);
	s->middle = slower_rate(s->link[whole / 2].found);
	for (size_t i = 0; i < whole; i++)
		report_slow_link(d, s, &s->link[i]);
	num_count(slower_rate(s->link[0].found), least);
	num_count(slower_rate(s->link[whole - 1].found), most);
	doctor_add_ok(d, "links",
	    "%zu link%s from workers to servers, %sB/s to %sB/s beside the traffic of the job",
	    whole, NUM_S((int64_t)whole), least, most);
}

/* ---- measurements ---- */

static bool all_workers_done(const json_t *probes, int64_t number)
{
	const json_t *w;
	size_t i;

	json_array_foreach(json_object_get(probes, "workers"), i, w)
		if (!json_flag(w, "done"))
			return false;
	return json_int(probes, "number", 0) == number;
}

/* Polls until all workers have finished probe `number`, or LONG is over. Returns the last answer,
 * or NULL when the coordinator did not answer. */
static json_t *await_probes(struct doctor *d, int64_t number)
{
	int64_t end = clock_now() + LONG;
	json_t *probes = NULL;

	for (;;) {
		json_decref(probes);
		probes = NULL;
		if (http_call(d->client, "GET", "/v1/probe", NULL, d->patience, NULL, &probes,
		        NULL) ||
		    all_workers_done(probes, number) || clock_now() > end)
			return probes;
		clock_sleep(PACE_MS);
	}
}

static double total_parameter_bytes(struct doctor *d)
{
	json_t *answer = NULL, *s;
	double bytes = 0;
	size_t i;

	http_call(d->client, "GET", "/v1/servers", NULL, d->patience, NULL, &answer, NULL);
	json_array_foreach(json_object_get(answer, "servers"), i, s)
		bytes += json_num(s, "parameter_bytes", 0);
	json_decref(answer);
	return bytes;
}

/* The links borrow from `probes`, which must outlive s. */
static void collect_links(struct doctor *d, const json_t *probes, struct links *s)
{
	const json_t *w, *found;
	size_t i, k;

	json_array_foreach(json_object_get(probes, "workers"), i, w) {
		const char *id = json_str(w, "id", "?");

		if (!json_flag(w, "done"))
			doctor_add_finding(d, DOCTOR_WARN, DOCTOR_PLAIN, "links", id,
			    "its process may be stopped: ps-stat why names processes that are silent",
			    "%s has not tested its links within %d s", id,
			    (int)(LONG / NSEC_PER_SEC));
		json_array_foreach(json_object_get(w, "servers"), k, found) {
			s->link = mem_regrow(s->link, s->n + 1, sizeof *s->link);
			s->link[s->n++] = (struct link){ id, found };
		}
	}
}

/* Posts one probe request and then waits for the workers' answers. That they cannot be asked is a
 * warning about the examination, and not a fault of the links. */
void doctor_links(struct doctor *d)
{
	json_t *body = json_object(), *answer = NULL, *probes = NULL;
	struct links s = { 0 };
	struct err e = { 0 };
	enum err_code rc = http_call(d->client, "POST", "/v1/probe", body, d->patience, NULL,
	    &answer, &e);

	if (rc == ERR_OK)
		probes = await_probes(d, json_int(answer, "number", 0));
	if (rc == ERR_OK && !probes)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_EFFECT, "links", "", "",
		    "the coordinator no longer has the results of the link tests");
	if (rc)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_EFFECT, "links", "", "",
		    "cannot ask the workers: %s", e.msg);
	s.model = probes ? total_parameter_bytes(d) : 0;
	collect_links(d, probes, &s);
	report_links(d, &s);
	free(s.link);
	json_decref(body);
	json_decref(answer);
	json_decref(probes);
}
