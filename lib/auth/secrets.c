#include "auth/secrets.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"

/* Servers that have refused the present secret: so many are remembered. */
#define REFUSED 64u

struct secrets {
	pthread_mutex_t lock;
	struct key_pair key;
	struct secret_pair pair;
	char *path, *where;
	secrets_read *read;
	struct timespec changed;        /* of the file, as it was read, and which one it was */
	ino_t inode;
	int64_t looked;
	struct {
		bool old;               /* offer it the one before */
		uint8_t server[KEY_BYTES];
	} refused[REFUSED];
};

void secrets_cluster(const uint8_t psk[static KEY_BYTES], uint8_t out[static HS_CLUSTER_BYTES])
{
	static const char label[] = "pskit-cluster-id";

	crypto_generichash(out, HS_CLUSTER_BYTES, (const uint8_t *)label, sizeof label - 1, psk, KEY_BYTES);
}

/* *st: which one it is, for was_read. */
static bool is_another(const struct secrets *s, struct stat *st)
{
	if (s->path == NULL || stat(s->path, st) != 0)
		return false;
	return st->st_ino != s->inode || st->st_ctim.tv_sec != s->changed.tv_sec || st->st_ctim.tv_nsec != s->changed.tv_nsec;
}

static void was_read(struct secrets *s, const struct stat *st)
{
	s->inode = st->st_ino;
	s->changed = st->st_ctim;
}

struct secrets *secrets_new(const struct key_pair *key, const struct secret_pair *pair, char *path, char *where,
                            secrets_read *read)
{
	struct secrets *s = mem_alloc(sizeof *s);

	pthread_mutex_init(&s->lock, NULL);
	s->key = *key;
	s->pair = *pair;
	s->path = path;
	s->where = where;
	s->read = read;
	/* What has changed since it was read is read at the first look: the file of then is not
	 * known. */
	return s;
}

void secrets_free(struct secrets *s)
{
	if (s == NULL)
		return;
	pthread_mutex_destroy(&s->lock);
	free(s->path);
	free(s->where);
	sodium_memzero(s, sizeof *s);
	free(s);
}

static bool look(struct secrets *s, int64_t pause)
{
	struct secret_pair fresh = s->pair;
	int64_t now = clock_now();
	bool changed = false;
	struct stat st;

	if (s->read == NULL || (s->looked && now - s->looked < pause))
		return false;
	s->looked = now;
	/* One that cannot be read, as it is being replaced by hand, changes nothing. */
	if (is_another(s, &st) && s->read(s->where, &fresh, NULL) == ERR_OK) {
		was_read(s, &st);
		changed = sodium_memcmp(fresh.now, s->pair.now, KEY_BYTES) != 0 || fresh.until != s->pair.until;
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

	pthread_mutex_lock(&s->lock);
	changed = look(s, pause);
	pthread_mutex_unlock(&s->lock);
	return changed;
}

static bool before_holds(const struct secrets *s)
{
	return clock_wall() / NSEC_PER_SEC < s->pair.until;
}

static void put(const struct secrets *s, const uint8_t psk[static KEY_BYTES], struct secret *out)
{
	hs_identity_init(&out->id, &s->key, psk);
	secrets_cluster(psk, out->cluster);
}

size_t secrets_accepted(struct secrets *s, struct secret out[static 2])
{
	size_t n = 1;

	pthread_mutex_lock(&s->lock);
	put(s, s->pair.now, &out[0]);
	if (before_holds(s))
		put(s, s->pair.before, &out[n++]);
	pthread_mutex_unlock(&s->lock);
	return n;
}

static size_t place(const uint8_t server[static KEY_BYTES])
{
	return server[0] % REFUSED;
}

void secrets_offered(struct secrets *s, const uint8_t server[static KEY_BYTES], struct secret *out)
{
	size_t at = place(server);
	bool old;

	pthread_mutex_lock(&s->lock);
	look(s, 0);
	old = s->refused[at].old && before_holds(s) && memcmp(s->refused[at].server, server, KEY_BYTES) == 0;
	put(s, old ? s->pair.before : s->pair.now, out);
	pthread_mutex_unlock(&s->lock);
}

void secrets_refused(struct secrets *s, const uint8_t server[static KEY_BYTES])
{
	size_t at = place(server);

	pthread_mutex_lock(&s->lock);
	s->refused[at].old = memcmp(s->refused[at].server, server, KEY_BYTES) != 0 || !s->refused[at].old;
	memcpy(s->refused[at].server, server, KEY_BYTES);
	pthread_mutex_unlock(&s->lock);
}

void secrets_both(struct secrets *s, struct secret_pair *out)
{
	pthread_mutex_lock(&s->lock);
	*out = s->pair;
	pthread_mutex_unlock(&s->lock);
}
