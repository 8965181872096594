#include "client/identity.h"

#include <sodium.h>
#include <unistd.h>

#include "auth/authfile.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "launch/rundir.h"

#define JOIN_FILE_MAX 16384

void identity_cluster_id(const uint8_t psk[static 32], uint8_t out[static HS_CLUSTER_BYTES])
{
	static const char label[] = "pskit-cluster-id";

	crypto_generichash(out, HS_CLUSTER_BYTES, (const uint8_t *)label, sizeof label - 1, psk, 32);
}

static enum err_code load_public(const char *run_dir, uint8_t pk[static 32], struct err *e)
{
	char *path = rundir_path(run_dir, "keys/coordinator.pub");
	struct buf text = BUF_INIT;
	enum err_code rc = file_read(path, 256, &text, e);

	if (!rc) {
		while (text.len && text.data[text.len - 1] == '\n')
			text.data[--text.len] = 0;
		if (!key_from_text((const char *)text.data, pk))
			rc = err_set(e, ERR_FORMAT, "\"%s\" holds no public key", path);
	}
	buf_release(&text);
	free(path);
	return rc;
}

/* "unix:" and a path short enough for a socket address. */
static enum err_code local_address(struct identity *id, struct err *e)
{
	char *path = rundir_path(id->run_dir, "coordinator.sock"), text[RUNDIR_SOCKET_PATH];
	enum err_code rc = rundir_socket_path(path, text, &id->dirfd, e);

	if (!rc)
		id->local = mem_printf("unix:%s", text);
	free(path);
	return rc;
}

static void finish(struct identity *id, const struct key_pair *key, const uint8_t psk[static 32])
{
	hs_identity_init(&id->conn.hs, key, psk);
	identity_cluster_id(psk, id->conn.cluster);
}

enum err_code identity_from_run(const char *run_dir, const char *name, struct identity *out, struct err *e)
{
	char *key_path = mem_printf("%s/keys/%s.key", run_dir, name);
	char *psk_path = rundir_path(run_dir, "keys/psk");
	struct key_pair key;
	uint8_t psk[32];
	enum err_code rc;

	*out = (struct identity){ .dirfd = -1, .run_dir = mem_strdup(run_dir) };
	snprintf(out->name, sizeof out->name, "%s", name);
	rc = key_pair_load(key_path, &key, e);
	if (!rc)
		rc = psk_load(psk_path, psk, e);
	if (!rc)
		rc = load_public(run_dir, out->server_key, e);
	if (!rc)
		rc = local_address(out, e);
	if (!rc)
		finish(out, &key, psk);
	key_pair_wipe(&key);
	sodium_memzero(psk, sizeof psk);
	free(key_path);
	free(psk_path);
	if (rc)
		identity_release(out);
	return rc;
}

/* It holds secrets: only its owner may be able to read it. */
static json_t *read_join_file(const char *file, struct err *e)
{
	char text[JOIN_FILE_MAX];
	json_t *j = NULL;
	size_t n;
	int fd;

	if (authfile_open(file, 077, sizeof text, &fd, &n, e))
		return NULL;
	if (fd_read_all(fd, text, n, e) == ERR_OK)
		j = json_parse(text, n, sizeof text, e);
	if (!j)
		err_prefix(e, "\"%s\"", file);
	close(fd);
	sodium_memzero(text, sizeof text);
	return j;
}

static bool take_key(const json_t *j, const char *name, uint8_t out[static 32])
{
	return key_from_text(json_str(j, name, ""), out);
}

enum err_code identity_from_join(const char *file, struct identity *out, struct err *e)
{
	static const char *const keys[] = { "v", "cluster", "role", "name", "data", "http", "server_key", "psk", "key", NULL };
	struct key_pair key;
	uint8_t psk[32], sk[32];
	char *credential;
	json_t *j;

	*out = (struct identity){ .dirfd = -1 };
	credential = access(file, F_OK) == 0 ? NULL : authfile_credential(file);
	j = read_join_file(credential ? credential : file, e);
	free(credential);
	if (!j)
		return e ? e->code : ERR_FORMAT;
	if (!json_only(j, "", keys, e) || !take_key(j, "server_key", out->server_key) || !take_key(j, "psk", psk) ||
	    !take_key(j, "key", sk) || !*json_str(j, "data", "")) {
		json_decref(j);
		return err_set(e, ERR_FORMAT, "\"%s\" is no join file: make one with ps-ctl invite", file);
	}
	key_pair_from_secret(&key, sk);
	finish(out, &key, psk);
	snprintf(out->name, sizeof out->name, "%s", json_str(j, "name", "guest"));
	out->data = mem_strdup(json_str(j, "data", ""));
	out->http = mem_strdup(json_str(j, "http", ""));
	key_pair_wipe(&key);
	sodium_memzero(psk, sizeof psk);
	sodium_memzero(sk, sizeof sk);
	json_decref(j);
	return ERR_OK;
}

void identity_release(struct identity *id)
{
	hs_identity_wipe(&id->conn.hs);
	if (id->dirfd >= 0)
		close(id->dirfd);
	free(id->run_dir);
	free(id->local);
	free(id->data);
	free(id->http);
	*id = (struct identity){ .dirfd = -1 };
}
