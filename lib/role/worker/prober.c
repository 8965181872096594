/* SPDX-License-Identifier: ISC */
#include "worker/prober.h"

#include <pthread.h>
#include <unistd.h>

#include "conf/conf.h"
#include "core/json.h"
#include "core/mem.h"
#include "session/probe.h"

/* The result goes into this many heartbeats, because one may be lost with its connection. */
#define BEATS 3

struct prober {
	const struct identity *id;
	uint64_t incarnation;
	bool seen;      /* a first view has arrived */
	int64_t number; /* probe number handled last */
	int beats;      /* heartbeats that still report `found` */
	json_t *found;
	pthread_t thread;
	bool running;
	/* view that asked for another measurement meanwhile, or NULL */
	const struct view *next;
	const struct view *view; /* the thread's while it runs: what to measure */
	json_t *result;          /* the thread's, until `done` */
	atomic_bool stop, done;
};

struct prober *prober_new(const struct identity *id, uint64_t incarnation)
{
	struct prober *p = mem_alloc(sizeof *p);

	p->id = id;
	p->incarnation = incarnation;
	return p;
}

/* Measures one server, by the address that the worker would use, too. */
static void probe_server(struct prober *p, const struct view_server *server,
    const struct transport *transport, json_t *out)
{
	uint8_t key[KEY_BYTES];
	const struct dial_target to = {
		.tcp = server->tcp,
		.unix_path = p->id->run_dir ? server->unix_path : "",
		.key = key,
		.transport = transport,
		.id = &p->id->conn,
		.info = { .incarnation = p->incarnation, .rank = UINT32_MAX, .role = ROLE_WORKER }
	};
	struct probe_result r = { 0 };
	char addr[DIAL_TEXT];
	const char *text = dial_address(&to, addr);

	if (key_from_text(server->key, key))
		probe_link(&to, &p->stop, &r);
	/* The path of a socket goes without its prefix. */
	json_object_set_new(out, "address",
	    json_string(strncmp(text, "unix:", 5) == 0 ? text + 5 : text));
	json_object_set_new(out, "stage", json_string(probe_stage_name(r.stage)));
	json_object_set_new(out, "error", json_string(r.stage == PROBE_DONE ? "" : r.why.msg));
	json_object_set_new(out, "rtt_seconds",
	    r.stage >= PROBE_TRANSFER ? json_of_num(r.rtt) : json_null());
	json_object_set_new(out, "up_bytes_per_second", r.up > 0 ? json_of_num(r.up) : json_null());
	json_object_set_new(out, "down_bytes_per_second",
	    r.down > 0 ? json_of_num(r.down) : json_null());
}

/* The transport of the configuration. */
static const struct transport *find_transport(const struct view *view)
{
	const struct transport *t = NULL;
	struct conf c;
	struct err e;

	if (!conf_from_json(view->config, &c, &e)) {
		t = transport_find(c.transport);
		conf_release(&c);
	}
	return t ? t : transport_find("auto");
}

/* The measuring thread. Each worker begins with another server, so that few measure the same one at
 * once. */
static void *probe_servers(void *ctx)
{
	struct prober *p = ctx;
	const struct transport *transport = find_transport(p->view);
	size_t n = p->view->nservers, most = (size_t)p->view->probe_servers, tried = 0;
	json_t *list = json_array();

	for (size_t i = 0; i < n && tried < most && !atomic_load(&p->stop); i++) {
		size_t at = (i + (size_t)(p->incarnation % n)) % n;
		const struct view_server *s = &p->view->servers[at];

		if (!s->live)
			continue;
		json_array_append_new(list, json_pack("{s:s}", "id", s->id));
		probe_server(p, s, transport, json_array_get(list, tried++));
	}
	p->result = json_pack("{s:I, s:o}", "number", (json_int_t)p->view->probe, "servers", list);
	atomic_store(&p->done, true);
	return NULL;
}

/* Joins the thread and takes its result. */
static void collect_result(struct prober *p)
{
	pthread_join(p->thread, NULL);
	p->running = false;
	view_release(p->view);
	json_decref(p->found);
	p->found = p->result;
	p->view = NULL;
	p->result = NULL;
	p->beats = BEATS;
}

static void begin_probe(struct prober *p, const struct view *view)
{
	p->view = view_ref(view);
	atomic_store(&p->done, false);
	p->running = pthread_create(&p->thread, NULL, probe_servers, p) == 0;
	if (!p->running) {
		view_release(p->view);
		p->view = NULL;
	}
}

void prober_view(struct prober *p, const struct view *view)
{
	int64_t number = view->probe;
	bool first = !p->seen;

	p->seen = true;
	if (number == p->number)
		return;
	/* Start it when the running one is over. */
	if (p->running) {
		view_release(p->next);
		p->next = view_ref(view);
		return;
	}
	p->number = number;
	if (!first && number)
		begin_probe(p, view);
}

static void begin_next_probe(struct prober *p)
{
	const struct view *view = p->next;

	p->next = NULL;
	p->number = view->probe;
	if (p->number)
		begin_probe(p, view);
	view_release(view);
}

void prober_report(struct prober *p, json_t *stats)
{
	if (p->running && atomic_load(&p->done)) {
		collect_result(p);
		if (p->next)
			begin_next_probe(p);
	}
	if (p->beats && p->found) {
		json_object_set(stats, "probe", p->found);
		p->beats--;
	}
}

void prober_free(struct prober *p)
{
	if (!p)
		return;
	atomic_store(&p->stop, true);
	if (p->running)
		collect_result(p);
	json_decref(p->found);
	view_release(p->next);
	free(p);
}
