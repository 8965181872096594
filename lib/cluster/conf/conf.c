/* SPDX-License-Identifier: ISC */
#include "conf/conf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/conf_key.h"
#include "core/buf.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"

#define FILE_MAX  (1u << 20)
#define LOSS_WAIT (30 * NSEC_PER_SEC)
/* The member of a written configuration that lists the keys with a default of the model or rule. */
#define BY_DEFAULT "by_default"

void conf_init(struct conf *c)
{
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	memset(c, 0, sizeof *c);
	for (size_t i = 0; i < n; i++) {
		enum err_code rc = ERR_OK;

		if (k[i].deflt[0] != '\0' && !conf_key_derives(&k[i]))
			rc = conf_value_parse(&k[i], k[i].deflt, NULL, c, NULL);
		assert(rc == ERR_OK);
		(void)rc;
	}
	memset(c->given, 0, sizeof c->given);
	memset(c->automatic, 0, sizeof c->automatic);
	conf_derive(c);
}

void conf_reset(struct conf *c, const char *path)
{
	const struct conf_key *k = conf_key_find(path, NULL);
	enum err_code rc = ERR_OK;

	conf_value_release(k, c);
	if (k->deflt[0] != '\0' && !conf_key_derives(k))
		rc = conf_value_parse(k, k->deflt, NULL, c, NULL);
	assert(rc == ERR_OK);
	(void)rc;
	conf_forget_given(c, k);
	conf_derive(c);
}

bool conf_trains(const struct conf *c)
{
	return c->has_job && !c->read_only;
}

bool conf_is_named(const char *value)
{
	return value && strcmp(value, "none") != 0;
}

bool conf_skips_bad_gradients(const struct conf *c)
{
	return strcmp(c->job.bad_gradients, "skip") == 0 ||
	    (strcmp(c->job.bad_gradients, "auto") == 0 && conf_is_named(c->robust));
}

char *conf_emulation(const char *slow, const char *net)
{
	bool slows = conf_is_named(slow), links = conf_is_named(net);

	return mem_printf("%s%s%s%s%s", slows ? "job.slow=" : "", slows ? slow : "",
	    slows && links ? " " : "", links ? "net=" : "", links ? net : "");
}

void conf_release(struct conf *c)
{
	size_t n;
	const struct conf_key *k = conf_keys(&n);

	for (size_t i = 0; i < n; i++)
		conf_value_release(&k[i], c);
	memset(c, 0, sizeof *c);
}

/* Set the defaults that depend on other keys. */
static void derive_defaults(struct conf *c)
{
	conf_derive(c);
	if (conf_given(c, conf_key_find("on_worker_loss", NULL)))
		return;
	c->on_worker_loss.policy = c->deterministic ? CONF_WAIT : CONF_SHRINK;
	c->on_worker_loss.wait = c->deterministic ? LOSS_WAIT : 0;
}

static bool is_job_key(const struct conf_key *k)
{
	return strncmp(k->path, "job.", 4) == 0;
}

/* Reads every member of o as a key: the members of "job" when job is true, else the top level,
 * where "job" itself is skipped. Relative paths are taken from dir. The first key that is unknown,
 * misplaced or has a bad value ends it with ERR_CONFIG; the keys before it stay set in c. */
static enum err_code read_object_keys(const json_t *o, bool job, const char *dir, struct conf *c,
    struct err *e)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)o, name, v) {
		const struct conf_key *k;
		char *path = mem_printf("%s%s", job ? "job." : "", name);

		if (!job && strcmp(name, "job") == 0) {
			free(path);
			continue;
		}
		k = conf_key_find(path, NULL);
		if (k && strcmp(k->path, path) != 0)
			err_set(e, ERR_CONFIG, "%s: belongs in \"job\": { ... }", name);
		else if (!k && job && (k = conf_key_find(name, NULL)) != NULL)
			err_set(e, ERR_CONFIG, "%s: belongs outside \"job\"", path);
		else if (!k)
			conf_key_find(path, e);
		else if (conf_value_read(k, v, dir, c, e) == ERR_OK) {
			free(path);
			continue;
		}
		free(path);
		return ERR_CONFIG;
	}
	return ERR_OK;
}

/* Gives c the defaults and then reads the document into it. Keys are not checked against each
 * other here: conf_validate does that after the --set assignments. Defaults that depend on other
 * keys are derived even when reading has failed. */
static enum err_code read_document(const json_t *o, const char *dir, struct conf *c, struct err *e)
{
	const json_t *job;
	enum err_code rc;

	conf_init(c);
	if (!json_is_object(o))
		return err_set(e, ERR_CONFIG,
		    "must contain one JSON object: { \"servers\": 1, ... }");
	job = json_object_get(o, "job");
	if (job && !json_is_object(job))
		return err_set(e, ERR_CONFIG, "job: must be an object: { \"model\": ... }");
	rc = read_object_keys(o, false, dir, c, e);
	if (rc == ERR_OK && job) {
		c->has_job = true;
		rc = read_object_keys(job, true, dir, c, e);
	}
	derive_defaults(c);
	return rc;
}

