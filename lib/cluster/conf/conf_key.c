/* SPDX-License-Identifier: ISC */
#include "conf/conf_key.h"

#include <float.h>
#include <stddef.h>
#include <string.h>

#include "core/suggest.h"

#define FIXED    CONF_FIXED
#define LIVE     CONF_LIVE
#define AT_ONCE  CONF_AT_ONCE
#define BY_MODEL CONF_BY_MODEL
#define BY_RULE  CONF_BY_RULE
/* The least number above 0, and the greatest below 1. */
#define ABOVE0 DBL_TRUE_MIN
#define BELOW1 (1.0 - DBL_EPSILON / 2)

/* The choices of keys whose variants stand in a .def file, as "|bsp|ssp:S|asp": the macros leave
 * out the first '|'. */
static const char sync_forms[] =
#define MODE(name, form) "|" form
#include "sync/sync.def"
#undef MODE
    ;
static const char aggregate_forms[] =
#define AGGREGATOR(name, form) "|" form
#include "aggregate/aggregate.def"
#undef AGGREGATOR
    ;
static const char codec_forms[] =
#define CODEC(name, number, form) "|" form
#include "codec/codec.def"
#undef CODEC
    ;
static const char loss_forms[] = "auto"
#define LOSS(name, form) "|" form
#include "loss/loss.def"
#undef LOSS
    ;
static const char transport_names[] =
#define TRANSPORT(name, takes_socket, offers_memory, accepts_memory, insists) "|" #name
#include "wire/transport.def"
#undef TRANSPORT
    ;
#define SYNC_FORMS      (sync_forms + 1)
#define AGGREGATE_FORMS (aggregate_forms + 1)
#define CODEC_FORMS     (codec_forms + 1)
#define LOSS_FORMS      loss_forms
#define TRANSPORT_NAMES (transport_names + 1)

static const struct conf_key keys[] = {
#define KEY(path, type, deflt, min, max, live, help, choices) \
	{ #path, CONF_##type, deflt, min, max, live, help, choices, offsetof(struct conf, path) },
#include "conf/conf.def"
#undef KEY
};
#define NKEYS (sizeof keys / sizeof *keys)

_Static_assert(NKEYS <= 8 * sizeof((struct conf *)0)->given, "conf.given has one bit a key");

const struct conf_key *conf_keys(size_t *n)
{
	*n = NKEYS;
	return keys;
}

const char *conf_type_name(enum conf_type type)
{
	static const char *const names[] = {
#define TYPE(name, text, ctype) [CONF_##name] = text,
		CONF_TYPES(TYPE)
#undef TYPE
	};

	return names[type];
}

static const char *key_leaf_name(const struct conf_key *k)
{
	return strncmp(k->path, "job.", 4) == 0 ? k->path + 4 : k->path;
}

/* By the path, or by its last part. */
static const struct conf_key *find_exactly(const char *name)
{
	for (size_t i = 0; i < NKEYS; i++)
		if (strcmp(name, keys[i].path) == 0)
			return &keys[i];
	for (size_t i = 0; i < NKEYS; i++)
		if (strcmp(name, key_leaf_name(&keys[i])) == 0)
			return &keys[i];
	return NULL;
}

const struct conf_key *conf_key_meant(const char *name)
{
	static const struct {
		const char *word, *path;
	} synonyms[] = {
#define SYNONYM(word, path) { #word, #path },
#include "conf/conf_synonym.def"
#undef SYNONYM
	};

	name = strncmp(name, "job.", 4) == 0 ? name + 4 : name;
	for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
		if (strcmp(name, synonyms[i].word) == 0)
			return find_exactly(synonyms[i].path);
	return NULL;
}

const struct conf_key *conf_key_find(const char *name, struct err *e)
{
	const char *names[2 * NKEYS + 1];
	const struct conf_key *key = find_exactly(name);
	const char *near;

	if (key)
		return key;
	if ((key = conf_key_meant(name)) != NULL) {
		err_set(e, ERR_CONFIG, "%.80s: no such key; did you mean \"%s\"?", name, key->path);
		return NULL;
	}
	for (size_t i = 0; i < NKEYS; i++) {
		names[i] = keys[i].path;
		names[NKEYS + i] = key_leaf_name(&keys[i]);
	}
	names[2 * NKEYS] = "job";
	near = suggest(name, names, 2 * NKEYS + 1);
	if (strcmp(name, "job") == 0)
		err_set(e, ERR_CONFIG, "job: is a group of keys; set one of them, such as job.lr");
	else if (near)
		err_set(e, ERR_CONFIG, "%.80s: no such key; did you mean \"%s\"?", name, near);
	else
		err_set(e, ERR_CONFIG, "%.80s: no such key", name);
	return NULL;
}

bool conf_given(const struct conf *c, const struct conf_key *k)
{
	size_t i = (size_t)(k - keys);

	return c->given[i / 64] >> (i % 64) & 1;
}

bool conf_automatic(const struct conf *c, const struct conf_key *k)
{
	size_t i = (size_t)(k - keys);

	return c->automatic[i / 64] >> (i % 64) & 1;
}

void conf_forget_given(struct conf *c, const struct conf_key *k)
{
	size_t i = (size_t)(k - keys);

	c->given[i / 64] &= ~(UINT64_C(1) << (i % 64));
	c->automatic[i / 64] &= ~(UINT64_C(1) << (i % 64));
}
