#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* Child processes, started and watched through pidfds, so that no signal ever
 * reaches a stranger that got a dead child's number.  One thread owns a set;
 * it must live as long as the children that are to die with it, because Linux
 * counts the death of the thread that forked. */
struct launch_spec {
	const char *id;                 /* "server-0": names the pid file */
	char *const *argv;              /* argv[0] is a path; NULL-ended */
	const char *log_path;           /* stdout and stderr are appended to it */
	bool die_with_parent;           /* SIGKILL when this process is gone */
	const char *dir;                /* where it runs; NULL: here */
	bool same_group;                /* spawn: it stays in our process group */
	const int *pipes;               /* stdin and stdout instead, and stderr as it is here; NULL: the log */
	bool deaf;                      /* SIGTERM is ignored, for others send it to all; ours is SIGINT */
	bool line;                      /* stdin is a pipe from here, for launch_tell; SIGTERM is its end */
};

struct launch_event {
	size_t child;
	bool signalled;
	int status;                     /* exit code, or the signal's number */
};

struct launch_set;

/* dir: where ID.pid files go (they vanish with their process); NULL: none.
 * launch_free kills what still runs. */
enum err_code launch_new(const char *dir, struct launch_set **set, struct err *e);
void launch_free(struct launch_set *set);

/* Start one child: own process group, stdin from /dev/null, no descriptor but
 * the first three, default signals.  *child is its index; an id that has ended
 * is started again under its old index.  ERR_NOTFOUND when the program cannot
 * be run, ERR_EXISTS when the id is running. */
enum err_code launch_start(struct launch_set *set, const struct launch_spec *spec, size_t *child,
                           struct err *e);

/* Wait until some child has ended, and reap it with all that is left of its
 * process group.  ERR_TIMEOUT after timeout_ns (0: look only; negative: no
 * limit); ERR_NOTFOUND when no child is running. */
enum err_code launch_wait(struct launch_set *set, int64_t timeout_ns, struct launch_event *event,
                          struct err *e);
/* Readable when launch_wait would not block: for a poll loop of the caller. */
int launch_fd(const struct launch_set *set);

size_t launch_count(const struct launch_set *set);     /* indices given out */
size_t launch_running(const struct launch_set *set);
bool launch_alive(const struct launch_set *set, size_t child);
pid_t launch_pid(const struct launch_set *set, size_t child);  /* the last one, also when ended */
const char *launch_id(const struct launch_set *set, size_t child);
/* How a child ended that is not alive. */
struct launch_event launch_status(const struct launch_set *set, size_t child);

/* Harmless on children that have ended.  A child with a line is a door to another host: what is
 * behind it is ended by the end of the line, and not by a signal to the door. */
void launch_signal(struct launch_set *set, size_t child, int sig);
void launch_signal_all(struct launch_set *set, int sig);
/* Say something to a child that has a line.  Does not wait for it to listen: ERR_LIMIT when it has left
 * 64 KiB unread, ERR_CLOSED when it has ended. */
enum err_code launch_tell(struct launch_set *set, size_t child, const void *data, size_t n, struct err *e);

/* SIGTERM to all, SIGKILL after grace_ns to those that are left; returns when
 * none is.  True when none needed SIGKILL. */
bool launch_stop_all(struct launch_set *set, int64_t grace_ns);

/* "ended with code 1", "ended by SIGKILL": for a sentence. */
void launch_how(const struct launch_event *event, char out[static 64]);
/* The last nlines lines of a log (of its last 64 KiB), appended to out. */
enum err_code launch_tail(const char *log_path, size_t nlines, struct buf *out, struct err *e);
/* What a process that has failed said last, appended to out without its newline: of
 * the last lines the last error (a line of that level, or one "PROGRAM: ..."), since
 * other threads may have spoken after it; else the last line.  Nothing without a log. */
void launch_last_words(const char *log_path, struct buf *out);

#endif
