#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# ps-ctl pause and resume: nothing moves meanwhile, nothing is lost, and the result is the same.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() { setup_training; }
teardown() { teardown_dir; }

pid_of() { cat "$RUN/$1.pid"; }
pause() { ps-ctl pause -C "$RUN" "$@"; }
resume() { ps-ctl resume -C "$RUN" "$@"; }
# Examples and what has been pushed, by the workers' own count.
moved() { http GET /v1/workers | jq -c '[.workers[] | [.step, .examples, .pushed_bytes]]'; }

# So many seconds, which are more than the deadline.
paused_for() { ps-stat -C "$RUN" why --json | jq -e ".since_seconds > $1" >/dev/null; }
# Every worker has sent another heartbeat after this one that is looked at first.
heard_since() {
	local was
	was=$(http GET /v1/workers | jq -c '[.workers[].doing_seconds]')
	wait_for 10 eval '[ "$(http GET /v1/workers | jq --argjson was "$was" "[.workers[].doing_seconds] | [., \$was] | transpose | all(.[0] > .[1])")" = true ]'
}

# job NAME STEPS MODE [members]: with other members the deadline is not six seconds.
job() {
	local more=', "deadline": "6s"'
	[ -e train.csv ] || write_csv train.csv
	cat >"$1.json" <<-END
	{ $(paced "$2") "servers": 2, "workers": 3, "replicas": 2, "heartbeat": "100ms", "sync": "$3" ${4:-$more},
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "steps": $2, "batch": 16, "lr": 0.01 } }
	END
}

# The members tell what they wait for with their heartbeats, which may come a little later.
everybody_waits() {
	[[ $(ps-stat -C "$RUN" why 2>&1) == "everybody waits for ps-ctl resume at step "*"the job is paused, by local; ps-ctl resume" ]]
}

# goes_on WHAT: nothing has moved since the job was paused, when moved() was WHAT; and it goes on.
goes_on() {
	wait_for 10 heard_since
	[ "$(moved)" = "$1" ]
	wait_for 10 everybody_waits
	run -0 resume --json
	[ "$(jq -r .kind <<<"$output")" = resumed ]
	at=$(status .step)
	wait_for 20 step_is_past "$at"
}

@test "nothing moves while it is paused, in any mode, for longer than the deadline" {
	# The name i is the loops' of bats' run.
	declare -A before
	for mode in bsp ssp:3 asp; do
		job "${mode%%:*}" $ENDLESS "$mode"
		begin "${mode%%:*}.json"
		for round in 1 2 3; do
			wait_for 20 step_is_past $((round * 20))
			run -0 pause
			[[ $output =~ ^paused\ at\ step\ [0-9]+$ ]]
			[ "$(status .paused)" = true ]
			before[${mode%%:*}]=$(moved)
			[ "$round" -eq 3 ] || goes_on "${before[${mode%%:*}]}"
		done
	done
	# All of them rest for longer than the deadline at once.
	for mode in bsp ssp asp; do
		RUN=$T/$mode.run
		wait_for 10 paused_for 6.5
		goes_on "${before[$mode]}"
		run -0 ps-ctl events -C "$RUN" paused resumed
		[ "${#lines[@]}" -eq 6 ]
		ps-ctl stop -C "$RUN" >/dev/null
	done
	none_left "$T"
}

@test "the same bits, with the coordinator and a worker killed while it is paused" {
	job same 1000 bsp ', "deterministic": true, "on_worker_loss": "wait:10m"'
	train same.json
	first=$(res .model_digest)
	mv same.json again.json
	# A coordinator that is started anew may need more than the others' six seconds.
	begin again.json --max-restarts 9 --set deadline=2m "${HELD[@]}"
	wait_for 20 step_is_past 10
	pause
	kill -9 "$(pid_of coordinator)" "$(pid_of worker-1)"
	wait_for 20 eval '[ "$(ps-ctl events -C "$RUN" recovered | wc -l)" -eq 1 ] && worker_is 1 active'
	[ "$(status .paused)" = true ]
	resume
	let_go
	ps-ctl wait -C "$RUN" --for done --timeout 180s
	[ "$(http GET /v1/result | jq -r .model_digest)" = "$first" ]
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
}

# can_save: a checkpoint comes at once, of the step that is told; its number is in $saved.
can_save() {
	saved=$(ps-ctl checkpoint -C "$RUN" --timeout 100s)
	[ "$saved" -ge "$(status .step)" ]
}

