/* SPDX-License-Identifier: ISC */
#ifndef SERVING_SCORER_H
#define SERVING_SCORER_H

#include "data/data_build.h"
#include "serving/served.h"

/* Scores the examples of many requests together. Requests of one key are read into one dataset,
 * which costs less than a dataset each; where one of them is malformed, or its scores cannot be
 * computed, each request of its key is read and scored alone, so that a fault is that of its own
 * request. Scores do not depend on the other requests: the examples of a request are the same, and
 * models compute each example by itself.
 *
 * One thread, the model's. */
struct scorer;
struct score_task;

/* Appends the examples of a request to the build. It may be called twice, with two builds. Errors as
 * data_load. */
typedef enum err_code score_read_fn(struct score_task *t, struct data_build *b, struct err *e);

struct score_task {
	/* Given by the caller. */
	score_read_fn *read;
	void *ctx;
	/* Tasks of one kind with equal keys may be read into one build, in any order, with the same
	 * result as each into one of its own. Kinds are compared as pointers. */
	const void *kind;
	const char *key;
	size_t nkey;
	/* Texts of one key, of which each line is an example, are joined and read at once, which is
	 * several times as fast for short ones. `read_text` reads a joined text, which it may change,
	 * with STREAM_PAD bytes after it. headed: the first line is a heading, and the key. NULL: the
	 * task is read by `read`. */
	enum err_code (*read_text)(struct score_task *t, char *text, size_t n, struct data_build *b,
	    struct err *e);
	const char *text;
	size_t ntext;
	bool headed;
	/* Results, valid until scorer_forget: an error, or the scores (rows,
	 * outputs) and the names of the examples (NULL: they have none). */
	enum err_code rc;
	struct err e;
	size_t rows, outputs;
	const float *scores;
	char *const *name;
	/* Belongs to the scorer: the first row in the dataset. */
	size_t first;
};

/* Times of a run, in ns. */
struct score_times {
	int64_t parse, look_up, compute;
};

struct scorer *scorer_new(void);
void scorer_free(struct scorer *s); /* NULL is fine */
/* Reads and scores n tasks with the model. */
void scorer_run(struct scorer *s, struct served_model *m, struct score_task **t, size_t n,
    struct score_times *times);

/* Frees the results of the last run. To be called before the model is closed. */
void scorer_forget(struct scorer *s);

#endif
