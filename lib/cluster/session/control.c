/* SPDX-License-Identifier: ISC */
#include "session/control.h"

#include <stdlib.h>

#include "core/json.h"
#include "core/mem.h"
#include "msg/state.h"
#include "rundir/rundir.h"
#include "session/identity.h"
#include "state/state_store.h"

/* How long a coordinator of another host has for its answer that it lives. */
#define ALIVE_PATIENCE (2 * NSEC_PER_SEC)

/* ---- the coordinator of another host ---- */

/* Finds the coordinator by its state, with the administrator's key of the run directory. */
struct run_finder {
	struct http_finder base;
	char *dir;
	char *http; /* what it has found last, or NULL */
	struct identity id;
};

/* The address of the control plane in the state of a cluster that has not ended: a fresh string, or NULL. */
static char *read_http_address(const char *dir)
{
	json_t *document = state_store_look(dir);
	struct state state;
	char *http = NULL;

	if (document && !state_decode(document, &state, NULL)) {
		if (!state.ended && state.http && *state.http)
			http = mem_strdup(state.http);
		state_release(&state);
	}
	json_decref(document);
	return http;
}

static bool find_by_state(struct http_finder *base, struct http_target *out)
{
	struct run_finder *f = (struct run_finder *)base;

	free(f->http);
	identity_release(&f->id);
	f->http = read_http_address(f->dir);
	if (!f->http || identity_from_run(f->dir, "admin", &f->id, NULL))
		return false;
	out->addr = f->http;
	out->server_pk = f->id.server_key;
	out->keys = &f->id.conn.hs.key;
	out->psk = f->id.conn.hs.psk;
	return true;
}

static void free_finder(struct http_finder *base)
{
	struct run_finder *f = (struct run_finder *)base;

	identity_release(&f->id);
	free(f->http);
	free(f->dir);
	free(f);
}

static struct http_finder *make_finder(const char *dir)
{
	struct run_finder *f = mem_alloc(sizeof *f);

	f->base = (struct http_finder){ find_by_state, free_finder };
	f->dir = mem_strdup(dir);
	return &f->base;
}

/* ---- clients ---- */

enum err_code control_connect_until(const char *dir, const atomic_bool *stop,
    struct http_client **client, struct err *e)
{
	char *path = rundir_path(dir, "ctl.sock");
	struct http_target target = { .unix_path = path, .stop = stop, .finder = make_finder(dir) };
	enum err_code rc = http_client_new(&target, client, e);

	free(path);
	return rc;
}

enum err_code control_connect(const char *dir, struct http_client **client, struct err *e)
{
	return control_connect_until(dir, NULL, client, e);
}

/* ---- clusters ---- */

bool control_is_alive(const char *dir)
{
	struct http_client *client = NULL;
	char *http;
	bool alive;

	if (rundir_is_alive(dir, NULL))
		return true;
	http = read_http_address(dir);
	alive = http && !control_connect(dir, &client, NULL) &&
	    !http_call(client, "GET", "/livez", NULL, ALIVE_PATIENCE, NULL, NULL, NULL);
	http_client_free(client);
	free(http);
	return alive;
}

bool control_may_return(const char *dir)
{
	char *http = rundir_is_alive(dir, NULL) ? mem_strdup("") : read_http_address(dir);
	bool may = http != NULL;

	free(http);
	return may;
}

enum err_code control_find(const char *opt_C, char **path, struct err *e)
{
	enum err_code rc = rundir_find(opt_C, path, e);

	if (rc != ERR_NOTREADY || !*path || !control_is_alive(*path))
		return rc;
	if (e)
		*e = (struct err){ 0 };
	return ERR_OK;
}
