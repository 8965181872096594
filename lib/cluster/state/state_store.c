/* SPDX-License-Identifier: ISC */
#include "state/state_store.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "core/json.h"
#include "msg/owner.h"
#include "rundir/rundir.h"

static const struct state_store_ops *const stores[] = {
#define STORE(name) &state_store_##name,
#include "state/state_store.def"
#undef STORE
};

struct state_store *state_store_open(const struct state_store_config *cfg)
{
	for (size_t i = 0; i < sizeof stores / sizeof *stores; i++)
		if (stores[i]->serves(cfg)) {
			struct state_store *s = stores[i]->open(cfg);

			s->ops = stores[i];
			s->cfg = *cfg;
			atomic_init(&s->owned_until, INT64_MAX);
			return s;
		}
	return NULL;
}

void state_store_close(struct state_store *s)
{
	if (s)
		s->ops->close(s);
}

enum err_code state_store_read(struct state_store *s, struct state_values *out, struct err *e)
{
	enum err_code rc;

	*out = (struct state_values){ 0 };
	memset(s->digest, 0, sizeof s->digest);
	rc = s->ops->read(s, (1u << STATE_PARTS) - 1, out, e);
	for (size_t i = 0; !rc && i < STATE_PARTS; i++)
		if (out->part[i].len)
			digest_of(out->part[i].data, out->part[i].len, s->digest[i]);
	return rc;
}

/* Until the write has succeeded it is not known which text of a part is in the store, so another
 * write of the part would follow even if it had its former text again. */
enum err_code state_store_write(struct state_store *s, const struct state_text text[STATE_PARTS],
    struct err *e)
{
	struct state_part_change change[STATE_PARTS];
	char digest[STATE_PARTS][DIGEST_HEX] = { "" };
	enum err_code rc;
	size_t n = 0;

	for (enum state_part i = 0; i < STATE_PARTS; i++) {
		if (text[i].digest)
			memcpy(digest[i], text[i].digest, DIGEST_HEX);
		else if (text[i].text)
			digest_of(text[i].text, text[i].size, digest[i]);
		if (i != STATE_PART_membership && strcmp(digest[i], s->digest[i]) == 0)
			continue;
		change[n] = (struct state_part_change){ .part = i, .text = text[i] };
		change[n++].text.digest = digest[i];
		memcpy(s->digest[i], "?", 2);
	}
	rc = s->ops->write(s, change, n, e);
	if (!rc)
		memcpy(s->digest, digest, sizeof digest);
	return rc;
}

/* The URL of the state of this run directory, a fresh string; NULL: the state is in the directory. */
static char *url_of_run(const char *run_dir)
{
	char *path = rundir_path(run_dir, "cluster.json"), *url = NULL;
	json_t *config = json_parse_file(path, STATE_PART_MAX, NULL);
	struct conf conf = { 0 };

	if (config && !conf_from_json(config, &conf, NULL))
		url = conf_state_url(&conf);
	conf_release(&conf);
	json_decref(config);
	free(path);
	return url;
}

json_t *state_store_look(const char *run_dir)
{
	char *url = url_of_run(run_dir);
	struct state_store *s = state_store_open(
	    &(const struct state_store_config){ .run_dir = run_dir, .url = url });
	struct state_values values = { 0 };
	const struct buf *text = &values.part[STATE_PART_membership];
	json_t *document = NULL;
	struct err e = { 0 };

	if (s && !s->ops->read(s, 1u << STATE_PART_membership, &values, &e) && text->len)
		document = json_parse((const char *)text->data, text->len, STATE_PART_MAX, &e);
	state_values_release(&values);
	state_store_close(s);
	free(url);
	return document;
}

json_t *state_standby_encode(const struct state_standby *s)
{
	return standby_encode(&(const struct standby){ .data = s->data,
	    .http = s->http,
	    .host = s->host,
	    .run_dir = s->run_dir,
	    .shares = s->shares });
}

bool state_standby_decode(const json_t *record, struct state_standby *out)
{
	struct standby from;

	standby_decode(record, &from);
	snprintf(out->data, sizeof out->data, "%s", from.data);
	snprintf(out->http, sizeof out->http, "%s", from.http);
	snprintf(out->host, sizeof out->host, "%s", from.host);
	snprintf(out->run_dir, sizeof out->run_dir, "%s", from.run_dir);
	out->shares = from.shares;
	return *out->data;
}

void state_values_release(struct state_values *v)
{
	for (size_t i = 0; i < STATE_PARTS; i++)
		buf_release(&v->part[i]);
}
