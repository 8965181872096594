#ifndef WEB_SESSIONS_H
#define WEB_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Who may use the dashboard without a key: whoever shows, once and soon, a ticket that was
 * given out on the Unix socket gets a session for it.  A session has two secrets, one to read
 * and (unless the ticket was for reading alone) one to change things: so the page can go on
 * showing what goes on after the right to change it has run out.
 *
 * Of secrets only hashes are kept; they are compared in constant time.  Thread-safe. */
struct web_sessions;

#define WEB_TICKETS 8                   /* that count at one time; a newer one takes the oldest's place */
#define WEB_SESSIONS 16                 /* the same, but the place of the one used longest ago */
#define WEB_TICKET_SECONDS 120
#define WEB_IDLE_SECONDS 900            /* a secret that was not used for so long is void */
#define WEB_TRIES 16                    /* so many wrong tickets make all that are out void */
#define WEB_SECRET 48                   /* room for a secret's text */

enum web_right {
	WEB_NONE,
	WEB_TICKET,                     /* may be exchanged */
	WEB_READ,
	WEB_CHANGE,
};

struct web_sessions *web_sessions_new(void);
void web_sessions_free(struct web_sessions *s);

/* A fresh ticket.  `now`, here and below, is clock_now(). */
void web_ticket(struct web_sessions *s, bool change, int64_t now, char out[static WEB_SECRET]);
/* What this secret is good for.  A session's counts as used now. */
enum web_right web_right(struct web_sessions *s, const char *secret, int64_t now);
/* A session for a ticket, which is used up by it; change is "" for one that may only read.
 * False: it is no ticket, or not any more. */
bool web_exchange(struct web_sessions *s, const char *ticket, int64_t now, char read[static WEB_SECRET],
    char change[static WEB_SECRET]);
/* End the session of either secret. */
void web_end(struct web_sessions *s, const char *secret);

#endif
