#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The library: what programs see of it, and workers that are programs of their own.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
	RUN=$T/c.run
	[ -z "${PS_SANITIZED:-}" ] || CC="${CC:-gcc} -fsanitize=$(sed 's/.*san-//; s/-/,/g' <<<"$BIN")"
	: "${CC:=cc}"
}

teardown() {
	teardown_dir
}

build() {
	$CC -std=c99 -Wall -Wextra -pedantic -Werror -O2 -I"$ROOT/lib/pskit" -o "$1" "$2" -L"$BIN" -lpskit -Wl,-rpath,"$BIN" "${@:3}"
}

write_data() {
	awk 'BEGIN { srand(7); for (i = 0; i < 400; i++) { a = rand(); b = rand(); c = rand()
		print a "," b "," c "," 3 * a - 2 * b + c / 2 + 1 } }' >linear.csv
}

@test "its symbols are those of the list, in both libraries; it needs no BLAS" {
	nm -D --defined-only "$BIN/libpskit.so.0" | awk '$2 == "T" { sub("@.*", "", $3); print $3 }' | sort >so
	nm -g --defined-only "$BIN/libpskit.a" | awk 'NF == 3 { print $3 }' | sort >a
	diff "$ROOT/tests/lib/symbols" so
	diff so a
	# And each is declared in the header, and named by the manual.
	while read -r name; do
		grep -q "\b$name(" "$ROOT/lib/pskit/pskit.h"
		grep -q "\.Fn $name\|\.Fo $name" "$ROOT/man/pskit.3" || { echo "man/pskit.3 does not name $name"; false; }
	done <so
	readelf -d "$BIN/libpskit.so.0" | grep -q 'SONAME.*libpskit.so.0'
	run bash -c "readelf -d '$BIN/libpskit.so.0' | grep -c 'blas\|curl\|microhttpd'"
	[ "$output" = 0 ]
}

@test "the example trains what the programs of --exec train, and from C++ the header is one" {
	write_data
	build linear "$ROOT/contrib/examples/c/linear.c"
	[ "$(wc -l <"$ROOT/contrib/examples/c/linear.c")" -le 40 ]
	cat >c.json <<-END
	{ "workers": 2, "deterministic": true, "job": { "model": "custom", "command": "./linear", "epochs": 10, "batch": 50, "lr": 0.5 } }
	END
	train c.json
	has .steps 40
	loss=$(res .train_loss)
	cc -O2 -o linear-c "$ROOT/contrib/examples/program/linear.c"
	cat >e.json <<-END
	{ "workers": 2, "deterministic": true, "job": { "model": "custom", "tables": "w:4", "exec": "./linear-c", "data": "linear.csv",
	  "examples": 400, "epochs": 10, "batch": 50, "lr": 0.5 } }
	END
	train e.json
	[ "$(res .train_loss)" = "$loss" ]
	for set in sync=ssp:1 sync=asp replicas=2 via=allreduce; do
		train c.json --set deterministic=false --set servers=2 --set $set
		has .examples 4000
	done
	! command -v g++ >/dev/null || echo '#include "pskit.h"' | g++ -x c++ -Wall -Werror -fsyntax-only -I"$ROOT/lib/pskit" -
}

@test "steps go on when the mode changes between what was asked for ahead and the step" {
	write_data
	build linear "$ROOT/contrib/examples/c/linear.c"
	cat >c.json <<-END
	{ $(paced $ENDLESS) "workers": 2, "job": { "model": "custom", "command": "./linear", "steps": $ENDLESS, "batch": 10, "lr": 0.01 } }
	END
	begin c.json
	for change in sync=ssp:2 sync=bsp backup=1 backup=0 sync=asp sync=bsp; do
		wait_for 20 step_is_past $(($(status .step) + 20))
		ps-ctl set "$change"
	done
	wait_for 20 step_is_past $(($(status .step) + 20))
	[ "$(http GET /v1/events | jq '[.events[] | select(.event == "worker_lost")] | length')" -eq 0 ]
	ps-ctl stop >/dev/null
	none_left "$T"
}

@test "a worker of the library is killed, and another is stopped: the rest end the job" {
	write_data
	build linear "$ROOT/contrib/examples/c/linear.c"
	cat >c.json <<-END
	{ "workers": 3, "servers": 2, "lease": "2s", "job": { "model": "custom", "command": "./linear", "steps": 1000, "batch": 5 } }
	END
	begin c.json "${HELD[@]}"
	wait_for 20 step_is_past 10
	kill -9 "$(worker 1 .pid)"
	wait_for 10 eval '[ "$(status .workers)" -eq 2 ]'
	let_go
	ps-ctl wait --for done --timeout 180s
	ps-ctl stop >/dev/null
	none_left "$T"
}

