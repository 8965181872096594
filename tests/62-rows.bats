#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Rows of sparse tables in fewer bytes, and settings that change while the job runs.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
}

teardown() {
	teardown_dir
}

# Two classes, told apart by 40 of 5000 features of which each example has 30.
setup_file() {
	awk 'BEGIN {
		srand(3)
		for (i = 0; i < 4000; i++) {
			delete on
			score = 0
			for (k = 0; k < 30; k++)
				on[int(rand() * 5000) + 1] = 1
			for (k = 1; k <= 40; k++)
				if (rand() < 0.1) on[k * 7] = 1
			for (k = 1; k <= 40; k++)
				if (k * 7 in on) score += k % 2 ? 1 : -1
			printf "%d", (score + rand() - 0.5 > 0)
			for (k = 1; k <= 5000; k++)
				if (k in on) printf " %d:1", k
			print ""
		}
	}' >"$BATS_FILE_TMPDIR/wide.svm"
}

wide() {
	ln -s "$BATS_FILE_TMPDIR/wide.svm" .
	cat >c.json <<-JSON
	{ "servers": 2, "workers": 2, "job": { "model": "logistic", "data": "wide.svm", "eval": "wide.svm",
	  "epochs": 5, "batch": 200, "optimizer": "adagrad", "lr": 0.1 } }
	JSON
}

# by [options]: its result.
by() {
	train c.json "${@/#/--set=}"
	figure "$*: loss $(res .eval.loss), $(res .pushed_bytes) bytes pushed, $(res .rows_held) of $(res .rows_offered) rows held back"
}

# below JQ NUMBER: the result's figure.
below() {
	jq -e "$1 < $2" <<<"$RESULT" >/dev/null || { echo "$1 is $(res "$1"), not below $2"; return 1; }
}

@test "row_ids: the same bits by blocks and by names, in fewer bytes" {
	wide
	det=(deterministic=true on_worker_loss=wait:30s)
	by "${det[@]}"
	want=$(res .model_digest) pushed=$(res .pushed_bytes)
	has .rows_held 0
	by "${det[@]}" row_ids=packed
	has .model_digest "$want"
	below .pushed_bytes "$((pushed / 2))"
	by "${det[@]}" row_ids=cached
	has .model_digest "$want"
	below .pushed_bytes "$((pushed * 2 / 5))"
}

@test "a list that comes again is named: 60 % less for rows of width 1" {
	for op in push pushpull; do
		raw=$(ps-work bench --op $op --sparse 20000 --width 1 --iters 20 --json | jq .pushed_bytes)
		named=$(ps-work bench --op $op --sparse 20000 --width 1 --iters 20 --row-ids cached --json | jq .pushed_bytes)
		figure "$op: $raw and $named bytes for 20000 rows"
		jq -ne "$named < 0.4 * $raw" >/dev/null
	done
	# More lists than a server keeps: what it has dropped is sent again, and nothing is wrong.
	wide
	det=(deterministic=true on_worker_loss=wait:30s epochs=2 batch=20)
	by "${det[@]}"
	want=$(res .model_digest)
	by "${det[@]}" row_ids=cached
	has .model_digest "$want"
}

@test "row_ids: a server is killed, and the other does not know its lists" {
	wide
	for mode in bsp asp; do
		RUN=$T/c.run
		begin c.json --set row_ids=cached --set replicas=2 --set epochs=30 --set sync=$mode --max-restarts 3 "${HELD_SPARSE[@]}"
		wait_for 20 step_is_past 10
		kill -9 "$(cat "$RUN/server-1.pid")"
		let_go
		wait_for 60 over
		RESULT=$(http GET /v1/result)
		has .state done
		figure "$mode: loss $(res .eval.loss)"
		below .eval.loss 0.3
		ps-ctl stop >/dev/null
		none_left "$T"
	done
}

@test "pull_delta: the same bits, and rows that have not changed do not come again" {
	wide
	det=(deterministic=true on_worker_loss=wait:30s row_ids=cached epochs=10)
	# Most rows are zero, and stay so.
	for also in "" "pull_codec=f16" "servers=3"; do
		by "${det[@]}" optimizer=ftrl l1=50 $also
		want=$(res .model_digest) pulled=$(res .pulled_bytes) all=$(res '(.pulled_bytes + .pushed_bytes)')
		by "${det[@]}" optimizer=ftrl l1=50 $also pull_delta=true
		figure "pulled $pulled and $(res .pulled_bytes) bytes"
		has .model_digest "$want"
		below .pulled_bytes "$pulled * 0.4"
		below '(.pulled_bytes + .pushed_bytes)' "$all"
	done
	# All rows of a batch change: it is no dearer than what it says of them.
	by "${det[@]}"
	want=$(res .model_digest) pulled=$(res .pulled_bytes)
	by "${det[@]}" pull_delta=true
	has .model_digest "$want"
	below .pulled_bytes "$pulled * 1.01"
	for mode in ssp:2 asp; do
		by sync=$mode optimizer=ftrl l1=50 epochs=10 pull_delta=true
		below .pulled_bytes "$(jq -n "$(res .rows_offered) * 4 * 0.4")"
	done
}

