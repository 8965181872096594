#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# via allreduce: workers sum dense gradients among themselves and make the updates; the
# servers end with the same parameters, whoever dies on the way.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	RUN=$T/c.run
}

teardown() {
	teardown_dir
}

# job SERVERS WORKERS STEPS [members [job members]]: c.json, a model of 3 large partitions.
job() {
	local more=${5:-', "optimizer": "sgd"'}
	[ -e train.csv ] || awk 'BEGIN { srand(1); for (i = 0; i < 240; i++) {
		for (k = 0; k < 60; k++) printf "%.3f,", rand() + (i % 3 == k % 3); print i % 3 } }' >train.csv
	cat >c.json <<-END
	{ $(paced "$3") "servers": $1, "workers": $2, "via": "allreduce", "lease": "1s" ${4:-},
	  "job": { "model": "mlp", "hidden": [${HIDDEN:-3000}], "data": "train.csv?label=last&scale=none", "eval": "train.csv?label=last&scale=none",
	           "steps": $3, "batch": 8, "lr": ${LR:-0.02} $more } }
	END
}

# Of each partition there is a push a step here, too.
HELD=(--set quota_pushes=100)

pid_of() { cat "$RUN/$1.pid"; }
# All copies, and all three servers, are there.
whole() {
	[ "$(http GET /v1/servers | jq '[.servers[] | select(.state == "live")] | length')" -eq 3 ] &&
		http GET /v1/layout | jq -e '[.tables[].runs[] | (.[2] | length == 2) and .[3] == -1] | all' >/dev/null
}

# server_pid N: as the coordinator knows it.
server_pid() { http GET /v1/servers | jq -r ".servers[$1].pid"; }
is_replaced() { [ "$(server_pid "$1")" != "$2" ] && whole; }

# replace_server N: killed, started again by ps-ctl, and all copies are there again.
replace_server() {
	local pid
	wait_for 20 whole
	pid=$(server_pid "$1")
	kill -9 "$pid"
	wait_for 20 is_replaced "$1" "$pid"
}

