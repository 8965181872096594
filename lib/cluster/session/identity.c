/* SPDX-License-Identifier: ISC */
#include "session/identity.h"

#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/authfile.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "msg/join_file.h"
#include "rundir/rundir.h"
#include "saved/saved_model.h"

#define JOIN_FILE_MAX 16384

/* Reads the coordinator's public key from the run directory. Line breaks at the end are ignored.
 * ERR_FORMAT: the text is not a key; else the errors of file_read. */
static enum err_code load_coordinator_key(const char *run_dir, uint8_t pk[static 32], struct err *e)
{
	char *path = rundir_path(run_dir, "keys/coordinator.pub");
	struct buf text = BUF_INIT;
	enum err_code rc = file_read(path, 256, &text, e);

	if (!rc) {
		while (text.len && text.data[text.len - 1] == '\n')
			text.data[--text.len] = 0;
		if (!key_from_text((const char *)text.data, pk))
			rc = err_set(e, ERR_FORMAT, "\"%s\" has no public key", path);
	}
	buf_release(&text);
	free(path);
	return rc;
}

/* Set id->conn. Takes `path` and `where`, from which `read` will read a newer psk. */
static void init_conn_identity(struct identity *id, const struct key_pair *key,
    const struct secret_pair *pair, char *path, char *where, secrets_read *read)
{
	handshake_identity_init(&id->conn.hs, key, pair->now);
	secrets_cluster(pair->now, id->conn.cluster);
	id->conn.secrets = secrets_new(key, pair, path, where, read);
}

enum err_code identity_from_run(const char *run_dir, const char *name, struct identity *out,
    struct err *e)
{
	char *key_path = mem_printf("%s/keys/%s.key", run_dir, name);
	struct secret_pair pair = { .until = 0 };
	struct key_pair key;
	char *keys = rundir_path(run_dir, "keys");
	enum err_code rc;

	*out = (struct identity){ .run_dir = mem_strdup(run_dir),
		.local = mem_printf("unix:%s/coordinator.sock", run_dir) };
	snprintf(out->name, sizeof out->name, "%s", name);
	rc = key_pair_load(key_path, &key, e);
	if (!rc)
		rc = secrets_read_dir(keys, &pair, e);
	if (!rc)
		rc = load_coordinator_key(run_dir, out->server_key, e);
	if (!rc)
		init_conn_identity(out, &key, &pair, rundir_path(run_dir, "keys/psk"),
		    mem_strdup(keys), secrets_read_dir);
	key_pair_wipe(&key);
	sodium_memzero(&pair, sizeof pair);
	free(key_path);
	free(keys);
	if (rc)
		identity_release(out);
	return rc;
}

void identity_look(struct identity *id)
{
	struct key_pair key;
	struct secret_pair pair;

	if (!secrets_look(id->conn.secrets, 0))
		return;
	key = id->conn.hs.key;
	secrets_both(id->conn.secrets, &pair);
	handshake_identity_init(&id->conn.hs, &key, pair.now);
	secrets_cluster(pair.now, id->conn.cluster);
	key_pair_wipe(&key);
	sodium_memzero(&pair, sizeof pair);
}

/* Read a join file, which only its owner may be able to read, because it holds secrets. */
static json_t *read_join_file(const char *file, struct err *e)
{
	char text[JOIN_FILE_MAX];
	json_t *j = NULL;
	size_t n;
	int fd;

	if (authfile_open(file, 077, sizeof text, &fd, &n, e))
		return NULL;
	if (file_read_all(fd, text, n, e) == ERR_OK)
		j = json_parse(text, n, sizeof text, e);
	if (!j)
		err_prefix(e, "\"%s\"", file);
	close(fd);
	sodium_memzero(text, sizeof text);
	return j;
}

/* Read and check a join file. *out borrows from the document that is returned. */
static json_t *parse_join_file(const char *file, struct join_file *out, struct err *e)
{
	uint8_t psk[32], sk[32], server[32];
	json_t *j = read_join_file(file, e);
	bool good;

	if (!j)
		return NULL;
	good = !join_file_decode(j, out, e) && key_from_text(out->server_key, server) &&
	    key_from_text(out->psk, psk) && key_from_text(out->key, sk) && *out->data;
	sodium_memzero(psk, sizeof psk);
	sodium_memzero(sk, sizeof sk);
	if (good)
		return j;
	json_decref(j);
	err_set(e, ERR_FORMAT, "\"%s\" is not a join file: make one with ps-ctl invite", file);
	return NULL;
}

/* The join file has the cluster's new psk; nothing else in it has changed. */
static enum err_code reread_join_psk(const char *file, struct secret_pair *pair, struct err *e)
{
	struct join_file f;
	json_t *j = parse_join_file(file, &f, e);

	if (!j)
		return ERR_FORMAT;
	key_from_text(f.psk, pair->now);
	json_decref(j);
	return ERR_OK;
}

enum err_code identity_from_join(const char *file, struct identity *out, struct err *e)
{
	struct secret_pair pair = { .until = 0 };
	struct key_pair key;
	char *path, *credential;
	struct join_file f;
	uint8_t sk[32];
	json_t *j;

	*out = (struct identity){ 0 };
	credential = access(file, F_OK) == 0 ? NULL : authfile_credential(file);
	path = credential ? credential : path_absolute(file);
	j = parse_join_file(path, &f, e);
	if (!j) {
		free(path);
		return e ? e->code : ERR_FORMAT;
	}
	key_from_text(f.server_key, out->server_key);
	key_from_text(f.psk, pair.now);
	key_from_text(f.key, sk);
	key_pair_from_secret(&key, sk);
	init_conn_identity(out, &key, &pair, mem_strdup(path), path, reread_join_psk);
	snprintf(out->name, sizeof out->name, "%s", f.name ? f.name : "guest");
	out->data = mem_strdup(f.data);
	out->http = mem_strdup(f.http);
	key_pair_wipe(&key);
	sodium_memzero(&pair, sizeof pair);
	sodium_memzero(sk, sizeof sk);
	json_decref(j);
	return ERR_OK;
}

const char *identity_join_file(const char *where)
{
	struct stat st;

	where = where ? where : getenv("PS_CLUSTER");
	if (!where || stat(where, &st) != 0 || !S_ISREG(st.st_mode))
		return NULL;
	return saved_model_is_named(where) ? NULL : where;
}

json_t *identity_join_json(const struct identity_join_words *w)
{
	char key[48], psk[48], server[48];
	json_t *join;

	key_to_text(w->key, key);
	key_to_text(w->psk, psk);
	key_to_text(w->server_key, server);
	join = join_file_encode(&(const struct join_file){ .v = 1,
	    .cluster = w->cluster,
	    .role = role_name(w->role),
	    .name = w->name,
	    .data = w->data,
	    .http = w->http,
	    .server_key = server,
	    .psk = psk,
	    .key = key });
	sodium_memzero(psk, sizeof psk);
	sodium_memzero(key, sizeof key);
	return join;
}

void identity_release(struct identity *id)
{
	handshake_identity_wipe(&id->conn.hs);
	secrets_free(id->conn.secrets);
	free(id->run_dir);
	free(id->local);
	free(id->data);
	free(id->http);
	*id = (struct identity){ 0 };
}
