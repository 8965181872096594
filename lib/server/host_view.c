#include "base/clock.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/mem.h"
#include "server/remember.h"
#include "server/tracing.h"

/* What goes out to servers and workers of its own accord. */

/* A second view waits for the first to be read. */
#define VIEW_PAUSE_MIN (2 * NSEC_PER_MSEC)
#define VIEW_PAUSE_MAX (100 * NSEC_PER_MSEC)

struct notice {
	struct notice *next;
	char *text;
	unsigned server;
};

/* Kept until the view has gone out that is the ground for it. */
void host_notice(void *ctx, unsigned index, json_t *msg)
{
	struct host *h = ctx;
	struct notice *n = mem_alloc(sizeof *n);

	n->text = json_text(msg);
	n->server = index;
	*h->notices_last = n;
	h->notices_last = &n->next;
}

static void add_key(void *ctx, const struct keyring_entry *entry)
{
	char text[48];

	if (entry->is_token)
		return;
	key_to_text(entry->pk, text);
	json_array_append_new(ctx, json_pack("{s:s, s:s, s:s, s:I}", "key", text, "role", role_name(entry->role),
	    "name", entry->name, "expires", (json_int_t)entry->expires));
}

static void add_keys(struct host *h, json_t *view)
{
	json_t *keys = json_array();
	uint64_t made;

	pthread_rwlock_rdlock(&h->server->keys_lock);
	keyring_each(h->server->ring, add_key, keys);
	made = h->server->keys_made;
	pthread_rwlock_unlock(&h->server->keys_lock);
	json_object_set_new(view, "keys", keys);
	json_object_set_new(view, "keys_made", json_integer((json_int_t)made));
}

void host_send_view(struct host *h, int64_t now)
{
	json_t *view = coord_view(h->coord);
	struct views *fresh;

	add_keys(h, view);
	if (tracing_id(h->tracing))
		json_object_set_new(view, "trace", json_integer((json_int_t)tracing_id(h->tracing)));
	fresh = views_make(view, h->views);
	views_unref(h->views);
	h->views = fresh;
	h->dirty = h->deferred = false;
	h->views_era = coord_era(h->coord);
	atomic_store(&h->server->views_cost, 0);
	FAIL_POINT("view_out_before");
	lanes_show(h->server, fresh);
	FAIL_POINT("view_out_after");
	if (h->http)
		http_server_kick(h->http);
	h->views_at = now;
	h->views_made = clock_now() - now;
}

/* When the next one may go out: that views take no more than a quarter of the
 * time, whatever their size and however many get them. */
int64_t host_view_due(const struct host *h)
{
	int64_t pause = 3 * (h->views_made + atomic_load(&h->server->views_cost));

	return h->views_at + (pause < VIEW_PAUSE_MIN ? VIEW_PAUSE_MIN : pause > VIEW_PAUSE_MAX ? VIEW_PAUSE_MAX : pause);
}

static void send_notices(struct host *h)
{
	struct notice *n;

	while ((n = h->notices)) {
		h->notices = n->next;
		lanes_tell(h->server, n->text, n->server);
		free(n->text);
		free(n);
	}
	h->notices_last = &h->notices;
}

/* Servers go from one layout to the next: none may be left out. */
static bool must_send(const struct host *h, int64_t now)
{
	return h->notices || coord_ended(h->coord) || coord_era(h->coord) != h->views_era || now >= host_view_due(h);
}

void host_send(struct host *h)
{
	int64_t now = clock_now();

	if (!remember(h, now))
		return;
	if (h->dirty && must_send(h, now)) {
		host_send_view(h, now);
	} else if (h->dirty && !h->deferred) {
		h->deferred = true;
		pthread_cond_signal(&h->woken);
	}
	send_notices(h);
}

uint64_t host_rev(struct host *h)
{
	uint64_t rev;

	host_lock(h);
	rev = coord_rev(h->coord);
	host_unlock(h);
	return rev;
}

uint64_t host_rev_sent(struct host *h)
{
	uint64_t rev;

	host_lock(h);
	rev = views_rev(h->views);
	host_unlock(h);
	return rev;
}
