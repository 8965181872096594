#include "client/prepare.h"

#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <unistd.h>

#include "auth/authfile.h"
#include "auth/keyfile.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "launch/rundir.h"

#define KEYS_FILE "keys/authorized_keys"
#define KEYS_MAX (1u << 20)
#define SECRET_MAX 256

/* What the service's credential pskit.NAME holds, as keys/NAME: true when there is one, and
 * *rc says how it went.  It is the same each time that a run directory is made, so that join
 * files stay good. */
static bool from_credential(const char *path, const char *name, enum err_code *rc, struct err *e)
{
	char *given = mem_printf("pskit.%s", name), *from = authfile_credential(given), text[SECRET_MAX];
	size_t n = 0;
	int fd = -1;

	free(given);
	if (!from)
		return false;
	*rc = authfile_open(from, 0077, sizeof text, &fd, &n, e);
	if (!*rc) {
		*rc = fd_read_all(fd, text, n, e);
		close(fd);
	}
	if (!*rc)
		*rc = authfile_create(path, text, n, e);
	sodium_memzero(text, sizeof text);
	free(from);
	return true;
}

/* RUN/keys/NAME.key, and its line for authorized_keys. */
static enum err_code make_key(const char *dir, const char *name, enum role role, struct buf *lines, struct key_pair *key,
    struct err *e)
{
	char *path = mem_printf("%s/keys/%s.key", dir, name);
	struct keyring_entry entry = { .role = role };
	enum err_code rc = ERR_OK;

	if (!from_credential(path, path_basename(path), &rc, e))
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

static enum err_code make_keys(const char *dir, const char *prefix, int64_t n, enum role role, struct buf *lines,
    struct err *e)
{
	enum err_code rc = ERR_OK;
	struct key_pair key;
	char name[32];

	for (int64_t i = 0; !rc && i < n; i++) {
		snprintf(name, sizeof name, "%s-%lld", prefix, (long long)i);
		rc = make_key(dir, name, role, lines, &key, e);
	}
	key_pair_wipe(&key);
	return rc;
}

static enum err_code write_public(const char *dir, const struct key_pair *key, struct err *e)
{
	char *path = rundir_path(dir, "keys/coordinator.pub"), text[64];
	enum err_code rc;

	key_to_text(key->pk, text);
	text[KEY_TEXT_LEN] = '\n';
	rc = file_replace(path, text, KEY_TEXT_LEN + 1, 0600, e);
	free(path);
	return rc;
}

/* Lines of those who have been invited before: the credential pskit.authorized_keys. */
static enum err_code add_admitted(struct buf *lines, struct err *e)
{
	char *from = authfile_credential("pskit.authorized_keys");
	enum err_code rc = from ? file_read(from, KEYS_MAX, lines, e) : ERR_OK;

	free(from);
	return rc;
}

static enum err_code fill_keys(const struct conf *c, const char *dir, struct err *e)
{
	char *keys = rundir_path(dir, "keys"), *psk_path = rundir_path(dir, "keys/psk");
	char *ring_path = rundir_path(dir, KEYS_FILE);
	struct buf lines = BUF_INIT;
	struct key_pair key = { 0 };
	uint8_t psk[32];
	enum err_code rc = file_mkdirs(keys, 0700, e);

	if (!rc && !from_credential(psk_path, "psk", &rc, e))
		rc = psk_create(psk_path, psk, e);
	else if (!rc)
		rc = psk_load(psk_path, psk, e);
	if (!rc)
		rc = make_key(dir, "coordinator", ROLE_SERVER, &lines, &key, e);
	if (!rc)
		rc = write_public(dir, &key, e);
	if (!rc)
		rc = make_key(dir, "admin", ROLE_ADMIN, &lines, &key, e);
	if (!rc)
		rc = make_keys(dir, "server", c->servers, ROLE_SERVER, &lines, e);
	if (!rc && conf_trains(c))
		rc = make_keys(dir, "worker", c->workers.max, ROLE_WORKER, &lines, e);
	if (!rc)
		rc = add_admitted(&lines, e);
	if (!rc)
		rc = file_replace(ring_path, lines.data, lines.len, 0600, e);
	key_pair_wipe(&key);
	buf_release(&lines);
	free(keys);
	free(psk_path);
	free(ring_path);
	return rc;
}

/* The model to begin with may be that of the run before, whose directory is
 * about to be moved: what is open tells where it has come to lie. */
static int open_init(const struct conf *c)
{
	return strchr(c->job.init, '/') ? open(c->job.init, O_PATH | O_CLOEXEC) : -1;
}

static void follow_init(json_t *config, int fd)
{
	char link[40], path[PATH_MAX];
	ssize_t n;

	if (fd < 0)
		return;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path);
	if (n > 0 && (size_t)n < sizeof path)
		json_object_set_new(json_object_get(config, "job"), "init", json_stringn(path, (size_t)n));
}

