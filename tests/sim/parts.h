/* SPDX-License-Identifier: ISC */
#ifndef SIM_PARTS_H
#define SIM_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/sim.h"
#include "tests/sim/tenures.h"

/* The members of a scenario's cluster, for the parts of the simulation that do something with them
 * (scenario.c has the cluster, its faults and the judge). */

#define SERVERS_MAX 5
#define WORKERS_MAX 4

enum kind { COORDINATOR, SERVER, WORKER };

struct member {
	enum kind kind;
	unsigned slot;
	char name[16], rank[16];
	char join[24]; /* the join file that it uses, or "" */
	struct proc *proc;
	bool started_before, down, finished;
	bool leaving;    /* an order lets this server end by itself */
	bool removed;    /* ... and it is not started again */
	unsigned drains; /* orders to drain it that have no answer yet */
	bool drained;    /* ... one of which was given */
	bool sleeps;     /* all stand still */
};

/* The judge's verdict; the first one counts. */
void scenario_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Is the war over, or has the judge decided already? */
bool scenario_is_peace(void);
/* The number of servers that the cluster is to have; each has a member, from server-0 on, and there are
 * members up to SERVERS_MAX. */
unsigned scenario_servers(void);
void scenario_set_servers(unsigned n);
unsigned scenario_replicas(void);
struct member *scenario_server(unsigned i);
struct member *scenario_coordinator(void);  /* of two, the one that leads */
struct member *scenario_standby(void);      /* the coordinator that stands by at first */
struct member *scenario_worker(unsigned i); /* of those there are, if i is greater */
struct member *scenario_member(unsigned i);
unsigned scenario_members(void);
/* May all workers have been lost at once, because the coordinator's host died without a word? */
bool scenario_may_have_lost_workers(void);
/* Does it live, and does nothing keep it from its work? */
bool scenario_is_well(const struct member *m);
/* Looks which processes have ended by themselves: they are started again, or must not have ended. */
void scenario_look_at_ends(void);
/* Ask the coordinator whether all partitions have all replicas, and what it answered last. */
void scenario_ask_for_replicas(void);
bool scenario_is_whole(void);
bool scenario_knows_all_servers(void);
unsigned scenario_chain_head(void); /* the first server of the ledger's first partition */
/* Write the coordinator's status into the trace. */
void scenario_trace_state(void);
void scenario_start(struct member *m);

/* Runs a comparison of the ledger as a process of the world, and judges what it prints. Returns the number of
 * pushes that were acknowledged. */
uint64_t scenario_run_ledger(const char *what, const char *const *argv);
uint64_t scenario_compare(const char *verb, const char *book, const char *cells);

/* Has the judge decided that something is wrong? */
bool scenario_has_failed(void);
/* Does the job begin in bsp, and no order changes it? */
bool scenario_is_bsp(void);
bool scenario_has_backup(void);
/* All processes of the cluster die, or all of its servers. None is started again by itself. */
void scenario_kill_all(void);
void scenario_kill_servers(void);
/* Start all of them. */
void scenario_start_all(void);

/* Requests a checkpoint. */
void scenario_take_checkpoint(void);

/* ---- witness.c ---- */

/* A witness of all pushes and pulls. stays: what was shown once must be there at the end. bounds: each pull must have
 * what the mode promises. */
void witness_begin(bool stays, bool bounds);

/* ---- resume.c ---- */

/* Jobs that go back to a checkpoint. */
void resume_draw(void);
void resume_leave_out(void);
bool resume_is_drawn(void);
void resume_begin(void);
/* Is the job being ended, so that no process is started again? */
bool resume_is_down(void);
/* ... or not yet known what it has gone back to? */
bool resume_is_under_way(void);
/* Does the coordinator that is started now get --resume? */
bool resume_wants_checkpoint(void);
/* Has the job to go back yet? */
bool resume_is_due(void);
/* Has it gone back to a checkpoint? */
bool resume_has_gone_back(void);
/* Was a checkpoint damaged? It stays, and has a later step than the one to which the job went back. */
bool resume_has_damaged(void);
/* Returns the folder in which the workers keep their books. */
const char *resume_books(void);
/* The judge notes that a checkpoint is requested, and names the present copy of the books in `low`; and later that
 * its answer has arrived. */
void resume_note_request(char low[24]);
void resume_note_answer(const char *low, const char *text);

