#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Fewer pushes: several batches to a push, several steps that a worker takes alone.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup_file() { unpack_fashion; }

setup() {
	setup_training
}

teardown() {
	teardown_dir
}

digits() {
	need_data digits8x8/digits.csv.gz
	# An epoch has a whole number of steps, whatever they have.
	zcat "$DATA/digits8x8/digits.csv.gz" | head -n 1600 >digits.csv
	cat >c.json <<-END
	{ "servers": 2, "workers": 1, "job": { "model": "mlp", "hidden": [16], "data": "digits.csv?label=last&scale=none",
	  "eval": "digits.csv?label=last&scale=none", "steps": 200, "batch": 32, "optimizer": "sgd", "lr": 0.05 ${1:-} } }
	END
}

# Runs the file with these settings; prints its evaluation loss.
loss() {
	local set=()
	for s; do
		set+=(--set "$s")
	done
	train c.json "${set[@]}" >&2
	res .eval.loss
}

# close A B: within a hundred-thousandth.
close() {
	jq -ne "(($1) - ($2) | if . < 0 then -. else . end) < 1e-5 * ($1)" >/dev/null || {
		echo "$1 is not $2"
		return 1
	}
}

fashion() {
	need_fashion
	cat >c.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "mlp", "hidden": [64], "data": "$BATS_FILE_TMPDIR/train-images-idx3-ubyte",
	  "eval": "$BATS_FILE_TMPDIR/t10k-images-idx3-ubyte", "steps": 1000, "batch": 64, "optimizer": "sgd", "lr": 0.1 } }
	END
}

@test "accumulate: as one batch that is so much larger" {
	digits
	want=$(loss batch=64)
	for k in 2 4 16; do
		close "$want" "$(loss batch=$((64 / k)) accumulate=$k)"
	done
	digits ', "clip_norm": 0.1'
	close "$(loss batch=64)" "$(loss batch=16 accumulate=4)"
}

@test "local_steps: of one worker, as if it had pushed each step" {
	digits
	want=$(loss steps=400)
	for k in 2 10 50; do
		close "$want" "$(loss steps=$((400 / k)) local_steps=$k)"
	done
	# With a rule that has state, and batches in pieces.
	adam=(optimizer=adam lr=0.002)
	want=$(loss "${adam[@]}")
	close "$want" "$(loss "${adam[@]}" steps=20 local_steps=10)"
	close "$want" "$(loss "${adam[@]}" steps=20 local_steps=10 batch=8 accumulate=4)"
}

@test "local_steps: sparse rows" {
	need_data a9a/a9a.gz
	cat >c.json <<-END
	{ "servers": 2, "workers": 1, "job": { "model": "logistic", "data": "$DATA/a9a/a9a.gz", "eval": "$DATA/a9a/a9a.gz",
	  "steps": 300, "batch": 32, "optimizer": "sgd", "lr": 0.05 } }
	END
	close "$(loss)" "$(loss steps=30 local_steps=10)"
	# State of rows lasts from push to push. l2 acts once for each example that touches a row.
	# Servers count the updates of adam for each partition, and workers for each table: its loss differs by 1e-4.
	for rule in adagrad ftrl rowwise_adagrad; do
		for l2 in 0 0.1; do
			set=("optimizer=$rule" "l2=$l2")
			close "$(loss "${set[@]}")" "$(loss "${set[@]}" steps=30 local_steps=10)"
		done
	done
	close "$(loss optimizer=adagrad l2=0.1)" "$(loss optimizer=adagrad l2=0.1 steps=30 local_steps=10 batch=8 accumulate=4)"
}

