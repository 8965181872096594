/* SPDX-License-Identifier: ISC */
#ifndef WEB_SESSIONS_H
#define WEB_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Sessions of browsers, which have no key. The Unix socket gives out tickets; a ticket can be
 * exchanged once, within WEB_TICKET_SECONDS, for a session. A session has a secret for reading
 * and, unless the ticket was read-only, another one for changing things. Each expires when it was
 * not used for WEB_IDLE_SECONDS: the page keeps showing the cluster after the right to change it
 * has expired.
 *
 * Only hashes of secrets are stored, and they are compared in constant time. One mutex guards
 * everything; all functions may be called from any thread. */
struct web_sessions;

#define WEB_TICKETS        8  /* valid at one time; a new one replaces the oldest */
#define WEB_SESSIONS       16 /* at one time; a new one replaces the least recently used */
#define WEB_TICKET_SECONDS 120
#define WEB_IDLE_SECONDS   900 /* an unused secret expires after this */
#define WEB_TRIES          16  /* this many wrong tickets revoke all tickets */
#define WEB_SECRET         48  /* bytes of a secret's text, with its NUL */

enum web_right {
	WEB_NONE,
	WEB_TICKET, /* may be exchanged */
	WEB_READ,
	WEB_CHANGE,
};

struct web_sessions *web_sessions_new(void);
void web_sessions_free(struct web_sessions *s);

/* Makes a ticket; change: its session may change things. `now`, here and below, is clock_now(). */
void web_ticket_new(struct web_sessions *s, bool change, int64_t now, char out[static WEB_SECRET]);
/* Returns what this secret permits. A session's secret counts as used now. */
enum web_right web_right(struct web_sessions *s, const char *secret, int64_t now);
/* Exchanges a ticket for a session, and returns its secrets; change is "" if it may only read.
 * Returns false when the ticket is unknown, used or expired. */
bool web_session_open(struct web_sessions *s, const char *ticket, int64_t now,
    char read[static WEB_SECRET], char change[static WEB_SECRET]);
/* Ends the session to which this secret belongs, of either kind. */
void web_session_end(struct web_sessions *s, const char *secret);

#endif
