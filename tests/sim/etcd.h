/* SPDX-License-Identifier: ISC */
#ifndef SIM_ETCD_H
#define SIM_ETCD_H

#include "tests/sim/sim.h"

/* A request to a member of etcd, and its answer. */
struct etcd_exchange {
	enum { ETCD_PENDING, ETCD_ANSWERED, ETCD_REFUSED } state;
	struct waitq wait; /* for another state */
	char *reply;
	/* who asks */
	int pid;
	unsigned life, slot, member;
	char method[64], *body;
	bool given_up; /* nobody waits for the answer */
	bool applied, lost;
	struct etcd_exchange *next;
};

/* Sends a request of the current process. */
struct etcd_exchange *etcd_post(unsigned member, const char *method, const char *body);
void etcd_give_up(struct etcd_exchange *x);

#endif
