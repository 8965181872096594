#include "doctor.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "ctl.h"

/* The lines from the workers to the servers, tried by the workers themselves (client/probe.h). */

#define PACE_MS 100
/* For one line a worker may need so long, and for all of them together. */
#define LONG (20 * NSEC_PER_SEC)
/* Bytes a second: a line is slow below this, or when it is so much slower than the one in the middle
 * and not good all the same.  What does not leave the host is as slow as the host is busy. */
#define SLOW 1e6
#define SLOWER 4.0
#define GOOD 20e6

struct line {
	const char *worker;
	const json_t *found;
};

struct lines {
	struct line *line;
	size_t n;
	double middle, least, most;     /* bytes a second; of the slower direction of each line */
	double model;                   /* bytes of all parameters */
};

static double rate(const json_t *found)
{
	double up = json_num(found, "up_bytes_per_second", 0), down = json_num(found, "down_bytes_per_second", 0);

	return up < down ? up : down;
}

static bool is_whole(const json_t *found)
{
	return strcmp(json_str(found, "stage", ""), "done") == 0;
}

static int by_rate(const void *a, const void *b)
{
	double x = rate(((const struct line *)a)->found), y = rate(((const struct line *)b)->found);

	return (x > y) - (x < y);
}

/* ---- what is said ---------------------------------------------------------------------------- */

static void say_broken(struct doctor *d, const struct line *l)
{
	static const struct {
		const char *stage, *how, *remedy;
	} kinds[] = {
		{ "connect", "cannot reach", "open that port in the firewall, or give the server an address that the worker can use: --listen, --advertise" },
		{ "handshake", "reaches, but does not come to terms with,", "ps-ctl doctor on the server's host checks the keys; another program may have the port" },
		{ "transfer", "shakes hands with, but gets no large records through to,",
		  "try its MTU: ping -M do -s 1472 HOST; lower it (ip link set dev DEV mtu 1400) or let ICMP \"fragmentation needed\" pass" },
	};
	const char *stage = json_str(l->found, "stage", "");

	for (size_t i = 0; i < CTL_COUNT(kinds); i++)
		if (strcmp(kinds[i].stage, stage) == 0)
			doctor_say(d, DOCTOR_FAIL, DOCTOR_CAUSE, "lines", l->worker, kinds[i].remedy, "%s %s %s (%s): %s", l->worker, kinds[i].how,
			    json_str(l->found, "id", "?"), json_str(l->found, "address", "?"), json_str(l->found, "error", ""));
}

static void say_slow(struct doctor *d, const struct lines *s, const struct line *l)
{
	double x = rate(l->found);
	char up[16], down[16], usual[16], model[80] = "";

	if (*json_str(l->found, "address", "") == '/' || (x >= SLOW && (x >= GOOD || x * SLOWER >= s->middle)))
		return;
	ctl_count(json_num(l->found, "up_bytes_per_second", 0), up);
	ctl_count(json_num(l->found, "down_bytes_per_second", 0), down);
	ctl_count(s->middle, usual);
	if (s->model > 0)
		snprintf(model, sizeof model, "; all parameters take %.3g s on it", s->model / x);
	doctor_say(d, DOCTOR_WARN, DOCTOR_CAUSE, "lines", l->worker,
	    "ethtool DEV and iperf3 tell what the line is capable of; codec, pull_codec and local_steps send less (ps-bandwidth(7))",
	    "%s's line to %s (%s) is slow: %sB/s there, %sB/s back, round trip %.3g ms; the others' %sB/s%s", l->worker,
	    json_str(l->found, "id", "?"), json_str(l->found, "address", "?"), up, down, 1e3 * json_num(l->found, "rtt_seconds", 0), usual, model);
}

static void say(struct doctor *d, struct lines *s)
{
	char least[16], most[16];
	size_t whole = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (is_whole(s->line[i].found))
			s->line[whole++] = s->line[i];
		else
			say_broken(d, &s->line[i]);
	}
	if (!whole)
		return;
	qsort(s->line, whole, sizeof *s->line, by_rate);
	s->middle = rate(s->line[whole / 2].found);
	for (size_t i = 0; i < whole; i++)
		say_slow(d, s, &s->line[i]);
	ctl_count(rate(s->line[0].found), least);
	ctl_count(rate(s->line[whole - 1].found), most);
	doctor_well(d, "lines", "%zu line%s from workers to servers, %sB/s to %sB/s beside what the job sends", whole, ctl_plural((int64_t)whole),
	    least, most);
}

/* ---- what is asked ---------------------------------------------------------------------------- */

static bool all_done(const json_t *probes, int64_t number)
{
	const json_t *w;
	size_t i;

	json_array_foreach(json_object_get(probes, "workers"), i, w)
		if (!json_flag(w, "done"))
			return false;
	return json_int(probes, "number", 0) == number;
}

/* Until all have answered, or for as long as it may take. */
static json_t *await(struct doctor *d, int64_t number)
{
	int64_t end = clock_now() + LONG;
	json_t *probes = NULL;

	for (;;) {
		json_decref(probes);
		probes = NULL;
		if (http_call(d->client, "GET", "/v1/probe", NULL, d->patience, NULL, &probes, NULL) || all_done(probes, number) ||
		    clock_now() > end)
			return probes;
		poll(NULL, 0, PACE_MS);
	}
}

static double parameters(struct doctor *d)
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

static void take(struct doctor *d, const json_t *probes, struct lines *s)
{
	const json_t *w, *found;
	size_t i, k;

	json_array_foreach(json_object_get(probes, "workers"), i, w) {
		const char *id = json_str(w, "id", "?");

		if (!json_flag(w, "done"))
			doctor_say(d, DOCTOR_WARN, DOCTOR_PLAIN, "lines", id, "is it stopped? ps-stat why tells who has not been heard of",
			    "%s has not tried its lines within %d s", id, (int)(LONG / NSEC_PER_SEC));
		json_array_foreach(json_object_get(w, "servers"), k, found) {
			s->line = mem_regrow(s->line, s->n + 1, sizeof *s->line);
			s->line[s->n++] = (struct line){ id, found };
		}
	}
}

void doctor_lines(struct doctor *d)
{
	json_t *body = json_object(), *answer = NULL, *probes = NULL;
	struct lines s = { 0 };
	struct err e = { 0 };
	enum err_code rc = http_call(d->client, "POST", "/v1/probe", body, d->patience, NULL, &answer, &e);

	if (rc == ERR_OK)
		probes = await(d, json_int(answer, "number", 0));
	if (rc == ERR_OK && !probes)
		doctor_say(d, DOCTOR_WARN, DOCTOR_EFFECT, "lines", "", "", "the coordinator does not say any more what the workers find");
	if (rc)
		doctor_say(d, DOCTOR_WARN, DOCTOR_EFFECT, "lines", "", "", "the workers cannot be asked: %s", e.msg);
	s.model = probes ? parameters(d) : 0;
	take(d, probes, &s);
	say(d, &s);
	free(s.line);
	json_decref(body);
	json_decref(answer);
	json_decref(probes);
}