@test "a checkpoint of a job at rest is of the step it rests before; going on from it ends in the same bits" {
	job rest 1000 bsp ', "deterministic": true, "on_worker_loss": "wait:10m", "checkpoint_every": 100000, "deadline": "2m"'
	train rest.json --set name=undisturbed
	first=$(res .model_digest)
	begin rest.json "${HELD[@]}"
	wait_for 20 step_is_past 10
	# One that was asked for before all rest waits for a step that will not come.
	stand_still "$(pid_of worker-0)"
	ps-ctl checkpoint -C "$RUN" --timeout 120s >early 3>&- &
	early=$!
	run -0 http POST /v1/pause '{"paused":true}'
	kill -CONT "$(pid_of worker-0)"
	wait "$early"
	wait_for 10 eval '[ "$(status .resting)" = 3 ]'
	can_save
	[ "$saved" = "$(cat early)" ]
	[ "$saved" = "$(status .step)" ]
	# It rests all the while; and the worker that goes on from there has the same to do.
	ps-ctl checkpoint verify -C "$RUN" "$saved" >/dev/null
	ps-ctl stop -C "$RUN" >/dev/null
	begin rest.json "${HELD[@]}" --resume auto
	wait_for 20 step_is_past "$saved"
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	cat "$RUN"/*.log | grep -q "resuming from .*/step-0*$saved\b"
	has .model_digest "$first"
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
}

# stops_at_one_step: a stop ends the job at the step of its checkpoint, of which the model is. Workers of
# an asynchronous job that cannot rest in time are told of.
stops_at_one_step() {
	run -0 --separate-stderr ps-ctl stop -C "$RUN" --json
	[ "$(jq .steps <<<"$output")" = "$(jq .steps "$RUN/result.json")" ]
	[ "$(jq -r .reason <<<"$output")" = "ps-ctl stop" ]
	newest=$(printf '%s\n' "$RUN"/checkpoints/step-* | sort | tail -n 1)
	[[ $stderr == *"saved $newest and "* ]]
	[[ $stderr == *"could not rest"* ]] || [ "$(jq .steps <<<"$output")" = "$((10#${newest##*step-}))" ]
	ps-ctl -C "$newest" export all -o safetensors --file saved.safetensors
	cmp saved.safetensors "$RUN/model.safetensors"
	rm saved.safetensors
}

@test "a checkpoint of a job at rest in other modes, and with changes decided for later" {
	for mode in ssp:3 asp bsp; do
		job mode $ENDLESS "$mode" ', "deadline": "2m"'
		begin mode.json --set replicas=1 $([ "$mode" != bsp ] || echo --set backup=1)
		wait_for 20 step_is_past 20
		pause
		can_save
		resume
		wait_for 20 step_is_past "$saved"
		stops_at_one_step
	done
	# The mode of a step to come is not that of the step at which all rest.
	job turn $ENDLESS bsp ', "deadline": "2m"'
	begin turn.json
	wait_for 20 step_is_past 20
	pause
	for mode in asp bsp; do
		at=$(status .step)
		run -0 http POST /v1/set "{\"set\":{\"sync\":\"$mode\"}}"
		can_save
		resume
		wait_for 20 step_is_past $((at + 20))
		pause
	done
	can_save
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "stopped while it is paused; refused where nothing can rest" {
	job stop $ENDLESS bsp ', "lease": "20m"'
	begin stop.json
	wait_for 20 step_is_past 20
	# The job continues after a stop that is interrupted, or late, because a worker does not rest.
	stand_still "$(pid_of worker-0)"
	ps-ctl stop -C "$RUN" 2>err 3>&- &
	pid=$!
	wait_for 20 eval '[ "$(status .paused)" = true ]'
	[[ $(ps-stat -C "$RUN" why 2>&1) == "everybody waits for ps-ctl resume "*"held for its last checkpoint, by ps-ctl stop"* ]]
	kill -TERM "$pid"
	finish
	[ "$status" -eq 143 ]
	[[ $(cat err) == *"interrupted: $RUN keeps running" ]]
	[ "$(status .paused)" = false ]
	run -124 ps-ctl stop -C "$RUN" --timeout 10ms
	[[ $output == *"$RUN keeps running"* ]]
	wait_for 20 eval '[ "$(status .paused)" = false ]'
	kill -CONT "$(pid_of worker-0)"
	at=$(status .step)
	wait_for 20 step_is_past "$at"
	# A job that a user has paused stays paused unless it is stopped.
	pause
	run -0 pause
	[[ $output == "paused at step "* ]]
	touch "$RUN/checkpoints"
	run ps-ctl stop -C "$RUN"
	[[ $output == *"$RUN stays paused, because its model cannot be saved"* ]]
	[ "$(status .paused)" = true ]
	rm "$RUN/checkpoints"
	at=$(status .step)
	stops_at_one_step
	[ "$(jq .steps "$RUN/result.json")" = "$at" ]
	none_left "$T"
	run -3 pause
	job ring $ENDLESS bsp ', "via": "allreduce"'
	begin ring.json
	wait_for 20 step_is_past 20
	run pause
	[ "$status" -ne 0 ]
	[[ $output == *"via allreduce"*"cannot be paused"* ]]
	at=$(status .step)
	wait_for 20 step_is_past "$at"
	run -0 http POST /v1/pause '{"paused":1}'
	[[ $output == *"must be true or false"* ]]
	ps-ctl stop -C "$RUN" >/dev/null
}