# The job ends well, and the evaluator has found servers and workers alike.
ends_alike() {
	wait_for 60 over
	state_is "done" || { status .reason; tail -n 5 "$RUN"/*.log ./*.out; false; }
	cat "$RUN"/worker-*.log ./*.out 2>/dev/null >all.log || true
	if grep "differ from the workers'" all.log; then
		return 1
	fi
	grep "equal the workers' in every bit" all.log
}

# A worker in this rank, started by hand.
another() {
	ps-work train -C "$RUN" --rank "$1" >>"again-$1.out" 2>&1 3>&- &
	pids+=($!)
}

@test "the same training as through the servers, with a fraction of their bytes" {
	for rule in '"optimizer": "sgd"' '"optimizer": "adam", "schedule": "cosine:120"' '"optimizer": "momentum", "l2": 0.001, "clip_norm": 1'; do
		job 2 3 120 "" ", $rule"
		train c.json --set via=servers
		want=$(res .train_loss) loss=$(res .eval.loss) bytes=$(res '.pushed_bytes + .pulled_bytes')
		has .ring_bytes 0
		train c.json
		jq -e --argjson a "$want" --argjson b "$loss" '((.train_loss - $a) | fabs) < 1e-4 and ((.eval.loss - $b) | fabs) < 1e-4' <<<"$RESULT"
		jq -e --argjson n "$bytes" '.pushed_bytes + .pulled_bytes < 0.4 * $n and .ring_bytes > 0.5 * $n' <<<"$RESULT"
		[ "$(tail -n 1 c.run/metrics.jsonl | jq .ring_bytes)" = "$(res .ring_bytes)" ]
		grep -q "equal the workers' in every bit" c.run/*.log
	done
}

# bats test_tags=slow
@test "equal runs end in equal bits, also one that goes on from a checkpoint" {
	job 2 3 100 ', "checkpoint_every": 50' ', "optimizer": "adam"'
	train c.json
	want=$(res .model_digest)
	train c.json
	has .model_digest "$want"
	# What adam keeps comes from the servers.
	train c.json --resume step=50
	grep -q "resuming from .*/step-" c.run/server-0.log
	has .model_digest "$want"
}

@test "one worker alone; and a sparse table by the servers, its bias by the workers" {
	job 1 1 60
	train c.json
	has .ring_bytes 0
	grep -q "equal the workers' in every bit" c.run/*.log
	awk 'BEGIN { srand(4); for (i = 0; i < 300; i++) { printf "%d", i % 2; at = i % 2
		for (j = 0; j < 8; j++) { at += 1 + 2 * int(rand() * 9); printf " %d:1", at + 1 } print "" } }' >rows.libsvm
	echo '{ "servers": 2, "workers": 3, "job": { "model": "logistic", "data": "rows.libsvm", "epochs": 3, "batch": 10,
		"optimizer": "adagrad", "lr": 0.1 } }' >rows.json
	train rows.json
	want=$(res .train_loss)
	train rows.json --set via=allreduce
	jq -e --argjson a "$want" '((.train_loss - $a) | fabs) < 1e-5 and .ring_bytes > 0' <<<"$RESULT"
}

@test "workers are killed, stopped and taken over, and others go on" {
	LR=0.0005 job 2 4 $ENDLESS "" ', "optimizer": "adam"'
	begin c.json
	wait_for 20 step_is_past 20
	kill -9 "$(pid_of worker-2)"
	# Without it, once its lease is over.
	wait_for 20 eval '[ "$(status .workers)" = 3 ]'
	wait_for 20 step_is_past $(($(status .step) + 20))
	# Taken over while it lives, from another; and one that sleeps too long.
	another 1
	another 2
	wait_for 20 eval '[ "$(status .workers)" = 4 ]'
	wait_for 20 grep -q "in ring epoch [0-9]* with 4 workers" again-1.out
	kill -STOP "$(pid_of worker-3)"
	wait_for 20 eval '[ "$(status .workers)" = 3 ]'
	wait_for 20 step_is_past $(($(status .step) + 20))
	kill -CONT "$(pid_of worker-3)"
	ps-ctl stop >/dev/null
	# Those from outside are not ours to wait for: they end when they hear of it.
	wait_for 20 none_left "$T"
	! grep -h "cannot\|error" again-*.out
}

# bats test_tags=slow
@test "killed in every order while it trains: the servers end as the workers" {
	LR=0.0005 HIDDEN=1500 job 3 4 900 ', "replicas": 2' ', "optimizer": "adam"'
	begin c.json --set quota_pushes=20
	wait_for 20 step_is_past 10
	for i in 0 1 2 3 0 2; do
		kill -9 "$(pgrep -f "ps-work train -C $RUN --rank $i" | head -n 1)"
		another $i
		if [ "$i" = 2 ]; then
			replace_server 2
		elif [ "$i" = 3 ]; then
			# The coordinator, with its partitions.
			replace_server 0
		fi
		at=$(status .step)
		wait_for 30 step_is_past $((at + 10))
	done
	let_go
	ends_alike
	[ "$(http GET /v1/result | jq .steps)" -eq 900 ]
}

@test "all workers at once are killed: others begin where the servers are" {
	job 2 2 300 ', "on_worker_loss": "wait:10m"' ', "optimizer": "momentum"'
	begin c.json "${HELD[@]}" --set quota_pushes=20
	wait_for 20 step_is_past 5
	kill -9 "$(pid_of worker-0)" "$(pid_of worker-1)"
	another 0
	another 1
	let_go
	ends_alike
	[ "$(http GET /v1/result | jq .steps)" -eq 300 ]
}

# bats test_tags=slow
@test "killed with a sparse table beside, up to the last step" {
	awk 'BEGIN { srand(4); for (i = 0; i < 300; i++) { printf "%d", i % 2; at = i % 2
		for (j = 0; j < 8; j++) { at += 1 + 2 * int(rand() * 9); printf " %d:1", at + 1 } print "" } }' >rows.libsvm
	for run in 1 2 3; do
		echo '{ "servers": 2, "workers": 3, "via": "allreduce", "lease": "1s", "job": { "model": "logistic",
			"data": "rows.libsvm", "steps": 1500, "batch": 4, "optimizer": "adagrad", "lr": 0.1 } }' >c.json
		begin c.json "${HELD_SPARSE[@]}"
		for i in 0 1 2; do
			steps_on 5
			kill -9 "$(pgrep -f "ps-work train -C $RUN --rank $i" | head -n 1)"
			another $i
		done
		# And as near to the end as this machine has it.
		steps_on 5
		let_go
		kill -9 "$(pgrep -f "ps-work train -C $RUN --rank 1" | head -n 1)" 2>/dev/null || true
		another 1
		ends_alike
		ps-ctl stop >/dev/null
		rm -rf c.run* ./*.out
	done
}

@test "a loss that is not finite: the last good parameters are kept" {
	LR=1e25 job 1 2 200
	run ps-ctl run c.json
	[ "$status" -ne 0 ]
	[[ $output == *"the model of step "*" is saved"* ]]
	[ -s "$RUN/model.safetensors" ]
}

@test "more workers while it runs, and fewer" {
	job 2 2 $ENDLESS ', "workers": "1:6"'
	# Nobody is lost here: a busy machine may keep one from being heard of for longer than a second.
	sed -i 's/"workers": 2, //; s/"1:6"/"2:6"/; s/"lease": "1s"/"lease": "20s"/' c.json
	begin c.json
	wait_for 20 step_is_past 10
	ps-ctl scale workers=5
	wait_for 20 grep -q "in ring epoch [0-9]* with 5 workers" "$RUN/worker-0.log"
	wait_for 20 step_is_past $(($(status .step) + 20))
	run -2 ps-ctl scale workers=257
	[[ $output == *"from 1 to 256 with via allreduce"* ]]
	# What is refused leaves nothing behind.
	[ ! -e "$RUN/keys/worker-6.key" ]
	ps-ctl scale workers=2
	[ "$(status .workers)" = 2 ]
	wait_for 20 eval 'grep -h "in ring epoch [0-9]* with" "$RUN/worker-0.log" | tail -n 1 | grep -q "with 2 workers"'
	wait_for 20 step_is_past $(($(status .step) + 20))
	[ "$(http GET /v1/events | jq '[.events[] | select(.event | test("lost"))] | length')" -eq 0 ]
	ps-ctl stop >/dev/null
	none_left "$T"
}

@test "workers with a join file, by TCP, at an address that was given" {
	job 1 2 60 ', "transport": "tcp"'
	ps-serve c.json >coordinator.out 2>&1 3>&- &
	pids+=($!)
	wait_for 10 test -S "$RUN/ctl.sock"
	for i in 0 1; do
		ps-ctl invite -C "$RUN" --role worker -o "$i.join" 2>/dev/null
		[ $i = 0 ] || listen=(--listen 127.0.0.1:0)
		ps-work train --join "$i.join" "${listen[@]}" >"worker-$i.out" 2>&1 3>&- &
		pids+=($!)
	done
	ends_alike
	grep -q "in ring epoch 2 with 2 workers" worker-0.out
}

@test "what does not go with it is refused, with the key" {
	job 1 2 10
	for set in sync=asp backup=1 codec=f16 pull_codec=f16 local_steps=2 prefetch=true pull_delta=true \
		"deterministic=true --set on_worker_loss=wait:30s" workers=300; do
		# shellcheck disable=SC2086
		run -78 ps-ctl run c.json --set $set
		[[ $output == *"with via allreduce"* && $output == *"${set%%=*}: "* ]]
	done
	sed -i 's/"steps": 10/"steps": '$ENDLESS/ c.json
	begin c.json
	ps-ctl invite -C "$RUN" --role relay -o relay.join 2>/dev/null
	run -78 ps-serve --relay --join relay.join --zone z
	[[ $output == *"requires that via is servers"* ]]
	run -78 ps-ctl plan c.json --alone
	[[ $output == *"via: "*"not simulated"* ]]
	run -78 ps-ctl -C "$RUN" set codec=topk:0.01
	[[ $output == *"codec: must be raw with via allreduce"* ]]
	ps-ctl stop >/dev/null
}
