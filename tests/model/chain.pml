/* A model of the replicas of one partition: which servers have it, what is sent down the chain, and when a
 * push is acknowledged.  Spin checks every order of events (README, and tests/58-model.bats).
 *
 * The model is one process that executes one event at a time.  That loses nothing: each event changes one
 * server, the coordinator or the worker, and the code does that under a lock.  A record that
 * arrives when it is sent stands for one that is sent later; IN_FLIGHT separates the two.
 *
 *   in the model                 in the code
 *   lay[], cur                   the coordinator's layouts by epoch (layout/place.c)
 *   install, leave, redirect     shard/install.c, copy_redirect in shard/repl.c
 *   feed, send, acknowledged     shard_feed, shard_send, shard_sent in shard/repl.c
 *   receive                      shard_replicate in shard/repl_in.c, session_repl in store/session_repl.c
 *   take_push, is_safe           shard_push and shard_is_safe in shard/apply.c, judge_promise in
 *                                store/session_push.c
 *   the worker                   request_reroute_all in client/request.c, client_push_take_receipts in
 *                                client/client_push.c
 *
 * The model leaves out steps (it is that of asp, where a version is one push), values, several partitions, and
 * relays.  The other workers' pushes are `noise`: they have versions but no identity, and need no receipt.
 *
 * Promise P1 of ps-consistency(7): an acknowledged push is in every copy that counts, now and at any
 * time after, and in none twice.
 *
 * Each of these leaves out one rule of the protocol, and Spin must then find an error:
 *   -DLATER_LAYOUT -DNO_TENURE
 *                  receipts and REPLICATED depend on the partition's present state alone, and state
 *                  the present epoch
 *   -DKEEP_LAST    an installed replica keeps the record of the pushes it had taken before
 *   -DGO_ON        a server that missed a layout goes on making a replica
 *   -DNO_MUST      changes count without a server that has just become a replica
 *
 *   -DOTHERS -DOLD_REPORT
 *                  the joining server becomes the tail on a report of the tail in an earlier layout
 *
 * With -DOTHERS the coordinator also makes layouts for other tables, which leave the chain as it is.
 *
 * -DLATER_LAYOUT by itself lets a server answer a record under a later layout than the one under
 * which it was accepted.  P1 holds all the same, by the tenures: the code has that rule so that a
 * worker sees its own pushes, and is safe by both.
 *
 * With -DLATE_LINKS a server's links to others learn of a layout later than its partitions, as in the code: they
 * belong to another thread (apply_view_news in store/replicate.c).  Until then they still hear
 * acknowledgements under the layout before, but send nothing (replicate_link_put).  Sessions accept pushes and
 * records under the layout before, too, until all partitions are in the new one.  With -DLATE_SENDS as well
 * they do send, and Spin must find an error.
 *
 * With -DTRACE the events are those of a run of the simulator, in its order (trace.pml).
 *
 * With -DIN_FLIGHT pushes and changes may be on their way while their sender and their receiver go
 * on.  Without it they arrive when they are sent, which has far fewer states. */

#ifndef SERVERS
#define SERVERS 3
#endif
#ifndef CHAIN           /* servers in the first chain */
#define CHAIN 2
#endif
#ifndef EPOCHS          /* layouts, the first one counted */
#define EPOCHS 4
#endif
#ifndef PUSHES          /* of the worker, one after the other */
#define PUSHES 1
#endif
#ifndef NOISE           /* pushes of others */
#define NOISE 2
#endif
#ifndef QUEUE           /* changes that a server keeps for the next */
#define QUEUE 2
#endif
#ifndef DEATHS          /* servers that die for good */
#define DEATHS 1
#endif

/* A version or a sequence number: the trace of a run has more than fit into a byte. */
#ifdef TRACE
#define number int
#else
#define number byte
#endif

/* The layouts under which server a's links send to others, and under which its sessions accept pushes and
 * records: both learn of a layout after the partition. */
#if defined(LATE_LINKS) || defined(TRACE)
#define KNOWN(a) s[a].known
#define ACCEPTS(a) s[a].accepts
#else
#define KNOWN(a) s[a].epoch
#define ACCEPTS(a) s[a].epoch
#endif

