#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Gradients in fewer bytes: what it costs in accuracy, with feedback and without.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup_file() { unpack_fashion; }

setup() {
	need_fashion
	setup_training
	cat >c.json <<-END
	{ "servers": 2, "workers": 2, "job": { "model": "mlp", "hidden": [64], "data": "$BATS_FILE_TMPDIR/train-images-idx3-ubyte",
	  "eval": "$BATS_FILE_TMPDIR/t10k-images-idx3-ubyte", "steps": 1000, "batch": 64, "optimizer": "sgd", "lr": 0.1 } }
	END
}

teardown() {
	teardown_dir
}

# By a rate that comes to 0 at the end the accuracy is the same to a third of a point,
# whichever gradients came in which order; by a constant one it is not to one and a half.
SETTLED=(--set steps=600 --set schedule=cosine:600:0)

# by CODEC [options]: its accuracy and bytes in $RESULT; pushed_bytes as a part of raw's.
by() {
	train c.json --set codec="$1" "${@:2}"
	figure "$1 ${*:2}: accuracy $(res .eval.accuracy), $(jq -n "$(res .pushed_bytes) / ${raw_bytes:-1} * 1000 | round / 1000") of raw's bytes"
}

# bats test_tags=slow
@test "every codec, with feedback: the accuracy of raw, in fewer bytes" {
	by raw "${SETTLED[@]}"
	accuracy=$(res .eval.accuracy) raw_bytes=$(res .pushed_bytes)
	while read -r codec points part; do
		by "$codec" "${SETTLED[@]}"
		at_least .eval.accuracy "$(jq -n "$accuracy - $points")"
		jq -e ".pushed_bytes < $raw_bytes * $part" <<<"$RESULT" >/dev/null
	done <<-END
	f16 0.005 0.51
	bf16 0.005 0.51
	int8 0.005 0.27
	qsgd:16 0.005 0.21
	onebit 0.01 0.05
	topk:0.01 0.01 0.03
	randomk:0.05 0.01 0.07
	END
}

# bats test_tags=slow
@test "pull_codec: the accuracy of raw, in fewer bytes" {
	by raw "${SETTLED[@]}"
	accuracy=$(res .eval.accuracy) raw_bytes=$(res .pushed_bytes) pulled=$(res .pulled_bytes)
	while read -r codec part; do
		by raw --set pull_codec="$codec" "${SETTLED[@]}"
		at_least .eval.accuracy "$(jq -n "$accuracy - 0.005")"
		jq -e ".pulled_bytes < $pulled * $part" <<<"$RESULT" >/dev/null
	done <<-END
	f16 0.51
	bf16 0.51
	int8 0.27
	END
	# The same bits again, where runs are to be equal.
	train c.json --set steps=200 --set pull_codec=f16 --set deterministic=true --set on_worker_loss=wait:30s
	want=$(res .model_digest)
	train c.json --set steps=200 --set pull_codec=f16 --set deterministic=true --set on_worker_loss=wait:30s --set servers=3
	has .model_digest "$want"
}

# bats test_tags=slow
@test "pull_delta learns as well as without, with every codec and mode" {
	few=(--set steps=300 --set schedule=cosine:300:0)
	for also in "" "pull_codec=f16" "replicas=2" "sync=asp"; do
		by topk:0.01 "${few[@]}" ${also:+--set $also}
		accuracy=$(res .eval.accuracy) pulled=$(res .pulled_bytes)
		by topk:0.01 "${few[@]}" --set pull_delta=true ${also:+--set $also}
		jq -e ".pulled_bytes < $pulled * 0.1" <<<"$RESULT" >/dev/null
		case $also in
		sync=*) at_least .eval.accuracy "$(jq -n "$accuracy - 0.01")" ;;
		*) at_least .eval.accuracy "$(jq -n "$accuracy - 0.005")" ;;
		esac
	done
	# What is pulled outside of the steps is exact.
	by topk:0.01 --set pull_codec=int8 --set workers=1 "${few[@]}"
	loss=$(res .eval.loss) digest=$(res .model_digest)
	by topk:0.01 --set pull_codec=int8 --set workers=1 "${few[@]}" --set pull_delta=true --set sync=ssp:0
	jq -e "(.eval.loss - $loss | fabs) < 0.02" <<<"$RESULT" >/dev/null
	by topk:0.01 --set pull_codec=f16 --set workers=1 "${few[@]}"
	loss=$(res .eval.loss) digest=$(res .model_digest)
	by topk:0.01 --set pull_codec=f16 --set workers=1 "${few[@]}" --set pull_delta=true
	[ "$(res .model_digest)" != "$digest" ] || has .eval.loss "$loss"
}

