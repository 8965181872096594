#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# lookahead: the rows of later batches are requested ahead, and each step has the values that it has without.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	awk 'BEGIN {
		srand(5)
		for (i = 0; i < 2400; i++) {
			delete on
			for (k = 0; k < 12; k++)
				on[int(exp(rand() * log(3000)))] = 1
			printf "%d", ((5 in on) + (9 in on) + rand() > 1)
			for (k = 1; k < 3000; k++)
				if (k in on) printf " %d:1", k
			print ""
		}
	}' >rows.svm
	cat >c.json <<-JSON
	{ "servers": 2, "workers": 2, "deterministic": true, "on_worker_loss": "wait:10m", "row_ids": "cached",
	  "job": { "model": "fm", "factors": 4, "data": "rows.svm", "eval": "rows.svm", "epochs": 2, "batch": 50 } }
	JSON
}
teardown() { teardown_dir; }

# by [options]: its result.
by() {
	train c.json "${@/#/--set=}"
	figure "$*: loss $(res .eval.loss), $(res .pulled_bytes) bytes pulled"
}

@test "the same bits with any number of batches, servers and codecs, and rows come ahead" {
	for also in "" "servers=3 replicas=2" "model=deepfm hidden=[8]" "pull_codec=f16" "data_memory=1M cache=none" \
		"local_steps=2 optimizer=sgd" "prefetch=true model=deepfm hidden=[8]"; do
		# shellcheck disable=SC2086
		by $also
		want=$(res .model_digest) pulled=$(res .pulled_bytes)
		for k in 1 3; do
			# shellcheck disable=SC2086
			by $also lookahead=$k
			has .model_digest "$want"
			# Rows that came ahead and have changed since came twice.
			jq -e ".pulled_bytes > 1.05 * $pulled and .pulled_bytes < 2.2 * $pulled" <<<"$RESULT"
		done
	done
}

@test "ssp, leased ranges, and workers whose ranges end: every row is pulled as without it" {
	for set in sync=ssp:1 sync=asp; do
		by deterministic=false $set workers=1 servers=1
		want=$(res .model_digest)
		by deterministic=false $set workers=1 servers=1 lookahead=2
		has .model_digest "$want"
	done
	by deterministic=false sync=ssp:2 lookahead=2
	has .state done
}

@test "servers and a worker are killed, and a resumed run: the same bits" {
	by epochs=10
	want=$(res .model_digest)
	begin c.json --set epochs=10 --set lookahead=2 --set replicas=2 --max-restarts 3 "${HELD_SPARSE[@]}"
	wait_for 20 step_is_past 10
	kill -9 "$(cat "$RUN/server-1.pid")"
	kill -9 "$(cat "$RUN/worker-0.pid")"
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done
	has .model_digest "$want"
	ps-ctl stop >/dev/null
	none_left "$T"
	by epochs=10 lookahead=2 checkpoint_every=50
	has .model_digest "$want"
	mv c.run old
	train c.json --resume "$(find old/checkpoints -name 'step-*' | sort | head -n 1)" --set epochs=10 --set lookahead=3 --set servers=1
	has .model_digest "$want"
}

@test "where it cannot work it is refused, or said to do nothing" {
	printf 'y,x\n1,2\n2,4\n' >dense.csv
	touch stream.svm
	run -78 ps-ctl run c.json --set lookahead=1 --set model=custom --set tables=w:2x2 --set exec=true
	[[ $output == *"lookahead: must be 0 with model custom"*ps_prefetch_rows* ]]
	run -78 ps-ctl run c.json --set lookahead=1 --set data='stream.svm?follow=yes' --set epochs=0 --set deterministic=false
	[[ $output == *"lookahead: must be 0, because "*"is a stream"* ]]
	run -78 ps-ctl run c.json --set lookahead=1 --set via=allreduce --set deterministic=false
	[[ $output == *"lookahead: must be 0 with via allreduce"* ]]
	run -78 ps-ctl run c.json --set lookahead=65
	train c.json --set lookahead=1 --set model=linear --set data=dense.csv?label=y --set eval='[]' --set batch=1
	grep -q 'lookahead: does nothing, because model linear has no sparse tables' c.run/worker-0.log
}
