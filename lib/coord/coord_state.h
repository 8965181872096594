#ifndef COORD_COORD_STATE_H
#define COORD_COORD_STATE_H

/* Inside of a coord: shared by coord*.c. */
#include "coord/coord.h"
#include "coord/deal.h"
#include "coord/layout.h"
#include "coord/tasks.h"

/* Of what is told of the data, as text: it is kept in every checkpoint. */
#define FACTS_MAX (64u << 10)

/* Membership entries kept in the view: a worker needs only those that are not
 * far behind the slowest step. */
#define MEMBERS_KEPT 16u

struct member_server {
	bool live, ever;
	uint64_t incarnation, acked;    /* acked: view revision that it has taken over */
	uint64_t keys_made;              /* by which keys it has looked at its sessions */
	int64_t seen, gone_at;          /* gone_at: its connection broke then; 0: it stands */
	int64_t shunned, shun_for;      /* another could not reach it: no copies to it until then */
	bool leaving, released;         /* gives up what it holds; has done so, and may go */
	bool called;                    /* wanted by a scaling, and not here yet */
	bool own;                       /* in the coordinator's process */
	bool awaited;                   /* it is silent, and not taken for lost yet: so it has been said */
	int64_t pid;
	char name[64], key[64], host[64], tcp[160], unix_path[160], zone[COORD_ZONE];
	json_t *stats, *about;
};

struct member_relay {
	bool live;
	uint64_t incarnation, keys_made;
	int64_t seen, gone_at, pid;
	int upstream;                   /* the relay that it sends to; -1: the servers */
	uint64_t shunned;               /* incarnation of one that it could not reach */
	char key[64], host[64], tcp[160], unix_path[160], zone[COORD_ZONE];
	json_t *stats, *about;
};

/* In the ring of a job that has one. */
struct ring_seat {
	uint64_t incarnation;           /* 0: not in it */
	char tcp[160], unix_path[160];
	char next_tcp[160], next_unix[160];     /* of who has the slot, and may not be in it yet */
};

enum worker_state { WORKER_EMPTY, WORKER_JOINING, WORKER_ACTIVE, WORKER_DONE, WORKER_LOST, WORKER_LEFT };

struct member_worker {
	enum worker_state state;
	bool evaluates;                 /* it has the evaluation data */
	bool go, called;                /* it shall leave; wanted by a scaling, and not here yet */
	bool quit;                      /* it has given up: a last beat does not bring it back */
	uint32_t epoch;                 /* of the layout that it works by */
	bool resumes;                   /* `from` is where a checkpoint has left the slot */
	uint64_t incarnation, from, until;      /* until: of one that is out, from where on */
	int64_t seen, lost_at;
	int64_t pid;
	char name[64], key[64], host[64], zone[COORD_ZONE];
	char key_name[64];              /* by which authorized_keys has it */
	/* Its pushes count as refused, from this step on and up to that one (UINT64_MAX: until it is
	 * released; 0: they do not); since when. */
	uint64_t barred, barred_until;
	int64_t barred_at;
	double quota_seconds;           /* that servers have held its pushes for its quota */
	int64_t quota_since, quota_at;  /* of late: since when; when they did so last */
	uint64_t refused;               /* pushes, of which an event has told; when */
	int64_t refused_at;
	int relay;                      /* that it goes through; -1: none */
	uint64_t shunned;               /* incarnation of one that it could not reach */
	struct ring_seat ring;
	json_t *stats;                  /* its figures: of the last beat, or of its farewell */
	json_t *about;                  /* of the process and its host: of the last beat */
	json_t *probe;                  /* what it found when it tried its lines last */
	char *unfit;                    /* why the last that was to take the slot could not; NULL */
	char *coming;                   /* where the process is that will take it; NULL: none that we know of */
	uint64_t coming_as;             /* its incarnation */
};

struct members {
	uint64_t step;                  /* they hold from this step on */
	struct deal_pos at;
	uint64_t batch;                 /* examples of each at a step */
	unsigned *slot, n;
};

enum change_kind { CHANGE_JOIN, CHANGE_RESUME, CHANGE_LEAVE, CHANGE_BAR, CHANGE_RELEASE, CHANGE_SET, CHANGE_TABLE };

struct change {
	struct change *next;
	enum change_kind kind;
	unsigned slot;
	uint64_t incarnation;
	enum worker_state after;        /* of a leave: LOST or LEFT */
};

