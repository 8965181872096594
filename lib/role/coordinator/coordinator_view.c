/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "coordinator/state_file.h"
#include "coordinator/http/trace_request.h"
#include "core/fail.h"
#include "core/json.h"
#include "core/mem.h"

/* Sends views, keys and notices to servers and workers. */

/* The shortest and the longest pause between two views. */
#define VIEW_PAUSE_MIN (2 * NSEC_PER_MSEC)
#define VIEW_PAUSE_MAX (100 * NSEC_PER_MSEC)

struct notice {
	struct notice *next;
	char *text;
	unsigned server;
};

/* Queue the notice: it is sent after the view that it refers to. */
void coordinator_notice(void *ctx, unsigned index, json_t *msg)
{
	struct coordinator *h = ctx;
	struct notice *n = mem_alloc(sizeof *n);

	n->text = json_text(msg);
	n->server = index;
	*h->views.notices_last = n;
	h->views.notices_last = &n->next;
}

static void append_view_key(void *ctx, const struct keyring_entry *entry)
{
	char text[48];

	if (entry->is_token)
		return;
	key_to_text(entry->pk, text);
	json_array_append_new(ctx,
	    json_pack("{s:s, s:s, s:s, s:I}", "key", text, "role", role_name(entry->role), "name",
	        entry->name, "expires", (json_int_t)entry->expires));
}

static void add_view_keys(struct coordinator *h, json_t *view)
{
	json_t *keys = json_array();
	uint64_t made;

	rwlock_read(&h->server->keys.lock);
	keyring_each(h->server->keys.ring, append_view_key, keys);
	made = h->server->keys.made;
	rwlock_unlock(&h->server->keys.lock);
	json_object_set_new(view, "keys", keys);
	json_object_set_new(view, "keys_made", json_integer((json_int_t)made));
}

/* A view waits until the state is durable, but a revoked key must be cut at once. The keys are
 * in authorized_keys and not in the state, so servers and relays may learn of them earlier. */
void coordinator_send_keys(struct coordinator *h)
{
	json_t *msg = MESSAGE(keys);
	char *text;

	add_view_keys(h, msg);
	text = json_text(msg);
	io_threads_send_ctl(h->server, text, IO_THREADS_ALL);
	free(text);
	json_decref(msg);
}

static struct view_text *make_view(struct coordinator *h)
{
	json_t *view = coord_view(h->coord);

	add_view_keys(h, view);
	if (trace_request_id(h->tracing))
		json_object_set_new(view, "trace",
		    json_integer((json_int_t)trace_request_id(h->tracing)));
	return view_text_make(view, h->views.last);
}

static void show_view(struct coordinator *h, struct view_text *view)
{
	int64_t now = clock_now();

	view_text_unref(h->views.last);
	h->views.last = view;
	atomic_store(&h->server->count.views_cost, 0);
	FAIL_POINT("view_out_before");
	io_threads_show_view(h->server, view);
	FAIL_POINT("view_out_after");
	if (h->http)
		http_server_kick(h->http);
	h->views.at = now;
	h->views.send_ns = clock_now() - now;
}

/* Making and sending views takes at most a quarter of the time, whatever their size and the
 * number of receivers. */
int64_t coordinator_view_due(const struct coordinator *h)
{
	int64_t pause = 3 * (h->views.send_ns + atomic_load(&h->server->count.views_cost));

	return h->views.at +
	    (pause < VIEW_PAUSE_MIN          ? VIEW_PAUSE_MIN
	            : pause > VIEW_PAUSE_MAX ? VIEW_PAUSE_MAX
	                                     : pause);
}

/* A new layout epoch, queued notices and the end of the cluster are sent at once: servers must
 * see every layout epoch. */
static bool must_send_view(const struct coordinator *h, int64_t now)
{
	return h->views.notices || coord_ended(h->coord) ||
	    coord_layout_number(h->coord) != h->views.layout_epoch ||
	    now >= coordinator_view_due(h);
}

void coordinator_prepare(struct coordinator *h, struct announcement *a, int64_t now)
{
	*a = (struct announcement){ .notices = h->views.notices,
		.layout_epoch = h->views.layout_epoch };
	a->last = h->views.notices ? h->views.notices_last : &a->notices;
	if (h->views.dirty && must_send_view(h, now)) {
		a->view = make_view(h);
		a->layout_epoch = coord_layout_number(h->coord);
		h->views.dirty = h->views.deferred = false;
	} else if (h->views.dirty && !h->views.deferred) {
		h->views.deferred = true;
		pthread_cond_signal(&h->woken);
	}
	h->views.notices = NULL;
	h->views.notices_last = &h->views.notices;
}

void coordinator_deliver(struct coordinator *h, struct announcement *a)
{
	struct notice *n;

	h->views.layout_epoch = a->layout_epoch;
	if (a->view)
		show_view(h, a->view);
	while ((n = a->notices)) {
		a->notices = n->next;
		io_threads_send_ctl(h->server, n->text, n->server);
		free(n->text);
		free(n);
	}
}

void coordinator_put_back(struct coordinator *h, struct announcement *a)
{
	if (a->view)
		h->views.dirty = true;
	view_text_unref(a->view);
	if (!a->notices)
		return;
	*a->last = h->views.notices;
	if (!h->views.notices)
		h->views.notices_last = a->last;
	h->views.notices = a->notices;
}

void coordinator_announce(struct coordinator *h)
{
	struct announcement a;

	if (!state_file_is_durable(h))
		return;
	coordinator_prepare(h, &a, clock_now());
	coordinator_deliver(h, &a);
}

void coordinator_show_first_view(struct coordinator *h)
{
	h->views.dirty = false;
	h->views.layout_epoch = coord_layout_number(h->coord);
	show_view(h, make_view(h));
}

uint64_t coordinator_rev(struct coordinator *h)
{
	uint64_t rev;

	coordinator_lock(h);
	rev = coord_rev(h->coord);
	coordinator_unlock(h);
	return rev;
}

uint64_t coordinator_rev_sent(struct coordinator *h)
{
	uint64_t rev;

	coordinator_lock(h);
	rev = view_text_rev(h->views.last);
	coordinator_unlock(h);
	return rev;
}
