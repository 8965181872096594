/* The model driven by the trace of a run (-DTRACE): chain.pml includes this file in place of its choice of
 * any event.  build/sim --chain writes the trace (tests/sim/chain_trace.h), and the verifier reads the file
 * that TRACE in its environment names.  The next event is always that of the next line: it must be possible in the
 * model, and the server must then be as the line says.  The verifier prints "accepted" and ends when all lines are
 * done: the trace is a behaviour of the model.
 *
 * The trace says which event comes next, so this is one path through the model.  Four things are wider
 * than in chain.pml's own choice, because there they would only add states:
 *
 *   - Records and acknowledgements between two servers: any number may be on their way at a time (flight,
 *     acks, dues).  An acknowledgement is sent and arrives in two events.
 *   - A server or the worker may take over any layout that is newer than its own.
 *   - The coordinator may change the chain twice in one layout, or make one with the same chain, because it
 *     changes other tables.
 *   - A server that has died just does nothing any more.  When it returns it is another server. */

#define MESSAGES 61

/* The kinds of lines, in the order of `words`. */
#define UNKNOWN_LINE 0
#define FIRST_LINE 1
#define LOSE_LINE 2
#define JOINED_LINE 3
#define JOIN_LINE 4
#define UNCHANGED_LINE 5
#define INSTALL_LINE 6
#define NOISE_LINE 7
#define TOOK_LINE 8
#define FEED_LINE 9
#define SENT_LINE 10
#define RECEIVED_LINE 11
#define REPLICATED_LINE 12
#define ACKNOWLEDGED_LINE 13
#define RECEIPT_LINE 14
#define WORKER_LINE 15

/* The line: its kind, its numbers, and the state of the server after it. */
int pos, length;
byte kind;
int o[8];
bool has_after;
int after[11];

byte first;             /* servers in the first chain */
link flight[MESSAGES];  /* 0: it does not arrive */
due dues[MESSAGES];     /* acknowledgements that are due and will be sent */
due acks[MESSAGES];     /* acknowledgements on their way */

c_decl {
	static struct line {
		int kind, x[8], has_after, after[11];
	} line[4096];
	static int lines, farthest, first_chain;
	static char why[256];
}

c_code {
	static const char *const words[] = { "unknown", "first", "lose", "joined", "join", "unchanged",
		"install", "noise", "took", "feed", "sent", "received", "replicated", "acknowledged",
		"receipt", "worker" };

	static void report_end(void)
	{
		printf("line %d of %d%s%s\n", first_chain + farthest + 1, first_chain + lines,
		    why[0] ? ": " : "", why);
	}

	/* Each line is a word, numbers among words, and perhaps a colon and more of both. */
	static void read_trace(void)
	{
		char text[1024];
		FILE *f = getenv("TRACE") ? fopen(getenv("TRACE"), "r") : 0;

		if (!f) {
			printf("TRACE names no file\n");
			exit(2);
		}
		while (fgets(text, sizeof text, f) && lines < 4096) {
			struct line *l = &line[lines];
			int *out = l->x, n = 0, most = 8, k = 0;

			for (char *word = strtok(text, " \n"); word; word = strtok(0, " \n")) {
				if (k++ == 0) {
					while (l->kind < 16 && strcmp(words[l->kind], word) != 0)
						l->kind++;
				} else if (strcmp(word, ":") == 0) {
					out = l->after;
					n = 0;
					most = 11;
					l->has_after = 1;
				} else if (word[0] >= '0' && word[0] <= '9' && n < most) {
					out[n++] = atoi(word);
				}
			}
			if (l->kind == 1) {
				first_chain++;
				memset(l, 0, sizeof *l);
			} else {
				lines++;
			}
		}
		fclose(f);
		atexit(report_end);
	}

	/* Is the server as the line says? */
	static int agrees(void)
	{
		static const char *const names[] = { "version", "here", "live", "head", "tail", "next",
			"joining", "must", "synced", "unacknowledged", "safe" };
		int a = now.o[0], have[11];

		if (!now.has_after)
			return 1;
		have[0] = now.s[a].version;
		have[1] = now.s[a].here;
		have[2] = now.s[a].live;
		have[3] = now.s[a].head;
		have[4] = now.s[a].tail;
		have[5] = now.s[a].to;
		have[6] = now.s[a].feed;
		have[7] = now.s[a].must;
		have[8] = now.s[a].synced;
		have[9] = now.s[a].nsent;
		have[10] = now.safe;
		for (int k = 0; k < 11; k++)
			/* Where there is no replica its version says nothing. */
			if (have[k] != now.after[k] && (have[1] || (k != 0 && k != 10))) {
				snprintf(why, sizeof why, "%s is %d in the model", names[k], have[k]);
				return 0;
			}
		return 1;
	}
}