struct proposal {
	bool open;
	uint64_t id, step;
	struct change *change;
	unsigned asked, yes, answers;
	uint64_t frontier, clock;       /* greatest and least told by the servers */
	unsigned rounds;
	bool *answered;                 /* by server */
};

/* Settings kept in the view: who has to know of older ones is gone. */
#define SETTINGS_KEPT 32u
#define OUTCOMES_KEPT 16u

struct setting {
	uint64_t step;                  /* from which on they hold */
	int64_t number;
	json_t *set, *config;           /* what was changed; and what all is then */
	struct coord_setting now;       /* its plain values */
	char what[600], who[64];
};

struct snap {
	enum coord_snap state;
	uint64_t id, step, frontier;
	uint64_t mark, base;            /* as coord_snap_marks has them */
	int64_t settings;               /* that hold when it is begun: with others it is of two minds */
	uint32_t epoch;
	unsigned nasked, answers;
	bool asked[COORD_SERVERS_MAX];
	json_t *clocks, *descriptions;
	char message[300];
};

struct coord {
	struct coord_config cfg;
	struct coord_io io;
	enum coord_phase phase;
	char reason[600];
	char waiting[600];              /* who is missing, "" when nobody */
	char last_lost[300];            /* the worker that was lost last, and why */
	char unfit[400];                /* the worker for any slot that could not begin, and why */
	int64_t probe, probed_at;       /* number of the last trial of all lines, and when it was asked for */
	json_t *facts;                  /* of the data, as the first worker has told them; or NULL */
	uint64_t rev, stamp;
	int64_t started, running_at, ended_at;
	int64_t formed;                 /* while forming: when it was last seen to get on */
	struct layout layout;
	bool placed, ended;
	bool deaf;                      /* it has been said that no server is heard of */
	bool doubts;                    /* what coord_tick returns */
	int64_t heard;                  /* coord_heard; 0: not told */
	int64_t deaf_until;
	bool data_lost;                 /* partitions without a copy: an earlier state is all there is */
	struct member_server *server;   /* COORD_SERVERS_MAX places */
	uint16_t zone[COORD_SERVERS_MAX];       /* of the servers: layout.zone */
	struct member_relay *relay;     /* COORD_RELAYS_MAX places */
	unsigned nservers, nworkers, nrelays;   /* places in use */
	json_t *base;                   /* the configuration before the kept settings */
	int64_t base_number;
	struct setting *kept[SETTINGS_KEPT];
	unsigned nkept;
	struct setting *wish;           /* that is being decided */
	struct table_wish *table_wish;  /* the same */
	uint64_t tabled;                /* rev of the last change of tables */
	uint64_t tickets, settled_ticket;
	/* What became of the last ones, by ticket: refused, if it says why, or decided for a step. */
	struct outcome { uint64_t ticket, step; char why[300]; } outcome[OUTCOMES_KEPT];
	json_t *past;                   /* of keys that no kept setting has: step (null: at once) and who */
	json_t *planned;
	int64_t nsettings;              /* how often they were changed */
	int64_t settings_step;          /* by which all workers go by the last of them; -1: not yet */
	bool unwaited;                  /* lost workers are waited for no more, of which some are */
	bool paused;                    /* workers rest before their next step */
	int64_t pauses;                 /* how often; of workers' beats, which one they rest for */
	int64_t paused_at;
	char paused_by[64];
	bool reduces;                   /* workers sum dense tables among themselves */
	uint32_t ring_gone;             /* how often one of them has left the ring */
	bool rebalance;                 /* as soon as no copies are under way */
	uint64_t **weight;              /* of the partitions, while that goes on; or NULL */
	size_t nweight;                 /* tables */
	struct member_worker *worker;   /* COORD_WORKERS_MAX places */
	uint64_t examples;              /* of the training data, as the workers say */
	struct members *members;
	unsigned nmembers, members_base;
	uint64_t first_step;            /* that the job begins with */
	struct deal_pos first_at;
	struct change *changes, **changes_last;
	struct proposal prop;
	uint64_t next_proposal, decided;
	/* From this step on the data is leased; once it is, it stays so. */
	bool leases_data;
	uint64_t leased_from;
	struct tasks *tasks;
	uint64_t leases;                /* times that they have changed */
	struct snap snap;
	uint64_t keys_made;              /* as member_server's, of the coordinator's process */
	json_t *barred;                 /* keys in quarantine: {"name","because"} */
	json_t *cut;                    /* sessions that were cut, by names that were revoked */
	int evaluator;                  /* slot, -1 none yet */
	json_t *result, *last_eval;     /* what the evaluator reported */
};

