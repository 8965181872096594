/* SPDX-License-Identifier: ISC */
#include "conf/conf_key.h"
#include "rundir/prepare.h"

#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include "auth/authfile.h"
#include "auth/keyfile.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "rundir/run_colour.h"
#include "rundir/rundir.h"

#define KEYS_FILE  "keys/authorized_keys"
#define KEYS_MAX   (1u << 20)
#define SECRET_MAX 256

/* Copy the systemd credential pskit.NAME to `path`, if there is one; *rc says how it went.
 * Returns false when there is none. Since the credential is the same for each new run
 * directory, join files stay valid. */
static bool copy_credential(const char *path, const char *name, enum err_code *rc, struct err *e)
{
	char *given = mem_printf("pskit.%s", name), *from = authfile_credential(given),
	     text[SECRET_MAX];
	size_t n = 0;
	int fd = -1;

	free(given);
	if (!from)
		return false;
	*rc = authfile_open(from, 0077, sizeof text, &fd, &n, e);
	if (!*rc) {
		*rc = file_read_all(fd, text, n, e);
		close(fd);
	}
	if (!*rc)
		*rc = authfile_create(path, text, n, e);
	sodium_memzero(text, sizeof text);
	free(from);
	return true;
}

/* Make RUN/keys/NAME.key, from a credential if there is one, and append its line for
 * authorized_keys. */
static enum err_code make_named_key(const char *dir, const char *name, enum role role,
    struct buf *lines, struct key_pair *key, struct err *e)
{
	char *path = mem_printf("%s/keys/%s.key", dir, name);
	struct keyring_entry entry = { .role = role };
	enum err_code rc = ERR_OK;

	if (!copy_credential(path, path_basename(path), &rc, e))
		rc = key_pair_create(path, key, e);
	else if (!rc)
		rc = key_pair_load(path, key, e);
	if (!rc) {
		snprintf(entry.name, sizeof entry.name, "%s", name);
		memcpy(entry.pk, key->pk, sizeof entry.pk);
		keyring_line(&entry, lines);
	}
	free(path);
	return rc;
}

static enum err_code make_numbered_keys(const char *dir, const char *prefix, int64_t n,
    enum role role, struct buf *lines, struct err *e)
{
	enum err_code rc = ERR_OK;
	struct key_pair key;
	char name[32];

	for (int64_t i = 0; !rc && i < n; i++) {
		snprintf(name, sizeof name, "%s-%lld", prefix, (long long)i);
		rc = make_named_key(dir, name, role, lines, &key, e);
	}
	key_pair_wipe(&key);
	return rc;
}

static enum err_code write_coordinator_key(const char *dir, const struct key_pair *key,
    struct err *e)
{
	char *path = rundir_path(dir, "keys/coordinator.pub"), text[64];
	enum err_code rc;

	key_to_text(key->pk, text);
	text[KEY_TEXT_LEN] = '\n';
	rc = file_replace(path, text, KEY_TEXT_LEN + 1, 0600, e);
	free(path);
	return rc;
}

/* Append the keys that were invited before: the credential pskit.authorized_keys. */
static enum err_code append_invited_keys(struct buf *lines, struct err *e)
{
	char *from = authfile_credential("pskit.authorized_keys");
	enum err_code rc = from ? file_read(from, KEYS_MAX, lines, e) : ERR_OK;

	free(from);
	return rc;
}

/* Make the folder keys/ with all that the configuration needs. */
static enum err_code write_key_files(const struct conf *c, const char *dir, struct err *e)
{
	char *keys = rundir_path(dir, "keys"), *psk_path = rundir_path(dir, "keys/psk");
	char *ring_path = rundir_path(dir, KEYS_FILE);
	struct buf lines = BUF_INIT;
	struct key_pair key = { 0 };
	uint8_t psk[32];
	enum err_code rc = file_mkdirs(keys, 0700, e);

