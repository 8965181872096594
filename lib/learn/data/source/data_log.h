/* SPDX-License-Identifier: ISC */
#ifndef DATA_LOG_H
#define DATA_LOG_H

#include "core/buf.h"
#include "data/data.h"

/* Streams: training data that grow while they are read, without an end.
 *
 * A stream is a log of events in one or more partitions. An event is a line, or a message, and one example
 * in any format whose examples are lines. Each event has a place, a number that grows along its partition
 * and stays the same for ever: a byte of a file, an offset of a topic. So events can be read again from any
 * place on, as long as the log keeps them.
 *
 *   FILE?follow=yes            a file that is appended to; one partition (data_log_file.c)
 *   PIPE?follow=yes            a named pipe; one partition (data_log_pipe.c)
 *   kafka://HOST:PORT/TOPIC    a topic of Kafka, with its partitions (data_log_kafka.c)
 *
 * Life of a partition: data_log_seek --> (data_log_fetch --> data_log_ready events --> data_log_load or
 * data_log_skip)* --> data_log_drop. Events that have arrived wait in memory, some thousands of
 * each partition at most, and about 64 MiB of all. One thread. */
struct data_log;

/* Places that are not known yet: where the option "from" lets a new job begin, and the oldest event that the
 * log still has. */
#define DATA_LOG_BEGIN  (-1)
#define DATA_LOG_OLDEST (-2)

/* Does this path name a stream? */
bool data_log_is(const char *path);

/* Opens the stream that the path names. ERR_CONFIG: wrong options. ERR_NOTFOUND: it does not exist. ERR_IO,
 * ERR_UNREACH: it cannot be read. A broker that does not answer is waited for. */
enum err_code data_log_open(const char *path, const char *base_dir, struct data_log **out,
    struct err *e);
/* NULL is fine. */
void data_log_close(struct data_log *l);
size_t data_log_partitions(const struct data_log *l);
/* The name for messages: the path without its options. */
const char *data_log_name(const struct data_log *l);
/* Events of which the head consists, as the option "head" says. */
size_t data_log_head_events(const struct data_log *l);

/* Reads the partition from this place on, which may be DATA_LOG_BEGIN or DATA_LOG_OLDEST. Does not wait. */
enum err_code data_log_seek(struct data_log *l, size_t partition, int64_t place, struct err *e);
/* Reads the partition no more. */
void data_log_drop(struct data_log *l, size_t partition);

/* Takes the events that have arrived of all partitions that are read. When there are none, waits for at most
 * so long. ERR_IO: an event that was not yet read has been deleted, or the log is damaged. A broker that
 * does not answer is not an error. */
enum err_code data_log_fetch(struct data_log *l, int timeout_ms, struct err *e);
/* Lets at least n events of the partition arrive before the first one is skipped. */
void data_log_need(struct data_log *l, size_t partition, size_t n);
/* The number of events that have arrived and were not skipped. */
size_t data_log_ready(const struct data_log *l, size_t partition);
/* The place of the first of them, or of the next one that will arrive; negative: not known yet. */
int64_t data_log_place(const struct data_log *l, size_t partition);
/* Do the places number the events one by one, so that a missing place is an event that is gone? Places of
 * other logs are bytes, of which none ever goes. */
bool data_log_is_numbered(const struct data_log *l);
/* The place up to which all events have arrived; negative: not known yet. */
int64_t data_log_arrived(const struct data_log *l, size_t partition);
/* The number of ready events before this place. */
size_t data_log_ready_before(const struct data_log *l, size_t partition, int64_t place);
/* The place of ready event i, from 0 on. */
int64_t data_log_place_of(const struct data_log *l, size_t partition, size_t i);
/* Drops the first n ready events. */
void data_log_skip(struct data_log *l, size_t partition, size_t n);
/* About how many events the log has from data_log_place on. */
uint64_t data_log_lag(const struct data_log *l, size_t partition);
/* Tells the log that a checkpoint has all events before `place`, for others who look at it, and that all
 * checkpoints that are kept have the events before `oldest`; -1: that is not known. */
void data_log_commit(struct data_log *l, size_t partition, int64_t place, int64_t oldest);

/* The process that was ended because it was stopped (SIGSTOP) and kept the lock of a pipe's spool while lines
 * waited. Each is returned once; 0: none. */
int data_log_ended_holder(struct data_log *l);

/* Holds the named pipe open that a path stands for, so that its bytes stay while no worker lives. *out: NULL
 * where the path is not a pipe that is followed. ERR_IO, ERR_CONFIG. */
struct data_log_hold;
enum err_code data_log_hold(const char *path, struct data_log_hold **out, struct err *e);
/* Moves what the pipe has to its spool, unless a worker does, and closes it. NULL is fine. */
void data_log_release(struct data_log_hold *h);

/* Makes a dataset of the first n ready events, which stay, for a model that was made for `like`. *out: NULL
 * when they have no example. Errors as data_load; lines count from the place that the message names. An event
 * that cannot be parsed is a bad line (data_bad_lines.h): it is left out if want->bad lets it be skipped. */
enum err_code data_log_load(struct data_log *l, size_t partition, size_t n,
    const struct data_want *want, const struct dataset *like, struct dataset **out, struct err *e);
/* Reads the first events of the stream, at most data_log_head_events, waiting at most so long for more of
 * them once there is one, and makes a dataset of them. interrupted, which may be NULL, is asked now and then.
 * All partitions must be dropped. ERR_STOPPED: interrupted. Errors as data_log_fetch and data_load. */
enum err_code data_log_head(struct data_log *l, const struct data_want *want, int timeout_ms,
    bool (*interrupted)(void *ctx), void *ctx, struct dataset **out, struct err *e);
/* In place of data_log_head, where the head is known already: takes over its decision, and reads the
 * line that has names, if there is one. */
enum err_code data_log_know_head(struct data_log *l, const struct dataset *head,
    bool (*interrupted)(void *ctx), void *ctx, struct err *e);

#endif
