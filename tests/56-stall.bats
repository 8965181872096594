#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# One worker that hangs, or means harm, holds up neither the others nor what is changed.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	RUN=$T/c.run
}

teardown() {
	teardown_dir
}

# A job of two honest workers that does not end, with room for a third: write_job MODE [MEMBERS]
write_job() {
	write_csv train.csv
	cat >c.json <<-END
	{ "servers": 1, "workers": 3, "sync": "$1", "lease": "2s", "transport": "tcp", "row_ids": "raw", ${2:-}
	  $(paced "${STEPS:-$ENDLESS}")
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "steps": ${STEPS:-$ENDLESS}, "batch": 16, "lr": 0.01 } }
	END
	background ps-serve c.json
	server=$pid
	wait_for 10 test -S "$RUN/ctl.sock"
	for i in 0 1; do
		ps-work train -C "$RUN" --rank $i >"worker-$i.log" 2>&1 3>&- &
		pids+=($!)
	done
}

# start_absurd STEP: a third worker at this step, which tells in absurd.out what becomes of it.
start_absurd() {
	python3 "$BATS_TEST_DIRNAME/lib/absurd.py" "$RUN" 2 "$1" >absurd.out 2>absurd.err 3>&- &
	absurd=$!
	pids+=("$absurd")
}

absurd() {
	start_absurd "$1"
	wait_for 20 grep -q "$2" absurd.out
	cat absurd.out absurd.err
}

# events WORDS: the last event with these words.
event() {
	jq -r .text "$RUN/events.jsonl" | grep "$1" | tail -n 1
}

# Of "... from step N on": N.
step_of() {
	sed -n 's/.*from step \([0-9]*\) on.*/\1/p' <<<"$1"
}

is_out() {
	[ "$(worker 2 .state)" = lost ] && [ -n "$(event 'worker-2 is out from step')" ]
}

is_in_again() {
	[ "$(worker 2 .state)" = active ] && [ "$(worker 2 .host)" != absurd ] && [ "$(worker 2 .step)" -gt "$1" ]
}

# absurd_step MODE STEP: a change, a loss and a join come about in the course of the honest workers' steps.
absurd_step() {
	local at step
	write_job "$1"
	absurd "$2" '^pull'
	wait_for 20 eval '[ "$(worker 0 .step)" -gt 20 ]'
	run -0 ps-ctl set lr=0.02 -C "$RUN" --timeout 120s
	step=$(step_of "$output")
	echo "set at $step: $output"
	[ "$step" -lt 10000000 ]
	kill -9 "$absurd"
	wait_for 20 is_out
	step=$(step_of "$(event 'worker-2 is out from step')")
	[ "$step" -lt 10000000 ]
	ps-work train -C "$RUN" --rank 2 >worker-2.log 2>&1 3>&- &
	pids+=($!)
	wait_for 20 is_in_again "$step"
	[ "$(worker 2 .step)" -lt 10000000 ]
	at=$(worker 0 .step)
	wait_for 20 eval '[ "$(worker 0 .step)" -gt '$((at + 20))' ]'
	ps-ctl stop -C "$RUN" --discard >/dev/null
}

@test "asp: a worker at step 10^15 does not hold up a setting, its own loss or a join" {
	absurd_step asp 1000000000000000
}

# bats test_tags=slow
@test "ssp: a worker at step 10^15 does not hold up a setting, its own loss or a join" {
	absurd_step ssp:2 1000000000000000
}

@test "bsp: a worker at step 10^15 does not hold up a setting, its own loss or a join" {
	absurd_step bsp 1000000000000000
}

@test "a record of step 2^63 is refused, and its session closed" {
	write_job asp
	absurd 9223372036854775808 '^pull'
	[ "$(sort absurd.out | tr '\n' ' ')" = 'clock refused and closed pull refused and closed push refused and closed ' ]
	ps-ctl stop -C "$RUN" --discard >/dev/null
}

