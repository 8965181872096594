#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Signals: each process does what the manual says, and whoever ends by one is named with it.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() { setup_training; }
teardown() { teardown_dir; }

pid_of() { cat "$RUN/$1.pid"; }
# Process $1 has no signal pending that it blocks.
has_taken() { ! grep -qE "^(ShdPnd|SigPnd):.*[1-9a-f]" "/proc/$1/status"; }

@test "signals without a meaning end no process of a cluster, and training goes on" {
	endless
	begin lin.json --set servers=2 --set replicas=2
	wait_for 20 step_is_past 20
	supervisor=$(sed -n 1p "$RUN/lock")
	declare -A was
	for id in coordinator server-0 server-1 worker-0 worker-1; do
		was[$id]=$(pid_of $id)
	done
	for sig in HUP USR1 USR2 ALRM XCPU IO PWR; do
		for id in coordinator server-0 server-1 worker-0 worker-1; do
			kill -$sig "${was[$id]}"
		done
	done
	for sig in USR1 ALRM XCPU IO PWR; do
		kill -$sig "$supervisor"
	done
	for pid in "${was[@]}" "$supervisor"; do
		wait_for 10 has_taken "$pid"
	done
	wait_for 10 step_is_past $(($(status .step) + 60))
	for id in coordinator server-0 server-1 worker-0 worker-1; do
		[ "$(pid_of $id)" = "${was[$id]}" ]
		kill -s 0 "${was[$id]}"
	done
	for id in coordinator server-0 server-1; do
		wait_for 10 grep -q 'ignored SIGXCPU' "$RUN/$id.log"
	done
	# SIGUSR1 did have one.
	wait_for 20 eval '[ "$(status .checkpoint_step)" != null ] || ls "$RUN/checkpoints" | grep -q "^step-"'
	grep -q 'SIGUSR1 is ignored here' "$RUN/server-1.log"
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
}

@test "a process that ends by a signal is named with it in the events" {
	endless
	# A sanitizer would take the signal for itself.
	export ASAN_OPTIONS=handle_segv=0 TSAN_OPTIONS=handle_segv=0
	begin lin.json --set servers=2 --set replicas=2 --set on_worker_loss=wait:60s
	wait_for 20 step_is_past 20
	kill -ABRT "$(pid_of worker-1)"
	wait_for 20 eval 'ps-ctl -C "$RUN" events process_ended | grep -q "worker-1 ended by SIGABRT"'
	kill -SEGV "$(pid_of server-1)"
	wait_for 20 eval 'ps-ctl -C "$RUN" events process_ended | grep -q "server-1 ended by SIGSEGV"'
	kill -KILL "$(pid_of coordinator)"
	wait_for 30 grep -q '"process_ended","text":"coordinator ended by SIGKILL"' "$RUN/events.jsonl"
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "processes that end while no coordinator runs are all named to the next one" {
	endless
	begin lin.json --set servers=2 --set replicas=2 --set on_worker_loss=wait:60s
	wait_for 20 step_is_past 20
	supervisor=$(sed -n 1p "$RUN/lock")
	kill -STOP "$supervisor"
	kill -KILL "$(pid_of coordinator)" "$(pid_of worker-0)" "$(pid_of worker-1)"
	kill -CONT "$supervisor"
	for id in coordinator worker-0 worker-1; do
		wait_for 30 grep -q "\"process_ended\",\"text\":\"$id ended by SIGKILL\"" "$RUN/events.jsonl"
	done
	[ "$(grep -c '"process_ended"' "$RUN/events.jsonl")" = 3 ]
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "a cluster that ends because its coordinator got SIGTERM says so in its result" {
	endless
	background ps-ctl run lin --json --set servers=2 --set replicas=2
	RUN=$T/lin.run
	wait_for 20 step_is_past 20
	kill -TERM "$(pid_of coordinator)"
	finish
	[ "$status" -eq 1 ]
	[ "$(field reason <out)" = "the coordinator got SIGTERM" ]
	grep -q 'SIGTERM: leaving' "$RUN/coordinator.log"
}

@test "a sweep does not end by a signal without a meaning" {
	endless
	background ps-ctl sweep lin --grid lr=0.1,0.2
	wait_for 30 eval 'RUN=$(ls -d lin.sweep/*.run | head -n 1) && step_is_past 20'
	for sig in USR1 USR2 ALRM XCPU; do
		kill -$sig "$pid"
	done
	step=$(status .step)
	wait_for 20 step_is_past $((step + 40))
	kill -s 0 "$pid"
	kill -TERM "$pid"
	finish
	none_left "$T"
}

@test "a run that a signal ends before its coordinator answers is stopped, and says by what" {
	write_cluster 1
	# Programs are started from the directory of ps-ctl.
	mkdir bin
	cp "$(command -v ps-ctl)" bin
	printf '#!/bin/sh\nexec sleep 60\n' | tee bin/ps-serve >bin/ps-work
	chmod +x bin/*
	background bin/ps-ctl run lin
	RUN=$T/lin.run
	wait_for 10 test -s "$RUN/server-0.pid"
	kill -TERM "$pid"
	finish
	[ "$status" -eq 143 ]
	[ "$(cat out)" = "stopped (SIGTERM)" ]
	! grep failed err
}

# as_process_1 COMMAND...: run it as process 1 of a container's processes, in the background. $pid is what waits for it
# here, and $one its number here.
as_process_1() {
	unshare --user --map-root-user --pid --fork --kill-child --mount-proc true 2>/dev/null || skip "no pid namespaces here"
	unshare --user --map-root-user --pid --fork --kill-child --mount-proc sh -c 'exec "$@"' sh "$@" >"$T/one.out" 2>&1 3>&- &
	pid=$!
	pids+=("$pid")
	wait_for 10 eval 'one=$(pgrep -P $pid) && [ -n "$one" ]'
}
no_zombies() { ! ps --ppid "$one" -o stat= | grep -q Z; }

wait_ends() {
	status=0
	wait "$pid" || status=$?
	[ "$status" -eq "$1" ] || { cat "$T/one.out"; false; }
}

@test "as process 1: signals arrive, orphans are reaped, and the exit code is that of the program" {
	printf '{ "servers": 1 }' >one.json
	as_process_1 ps-serve one.json
	wait_for 20 ps-ctl -C one.run status
	# The shell ends at once, and process 1 inherits what it has started.
	: >go
	nsenter -t "$one" -U -p -m sh -c "for i in 1 2 3; do sh -c 'while [ -e $T/go ]; do sleep 0.05; done' & done"
	[ "$(ps --ppid "$one" -o pid= | wc -l)" -eq 4 ]
	rm go
	wait_for 10 eval '[ "$(ps --ppid "$one" -o pid= | wc -l)" -eq 1 ]'
	no_zombies
	kill "$one"
	wait_ends 0
	grep -q 'SIGTERM: leaving' one.out
	# A whole cluster, whose programs leave processes behind.
	endless
	as_process_1 ps-ctl run lin.json
	RUN=$T/lin.run
	wait_for 20 step_is_past 20
	no_zombies
	kill "$one"
	wait_ends 75
	# A program that handles no signal, and one that fails.
	as_process_1 ps-ctl wait -C one.run --for ready --timeout 60s
	# The kernel drops signals to a process 1 without handlers. It has them when its program has started.
	wait_for 10 pgrep -P "$one" -x ps-ctl
	kill "$one"
	wait_ends 143
	run unshare --user --map-root-user --pid --fork --kill-child --mount-proc ps-serve --nonsense
	[ "$status" -eq 2 ]
}
