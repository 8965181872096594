#ifndef OBJECT_EXCHANGE_H
#define OBJECT_EXCHANGE_H

/* Inside of object/: one request and its answer, tried again where that can help. */
#include "object/account.h"
#include "object/client.h"

struct object_client {
	void *curl;                     /* CURL * */
	struct object_wishes wishes;
	struct account account;         /* when it has been asked for */
	bool has_account;
	bool reached;                   /* somebody has answered */
};

struct exchange {
	/* To be set; all borrowed. */
	const char *name;               /* of the object */
	const char *method;
	const char *query;              /* of S3: sorted and escaped, or NULL */
	const void *body;               /* NULL: none */
	size_t body_n;
	object_sink *sink;              /* NULL: the answer is kept */
	void *ctx;

	/* The answer. */
	long status;
	struct buf reply;               /* or what an error has to say */
	char etag[128];                 /* "": it was not told */
	uint64_t got, total;            /* bytes for the sink; total: of the object, UINT64_MAX: not told */
	unsigned tries;
	/* Of the attempt under way. */
	uint64_t skip;                  /* bytes of it that the sink has already */
	int64_t moved_at, moved;        /* when something came or went last; how much so far */
	int64_t patience;               /* ns without that */
	bool begun, stalled, too_large;
	enum err_code fault;            /* of the sink; told in *why */
	struct err *why;
};

/* Fills the answer.  A status of 300 and more is an error, as client.h has it. */
enum err_code exchange_run(struct object_client *c, struct exchange *x, struct err *e);
void exchange_release(struct exchange *x);

/* object_fault.c: the sentence for an answer, and for a call that brought none; *again: it may be
 * over soon. */
enum err_code exchange_refused(const struct object_client *c, const struct exchange *x, bool *again, struct err *e);
enum err_code exchange_broken(const struct object_client *c, const struct exchange *x, int curl, const char *detail,
                              bool *again, struct err *e);

#endif
