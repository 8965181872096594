#ifndef BASE_HOSTS_H
#define BASE_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Hosts and how many processes each takes, as launchers write them.  A host that
 * comes again gets the slots of both.  All zeroes is an empty list. */
struct hosts_one {
	char *name;                     /* as a remote shell takes it: "b", "user@b", "10.0.0.2" */
	int64_t slots;                  /* 1 at least */
};

struct hosts {
	struct hosts_one *item;
	size_t n;
};

void hosts_release(struct hosts *h);

/* One line, or one entry of a list:
 *   b | user@b | 10.0.0.2 | fe80::1        one slot
 *   b slots=4 [max-slots=8]                Open MPI's
 *   b:4                                    MPICH's
 *   n[0-3,07-09],m1 [slots=2]              Slurm's node lists, each with so many
 * A blank line, and what stands after #, is nothing.  ERR_FORMAT: the sentence says what is
 * wrong with which word, and h is as it was. */
enum err_code hosts_add(struct hosts *h, const char *line, struct err *e);
/* How long the first entry of a list with commas is: those in brackets do not end it. */
size_t hosts_entry(const char *list);
/* A file of such lines; ERR_FORMAT names the line, also when there is no host in it. */
enum err_code hosts_read(struct hosts *h, const char *path, struct err *e);

/* The places in the order in which processes are dealt to them: one on each host, then a second
 * on each that has two slots, and so on; past the last slot from the first again. */
const char *hosts_place(const struct hosts *h, size_t k);
/* Of all hosts. */
int64_t hosts_slots(const struct hosts *h);

/* Does the name mean the machine that we are on?  "localhost", or what it is called. */
bool hosts_is_here(const char *name);

#endif
