/* SPDX-License-Identifier: ISC */
#ifndef SIM_SIM_H
#define SIM_SIM_H

/* A whole cluster in one process, one thread and virtual time.
 *
 * The programs under test are the real ones: ps-serve, ps-work and the ledger's worker, linked from the same
 * objects as the product, whose calls of the system are renamed when the simulator is linked
 * (symbols.txt: read becomes sim_read). So nothing in lib knows of the simulation, every record
 * passes the real encoder, tags and decoder, and the real threads meet in orders that the seed
 * chooses: each thread is a fiber, and a fiber that blocks, or takes a lock, may be displaced.
 *
 *   world    time, random numbers, events; all of them come from the seed      world.c
 *   fiber    threads, locks, conditions                                        fiber.c
 *   proc     processes: memory, static variables, descriptors, signals         proc.c, memory.c
 *   vfile    what a descriptor names: socket, file, event counter, epoll ...   vfile.c, net.c, disk.c
 *   calls    everything else that libc and libsodium are asked for             calls.c
 *   states   rare states of the cluster, counted from outside             states.c
 *   control  HTTP below its listener: a request reaches the routes as text     control.c
 *   etcd     a store of three members, below the calls of libcurl              etcd.c, curl.c
 *
 * Two ways were weighed. A second implementation of the library's own interfaces (loop, conn, clock,
 * file, thread) was not built, not even as a spike: counted in the sources, it would have needed hooks in
 * 46 places that poll and 65 that open files, and would not have run the code of lib/net at all. How
 * fast it would be is not known. Renaming needs no line of lib, runs everything above libc, and also
 * explores the interleaving of threads; its price is 148 calls to stand in for (calls.def), the fibers'
 * stacks, and an x86-64 or arm64 longjmp between them. A short seed takes 20 to 60 ms of one core: 8
 * processes, 2,200 deliveries and 1.8 virtual seconds, so a second simulates a good half minute. A third
 * of it is JSON of views and configurations, a fifth starting processes, a tenth the ciphers; switching
 * fibers is below 2 %. So the other way could have saved the handshakes at most, which calls.c makes
 * cheap.
 *
 * Everything here runs on the one thread of the simulator. */

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#define USEC INT64_C(1000)
#define MSEC INT64_C(1000000)
#define SEC  INT64_C(1000000000)

struct proc;
struct fiber;

/* ---- world.c ---- */

