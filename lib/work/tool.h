#ifndef WORK_TOOL_H
#define WORK_TOOL_H

#include "client/client.h"
#include "work/cluster.h"

/* A peer outside the job: it sees the cluster and talks to its servers, but
 * holds no slot and nobody waits for it. */
struct tool {
	struct cluster *cluster;
	struct client *client;
	json_t *view;
	struct log *log;
	const struct interrupt *interrupt;
};

/* Waits until the servers are there, at most the deadline (ns).  This, and all that is asked for
 * later, is given up when it is interrupted (NULL: never; borrowed): ERR_STOPPED. */
enum err_code tool_open(const struct identity *id, const char *transport, int64_t deadline, const struct interrupt *interrupt,
    struct log *log, struct tool *out, struct err *e);
void tool_close(struct tool *t);
/* Go by the newest view, as waits do by themselves; cluster_fd tells that there is one.  ERR_STOPPED when cancelled; errors of
 * a coordinator that is lost. */
enum err_code tool_update(struct tool *t, struct err *e);
/* Make tables of these shapes (an array, table_to_json of each) in a cluster whose tables no job makes, by an admin's key; those
 * that are there in the same shape stay.  Returns when pulls and pushes of them go.  ERR_EXISTS for another shape,
 * ERR_CONFIG where a job runs, ERR_FORBIDDEN. */
enum err_code tool_create(struct tool *t, const json_t *shapes, struct err *e);
/* What the coordinator knows of the training data (data/data_facts.h), a new reference; NULL: nothing. */
json_t *tool_facts(struct tool *t);
/* The table of this name, or ERR_NOTFOUND with those that there are. */
enum err_code tool_table(const struct tool *t, const char *name, const struct table **out, struct err *e);

/* Pull a table as npy (sparse: text, a line a row) to fd. */
enum err_code tool_pull(struct tool *t, const char *name, int fd, struct err *e);
/* Push an npy of the table's shape (a file, or "-") as one gradient, applied at
 * once. */
enum err_code tool_push(struct tool *t, const char *name, const char *path, struct err *e);

/* eval and predict: data as given, else the job's evaluation data. */
enum err_code tool_eval(struct tool *t, const char *const *data, size_t ndata, json_t **result, struct err *e);
enum err_code tool_predict(struct tool *t, const char *const *data, size_t ndata, int fd, struct err *e);
/* Predictions of the examples on standard input, whose format is as behind a data path's "?format=" (NULL: by
 * content), to `out` as they come, until it ends.  Rows of sparse tables are always as the servers have them; dense
 * tables are pulled anew when they are older than `fresh` (ns).  ERR_FORMAT: a line that is none, whose
 * predecessors have been answered. */
enum err_code tool_follow(struct tool *t, const char *format, int64_t fresh, int out, struct err *e);
/* The words of a model of words: without any asked for, all their vectors in word2vec's text
 * format; else a line "word TAB neighbour TAB cosine" for the `top` nearest of each.  ERR_NOTFOUND. */
enum err_code tool_words(struct tool *t, const char *const *ask, size_t nask, size_t top, int fd, struct err *e);

#endif
