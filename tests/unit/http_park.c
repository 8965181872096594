/* SPDX-License-Identifier: ISC */
/* Long polls on the control plane: parked, woken, given up. */
#include "http_fixture.h"

/* What a long poll saw, on a thread of its own. */
struct poller {
	struct fixture *f;
	const char *addr, *target;
	enum err_code rc;
	int64_t events;
	bool late;
	struct err e;
};

static void *poller_run(void *ctx)
{
	struct poller *p = ctx;
	struct http_client *c = fx_client(p->f, p->addr, p->addr != NULL ? &p->f->worker : NULL);
	json_t *v = NULL;

	p->rc = fx_call(c, "GET", p->target, NULL, NULL, &v, &p->e);
	p->events = json_int(v, "events", -1);
	p->late = json_is_true(json_object_get(v, "late"));
	json_decref(v);
	http_client_free(c);
	return NULL;
}

static void await_parks(struct fixture *f, int n)
{
	pthread_mutex_lock(&f->lock);
	while (f->parks < n)
		pthread_cond_wait(&f->changed, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

static void bump(struct fixture *f)
{
	pthread_mutex_lock(&f->lock);
	f->events++;
	pthread_mutex_unlock(&f->lock);
	http_server_kick(f->s);
}

static void test_park(struct fixture *f, const char *addr, const char *how)
{
	struct poller p = { .f = f, .addr = addr, .target = "/v1/events?since=0" };
	int64_t begin, idle, took;
	pthread_t t;

	f->events = 0;
	f->parks = 0;
	pthread_create(&t, NULL, poller_run, &p);
	await_parks(f, 1);
	http_server_kick(f->s);
	await_parks(f, 2);
	ok(true, "%s: a kick without news parks the request again", how);
	bump(f);
	pthread_join(t, NULL);
	ok(p.rc == ERR_OK && p.events == 1 && !p.late, "%s: a kick with news answers it: %s", how,
	    p.e.msg);
	p.target = "/v1/race";
	poller_run(&p);
	ok(p.rc == ERR_OK && !p.late, "%s: a kick between look and park is not lost", how);
	if (addr != NULL) {
		f->parks = 0;
		p.target = "/v1/events?since=9";
		pthread_create(&t, NULL, poller_run, &p);
		await_parks(f, 1);
		pthread_mutex_lock(&f->lock);
		f->revoked = true;
		pthread_mutex_unlock(&f->lock);
		http_server_kick(f->s);
		pthread_join(t, NULL);
		f->revoked = false;
		ok(p.rc == ERR_AUTH, "%s: a key that is revoked does not wait on: %s", how,
		    p.e.msg);
	}
	p.target = "/v1/events?since=9&ms=200";
	begin = clock_now();
	idle = tap_idle_clock();
	poller_run(&p);
	took = clock_now() - begin;
	ok(p.rc == ERR_OK && p.late && took >= 195 * MS && tap_idle_clock() - idle < 8000 * MS,
	    "%s: the deadline answers it, after %lld ms", how, (long long)(took / MS));
}

/* Every answer must show news, and none may wait for its deadline. */
static void *storm_run(void *ctx)
{
	struct poller *p = ctx;
	struct http_client *c = fx_client(p->f, p->addr, p->addr != NULL ? &p->f->worker : NULL);
	int64_t seen = 0;

	p->late = false;
	while (seen < 300) {
		char *target = mem_printf("/v1/events?since=%lld", (long long)seen);
		json_t *v = NULL;

		p->rc = fx_call(c, "GET", target, NULL, NULL, &v, &p->e);
		free(target);
		p->late = json_is_true(json_object_get(v, "late")) ||
		    json_int(v, "events", -1) <= seen;
		seen = json_int(v, "events", -1);
		json_decref(v);
		if (p->rc != ERR_OK || p->late)
			break;
	}
	http_client_free(c);
	return NULL;
}

static void test_storm(struct fixture *f, const char *addr)
{
	struct poller tcp = { .f = f, .addr = addr }, local = { .f = f };
	struct poller p[4] = { tcp, local, tcp, local };
	pthread_t t[4];
	bool good = true;

	f->events = 0;
	f->parks = 0;
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, storm_run, &p[i]);
	for (int i = 0; i < 300; i++) {
		await_parks(f, i / 2);
		bump(f);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		good = good && p[i].rc == ERR_OK && !p[i].late;
	}
	ok(good, "300 kicks against four pollers: none is lost");
}

static void test_stop(struct fixture *f)
{
	struct http_server_config cfg = fx_config(f);
	struct http_server *main_server = f->s;
	struct poller p = { .f = f, .target = "/v1/events?since=9" };
	char addr[64];
	int64_t begin;
	pthread_t t;
	atomic_bool stop = true;
	struct http_target target = { .unix_path = f->sock, .stop = &stop };
	struct http_client *c = NULL;
	struct err e;

	cfg.unix_path = NULL;
	f->events = 0;
	f->parks = 0;
	fx_start(f, &cfg);
	snprintf(addr, sizeof(addr), "%s", http_server_address(f->s));
	p.addr = addr;
	pthread_create(&t, NULL, poller_run, &p);
	await_parks(f, 1);
	begin = tap_idle_clock();
	http_server_stop(f->s);
	pthread_join(t, NULL);
	ok(p.rc == ERR_OK && p.late && tap_idle_clock() - begin < 5000 * MS,
	    "a server that stops answers what is parked: %s", p.e.msg);
	f->s = main_server;
	f->parks = 0;
	http_client_new(&target, &c, NULL);
	ok(fx_call(c, "GET", "/v1/events?since=9", NULL, NULL, NULL, &e) == ERR_STOPPED,
	    "a call can be given up: %s", e.msg);
	http_client_free(c);
	http_client_new(&(struct http_target){ .unix_path = f->sock }, &c, NULL);
	ok(http_call(c, "GET", "/v1/events?since=9", NULL, 50 * MS, NULL, NULL, &e) == ERR_TIMEOUT,
	    "and has its own deadline: %s", e.msg);
	http_client_free(c);
}

int main(void)
{
	struct fixture f;
	struct http_server_config cfg;

	fx_init(&f);
	cfg = fx_config(&f);
	fx_start(&f, &cfg);
	test_park(&f, NULL, "unix");
	test_park(&f, http_server_address(f.s), "tcp");
	test_storm(&f, http_server_address(f.s));
	test_stop(&f);
	fx_release(&f);
	return tap_done();
}