#define NONE 7
#define STATE 15        /* kind of a change; else the number of the push, 0: noise */
#define BIT(k) (1 << (k))

typedef layout {
	byte n;
	byte chain[SERVERS];
	byte joining;
};

/* A change that a server has sent to the next replica and that is not acknowledged. */
typedef change {
	byte kind;
	number seq, version;
	byte has, last;         /* STATE: contents of the whole replica */
};

/* A change on its way to another server. */
typedef link {
	bit some;
	byte kind, has, last, epoch;
	number seq, version;
};

/* An acknowledgement that must still be sent. */
typedef due {
	bit open;
	byte push, tenure, epoch;
	number seq, version;
};

typedef server {
	bit dead;
	byte epoch;             /* of the layout that the server knows */
#if defined(LATE_LINKS) || defined(TRACE)
	byte known, accepts;    /* and of those that its links and sessions know */
#endif
	byte tenure;
	number version;
	byte has;               /* the worker's pushes that are in its values */
	byte last;              /* pushes recorded as taken; differs from has only by a defect */
	bit here, live, gone;
	byte to, feed;
	bit tail, head, must, synced;
	number sync_at;
	byte nsent, marked;     /* marked: how many were sent in the present session */
	change sent[QUEUE];
	number seq;
	/* a push on its way from the worker, and the pending receipt for a push */
	bit some;
	byte push, push_epoch;
	due receipt;
	/* by sender: the pending REPLICATED */
	due copied[SERVERS];
	link in[SERVERS];       /* by sender */
};

layout lay[EPOCHS + 1];
byte cur;
server s[SERVERS];

byte worker_epoch, at = 1;      /* at: number of its current push, from 1 on */
bit sent_push;
byte acked;                     /* acknowledged pushes */
byte noise, deaths;
#ifdef OLD_REPORT
bit reported;                   /* the joining server has its replica, the tail has said once */
#endif

/* scratch variables, 0 between events */
byte i, j, k, t, next;
number place, safe;
bool ok;

/* ---- the sending side ------------------------------------------------------------- */

inline forget(a) {
	s[a].nsent = 0;
	s[a].marked = 0;
	for (k : 0 .. QUEUE - 1) {
		s[a].sent[k].kind = 0; s[a].sent[k].seq = 0; s[a].sent[k].version = 0;
		s[a].sent[k].has = 0; s[a].sent[k].last = 0;
	}
}

inline enqueue(a, what) {
	s[a].seq++;
	s[a].sent[s[a].nsent].kind = what;
	s[a].sent[s[a].nsent].seq = s[a].seq;
	s[a].sent[s[a].nsent].version = s[a].version;
	if
	:: what == STATE ->
		s[a].sent[s[a].nsent].has = s[a].has;
		s[a].sent[s[a].nsent].last = s[a].last
	:: else
	fi;
	s[a].nsent++
}

/* Sets safe to the highest version that all replicas have (copy_settle). */
inline settle(a) {
	safe = s[a].version;
	if
	:: s[a].must ->
		for (k : 0 .. QUEUE - 1) {
			if
			:: k < s[a].nsent && s[a].sent[k].kind != STATE && s[a].sent[k].version <= safe ->
				safe = s[a].sent[k].version - 1
			:: else
			fi
		}
	:: else
	fi
}

/* Sets ok when the pending acknowledgement d may be sent. */
inline is_safe(a, d) {
	settle(a);
	ok = !s[a].gone && safe >= d.version;
#ifndef NO_TENURE
	ok = ok && d.tenure == s[a].tenure;
#endif
#ifndef LATER_LAYOUT
	ok = ok && d.epoch == s[a].epoch
#endif
}

/* Sets ok when the acknowledgement d must never be sent. */
inline has_left(a, d) {
#ifdef NO_TENURE
	ok = s[a].gone;
#else
	ok = d.tenure != s[a].tenure;
#endif
#ifndef LATER_LAYOUT
	ok = ok || d.epoch != s[a].epoch
#endif
}

inline stamp(a, d) {
#ifdef NO_TENURE
	t = s[a].epoch
#else
	t = d.epoch
#endif
}