@test "pull_delta: the same bits, and of the parameters only those that have changed" {
	# Where all of them change, all of them come; and the same bits where these are promised.
	det=(--set deterministic=true --set on_worker_loss=wait:30s --set steps=200)
	by raw "${det[@]}"
	digest=$(res .model_digest) pulled=$(res .pulled_bytes)
	by raw "${det[@]}" --set pull_delta=true
	has .model_digest "$digest"
	by raw "${det[@]}" --set pull_delta=true --set lr=1e-12
	jq -e ".pulled_bytes < $pulled * 0.5" <<<"$RESULT" >/dev/null
}

@test "pull_delta: a server is killed, another comes, and what was pulled goes on" {
	RUN=$T/c.run
	begin c.json --set codec=topk:0.01 --set pull_delta=true --set replicas=2 --set steps=1000 "${HELD[@]}"
	wait_for 20 step_is_past 10
	kill -9 "$(cat "$RUN/server-1.pid")"
	steps_on
	ps-ctl scale servers=3
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done
	figure "accuracy $(res .eval.accuracy), pulled $(res .pulled_bytes) bytes"
	at_least .eval.accuracy 0.8
	jq -e ".pulled_bytes < 0.1 * 4 * 50890 * 2 * 1000" <<<"$RESULT" >/dev/null
	ps-ctl stop >/dev/null
}

# bats test_tags=slow
@test "prefetch: the same bits, also with two copies and a server that is killed" {
	det=(--set deterministic=true --set on_worker_loss=wait:10m --set steps=200)
	by raw "${det[@]}"
	digest=$(res .model_digest)
	by raw "${det[@]}" --set prefetch=true --set servers=3
	has .model_digest "$digest"
	RUN=$T/c.run
	begin c.json "${det[@]}" --set prefetch=true --set pull_delta=true --set replicas=2 --max-restarts 3 "${HELD[@]}"
	wait_for 20 step_is_past 10
	kill -9 "$(cat "$RUN/server-1.pid")"
	kill -9 "$(cat "$RUN/worker-0.pid")"
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done
	has .model_digest "$digest"
	ps-ctl stop >/dev/null
	# Steps that are closed without a worker are left out by what it has asked for, too.
	by raw "${SETTLED[@]}" --set prefetch=true --set workers=3 --set backup=1
	at_least .eval.accuracy 0.8
	by raw --set prefetch=true --set local_steps=10 --set outer=nesterov --set steps=100
	at_least .eval.accuracy 0.8
	run -78 --separate-stderr ps-ctl run c.json --set prefetch=true --set sync=ssp:2
	[[ $stderr == *"prefetch: requires sync bsp"* ]]
}

# bats test_tags=slow
@test "without feedback what is left out is missed" {
	by raw "${SETTLED[@]}"
	accuracy=$(res .eval.accuracy) raw_bytes=$(res .pushed_bytes)
	for codec in topk:0.01 randomk:0.05 onebit; do
		by $codec "${SETTLED[@]}" --set feedback=false
		! at_least .eval.accuracy "$(jq -n "$accuracy - 0.01")"
	done
}

# bats test_tags=slow
@test "dgc: the accuracy of momentum at the servers" {
	by raw --set optimizer=momentum --set lr=0.02 --set steps=3000
	accuracy=$(res .eval.accuracy) raw_bytes=$(res .pushed_bytes)
	by dgc:0.01 --set lr=0.02 --set steps=3000
	at_least .eval.accuracy "$(jq -n "$accuracy - 0.01")"
	jq -e ".pushed_bytes < $raw_bytes * 0.1" <<<"$RESULT" >/dev/null
	run -78 --separate-stderr ps-ctl run c.json --set codec=dgc:0.01 --set optimizer=adam
	[[ $stderr == *"requires job.optimizer sgd"* ]]
}

@test "ssp and asp, two copies, a server killed: encoded pushes are counted once" {
	for mode in ssp:2 asp; do
		RUN=$T/c.run
		begin c.json --set sync=$mode --set replicas=2 --set codec=int8 --set steps=700 --max-restarts 3 "${HELD[@]}"
		wait_for 20 step_is_past 10
		kill -9 "$(cat "$RUN/server-1.pid")"
		let_go
		wait_for 60 over
		RESULT=$(http GET /v1/result)
		has .state done
		at_least .eval.accuracy 0.75
		ps-ctl stop >/dev/null
		none_left "$T"
	done
}

@test "backup workers: what comes too late goes into the next push" {
	RUN=$T/c.run
	begin c.json --set workers=3 --set backup=1 --set codec=topk:0.01
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done
	figure "$(http GET /v1/servers | jq '[.servers[].pushes_late] | add') pushes were late, accuracy $(res .eval.accuracy)"
	[ "$(http GET /v1/servers | jq '[.servers[].pushes_late] | add')" -gt 0 ]
	at_least .eval.accuracy 0.8
	ps-ctl stop >/dev/null
}

