#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# What a user keeps: the model and a checkpoint of a job that is stopped, and the model of any run directory.

bats_require_minimum_version 1.5.0
load lib/helper

setup() { setup_dir; }
teardown() { teardown_dir; }

is_running() { [ "$(ps-ctl -C lin.run status --json 2>/dev/null | jq -r 'select(.kind == "cluster").state')" = running ]; }
whole() { ps-ctl -C lin.run checkpoint ls --json | jq -r 'select(.state == "whole").path'; }
# The model file is that of the newest checkpoint, which can be gone on from.
is_saved() {
	local checkpoint
	checkpoint=$(whole | tail -n 1)
	[ -n "$checkpoint" ]
	[ ! -e lin.run/result.json ] || [ "$(jq .steps lin.run/result.json)" = "$((10#${checkpoint##*step-}))" ]
	ps-ctl -C "$checkpoint" export all >of-checkpoint
	cmp of-checkpoint lin.run/model.safetensors
	ps-ctl run lin --resume "$checkpoint" --set name=again --set steps=1000000000 --set epochs=0 --set quota_pushes=80 2>again.err &
	pids+=("$!")
	local again=$!
	wait_for 20 grep -q 'resuming from' again.run/server-0.log
	ps-ctl -C again.run stop --discard >/dev/null
	wait "$again" || true
}

@test "stop saves a checkpoint and the model, whoever runs the cluster" {
	endless
	for how in "ps-ctl run lin" "ps-ctl start lin" "ps-serve lin.json"; do
		# shellcheck disable=SC2086
		background $how
		if [ "$how" = "ps-serve lin.json" ]; then
			wait_for 10 test -S lin.run/ctl.sock
			background ps-work train -C lin.run --rank 0
			background ps-work train -C lin.run --rank 1
		fi
		wait_for 20 is_running
		ps-ctl wait --for step=20
		run -0 --separate-stderr ps-ctl -C lin.run stop
		[[ $output =~ ^"stopped (ps-ctl stop): "([0-9]+)" steps, " ]]
		[ "${BASH_REMATCH[1]}" -ge 20 ]
		[[ $stderr == *"saved "*"/checkpoints/step-"*" and "*"lin.run/model.safetensors"* ]]
		is_saved
		# The run does not wait for workers that it did not start.
		wait "${pids[@]}" || true
		none_left "$T"
		rm -rf lin.run* again.run*
	done
}

@test "stop --discard saves nothing; a job that is done has its model already" {
	endless
	ps-ctl start lin 2>/dev/null
	ps-ctl wait --for step=20
	run -0 --separate-stderr ps-ctl stop --discard
	[ -z "$stderr" ]
	[ ! -e lin.run/model.safetensors ] && [ -z "$(whole)" ]
	write_cluster 2
	ps-ctl start lin 2>/dev/null
	ps-ctl wait --for done
	run -0 --separate-stderr ps-ctl stop
	[ -z "$stderr" ]
	[ -e lin.run/model.safetensors ] && [ -z "$(whole)" ]
}

@test "a job that cannot be saved goes on, and stop says how to end it all the same" {
	endless
	ps-ctl start lin 2>/dev/null
	ps-ctl wait --for step=20
	# No checkpoint can be made where a file is in the way of the directory.
	touch lin.run/checkpoints
	run -1 --separate-stderr ps-ctl stop
	[ -z "$output" ]
	[[ $stderr == *"lin.run keeps running"*"--discard"*checkpoints* ]]
	is_running
	[ "$(ps-ctl status --json | jq -s ".[0].paused")" = false ]
	rm lin.run/checkpoints
	run -0 ps-ctl stop
	rm lin.run/model.safetensors
	is_running && return 1
	[ -n "$(whole)" ]
}

@test "a signal to run, or to the supervisor of start, saves both" {
	endless
	for how in run start; do
		background ps-ctl $how lin
		wait_for 20 is_running
		ps-ctl wait --for step=20
		[ $how = run ] || finish
		[ $how = run ] || pid=$(head -n 1 lin.run/lock | tr -d ' ')
		kill -s TERM "$pid"
		[ $how = start ] || finish
		wait_for 20 none_left "$T"
		wait_for 10 test -e lin.run/result.json
		is_saved
		rm -rf lin.run* again.run*
	done
}