inline close(d) {
	d.open = 0; d.push = 0; d.seq = 0; d.version = 0; d.tenure = 0; d.epoch = 0
}

inline clear(l) {
	l.some = 0; l.kind = 0; l.seq = 0; l.version = 0; l.has = 0; l.last = 0; l.epoch = 0
}

inline redirect(a, b) {
	if
	:: s[a].to != b ->
		if
		:: b == NONE || !s[a].must || (s[a].nsent && s[a].sent[0].kind == STATE) -> forget(a)
		:: else
		fi;
		s[a].to = b;
		s[a].must = (b != NONE);
		s[a].synced = 0;
		s[a].sync_at = 0;
		s[a].marked = 0
	:: else
	fi
}

/* ---- layouts ------------------------------------------------------------------------ */

inline leave(a) {
	s[a].tenure++;
	s[a].gone = 1;
	s[a].here = 0; s[a].live = 0; s[a].head = 0; s[a].tail = 0;
	s[a].feed = NONE;
	redirect(a, NONE);
	s[a].has = 0
}

/* Server a learns of the layout t. */
inline install(a) {
	place = NONE;
	for (k : 0 .. SERVERS - 1) {
		if
		:: k < lay[t].n && lay[t].chain[k] == a -> place = k
		:: else
		fi
	}
	if
	:: place == NONE && (lay[t].joining != a || s[a].live) -> leave(a)
	:: place == NONE && lay[t].joining == a && !s[a].live -> skip
	:: place != NONE ->
		/* "the layout counts on a copy that this server has not been given" */
		assert(s[a].here);
		/* May the making of a replica go on? */
#ifdef GO_ON
		ok = s[a].to == s[a].feed;
#else
		ok = s[a].live && s[a].tail && s[a].to == s[a].feed && t == s[a].epoch + 1;
#endif
		s[a].gone = 0;
		s[a].live = 1;
		s[a].head = (place == 0);
		s[a].tail = (place == lay[t].n - 1);
		next = NONE;
		if
		:: s[a].tail -> s[a].feed = lay[t].joining
		:: else -> s[a].feed = NONE; next = lay[t].chain[place + 1]
		fi;
		if
		:: next != NONE || !ok || s[a].to != s[a].feed -> redirect(a, next)
		:: else
		fi
	fi;
	s[a].epoch = t;
#if !defined(LATE_LINKS) && !defined(TRACE)
	s[a].marked = 0
#endif
}

inline new_layout() {
#ifdef TRACE
	/* A second change in the same layout. */
	if
	:: o[1] -> skip
	:: else ->
#endif
	cur++;
	lay[cur].n = lay[cur - 1].n;
	lay[cur].joining = lay[cur - 1].joining;
	for (k : 0 .. SERVERS - 1) { lay[cur].chain[k] = lay[cur - 1].chain[k] }
#ifdef TRACE
	fi
#endif
}

/* Server a is lost, or given up while it joins. */
inline lose(a) {
	new_layout();
#ifdef OLD_REPORT
	if
	:: lay[cur].joining == a || lay[cur].chain[lay[cur].n - 1] == a -> reported = 0
	:: else
	fi;
#endif
	if
	:: lay[cur].joining == a -> lay[cur].joining = NONE
	:: else ->
		place = NONE;
		for (k : 0 .. SERVERS - 1) {
			if
			:: k < lay[cur].n && lay[cur].chain[k] == a -> place = k
			:: else
			fi;
			if
			:: place != NONE && k + 1 < SERVERS -> lay[cur].chain[k] = lay[cur].chain[k + 1]
			:: place != NONE && k + 1 == SERVERS -> lay[cur].chain[k] = NONE
			:: else
			fi
		};
		lay[cur].n--
	fi
}

/* Sets ok when server a is in the chain. */
inline in_chain(a) {
	ok = false;
	for (k : 0 .. SERVERS - 1) {
		if
		:: k < lay[cur].n && lay[cur].chain[k] == a -> ok = true
		:: else
		fi
	}
}

/* ---- receiving ------------------------------------------------------------------------ */

