/* SPDX-License-Identifier: ISC */
#ifndef SERVING_SERVED_H
#define SERVING_SERVED_H

#include "core/log.h"
#include "tool/score.h"

/* The served model: what the endpoints of a read-only server (HTTP and others) answer from, and how
 * a new model takes its place.
 *
 * A source of parameters belongs to one thread at a time, so each endpoint thread has a reader with
 * a model of its own, which it uses without a lock. A watcher, one thread for all readers, asks the
 * origin (origin.h) whether there is another model, opens and checks it once for each reader, and
 * hands the models over. A reader takes its new model when it asks for the model the next time:
 *
 *   watcher:  open and check --> hand over -------------------------+        +--> close
 *                                                                   v        |
 *   reader:                served_use --> ... answers ... --> served_use --> the old one is retired
 *
 * So everything that a reader answers between two calls of served_use comes from one model, no
 * request waits for a file, and the old model is closed when no request uses it. A model that is
 * damaged, or of other tables, is refused: the log says so once, and the present one stays.
 *
 * Threads: served_use and served_reader_close belong to the reader's thread. The other calls may
 * come from any thread, unless they say otherwise. LOCK_SERVED covers the list of readers and the
 * models on their way, and is held for pointers only. */
struct served;
struct served_reader;
struct served_origin;

/* A model that a reader uses. All of it belongs to the reader's thread until it calls served_use
 * again. */
struct served_model {
	struct param_source *source; /* with its layout, configuration and facts */
	/* The job with its model and its parameters, to score examples with. Only if `scores`;
	 * else why_not says why not: the model predicts nothing. */
	struct scoring scoring;
	bool scores;
	struct err why_not;
	/* The name of its values: "step-000000001000", a time as "20261130T140501Z", or "live". */
	char version[64];
	/* The time of its values in ns since 1970, where they are constant; 0: they follow a
	 * cluster. */
	int64_t made;
	/* Dense tables whose values may change are read again when they are older than this (ns). */
	int64_t fresh, pulled; /* pulled: clock_now of the last read; 0: never */
	uint64_t number;       /* from 1, for each model since the server began */
	struct served_origin *origin;
	void *own;                 /* of the origin */
	struct served_model *next; /* of served.c */
};

/* Makes the served model of an origin, which becomes served's. Opens nothing yet. */
struct served *served_new(struct served_origin *origin, struct log *log);
/* Makes a reader with a model of its own, which is opened and checked now. wake(ctx) is called by
 * the watcher when a new model has been handed over; it must not block; NULL: it is not called.
 * Errors of the origin: ERR_NOTFOUND, ERR_FORMAT, ERR_CONFIG, ERR_NOMEM, ERR_NOTREADY. */
enum err_code served_reader_open(struct served *s, void (*wake)(void *ctx), void *ctx,
    struct served_reader **out, struct err *e);
/* The newest model that was handed over. What an earlier call has returned, and all that it lent,
 * must not be used any more. Never blocks. */
struct served_model *served_use(struct served_reader *r);
/* NULL is fine. */
void served_reader_close(struct served_reader *r);

/* Starts the watcher, after the first readers were opened. ERR_IO. */
enum err_code served_start(struct served *s, struct err *e);
/* Has the watcher look now, and take the model again if its origin cannot tell whether it has
 * changed. For SIGHUP. */
void served_look(struct served *s);
/* Ends the watcher and frees what is left. All readers must have been closed. NULL is fine. */
void served_free(struct served *s);

/* The age of the values in ns; -1: not known. */
int64_t served_age(const struct served_model *m);

/* Scores all examples with the present values of the model, and calls fn as evaluate_predict does.
 * ERR_UNSUPPORTED: it scores nothing. Errors of evaluate_predict_now. */
enum err_code served_predict(struct served_model *m, const struct dataset *d, predict_fn fn,
    void *ctx, struct err *e);

/* Counts since the server began. */
struct served_stats {
	uint64_t taken;   /* models that took the place of another one */
	uint64_t refused; /* models that were damaged, or of other tables */
};
struct served_stats served_stats(struct served *s);

#endif