static enum err_code write_config(const struct conf *c, const char *dir, int init, struct err *e)
{
	char *path = rundir_path(dir, "cluster.json"), *text;
	json_t *j = conf_to_json(c);
	enum err_code rc;

	follow_init(j, init);
	text = json_dumps(j, JSON_INDENT(2));
	rc = file_replace(path, text, strlen(text), 0600, e);
	free(text);
	json_decref(j);
	free(path);
	return rc;
}

enum err_code run_prepare(const struct conf *c, const char *dir, int *lock, struct err *e)
{
	enum err_code rc = key_init(e);
	int init = conf_trains(c) ? open_init(c) : -1;

	*lock = -1;
	if (!rc)
		rc = rundir_create(dir, lock, e);
	if (!rc)
		rc = fill_keys(c, dir, e);
	if (!rc)
		rc = write_config(c, dir, init, e);
	if (init >= 0)
		close(init);
	if (rc && *lock >= 0) {
		close(*lock);
		*lock = -1;
	}
	return rc;
}

/* Where the processes are is no part of what they compute. */
static bool is_of_place(const char *key)
{
	return strcmp(key, "hosts") == 0 || strcmp(key, "listen") == 0;
}

/* The keys whose values differ, "servers, job.lr". */
static void differing(const char *prefix, const json_t *a, const json_t *b, struct buf *out)
{
	const char *key;
	json_t *x;

	json_object_foreach((json_t *)a, key, x) {
		const json_t *y = json_object_get(b, key);

		if (json_equal(x, y) || is_of_place(key))
			continue;
		if (json_is_object(x) && json_is_object(y))
			differing("job.", x, y, out);
		else
			buf_printf(out, "%s%s%s", out->len ? ", " : "", prefix, key);
	}
}

static enum err_code same_config(const struct conf *c, const char *dir, struct err *e)
{
	char *path = rundir_path(dir, "cluster.json");
	json_t *there = json_parse_file(path, 1 << 20, e), *ours = conf_to_json(c);
	struct buf keys = BUF_INIT;
	enum err_code rc = there ? ERR_OK : e->code;

	if (there) {
		differing("", ours, there, &keys);
		if (keys.len)
			rc = err_set(e, ERR_CONFIG, "%s was run with other values of %s: give those, or --resume none to begin anew",
			    dir, (char *)keys.data);
	}
	buf_release(&keys);
	json_decref(there);
	json_decref(ours);
	free(path);
	return rc;
}

enum err_code run_reopen(const struct conf *c, const char *dir, int *lock, struct err *e)
{
	static const char *const stale[] = { "result.json", "model.safetensors", NULL };
	enum err_code rc = key_init(e);

	*lock = -1;
	if (!rc)
		rc = rundir_lock(dir, lock, e);
	if (!rc)
		rc = same_config(c, dir, e);
	if (!rc)
		rc = write_config(c, dir, -1, e);
	for (size_t i = 0; !rc && stale[i]; i++) {
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

enum err_code run_authorize(const char *dir, const struct keyring_entry *entry, struct err *e)
{
	char *path = rundir_path(dir, KEYS_FILE);
	enum err_code rc = keyfile_add(path, entry, 1, e);

	free(path);
	return rc;
}

/* A key file of this host goes with it: a process that is to have the name again gets a
 * fresh key. */
enum err_code run_revoke(const char *dir, const char *name, struct keyring_entry *was, struct err *e)
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

bool run_has_secret(const char *dir, const char *name)
{
	char *path = mem_printf("%s/keys/%s.key", dir, name);
	bool has = access(path, F_OK) == 0;

	free(path);
	return has;
}

/* A key file that is there already was not admitted: who made it was ended before. */
static enum err_code add_key(const char *dir, const char *name, struct keyring_entry *out, struct err *e)
{
	char *path = mem_printf("%s/keys/%s.key", dir, name);
	struct key_pair key = { 0 };
	enum err_code rc = run_has_secret(dir, name) ? key_pair_load(path, &key, e) : key_pair_create(path, &key, e);

	snprintf(out->name, sizeof out->name, "%s", name);
	memcpy(out->pk, key.pk, sizeof out->pk);
	key_pair_wipe(&key);
	free(path);
	return rc;
}

enum err_code run_add_keys(const char *dir, const char *prefix, size_t n, enum role role, struct err *e)
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
		rc = add_key(dir, name, &fresh[made++], e);
	}
	if (!rc && made)
		rc = keyfile_add(path, fresh, made, e);
	keyring_free(ring);
	free(path);
	free(fresh);
	return rc;
}