inline apply(a, what) {
	s[a].version++;
	if
	:: what ->
		/* A push must not count twice. */
		assert(!(s[a].has & BIT(what)));
		s[a].has = s[a].has | BIT(what);
		s[a].last = s[a].last | BIT(what)
	:: else
	fi
}

/* Server a receives a push from the worker. */
inline take_push(a) {
	if
	:: s[a].push_epoch == ACCEPTS(a) && s[a].here && s[a].head ->
		if
		:: s[a].last & BIT(s[a].push)
		:: else ->
			apply(a, s[a].push);
			if
			:: s[a].to != NONE -> enqueue(a, s[a].push)
			:: else
			fi
		fi;
		s[a].receipt.open = 1;
		s[a].receipt.push = s[a].push;
		s[a].receipt.version = s[a].version;
		s[a].receipt.tenure = s[a].tenure;
		s[a].receipt.epoch = s[a].push_epoch
	/* The worker knows another head or an older layout: it retries when it has the view. */
	:: else
	fi;
	s[a].some = 0; s[a].push = 0; s[a].push_epoch = 0
}

/* Server a receives a change from b. */
inline receive(a, b) {
	if
	:: s[a].in[b].epoch < ACCEPTS(a) -> skip
	:: else ->
		if
		:: s[a].head || (!s[a].here && s[a].in[b].kind != STATE) -> skip
		:: else ->
			ok = true;
			if
			:: s[a].in[b].kind == STATE && s[a].here && (s[a].live || s[a].in[b].version <= s[a].version) -> skip
			:: s[a].in[b].kind == STATE && !(s[a].here && (s[a].live || s[a].in[b].version <= s[a].version)) ->
				s[a].tenure++;
				s[a].here = 1;
				s[a].gone = 0;
				s[a].version = s[a].in[b].version;
				s[a].has = s[a].in[b].has;
#ifdef KEEP_LAST
				s[a].last = s[a].last | s[a].in[b].last
#else
				s[a].last = s[a].in[b].last
#endif
			:: s[a].in[b].kind != STATE && s[a].in[b].version <= s[a].version -> skip
			:: s[a].in[b].kind != STATE && s[a].in[b].version == s[a].version + 1 ->
				apply(a, s[a].in[b].kind);
				if
				:: s[a].to != NONE -> enqueue(a, s[a].in[b].kind)
				:: else
				fi
			/* The change does not fit: the session ends, and the sender starts again. */
			:: s[a].in[b].kind != STATE && s[a].in[b].version > s[a].version + 1 -> ok = false; s[b].marked = 0
			fi;
			if
			:: ok ->
				s[a].copied[b].open = 1;
				s[a].copied[b].seq = s[a].in[b].seq;
				s[a].copied[b].version = s[a].in[b].version;
				s[a].copied[b].tenure = s[a].tenure;
				s[a].copied[b].epoch = s[a].in[b].epoch
			:: else
			fi
		fi
	fi;
	clear(s[a].in[b])
}

/* Server a learns that b has everything up to sequence number upto. */
inline acknowledged(a, b, upto) {
	do
	:: s[a].nsent && s[a].sent[0].seq <= upto ->
		if
		:: s[a].sent[0].kind == STATE ->
#ifdef NO_MUST
			s[a].synced = 1;
#else
			s[a].must = 1;
#endif
			s[a].sync_at = s[a].version
		:: else
		fi;
		for (k : 1 .. QUEUE - 1) {
			s[a].sent[k - 1].kind = s[a].sent[k].kind; s[a].sent[k - 1].seq = s[a].sent[k].seq;
			s[a].sent[k - 1].version = s[a].sent[k].version;
			s[a].sent[k - 1].has = s[a].sent[k].has; s[a].sent[k - 1].last = s[a].sent[k].last
		};
		s[a].nsent--;
		s[a].sent[s[a].nsent].kind = 0; s[a].sent[s[a].nsent].seq = 0; s[a].sent[s[a].nsent].version = 0;
		s[a].sent[s[a].nsent].has = 0; s[a].sent[s[a].nsent].last = 0;
		if
		:: s[a].marked -> s[a].marked--
		:: else
		fi
	:: else -> break
	od;
	settle(a);
	if
	:: s[a].must && s[a].feed == s[a].to && safe >= s[a].sync_at -> s[a].synced = 1
	:: else
	fi
}

