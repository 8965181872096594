/* SPDX-License-Identifier: ISC */
#ifndef CORE_LAUNCH_H
#define CORE_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/buf.h"
#include "core/err.h"

/* The text that asks a child with a control line to end. */
#define LAUNCH_LEAVE "leave\n"

/* Starts and watches child processes through pidfds, so that no signal can reach an unrelated
 * process that got a dead child's number.
 *
 * States of a child: running (launch_start) -> ended (launch_wait reaps it with the rest of its
 * process group) -> running again under the same index (launch_start with the same id).
 *
 * One thread owns a set. It must live as long as children with die_with_parent, because Linux
 * reacts to the death of the thread that forked. */
struct launch_spec {
	const char *id;       /* "server-0": names the pid file */
	char *const *argv;    /* argv[0] is a path; NULL-ended */
	const char *log_path; /* stdout and stderr are appended to it */
	bool die_with_parent; /* SIGKILL when this process has ended */
	const char *dir;      /* its working directory; NULL: this process's */
	bool same_group;      /* spawn: stays in our process group */
	const int *pipes;     /* its stdin and stdout, with our stderr; NULL: the log */
	/* ignores SIGTERM, which others send to all processes; launch_stop_all uses SIGINT for
	 * it */
	bool ignores_term;
	/* control line: its stdin is a pipe from this process, for launch_tell; instead of SIGTERM
	 * it gets LAUNCH_LEAVE and the end of the pipe */
	bool line;
};

struct launch_event {
	size_t child;
	bool signalled;
	int status; /* exit code, or the signal's number */
};

struct launch_set;

/* Makes a set. dir: where ID.pid files are written, and removed when their process ends; NULL:
 * none. launch_free kills children that still run. */
enum err_code launch_new(const char *dir, struct launch_set **set, struct err *e);
void launch_free(struct launch_set *set);

/* Starts a child in a process group of its own, with stdin from /dev/null, only the first three
 * descriptors, and default signals. *child is its index; an id that has ended is started again
 * under its old index. ERR_NOTFOUND: the program cannot be run; ERR_EXISTS: the id is running. */
enum err_code launch_start(struct launch_set *set, const struct launch_spec *spec, size_t *child,
    struct err *e);

/* Waits until a child has ended, and reaps it with all that is left of its process group.
 * ERR_TIMEOUT after timeout_ns (0: does not wait; negative: no limit); ERR_NOTFOUND when no child
 * is running. */
enum err_code launch_wait(struct launch_set *set, int64_t timeout_ns, struct launch_event *event,
    struct err *e);
/* A descriptor for poll: readable when launch_wait would not block. */
int launch_fd(const struct launch_set *set);

/* About the children of a set, by index. */
size_t launch_count(const struct launch_set *set); /* indices given out */
size_t launch_running(const struct launch_set *set);
bool launch_alive(const struct launch_set *set, size_t child);
pid_t launch_pid(const struct launch_set *set, size_t child); /* the last one, also when ended */
const char *launch_id(const struct launch_set *set, size_t child);
/* How a child that is not alive has ended. */
struct launch_event launch_status(const struct launch_set *set, size_t child);

/* Sends a signal; does nothing to children that have ended. A child with a control line is a door
 * to a process on another host: that one is ended through the line, and not by a signal to the
 * door. */
void launch_signal(struct launch_set *set, size_t child, int sig);
void launch_signal_all(struct launch_set *set, int sig);
/* Writes to the control line of a child, without blocking: ERR_LIMIT when it has left 64 KiB
 * unread, ERR_CLOSED when it has ended. */
enum err_code launch_tell(struct launch_set *set, size_t child, const void *data, size_t n,
    struct err *e);

/* Sends SIGTERM to all, and SIGKILL after grace_ns to those that are left; returns when none is.
 * True when no SIGKILL was needed. */
bool launch_stop_all(struct launch_set *set, int64_t grace_ns);

/* Describes the end for a message: "ended with code 1", "ended by SIGKILL". */
void launch_how(const struct launch_event *event, char out[static 64]);
/* Appends the last nlines lines of a log (of its last 64 KiB) to out. */
enum err_code launch_tail(const char *log_path, size_t nlines, struct buf *out, struct err *e);
/* Appends the likely reason of a failure from a log, without its newline: of the last lines the
 * last error (a line of log_err or log_error, or of err_report), because other threads may have
 * logged after it; else the last line. Nothing without a log. Leaves out the name of the cause, and
 * returns the cause; CAUSE_UNKNOWN: the line names none. */
enum err_cause launch_last_words(const char *log_path, struct buf *out);
/* The sentence of a line that launch_last_words has appended; NULL: the line is not an error. */
const char *launch_error_of_line(const char *line);

#endif