/* The keys in the list have the values of the document, but nobody has set them. */
static void forget_defaults(struct conf *c, const json_t *list)
{
	const struct conf_key *k;
	json_t *name;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, name) {
		k = json_is_string(name) ? conf_key_find(json_string_value(name), NULL) : NULL;
		if (k && conf_key_derives(k))
			conf_forget_given(c, k);
	}
}

static json_t *list_defaults(const struct conf *c)
{
	size_t n;
	const struct conf_key *k = conf_keys(&n);
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		if (conf_key_derives(&k[i]) && !conf_given(c, &k[i]))
			json_array_append_new(list, json_string(k[i].path));
	return list;
}

enum err_code conf_from_json(const json_t *o, struct conf *c, struct err *e)
{
	/* A shallow copy without the member that is not a key. */
	json_t *keys = json_copy((json_t *)(uintptr_t)o);
	enum err_code rc;

	json_object_del(keys, BY_DEFAULT);
	rc = read_document(keys, NULL, c, e);
	if (rc == ERR_OK)
		forget_defaults(c, json_object_get(o, BY_DEFAULT));
	if (rc != ERR_OK)
		conf_release(c);
	json_decref(keys);
	return rc;
}

enum err_code conf_set(struct conf *c, const char *assignment, struct err *e)
{
	const char *equals = strchr(assignment, '=');
	const struct conf_key *k;
	char *name, *dir;
	enum err_code rc = ERR_CONFIG;

	if (!equals || equals == assignment)
		return err_set(e, ERR_USAGE, "\"%.80s\" must have the form key=value", assignment);
	name = mem_printf("%.*s", (int)(equals - assignment), assignment);
	k = conf_key_find(name, e);
	if (k) {
		dir = getcwd(NULL, 0);
		rc = conf_value_parse(k, equals + 1, dir, c, e);
		free(dir);
	}
	if (rc == ERR_OK) {
		c->has_job = c->has_job || is_job_key(k);
		derive_defaults(c);
	}
	free(name);
	return rc;
}

char *conf_file(const char *arg)
{
	char *with = mem_printf("%s.json", arg);

	if (access(arg, F_OK) != 0 && access(with, F_OK) == 0)
		return with;
	free(with);
	return mem_strdup(arg);
}

/* The directory of a file, absolute if it exists. */
static char *absolute_directory(const char *file)
{
	char *dir = path_dirname(file);
	char *absolute = realpath(dir, NULL);

	if (!absolute)
		return dir;
	free(dir);
	return absolute;
}

/* The assignment that set the key with which an error message begins; NULL: none did. */
static const char *find_blamed_assignment(const char *sentence, const char **sets, size_t nsets)
{
	for (size_t i = nsets; i-- > 0;) {
		char *name = mem_printf("%.*s", (int)strcspn(sets[i], "="), sets[i]);
		const struct conf_key *k = conf_key_find(name, NULL);
		size_t n = k ? strlen(k->path) : 0;

		free(name);
		if (n && strncmp(sentence, k->path, n) == 0 &&
		    (sentence[n] == ':' || sentence[n] == ' '))
			return sets[i];
	}
	return NULL;
}

/* Is the first character of the file another one than that of a JSON object? */
static bool is_other_text(const char *file)
{
	FILE *f = fopen(file, "re");
	char first = 0;
	bool is = f && fscanf(f, " %c", &first) == 1 && first != '{';

	if (f)
		fclose(f);
	return is;
}

/* Reads a cluster file. Relative paths in it count from the directory that holds the file. e
 * must not be NULL. Every error of the contents begins with the file's name. */
static enum err_code read_cluster_file(const char *file, struct conf *c, struct err *e)
{
	json_t *o = json_parse_file(file, FILE_MAX, e);
	enum err_code rc;
	char *dir;

	if (!o && is_other_text(file))
		err_set(e, e->code,
		    "%s: is not a cluster file, which is a JSON object: { \"servers\": 1, ... }; if it has "
		    "training data, ps-ctl init --data FILE writes a cluster file for it",
		    file);
	if (!o)
		return e->code;
	dir = absolute_directory(file);
	rc = read_document(o, dir, c, e);
	free(dir);
	json_decref(o);
	return rc ? err_prefix(e, "%s", file) : ERR_OK;
}

/* Reads the file (NULL: there is none), applies the assignments in their order, so that a later
 * one wins, and validates the result. A cluster without a name is called after its file, or "exec".
 * Each error names its source: the assignment that set the key at fault, else the file. */
static enum err_code load_and_validate(const char *file, const char **sets, size_t nsets,
    bool elsewhere, struct conf *c, struct err *e)
{
	const struct conf_key *name = conf_key_find("name", NULL);
	enum err_code rc = ERR_OK;

	if (file)
		rc = read_cluster_file(file, c, e);
	else
		conf_init(c);
	if (rc != ERR_OK)
		return rc;
	if (!conf_given(c, name))
		c->name = file ? path_stem(file) : mem_strdup("exec");
	for (size_t i = 0; i < nsets; i++)
		if (conf_set(c, sets[i], e) != ERR_OK)
			return err_prefix(e, "--set %.80s", sets[i]);
	c->data_elsewhere = elsewhere;
	if (conf_validate(c, e) != ERR_OK) {
		const char *set = find_blamed_assignment(e->msg, sets, nsets);

		return set ? err_prefix(e, "--set %.80s", set)
		           : err_prefix(e, "%s", file ? file : "--exec");
	}
	return ERR_OK;
}

