#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# A run directory that is removed while its cluster lives: the processes end, since nobody could reach them.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() { setup_training; }
teardown() {
	kill -9 "${mine[@]}" 2>/dev/null || true
	teardown_dir
}
mine=()

is_gone() { ! kill -s 0 "$1" 2>/dev/null || grep -q '^State:[[:space:]]*Z' "/proc/$1/status"; }
all_pids() { cat "$RUN"/*.pid; }

# The processes go on writing while it is removed.
remove_run() { wait_for 10 eval 'rm -rf "$RUN" 2>/dev/null && [ ! -e "$RUN" ]'; }

@test "run: its processes end, and it says why" {
	endless
	background ps-ctl run lin --set servers=2 --set replicas=2
	RUN=$T/lin.run
	wait_for 20 step_is_past 20
	mapfile -t mine < <(all_pids)
	remove_run
	finish
	[ "$status" -eq 1 ]
	grep -q "the run directory .*lin.run was deleted" err
	for p in "${mine[@]}"; do is_gone "$p"; done
	none_left "$T"
}

@test "start: the supervisor and its processes end" {
	endless
	begin lin.json
	wait_for 20 step_is_past 20
	supervisor=$(sed -n 1p "$RUN/lock")
	mapfile -t mine < <(all_pids; echo "$supervisor")
	remove_run
	for p in "${mine[@]}"; do wait_for 20 is_gone "$p"; done
	none_left "$T"
}

@test "a server that was started by hand ends" {
	endless
	background ps-serve lin.json
	RUN=$T/lin.run
	wait_for 20 state_is forming
	remove_run
	finish
	[ "$status" -eq 1 ]
	grep -q "the run directory was deleted" err
}

@test "a run directory that is renamed goes on" {
	endless
	begin lin.json
	wait_for 20 step_is_past 20
	mv lin.run other.run
	RUN=$T/other.run
	wait_for 20 step_is_past $(($(status .step) + 20))
	kill -s 0 "$(sed -n 1p "$RUN/lock")"
	# What it saves cannot be written under the old name.
	ps-ctl stop -C "$RUN" --discard || true
	none_left "$T"
}
