/* SPDX-License-Identifier: ISC */
#include "auth/secrets.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clock.h"
#include "core/lock.h"
#include "core/mem.h"

/* How many servers that refused the present key are remembered. */
#define REFUSED 64u

struct secrets {
	struct mutex lock;
	struct key_pair key;
	struct secret_pair pair;
	char *path, *where;
	secrets_read *read;
	struct timespec changed; /* change time and inode of the file that was read */
	ino_t inode;
	int64_t looked;
	struct {
		bool old; /* offer the previous key to this server */
		uint8_t server[KEY_BYTES];
	} refused[REFUSED];
};

void secrets_cluster(const uint8_t psk[static KEY_BYTES], uint8_t out[static HS_CLUSTER_BYTES])
{
	static const char label[] = "pskit-cluster-id";

	crypto_generichash(out, HS_CLUSTER_BYTES, (const uint8_t *)label, sizeof label - 1, psk,
	    KEY_BYTES);
}

/* *st identifies the file, for note_file_read. */
static bool file_has_changed(const struct secrets *s, struct stat *st)
{
	if (s->path == NULL || stat(s->path, st) != 0)
		return false;
	return st->st_ino != s->inode || st->st_ctim.tv_sec != s->changed.tv_sec ||
	    st->st_ctim.tv_nsec != s->changed.tv_nsec;
}

static void note_file_read(struct secrets *s, const struct stat *st)
{
	s->inode = st->st_ino;
	s->changed = st->st_ctim;
}

struct secrets *secrets_new(const struct key_pair *key, const struct secret_pair *pair, char *path,
    char *where, secrets_read *read)
{
	struct secrets *s = mem_alloc(sizeof *s);

	mutex_init(&s->lock, LOCK_SECRETS);
	s->key = *key;
	s->pair = *pair;
	s->path = path;
	s->where = where;
	s->read = read;
	/* The file's identity when `pair` was read is unknown, so the first check reads it
	 * again. */
	return s;
}

void secrets_free(struct secrets *s)
{
	if (s == NULL)
		return;
	mutex_destroy(&s->lock);
	free(s->path);
	free(s->where);
	sodium_memzero(s, sizeof *s);
	free(s);
}

static bool reread_if_changed(struct secrets *s, int64_t pause)
{
	struct secret_pair fresh = s->pair;
	int64_t now = clock_now();
	bool changed = false;
	struct stat st;

	if (s->read == NULL || (s->looked && now - s->looked < pause))
		return false;
	s->looked = now;
	/* A file that cannot be read, perhaps while it is replaced by hand, changes nothing. */
	if (file_has_changed(s, &st) && s->read(s->where, &fresh, NULL) == ERR_OK) {
		note_file_read(s, &st);
		changed = sodium_memcmp(fresh.now, s->pair.now, KEY_BYTES) != 0 ||
		    fresh.until != s->pair.until;
		s->pair = fresh;
		if (changed)
			memset(s->refused, 0, sizeof s->refused);
	}
	sodium_memzero(&fresh, sizeof fresh);
	return changed;
}

bool secrets_look(struct secrets *s, int64_t pause)
{
	bool changed;

	mutex_lock(&s->lock);
	changed = reread_if_changed(s, pause);
	mutex_unlock(&s->lock);
	return changed;
}

static bool previous_is_accepted(const struct secrets *s)
{
	return clock_wall() / NSEC_PER_SEC < s->pair.until;
}

static void fill_secret(const struct secrets *s, const uint8_t psk[static KEY_BYTES],
    struct secret *out)
{
	handshake_identity_init(&out->id, &s->key, psk);
	secrets_cluster(psk, out->cluster);
}

size_t secrets_accepted(struct secrets *s, struct secret out[static 2])
{
	size_t n = 1;

	mutex_lock(&s->lock);
	fill_secret(s, s->pair.now, &out[0]);
	if (previous_is_accepted(s))
		fill_secret(s, s->pair.before, &out[n++]);
	mutex_unlock(&s->lock);
	return n;
}

static size_t refusal_slot(const uint8_t server[static KEY_BYTES])
{
	return server[0] % REFUSED;
}

void secrets_offered(struct secrets *s, const uint8_t server[static KEY_BYTES], struct secret *out)
{
	size_t at = refusal_slot(server);
	bool old;

	mutex_lock(&s->lock);
	reread_if_changed(s, 0);
	old = s->refused[at].old && previous_is_accepted(s) &&
	    memcmp(s->refused[at].server, server, KEY_BYTES) == 0;
	fill_secret(s, old ? s->pair.before : s->pair.now, out);
	mutex_unlock(&s->lock);
}

void secrets_refused(struct secrets *s, const uint8_t server[static KEY_BYTES])
{
	size_t at = refusal_slot(server);

	mutex_lock(&s->lock);
	s->refused[at].old = memcmp(s->refused[at].server, server, KEY_BYTES) != 0 ||
	    !s->refused[at].old;
	memcpy(s->refused[at].server, server, KEY_BYTES);
	mutex_unlock(&s->lock);
}

void secrets_both(struct secrets *s, struct secret_pair *out)
{
	mutex_lock(&s->lock);
	*out = s->pair;
	mutex_unlock(&s->lock);
}
