#ifndef CTL_PARTS_H
#define CTL_PARTS_H

/* Inside of a runner: shared by runner.c, members.c, far.c, deaths.c, restart.c and finale.c. */
#include "runner.h"

/* A question to the coordinator must be short: signals are not seen meanwhile. */
#define RUNNER_ASK NSEC_PER_SEC

/* A program on this host, by its words (NULL-ended); a name without "/" is one from beside this one. */
enum err_code runner_spawn(struct runner *r, const char *id, const char *const *words, size_t *child, struct err *e);
/* All servers and workers, once the coordinator can be asked for what they need to know. */
enum err_code runner_start_members(struct runner *r, struct err *e);
/* Those that a scaling has called for. */
void runner_start_called(struct runner *r);
/* "server-1" or "worker-0", once more. */
enum err_code runner_spawn_again(struct runner *r, const char *id, struct err *e);
/* Wait for a child, a signal or the given time, and see to what has happened. */
void runner_pause(struct runner *r, int64_t end);
void runner_take_signals(struct runner *r);
/* How many whose id begins so are alive. */
size_t runner_count(const struct runner *r, const char *prefix);
/* See to the children that have ended. */
void runner_take_children(struct runner *r);
/* This side ends the run.  The arguments may be what r says already. */
void runner_give_up(struct runner *r, const char *culprit, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Ask the coordinator how things stand. */
void runner_ask(struct runner *r);
/* Is the process alive that coordinates? */
bool runner_has_coordinator(const struct runner *r);
/* With copies, and with other hosts, the coordinator is no store. */
bool runner_is_apart(const struct runner *r);

/* By the coordinator's last answer. */
bool runner_state_is(const struct runner *r, const char *state);
bool runner_is_over(const struct runner *r);
/* Not yet running, as far as is known. */
bool runner_is_forming(const struct runner *r);

#endif
