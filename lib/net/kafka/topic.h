/* SPDX-License-Identifier: ISC */
#ifndef KAFKA_TOPIC_H
#define KAFKA_TOPIC_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"

/* Reads a topic of Kafka: partitions from given offsets on, each with its own window. This is the
 * only module that knows librdkafka, and ps-ctl the only program that contains it
 * (format/log_record.h).
 *
 * The topic is read by assignment, without a group's coordination: another program decides which
 * process reads which partition. Only events of committed transactions are seen.
 *
 * While no broker answers, all functions that ask one try on; `tell` says so once, and once more
 * when one answers again. They give up when `stop` says so (ERR_STOPPED). One thread; librdkafka
 * has its own, which call nothing of ours. */
struct topic;

struct topic_config {
	const char *brokers; /* HOST:PORT,HOST:PORT,... */
	const char *name;    /* of the topic */
	const char *group;   /* for offsets that are committed */
	const char
	    *properties;   /* a file of librdkafka's properties, a "key=value" a line; NULL: none */
	const char *from;  /* where a new job begins: "begin", "end", "group" or an offset */
	bool skip_deleted; /* go on with the oldest event when events were deleted before */
	/* A line for the user. */
	void (*tell)(void *ctx, bool warning, const char *text);
	bool (*stop)(void *ctx);
	void *ctx;
};

/* The strings of cfg are borrowed until topic_close. ERR_CONFIG: wrong properties. ERR_NOTFOUND:
 * there is no such topic. ERR_AUTH: the broker refuses us. */
enum err_code topic_open(const struct topic_config *cfg, struct topic **out, struct err *e);
void topic_close(struct topic *t); /* NULL is fine */
uint32_t topic_partitions(const struct topic *t);
/* Readable when topic_take may have something. */
int topic_fd(const struct topic *t);

/* The oldest offset, the end, and the group's committed offset (-1: none) of a partition. */
enum err_code topic_offsets(struct topic *t, uint32_t partition, int64_t *oldest, int64_t *end,
    int64_t *group, struct err *e);

/* Events that may be sent, and bytes of them. */
struct topic_credit {
	int64_t events, bytes;
};
/* The commands of format/log_record.h. topic_seek appends a record to out. */
enum err_code topic_seek(struct topic *t, uint32_t partition, int64_t place, uint32_t serial,
    struct topic_credit n, struct buf *out, struct err *e);
void topic_more(struct topic *t, uint32_t partition, struct topic_credit n);
void topic_drop(struct topic *t, uint32_t partition);
void topic_commit(struct topic *t, uint32_t partition, int64_t place);
/* Appends the records of the events that have arrived to out. Never waits. ERR_IO: events have been
 * deleted that were not read. ERR_LIMIT: an event is too long. */
enum err_code topic_take(struct topic *t, struct buf *out, struct err *e);

/* Does the commands that arrive on the descriptor `in`, and writes the records to `out`, until `in`
 * ends. */
enum err_code topic_serve(struct topic *t, int in, int out, struct err *e);

#endif
