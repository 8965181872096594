/* SPDX-License-Identifier: ISC */
#include "core/clock.h"
#include "coordinator/ownership.h"
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
	struct coordinator *coordinator = ctx;
	struct notice *n = mem_alloc(sizeof *n);

	n->text = json_text(msg);
	n->server = index;
	*coordinator->views.notices_last = n;
	coordinator->views.notices_last = &n->next;
}

/* Free the first notice and return the one after it. */
static struct notice *free_notice(struct notice *n)
{
	struct notice *next = n->next;

	free(n->text);
	free(n);
	return next;
}

void coordinator_drop_notices(struct coordinator *coordinator)
{
	while (coordinator->views.notices)
		coordinator->views.notices = free_notice(coordinator->views.notices);
	coordinator->views.notices_last = &coordinator->views.notices;
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

static void add_view_keys(struct coordinator *coordinator, json_t *view)
{
	json_t *keys = json_array();
	uint64_t made;

	rwlock_read(&coordinator->server->keys.lock);
	keyring_each(coordinator->server->keys.ring, append_view_key, keys);
	made = coordinator->server->keys.made;
	rwlock_unlock(&coordinator->server->keys.lock);
	json_object_set_new(view, "keys", keys);
	json_object_set_new(view, "keys_made", json_integer((json_int_t)made));
}

/* A view waits until the state is durable, but a revoked key must be cut at once. The keys are
 * in authorized_keys and not in the state, so servers and relays may learn of them earlier. */
void coordinator_send_keys(struct coordinator *coordinator)
{
	json_t *msg = MESSAGE(keys);
	char *text;

	add_view_keys(coordinator, msg);
	text = json_text(msg);
	io_threads_send_ctl(coordinator->server, text, IO_THREADS_ALL);
	free(text);
	json_decref(msg);
}

static struct view_text *make_view(struct coordinator *coordinator)
{
	json_t *view = coord_view(coordinator->coord);

	char *coordinators = ownership_addresses(coordinator, false);

	json_object_set_new(view, "coordinators", json_string(coordinators));
	free(coordinators);
	add_view_keys(coordinator, view);
	if (trace_request_id(coordinator->tracing))
		json_object_set_new(view, "trace",
		    json_integer((json_int_t)trace_request_id(coordinator->tracing)));
	return view_text_make(view, coordinator->views.last);
}

static void show_view(struct coordinator *coordinator, struct view_text *view)
{
	int64_t now = clock_now();

	view_text_unref(coordinator->views.last);
	coordinator->views.last = view;
	atomic_store(&coordinator->server->count.views_cost, 0);
	FAIL_POINT("view_out_before");
	io_threads_show_view(coordinator->server, view);
	FAIL_POINT("view_out_after");
	if (coordinator->http)
		http_server_kick(coordinator->http);
	coordinator->views.at = now;
	coordinator->views.send_ns = clock_now() - now;
}

/* Making and sending views takes at most a quarter of the time, whatever their size and the
 * number of receivers. */
int64_t coordinator_view_due(const struct coordinator *coordinator)
{
	int64_t pause = 3 *
	    (coordinator->views.send_ns + atomic_load(&coordinator->server->count.views_cost));

	mutex_assert_held(&coordinator->lock);
	return coordinator->views.at +
	    (pause < VIEW_PAUSE_MIN          ? VIEW_PAUSE_MIN
	            : pause > VIEW_PAUSE_MAX ? VIEW_PAUSE_MAX
	                                     : pause);
}

/* A new layout epoch, queued notices and the end of the cluster are sent at once: servers must
 * see every layout epoch. */
static bool must_send_view(const struct coordinator *coordinator, int64_t now)
{
	return coordinator->views.notices || coord_ended(coordinator->coord) ||
	    coord_layout_number(coordinator->coord) != coordinator->views.layout_epoch ||
	    now >= coordinator_view_due(coordinator);
}

void coordinator_prepare(struct coordinator *coordinator, struct announcement *a, int64_t now)
{
	mutex_assert_held(&coordinator->lock);
	*a = (struct announcement){ .notices = coordinator->views.notices,
		.layout_epoch = coordinator->views.layout_epoch };
	a->last = coordinator->views.notices ? coordinator->views.notices_last : &a->notices;
	if (coordinator->views.dirty && must_send_view(coordinator, now)) {
		a->view = make_view(coordinator);
		a->layout_epoch = coord_layout_number(coordinator->coord);
		coordinator->views.dirty = coordinator->views.deferred = false;
	} else if (coordinator->views.dirty && !coordinator->views.deferred) {
		coordinator->views.deferred = true;
		pthread_cond_signal(&coordinator->woken);
	}
	coordinator->views.notices = NULL;
	coordinator->views.notices_last = &coordinator->views.notices;
}

void coordinator_deliver(struct coordinator *coordinator, struct announcement *a)
{
	mutex_assert_held(&coordinator->lock);
	coordinator->views.layout_epoch = a->layout_epoch;
	if (a->view)
		show_view(coordinator, a->view);
	while (a->notices) {
		io_threads_send_ctl(coordinator->server, a->notices->text, a->notices->server);
		a->notices = free_notice(a->notices);
	}
}

void coordinator_put_back(struct coordinator *coordinator, struct announcement *a)
{
	mutex_assert_held(&coordinator->lock);
	if (a->view)
		coordinator->views.dirty = true;
	view_text_unref(a->view);
	if (!a->notices)
		return;
	*a->last = coordinator->views.notices;
	if (!coordinator->views.notices)
		coordinator->views.notices_last = a->last;
	coordinator->views.notices = a->notices;
}

void coordinator_announce(struct coordinator *coordinator)
{
	struct announcement a;

	mutex_assert_held(&coordinator->lock);
	if (!state_file_is_durable(coordinator))
		return;
	coordinator_prepare(coordinator, &a, clock_now());
	coordinator_deliver(coordinator, &a);
}

void coordinator_show_first_view(struct coordinator *coordinator)
{
	coordinator->views.dirty = false;
	coordinator->views.layout_epoch = coord_layout_number(coordinator->coord);
	show_view(coordinator, make_view(coordinator));
}

uint64_t coordinator_rev_sent(struct coordinator *coordinator)
{
	uint64_t rev;

	coordinator_lock(coordinator);
	rev = view_text_rev(coordinator->views.last);
	coordinator_unlock(coordinator);
	return rev;
}
