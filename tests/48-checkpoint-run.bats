#!/usr/bin/env bats
# Checkpoints of a living job, and going on from them: after a stop, a kill, the
# loss of the only copy, on another number of servers.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	C=digits.run/checkpoints
}

teardown() {
	teardown_dir
}

# digits STEPS [members]: digits.json, deterministic.
digits() {
	need_data digits8x8/digits.csv.gz
	cat >digits.json <<-END
	{ "servers": 2, "workers": 2, "deterministic": true, "on_worker_loss": "wait:30s", ${2:-}
	  "job": { "model": "mlp", "hidden": [16], "data": "$DATA/digits8x8/digits.csv.gz?label=last",
	  "steps": $1, "batch": 8, "optimizer": "adam", "lr": 0.001 } }
	END
	RUN=$T/digits.run
}

# The digest of a run of so many steps that nothing happens to.
undisturbed() {
	ps-ctl run digits.json --set name=undisturbed --set checkpoint_every=0 "$@" --json 2>/dev/null | field model_digest
}

steps() {
	ps-ctl -C digits.run checkpoint ls --json | jq -r 'select(.state == "whole") | .step' | xargs
}

digest_of() {
	ps-ctl -C digits.run checkpoint verify "$1" --json | field model_digest
}

step_kept() {
	[ "$(steps | wc -w)" -ge "$1" ] 2>/dev/null
}

# running: ps-ctl run in the background, until it has kept so many checkpoints.
running() {
	local kept=$1
	shift
	background ps-ctl run digits.json --json "$@"
	wait_for 20 step_kept "$kept"
}

# is_done DIGEST: the command in the background ends well, with this model.
is_done() {
	finish
	RESULT=$(tail -n 1 out)
	[ "$status" -eq 0 ] || {
		cat out err
		return 1
	}
	has .state done
	has .model_digest "$1"
	none_left "$T"
}

@test "every N steps, the last three are kept; each is the model of a run that ends there" {
	digits 6000
	train digits.json --set checkpoint_every=1000
	# One whose step comes while another is being written is left out.
	kept=$(steps)
	figure "kept: $kept"
	[ "$(wc -w <<<"$kept")" -le 3 ]
	for step in $kept; do
		[ $((step % 1000)) -eq 0 ]
	done
	[ "$(digest_of "$step")" = "$(undisturbed --set steps="$step")" ]
	train digits.json --set checkpoint_every=500 --set keep_last=1 --set keep_every=2000
	kept=$(steps)
	figure "kept: $kept"
	last=${kept##* }
	for step in $kept; do
		[ "$step" -eq "$last" ] || [ $((step % 2000)) -eq 0 ]
	done
	train digits.json --set checkpoint_every=20ms
	step_kept 1
	none_left "$T"
}

@test "SIGINT, or kill -9 of ps-ctl, then --resume auto: the same bits" {
	digits 4000 '"checkpoint_every": 100,'
	want=$(undisturbed)
	running 1
	kill -INT "$pid"
	finish
	[ "$status" -eq 130 ] || [ "$status" -eq 75 ]
	none_left "$T"
	background ps-ctl run digits.json --json --resume auto
	is_done "$want"
	grep -q "going on from .*/step-" digits.run/server-0.log

	rm -rf digits.run*
	running 2
	kill -9 "$pid"
	wait_for 10 none_left "$T"
	background ps-ctl run digits.json --json --resume auto
	is_done "$want"
	[ ! -e digits.run.1 ]
	# What is done is not taken up again.
	background ps-ctl run digits.json --json --resume auto
	is_done "$want"
	[ -e digits.run.1 ]
}

@test "another configuration is refused by its keys; there is nothing to resume" {
	digits 4000 '"checkpoint_every": 100,'
	run -4 ps-ctl run digits.json --resume step=100
	running 1
	kill -INT "$pid"
	finish
	run -78 ps-ctl run digits.json --resume auto --set lr=0.5 --set batch=9
	[[ $output == *job.lr* && $output == *job.batch* && $output != *job.steps* ]]
	run -4 ps-ctl run digits.json --resume step=7
	[[ $output == *"no checkpoint of step 7"* ]]
	run -4 ps-ctl run digits.json --resume ./nowhere
	run -2 ps-ctl run digits.json --resume step=x
	none_left "$T"
}

@test "step=N, and a path: on another number of servers, and of copies" {
	digits 6000 '"checkpoint_every": 100, "keep_last": 100,'
	want=$(undisturbed)
	running 3
	kill -INT "$pid"
	finish
	from=$(steps | cut -d' ' -f2)
	cp -r "$C/$(printf 'step-%012d' "$from")" saved
	background ps-ctl run digits.json --json --resume step=$from
	is_done "$want"
	grep -q "going on from .*step-0*$from\$" digits.run/server-0.log
	for set in servers=1 servers=3 replicas=2; do
		background ps-ctl run digits.json --json --resume ./saved --set $set --set name=other
		is_done "$want"
	done
	begin digits.json --resume ./saved --set servers=3 --set name=third
	ps-ctl -C third.run wait --for done --timeout 60s
	[ "$(ps-ctl -C third.run stop --json 2>/dev/null | field model_digest)" = "$want" ] ||
		[ "$(jq -r .model_digest third.run/result.json)" = "$want" ]
	none_left "$T"
}

@test "the only copy is lost: back to the newest checkpoint, in a new generation, the same bits" {
	digits 6000 '"checkpoint_every": 100,'
	want=$(undisturbed)
	for victim in server-1 server-0; do
		rm -rf digits.run*
		running 1
		kill -9 "$(cat digits.run/$victim.pid)"
		is_done "$want"
		grep -q "$victim .*rolling back to .*/step-" err || { cat err; false; }
		figure "$(grep -o 'rolling back.*' err | head -n 1)"
	done
	# Without one there is nothing to go back to.
	rm -rf digits.run*
	background ps-ctl run digits.json --json --set checkpoint_every=1000000000 --set steps=1000000
	wait_for 10 test -S digits.run/ctl.sock
	wait_for 10 step_is_past 50
	kill -9 "$(cat digits.run/server-1.pid)"
	finish
	[ "$status" -eq 1 ]
	[ "$(field state <out)" = failed ]
	none_left "$T"
}

@test "a damaged newest checkpoint is passed over, by name" {
	digits 8000 '"checkpoint_every": 100, "keep_last": 5,'
	want=$(undisturbed)
	running 3
	kill -INT "$pid"
	finish
	newest=$(steps | xargs -n 1 | tail -n 1)
	file=$(echo "$C/$(printf 'step-%012d' "$newest")"/server-0.params.safetensors)
	printf 'x' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 9)) conv=notrunc 2>/dev/null
	background ps-ctl run digits.json --json --resume auto
	is_done "$want"
	grep -q "$(printf 'step-%012d' "$newest") is passed over: " digits.run/server-0.log
}