	if (!rc && !copy_credential(psk_path, "psk", &rc, e))
		rc = psk_create(psk_path, psk, e);
	else if (!rc)
		rc = psk_load(psk_path, psk, e);
	if (!rc)
		rc = make_named_key(dir, "coordinator", ROLE_SERVER, &lines, &key, e);
	if (!rc)
		rc = write_coordinator_key(dir, &key, e);
	if (!rc)
		rc = make_named_key(dir, "admin", ROLE_ADMIN, &lines, &key, e);
	if (!rc)
		rc = make_numbered_keys(dir, "server", c->servers, ROLE_SERVER, &lines, e);
	if (!rc && conf_trains(c))
		rc = make_numbered_keys(dir, "worker", c->workers.max, ROLE_WORKER, &lines, e);
	if (!rc)
		rc = append_invited_keys(&lines, e);
	if (!rc)
		rc = file_replace(ring_path, lines.data, lines.len, 0600, e);
	key_pair_wipe(&key);
	buf_release(&lines);
	free(keys);
	free(psk_path);
	free(ring_path);
	return rc;
}

/* Open the initial model. It may lie in the directory of the run before, which is about to be
 * moved; the descriptor then still leads to it. */
static int open_initial_model(const struct conf *c)
{
	return strchr(c->job.init, '/') ? open(c->job.init, O_PATH | O_CLOEXEC) : -1;
}

/* init: the open initial model, or -1. Its path may have changed since c was read. */
static enum err_code write_cluster_json(const struct conf *c, const char *dir, int init,
    struct err *e)
{
	char *path = rundir_path(dir, "cluster.json"), *text;
	char *moved = init < 0 ? NULL : path_of_fd(init);
	struct conf now = *c; /* borrows all but the path */
	enum err_code rc;
	json_t *j;

	if (moved)
		now.job.init = moved;
	j = conf_to_json(&now);
	text = json_dumps(j, JSON_INDENT(2));
	rc = file_replace(path, text, strlen(text), 0600, e);
	free(text);
	json_decref(j);
	free(moved);
	free(path);
	return rc;
}

enum err_code rundir_prepare(const struct conf *c, const char *dir, int *lock, struct err *e)
{
	enum err_code rc = key_init(e);
	int init = conf_trains(c) ? open_initial_model(c) : -1;

	*lock = -1;
	if (!rc)
		rc = rundir_create(dir, lock, e);
	if (!rc)
		rc = write_key_files(c, dir, e);
	if (!rc)
		rc = write_cluster_json(c, dir, init, e);
	if (!rc)
		run_colour_choose(dir);
	if (init >= 0)
		close(init);
	if (rc && *lock >= 0) {
		close(*lock);
		*lock = -1;
	}
	return rc;
}

/* May this setting change when a run is resumed? It only places processes, or is the model that the
 * run has begun with. */
static bool may_change_on_resume(const char *key)
{
	return strcmp(key, "hosts") == 0 || strcmp(key, "listen") == 0 ||
	    strcmp(key, "init_from") == 0;
}

/* Add the names in list a that list b lacks. */
static void add_missing_names(const json_t *a, const json_t *b, json_t *names)
{
	const json_t *x, *y;
	size_t i, k;

	json_array_foreach(a, i, x) {
		json_array_foreach(b, k, y)
			if (json_equal(x, y))
				break;
		if (k == json_array_size(b))
			json_object_set_new(names, json_string_value(x), json_true());
	}
}

/* Is it the default of this key? A version that did not have the key yet did what that stands for. */
static bool is_default(const char *name, const json_t *value)
{
	const struct conf_key *k = conf_key_find(name, NULL);
	struct conf conf;
	json_t *v;
	bool is;

	conf_init(&conf);
	v = k ? conf_value_json(k, &conf) : NULL;
	is = v && json_equal(v, value);
	json_decref(v);
	conf_release(&conf);
	return is;
}

/* Add the names of the keys whose values differ, "servers" or "job.lr", as members of names. The
 * lists by_default name keys that only one of the configurations leaves to the model or its
 * rule. */
static void add_different_keys(const char *prefix, const json_t *a, const json_t *b, json_t *names)
{
	const char *key;
	json_t *x;

	json_object_foreach((json_t *)a, key, x) {
		const json_t *y = json_object_get(b, key);
		char *name;

		if (json_equal(x, y) || may_change_on_resume(key))
			continue;
		if (json_is_object(x) && json_is_object(y)) {
			add_different_keys("job.", x, y, names);
		} else if (json_is_array(x) && strcmp(key, "by_default") == 0) {
			add_missing_names(x, y, names);
			add_missing_names(y, x, names);
		} else {
			name = mem_printf("%s%s", prefix, key);
			if (y || !is_default(name, x))
				json_object_set_new(names, name, json_true());
			free(name);
		}
	}
}

