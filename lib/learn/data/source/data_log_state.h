/* SPDX-License-Identifier: ISC */
#ifndef DATA_LOG_STATE_H
#define DATA_LOG_STATE_H

#include "data/source/data_log.h"

/* The kinds of streams: what data_log.c has in common, and the functions of one kind. */

/* Events of a partition that wait in memory, about. */
#define LOG_WINDOW 8192u
/* Bytes of them: at most this many of a partition, and of all partitions that are read; at least this many of
 * each, and as many as data_log_need demands. */
#define LOG_WINDOW_BYTES  ((size_t)4 << 20)
#define LOG_WINDOWS_BYTES ((size_t)64 << 20)
#define LOG_WINDOW_LEAST  ((size_t)64 << 10)

#define LOG_PARTITIONS_MAX 1048576u

/* Holes of a spool begin and end at multiples of this. */
#define LOG_HOLE_BLOCK ((int64_t)65536)

/* The events of a partition that have arrived: lines of `text` from byte `used` on. end[i] is after the
 * newline of event i, place[i] where it is in the log; the events before `first` are skipped. */
struct log_partition {
	bool reading;
	struct buf text;
	size_t *end;
	int64_t *place;
	size_t first, n, room;
	size_t need;      /* data_log_need */
	int64_t next;     /* place of the next event to arrive; negative: not known */
	int64_t log_end;  /* the end of the log, in places, when it was last seen */
	double per_event; /* places of an event, on average */
};

struct data_log {
	const struct log_ops *ops;
	void *own;                /* of the kind */
	char *path, *file, *name; /* with and without the options; for messages */
	/* the place of the first event that can be trained on, after the heading; 0: there is none */
	int64_t heading_end;
	bool punched; /* the file is a spool, which has holes where its events were deleted */
	struct data_options options; /* with the decision of the head, once it is known */
	struct log_partition *partition;
	size_t n, reading; /* partitions, and those that are read */
};

/* A kind of streams. The functions are called by one thread. */
struct log_ops {
	bool numbered; /* data_log_is_numbered */
	/* Is this a path of the kind? */
	bool (*is)(const char *file, const struct data_options *o);
	/* Opens l->file; calls data_log_set_partitions. */
	enum err_code (*open)(struct data_log *l, struct err *e);
	/* As the functions of data_log.h. `fetch` adds events by data_log_add, and tells log_end. */
	enum err_code (*seek)(struct data_log *l, size_t partition, int64_t place, struct err *e);
	void (*drop)(struct data_log *l, size_t partition);
	enum err_code (*fetch)(struct data_log *l, int timeout_ms, struct err *e);
	void (*commit)(struct data_log *l, size_t partition, int64_t place, int64_t oldest);
	/* The stream has got this many partitions since it was opened. NULL: a stream of this kind keeps its
	 * number. */
	void (*extend)(struct data_log *l, size_t n);
	/* n events of the partition were skipped, or more of them are needed: there may be room for more. */
	void (*skipped)(struct data_log *l, size_t partition, size_t n);
	/* As data_log_ended_holder. NULL: no process is ever ended. */
	int (*ended_holder)(struct data_log *l);
	/* May be called after open has failed. */
	void (*close)(struct data_log *l);
};

#define LOG(name) extern const struct log_ops data_log_##name;
#include "data/source/data_log.def"
#undef LOG

/* The stream has at least this many partitions. */
void data_log_set_partitions(struct data_log *l, size_t n);
/* Adds an event of len bytes, without its newline, at this place; the next event is at `next` or after it.
 * Newlines within become blanks. An event without bytes only moves on to `next`. */
void data_log_add(struct data_log *l, size_t partition, const char *text, size_t len, int64_t place,
    int64_t next);
/* The bytes of events of one partition that may wait in memory. */
size_t data_log_window_bytes(const struct data_log *l);
/* May more events of the partition be added? */
bool data_log_has_room(const struct data_log *l, size_t partition);

#endif