@test "a full disk costs the checkpoint, not the job" {
	digits 6000 '"checkpoint_every": 500,'
	want=$(undisturbed)
	background env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY=/checkpoints/ FS_BUDGET=3000 \
		ps-ctl run digits.json --json
	is_done "$want"
	grep -hq 'no checkpoint: .*No space left' digits.run/*.log
	[ -z "$(find "$C" -name '.step-*' 2>/dev/null)" ]
	run -0 ps-ctl -C digits.run checkpoint ls
}

@test "ps-ctl checkpoint while it runs" {
	digits 100000000
	begin digits.json
	wait_for 10 step_is_past 20
	run -0 ps-ctl -C digits.run checkpoint --json
	step=$(field step <<<"$output")
	[ "$step" -gt 20 ]
	[ "$(field path <<<"$output")" = "$(cd "$C" && pwd)/$(printf 'step-%012d' "$step")" ]
	[ "$(http GET /v1/checkpoints | jq -c '[.checkpoints[] | [.step, .whole]]')" = "[[$step,true]]" ]
	for i in 1 2 3 4 5; do
		ps-ctl -C digits.run checkpoint >/dev/null &
	done
	wait $(jobs -p)
	[ "$(steps | wc -w)" -le 3 ]
	ps-ctl -C digits.run stop >/dev/null
	[ "$(digest_of "$(steps | cut -d' ' -f1)")" = \
		"$(undisturbed --set steps="$(steps | cut -d' ' -f1)")" ]
	none_left "$T"
}

@test "SIGUSR1: a checkpoint, and on; SIGTERM of a coordinator: a checkpoint, and the end" {
	digits 100000000
	background ps-ctl run digits.json --json
	wait_for 20 test -S digits.run/ctl.sock
	wait_for 10 step_is_past 20
	kill -USR1 "$pid"
	wait_for 10 step_kept 1
	kill -USR1 "$(cat digits.run/server-0.pid)" "$(cat digits.run/server-1.pid)"
	wait_for 10 step_kept 2
	grep -q 'SIGUSR1 is for the coordinator' digits.run/server-1.log
	at=$(status .step)
	wait_for 10 step_is_past $((at + 20))
	kill -TERM "$pid"
	finish
	[ "$status" -eq 75 ]
	[ "$(steps | wc -w)" -eq 3 ]
	none_left "$T"
	# Without ps-ctl: the coordinator sees to it itself.
	rm -rf digits.run*
	background ps-serve digits.json --set servers=1
	wait_for 10 test -S digits.run/ctl.sock
	for slot in 0 1; do
		ps-work train -C digits.run --slot $slot 2>worker-$slot.err 3>&- &
		pids+=($!)
	done
	wait_for 20 step_is_past 20
	kill -TERM "$pid"
	finish
	[ "$status" -eq 0 ]
	wait "${pids[@]: -2}"
	[ "$(steps | wc -w)" -eq 1 ]
	# While it still waits for workers: at once, and there is nothing to keep.
	rm -rf digits.run*
	background ps-serve digits.json --set servers=1
	wait_for 10 test -S digits.run/ctl.sock
	kill -TERM "$pid"
	finish
	[ "$status" -eq 0 ]
	[ -z "$(steps)" ]
	none_left "$T"
}
