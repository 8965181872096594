#!/usr/bin/env bats
# Several copies of each partition: a server that dies, sleeps or comes back
# changes nothing in the result.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
}

teardown() {
	kill -CONT "${asleep[@]}" 2>/dev/null || true
	teardown_dir
}

asleep=()

# digits STEPS [members]: digits.json, three servers, two workers, deterministic.
digits() {
	need_data digits8x8/digits.csv.gz
	cat >digits.json <<-END
	{ "servers": 3, "workers": 2, "deterministic": true, "on_worker_loss": "wait:30s", "lease": "2s", ${2:-}
	  "job": { "model": "mlp", "hidden": [16], "data": "$DATA/digits8x8/digits.csv.gz?label=last",
	  "steps": $1, "batch": 8, "optimizer": "adam", "lr": 0.001 } }
	END
}

# sparse STEPS: sparse.json, a logistic model over sparse rows.
sparse() {
	need_data a9a/a9a.gz
	cat >sparse.json <<-END
	{ "servers": 3, "workers": 2, "deterministic": true, "on_worker_loss": "wait:30s", "lease": "2s",
	  "job": { "model": "logistic", "data": "$DATA/a9a/a9a.gz", "steps": $1, "batch": 16, "optimizer": "adagrad",
	  "lr": 0.1 } }
	END
}

pid_of() {
	cat "$RUN/$1.pid"
}

# kill_server N: and until the others go on.
kill_server() {
	local epoch
	epoch=$(status .epoch)
	kill -9 "$(pid_of "server-$1")"
	wait_for 10 eval "epoch_is_past $epoch || over"
}

epoch_is_past() {
	[ "$(status .epoch)" -gt "$1" ] 2>/dev/null
}

# All servers are there, and hold what they shall.
is_mended() {
	http GET /v1/status | jq -e '.servers == .servers_wanted and .partitions_moving == 0' >/dev/null &&
		[ "$(http GET /v1/layout | jq '[.tables[].runs[][2] | length] | min')" = "${1:-2}" ]
}

# steps_on N: so many further, or to the end.
steps_on() {
	local to=$(($(status .step) + $1))
	wait_for 20 eval "step_is_past $to || over"
}

over() {
	[[ $(status .state) =~ ^(done|failed|stopped)$ ]]
}

# finished [DIGEST]: it is done, with this model.
finished() {
	wait_for 60 over || return 1
	RESULT=$(http GET /v1/result)
	[ "$(res .state)" = done ] || {
		echo "$RESULT"
		tail -n 20 "$RUN"/*.log
		return 1
	}
	wait_for 10 test -s "$RUN/result.json"
	[ $# -eq 0 ] || [ "$(jq -r .model_digest "$RUN/result.json")" = "$1" ] || {
		echo "model $(jq -r .model_digest "$RUN/result.json"), not $1"
		return 1
	}
}

put_away() {
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
}

@test "1, 2 and 3 copies: the same model, and status tells of them" {
	digits 300
	train digits.json
	first=$(res .model_digest)
	for replicas in 2 3; do
		train digits.json --set replicas=$replicas
		has .model_digest "$first"
	done
	begin digits.json --set replicas=2 --set steps=100000000
	wait_for 10 step_is_past 20
	run -0 ps-ctl status -C "$RUN" --json
	[ "$(jq -c '[.replicas, .partitions > 0, .partitions_moving]' <<<"${lines[0]}")" = '[2,true,0]' ]
	put_away
}

@test "deterministic mlp: one server killed, then another, then a worker: the same bits" {
	digits 20000
	train digits.json
	first=$(res .model_digest)
	for replicas in 2 3; do
		begin digits.json --set replicas=$replicas --max-restarts 9
		wait_for 20 step_is_past 100
		kill_server 1
		steps_on 300
		wait_for 20 eval "is_mended $replicas || over"
		over || kill_server 0
		steps_on 300
		at=$(status .step)
		over || kill -9 "$(pid_of worker-1)"
		[ "$at" -lt 20000 ]
		finished "$first"
		figure "$replicas copies: $(grep -c 'is lost' "$RUN/coordinator.log") losses, the worker at step $at, epoch $(status .epoch)"
		put_away
	done
}

@test "deterministic sparse logistic: servers killed: the same bits" {
	sparse 3000
	train sparse.json
	first=$(res .model_digest)
	begin sparse.json --set replicas=2 --max-restarts 9
	wait_for 20 step_is_past 100
	kill_server 2
	steps_on 300
	wait_for 20 eval "is_mended || over"
	over || kill_server 0
	finished "$first"
	put_away
}

@test "ssp and asp: a server killed: the job is done" {
	sparse 1500
	for mode in ssp:2 asp; do
		begin sparse.json --set replicas=2 --set deterministic=false --set sync=$mode
		wait_for 20 step_is_past 100
		kill_server 1
		finished
		put_away
	done
}

@test "a server that sleeps is succeeded and fenced; the model is the same" {
	digits 5000
	train digits.json
	first=$(res .model_digest)
	begin digits.json --set replicas=2
	wait_for 20 step_is_past 100
	asleep=("$(pid_of server-0)")
	kill -STOP "${asleep[@]}"
	wait_for 10 epoch_is_past 1
	grep -q 'server-0 .* is lost' "$RUN/coordinator.log"
	wait_for 20 step_is_past $(($(status .step) + 500))
	kill -CONT "${asleep[@]}"
	finished "$first"
	put_away
}

@test "all servers killed at once: one sentence, and nothing is left" {
	digits 100000000
	RUN=$T/digits.run
	background ps-ctl run digits.json --set replicas=2 --max-restarts 0 --json
	wait_for 10 test -S "$RUN/ctl.sock"
	wait_for 10 step_is_past 50
	kill -9 "$(pid_of server-0)" "$(pid_of server-1)" "$(pid_of server-2)"
	finish
	[ "$status" -eq 1 ]
	RESULT=$(tail -n 1 out)
	has .state failed
	[[ $(res .reason) == *server-* ]]
	[ "$(grep -c '^ps-ctl: ' err)" -eq 1 ]
	figure "$(res .reason)"
	none_left "$T"
}
