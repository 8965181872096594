/* SPDX-License-Identifier: ISC */
#ifndef MSG_CLUSTER_STATUS_H
#define MSG_CLUSTER_STATUS_H

/* Answers of the coordinator over HTTP, and lines of its files, as structs for the processes that
 * act on it. cluster_status.def has the members, and this module is the only one that reads them by
 * their keys. Texts and documents in a struct belong to the document that it was decoded from. The
 * functions are pure and may run on any thread. ERR_PROTO: a member has the wrong type or is out of
 * bounds. */
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/json.h"
#include "msg/words.h"

#define BEGIN(name)                       struct name {
#define INT(member, least, most, missing) int64_t member;
#define NUM(member)                       double member;
#define FLAG(member)                      _Alignas(8) bool member;
#define TEXT(member)                      const char *member;
#define WORD(member, words)               int64_t member;
#define DOC(member)                       const json_t *member;
#define OBJECT(member, name)              const struct name *member;
#define LIST(member, name, most) \
	const struct name *member; \
	uint64_t n##member;
#define END(name) \
	} \
	;
#include "msg/cluster_status.def"

/* Decodes a status, and takes a reference of the document. NULL: it is none, or is malformed. */
struct cluster_status *cluster_status_decode(const json_t *json);
/* NULL is fine. */
void cluster_status_free(struct cluster_status *s);
/* The document that the status was decoded from, borrowed; NULL for NULL. */
const json_t *cluster_status_document(const struct cluster_status *s);

/* The job in an answer to GET /v1/config; zeros without one. */
enum err_code cluster_job_decode(const json_t *config, struct cluster_job *out, struct err *e);
/* A line of events.jsonl. */
enum err_code cluster_event_decode(const json_t *line, struct cluster_event *out, struct err *e);
/* A status, or a line of metrics.jsonl. */
enum err_code cluster_progress_decode(const json_t *json, struct cluster_progress *out,
    struct err *e);
/* A line of ps-ctl checkpoint push --json. */
enum err_code cluster_stored_decode(const json_t *line, struct cluster_stored *out, struct err *e);

#endif