/* The coordinator dies, or a server, if all partitions have all replicas; if this seed does that. */
void scenario_kill_coordinator(void);
void scenario_kill(struct member *m); /* this one, whatever its replicas */
void scenario_kill_a_server(void);
void scenario_kill_a_worker(void);
/* A worker dies, and is not back before its lease ends. */
void scenario_lose_a_worker(void);
/* A worker stands still for a while, if another one is at work. */
void scenario_pause_worker(struct member *m);
/* Connections between the coordinator and a server, or all, break. */
void scenario_break_coordinator_off(void);
/* Cut all links between the coordinator and the servers, or heal them. */
void scenario_cut_coordinator_off(bool cut);

/* A process that was stopped goes on, unless all stand still. */
void scenario_wake(struct member *m);

/* ---- owners.c ---- */

/* The coordinators listen on this port, and on the next one. */
#define OWNER_PORT 7000
/* Two coordinators, and faults of theirs and of the store of their state. */
void owners_draw(bool in_etcd, bool is_long);
void owners_leave_out(void);
bool owners_are_drawn(void);
bool owners_use_etcd(void);
/* Is a fault to come, or under way? */
bool owners_are_due(void);
void owners_begin(void);
/* Peace: the store and all links are as before. */
void owners_end(void);
/* Waits until one coordinator leads. */
void owners_check(void);

/* ---- etcd.c ---- */

/* An etcd of three members. The state of the coordinators is below this URL. */
#define ETCD_URL "etcd://etcd-0:2379,etcd-1:2379,etcd-2:2379/t"
void etcd_reset(void);
/* Draw its delays and faults. */
void etcd_draw(void);
/* The host in this slot does not reach it, or does again. */
void etcd_cut(unsigned slot, bool cut);
/* Peace: all members answer. */
void etcd_heal(void);

/* ---- strikes.c ---- */

/* Deaths at moments that chance rarely meets. */
void strikes_draw(bool breaks);
/* A worker is lost, and the decision about it takes long (strikes.c). */
bool strikes_draw_votes(void);
/* A server takes a push alone, is lost, and comes back as the only replica (strikes.c). */
void strikes_draw_returns(void);
void strikes_leave_out(void);
void strikes_begin(void);
void strikes_end(void);

/* ---- clocks.c ---- */

/* Clocks that jump. */
void clocks_draw(void);
void clocks_leave_out(void);
void clocks_begin(void);

/* ---- troubles.c ---- */

/* Slow links, naps, and workers that leave: no replica is lost by them. */
void troubles_draw(bool breaks);
void troubles_leave_out(void);
/* False while all stand still: nobody starts a process then. */
bool troubles_let_start(void);
/* No worker leaves early. */
void troubles_keep_workers(void);
void troubles_begin(void);
/* Peace: links are as fast as each other, and nobody stands still. */
void troubles_end(void);

/* ---- replicas.c ---- */

/* Waits until all replicas are there. False: they are not, and the seed has failed. */
bool replicas_await(void);
/* After the job: all replicas are there, and one of each partition may be lost. */
void replicas_check(void);

/* ---- relays.c ---- */

/* Relays between workers and servers. */
void relays_draw(void);
void relays_leave_out(void);
bool relays_are_drawn(void);
/* The zone of a worker, or NULL. */
const char *relays_zone(unsigned rank);
void relays_begin(void);

/* ---- orders.c ---- */

/* Orders to the coordinator during the war. */
/* Choose which of them this seed gives. */
void orders_draw(void);
/* Without those that change which servers there are. */
void orders_keep_servers(void);
/* Without new secrets, which the join files of relays would not have. */
void orders_keep_secret(void);
/* Without servers that join by files. */
void orders_without_files(void);
bool orders_change_mode(void);
/* The war begins. */
void orders_begin(void);
/* Peace: a job that an order has paused goes on. */
void orders_end(void);
/* Is the secret renewed although an earlier one is promised to be accepted? */
bool orders_force_secret(void);
/* Does it drain servers, or change their number? */
bool orders_move_servers(void);

/* ---- outside.c ---- */

/* A program outside of the job, whose pushes count, too. */
void outside_draw(void);
void outside_leave_out(void);
void outside_begin(void);
/* Peace: it ends after its push. */
void outside_end(void);
bool outside_is_over(void);
void outside_check(void);

/* ---- disk_faults.c ---- */

/* Disks that are full or broken for a while. */
void disk_faults_draw(void);
void disk_faults_begin(void);
/* Some writes are short, and power cuts leave zeros. */
void disk_writes_badly(void);
/* Peace: all disks are as before. */
void disk_faults_end(void);

/* ---- reader.c ---- */

/* A read replica, and a program that reads from it. */
void reader_draw(void);
void reader_leave_out(void);
void reader_begin(void);
/* Peace: the program writes what it has seen. */
void reader_end(void);
bool reader_is_over(void);
void reader_check(void);

#endif