# Waits until all have ended that kill -9 of the supervisor has taken with it.
crash() {
	kill -9 "$(head -n 1 lin.run/lock | tr -d ' ')"
	wait_for 10 none_left "$T"
}

@test "export: of a run that crashed, from its newest whole checkpoint, in every form" {
	endless
	awk 'BEGIN { srand(3); for (i = 0; i < 400; i++) {
		printf "%d", i % 2; for (k = 1; k < 30; k += 1 + int(rand() * 6)) printf " %d:1", k; print "" } }' >sparse.svm
	for set in data='train.csv?label=y&scale=none' data=sparse.svm; do
		sets=(--set "$set" --set eval= --set servers=2)
		[ "$set" != data=sparse.svm ] || sets+=(--set model=logistic)
		ps-ctl start lin "${sets[@]}" 2>/dev/null
		ps-ctl wait --for step=20
		ps-ctl pause >/dev/null
		ps-ctl checkpoint >/dev/null
		ps-ctl export all >live.safetensors
		ps-ctl export all -o text | sort >live.text
		ps-ctl export b -o npy >live.npy
		crash
		run -0 --separate-stderr ps-ctl -C lin.run export all --file saved.safetensors
		[[ $stderr == *"lin.run is not running"*"newest checkpoint, step-0"* ]]
		cmp live.safetensors saved.safetensors
		ps-ctl -C lin.run export all -o text 2>/dev/null | sort | cmp live.text
		ps-ctl -C lin.run export b -o npy 2>/dev/null | cmp live.npy
		run -4 ps-ctl -C lin.run export nothing -o text
		# A copy elsewhere, with nothing else of the run, and a checkpoint by its name.
		mkdir copy && cp -r lin.run/checkpoints copy/
		ps-ctl -C copy export all 2>/dev/null | cmp live.safetensors
		ps-ctl -C "$(whole)" export all | cmp live.safetensors
		rm -r copy lin.run
	done
}

@test "export and eval: of a run that is ending, from what it has saved" {
	endless
	for how in start run; do
		background ps-ctl $how lin
		wait_for 20 is_running
		ps-ctl -C lin.run checkpoint >/dev/null
		ps-ctl -C "$(whole)" export all >want
		# The run waits for a worker that is frozen before it kills it.
		kill -s STOP "$(cat lin.run/worker-1.pid)"
		pids+=("$(cat lin.run/worker-1.pid)")
		ps-ctl -C lin.run stop --discard >/dev/null 2>&1 &
		wait_for 20 test -e lin.run/result.json
		run -0 --separate-stderr ps-ctl -C lin.run export all --file got
		[[ $stderr == *"exporting the model"* ]]
		cmp got want
		run -0 ps-work eval -C lin.run --json
		wait
		rm -rf lin.run*
	done
}

@test "export: a damaged checkpoint is passed over with a warning; without any it says what is missing" {
	endless
	ps-ctl start lin 2>/dev/null
	ps-ctl wait --for step=20
	ps-ctl checkpoint >/dev/null
	ps-ctl wait --for step=$(($(ps-ctl status --json | jq 'select(.kind == "cluster").step') + 20))
	ps-ctl checkpoint >/dev/null
	crash
	[ "$(whole | wc -l)" -eq 2 ]
	old=$(whole | head -n 1)
	flip_byte "$(ls "$(whole | tail -n 1)"/*params*)" 200
	run -0 --separate-stderr ps-ctl -C lin.run export all --file newest
	[[ $stderr == *"warning: a newer checkpoint is damaged"*"$(basename "$old")"* ]]
	ps-ctl -C "$old" export all | cmp newest
	rm -r lin.run/checkpoints
	run -4 ps-ctl -C lin.run export all --file none
	[[ $output == *"neither model.safetensors nor a whole checkpoint"* ]]
	[ ! -e none ]
}

# One checkpoint of the job of lin.json, which has come to step $step: its path is in $from.
one_checkpoint() {
	endless
	ps-ctl start lin "$@" 2>/dev/null
	ps-ctl wait --for step=20
	ps-ctl stop >/dev/null 2>&1
	from=$(whole)
	step=$(jq .step "$from/MANIFEST.json")
}

