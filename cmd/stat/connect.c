/* SPDX-License-Identifier: ISC */
#include <stdlib.h>

#include "cmd/stat/stat.h"
#include "core/clock.h"
#include "session/control.h"

enum err_code stat_connect(const struct stat_options *o, const atomic_bool *stop,
    struct stat_link *l, struct err *e)
{
	struct http_target target = { .stop = stop };
	enum err_code rc;

	*l = (struct stat_link){ 0 };
	if (o->join) {
		rc = identity_from_join(o->join, &l->id, e);
		if (!rc && !*l->id.http)
			rc = err_set(e, ERR_CONFIG,
			    "\"%s\" has no address of the control plane: set `http` in the cluster file",
			    o->join);
		target.addr = l->id.http;
		target.server_pk = l->id.server_key;
		target.keys = &l->id.conn.hs.key;
		target.psk = l->id.conn.hs.psk;
		return rc ? rc : http_client_new(&target, &l->http, e);
	}
	rc = control_find(o->run_dir, &l->dir, e);
	return rc ? rc : control_connect_until(l->dir, stop, &l->http, e);
}

void stat_disconnect(struct stat_link *l)
{
	http_client_free(l->http);
	free(l->dir);
	identity_release(&l->id);
	*l = (struct stat_link){ 0 };
}

json_t *connect_fetch_json(struct http_client *c, const char *path, const char *key, struct err *e)
{
	json_t *doc, *member;

	if (http_call(c, "GET", path, NULL, 10 * NSEC_PER_SEC, NULL, &doc, e))
		return NULL;
	if (!key)
		return doc;
	member = json_incref(json_object_get(doc, key));
	json_decref(doc);
	if (!member)
		err_set(e, ERR_PROTO, "the answer to %s has no \"%s\"", path, key);
	return member;
}

json_t *connect_snapshot(struct http_client *c, const char *parts, struct err *e)
{
	char path[96];

	snprintf(path, sizeof path, "/v1/snapshot?of=%s", parts);
	return connect_fetch_json(c, path, NULL, e);
}
