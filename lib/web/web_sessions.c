#include "web/sessions.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "auth/keyring.h"
#include "base/clock.h"
#include "base/mem.h"

/* Tickets are told from sessions by how they begin: a page whose session has ended goes on
 * asking, and must not count as one that guesses tickets. */
#define TICKET 't'

struct secret {
	bool used;
	uint8_t hash[KEY_BYTES];
	int64_t at;                     /* of a ticket: made; of a session's: used last */
};

struct ticket {
	struct secret secret;
	bool change;
};

struct session {
	struct secret read, change;
};

struct web_sessions {
	pthread_mutex_t lock;
	struct ticket ticket[WEB_TICKETS];
	struct session session[WEB_SESSIONS];
	unsigned tries;                 /* wrong tickets since the last was made */
};

struct web_sessions *web_sessions_new(void)
{
	struct web_sessions *s = mem_alloc(sizeof *s);

	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void web_sessions_free(struct web_sessions *s)
{
	if (!s)
		return;
	pthread_mutex_destroy(&s->lock);
	sodium_memzero(s, sizeof *s);
	free(s);
}

/* "t" and 42 letters of 252 random bits. */
static void make(struct secret *x, char kind, int64_t now, char out[static WEB_SECRET])
{
	keyring_token_new(out);
	out[0] = kind;
	keyring_token_hash(out, x->hash);
	x->used = true;
	x->at = now;
}

static bool is(const struct secret *x, const uint8_t hash[static KEY_BYTES])
{
	return (sodium_memcmp(x->hash, hash, KEY_BYTES) == 0) & x->used;
}

static bool lives(const struct secret *x, int64_t now, int64_t seconds)
{
	return x->used && now - x->at < seconds * NSEC_PER_SEC;
}

/* With the lock held: what is too old is gone. */
static void expire(struct web_sessions *s, int64_t now)
{
	for (size_t i = 0; i < WEB_TICKETS; i++)
		if (!lives(&s->ticket[i].secret, now, WEB_TICKET_SECONDS))
			sodium_memzero(&s->ticket[i], sizeof s->ticket[i]);
	for (size_t i = 0; i < WEB_SESSIONS; i++) {
		if (!lives(&s->session[i].read, now, WEB_IDLE_SECONDS))
			sodium_memzero(&s->session[i].read, sizeof s->session[i].read);
		if (!lives(&s->session[i].change, now, WEB_IDLE_SECONDS))
			sodium_memzero(&s->session[i].change, sizeof s->session[i].change);
	}
}

void web_ticket(struct web_sessions *s, bool change, int64_t now, char out[static WEB_SECRET])
{
	struct ticket *at = &s->ticket[0];

	pthread_mutex_lock(&s->lock);
	expire(s, now);
	for (size_t i = 1; i < WEB_TICKETS; i++)
		if (s->ticket[i].secret.at < at->secret.at)
			at = &s->ticket[i];
	make(&at->secret, TICKET, now, out);
	at->change = change;
	s->tries = 0;
	pthread_mutex_unlock(&s->lock);
}

/* Looks at all of them, whichever it is. */
static struct ticket *find_ticket(struct web_sessions *s, const char *text)
{
	struct ticket *found = NULL;
	uint8_t hash[KEY_BYTES];

	keyring_token_hash(text, hash);
	for (size_t i = 0; i < WEB_TICKETS; i++)
		if (is(&s->ticket[i].secret, hash))
			found = &s->ticket[i];
	if (found || text[0] != TICKET || ++s->tries < WEB_TRIES)
		return found;
	sodium_memzero(s->ticket, sizeof s->ticket);
	s->tries = 0;
	return NULL;
}

static struct session *find_session(struct web_sessions *s, const char *text, struct secret **which)
{
	struct session *found = NULL;
	uint8_t hash[KEY_BYTES];

	keyring_token_hash(text, hash);
	for (size_t i = 0; i < WEB_SESSIONS; i++) {
		struct secret *both[] = { &s->session[i].read, &s->session[i].change };

		for (size_t k = 0; k < 2; k++)
			if (is(both[k], hash)) {
				found = &s->session[i];
				*which = both[k];
			}
	}
	return found;
}

enum web_right web_right(struct web_sessions *s, const char *secret, int64_t now)
{
	enum web_right right = WEB_NONE;
	struct session *session;
	struct secret *which = NULL;

	pthread_mutex_lock(&s->lock);
	expire(s, now);
	session = find_session(s, secret, &which);
	if (session) {
		which->at = now;
		right = which == &session->change ? WEB_CHANGE : WEB_READ;
	} else if (find_ticket(s, secret)) {
		right = WEB_TICKET;
	}
	pthread_mutex_unlock(&s->lock);
	return right;
}

static int64_t last_used(const struct session *x)
{
	return x->read.at > x->change.at ? x->read.at : x->change.at;
}

bool web_exchange(struct web_sessions *s, const char *ticket, int64_t now, char read[static WEB_SECRET],
    char change[static WEB_SECRET])
{
	struct session *at = &s->session[0];
	struct ticket *t;
	bool good;

	change[0] = 0;
	pthread_mutex_lock(&s->lock);
	expire(s, now);
	t = find_ticket(s, ticket);
	good = t != NULL;
	for (size_t i = 1; good && i < WEB_SESSIONS; i++)
		if (last_used(&s->session[i]) < last_used(at))
			at = &s->session[i];
	if (good) {
		sodium_memzero(at, sizeof *at);
		make(&at->read, 'r', now, read);
		if (t->change)
			make(&at->change, 'c', now, change);
		sodium_memzero(t, sizeof *t);
	}
	pthread_mutex_unlock(&s->lock);
	return good;
}

void web_end(struct web_sessions *s, const char *secret)
{
	struct session *session;
	struct secret *which;

	pthread_mutex_lock(&s->lock);
	session = find_session(s, secret, &which);
	if (session)
		sodium_memzero(session, sizeof *session);
	pthread_mutex_unlock(&s->lock);
}
