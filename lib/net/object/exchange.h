/* SPDX-License-Identifier: ISC */
#ifndef OBJECT_EXCHANGE_H
#define OBJECT_EXCHANGE_H

/* For the files of object/: one request and its answer, with retries. One thread at a time. */
#include <string.h>

#include "object/account.h"
#include "object/client.h"

struct object_client {
	void *curl; /* CURL * */
	struct object_wishes wishes;
	struct account account; /* loaded when it is first needed */
	bool has_account;
	bool reached; /* a host has answered before */
};

struct exchange {
	/* Set by the caller; all borrowed. */
	const char *name; /* the object's name */
	const char *method;
	const char *query; /* S3 only: sorted and escaped, or NULL */
	const void *body;  /* NULL: none */
	size_t body_n;
	object_sink *sink; /* NULL: the answer is collected in reply */
	void *ctx;
	uint64_t begin, end; /* the bytes of the object that are wanted; end 0: all */
	const char *version; /* of the object that is wanted (object_part); NULL: any */

	/* The answer. */
	long status;
	struct buf reply;          /* the answer, or the text of an error */
	char etag[OBJECT_VERSION]; /* or the time of the last change; "": the store tells neither */
	/* bytes given to the sink; total: the whole object's size, UINT64_MAX: unknown */
	uint64_t got, total;
	unsigned tries;
	/* The attempt under way. */
	uint64_t skip;           /* bytes of this answer that the sink has already */
	int64_t moved_at, moved; /* time of the last progress, and bytes transferred */
	int64_t patience;        /* ns without progress until the attempt is stalled */
	bool begun, stalled, too_large;
	enum err_code fault; /* the sink's error, described in *why */
	struct err *why;
};

/* May the store be asked to compare this version (If-Match)? It must be an ETag: not a time of
 * change, none that begins with W/, which stores cannot compare (RFC 9110, 13.1.1), and a whole
 * one: a longer ETag than OBJECT_VERSION - 1 bytes was cut. */
static inline bool object_version_is_etag(const char *version)
{
	size_t n = strlen(version);

	return n > 1 && version[0] == '"' && version[n - 1] == '"';
}

/* Run the request and fill in the answer. A status of 300 or more is an error, as in client.h. */
enum err_code object_exchange_run(struct object_client *c, struct exchange *x, struct err *e);
/* Release what object_exchange_run has allocated. */
void object_exchange_release(struct exchange *x);

/* The object has changed. */
enum err_code object_fault_changed(const struct exchange *x, struct err *e);
/* object_fault.c: turn a refusal, or a call without an answer, into an error. *again: a retry
 * may help. */
enum err_code object_fault_refused(const struct object_client *c, const struct exchange *x,
    bool *again, struct err *e);
enum err_code object_fault_broken(const struct object_client *c, const struct exchange *x, int curl,
    const char *detail, bool *again, struct err *e);

#endif