/* Nanoseconds of virtual time since the world began. */
extern int64_t sim_now;
/* Begin a world: its time is 0, and all random numbers come from the seed. */
void world_begin(uint64_t seed);
/* Run until `until` (virtual time), or until done(ctx) is true. False: nothing is left to happen. */
bool world_run(int64_t until, bool (*done)(void *ctx), void *ctx);
/* The seed's numbers. */
uint64_t sim_random(void);
uint32_t sim_below(uint32_t n); /* 0 .. n-1; 0 for n = 0 */
bool sim_chance(unsigned percent);
/* Call fn(ctx) at this virtual time. Returns a number for event_cancel. */
uint64_t event_at(int64_t at, void (*fn)(void *ctx), void *ctx);
void event_cancel(uint64_t id);
/* A line of the trace: it changes the trace's hash, and is printed when tracing. */
extern bool sim_tracing;
void sim_trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint64_t sim_trace_hash(void);
extern uint64_t sim_deliveries; /* packets that have arrived */
/* End with a message about the simulator itself, not about the code under test. */
void sim_panic(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* ---- fiber.c ---- */

/* Fibers that wait for one thing. */
struct waiter {
	struct fiber *fiber;
	struct waitq *q;
	struct waiter *prev, *next;
};
struct waitq {
	struct waiter *first, *last;
};

extern struct fiber *fiber_current; /* NULL in the scheduler */
struct fiber *fiber_start(struct proc *p, void *(*fn)(void *), void *ctx);
struct proc *fiber_proc(const struct fiber *f);
/* Wait until one of the queues is woken, or until the deadline (INT64_MAX: none). False: the
 * deadline has passed. The current fiber. */
bool fiber_wait(struct waitq *const *q, size_t n, int64_t deadline);
bool fiber_wait_one(struct waitq *q, int64_t deadline);
void waitq_wake_all(struct waitq *q);
void waitq_wake_one(struct waitq *q);
/* Let other fibers run, if the seed says so. */
void fiber_may_yield(void);
void fiber_exit(void) __attribute__((noreturn));
/* End all fibers of a process; the current one, too, if it belongs to it (then it does not
 * return). */
void fiber_kill_all(struct proc *p);
bool fiber_run_one(void); /* false: none is runnable */
void fiber_reset(void);
/* Fibers of a paused process do not run. */
void fiber_resumed(struct proc *p);

/* ---- memory.c ---- */

/* The memory of one process, which is taken back as a whole when it ends. */
struct arena {
	void *free[64];
	char *at, *end;
	void *spans;
	size_t live; /* allocations */
	size_t bytes;
};
void memory_reset(void);
void *arena_alloc(struct arena *a, size_t n);
void *arena_alloc_aligned(struct arena *a, size_t align, size_t n);
void arena_free(struct arena *a, void *p);
/* Fill n bytes of an allocation with zeros. */
void arena_clear(void *p, size_t n);
size_t arena_size(const void *p);
bool memory_is_ours(const void *p);
void arena_release(struct arena *a);

/* ---- proc.c ---- */

#define PROC_FDS 512
#define PROC_ENV 8

struct variable {
	char name[32], value[96]; /* name "": free */
};

struct proc {
	int pid;
	unsigned slot; /* its place in the cluster, for links: survives a restart */
	char name[32];
	bool alive, paused;
	int code; /* exit code; -1: killed */
	int64_t clock_skew;
	struct arena arena;
	char *statics; /* its static variables while another process runs */
	struct vfile *fd[PROC_FDS];
	uint64_t signals; /* pending, a bit each */
	struct waitq signal_wait, exit_wait;
	int (*main)(int, char **);
	int argc;
	char **argv;
	size_t given;  /* allocations: its arguments */
	unsigned life; /* how often it has begun again (exec) */
	char **words;  /* the arguments with which it begins again; NULL: it does not */
	struct variable env[PROC_ENV];
	/* what it had not released when it ended by itself */
	size_t left_allocations;
	unsigned left_descriptors;
	unsigned nfibers;
	char last[256];    /* the last line of its standard error */
	char printed[256]; /* the last line of its standard output */
	struct proc *next;
	/* memory limit and failing disk: faults of this process */
	bool disk_full, disk_broken;
};

extern struct proc *proc_current; /* whose static variables are in place; NULL: the simulator's */
/* Start a program in a new process. The arguments are copied; the last is NULL. */
struct proc *proc_start(unsigned slot, const char *name, int (*main)(int, char **),
    const char *const *argv);
void proc_kill(struct proc *p); /* as by SIGKILL */
void proc_signal(struct proc *p, int sig);
void proc_pause(struct proc *p, bool paused);
void proc_enter(struct proc *p);
/* The current process ends with this code. */
void proc_exit(int code) __attribute__((noreturn));
void proc_reset(void); /* forget all, between two worlds */
/* A variable of the current process's environment, or NULL. */
const char *proc_getenv(const char *name);
struct proc *proc_find(int pid);
int proc_install(struct proc *p, struct vfile *v); /* a descriptor, or -1 with EMFILE */
struct vfile *proc_vfile(int fd);                  /* of the current process, or NULL with EBADF */

/* ---- vfile.c ---- */

struct vfile;
struct vfile_ops {
	const char *kind;
	ssize_t (*read)(struct vfile *v, void *p, size_t n);
	ssize_t (*write)(struct vfile *v, const void *p, size_t n);
	unsigned (*ready)(struct vfile *v); /* POLLIN ... */
	void (*close)(struct vfile *v); /* the last descriptor was closed, or its process ended */
};
struct epoll_item;
/* What a descriptor names; kinds begin with one. A read or write that would block returns -1 with
 * EAGAIN, and vfile.c waits if the descriptor is blocking. */
struct vfile {
	const struct vfile_ops *ops;
	unsigned refs;
	bool nonblock;
	struct waitq wait;
	struct epoll_item *watched; /* by epoll instances */
};
void vfile_init(struct vfile *v, const struct vfile_ops *ops, bool nonblock);
struct vfile *vfile_ref(struct vfile *v);
void vfile_unref(struct vfile *v);
/* Something about it has changed: wake who polls. */
void vfile_changed(struct vfile *v);
unsigned vfile_ready(struct vfile *v);
ssize_t vfile_read(struct vfile *v, void *p, size_t n);
ssize_t vfile_write(struct vfile *v, const void *p, size_t n);
/* A signal has come: its descriptors are readable. */
void vfile_signalled(struct proc *p);

/* ---- net.c ---- */

#define SLOTS_MAX        20
#define COORDINATOR_SLOT 0
#define STANDBY_SLOT     16 /* of the coordinator that stands by at first */
void net_reset(void);
/* Cut or heal the way from one slot to another. */
void net_cut(unsigned from, unsigned to, bool cut);
bool net_is_cut(unsigned from, unsigned to);
/* All connections between two slots are reset, and what is on its way is lost. Both processes live. */
void net_break_connections(unsigned a, unsigned b);
/* Delays of packets from now on: between these two times. */
void net_lose_host(struct proc *p);
/* In this world the peers of a host that has died learn of it within 2.5 s, as by TCP's probes. */
void net_probes_hosts(void);
/* Has one process sent data to another that have not arrived? */
bool net_is_on_its_way(int from_pid, int to_pid);
void net_delay(int64_t least, int64_t most);
/* Packets from one host to another take `more` longer; net_lag_nobody ends that for all. */
void net_lag(unsigned from, unsigned to, int64_t more);
void net_lag_nobody(void);
/* A byte of the next data on this way is changed. */
void net_damage(unsigned from, unsigned to);
/* ---- disk.c ---- */

void disk_reset(void);
/* A crash of the machine that has this directory: each file is as it was synced last, or has a part of what was
 * written since; each directory has the names that were synced, or those of now. True: that took something. */
bool disk_lose_unsynced(const char *path);
/* How many percent of the writes from now on are short, and of the files that are longer than what was synced end
 * with zeros after a crash. None when a world begins. */
void disk_writes_short(unsigned percent);
void disk_leaves_zeros(unsigned percent);
/* The host in this slot does not reach the disk, as a server of files that does not answer: its calls wait
 * until it does again. Those that were on their way may have been done meanwhile, or be done then. */
void disk_cut(unsigned slot, bool cut);
/* Calls fn when a file of this directory has replaced another one, or is opened to be read; the current process
 * does that. */
enum disk_event { DISK_REPLACED, DISK_READ };
void disk_watch(const char *path, void (*fn)(enum disk_event event, const char *name));
/* Write a file from outside. */
void disk_put(const char *path, const void *data, size_t n);
/* Its contents, or NULL; *n its length. The memory belongs to the disk. */
const char *disk_get(const char *path, size_t *n);
/* The listener of a socket file, or NULL. */
struct vfile *disk_listener(const char *path);
bool disk_bind(const char *path, struct vfile *listener); /* false: it exists */
/* fcntl's locks of open files. */
struct flock;
int disk_lock(int fd, int op, struct flock *l);
void disk_unbind(struct vfile *listener);
struct vfile *disk_output(void);
void disk_list(const char *path, void (*fn)(void *ctx, const char *name), void *ctx);

/* ---- control.c, calls.c ---- */

void control_reset(void);
void control_died(const struct proc *p);
/* Once, before the first world. */
void calls_begin(void);
void calls_reset(void);
/* What a clock shows at the time 0 of the world, in nanoseconds. */
int64_t calls_clock_offset(clockid_t clock);

#endif
