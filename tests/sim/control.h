/* SPDX-License-Identifier: ISC */
#ifndef SIM_CONTROL_H
#define SIM_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Requests of the control plane, as text, between the simulator (control.c) and the HTTP server of a
 * simulated process (control_server.c), which is the library's from its routes on. */

struct proc;

struct sim_request {
	uint64_t id;
	char method[8];
	char target[512]; /* path and query */
	char *body;       /* JSON, or NULL; the simulator's memory */
};

/* For control_server.c. A server takes requests, in its own thread, until it is closed. */
unsigned sim_control_open(void);
void sim_control_close(unsigned server);
/* The next request, NULL: the time `until` (clock_now) has come, or sim_control_nudge was called. */
const struct sim_request *sim_control_take(unsigned server, int64_t until);
void sim_control_nudge(unsigned server);
void sim_control_answer(uint64_t id, int status, const char *text);

/* For the simulation: send a request to the server of the process in this slot. COORDINATOR_SLOT stands for
 * the coordinator that began to take requests last, in whichever slot it is. fn is called with
 * the answer; status 0: there is no server, or it died. */
void control_send(unsigned slot, const char *method, const char *target, const char *body,
    void (*fn)(void *ctx, int status, const char *text), void *ctx);
/* That coordinator, or NULL; and how many coordinators take requests, also one that has been overtaken. */
struct proc *control_leader(void);
unsigned control_coordinators(void);
/* fn is called, in the server's own thread, when a server begins to take requests. NULL: nobody. */
void control_on_open(void (*fn)(const struct proc *p));

#endif