@test "resume: from a checkpoint of the run directory that is moved aside" {
	one_checkpoint
	run -0 --separate-stderr ps-ctl run lin --resume "${from#"$T/"}" --set lr=0.1 --set epochs=0 --set steps=$((step + 20)) --json
	[ "$(field steps <<<"$output")" -eq $((step + 20)) ]
	[ -d lin.run.1 ]
	grep -q "resuming from $T/lin.run.1/checkpoints/" lin.run/server-0.log
	# A server of pulls whose own run directory was that run's.
	from=$(ls -d lin.run.1/checkpoints/*)
	background ps-serve --read-only "$from" -C lin.run.1
	wait_for 10 test -e lin.run.1.1
	wait_for 10 test -S lin.run.1/ctl.sock
	[ -n "$(ps-ctl -C lin.run.1 export b -o text)" ]
	ps-ctl -C lin.run.1 stop >/dev/null
}

@test "resume auto with other settings names a way to go on that works" {
	one_checkpoint
	run -78 --separate-stderr ps-ctl run lin --resume auto --set lr=0.1 --set epochs=0 --set steps=$((step + 10))
	[[ $stderr == *"other values of job.lr"* || $stderr == *"other values of "*job.lr* ]]
	[[ $stderr =~ --resume\ (/[^\;]*)\; ]]
	# A key that only one of them gives is named, too.
	run -78 ps-ctl run lin --resume auto --set l2=0
	[[ $output == *"other values of job.l2: "* ]]
	ps-ctl run lin --resume "${BASH_REMATCH[1]}" --set lr=0.1 --set epochs=0 --set steps=$((step + 10)) --json |
		jq -e ".steps == $((step + 10))"
	# No checkpoint fits another model.
	rm -f lin.run/result.json
	run -78 ps-ctl run lin --resume auto --set model=fm
	[[ $output == *"or begin a new run (no checkpoint fits a model of another shape): --resume none"* ]]
	# Without a checkpoint there is no such way.
	rm -r lin.run* && ps-ctl run lin --set epochs=1 >/dev/null && rm lin.run/result.json
	run -78 --separate-stderr ps-ctl run lin --resume auto --set lr=0.1
	[[ $stderr == *"give the same values, or begin a new run: --resume none"* ]]
	# A run that is done is not resumed.
	ps-ctl run lin --set epochs=1 >/dev/null
	run -0 --separate-stderr ps-ctl run lin --set epochs=1 --resume auto
	[[ $stderr == *"lin.run was done, so there was nothing to resume: a new run begins"* ]]
}

@test "resume with nothing left to train is 3, and says so" {
	one_checkpoint --set epochs=100000000
	for limit in "steps=$step" "steps=$((step - 1))" "epochs=1"; do
		for from in "$(whole)" "step=$step"; do
			for how in run start; do
				run -3 --separate-stderr ps-ctl $how lin --resume "$from" --set epochs=0 --set "$limit"
				[[ $stderr == *"nothing is left to train: "*"${limit%=*} is ${limit#*=}"*"export all" ]]
				[ -z "$output" ]
			done
		done
	done
	# Nothing was moved aside.
	[ ! -e lin.run.1 ]
}

write_sparse() {
	awk 'BEGIN { srand(3); for (i = 0; i < 400; i++) {
		printf "%d", i % 2; for (k = 1; k < 30; k += 1 + int(rand() * 6)) printf " %d:1", k; print "" } }' >"$1"
}
# Nothing has been written to $TMPDIR.
no_copies() {
	[ -z "$(ls -A "$TMPDIR")" ]
}

# sockets PID: the sockets that the process has.
sockets() {
	find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' | sort
}

@test "eval and predict: of a run that has ended, and of a checkpoint, as when it lived" {
	write_cluster 3
	write_sparse sparse.svm
	mkdir tmp && export TMPDIR=$T/tmp
	for sets in "servers=2 epochs=3" "data=sparse.svm eval=sparse.svm model=fm servers=2 factors=3" \
		"data=sparse.svm eval=sparse.svm model=fm factors=6 sparse=admit=2,expire=1000"; do
		# shellcheck disable=SC2086
		ps-ctl start lin $(printf -- '--set %s ' $sets) 2>/dev/null
		ps-ctl wait --for done
		ps-work eval >live.eval
		ps-work predict >live.predict
		ps-ctl stop >/dev/null
		ps-work eval 2>err | diff live.eval -
		grep -q "lin.run has no running cluster" err
		ps-work predict -C lin.run 2>/dev/null | cmp live.predict -
		no_copies
		rm -r lin.run
	done
	one_checkpoint --set data=sparse.svm --set eval=sparse.svm --set model=fm
	ps-work eval -C "$from" >of-checkpoint 2>/dev/null
	ps-work eval -C lin.run 2>/dev/null | diff of-checkpoint -
	# Without the model file its newest checkpoint is read.
	rm lin.run/model.safetensors
	ps-work eval -C lin.run sparse.svm 2>/dev/null | diff of-checkpoint -
	PS_CLUSTER=$from ps-work predict 2>/dev/null | wc -l | grep -qx 400
	no_copies
	[ -z "$(find . -name '*-read.run')" ]
}

@test "eval and predict: a saved model needs no process and no socket, and what cannot be read is said once" {
	write_cluster 3
	ps-ctl run lin >/dev/null
	mkdir tmp && export TMPDIR=$T/tmp
	mkfifo examples
	for sig in TERM HUP INT; do
		# Open both ways, so that nobody waits for the other end.
		exec 7<>examples
		# In a process group of its own, in which SIGINT and SIGHUP are not ignored, as a terminal has it.
		background python3 -c 'import os, signal, sys; os.setpgid(0, 0); [signal.signal(s, signal.SIG_DFL) for s in (signal.SIGINT, signal.SIGHUP)]; os.execvp(sys.argv[1], sys.argv[1:])' \
			bash -c "exec ps-work predict -C lin.run --follow <examples 7>&-"
		echo "1,2,3" >&7
		wait_for 20 test -s out
		run -1 pgrep -P "$pid"
		[ -z "$(comm -23 <(sockets "$pid") <(sockets $$))" ]
		# Ctrl-C is for the whole group.
		if [ $sig = INT ]; then
			kill -s $sig -- "-$pid"
		else
			kill -s $sig "$pid"
		fi
		finish
		[ "$status" -eq $((128 + $(kill -l $sig))) ]
		exec 7>&-
		no_copies
		rm out
	done
	# The file is in use, not a copy of it.
	cp lin.run/model.safetensors short.safetensors
	exec 7<>examples
	background bash -c "exec ps-work predict short.safetensors --follow <examples 7>&-"
	echo "1,2,3" >&7
	wait_for 20 test -s out
	: >short.safetensors
	echo "1,2,3" >&7
	finish
	exec 7>&-
	[ "$status" -eq 1 ]
	[ "$(wc -l <out)" -eq 1 ]
	grep -q "a file of the saved model was cut off while it was in use" err
	run -1 --separate-stderr ps-work eval -C lin.run nowhere.csv
	[[ $stderr == *'cannot open nowhere.csv: No such file'* ]]
	head -c 100 lin.run/model.safetensors >cut && mv cut lin.run/model.safetensors
	run -1 --separate-stderr ps-work eval -C lin.run
	[ "$(grep -c '^ps-work eval: .*model.safetensors' <<<"$stderr")" -eq 1 ]
	rm lin.run/model.safetensors
	run -4 --separate-stderr ps-work eval -C lin.run
	[[ $stderr == *"lin.run has neither model.safetensors nor a whole checkpoint"* ]]
	no_copies
}

@test "ps-serve --read-only answers from a run that has ended" {
	write_cluster 3
	ps-ctl run lin >/dev/null
	ps-ctl -C lin.run export all >want 2>/dev/null
	background ps-serve --read-only lin.run
	wait_for 10 test -S lin-read.run/ctl.sock
	wait_for 10 bash -c 'ps-ctl -C lin-read.run export all | cmp - want'
	run -0 --separate-stderr ps-ctl -C lin-read.run stop
	# A server of pulls has learned nothing that could be saved.
	[ -z "$stderr" ] && [ ! -e lin-read.run/model.safetensors ]
}

@test "stop saves the tables of a cluster without a job; one without tables has nothing to save" {
	echo '{ "servers": 1 }' >lin.json
	ps-ctl start lin 2>/dev/null
	run -0 --separate-stderr ps-ctl stop
	[ -z "$stderr" ]
	ps-ctl start lin 2>/dev/null
	ps-ctl table add emb --rows 4 --cols 2 --init uniform:1 >/dev/null
	ps-ctl export all >want
	run -0 --separate-stderr ps-ctl stop
	[[ $stderr == *"saved "*"/lin.run/checkpoints/step-"* ]]
	cmp want lin.run/model.safetensors
}