inline next_line() {
	c_code {
		farthest = now.pos > farthest ? now.pos : farthest;
		/* That way there is no trail of the path, whose writing takes longer than all else. */
		if (now.pos == now.length) {
			printf("accepted\n");
			exit(0);
		}
		now.kind = line[now.pos].kind;
		memcpy(now.o, line[now.pos].x, sizeof line->x);
		now.has_after = line[now.pos].has_after;
		for (int n = 0; n < 11; n++)
			now.after[n] = line[now.pos].after[n];
	}
}

inline copy_due(to, from) {
	to.open = from.open; to.push = from.push; to.seq = from.seq; to.version = from.version;
	to.tenure = from.tenure; to.epoch = from.epoch;
	close(from)
}

inline copy_link(to, from) {
	to.some = from.some; to.kind = from.kind; to.seq = from.seq; to.version = from.version;
	to.has = from.has; to.last = from.last; to.epoch = from.epoch;
	clear(from)
}

/* The event of the line.  The numbers in o[] are those of the line, in its order. */
inline follow() {
	if
	/* -- the coordinator -- */
	:: kind == LOSE_LINE ->
		in_chain(i);
		(ok && lay[cur].n > 1) || lay[cur].joining == i;
		lose(i)
	:: kind == JOINED_LINE ->
		place = lay[cur].chain[lay[cur].n - 1];
		s[place].epoch == cur - o[1] && s[place].tail && s[place].feed != NONE &&
		    s[place].feed == lay[cur].joining && lay[cur].joining == i && s[place].synced;
		new_layout();
		lay[cur].chain[lay[cur].n] = lay[cur].joining;
		lay[cur].n++;
		lay[cur].joining = NONE
	:: kind == JOIN_LINE ->
		in_chain(i);
		!ok && lay[cur].joining == NONE;
		new_layout();
		lay[cur].joining = i
	:: kind == UNCHANGED_LINE -> new_layout()
	/* -- views -- */
	:: kind == INSTALL_LINE ->
		t = o[1];
		t > s[i].epoch && t <= cur;
		s[i].accepts = s[i].epoch;
		install(i)
	:: kind == WORKER_LINE ->
		o[0] >= worker_epoch && o[0] <= cur;
		worker_epoch = o[0];
		sent_push = 0
	/* -- the worker's push, and one of others -- */
	:: kind == TOOK_LINE ->
		o[2] <= worker_epoch && o[1] <= at && i == lay[o[2]].chain[0] && MAY_SEND(i);
		s[i].accepts <= o[2] && o[2] <= s[i].epoch;
		s[i].accepts = o[2];
		s[i].push = o[1]; s[i].push_epoch = o[2];
		sent_push = 1;
		take_push(i);
		s[i].receipt.open;
		if
		:: o[3] -> copy_due(dues[o[3]], s[i].receipt)
		:: else -> close(s[i].receipt)
		fi
	:: kind == NOISE_LINE ->
		s[i].here && s[i].head && MAY_SEND(i);
		apply(i, 0);
		if
		:: s[i].to != NONE -> enqueue(i, 0)
		:: else
		fi
	:: kind == RECEIPT_LINE ->
		dues[o[1]].open && dues[o[1]].push;
		is_safe(i, dues[o[1]]);
		ok;
		stamp(i, dues[o[1]]);
		if
		:: o[2] ->
			t >= worker_epoch && dues[o[1]].push == at && sent_push;
			acked = acked | BIT(at);
			at++;
			sent_push = 0
		:: else
		fi;
		close(dues[o[1]])
	/* -- replication -- */
	:: kind == FEED_LINE ->
		j == s[i].feed && s[i].here && s[i].tail && s[i].to == NONE;
		s[i].to = j;
		s[i].must = 0; s[i].synced = 0;
		enqueue(i, STATE)
	:: kind == SENT_LINE ->
		/* a session of its own: everything is sent again */
		if
		:: o[6] -> s[i].marked = 0
		:: else
		fi;
		o[5] == s[i].epoch;
		s[i].known = o[5];
		j == s[i].to && s[i].marked < s[i].nsent;
		s[i].sent[s[i].marked].kind == o[2] && s[i].sent[s[i].marked].seq == o[3] &&
		    s[i].sent[s[i].marked].version == o[4];
		if
		:: o[7] ->
			flight[o[7]].some = 1;
			flight[o[7]].kind = s[i].sent[s[i].marked].kind;
			flight[o[7]].seq = s[i].sent[s[i].marked].seq;
			flight[o[7]].version = s[i].sent[s[i].marked].version;
			flight[o[7]].has = s[i].sent[s[i].marked].has;
			flight[o[7]].last = s[i].sent[s[i].marked].last;
			flight[o[7]].epoch = s[i].known
		:: else
		fi;
		s[i].marked++
	:: kind == RECEIVED_LINE ->
		flight[o[2]].some && s[i].accepts <= flight[o[2]].epoch && flight[o[2]].epoch <= s[i].epoch &&
		    MAY_SEND(i);
		s[i].accepts = flight[o[2]].epoch;
		copy_link(s[i].in[j], flight[o[2]]);
		receive(i, j);
		s[i].copied[j].open == (o[3] == 1);
		if
		:: o[4] -> copy_due(dues[o[4]], s[i].copied[j])
		:: else -> close(s[i].copied[j])
		fi
	:: kind == REPLICATED_LINE ->
		dues[o[2]].open && !dues[o[2]].push;
		is_safe(i, dues[o[2]]);
		ok;
		stamp(i, dues[o[2]]);
		dues[o[2]].epoch = t;
		if
		:: o[3] -> copy_due(acks[o[3]], dues[o[2]])
		:: else -> close(dues[o[2]])
		fi
	:: kind == ACKNOWLEDGED_LINE ->
		s[i].known <= o[3] && o[3] <= s[i].epoch;
		s[i].known = o[3];
		acks[o[2]].open && acks[o[2]].epoch >= s[i].known && s[i].to == j;
		place = acks[o[2]].seq;
		close(acks[o[2]]);
		acknowledged(i, j, place)
	fi
}

init {
	atomic {
		c_code {
			read_trace();
			now.first = first_chain;
			now.length = lines;
		}
		cur = 1;
		lay[1].n = first;
		lay[1].joining = NONE;
		worker_epoch = 1;
		for (i : 0 .. SERVERS - 1) {
			lay[1].chain[i] = (i < first -> i : NONE);
			s[i].epoch = 1;
			s[i].known = 1;
			s[i].accepts = 1;
			s[i].to = (i + 1 < first -> i + 1 : NONE);
			s[i].must = (i + 1 < first);
			s[i].feed = NONE;
			s[i].here = (i < first);
			s[i].live = (i < first);
			s[i].gone = (i >= first);
			s[i].head = (i == 0);
			s[i].tail = (i == first - 1)
		}
	};
	do
	:: atomic {
		next_line();
		i = o[0]; j = o[1];
		follow();
		check();
		if
		:: has_after -> i = o[0]; settle(i)
		:: else
		fi;
		c_code { now.ok = agrees(); };
		ok;
		i = 0; j = 0; t = 0; place = 0; next = 0; safe = 0; ok = false; k = 0;
		pos++
	}
	od
}
