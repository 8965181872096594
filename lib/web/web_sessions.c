/* SPDX-License-Identifier: ISC */
#include "core/lock.h"
#include "web/sessions.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "auth/keyring.h"
#include "core/clock.h"
#include "core/mem.h"

/* The first letter of a secret tells its kind. A page whose session has ended keeps sending its
 * old secret, which must not count as an attempt to guess a ticket. */
#define TICKET 't'

struct secret {
	bool used;
	uint8_t hash[KEY_BYTES];
	int64_t at; /* ticket: when it was made; session: when it was used last */
};

struct ticket {
	struct secret secret;
	bool change;
};

struct session {
	struct secret read, change;
};

struct web_sessions {
	struct mutex lock;
	struct ticket ticket[WEB_TICKETS];
	struct session session[WEB_SESSIONS];
	unsigned tries; /* wrong tickets since the last was made */
};

struct web_sessions *web_sessions_new(void)
{
	struct web_sessions *s = mem_alloc(sizeof *s);

	mutex_init(&s->lock, LOCK_WEB_SESSIONS);
	return s;
}

void web_sessions_free(struct web_sessions *s)
{
	if (!s)
		return;
	mutex_destroy(&s->lock);
	sodium_memzero(s, sizeof *s);
	free(s);
}

/* Makes a secret: the letter `kind`, then 42 letters that encode 252 random bits. */
static void make_web_secret(struct secret *x, char kind, int64_t now, char out[static WEB_SECRET])
{
	keyring_token_new(out);
	out[0] = kind;
	keyring_token_hash(out, x->hash);
	x->used = true;
	x->at = now;
}

static bool matches_secret(const struct secret *x, const uint8_t hash[static KEY_BYTES])
{
	return (sodium_memcmp(x->hash, hash, KEY_BYTES) == 0) & x->used;
}

static bool is_secret_valid(const struct secret *x, int64_t now, int64_t seconds)
{
	return x->used && now - x->at < seconds * NSEC_PER_SEC;
}

/* Clears tickets and secrets that are too old. The caller holds the lock. */
static void expire_secrets(struct web_sessions *s, int64_t now)
{
	mutex_assert_held(&s->lock);
	for (size_t i = 0; i < WEB_TICKETS; i++)
		if (!is_secret_valid(&s->ticket[i].secret, now, WEB_TICKET_SECONDS))
			sodium_memzero(&s->ticket[i], sizeof s->ticket[i]);
	for (size_t i = 0; i < WEB_SESSIONS; i++) {
		if (!is_secret_valid(&s->session[i].read, now, WEB_IDLE_SECONDS))
			sodium_memzero(&s->session[i].read, sizeof s->session[i].read);
		if (!is_secret_valid(&s->session[i].change, now, WEB_IDLE_SECONDS))
			sodium_memzero(&s->session[i].change, sizeof s->session[i].change);
	}
}

void web_ticket_new(struct web_sessions *s, bool change, int64_t now, char out[static WEB_SECRET])
{
	struct ticket *at = &s->ticket[0];

	mutex_lock(&s->lock);
	expire_secrets(s, now);
	for (size_t i = 1; i < WEB_TICKETS; i++)
		if (s->ticket[i].secret.at < at->secret.at)
			at = &s->ticket[i];
	make_web_secret(&at->secret, TICKET, now, out);
	at->change = change;
	s->tries = 0;
	mutex_unlock(&s->lock);
}

/* Finds a ticket, and counts wrong ones. Compares with all tickets, so that the time does not tell
 * which one matched. The caller holds the lock. */
static struct ticket *find_web_ticket(struct web_sessions *s, const char *text)
{
	struct ticket *found = NULL;
	uint8_t hash[KEY_BYTES];

	mutex_assert_held(&s->lock);
	keyring_token_hash(text, hash);
	for (size_t i = 0; i < WEB_TICKETS; i++)
		if (matches_secret(&s->ticket[i].secret, hash))
			found = &s->ticket[i];
	if (found || text[0] != TICKET || ++s->tries < WEB_TRIES)
		return found;
	sodium_memzero(s->ticket, sizeof s->ticket);
	s->tries = 0;
	return NULL;
}

/* Finds the session that has this secret, and sets *which to it. Compares with all secrets, so
 * that the time does not tell which one matched. The caller holds the lock. */
static struct session *find_web_session(struct web_sessions *s, const char *text,
    struct secret **which)
{
	struct session *found = NULL;
	uint8_t hash[KEY_BYTES];

	mutex_assert_held(&s->lock);
	keyring_token_hash(text, hash);
	for (size_t i = 0; i < WEB_SESSIONS; i++) {
		struct secret *both[] = { &s->session[i].read, &s->session[i].change };

		for (size_t k = 0; k < 2; k++)
			if (matches_secret(both[k], hash)) {
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

	mutex_lock(&s->lock);
	expire_secrets(s, now);
	session = find_web_session(s, secret, &which);
	if (session) {
		which->at = now;
		right = which == &session->change ? WEB_CHANGE : WEB_READ;
	} else if (find_web_ticket(s, secret)) {
		right = WEB_TICKET;
	}
	mutex_unlock(&s->lock);
	return right;
}

static int64_t session_last_used(const struct session *x)
{
	return x->read.at > x->change.at ? x->read.at : x->change.at;
}

bool web_session_open(struct web_sessions *s, const char *ticket, int64_t now,
    char read[static WEB_SECRET], char change[static WEB_SECRET])
{
	struct session *at = &s->session[0];
	struct ticket *t;
	bool good;

	change[0] = 0;
	mutex_lock(&s->lock);
	expire_secrets(s, now);
	t = find_web_ticket(s, ticket);
	good = t != NULL;
	for (size_t i = 1; good && i < WEB_SESSIONS; i++)
		if (session_last_used(&s->session[i]) < session_last_used(at))
			at = &s->session[i];
	if (good) {
		sodium_memzero(at, sizeof *at);
		make_web_secret(&at->read, 'r', now, read);
		if (t->change)
			make_web_secret(&at->change, 'c', now, change);
		sodium_memzero(t, sizeof *t);
	}
	mutex_unlock(&s->lock);
	return good;
}

void web_session_end(struct web_sessions *s, const char *secret)
{
	struct session *session;
	struct secret *which;

	mutex_lock(&s->lock);
	session = find_web_session(s, secret, &which);
	if (session)
		sodium_memzero(session, sizeof *session);
	mutex_unlock(&s->lock);
}