@test "bsp: the others come to their end beside a worker at step 10^15, and so does the job without it" {
	STEPS=400 write_job bsp '"quota_pushes": 20,'
	absurd 1000000000000000 '^pull'
	run -0 ps-ctl set quota_pushes=0 -C "$RUN"
	for i in 0 1; do
		wait_for 20 worker_is "$i" "done"
	done
	# The server answers, and is not closing steps that nobody came to.
	within 5000 ps-work pull -C "$RUN" w >/dev/null
	kill -9 "$absurd"
	wait_for 20 state_is done
}

# ---- workers that hang ------------------------------------------------------------------

# y = w - 3 in a program in shell; ./bad is read at each step of a worker with a file RANK.bad.
write_program() {
	cat >c.json <<-END
	{ "servers": 1, "workers": 2, "quota_pushes": 50, "deadline": "20s", "sync": "$1",
	  "job": { "model": "custom", "tables": "w:1", "examples": 400, "batch": 20, "steps": $ENDLESS, "lr": 0.5, "exec": "./to-three" } }
	END
	cat >to-three <<-'END'
	#!/bin/sh
	while read -r word step _ n _; do
		[ "$word" = step ] || continue
		[ ! -e "$PSKIT_WORKER.bad" ] || . ./bad
		echo "$(ps-work floats -d "$PSKIT_DIR/w.param") - 3" | bc -l | ps-work floats >"$PSKIT_DIR/w.grad"
		echo "ok loss 1 examples $n"
	done
	END
	chmod +x to-three
	echo 'sleep 1000.'$$ >bad
}

# Most of these tests is the time until a worker is given up, so both modes have it at once.

@test "bsp and ssp: a worker that hangs in its step is given up, and the others go on" {
	for mode in bsp ssp:2; do
		mkdir "$T/${mode%:*}"
		cd "$T/${mode%:*}"
		write_program "$mode"
		RUN=$PWD/c.run
		ps-ctl start c.json >start.log 2>&1 || { cat start.log; false; }
		wait_for 20 step_is_past 10
		touch worker-1.bad
	done
	for mode in bsp ssp; do
		cd "$T/$mode"
		RUN=$PWD/c.run
		wait_for 20 eval '[ -n "$(event "worker-1 .* is lost: it made no progress at step [0-9]* for [12][0-9]\.[0-9] s, three quarters of the deadline, while others waited")" ]'
		rm worker-1.bad
		wait_for 20 eval '[ "$(worker 1 .state)" != active ] || [ -n "$(event "worker-1 is out from step")" ]'
		at=$(worker 0 .step)
		wait_for 20 eval '[ "$(worker 0 .step)" -gt '$((at + 20))' ]'
		! grep -q 'exit code 124\|to wait longer, raise deadline' "$RUN"/*.log
		grep -q 'worker-1 .* it made no progress at step' "$RUN/server-0.log" "$RUN/coordinator.log" 2>/dev/null
		state_is running
		ps-ctl stop -C "$RUN" --discard --timeout 120s >/dev/null
		none_left "$RUN"
	done
}

@test "a worker that pushes and sends no CLOCK is given up; its push is answered, and it is fenced" {
	servers=()
	for mode in bsp ssp:2; do
		mkdir "$T/${mode%:*}"
		cd "$T/${mode%:*}"
		RUN=$PWD/c.run
		write_job "$mode" '"deadline": "20s",'
		servers+=("$server")
		start_absurd mute
	done
	for mode in bsp ssp; do
		cd "$T/$mode"
		RUN=$PWD/c.run
		wait_for 20 grep -q '^clock' absurd.out
		cat absurd.out absurd.err
		grep -q '^receipt \(merged\|applied\)$' absurd.out
		grep -q "^clock refused: rank 2 now belongs to another worker" absurd.out
		event 'worker-2 .* is lost: it made no progress at step 0 for [12][0-9]\.[0-9] s, three quarters of the deadline, while others waited'
		at=$(worker 0 .step)
		wait_for 20 eval '[ "$(worker 0 .step)" -gt '$((at + 20))' ]'
		worker_is 2 lost
		state_is running
		ps-ctl stop -C "$RUN" --discard >/dev/null
	done
	wait "${servers[@]}" || true
}