static enum err_code load_conf(const char *path, const char **sets, size_t nsets, bool elsewhere,
    struct conf *c, struct err *e)
{
	struct err own;
	char *file = path ? conf_file(path) : NULL;
	enum err_code rc;

	if (!e)
		e = &own;
	memset(c, 0, sizeof *c);
	if (file && access(file, F_OK) != 0)
		rc = err_set(e, ERR_NOTFOUND,
		    "no such cluster file \"%s\"; ps-ctl init creates one", path);
	else
		rc = load_and_validate(file, sets, nsets, elsewhere, c, e);
	if (rc != ERR_OK)
		conf_release(c);
	free(file);
	return rc;
}

enum err_code conf_load(const char *path, const char **sets, size_t nsets, struct conf *c,
    struct err *e)
{
	return load_conf(path, sets, nsets, false, c, e);
}

enum err_code conf_load_elsewhere(const char *path, const char **sets, size_t nsets, struct conf *c,
    struct err *e)
{
	return load_conf(path, sets, nsets, true, c, e);
}

json_t *conf_to_json(const struct conf *c)
{
	size_t n;
	const struct conf_key *k = conf_keys(&n);
	json_t *o = json_object();
	json_t *job = json_object();

	for (size_t i = 0; i < n; i++) {
		json_t *v = conf_value_json(&k[i], c);

		if (v && is_job_key(&k[i]))
			json_object_set_new(job, k[i].path + 4, v);
		else if (v)
			json_object_set_new(o, k[i].path, v);
	}
	if (c->has_job) {
		json_object_set(o, "job", job);
		json_object_set_new(o, BY_DEFAULT, list_defaults(c));
	}
	json_decref(job);
	return o;
}

json_t *conf_file_json(const struct conf *c)
{
	json_t *o = conf_to_json(c), *job = json_object_get(o, "job"), *name;
	size_t i;

	/* conf_from_json would not take the values in the list for given ones, and conf_load
	 * would. */
	json_array_foreach(json_object_get(o, BY_DEFAULT), i, name)
		json_object_del(job, json_string_value(name) + strlen("job."));
	json_object_del(o, BY_DEFAULT);
	return o;
}

/* Does a key belong to a model, wherever it goes? Paths and commands are those of one host, and the
 * evaluations of a job are over when it has a model. */
static bool goes_with_model(const struct conf_key *k)
{
	static const char *const stay[] = { "job.exec", "job.command", "job.validate", "job.stop",
		"job.slow" };

	for (size_t i = 0; i < sizeof stay / sizeof *stay; i++)
		if (strcmp(k->path, stay[i]) == 0)
			return false;
	return is_job_key(k) && k->type != CONF_PATHS && k->type != CONF_FILE;
}

json_t *conf_model_json(const struct conf *c)
{
	size_t n;
	const struct conf_key *k = conf_keys(&n);
	json_t *o = json_object(), *job = json_object();

	json_object_set_new(o, "name", json_string(c->name ? c->name : ""));
	for (size_t i = 0; c->has_job && i < n; i++)
		if (goes_with_model(&k[i]))
			json_object_set_new(job, k[i].path + 4, conf_value_json(&k[i], c));
	if (c->has_job)
		json_object_set(o, "job", job);
	json_decref(job);
	return o;
}

char *conf_diff(const struct conf *a, const struct conf *b)
{
	size_t n;
	const struct conf_key *k = conf_keys(&n);
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < n; i++) {
		json_t *x = conf_value_json(&k[i], a);
		json_t *y = conf_value_json(&k[i], b);

		if ((x || y) && !(x && y && json_equal(x, y)))
			buf_printf(&out, "%s%s", out.len ? ", " : "", k[i].path);
		json_decref(x);
		json_decref(y);
	}
	if (a->has_job != b->has_job && out.len == 0)
		buf_puts(&out, "job");
	return (char *)out.data;
}

enum err_code conf_make_read_only(struct conf *c, struct err *e)
{
	/* There is no training, so there is nothing to save, upload, or start on other hosts. The
	 * initial model may no longer exist, and the saved one has all values. */
	static const char *const left[] = { "checkpoint_every", "checkpoint_deltas",
		"checkpoint_to", "hosts", "job.init", "job.init_from" };
	static const char *const set[] = { "servers=1", "replicas=1", "read_only=true",
		"listen=127.0.0.1:0", "http=127.0.0.1:0" };
	enum err_code rc = ERR_OK;

	for (size_t i = 0; i < sizeof left / sizeof *left; i++)
		conf_reset(c, left[i]);
	for (size_t i = 0; !rc && i < sizeof set / sizeof *set; i++)
		rc = conf_set(c, set[i], e);
	return rc;
}