# bats test_tags=slow
@test "local_steps: ratings, of one worker as if it had pushed each step, and of several; a worker killed" {
	need_data ml-100k/u1.base.gz
	cat >c.json <<-END
	{ "servers": 2, "workers": 1, "sync": "asp", "job": { "model": "mf", "data": "$DATA/ml-100k/u1.base.gz?format=ratings",
	  "eval": "$DATA/ml-100k/u1.test.gz?format=ratings", "epochs": 4 } }
	END
	train c.json
	want=$(res .eval.loss) bytes=$(res .pushed_bytes)
	train c.json --set local_steps=16
	close "$want" "$(res .eval.loss)"
	jq -e ".pushed_bytes * 3 < $bytes" <<<"$RESULT" >/dev/null
	train c.json --set local_steps=4 --set workers=3
	figure "loss of one worker $want, of three $(res .eval.loss)"
	at_most .eval.loss "$(jq -n "$want * 1.05")"
	RUN=$T/c.run
	begin c.json --set local_steps=4 --set workers=2 --max-restarts 5 "${HELD_SPARSE[@]}"
	wait_for 30 step_is_past 5
	kill -9 "$(worker 1 .pid)"
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done
	at_most .eval.loss "$(jq -n "$want * 1.05")"
	ps-ctl stop >/dev/null
}

# bats test_tags=slow
@test "local_steps 50, nesterov: the accuracy of pushing each step, in a fiftieth of the bytes" {
	fashion
	train c.json
	accuracy=$(res .eval.accuracy) bytes=$(res .pushed_bytes)
	train c.json --set steps=20 --set local_steps=50 --set outer=nesterov
	figure "accuracy $(res .eval.accuracy), pushing each step $accuracy; $(jq -n "$bytes / $(res .pushed_bytes) | round") x fewer bytes"
	at_least .eval.accuracy "$(jq -n "$accuracy - 0.005")"
	jq -e ".pushed_bytes * 40 < $bytes" <<<"$RESULT" >/dev/null
	train c.json --set steps=20 --set local_steps=50 --set sync=asp:scaled --set workers=3 --set codec=int8
	has .state done
	for sync in asp ssp:2 asp:scaled; do
		run -78 ps-ctl run c.json --set steps=20 --set local_steps=50 --set outer=nesterov --set sync=$sync
		[[ $output == *'outer: "nesterov" requires sync bsp'*'outer=average and sync=asp:scaled'* ]]
	done
}

# bats test_tags=slow
@test "a third of the outer pushes comes too late, and is left out: less than a point" {
	fashion
	for also in "" "--set steps=60"; do
		train c.json --set steps=30 --set local_steps=50 --set outer=nesterov --set workers=3 $also
		accuracy=$(res .eval.accuracy)
		RUN=$T/c.run
		begin c.json --set steps=30 --set local_steps=50 --set outer=nesterov --set workers=3 --set backup=1 $also
		wait_for 60 over
		RESULT=$(http GET /v1/result)
		has .state done
		late=$(http GET /v1/servers | jq '[.servers[].pushes_late] | add')
		figure "$also: $late of $((late + $(http GET /v1/servers | jq '[.servers[].pushes_merged] | add'))) outer pushes were late, accuracy $(res .eval.accuracy), of all of them $accuracy"
		[ "$late" -gt 0 ]
		at_least .eval.accuracy "$(jq -n "$accuracy - 0.015")"
		ps-ctl stop >/dev/null
	done
}

@test "deterministic, a worker killed: the same bits; and what is refused" {
	digits
	set=(--set deterministic=true --set local_steps=5 --set steps=1000 --set workers=2 --set on_worker_loss=wait:10m)
	train c.json "${set[@]}"
	want=$(res .model_digest)
	RUN=$T/c.run
	begin c.json "${set[@]}" --max-restarts 5 "${HELD[@]}"
	wait_for 20 step_is_past 10
	kill -9 "$(worker 1 .pid)"
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .model_digest "$want"
	ps-ctl stop >/dev/null
	run -78 ps-ctl run c.json --set deterministic=true --set on_worker_loss=wait:30s --set local_steps=5 --set optimizer=adam
	run -78 ps-ctl run c.json --set outer=nesterov
	run -78 ps-ctl run c.json --set accumulate=60000 --set local_steps=60000
}
