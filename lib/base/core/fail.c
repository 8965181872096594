/* SPDX-License-Identifier: ISC */
#include "core/fail.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <pthread.h>
#include <unistd.h>

#include "core/err.h"
#include "core/num.h"
#include "core/rng.h"

/* Only built with `make FAULT=1`. The state belongs to the process, like the environment that it
 * comes from. */

enum kind { POINT, ERROR };
enum action { KILL, STOP, EXIT, FAILURE };

struct point {
	const char *name;
	enum kind kind;
	_Atomic uint64_t hits;
	uint64_t at; /* 0: never */
	enum action action;
};

static struct point points[] = {
#define FAIL(name, kind) { #name, kind, 0, 0, KILL },
#include "core/fail.def"
#undef FAIL
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static double chance;
static _Atomic uint64_t tosses;
static uint64_t seed;

static struct point *find_point(const char *name)
{
	for (size_t i = 0; i < sizeof points / sizeof *points; i++)
		if (strcmp(points[i].name, name) == 0)
			return &points[i];
	return NULL;
}

static _Noreturn void die_of_bad_spec(const char *what)
{
	fprintf(stderr, "PS_FAIL: \"%s\" is invalid (see lib/base/core/fail.h)\n", what);
	_exit(2);
}

static bool parse_action(const char *s, const struct point *p, enum action *out)
{
	static const char *const name[] = { "kill", "stop", "exit", "error" };

	for (size_t i = 0; i < sizeof name / sizeof *name; i++)
		if (!s || strcmp(s, name[i]) == 0) {
			*out = (enum action)i;
			return i != FAILURE || p->kind == ERROR;
		}
	return false;
}

/* Parses name:n[:action] or random:P:SEED; false when it is neither. */
static bool parse_one(char *item)
{
	char *save = NULL, *name = strtok_r(item, ":", &save), *n = strtok_r(NULL, ":", &save);
	char *last = strtok_r(NULL, ":", &save);
	struct point *p;

	if (!name || !n || strtok_r(NULL, ":", &save))
		return false;
	if (strcmp(name, "random") == 0)
		return num_double(n, &chance) && chance >= 0 && chance <= 1 && last &&
		    num_uint(last, UINT64_MAX, &seed);
	p = find_point(name);
	return p && num_uint(n, UINT64_MAX, &p->at) && p->at && parse_action(last, p, &p->action);
}

static void read_environment(void)
{
	const char *env = getenv("PS_FAIL");
	char text[1024], *save = NULL;

	if (!env)
		return;
	if ((size_t)snprintf(text, sizeof text, "%s", env) >= sizeof text)
		die_of_bad_spec(env);
	for (char *item = strtok_r(text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		char said[256];

		snprintf(said, sizeof said, "%s", item);
		if (!parse_one(item))
			die_of_bad_spec(said);
	}
}

/* Does the random mode act at this pass? The n-th pass of a process with this seed always decides
 * alike. */
static bool random_hits(void)
{
	struct rng r;

	if (chance <= 0)
		return false;
	rng_init(&r, seed ^ rng_mix(atomic_fetch_add(&tosses, 1)));
	return rng_unit(&r) < chance;
}

/* A pass is counted before the action, so of several threads exactly one is the n-th. A name that
 * is not in fail.def is a mistake of the program and ends it. */
enum err_code fail_pass(const char *name, struct err *e)
{
	struct point *p;
	uint64_t hit;

	pthread_once(&once, read_environment);
	p = find_point(name);
	if (!p)
		die_of_bad_spec(name);
	hit = atomic_fetch_add(&p->hits, 1) + 1;
	if (random_hits())
		kill(getpid(), SIGKILL);
	if (hit != p->at)
		return ERR_OK;
	switch (p->action) {
	case KILL:
		kill(getpid(), SIGKILL);
		break;
	case STOP:
		kill(getpid(), SIGSTOP);
		break;
	case EXIT:
		_exit(1);
	case FAILURE:
		return err_set(e, ERR_FAILED, "failpoint %s, passed %llu times", name,
		    (unsigned long long)hit);
	}
	return ERR_OK;
}
