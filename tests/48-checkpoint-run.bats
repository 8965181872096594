#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
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
	{ $(paced "$1") "servers": 2, "workers": 2, "deterministic": true, "on_worker_loss": "wait:10m", ${2:-}
	  "job": { "model": "mlp", "hidden": [16], "data": "$DATA/digits8x8/digits.csv.gz?label=last&scale=none",
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

# running N: ps-ctl run in the background, until it has kept so many checkpoints; it is HELD.
running() {
	background ps-ctl run digits.json --json "${HELD[@]}"
	wait_for 20 step_kept "$1"
}

# goes_on FROM [options]: the run that was HELD, from there, as fast as it can.
goes_on() {
	rm -f digits.run/ctl.sock
	background ps-ctl run digits.json --json "${HELD[@]}" --resume "$@"
	wait_for 20 test -S "$RUN/ctl.sock"
	wait_for 20 state_is running
	let_go
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
	digits 2000
	train digits.json --set checkpoint_every=500
	# One whose step comes while another is being written is left out.
	kept=$(steps)
	figure "kept: $kept"
	[ "$(wc -w <<<"$kept")" -le 3 ]
	for step in $kept; do
		[ $((step % 500)) -eq 0 ]
	done
	[ "$(digest_of "$step")" = "$(undisturbed --set steps="$step")" ]
	train digits.json --set checkpoint_every=250 --set keep_last=1 --set keep_every=1000
	kept=$(steps)
	figure "kept: $kept"
	last=${kept##* }
	for step in $kept; do
		[ "$step" -eq "$last" ] || [ $((step % 1000)) -eq 0 ]
	done
	rm -rf digits.run
	background ps-ctl run digits.json --json --set checkpoint_every=20ms "${HELD[@]}"
	wait_for 20 step_kept 1
	let_go
	finish
	[ "$status" -eq 0 ]
	none_left "$T"
}

@test "SIGINT, or kill -9 of ps-ctl, then --resume auto: the same bits" {
	digits 1000 '"checkpoint_every": 10,'
	want=$(undisturbed)
	running 1
	kill -INT "$pid"
	finish
	[ "$status" -eq 130 ] || [ "$status" -eq 75 ]
	none_left "$T"
	goes_on auto
	is_done "$want"
	grep -q "resuming from .*/step-" digits.run/server-0.log

	rm -rf digits.run*
	running 2
	kill -9 "$pid"
	wait_for 10 none_left "$T"
	goes_on auto
	is_done "$want"
	[ ! -e digits.run.1 ]
	# What is done is not taken up again.
	goes_on auto
	is_done "$want"
	[ -e digits.run.1 ]
}

@test "another configuration is refused by its keys; there is nothing to resume" {
	digits 1000 '"checkpoint_every": 10,'
	run -4 ps-ctl run digits.json --resume step=10
	running 1
	kill -INT "$pid"
	finish
	run -78 ps-ctl run digits.json "${HELD[@]}" --resume auto --set lr=0.5 --set batch=9
	[[ $output == *job.lr* && $output == *job.batch* && $output != *job.steps* ]]
	run -4 ps-ctl run digits.json "${HELD[@]}" --resume step=7
	[[ $output == *"no checkpoint of step 7"* ]]
	run -4 ps-ctl run digits.json --resume ./nowhere
	run -2 ps-ctl run digits.json --resume step=x
	none_left "$T"
}

@test "step=N, and a path: on another number of servers, and of copies" {
	digits 1000 '"checkpoint_every": 10, "keep_last": 100,'
	want=$(undisturbed)
	running 3
	kill -INT "$pid"
	finish
	from=$(steps | cut -d' ' -f2)
	cp -r "$C/$(printf 'step-%012d' "$from")" saved
	goes_on step=$from
	is_done "$want"
	grep -q "resuming from .*step-0*$from\$" digits.run/server-0.log
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
	digits 1000 '"checkpoint_every": 10,'
	want=$(undisturbed)
	for victim in server-1 server-0; do
		rm -rf digits.run*
		running 1
		was=$(cat digits.run/$victim.pid)
		kill -9 "$was"
		wait_for 20 grep -q 'rolling back to' err
		wait_for 20 state_is running
		let_go
		is_done "$want"
		grep -q "$victim .*rolling back to .*/step-" err || { cat err; false; }
		figure "$(grep -o 'rolling back.*' err | head -n 1)"
	done
	# Without one the job begins again, as long as restarts are left.
	rm -rf digits.run*
	background ps-ctl run digits.json --json --max-restarts 1 --set checkpoint_every=1000000000 --set steps=$ENDLESS --set quota_pushes=80
	wait_for 10 test -S digits.run/ctl.sock
	wait_for 10 step_is_past 20
	was=$(cat digits.run/server-1.pid)
	kill -9 "$was"
	wait_for 20 grep -q 'rolling back to the beginning' err
	wait_for 20 eval '[ "$(cat digits.run/server-1.pid 2>/dev/null)" != '"$was"' ] && state_is running'
	wait_for 10 step_is_past 20
	kill -9 "$(cat digits.run/server-1.pid)"
	finish
	[ "$status" -eq 1 ]
	[ "$(field state <out)" = failed ]
	none_left "$T"
}

# harm STEP FILE: one byte near the end of the file becomes another one.
harm() {
	local file
	file=$C/$(printf 'step-%012d' "$1")/$2
	flip_byte "$file" $(($(stat -c %s "$file") - 9))
}

@test "damaged newest checkpoints are passed over, by name; one that is named is an error" {
	digits 1000 '"checkpoint_every": 10, "keep_last": 5,'
	want=$(undisturbed)
	running 3
	kill -INT "$pid"
	finish
	# Both servers find damage in the newest one, and one of them in the one before it.
	read -r newest second third < <(steps | xargs -n 1 | tac | xargs)
	harm "$newest" server-0.params.safetensors
	harm "$newest" server-1.state.safetensors
	harm "$second" server-1.params.safetensors
	run -1 ps-ctl run digits.json "${HELD[@]}" --resume "step=$second"
	[[ $output == *"server-1.params.safetensors\" is damaged: its digest differs"* ]]
	goes_on auto
	is_done "$want"
	for step in "$newest" "$second"; do
		[ "$(grep -c "$(printf 'step-%012d' "$step") is damaged and not used: " err)" -eq 1 ]
		[ "$(grep -c "$(printf 'step-%012d' "$step") is damaged and not used: " digits.run/events.jsonl)" -eq 1 ]
	done
	[[ $(res .passed_over) == "$(printf 'step-%012d' "$newest"): "*"; $(printf 'step-%012d' "$second"): "* ]]
	grep -q "resuming from .*$(printf 'step-%012d' "$third")" digits.run/server-0.log
}

# resumed_by_hand [VARIABLE=VALUE]...: coordinator, servers and workers of the stopped run, each started alone; server-0 with these
# variables. Its output is in server-0.out.
resumed_by_hand() {
	background ps-serve -C "$RUN" --no-store --resume auto
	wait_for 20 state_is forming
	env "$@" ps-serve -C "$RUN" --name server-0 >server-0.out 2>&1 3>&- &
	pids+=($!)
	ps-serve -C "$RUN" --name server-1 >server-1.out 2>&1 3>&- &
	pids+=($!)
	for _ in 1 2; do
		ps-work train -C "$RUN" >/dev/null 2>&1 3>&- &
		pids+=($!)
	done
}

@test "a checkpoint that a server cannot read for a moment is not passed over" {
	digits 1000 '"checkpoint_every": 10, "keep_last": 5, "replicas": 2,'
	running 2
	kill -INT "$pid"
	finish
	newest=$(printf 'step-%012d' "$(steps | xargs -n 1 | tail -n 1)")
	touch broken
	resumed_by_hand ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY=.safetensors FS_UNREADABLE="$T/broken"
	wait_for 20 grep -q 'Input/output error: trying again for up to 10 s' server-0.out
	rm broken
	wait_for 20 state_is running
	grep -q "$newest: share 0 of 2 is as its digests say" server-0.out
	run ! grep 'is damaged' digits.run/events.jsonl
}

@test "a checkpoint that a server refuses for any reason is passed over" {
	grep -q PS_FAIL "$BIN/ps-serve" || skip "a program without failpoints"
	digits 1000 '"checkpoint_every": 10, "keep_last": 5, "replicas": 2,'
	running 2
	kill -INT "$pid"
	finish
	read -r newest second < <(steps | xargs -n 1 | tac | xargs)
	resumed_by_hand PS_FAIL=restore_check:1:error
	wait_for 20 state_is running
	[ "$(grep -c "$(printf 'step-%012d' "$newest") is damaged and not used: " digits.run/events.jsonl)" -eq 1 ]
	grep -q "$(printf 'step-%012d' "$second"): share 0 of 2 is as its digests say" server-0.out
}

@test "a coordinator that is killed while the servers verify a checkpoint leaves the choice to the next one" {
	digits 1000 '"checkpoint_every": 5, "keep_last": 5, "replicas": 2,'
	running 2
	kill -INT "$pid"
	finish
	newest=$(steps | xargs -n 1 | tail -n 1)
	harm "$newest" "$(basename "$(ls "$C/$(printf 'step-%012d' "$newest")"/*.params.safetensors | tail -n 1)")"
	rm -f digits.run/*.pid
	background ps-ctl run digits.json --json "${HELD[@]}" --resume auto
	# With one server stopped the check does not end, unless it was quicker: what follows holds then, too.
	wait_for 20 test -s digits.run/server-1.pid
	kill -STOP "$(cat digits.run/server-1.pid)"
	wait_for 20 grep -q '"restore":' digits.run/state.json
	was=$(cat digits.run/coordinator.pid)
	kill -9 "$was"
	wait_for 20 eval '[ "$(cat digits.run/coordinator.pid 2>/dev/null)" != '"$was"' ]'
	kill -CONT "$(cat digits.run/server-1.pid)"
	wait_for 20 state_is running
	# ps-ctl run may report it after the job has begun.
	wait_for 20 grep -q "$(printf 'step-%012d' "$newest") is damaged and not used: " err
	kill -INT "$pid"
	finish
	[ "$(grep -c "$(printf 'step-%012d' "$newest") is damaged and not used: " err)" -eq 1 ] || { cat err; false; }
}

@test "every checkpoint damaged: --resume auto refuses and keeps them" {
	digits 2000 '"checkpoint_every": 10, "keep_last": 3,'
	running 2
	kill -INT "$pid"
	finish
	kept=$(steps)
	for step in $kept; do
		file=$(echo "$C/$(printf 'step-%012d' "$step")"/server-0.params.safetensors)
		flip_byte "$file" $(($(stat -c %s "$file") - 9))
	done
	run -1 ps-ctl run digits.json --json "${HELD[@]}" --resume auto
	[[ $output == *"all checkpoints in "*" are damaged "*"--resume none begins a new run"* ]]
	[ "$(steps)" = "$kept" ]
	run -1 ps-serve -C "$RUN" --coordinator --resume auto
	[[ $output == *"all checkpoints in "*" are damaged "* ]]
	[ "$(steps)" = "$kept" ]
}

@test "a damaged state.json does not keep a run from its checkpoints" {
	digits 2000 '"checkpoint_every": 10,'
	want=$(undisturbed)
	running 2
	kill -INT "$pid"
	finish
	echo '{"v":1,' >"$RUN/state.json"
	run ps-serve -C "$RUN" --no-store
	[ "$status" -ne 0 ]
	[[ $output == *"state.json"* && $output == *"ps-ctl run "*"digits --resume auto"* ]]
	goes_on auto
	is_done "$want"
}

# bats test_tags=slow
@test "a full disk costs the checkpoint, not the job" {
	digits 1000 '"checkpoint_every": 10,'
	want=$(undisturbed)
	background env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY=/checkpoints/ FS_BUDGET=3000 \
		ps-ctl run digits.json --json "${HELD[@]}"
	wait_for 20 grep -hqs 'no checkpoint: .*No space left' digits.run/server-0.log digits.run/server-1.log
	let_go
	is_done "$want"
	[ -z "$(find "$C" -name '.step-*' 2>/dev/null)" ]
	run -0 ps-ctl -C digits.run checkpoint ls
}

@test "ps-ctl checkpoint while it runs" {
	digits $ENDLESS
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
	digits $ENDLESS
	background ps-ctl run digits.json --json
	wait_for 20 test -S digits.run/ctl.sock
	wait_for 10 step_is_past 20
	kill -USR1 "$pid"
	wait_for 10 step_kept 1
	kill -USR1 "$(cat digits.run/server-0.pid)" "$(cat digits.run/server-1.pid)"
	wait_for 10 step_kept 2
	grep -q 'SIGUSR1 is ignored here' digits.run/server-1.log
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
	for rank in 0 1; do
		ps-work train -C digits.run --rank $rank 2>worker-$rank.err 3>&- &
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

@test "checkpoints that fail are told by run, by its result, and by runs" {
	endless
	background env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY=/checkpoints/ FS_FULL="$T/full" \
		ps-ctl run lin.json --json --set checkpoint_every=50
	RUN=$T/lin.run
	touch full
	wait_for 30 eval '[ "$(status .checkpoints_failed)" -ge 2 ] 2>/dev/null'
	wait_for 10 grep -q "warning: a checkpoint could not be written: .*No space left on device" err
	[ "$(grep -c 'a checkpoint could not be written' err)" -eq 1 ]
	# The checkpoint that a signal asks for fails, too, and that is said.
	kill "$pid"
	finish
	[ "$status" -eq 143 ]
	grep -q "warning: cannot take the last checkpoint: .*No space left on device" err
	[ "$(field 'checkpoints_failed >= 3' <out)" = true ]
	[[ $(field checkpoint_error <out) == *"No space left on device"* ]]
	ps-ctl status -C "$RUN" 2>/dev/null | grep -qE '; [0-9]+ checkpoints failed: .*No space left on device'
	ps-ctl runs | head -n 1 | grep -q checkpoints_failed
	ps-ctl runs --json | jq -e '.state == "stopped" and .result.checkpoints_failed >= 3'
}

@test "runs that have ended are named with what became of them, not as finished" {
	write_cluster 1
	ps-ctl run lin >/dev/null 2>&1
	mkdir empty.run bad.run
	echo '{"state":"failed","reason":"it was the test"}' >bad.run/result.json
	run -3 ps-ctl status
	[[ $output == *"bad.run: failed, empty.run: no result, lin.run: done"* ]]
	[[ $output != *finished* ]]
}

ranges_done() {
	[ "$(http GET /v1/tasks | jq .done)" -ge "$1" ] 2>/dev/null
}

# Pushes that each dense table has taken, over all generations.
pushes() {
	python3 - "$BATS_TEST_DIRNAME/../contrib/python" "$RUN" <<-'END'
		import sys
		sys.path.insert(0, sys.argv[1])
		import psclient
		cluster = psclient.Cluster(sys.argv[2])
		print(min(min(cluster.pull(name)[1]) for name in cluster.tables))
	END
}

# bats test_tags=slow
@test "asp and ssp: what is trained on while a checkpoint is written slowly is trained on again after it" {
	local mode begun
	[ -e "$BIN/fault/shim.so" ] || skip "the fault kit is not built"
	write_csv train.csv
	for mode in asp ssp:3; do
		cat >slow.json <<-END
			{ "servers": 2, "workers": 2, "sync": "$mode",
			  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "epochs": 3, "batch": 4, "lr": 0.01 } }
		END
		touch "$T/hold"
		rm -f "$T/hold.held"
		ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY=/checkpoints/ FS_HOLD="$T/hold" \
			begin slow.json "${HELD[@]}"
		wait_for 20 ranges_done 2
		background ps-ctl -C "$RUN" checkpoint take
		wait_for 20 test -e "$T/hold.held"
		begun=$(http GET /v1/tasks | jq .done)
		wait_for 60 ranges_done $((begun + 4))
		rm "$T/hold"
		finish
		[ "$status" -eq 0 ]
		ps-ctl -C "$RUN" stop --discard
		begin slow.json --resume auto "${HELD[@]}"
		let_go
		wait_for 60 state_is done
		figure "$mode: $(pushes) pushes for 300 batches"
		[ "$(pushes)" -ge 300 ]
		ps-ctl -C "$RUN" stop --discard
	done
}
