#include "client/prepare.h"

#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "launch/rundir.h"

#define KEYS_FILE "keys/authorized_keys"

/* RUN/keys/NAME.key, and its line for authorized_keys. */
static enum err_code make_key(const char *dir, const char *name, enum role role, struct buf *lines, struct key_pair *key,
    struct err *e)
{
	char *path = mem_printf("%s/keys/%s.key", dir, name);
	struct keyring_entry entry = { .role = role };
	enum err_code rc = key_pair_create(path, key, e);

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

static enum err_code fill_keys(const struct conf *c, const char *dir, struct err *e)
{
	char *keys = rundir_path(dir, "keys"), *psk_path = rundir_path(dir, "keys/psk");
	char *ring_path = rundir_path(dir, KEYS_FILE);
	struct buf lines = BUF_INIT;
	struct key_pair key = { 0 };
	uint8_t psk[32];
	enum err_code rc = file_mkdirs(keys, 0700, e);

	if (!rc)
		rc = psk_create(psk_path, psk, e);
	if (!rc)
		rc = make_key(dir, "coordinator", ROLE_SERVER, &lines, &key, e);
	if (!rc)
		rc = write_public(dir, &key, e);
	if (!rc)
		rc = make_key(dir, "admin", ROLE_ADMIN, &lines, &key, e);
	if (!rc)
		rc = make_keys(dir, "server", c->servers, ROLE_SERVER, &lines, e);
	if (!rc && c->has_job)
		rc = make_keys(dir, "worker", c->workers.max, ROLE_WORKER, &lines, e);
	if (!rc)
		rc = file_replace(ring_path, lines.data, lines.len, 0600, e);
	key_pair_wipe(&key);
	buf_release(&lines);
	free(keys);
	free(psk_path);
	free(ring_path);
	return rc;
}

enum err_code run_prepare(const struct conf *c, const char *dir, int *lock, struct err *e)
{
	enum err_code rc = key_init(e);
	char *path, *text;
	json_t *j;

	if (!rc)
		rc = rundir_create(dir, lock, e);
	if (rc)
		return rc;
	rc = fill_keys(c, dir, e);
	if (!rc) {
		path = rundir_path(dir, "cluster.json");
		j = conf_to_json(c);
		text = json_dumps(j, JSON_INDENT(2));
		rc = file_replace(path, text, strlen(text), 0600, e);
		free(text);
		json_decref(j);
		free(path);
	}
	if (rc)
		close(*lock);
	return rc;
}

enum err_code run_authorize(const char *dir, const struct keyring_entry *entry, struct err *e)
{
	char *path = rundir_path(dir, KEYS_FILE);
	struct buf text = BUF_INIT;
	struct keyring *ring = NULL;
	enum err_code rc = keyring_load(path, &ring, e);

	if (!rc)
		rc = keyring_add(ring, entry, e);
	if (!rc)
		rc = file_read(path, 1 << 20, &text, e);
	if (!rc) {
		keyring_line(entry, &text);
		rc = file_replace(path, text.data, text.len, 0600, e);
	}
	keyring_free(ring);
	buf_release(&text);
	free(path);
	return rc;
}