static enum err_code check_same_config(const struct conf *c, const char *dir, struct err *e)
{
	char *path = rundir_path(dir, "cluster.json");
	json_t *there = json_parse_file(path, 1 << 20, e), *ours = conf_to_json(c);
	json_t *names = json_object(), *named;
	struct buf keys = BUF_INIT;
	const char *name;
	enum err_code rc = there ? ERR_OK : e->code;

	if (there) {
		add_different_keys("", ours, there, names);
		json_object_foreach(names, name, named)
			buf_printf(&keys, "%s%s", keys.len ? ", " : "", name);
		if (keys.len)
			rc = err_set(e, ERR_CONFIG, "%s was run with other values of %s", dir,
			    (char *)keys.data);
	}
	buf_release(&keys);
	json_decref(names);
	json_decref(there);
	json_decref(ours);
	free(path);
	return rc;
}

enum err_code rundir_reopen(const struct conf *c, const char *dir, bool keep_results, int *lock,
    struct err *e)
{
	static const char *const stale[] = { "result.json", "model.safetensors", NULL };
	enum err_code rc = key_init(e);

	*lock = -1;
	if (!rc)
		rc = rundir_lock(dir, lock, e);
	if (!rc)
		rc = check_same_config(c, dir, e);
	if (!rc)
		rc = write_cluster_json(c, dir, -1, e);
	for (size_t i = 0; !rc && !keep_results && stale[i]; i++) {
		char *path = rundir_path(dir, stale[i]);

		unlink(path);
		free(path);
	}
	if (rc && *lock >= 0) {
		close(*lock);
		*lock = -1;
	}
	return rc;
}

enum err_code rundir_authorize_key(const char *dir, const struct keyring_entry *entry,
    struct err *e)
{
	char *path = rundir_path(dir, KEYS_FILE);
	enum err_code rc = keyfile_add(path, entry, 1, e);

	free(path);
	return rc;
}

enum err_code rundir_revoke_key(const char *dir, const char *name, struct keyring_entry *was,
    struct err *e)
{
	char *path = rundir_path(dir, KEYS_FILE), *secret;
	enum err_code rc = keyfile_remove(path, name, was, e);

	if (!rc) {
		secret = mem_printf("%s/keys/%s.key", dir, name);
		unlink(secret);
		free(secret);
	}
	free(path);
	return rc;
}

bool rundir_has_key_file(const char *dir, const char *name)
{
	char *path = mem_printf("%s/keys/%s.key", dir, name);
	bool has = access(path, F_OK) == 0;

	free(path);
	return has;
}

/* Get the key of a name that authorized_keys does not have. Its file may exist: then an
 * earlier call was interrupted before it had written authorized_keys. */
static enum err_code load_or_create_key(const char *dir, const char *name,
    struct keyring_entry *out, struct err *e)
{
	char *path = mem_printf("%s/keys/%s.key", dir, name);
	struct key_pair key = { 0 };
	enum err_code rc = rundir_has_key_file(dir, name) ? key_pair_load(path, &key, e)
	                                                  : key_pair_create(path, &key, e);

	snprintf(out->name, sizeof out->name, "%s", name);
	memcpy(out->pk, key.pk, sizeof out->pk);
	key_pair_wipe(&key);
	free(path);
	return rc;
}

enum err_code rundir_add_keys(const char *dir, const char *prefix, size_t n, enum role role,
    struct err *e)
{
	struct keyring_entry *fresh = mem_array(n + 1, sizeof *fresh);
	char *path = rundir_path(dir, KEYS_FILE), name[KEYRING_NAME_MAX + 1];
	struct keyring *ring = NULL;
	enum err_code rc = keyring_load(path, &ring, e);
	size_t made = 0;

	for (size_t i = 0; !rc && i < n; i++) {
		snprintf(name, sizeof name, "%s-%zu", prefix, i);
		if (keyring_find_name(ring, name))
			continue;
		fresh[made].role = role;
		rc = load_or_create_key(dir, name, &fresh[made++], e);
	}
	if (!rc && made)
		rc = keyfile_add(path, fresh, made, e);
	keyring_free(ring);
	free(path);
	free(fresh);
	return rc;
}