# bats test_tags=slow
@test "a worker's own checkpoint: a run goes on with what was still to be pushed" {
	# One worker: the same steps give the same bits, if nothing is missing.
	for codec in topk:0.01 dgc:0.05; do
		set=(--set workers=1 --set codec=$codec --set steps=600 --set checkpoint_every=10 --set keep_last=2)
		train c.json "${set[@]}"
		want=$(res .model_digest)
		RUN=$T/c.run
		begin c.json "${set[@]}" --max-restarts 3 "${HELD[@]}"
		wait_for 20 step_is_past 25
		kill -9 "$(cat "$RUN/server-1.pid")"
		wait_for 20 grep -q "restored the residuals of step " "$RUN"/worker-0.log
		let_go
		ps-ctl wait --for done --timeout 180s
		RESULT=$(http GET /v1/result)
		has .state done
		has .model_digest "$want"
		# Those of both checkpoints, and that of the last one that was begun.
		[ "$(ls "$RUN/workers" | wc -l)" -ge 2 ]
		[ "$(ls "$RUN/workers" | wc -l)" -le 3 ]
		ps-ctl stop >/dev/null
	done
}

# bats test_tags=slow
@test "a worker's own checkpoint: who takes a rank over begins without, and a damaged one is said" {
	train c.json --set workers=2 --set codec=topk:0.05 --set local_steps=4 --set steps=1000 --set checkpoint_every=200
	[ -n "$(ls "$T/c.run/workers")" ]
	# Who takes a rank over in mid-run begins without: that has been pushed since.
	begin c.json --set codec=topk:0.01 --set sync=asp --set steps=$ENDLESS --set quota_pushes=400 --set checkpoint_every=300 --max-restarts 3
	wait_for 20 step_is_past 500
	# As one that is killed while it saves leaves it; another's may be about to be whole.
	own=worker-1-000000000300.safetensors.tmp-0123456789abcdef
	others=(worker-{0,11}-000000000300.safetensors.tmp-0123456789abcdef)
	mkdir -p "$RUN/workers"
	(cd "$RUN/workers" && touch "$own" "${others[@]}")
	pid=$(worker 1 .pid)
	kill -9 "$pid"
	wait_for 20 eval '[ "$(worker 1 .pid)" != "$pid" ] && [ "$(worker 1 .state)" = active ]'
	step=$(status .step)
	wait_for 20 step_is_past $((step + 200))
	! grep "restored the residuals" "$RUN"/worker-1.log
	[ ! -e "$RUN/workers/$own" ]
	(cd "$RUN/workers" && ls "${others[@]}")
	# A checkpoint each 300 steps, named by them.
	last=$(ls "$RUN/checkpoints" | grep '^step-' | tail -n 1 | sed 's/step-0*//')
	[ $((last % 300)) -eq 0 ]
	[ "$last" -le "$(http GET /v1/workers | jq '[.workers[].step] | max')" ]
	ps-ctl stop >/dev/null
	# Damaged, or not to be written: said, and no more than that.
	set=(--set workers=1 --set codec=topk:0.01 --set steps=$ENDLESS --set quota_pushes=400 --set checkpoint_every=300)
	begin c.json "${set[@]}" --max-restarts 3
	wait_for 20 step_is_past 650
	for f in "$RUN"/workers/*; do echo damaged >"$f"; done
	chmod 500 "$RUN/workers"
	kill -9 "$(cat "$RUN/server-0.pid")"
	wait_for 20 grep -q "the residuals of step .* are lost: " "$RUN"/worker-0.log
	[ "$(id -u)" -eq 0 ] || wait_for 20 grep -q "cannot save the residuals: " "$RUN"/worker-0.log
	chmod 700 "$RUN/workers"
	ps-ctl stop >/dev/null
}

@test "a worker's own checkpoint that cannot be read is read again" {
	LD_PRELOAD="$BIN/fault/shim.so" ASAN_OPTIONS=verify_asan_link_order=0 FS_ONLY=/workers/ FS_UNREADABLE="$T/broken" \
		begin c.json --set workers=1 --set codec=topk:0.01 --set steps=$ENDLESS --set quota_pushes=400 --set checkpoint_every=300 --max-restarts 3
	wait_for 20 step_is_past 650
	touch broken
	kill -9 "$(cat "$RUN/server-0.pid")"
	wait_for 20 grep -q "Input/output error: trying again" "$RUN"/worker-0.log
	rm broken
	wait_for 20 grep -q "restored the residuals of step " "$RUN"/worker-0.log
	! grep "are lost" "$RUN"/worker-0.log
	ps-ctl stop >/dev/null
}

@test "what a codec may not be" {
	for wrong in f32 topk topk:0 topk:2 qsgd:0 qsgd:200 raw:1 int8:4; do
		run -78 --separate-stderr ps-ctl run c.json --set codec=$wrong
		[[ $stderr == *codec* ]]
	done
	run -78 --separate-stderr ps-ctl run c.json --set codec=f16 --set deterministic=true
	[[ $stderr == *"codec: must be raw when deterministic"* ]]
}
