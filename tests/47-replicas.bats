#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
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
	{ $(paced "$1") "servers": 3, "workers": 2, "deterministic": true, "on_worker_loss": "wait:10m", "lease": "2s", ${2:-}
	  "job": { "model": "mlp", "hidden": [16], "data": "$DATA/digits8x8/digits.csv.gz?label=last&scale=none",
	  "steps": $1, "batch": 8, "optimizer": "adam", "lr": 0.001 } }
	END
}

# sparse STEPS: sparse.json, a logistic model over sparse rows.
sparse() {
	need_data a9a/a9a.gz
	cat >sparse.json <<-END
	{ "servers": 3, "workers": 2, "deterministic": true, "on_worker_loss": "wait:10m", "lease": "2s",
	  "job": { "model": "logistic", "data": "$DATA/a9a/a9a.gz", "steps": $1, "batch": 16, "optimizer": "adagrad",
	  "lr": 0.1 } }
	END
}

pid_of() {
	cat "$RUN/$1.pid"
}

# kill_server N: and until the others have a layout without it.
kill_server() {
	local epoch
	epoch=$(status .layout_epoch)
	kill -9 "$(pid_of "server-$1")"
	wait_for 20 epoch_is_past "$epoch"
}

epoch_is_past() {
	[ "$(status .layout_epoch)" -gt "$1" ] 2>/dev/null
}

# All servers are there, and hold what they shall.
is_mended() {
	http GET /v1/status | jq -e '.servers == .servers_wanted and .partitions_moving == 0' >/dev/null &&
		[ "$(http GET /v1/layout | jq '[.tables[].runs[][2] | length] | min')" = "${1:-2}" ]
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
	begin digits.json --set replicas=2 --set steps=$ENDLESS --set quota_pushes=80
	wait_for 10 step_is_past 20
	run -0 ps-ctl status -C "$RUN" --json
	[ "$(jq -c '[.replicas, .partitions > 0, .partitions_moving]' <<<"${lines[0]}")" = '[2,true,0]' ]
	put_away
}

# bats test_tags=slow
@test "deterministic mlp: one server killed, then another, then a worker: the same bits" {
	digits 1000
	train digits.json
	first=$(res .model_digest)
	for replicas in 2 3; do
		begin digits.json --set replicas=$replicas --max-restarts 9 "${HELD[@]}"
		wait_for 20 step_is_past 10
		kill_server 1
		steps_on
		wait_for 20 is_mended $replicas
		kill_server 0
		steps_on
		at=$(status .step)
		kill -9 "$(pid_of worker-1)"
		let_go
		finished "$first"
		figure "$replicas copies: $(grep -c 'is lost' "$RUN/coordinator.log") losses, the worker at step $at, epoch $(status .layout_epoch)"
		put_away
	done
}

@test "deterministic sparse logistic: servers killed: the same bits" {
	sparse 500
	train sparse.json
	first=$(res .model_digest)
	begin sparse.json --set replicas=2 --max-restarts 9 "${HELD_SPARSE[@]}"
	wait_for 20 step_is_past 10
	kill_server 2
	steps_on 10
	wait_for 20 is_mended
	kill_server 0
	let_go
	finished "$first"
	put_away
}

@test "ssp and asp: a server killed: the job is done" {
	sparse 500
	for mode in ssp:2 asp; do
		begin sparse.json --set replicas=2 --set deterministic=false --set sync=$mode "${HELD_SPARSE[@]}"
		wait_for 20 step_is_past 10
		kill_server 1
		let_go
		finished
		put_away
	done
}

@test "a server that sleeps is succeeded and fenced; the model is the same" {
	digits 1000
	train digits.json
	first=$(res .model_digest)
	begin digits.json --set replicas=2 "${HELD[@]}"
	wait_for 20 step_is_past 10
	asleep=("$(pid_of server-0)")
	kill -STOP "${asleep[@]}"
	wait_for 10 epoch_is_past 1
	grep -q 'server-0 .* is lost' "$RUN/coordinator.log"
	steps_on 20
	kill -CONT "${asleep[@]}"
	let_go
	finished "$first"
	put_away
}

@test "all servers killed at once: one sentence, and nothing is left" {
	digits $ENDLESS
	RUN=$T/digits.run
	background ps-ctl run digits.json --set replicas=2 --max-restarts 0 --json
	wait_for 10 test -S "$RUN/ctl.sock"
	wait_for 10 step_is_past 20
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

# server_is N STATE
server_is() {
	[ "$(http GET /v1/servers | jq -r ".servers[$1].state")" = "$2" ]
}

# Each partition has so many copies, all in their places.
all_have() {
	http GET /v1/layout | jq -e --argjson n "$1" '[.tables[].runs[][2] | length] | min == $n' >/dev/null
}

# All parameters that the servers answer with.
pulled() {
	local id
	for id in $(http GET /v1/tables | jq -r '.tables[].id'); do
		ps-work pull "$id" -C "$RUN" --timeout 120s || return 1
	done
}

# was_lost N: server-N was found to be lost.
was_lost() {
	ps-ctl events -C "$RUN" server_lost | grep -q "server-$1 "
}

# replaced N PID: server-N lives, and it is another process than PID.
replaced() {
	server_is "$1" live && [ "$(http GET /v1/servers | jq ".servers[$1].pid")" -ne "$2" ]
}

@test "a server that dies after the job is done is missed, replaced and given its copies" {
	local n pid
	write_csv train.csv
	cat >serve.json <<-END
	{ "servers": 3, "workers": 1, "replicas": 2,
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "batch": 16, "lr": 0.1, "steps": 50 } }
	END
	begin serve.json
	wait_for 30 state_is done
	wait_for 30 all_have 2
	pulled >before
	for n in 0 1 2; do
		pid=$(cat "$RUN/server-$n.pid")
		kill -9 "$pid"
		wait_for 20 was_lost "$n"
		pulled | cmp - before
		wait_for 30 replaced "$n" "$pid"
		wait_for 30 all_have 2
		state_is done
		pulled | cmp - before
	done
	# Each of them has been replaced, so what they began with is nowhere but in copies of copies.
	[ "$(status .servers)" -eq 3 ]
	ps-ctl -C "$RUN" stop
}

# bats test_tags=fault
@test "servers are killed and started again: none calls a worker fenced that it has not heard of yet" {
	PS_BIN=$BIN TMPDIR=$T run -0 "$BATS_TEST_DIRNAME/fault/failover" "$(kills 4)"
	figure "$(tail -n 1 <<<"$output")"
}
