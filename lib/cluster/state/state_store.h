/* SPDX-License-Identifier: ISC */
#ifndef STATE_STATE_STORE_H
#define STATE_STATE_STORE_H

/* The state store keeps what must survive the coordinator: the parts of its state
 * (msg/state_part.h), a log of leases, and who may write them, the owner. An implementation is a
 * struct state_store_ops in a file of its own and a line in state_store.def. Its callers know no
 * path and no address.
 *
 *   process | call                  | next
 *   --------+-----------------------+---------------------------------------------------------
 *   open    | check_free, read      | open; another process may still write the state
 *   open    | watch                 | open
 *   open    | stand_by              | open; when the owner does not live, it may become_owner
 *   open    | become_owner          | owner, or open with ERR_EXISTS
 *   owner   | read, read_log        | owner; what is read stays as it is
 *   owner   | begin_log             | owner, with an empty log that nobody reads yet
 *   owner   | write                 | owner; the first write makes this log the state's log
 *   owner   | append, verify, clean | owner
 *   owner   | beat, list_standbys   | owner
 *   owner   | any of these          | fenced with ERR_FENCED, when another process is the owner
 *   fenced  | any of these          | fenced
 *
 * Ownership is a fence and not a lock. Assume that coordinator A is stopped for a minute, that B
 * takes over, announces a layout, and that A then goes on with a write that it had begun. If that
 * write took effect, B's successor would read A's layout. So `write` and `append` make their data
 * durable, compare the owner with this process, and only then take effect: an overtaken process
 * changes nothing that its successor reads, and gets ERR_FENCED instead of ERR_OK. As nothing is
 * announced before ERR_OK (coordinator_may_announce), it announces nothing that its successor does
 * not know.
 *
 * A part has a revision, the number of the write that replaced it last. `write` takes all parts
 * that have changed and is all or nothing: after a crash at any point a reader finds either all of
 * the former parts or all of the new ones. Otherwise a coordinator that is killed while it writes
 * that server 2 is lost could leave a layout without that server and members with it, which no
 * coordinator ever announced. After an error a reader may find either; the caller writes again
 * before it relies on one of them.
 *
 * Hence "durable before it is announced" (coordinator_may_announce) holds for all parts together: a
 * value of coord_state_rev counts as durable when the write of every part that had changed up to it
 * has returned ERR_OK, and the change of a lease when the log's record of it has.
 *
 * A process that stands by takes over when it has seen no beat of the owner for some time. That time
 * decides nothing but when to try: two processes that both take themselves for the owner do no harm to
 * the state. But the members of the cluster would stay with the former owner, so an owner that has
 * not been able to beat until `owned_until` sends its members away (io_threads_set_aside).
 *
 * Threads: the main thread makes all calls until the coordinator's threads run, and close. Then the
 * state's writer calls `write` (state_file.h), the log's thread `append` (lease_log.h), and any
 * thread `verify`, and the owner's thread `beat` and `list_standbys` (ownership.h), all of them at the
 * same time. They block as long as the disk or the network
 * does; no thread waits for a lock that their caller holds. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/log.h"
#include "format/digest.h"
#include "msg/state_part.h"
#include "socket/net.h"

/* Borrowed; lives longer than the store. */
struct state_store_config {
	const char *run_dir;  /* NULL: the process has none */
	const char *url;      /* of a store that is not the run directory; NULL or "": none */
	uint64_t incarnation; /* of this process; no two processes have the same one */
	struct log *log;
};

struct state_store {
	const struct state_store_ops *ops;
	struct state_store_config cfg;
	/* No other process takes over from this owner before this time (clock_now) unless it knows
	 * that this one has ended. INT64_MAX: none stands by. Any thread. */
	_Atomic int64_t owned_until;
	/* The digest of each part that was read or written last; empty: unknown, or there is no
	 * such part */
	char digest[STATE_PARTS][DIGEST_HEX];
};

/* The place at which a process is, or would be, the coordinator: the addresses of its data plane and of
 * its control plane, its host and its run directory. */
struct state_standby {
	char data[NET_TEXT], http[NET_TEXT], host[64], run_dir[256];
	bool
	    shares; /* the run directory is the owner's; `stand_by` and `list_standbys` find that out */
};
/* How many standbys are told to the members of the cluster. */
#define STATE_STANDBYS 8
struct state_standbys {
	struct state_standby at[STATE_STANDBYS];
	size_t n;
};

/* The record of a standby, and back. */
json_t *state_standby_encode(const struct state_standby *s);
/* False: it is not one. */
bool state_standby_decode(const json_t *record, struct state_standby *out);

/* The result of a read. All zeroes: there was nothing. */
struct state_values {
	struct buf part[STATE_PARTS]; /* the text of each part; without data: there is none */
	uint64_t revision;            /* of the last write; 0: none */
	bool lost;                    /* there is no state, but a coordinator has had one here */
};

/* The text of a part, a JSON object; NULL: there is no such part. */
struct state_text {
	const char *text;
	size_t size;
	const char *digest; /* BLAKE2b of the text, if the caller knows it; else NULL */
};

