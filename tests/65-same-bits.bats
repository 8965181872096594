#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# One deterministic job on real data, two copies of everything: whatever is done to
# the cluster while it trains, the model ends in the same bits.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

STEPS=600

setup_file() { unpack_fashion; }

setup() {
	need_fashion
	setup_training
	RUN=$T/fashion.run
	cat >fashion.json <<-END
	{ "servers": 2, "workers": 2, "replicas": 2, "deterministic": true, "on_worker_loss": "wait:10m", "lease": "2s",
	  "job": { "model": "mlp", "hidden": [64], "data": "$BATS_FILE_TMPDIR/train-images-idx3-ubyte", "steps": $STEPS,
	  "batch": 64, "optimizer": "momentum", "lr": 0.02 } }
	END
}

teardown() {
	teardown_dir
}

pid_of() { cat "$RUN/$1.pid"; }
epoch_is_past() { [ "$(status .layout_epoch)" -gt "$1" ] 2>/dev/null; }

# The digest of the run that nothing happens to: the same file for all tests here.
undisturbed() {
	local kept=$BATS_FILE_TMPDIR/digest
	[ -s "$kept" ] || {
		ps-ctl run fashion.json --set name=undisturbed --json 2>/dev/null >result
		field model_digest <result >"$kept"
	}
	cat "$kept"
}

# under_way [options]: it trains, and is HELD.
under_way() {
	want=$(undisturbed)
	[ ${#want} -ge 64 ]
	begin fashion.json --max-restarts 9 "${HELD[@]}" "$@"
	wait_for 20 step_is_past 10
}

# harmed: what was done was done before the end, and the model is the same.
harmed() {
	local at
	at=$(status .step)
	let_go
	wait_for 120 over
	RESULT=$(http GET /v1/result)
	has .state done
	has .model_digest "$want"
	figure "done at step $at of $STEPS: $BATS_TEST_DESCRIPTION"
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
}

@test "a server killed" {
	under_way
	epoch=$(status .layout_epoch)
	kill -9 "$(pid_of server-1)"
	wait_for 10 epoch_is_past "$epoch"
	harmed
}

@test "a worker killed, and started again" {
	under_way
	was=$(worker 1 .pid)
	kill -9 "$was"
	wait_for 20 eval '[ "$(worker 1 .pid)" != "$was" ] && worker_is 1 active'
	harmed
}

@test "servers scaled from 2 to 4 and to 2 again" {
	under_way
	ps-ctl scale -C "$RUN" servers=4 >/dev/null 2>&1
	[ "$(status .servers)" -eq 4 ]
	ps-ctl scale -C "$RUN" servers=2 >/dev/null 2>&1
	[ "$(status .servers)" -eq 2 ]
	harmed
}

@test "the coordinator killed, and started again" {
	under_way
	epoch=$(status .layout_epoch)
	kill -9 "$(pid_of coordinator)"
	wait_for 20 epoch_is_past "$epoch"
	harmed
}

@test "all of it stopped, and resumed" {
	under_way --set checkpoint_every=5
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
	begin fashion.json --set checkpoint_every=5 "${HELD[@]}" --resume auto
	harmed
}

@test "a server frozen, and woken when another holds what it held" {
	under_way
	epoch=$(status .layout_epoch)
	asleep=$(pid_of server-0)
	kill -STOP "$asleep"
	wait_for 10 epoch_is_past "$epoch"
	kill -CONT "$asleep"
	harmed
}