# calls: a program that is one of the words of tests/lib/library.c
@test "tables from beside the job, sparse rows, scores, cancelling, and what is refused" {
	write_data
	build calls "$ROOT/tests/lib/library.c" -pthread
	build linear "$ROOT/contrib/examples/c/linear.c"
	cat >c.json <<-END
	{ "workers": 2, "servers": 2, "job": { "model": "custom", "command": "./calls worker", "steps": 50, "batch": 10, "lr": 1 } }
	END
	run -0 ./calls refused
	begin c.json
	ps-ctl wait --for done --timeout 30s
	cat "$RUN"/worker-*.log
	[ "$(http GET /v1/result | jq -c '.eval | [.rmse, .examples, has("accuracy", "mood")]')" = '[0.25,77,false,false]' ]
	run -0 ./calls beside "$RUN"
	echo "$output"
	ps-ctl stop >/dev/null
	echo '{ "servers": 2, "name": "store" }' >store.json
	ps-ctl start store.json >/dev/null
	run -0 ./calls create store.run
	echo "$output"
	run -0 ps-work pull -C store.run emb
	[ "$(cut -f 1 <<<"$output")" = 7 ]
	ps-ctl stop -C store.run >/dev/null
	# In a job that goes on: cancelled from another thread.
	cat >d.json <<-END
	{ $(paced $ENDLESS) "workers": "1:2", "job": { "model": "custom", "command": "./linear", "steps": $ENDLESS, "batch": 10 } }
	END
	RUN=$T/d.run
	begin d.json
	wait_for 20 step_is_past 20
	ps-ctl scale workers=1
	wait_for 10 grep -qh 'linear: leaving: the number of workers was reduced' "$RUN"/worker-0.log "$RUN"/worker-1.log
	run -0 ./calls cancel "$RUN"
	echo "$output"
	[ "$(status .state)" = running ]
	ps-ctl stop >/dev/null
	# Asked while it waits.
	echo '{ "workers": 2, "job": { "model": "custom", "steps": 1000 } }' >e.json
	begin e.json
	PS_CLUSTER=$T/e.run run -0 ./calls interrupt_join
	echo "$output"
	# The job may count it until its lease is over.
	ps-ctl stop -C e.run >/dev/null
	begin e.json
	PS_CLUSTER=$T/e.run run -0 ./calls interrupt
	echo "$output"
	RUN=$T/e.run
	wait_for 10 eval '[ "$(status .workers)" -eq 0 ]'
	ps-ctl stop >/dev/null || true
	none_left "$T"
}

@test "calls that do not wait, rows without a copy, scores on the way; what the first worker says" {
	build calls "$ROOT/tests/lib/library.c" -pthread
	train_command "./calls async" --set workers=1 --set steps=20 --set batch=10 --set lr=1
	has .steps 20
	has .train_loss null
	# By steps 5, 10 and 15, and at the end.
	grep -x 'scored 4 times' exec.run/worker-0.log
	[ "$(grep -c '"event":"eval"' exec.run/events.jsonl)" -eq 3 ]
	has .eval.loss 4
	# Two wait for a third, and one of them is closed meanwhile.
	echo '{ "workers": 2, "job": { "model": "custom" } }' >own.json
	RUN=$T/own.run
	begin own.json
	PS_CLUSTER=$RUN run -0 ./calls abandon
	state_is forming
	ps-ctl stop >/dev/null
}

@test "rows of several tables, rows of the next step, and all rows" {
	build calls "$ROOT/tests/lib/library.c" -pthread
	RUN=$T/p.run
	for set in pull_delta=false pull_delta=true prefetch=true via=allreduce; do
		echo '{ "workers": 2, "servers": 2, "job": { "model": "custom", "epochs": 2, "batch": 10, "lr": 1 } }' >p.json
		begin p.json --set $set
		for rank in 0 1; do
			PS_CLUSTER=$RUN PSKIT_RANK=$rank ./calls prefetch 2>"out.$rank" 3>&- &
			pids[rank]=$!
		done
		for rank in 0 1; do
			wait "${pids[rank]}" || {
				cat out.*
				false
			}
		done
		ps-ctl stop >/dev/null || true
	done
}

# train_command COMMAND [options]
train_command() {
	RESULT=$(ps-ctl run --exec "$1" --json "${@:2}" 2>stderr | tail -n 1)
	[ "$(res .state)" = done ] || {
		cat stderr exec.run/*.log
		false
	}
}

@test "ps-ctl run --exec: what may be left out, and what may not; a program's settings" {
	write_data
	build linear "$ROOT/contrib/examples/c/linear.c"
	run -2 ps-ctl run
	[[ $output == *"FILE is missing: a cluster file, or --exec"* ]]
	run -4 ps-ctl run none --exec ./linear
	train_command ./linear --set workers=2 --set steps=30
	has .steps 30
	[ "$(jq -r .job.command exec.run/cluster.json)" = ./linear ]
	# A program may be wrong in what it says.
	cat >says.c <<-'END'
	#include <pskit.h>
	#include <stdio.h>
	int main(int argc, char **argv)
	{
		struct ps *p;
		int rc = ps_open(NULL, NULL, &p);
		for (int i = 1; !rc && i + 1 < argc; i += 2)
			rc = ps_set(p, argv[i], argv[i + 1]);
		rc = rc ? rc : ps_join(p, "w:4", 400);
		fprintf(stderr, "says: %s\n", ps_message(p));
		ps_close(p);
		return rc;
	}
	END
	build says says.c
	for bad in "lr -1" "optimizer best" "sync sometimes" "nothing 1" "deterministic true"; do
		run ps-ctl run --exec "./says $bad"
		[ "$status" -ne 0 ]
		grep "says: .*${bad%% *}" exec.run/worker-0.log
	done
	grep 'deterministic: a worker cannot set this key' exec.run/worker-0.log
}