@test "pull_delta: servers and a worker are killed, and the rows are the same" {
	wide
	det=(--set deterministic=true --set on_worker_loss=wait:10m --set row_ids=cached --set epochs=30 --set optimizer=ftrl --set l1=50)
	train c.json "${det[@]}"
	want=$(res .model_digest)
	RUN=$T/c.run
	begin c.json "${det[@]}" --set pull_delta=true --set replicas=2 --max-restarts 3 "${HELD_SPARSE[@]}"
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
}

# bats test_tags=slow
@test "codecs for rows: the loss of raw, with feedback" {
	wide
	by row_ids=packed
	loss=$(res .eval.loss) pushed=$(res .pushed_bytes)
	for codec in f16 bf16 int8 qsgd:16 onebit; do
		by row_ids=packed codec=$codec pull_codec=f16
		below .eval.loss "$loss + 0.01"
		below .pushed_bytes "$pushed"
	done
	# Those that choose leave rows as they are.
	by row_ids=packed codec=topk:0.01
	below "$pushed" "(.pushed_bytes * 1.01)"
	below .pushed_bytes "$pushed * 1.01"
}

@test "filters hold rows back, and count them" {
	wide
	by epochs=10
	loss=$(res .eval.loss) pushed=$(res .pushed_bytes)
	for filter in threshold:0.002 skip:0.5; do
		by epochs=10 filter=$filter
		below .eval.loss "$loss + 0.02"
		below .pushed_bytes "$pushed"
		below 0.3 '(.rows_held / .rows_offered)'
	done
	# What is held back and dropped is missed.
	held=$(res .eval.loss)
	by epochs=10 filter=threshold:0.01 feedback=off
	below "$held + 0.02" .eval.loss
	by optimizer=ftrl l1=20
	loss=$(res .eval.loss) pushed=$(res .pushed_bytes)
	by optimizer=ftrl l1=20 filter=kkt:0.05
	below .eval.loss "$loss + 0.002"
	below 0.5 '(.rows_held / .rows_offered)'
	for wrong in kkt:0.1 kkt none:1 skip:1 threshold:0 threshold:-1 often; do
		run -78 --separate-stderr ps-ctl run c.json --set filter=$wrong
		[[ $stderr == *"filter: "* ]]
	done
	run -78 --separate-stderr ps-ctl run c.json --set filter=skip:0.5 --set deterministic=true
	[[ $stderr == *"filter: must be none when deterministic"* ]]
}

@test "ps-ctl set: from the step that it says, all or nothing" {
	wide
	RUN=$T/c.run
	begin c.json --set epochs=1000000000 --set quota_pushes=800 --set workers=3
	wait_for 20 step_is_past 50
	run -0 --separate-stderr ps-ctl set codec=int8 feedback=off filter=threshold:0.0001
	[[ $output =~ ^codec=int8\ feedback=off\ filter=threshold:0.0001:\ from\ step\ [0-9]+\ on$ ]]
	[ "$(http GET /v1/config | jq -r '[.codec, .feedback, .filter] | join(" ")')" = "int8 false threshold:0.0001" ]
	step=$(ps-ctl set --json codec=f16 filter=none | jq -e 'select(.kind == "set").step')
	[ "$step" -ge 50 ]
	[ "$(http GET /v1/workers | jq -c '[.workers[].settings] | unique')" = "[2]" ]
	[ "$(http GET /v1/workers | jq '[.workers[].settings_step] | max')" -eq "$step" ]
	http GET /v1/events | jq -e '[.events[] | select(.event == "set" or .event == "settled")] | length == 4' >/dev/null
	for wrong in "codec=int9" "codec=int8 seed=5" "filter=kkt:0.5" "cdec=f16" "codec=dgc:0.1"; do
		run -78 --separate-stderr ps-ctl set $wrong
		[ -n "$stderr" ]
	done
	run -2 --separate-stderr ps-ctl set codec
	[ "$(http GET /v1/config | jq -r .codec)" = f16 ]
	ps-ctl stop >/dev/null
	run -3 ps-ctl set codec=raw
}

@test "ps-ctl set: a coordinator that is started again goes on by it" {
	wide
	RUN=$T/c.run
	begin c.json --set epochs=1000000000 --set quota_pushes=800 --set replicas=2 --max-restarts 3
	wait_for 20 step_is_past 50
	ps-ctl set codec=int8
	kill -9 "$(cat "$RUN/coordinator.pid")"
	wait_for 20 eval '[ "$(http GET /v1/config 2>/dev/null | jq -r .codec)" = int8 ]'
	ps-ctl set feedback=off
	[ "$(http GET /v1/config | jq -r '[.codec, .feedback] | join(" ")')" = "int8 false" ]
	ps-ctl stop >/dev/null
}

# bats test_tags=slow
@test "ps-ctl set: what one codec has left out goes with the next" {
	[ -r /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ] || skip "dataset-fashion-mnist is not installed"
	cat >m.json <<-JSON
	{ "servers": 1, "workers": 1, "job": { "model": "mlp", "hidden": [64], "steps": 2500, "optimizer": "sgd", "lr": 0.1,
	  "data": "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz",
	  "eval": "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz" } }
	JSON
	RUN=$T/m.run
	begin m.json --set codec=topk:0.001 "${HELD[@]}"
	ps-ctl set --at step=1000 codec=raw
	ps-ctl set --at step=1100 codec=topk:0.01
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done
	at_least .eval.accuracy 0.83
	ps-ctl stop >/dev/null
}
