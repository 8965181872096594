/* SPDX-License-Identifier: ISC */
#include "serving/bearer_tokens.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/file.h"
#include "core/lock.h"
#include "core/mem.h"

#define FILE_MAX   ((size_t)1 << 20)
#define HASH_BYTES 32u

struct bearer_tokens {
	char *path;
	uint8_t key[crypto_generichash_KEYBYTES]; /* of the hashes, new in each process */
	struct mutex lock;                        /* of the list */
	uint8_t (*hash)[HASH_BYTES];
	size_t n;
};

static void hash_token(const struct bearer_tokens *t, const char *token, size_t n,
    uint8_t out[static HASH_BYTES])
{
	crypto_generichash(out, HASH_BYTES, (const uint8_t *)token, n, t->key, sizeof t->key);
}

static enum err_code check_file(const char *path, struct err *e)
{
	struct stat st;

	if (stat(path, &st))
		return err_sys(e, ERR_CONFIG, "serve_tokens: cannot read \"%s\"", path);
	if (st.st_mode & 077 || (st.st_uid != getuid() && st.st_uid != 0))
		return err_set(e, ERR_CONFIG,
		    "serve_tokens: \"%s\" must belong to this user, and only they may read it: "
		    "chmod 600 %s",
		    path, path);
	return ERR_OK;
}

/* Hashes the tokens of the text, which is changed. */
static enum err_code hash_lines(const struct bearer_tokens *t, char *text,
    uint8_t (**out)[HASH_BYTES], size_t *n, struct err *e)
{
	size_t room = 0, number = 0;
	char *line;

	while ((line = strsep(&text, "\n"))) {
		size_t len = strcspn(line, " \t\r");

		number++;
		if (!len || line[0] == '#')
			continue;
		if (line[len + strspn(line + len, " \t\r")] != '\0' || len < BEARER_TOKEN_MIN)
			return err_set(e, ERR_CONFIG,
			    "serve_tokens: line %zu of \"%s\" is not a token: it must be one word of at "
			    "least %d characters",
			    number, t->path, BEARER_TOKEN_MIN);
		*out = mem_grow(*out, &room, *n + 1, sizeof **out);
		hash_token(t, line, len, (*out)[(*n)++]);
	}
	return *n ? ERR_OK : err_set(e, ERR_CONFIG, "serve_tokens: \"%s\" has no token", t->path);
}

enum err_code bearer_tokens_load(struct bearer_tokens *t, struct err *e)
{
	struct buf text = BUF_INIT;
	uint8_t(*hash)[HASH_BYTES] = NULL;
	size_t n = 0;
	enum err_code rc = check_file(t->path, e);

	if (!rc && file_read(t->path, FILE_MAX, &text, e))
		rc = err_prefix(e, "serve_tokens");
	if (rc && e)
		rc = e->code = ERR_CONFIG;
	if (!rc) {
		buf_append(&text, "", 1);
		rc = hash_lines(t, (char *)text.data, &hash, &n, e);
	}
	if (!rc) {
		mutex_lock(&t->lock);
		free(t->hash);
		t->hash = hash;
		t->n = n;
		mutex_unlock(&t->lock);
		hash = NULL;
	}
	free(hash);
	if (text.data)
		sodium_memzero(text.data, text.len);
	buf_release(&text);
	return rc;
}

enum err_code bearer_tokens_open(const char *path, struct bearer_tokens **out, struct err *e)
{
	struct bearer_tokens *t = mem_alloc(sizeof *t);
	enum err_code rc;

	t->path = mem_strdup(path);
	randombytes_buf(t->key, sizeof t->key);
	mutex_init(&t->lock, LOCK_BEARER_TOKENS);
	rc = bearer_tokens_load(t, e);
	*out = rc ? NULL : t;
	if (rc)
		bearer_tokens_free(t);
	return rc;
}

void bearer_tokens_free(struct bearer_tokens *t)
{
	if (!t)
		return;
	mutex_destroy(&t->lock);
	free(t->hash);
	free(t->path);
	free(t);
}

bool bearer_tokens_have(struct bearer_tokens *t, const char *token)
{
	uint8_t mine[HASH_BYTES];
	bool found = false;

	hash_token(t, token, strlen(token), mine);
	mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n; i++)
		found |= sodium_memcmp(t->hash[i], mine, sizeof mine) == 0;
	mutex_unlock(&t->lock);
	return found;
}