/* ---- P1 --------------------------------------------------------------------------------- */

inline check() {
	for (k : 0 .. SERVERS - 1) {
		if
		:: k < lay[cur].n -> assert((s[lay[cur].chain[k]].has & acked) == acked)
		:: else
		fi
	}
}

#define MAY_SEND(a) (s[a].to == NONE || s[a].nsent < QUEUE)
#define EACH(x) x = 0; do :: x < SERVERS - 1 -> x++ :: break od

#ifdef TRACE
#include "trace.pml"
#else
init {
	atomic {
		cur = 1;
		lay[1].n = CHAIN;
		lay[1].joining = NONE;
		worker_epoch = 1;
		for (i : 0 .. SERVERS - 1) {
			lay[1].chain[i] = (i < CHAIN -> i : NONE);
			s[i].epoch = 1;
#ifdef LATE_LINKS
			s[i].known = 1;
			s[i].accepts = 1;
#endif
			s[i].to = (i + 1 < CHAIN -> i + 1 : NONE);
			s[i].must = (i + 1 < CHAIN);
			s[i].feed = NONE;
			s[i].here = (i < CHAIN);
			s[i].live = (i < CHAIN);
			s[i].gone = (i >= CHAIN);
			s[i].head = (i == 0);
			s[i].tail = (i == CHAIN - 1)
		}
	};
	do
	:: atomic {
		/* i is any server; for events of two servers, j is any other. */
		EACH(i); EACH(j);
		if
		/* -- the coordinator: the events of j are those without another server -- */
		:: j == 0 && cur < EPOCHS ->
			in_chain(i);
			if
			:: (ok && lay[cur].n > 1) || lay[cur].joining == i -> lose(i)
			:: ((ok && lay[cur].n > 1) || lay[cur].joining == i) && deaths < DEATHS ->
				deaths++;
				lose(i);
				s[i].dead = 1; s[i].some = 0; s[i].push = 0; s[i].push_epoch = 0;
				close(s[i].receipt);
				for (k : 0 .. SERVERS - 1) { close(s[i].copied[k]); clear(s[i].in[k]) };
				forget(i);
				s[i].has = 0; s[i].last = 0; s[i].version = 0; s[i].here = 0
			:: !ok && !s[i].dead && lay[cur].joining == NONE -> new_layout(); lay[cur].joining = i
#ifdef OTHERS
			:: i == 0 -> new_layout()
#endif
#ifdef OLD_REPORT
			:: !reported && s[i].epoch == cur && s[i].tail && s[i].feed != NONE && s[i].feed == lay[cur].joining && s[i].synced ->
				reported = 1
			:: i == 0 && reported ->
				reported = 0;
#else
			:: s[i].epoch == cur && s[i].tail && s[i].feed != NONE && s[i].feed == lay[cur].joining && s[i].synced ->
#endif
				new_layout();
				lay[cur].chain[lay[cur].n] = lay[cur].joining;
				lay[cur].n++;
				lay[cur].joining = NONE
			fi
		/* -- views: the next, or the present one when a session was broken -- */
		:: j == 0 && !s[i].dead && s[i].epoch < cur && ACCEPTS(i) == s[i].epoch ->
			if
			:: t = s[i].epoch + 1
			:: t = cur
			fi;
			install(i)
#ifdef LATE_LINKS
		:: j == 0 && !s[i].dead && s[i].accepts < s[i].epoch -> s[i].accepts = s[i].epoch
		:: j == 0 && !s[i].dead && s[i].known < s[i].accepts -> s[i].known = s[i].accepts; s[i].marked = 0
#endif
		:: j == 0 && i == 0 && worker_epoch < cur -> worker_epoch = cur; sent_push = 0
		/* -- the worker -- */
#ifdef IN_FLIGHT
		:: j == 0 && at <= PUSHES && !sent_push && i == lay[worker_epoch].chain[0] && !s[i].some && !s[i].dead ->
			s[i].some = 1; s[i].push = at; s[i].push_epoch = worker_epoch;
			sent_push = 1
		:: j == 0 && s[i].some && s[i].push_epoch <= ACCEPTS(i) && !s[i].receipt.open && MAY_SEND(i) -> take_push(i)
#else
		:: j == 0 && at <= PUSHES && !sent_push && i == lay[worker_epoch].chain[0] && !s[i].dead &&
		   worker_epoch <= ACCEPTS(i) && !s[i].receipt.open && MAY_SEND(i) ->
			s[i].push = at; s[i].push_epoch = worker_epoch;
			sent_push = 1;
			take_push(i)
#endif
		/* its session breaks, and it retries */
		:: j == 0 && at <= PUSHES && sent_push && i == lay[worker_epoch].chain[0] && !s[i].dead ->
			s[i].some = 0; s[i].push = 0; s[i].push_epoch = 0;
			close(s[i].receipt);
			sent_push = 0
		/* -- a push of another worker -- */
		:: j == 0 && !s[i].dead && s[i].here && s[i].head && noise < NOISE && MAY_SEND(i) ->
			noise++;
			apply(i, 0);
			if
			:: s[i].to != NONE -> enqueue(i, 0)
			:: else
			fi
		/* -- and answers it -- */
		:: j == 0 && s[i].receipt.open ->
			is_safe(i, s[i].receipt);
			if
			:: ok ->
				stamp(i, s[i].receipt);
				if
				:: t >= worker_epoch && s[i].receipt.push == at && sent_push ->
					acked = acked | BIT(at);
					at++;
					sent_push = 0
				:: else
				fi;
				close(s[i].receipt)
			:: else ->
				has_left(i, s[i].receipt);
				ok;
				close(s[i].receipt)
			fi
		/* -- replication: i sends, j receives -- */
		:: !s[i].dead && j == s[i].feed && s[i].here && s[i].tail && s[i].to == NONE &&
#ifdef LATE_LINKS
		   lay[s[i].known].joining == j && lay[s[i].known].chain[lay[s[i].known].n - 1] == i &&
#endif
		   true ->
			s[i].to = j;
			s[i].must = 0; s[i].synced = 0;
			enqueue(i, STATE)
		:: !s[i].dead && !s[j].dead && j == s[i].to && s[i].marked < s[i].nsent &&
#ifdef IN_FLIGHT
		   !s[j].in[i].some ->
#else
#if defined(LATE_LINKS) && !defined(LATE_SENDS)
		   s[i].known == s[i].epoch &&
#endif
		   KNOWN(i) <= ACCEPTS(j) && MAY_SEND(j) ->
#endif
			s[j].in[i].some = 1;
			s[j].in[i].kind = s[i].sent[s[i].marked].kind; s[j].in[i].seq = s[i].sent[s[i].marked].seq;
			s[j].in[i].version = s[i].sent[s[i].marked].version;
			s[j].in[i].has = s[i].sent[s[i].marked].has; s[j].in[i].last = s[i].sent[s[i].marked].last;
			s[j].in[i].epoch = KNOWN(i);
#ifdef IN_FLIGHT
			s[i].marked++
#else
			s[i].marked++;
			receive(j, i)
#endif
		/* the session breaks, and is opened again */
		:: i != j && j == s[i].to && s[i].marked && !s[i].dead ->
			clear(s[j].in[i]);
			close(s[j].copied[i]);
			s[i].marked = 0
#ifdef IN_FLIGHT
		:: s[j].in[i].some && s[j].in[i].epoch <= ACCEPTS(j) && MAY_SEND(j) -> receive(j, i)
#endif
		:: s[j].copied[i].open ->
			is_safe(j, s[j].copied[i]);
			if
			:: ok ->
				stamp(j, s[j].copied[i]);
				if
				:: t >= KNOWN(i) && s[i].to == j && !s[i].dead -> acknowledged(i, j, s[j].copied[i].seq)
				:: else
				fi;
				close(s[j].copied[i])
			:: else ->
				has_left(j, s[j].copied[i]);
				ok;
				close(s[j].copied[i])
			fi
		fi;
		check();
		i = 0; j = 0; t = 0; place = 0; next = 0; safe = 0; ok = false; k = 0
	}
	od
}
#endif
