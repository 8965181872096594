#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# ps-stat why: who waits, for whom, and what to do about it; each cause staged.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() { setup_training; }
teardown() {
	kill -CONT "${asleep[@]}" 2>/dev/null || true
	teardown_dir
}
asleep=()

pid_of() { cat "$RUN/$1.pid"; }
freeze() {
	asleep+=("$(pid_of "$1")")
	kill -STOP "$(pid_of "$1")"
}
why() { ps-stat -C "$RUN" why "$@"; }
says() { why | head -n 1 | grep -qE "$1"; }
is_quiet() { ! why | grep -v '^everybody' | grep -q ' waits\? for '; }

three() {
	write_csv train.csv
	cat >three.json <<-END
	{ "servers": 2, "workers": 3, "lease": "20s",
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "steps": $ENDLESS, "batch": 16, "lr": 0.001 } }
	END
}

@test "a worker that is stopped, and a server: by name, and nobody when they go on" {
	three
	begin three.json
	wait_for 20 step_is_past 20
	wait_for 20 is_quiet
	freeze worker-1
	wait_for 10 says '^worker-0, worker-2 wait for worker-1 at step [0-9]+ \([0-9.]+ s\): .*has been silent for .*; .*stopped or disconnected'
	[ "$(why --json | jq -r 'select(.id != "everybody") | .kind + " " + .id + " " + .for' | tr '\n' ',')" = "why worker-0 worker-1,why worker-2 worker-1," ]
	why --json | head -n 1 | jq -e '.since_seconds > 0.2 and .step > 0 and (.remedy | length) > 0' >/dev/null
	[ "$(why -H -k who,for | grep -c "^worker-[02].worker-1$")" -eq 2 ]
	kill -CONT "${asleep[0]}"
	wait_for 20 is_quiet
	freeze server-1
	# One of them may be a step behind the others: then it has a line of its own.
	wait_for 10 eval '[ "$(why --json | jq -r "select(.for == \"server-1\").id" | sort -u | tr "\n" " ")" = "worker-0 worker-1 worker-2 " ]'
	why | grep -q '^worker.* waits\? for server-1 at step .*has been silent'
	kill -CONT "${asleep[1]}"
	wait_for 20 is_quiet
}

@test "somebody who has not come, and who is slow at every step" {
	three
	sed -i 's/"workers": 3/"workers": 2/' three.json
	background ps-serve three.json
	RUN=$T/three.run
	wait_for 10 test -S "$RUN/ctl.sock"
	wait_for 10 says '^the start waits for server-1 '
	run -0 why
	[[ ${lines[0]} == "the start waits for server-1 ("*"it has not joined yet; start it: ps-serve "* ]]
	[[ ${lines[1]} == "the start waits for worker-0 ("* ]]
	[[ ${lines[2]} == "the start waits for worker-1 ("*"ps-work train --join FILE"* ]]
	ps-serve -C "$RUN" --name server-1 2>server.log 3>&- &
	pids+=($!)
	ps-work train -C "$RUN" 2>w0.log 3>&- &
	pids+=($!)
	ps-work train -C "$RUN" --compute 30ms 2>w1.log 3>&- &
	pids+=($!)
	wait_for 20 step_is_past 15
	wait_for 20 says '^everybody waits for worker-[01] at step .*: a step takes it [0-9.]+ ms without waiting, the others [0-9.]+ ms; [0-9]+ % of that is compute; sync=ssp:S or backup=1'
}
