/* SPDX-License-Identifier: ISC */
#ifndef CONF_HOSTS_H
#define CONF_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* Lists of hosts, and how many processes each host takes, in the notations of common launchers. A
 * host that occurs again gets the slots of both. All zeroes is an empty list. Pure data: no
 * threads. */
struct hosts_item {
	char *name;    /* as for a remote shell: "b", "user@b", "10.0.0.2" */
	int64_t slots; /* 1 at least */
	bool limited;  /* the slots were given explicitly, and are a limit */
};

struct hosts {
	struct hosts_item *item;
	size_t n;
};

void hosts_release(struct hosts *h);

/* Add the hosts of one line, or of one entry of a list:
 *   b | user@b | 10.0.0.2 | fe80::1        one slot
 *   b slots=4 [max-slots=8]                as in Open MPI
 *   b:4                                    as in MPICH
 *   n[0-3,07-09],m1 [slots=2]              as in Slurm; each host gets that many slots
 * Blank lines, and text after #, are ignored. ERR_FORMAT: the message names the wrong word, and
 * h is unchanged. */
enum err_code hosts_add(struct hosts *h, const char *line, struct err *e);
/* Length of the first entry of a list with commas. Commas in brackets do not end an entry. */
size_t hosts_entry_length(const char *list);
/* Add the hosts of a file of such lines. ERR_FORMAT names the line; it is also returned for a file
 * without hosts. */
enum err_code hosts_read(struct hosts *h, const char *path, struct err *e);

/* The host of the k-th process, k from 0: first one process on each host, then a second one on each
 * host with two slots, and so on. Past the last slot the order begins again, on the hosts whose
 * slots are not a limit. NULL: every host is full. */
const char *hosts_nth(const struct hosts *h, size_t k);
/* The number of slots of all hosts. */
int64_t hosts_slots(const struct hosts *h);

/* Does the name mean this machine: "localhost", or its own name? */
bool hosts_is_here(const char *name);

#endif