/* coord.c */
void coord_changed(struct coord *c);
void coord_event(struct coord *c, const char *kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void coord_enter(struct coord *c, enum coord_phase phase, int64_t now);
void coord_progress(struct coord *c, int64_t now);
unsigned coord_live_servers(const struct coord *c);
const char *worker_state_name(enum worker_state s);
/* Has nothing been heard since for longer than the limit, as far as all that came is handled?  Else coord_tick says
 * that it doubts, if it may be so. */
bool coord_overdue(struct coord *c, int64_t seen, int64_t limit, int64_t now);
/* What on_worker_loss says, for one that is silent or has given up. */
void worker_lost(struct coord *c, unsigned slot, const char *how, int64_t now);

/* coord_place.c: who holds what, while it is in use */
void servers_place(struct coord *c);
void servers_place_in(const struct coord *c, struct layout *l);
void server_lost(struct coord *c, unsigned i, const char *how, int64_t now);
/* Give copies where they are wanted; true when the layout has changed. */
bool servers_mend(struct coord *c, int64_t now);
void weights_drop(struct coord *c);
void servers_join(struct coord *c, int64_t now);
void server_copied(struct coord *c, unsigned from, const json_t *msg, int64_t now);
void server_unreachable(struct coord *c, unsigned from, const json_t *msg, int64_t now);

/* A server has come: number the zones. */
void servers_zone(struct coord *c);

/* coord_scale.c */
bool servers_release(struct coord *c);  /* those that have given up all; true when there were some */
json_t *scale_called(const struct coord *c);
json_t *scale_released(const struct coord *c);
void server_wants_out(struct coord *c, unsigned server, int64_t now);
bool scale_going_on(const struct coord *c);     /* somebody is on the way out, or runs are to be evened out */

/* coord_change.c: one change of membership at a time, by the servers' vote */
struct change *change_queue(struct coord *c, enum change_kind kind, unsigned slot, enum worker_state after);
void change_next(struct coord *c);
void change_ask_again(struct coord *c, unsigned server);
void change_vote(struct coord *c, unsigned server, const json_t *msg);
/* One has joined; one that was asked is gone. */
void change_server_came(struct coord *c, unsigned server);
void change_server_gone(struct coord *c);
void members_begin(struct coord *c);
/* The same from this step on, with another batch. */
void members_again(struct coord *c, uint64_t step);
void members_release(struct coord *c);
json_t *members_to_json(const struct coord *c);
bool members_from_json(struct coord *c, const json_t *list);

/* coord_snap.c */
void snap_answer(struct coord *c, unsigned server, const json_t *msg);

/* coord_resume.c: begin where a checkpoint was taken */
void resume_begin(struct coord *c);
void resume_members(struct coord *c);
void resume_tasks(struct coord *c);
const json_t *resumed_tasks(const struct coord *c);     /* NULL or null: none were leased */

/* coord_keys.c */
void keys_told(struct coord *c, uint64_t *made, const json_t *msg);

/* coord_watch.c */
/* A server's figures have come; a bar was decided; a worker has joined. */
void watch_beat(struct coord *c, const json_t *stats, int64_t now);
void watch_decided(struct coord *c, const struct change *ch, uint64_t step);
void watch_joined(struct coord *c, unsigned slot, int64_t now);
/* Is it held back by its quota? */
bool worker_held(const struct member_worker *w, int64_t now);
bool worker_barred(const struct member_worker *w);
const char *barred_because(const struct coord *c, const struct member_worker *w);

/* coord_job.c: data, completion, result */
json_t *job_lease(struct coord *c, unsigned slot, const json_t *msg, struct err *e);
/* How far the job is: what status and result say. */
uint64_t coord_step(const struct coord *c);
/* How far a worker is: one that came later begins where it came in.  Is this what it does, as
 * its last heartbeat says? */
uint64_t worker_step(const struct member_worker *w);
/* To a row for people: the last beat's figures, and how far its clock was from ours (seconds ahead). */
void row_figures(json_t *row, const json_t *stats, const json_t *about, double seen_seconds);
bool worker_does(const struct member_worker *w, const char *what);
/* Who is at `step` waits for those that are below this one; 0: for nobody. */
uint64_t coord_needed(const struct coord *c, uint64_t step);
/* For the log of the one that asks: what keeps it waiting before the step, "" when no worker does. */
void why_text(const struct coord *c, unsigned asker, uint64_t step, int64_t now, char *out, size_t n);
void job_done(struct coord *c, unsigned slot);
void job_result(struct coord *c, unsigned slot, const json_t *msg, int64_t now);
/* saved: how far the leases were, or NULL. */
void job_begin(struct coord *c, const json_t *saved);
void job_settle(struct coord *c, int64_t now);

/* coord_set.c */
void settings_begin(struct coord *c);
void settings_release(struct coord *c);
/* Nobody will decide any more. */
void settings_over(struct coord *c);
/* Figures have come: do all workers go by the settings now? */
void settings_settle(struct coord *c);
/* The one that is being decided: not before this step; what it sets; a server cannot; from this
 * step on. */
uint64_t setting_wanted(const struct coord *c);
const json_t *setting_proposed(const struct coord *c);
void setting_refused(struct coord *c, unsigned server, const char *why);
void setting_decided(struct coord *c, uint64_t step);
/* The configuration that a step goes by (borrowed). */
const json_t *settings_at(const struct coord *c, uint64_t step);
/* The mode of a step, also where another one is decided for later: "bsp", "ssp:3", "asp". */
const char *mode_at(const struct coord *c, uint64_t step);
void settings_view(const struct coord *c, json_t *view);
void settings_out(const struct coord *c, json_t *state);
bool settings_in(struct coord *c, const json_t *state);

/* That which the last ticket is for: refused, or decided for a step. */
void ticket_refused(struct coord *c, const char *why);
void ticket_settled(struct coord *c, uint64_t step);

/* coord_table.c: as of a setting */
json_t *table_proposed(const struct coord *c);
void table_refused(struct coord *c, unsigned server, const char *why);
void table_decided(struct coord *c, uint64_t step);
void tables_out(const struct coord *c, json_t *state);
void tables_in(struct coord *c, const json_t *state);

/* coord_relay.c */
json_t *join_relay(struct coord *c, struct coord_self *self, const json_t *msg, int64_t now, struct err *e);
/* A peer that was here before and has lost only its connection. */
bool relay_back(struct coord *c, struct coord_self *self, int64_t now);
/* Of a worker that joins; the epoch goes on when it has one. */
void relay_choose(struct coord *c, unsigned slot);
/* It could not reach its relay, and goes on without it. */
void relay_missed(struct coord *c, unsigned slot, const json_t *msg);
bool relay_beat(struct coord *c, const struct coord_self *self, const json_t *msg, int64_t now);
void relay_gone(struct coord *c, const struct coord_self *self, int64_t now);
json_t *from_relay(struct coord *c, const struct coord_self *self, const char *op, const json_t *msg, struct err *e);
void relays_check(struct coord *c, int64_t now);
void relay_lost(struct coord *c, unsigned relay, const char *how);
json_t *relays_view(const struct coord *c);
bool relays_from_json(struct coord *c, const json_t *list, int64_t seen);

/* The session of one that was to join has ended before it did. */
void coming_gone(struct coord *c, uint64_t incarnation);

/* coord_probe.c */
/* What a beat brings of it is moved to where it is kept. */
void probe_heard(struct member_worker *w, json_t *stats);
void probe_view(const struct coord *c, json_t *view);

/* coord_ring.c */
/* After any change: who is in it. */
void ring_settle(struct coord *c);
json_t *ring_view(const struct coord *c);
void ring_join(struct member_worker *w, const json_t *msg);
json_t *ring_out(const struct ring_seat *r);
void ring_in(struct member_worker *w, const json_t *o);

/* coord_join.c */
json_t *join_server(struct coord *c, struct coord_self *self, const json_t *msg, int64_t now, struct err *e);
json_t *join_worker(struct coord *c, struct coord_self *self, const json_t *msg, int64_t now, struct err *e);
json_t *join_tables(struct coord *c, const json_t *msg, struct err *e);
/* ERR_CONFIG: the job's way to sum gradients cannot do it with this table. */
enum err_code table_fits_job(const struct coord *c, const struct table *shape, struct err *e);

#endif