/* A part that is to be replaced. */
struct state_part_change {
	enum state_part part;
	struct state_text text; /* with its digest */
};

/* How often an owner beats, and a standby looks, in ns */
#define STATE_BEAT (250 * NSEC_PER_MSEC)

/* Errors: ERR_IO when the store cannot be reached, is full or broken, and trying again may help;
 * ERR_FORMAT for contents that no coordinator has written. */
struct state_store_ops {
	/* Does it keep the state of a process with this configuration? */
	bool (*serves)(const struct state_store_config *cfg);
	/* Makes a store; does no I/O. state_store_open sets its members. */
	struct state_store *(*open)(const struct state_store_config *cfg);
	/* Frees it. The ownership stays, for whoever comes next to compare with. */
	void (*close)(struct state_store *s);
	/* Names the place of the state, for messages. Borrowed. */
	const char *(*where)(const struct state_store *s);

	/* ERR_EXISTS: the owner is known to be alive. */
	enum err_code (*check_free)(struct state_store *s, struct err *e);
	/* Makes this process the owner; what the former owner has begun to write takes no effect
	 * any more. ERR_EXISTS: another process became the owner at the same time. ERR_NOTREADY: the
	 * former owner may be alive; that is known after some seconds, so try again. */
	enum err_code (*become_owner)(struct state_store *s, struct err *e);
	/* ERR_FENCED: another process is the owner, named in e. ERR_IO: it cannot be known, so
	 * nothing may be announced. ERR_CLOSED as of beat. */
	enum err_code (*verify)(struct state_store *s, struct err *e);

	/* Shows that the owner lives, and sets owned_until. To be called every STATE_BEAT. ERR_FENCED:
	 * another process is the owner. ERR_CLOSED: this one is not the owner any more, and may become
	 * it again and read the state. ERR_IO: it cannot be known. */
	enum err_code (*beat)(struct state_store *s, struct err *e);
	/* Shows that this process stands by at that place. *free: no owner lives. To be called every
	 * STATE_BEAT. ERR_IO: it cannot be known; *free is false then. */
	enum err_code (*stand_by)(struct state_store *s, const struct state_standby *self,
	    bool *free, struct err *e);
	/* Lists the processes that stand by. False: it cannot be known now. */
	bool (*list_standbys)(struct state_store *s, struct state_standbys *out);

	/* Reads the parts whose bits (1u << part) are in `which`. *out is empty, and is to be
	 * released also after an error. */
	enum err_code (
	    *read)(struct state_store *s, unsigned which, struct state_values *out, struct err *e);
	/* Waits until the revision of the last write is not `known`, at most until the time `until`
	 * (clock_now). *now: that revision. For a process that is not the owner and keeps a
	 * copy. */
	enum err_code (*watch)(struct state_store *s, uint64_t known, int64_t until, uint64_t *now,
	    struct err *e);
	/* Replaces n parts, among them always the membership; see above. A store whose values have
	 * a limit divides a longer part: the description may have 1 GiB, others 64 MiB.
	 * ERR_FENCED; ERR_CLOSED as of beat. */
	enum err_code (*write)(struct state_store *s, const struct state_part_change *change,
	    size_t n, struct err *e);

	/* Appends to *out the records of the log that belongs to what was read last. The last
	 * record may be torn, and records that `append` should have dropped may follow the ones
	 * that it kept. */
	enum err_code (*read_log)(struct state_store *s, struct buf *out, struct err *e);
	/* Makes an empty log for this owner. May be called again after an error. */
	enum err_code (*begin_log)(struct state_store *s, struct err *e);
	/* Appends records, which are durable when it returns ERR_OK. After an error the same
	 * records are appended again, to where they would have been. drop: the state that was
	 * written last contains all records appended before, so they may be dropped. */
	enum err_code (
	    *append)(struct state_store *s, const struct buf *records, bool drop, struct err *e);
	/* Removes what former owners left and the state does not need. Best effort. */
	void (*clean)(struct state_store *s);
};

#define STORE(name) extern const struct state_store_ops state_store_##name;
#include "state/state_store.def"
#undef STORE

/* Reads all parts. */
enum err_code state_store_read(struct state_store *s, struct state_values *out, struct err *e);
/* Writes the membership and the other parts whose texts differ from what is in the store. */
enum err_code state_store_write(struct state_store *s, const struct state_text text[STATE_PARTS],
    struct err *e);

/* The store for this configuration; NULL when none keeps it, so that nothing survives the
 * process. */
struct state_store *state_store_open(const struct state_store_config *cfg);
/* NULL is fine. */
void state_store_close(struct state_store *s);

/* Reads the members and the phase that the coordinator of this run directory has written, for other
 * processes; RUN/cluster.json says where. Returns a document that state_decode takes, or NULL if there
 * is no state or it cannot be read. */
json_t *state_store_look(const char *run_dir);

void state_values_release(struct state_values *v);

#endif
