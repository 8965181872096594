#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Servers that joined by a file, without the run directory: their part of a
# checkpoint goes to the coordinator, and what the job begins with comes from it.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	need_data digits8x8/digits.csv.gz
	RUN=$T/digits.run
	C=$RUN/checkpoints
	mkdir elsewhere
	invited=0
}

teardown() {
	teardown_dir
}

# digits STEPS [members]
digits() {
	cat >digits.json <<-END
	{ "servers": 2, "workers": 2, "deterministic": true, "on_worker_loss": "wait:10m", ${2:-}
	  "job": { "model": "mlp", "hidden": [16], "data": "$DATA/digits8x8/digits.csv.gz?label=last&scale=none",
	  "steps": $1, "batch": 8, "optimizer": "adam", "lr": 0.001 ${3:-} } }
	END
}

# undisturbed: the digest of the run that nothing happens to; neither copies
# nor checkpoints make another of it, so equal numbers of steps are trained once.
undisturbed() {
	local kept
	kept=$BATS_FILE_TMPDIR/$(jq -c .job digits.json | md5sum | cut -c1-32)
	[ -s "$kept" ] ||
		ps-ctl run digits.json --set name=undisturbed --set checkpoint_every=0 --set replicas=1 --json 2>/dev/null |
		field model_digest >"$kept"
	cat "$kept"
}

# cluster [options]: the coordinator with no partitions, two servers by file, two
# workers; $far are the servers.
cluster() {
	rm -f "$RUN/ctl.sock"
	ps-serve digits.json --no-store "$@" >>coordinator.out 2>&1 3>&- &
	coordinator=$!
	pids+=($!)
	wait_for 10 test -S "$RUN/ctl.sock"
	far=()
	for i in 0 1; do
		rm -f s$i.join
		ps-ctl invite -C "$RUN" --role server --name "far-$i-$((++invited))" -o s$i.join 2>/dev/null
		(cd elsewhere && TMPDIR=$T/elsewhere exec ps-serve --join ../s$i.join >>far-$i.out 2>&1 3>&-) &
		far+=($!)
		ps-work train -C "$RUN" --rank $i >>worker-$i.out 2>&1 3>&- &
		pids+=($! "${far[$i]}")
	done
}

is_done() {
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done || { cat coordinator.out elsewhere/*.out; false; }
	has .model_digest "$1"
}

stop() {
	ps-ctl -C "$RUN" stop >/dev/null
	wait "$coordinator" "${far[@]}" || true
	[ "$(cd elsewhere && find . -type f | sort | xargs)" = "./far-0.out ./far-1.out" ]
}

@test "checkpoints of servers on other hosts are whole, and resumed by others: the same bits" {
	digits 1000 '"checkpoint_every": 10,'
	want=$(undisturbed)
	cluster "${HELD[@]}"
	wait_for 30 eval '[ "$(ls "$C" 2>/dev/null | wc -l)" -ge 2 ]'
	ps-ctl -C "$RUN" checkpoint >/dev/null
	http POST /v1/stop '{"why":"test"}' >/dev/null
	wait "$coordinator" "${far[@]}" || true
	run -0 ps-ctl -C "$RUN" checkpoint ls --json
	newest=$(tail -n 1 <<<"$output")
	[ "$(jq -r .state <<<"$newest")" = whole ]
	at=$(jq -r .step <<<"$newest")
	[ "$at" -lt 1000 ]
	ls "$C"/step-*/server-0.params.safetensors "$C"/step-*/server-1.state.safetensors
	cluster --resume auto "${HELD[@]}"
	wait_for 20 step_is_past "$at"
	let_go
	is_done "$want"
	grep -q "resuming from .*/$(printf 'step-%012d' "$at")" coordinator.out || { cat coordinator.out; false; }
	figure "resumed at step $at"
	stop
}

@test "two copies, a server on another host killed and replaced: the same bits" {
	digits 1000 '"checkpoint_every": 50, "replicas": 2, "lease": "2s",'
	want=$(undisturbed)
	cluster "${HELD[@]}"
	wait_for 20 step_is_past 10
	kill -9 "${far[1]}"
	wait_for 10 eval '[ "$(status .servers)" -eq 1 ]'
	(cd elsewhere && TMPDIR=$T/elsewhere exec ps-serve --join ../s1.join >>far-1.out 2>&1 3>&-) &
	far[1]=$!
	pids+=($!)
	wait_for 10 eval '[ "$(status .servers)" -eq 2 ]'
	let_go
	is_done "$want"
	stop
}

@test "first values from the coordinator's file" {
	digits 300
	ps-ctl run digits.json --json >/dev/null 2>&1
	ps-ctl export -C "$RUN" -o safetensors all >first.safetensors
	digits 600 "" ", \"init\": \"$T/first.safetensors\""
	want=$(undisturbed)
	cluster
	is_done "$want"
	stop
}

# bats test_tags=slow
@test "the coordinator's disk is full: no checkpoint, and the job goes on" {
	digits 1000 '"checkpoint_every": 10,'
	want=$(undisturbed)
	ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY=/checkpoints/ FS_BUDGET=3000 cluster "${HELD[@]}"
	wait_for 20 grep -q 'no checkpoint: server-[01]: .*No space left' coordinator.out
	let_go
	is_done "$want"
	[ -z "$(find "$C" -name 'step-*' 2>/dev/null)" ]
	stop
}

@test "servers that share a key send their files in turn, and the checkpoint is whole" {
	digits 1000 '"checkpoint_every": 10,'
	want=$(undisturbed)
	cluster --set servers=5 "${HELD[@]}"
	for _ in 1 2 3; do
		(cd elsewhere && TMPDIR=$T/elsewhere exec ps-serve --join ../s1.join >>far-1.out 2>&1 3>&-) &
		far+=($!)
		pids+=($!)
	done
	wait_for 30 eval '[ "$(ls "$C" 2>/dev/null | wc -l)" -ge 2 ] || grep -q "no checkpoint" coordinator.out'
	run ! grep 'no checkpoint' coordinator.out
	let_go
	is_done "$want"
	stop
}

@test "one copy: a server frozen, its part restored elsewhere, and it wakes: it is not obeyed" {
	digits 1000 '"checkpoint_every": 10, "lease": "2s", "deadline": "15s",'
	want=$(undisturbed)
	cluster "${HELD[@]}"
	wait_for 30 eval '[ "$(ls "$C" 2>/dev/null | wc -l)" -ge 2 ]'
	old=${far[1]}
	kill -STOP "$old"
	wait_for 20 over
	[[ $(status .reason) == *'no heartbeat'* ]]
	address=$(jq -r .listen "$RUN/state.json")
	kill -9 "$coordinator" "${far[0]}"
	wait "$coordinator" "${far[0]}" || true
	# Where the one before was: the sleeper finds it, and so could workers find the sleeper.
	cluster --resume auto --listen "$address" "${HELD[@]}"
	steps_on
	kill -CONT "$old"
	at=$(status .step)
	status=0
	wait "$old" || status=$?
	[ "$status" -ne 0 ]
	figure "woken at step $at: $(grep -hE ' error(\[[a-z-]+\])? ' elsewhere/far-1.out | tail -n 1)"
	grep -hE ' error(\[[a-z-]+\])? ' elsewhere/far-1.out
	let_go
	is_done "$want"
	[ "$(status .generation)" -eq 2 ]
	stop
}
