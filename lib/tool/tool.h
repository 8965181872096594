/* SPDX-License-Identifier: ISC */
#ifndef TOOL_TOOL_H
#define TOOL_TOOL_H

#include "client/client_source.h"
#include "tool/prediction.h"
#include "worker/cluster_view.h"

/* A client outside the job: it sees the cluster and talks to its servers, but holds no rank, and no
 * worker waits for it. ps-ctl's table, eval, predict, bench and export commands and the library use
 * it.
 *
 * Life: tool_open -> calls, one after the other -> tool_close. One thread, the owner's; every call
 * may block on the servers. */
struct admin_client {
	/* the tool owns cluster, client and its reference of view; the rest is borrowed */
	struct cluster_view *cluster;
	struct client *client;
	const struct view *view;
	struct log *log;
	const struct interrupt *interrupt;
	/* made by tool_source, with its description */
	struct client_source source;
	json_t *config, *facts;
};

/* Connects and waits until the servers are ready, at most the deadline (ns). An interrupt (NULL:
 * never; borrowed) ends this call and all later ones with ERR_STOPPED. *out must not move while it
 * is open. */
enum err_code tool_open(const struct identity *id, const char *transport, int64_t deadline,
    const struct interrupt *interrupt, struct log *log, struct admin_client *out, struct err *e);
/* Disconnects. Also allowed after tool_open has failed. */
void tool_close(struct admin_client *t);
/* From now on another thread calls the tool. */
void tool_hand_over(struct admin_client *t);
/* Takes over the newest view. Blocking calls do so themselves; others call this when
 * cluster_view_fd becomes readable. ERR_STOPPED when interrupted; the error of a coordinator that
 * is lost. */
enum err_code tool_update(struct admin_client *t, struct err *e);
/* Creates tables of these shapes (an array of table_to_json objects) in a cluster without a job;
 * needs an admin's key. Tables that exist in the same shape stay. Returns when they can be pulled
 * and pushed. ERR_EXISTS: a table has another shape; ERR_CONFIG: a job runs; ERR_FORBIDDEN. */
enum err_code tool_create(struct admin_client *t, const json_t *shapes, struct err *e);
/* Asks for the coordinator's description of the training data (worker/data_facts.h). *facts: a new
 * reference; NULL: it has none. */
enum err_code tool_facts(struct admin_client *t, json_t **facts, struct err *e);
/* The cluster as a source of parameters, with its description, for which it asks the coordinator.
 * *out belongs to the tool. Called at most once. Errors of tool_facts. */
enum err_code tool_source(struct admin_client *t, struct param_source **out, struct err *e);
/* Finds the table of this name; ERR_NOTFOUND lists those that exist. */
enum err_code tool_table(const struct admin_client *t, const char *name, const struct table **out,
    struct err *e);

/* Writes a table to fd as npy (sparse: as text, a line a row). */
enum err_code tool_pull(struct admin_client *t, const char *name, int fd, struct err *e);
/* Pushes an npy of the table's shape (a file, or "-") as one gradient, which is applied at once. */
enum err_code tool_push(struct admin_client *t, const char *name, const char *path, struct err *e);

/* ---- scores and words: of any source of parameters, with its description ---- */

/* A model, and the surroundings of a command that uses it. All borrowed. */
struct tool_model {
	struct param_source *source;
	struct log *log; /* for warnings */
	/* ends the wait for standard input; NULL: nothing does */
	const struct interrupt *interrupt;
};

/* Open a model, call fn with it, and close it: the model of a running cluster, as the identity "admin" of
 * its run directory; or a saved one, which is a model file, a checkpoint or a run directory. Warnings go
 * to stderr as those of `command`. */
typedef enum err_code tool_model_fn(void *ctx, const struct tool_model *m, struct err *e);
enum err_code tool_with_run(const char *run_dir, const char *command, tool_model_fn *fn, void *ctx,
    struct err *e);
enum err_code tool_with_saved(const char *path, const char *command, tool_model_fn *fn, void *ctx,
    struct err *e);

/* Evaluate or predict the data of these paths; ndata 0: with the job's evaluation data. top_k: in
 * place of job.top_k, if it is above 0. detailed: *result also has "confusion" and "calibration"
 * where the model has classes and gives probabilities. */
enum err_code tool_eval(const struct tool_model *m, const char *const *data, size_t ndata,
    int64_t top_k, bool detailed, json_t **result, struct err *e);
enum err_code tool_predict(const struct tool_model *m, const char *const *data, size_t ndata,
    enum prediction_form form, int fd, struct err *e);
/* Reads examples from standard input, in the format that follows "?format=" in data paths (NULL:
 * guessed from the content), and writes their predictions to `out` as they arrive, until the input
 * ends. Rows of sparse tables are read for each batch; dense tables are read again when they
 * are older than `fresh` (ns), unless the source is constant. ERR_FORMAT: a line is malformed; the
 * lines before it have been answered. */
enum err_code tool_follow(const struct tool_model *m, const char *format, enum prediction_form form,
    int64_t fresh, int out, struct err *e);
/* For word models. Without words in `ask`, writes all vectors in word2vec's text format; else a
 * line "word TAB neighbour TAB cosine" for each of the `top` nearest words. ERR_NOTFOUND: an
 * unknown word. */
enum err_code tool_words(const struct tool_model *m, const char *const *ask, size_t nask,
    size_t top, int fd, struct err *e);

#endif
