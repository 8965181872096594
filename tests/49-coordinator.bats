#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The coordinator killed, with its state and without: training goes on meanwhile,
# and nothing changes in the result.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() { setup_training; }
teardown() {
	kill -CONT "${asleep[@]}" 2>/dev/null || true
	teardown_dir
}
asleep=()

pid_of() { cat "$RUN/$1.pid"; }
supervisor() { sed -n 1p "$RUN/lock"; }
# Seconds of processor time that process $1 has had.
cpu() { awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) / hz }' "/proc/$1/stat"; }
has_worked() { awk -v a="$(cpu "$1")" -v b="$2" 'BEGIN { exit !(a > b + 0.3) }'; }
# The last thread of a killed process gives up its locks.
is_gone() { ! kill -s 0 "$1" 2>/dev/null || { grep -q '^State:[[:space:]]*Z' "/proc/$1/status" && [ "$(ls "/proc/$1/task" | wc -l)" -le 1 ]; }; }

epoch_is_past() {
	[ "$(status .layout_epoch)" -gt "$1" ] 2>/dev/null
}

kill_coordinator() {
	local epoch
	epoch=$(status .layout_epoch)
	kill -9 "$(pid_of coordinator)"
	wait_for 20 epoch_is_past "$epoch"
}

sparse() {
	local end=${2:-'"steps": '$ENDLESS} pace
	[ $# -gt 1 ] || pace=$(paced "$ENDLESS" 800)
	need_data a9a/a9a.gz
	cat >sparse.json <<-END
	{ $pace "servers": 2, "workers": 2, "replicas": 2, ${1:-}
	  "job": { "model": "logistic", "data": "$DATA/a9a/a9a.gz", "batch": 16, "optimizer": "adagrad", "lr": 0.1,
	  $end } }
	END
}

@test "killed three times, once with a server: the same bits, no epoch twice" {
	sparse '"deterministic": true, "on_worker_loss": "wait:10m",' '"steps": 500'
	train sparse.json
	first=$(res .model_digest)
	begin sparse.json --max-restarts 9 "${HELD_SPARSE[@]}"
	wait_for 20 step_is_past 10
	kill_coordinator
	kill_coordinator
	kill -9 "$(pid_of server-1)"
	kill_coordinator
	let_go
	wait_for 60 over
	wait_for 10 test -s "$RUN/result.json"
	RESULT=$(cat "$RUN/result.json")
	has .state done
	has .model_digest "$first"
	[ "$(grep -c 'continues from the saved state' "$RUN/coordinator.log")" -ge 3 ]
	# In one life; one that was killed may have had in its log what it had not told anybody yet.
	awk '/continues from the saved state/ { last = 0 }
		match($0, /epoch [0-9]+:/) { e = substr($0, RSTART + 6) + 0; if (e < last) bad = 1; last = e }
		END { exit bad }' "$RUN/coordinator.log"
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
}

# Kills the coordinator unless the supervisor has given it up.
is_given_up() {
	local pid
	pid=$(pid_of coordinator)
	grep -q 'saving what the servers have' "$RUN/supervisor.log" || { kill -9 "$pid" 2>/dev/null; false; }
}

@test "killed again and again: what the servers have is saved, and it is said how to continue" {
	sparse
	begin sparse.json --max-restarts 2
	wait_for 20 step_is_past 10
	wait_for 60 is_given_up
	wait_for 60 test -s "$RUN/result.json"
	RESULT=$(cat "$RUN/result.json")
	has .state failed
	[ -s "$RUN/model.safetensors" ]
	grep -q 'to continue it from step-0.*--resume auto' "$RUN/supervisor.log"
	wait_for 20 none_left "$T"
	# The supervisor writes the result before it ends.
	wait_for 20 eval '! kill -0 "$(sed -n 1p "$RUN/lock")" 2>/dev/null'
	# The run goes on from there.
	begin sparse.json --max-restarts 2 --resume auto
	wait_for 20 step_is_past 10
}

@test "each range of the data is trained on once, whoever asked for it" {
	sparse '"sync": "asp",' '"epochs": 8'
	begin sparse.json --max-restarts 9 "${HELD_SPARSE[@]}"
	wait_for 20 step_is_past 10
	kill_coordinator
	kill_coordinator
	let_go
	wait_for 60 over
	wait_for 10 test -s "$RUN/result.json"
	RESULT=$(cat "$RUN/result.json")
	has .state done
	has .examples $((8 * 32561))
}

@test "while it is away training goes on; a worker that died meanwhile is noticed after" {
	for sync in bsp asp; do
		sparse '"lease": "1s",'
		# Nobody can be asked for steps meanwhile, but full speed shows in the processor's time.
		begin sparse.json --set sync=$sync --set workers=3 $([ $sync = asp ] || echo --set quota_pushes=0)
		wait_for 20 step_is_past 20
		asleep=("$(supervisor)")
		kill -STOP "${asleep[@]}"
		kill -9 "$(pid_of coordinator)"
		# asp: as long as the leases last.
		if [ $sync = bsp ]; then
			was=$(cpu "$(pid_of worker-0)")
			wait_for 10 has_worked "$(pid_of worker-0)" "$was"
		fi
		kill -9 "$(pid_of worker-2)"
		[ "$(status .state)" = "" ]
		# Commands that change something wait for its successor.
		ps-ctl set -C "$RUN" checkpoint_every=1000s >set.log 2>&1 &
		setter=$!
		ps-ctl checkpoint -C "$RUN" >checkpoint.log 2>&1 &
		saver=$!
		kill -CONT "${asleep[@]}"
		wait_for 20 state_is running
		wait "$setter"
		wait "$saver" || { cat checkpoint.log; false; }
		wait_for 20 step_is_past $(($(status .step) + 20))
		grep -q 'worker-2 joined' "$RUN/coordinator.log"
		ps-ctl stop -C "$RUN" >/dev/null
		none_left "$T"
	done
}

waits_for() {
	ps-stat why -C "$RUN" | grep -q "the checkpoint waits for $1"
}

@test "a checkpoint is requested while a server has no session: it gets the order in the next one" {
	# With rare heartbeats there is time before the server is taken for lost.
	sparse '"sync": "asp", "heartbeat": "1s",'
	begin sparse.json --max-restarts 9
	wait_for 20 step_is_past 20
	asleep=("$(pid_of server-1)")
	kill -STOP "${asleep[@]}"
	kill_coordinator
	background ps-ctl checkpoint -C "$RUN"
	wait_for 10 waits_for server-1
	kill -CONT "${asleep[@]}"
	finish
	cat out err
	[ "$status" = 0 ]
	grep -q 'checkpoint of step' "$RUN/coordinator.log"
	! grep -q 'server-1 .* is lost' "$RUN/coordinator.log"
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
}

@test "its state lost or torn: it refuses, unless it is told to begin anew" {
	sparse
	begin sparse.json
	wait_for 20 step_is_past 20
	asleep=("$(supervisor)")
	kill -STOP "${asleep[@]}"
	server=$(pid_of server-0)
	worker=$(pid_of worker-0)
	coordinator=$(pid_of coordinator)
	kill -9 "$coordinator"
	wait_for 10 is_gone "$coordinator"
	run -78 ps-serve -C "$RUN" --coordinator
	[[ $output == *"its partitions are lost"* ]]
	head -c 200 "$RUN/state.json" >torn
	mv torn "$RUN/state.json"
	run ps-serve -C "$RUN" --no-store
	[ "$status" -ne 0 ]
	[[ $output == *state.json* && $output == *--force-new-cluster* ]]
	rm "$RUN/state.json"
	run -78 ps-serve -C "$RUN" --no-store
	[[ $output == *"state.json is missing"* && $output == *--force-new-cluster* ]]
	kill -s 0 "$server" "$worker"
	background ps-serve -C "$RUN" --no-store --force-new-cluster
	wait_for 10 is_gone "$server"
	wait_for 10 is_gone "$worker"
	grep -q 'has lost its state and does not know layout epoch 1' "$RUN/server-0.log"
	state_is forming
	kill -9 "${asleep[@]}"
}

@test "a coordinator that is started again by the same command goes on from its state" {
	write_csv train.csv
	cat >lin.json <<-END
	{ $(paced $ENDLESS) "servers": 2, "workers": 1, "replicas": 2, "checkpoint_every": "none",
	  "job": { "model": "linear", "optimizer": "sgd", "data": "$PWD/train.csv?label=y&scale=none", "steps": $ENDLESS, "batch": 16, "lr": 0.1 } }
	END
	RUN=$PWD/lin.run
	background ps-serve lin.json -C "$RUN" --no-store --resume auto
	coordinator=$!
	wait_for 10 state_is forming
	for m in server:0 server:1 worker:0; do
		ps-ctl invite -C "$RUN" --role "${m%:*}" -o "${m/:/-}.join"
	done
	for i in 0 1; do background ps-serve --join "server-$i.join"; done
	background ps-work train --join worker-0.join
	wait_for 20 step_is_past 10
	kill -9 "$coordinator"
	wait_for 10 is_gone "$coordinator"
	background ps-serve lin.json -C "$RUN" --no-store --resume auto
	coordinator=$!
	wait_for 20 state_is running
	wait_for 20 step_is_past 20
	[ "$(ps-ctl events -C "$RUN" --json | grep -c 'the coordinator continues from the saved state')" -eq 1 ]
	[ "$(status .generation)" -eq 1 ]
	# Nor does a disk that fails for a moment cost the job its state.
	kill -9 "$coordinator"
	wait_for 10 is_gone "$coordinator"
	for file in coordinator.owner state.json; do
		touch broken
		background env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY="/$file" FS_UNREADABLE="$T/broken" \
			ps-serve lin.json -C "$RUN" --no-store --resume auto
		coordinator=$!
		wait_for 10 grep -q "$file.*Input/output error.*: trying again" err
		rm broken
		wait_for 20 state_is running
		[ "$(status .generation)" -eq 1 ]
		step=$(status .step)
		wait_for 20 step_is_past $((step + 10))
		kill -9 "$coordinator"
		wait_for 10 is_gone "$coordinator"
	done
	background ps-serve lin.json -C "$RUN" --no-store --resume auto
	coordinator=$!
	wait_for 20 state_is running
	# A checkpoint that is named is gone back to.
	ps-ctl checkpoint -C "$RUN" >step
	kill -9 "$coordinator"
	wait_for 10 is_gone "$coordinator"
	background ps-serve lin.json -C "$RUN" --no-store --resume "step=$(cat step)"
	wait_for 20 state_is forming
	[ "$(jq -r .restore "$RUN/state.json")" != "" ]
}

# Starts the coordinator of lin.json by the command that continues the run, too.
lin_coordinator() {
	background ps-serve lin.json -C "$RUN" --no-store --resume auto --returns
	coordinator=$!
}

# happened KIND...: events of these kinds are known, in this order.
happened() {
	local pattern
	pattern=$(printf '.* %s' "$@")
	[[ " $(http GET /v1/events | jq -r '.events[].event' | xargs) " =~ $pattern' ' ]]
}

# lin_cluster MEMBERS JOB: a cluster of two servers with replicas, of which each process is started by hand.
lin_cluster() {
	write_csv train.csv
	cat >lin.json <<-END
	{ "servers": 2, "workers": 1, "replicas": 2, "checkpoint_every": "none", $1
	  "job": { "model": "linear", "optimizer": "sgd", "data": "$PWD/train.csv?label=y&scale=none", "batch": 16, "lr": 0.1, $2 } }
	END
	RUN=$PWD/lin.run
	lin_coordinator
	wait_for 10 state_is forming
	for m in server:0 server:1 server:2 worker:0; do
		ps-ctl invite -C "$RUN" --role "${m%:*}" -o "${m/:/-}.join"
	done
	for i in 0 1; do background ps-serve --join "server-$i.join"; done
}

@test "SIGTERM to a coordinator that returns: the job goes on, is done once, and stays done" {
	lin_cluster "" '"steps": 600'
	background ps-work train --join worker-0.join --returns --compute 5ms
	worker=$!
	wait_for 20 step_is_past 10
	kill -TERM "$coordinator"
	wait "$coordinator"
	kill -0 "$worker"
	lin_coordinator
	wait_for 20 step_is_past 20
	[ "$(ps-ctl events -C "$RUN" --json | grep -c 'the coordinator continues from the saved state')" -eq 1 ]
	wait_for 30 test -s "$RUN/result.json"
	wait "$worker"
	[ "$(jq -r '.state, .steps' "$RUN/result.json" | xargs)" = "done 600" ]
	digest=$(jq -r .model_digest "$RUN/result.json")
	[ -s "$RUN/model.safetensors" ]
	# Killed before it has saved them, and after that.
	for files in "$RUN/model.safetensors $RUN/result.json" ""; do
		kill -9 "$coordinator"
		wait_for 10 is_gone "$coordinator"
		[ -z "$files" ] || rm $files
		lin_coordinator
		wait_for 20 state_is "done"
		wait_for 20 test -s "$RUN/result.json"
	done
	[ -s "$RUN/model.safetensors" ]
	[ "$(jq -r .model_digest "$RUN/result.json")" = "$digest" ]
	[ ! -e "$RUN.1" ]
	# A worker that is started again is not needed.
	ps-work train --join worker-0.join --returns
	ps-ctl stop -C "$RUN" >/dev/null
	wait "$coordinator"
	none_left "$T"
}

@test "a worker that returns exits with 75 after SIGTERM" {
	lin_cluster "" "\"steps\": $ENDLESS"
	background ps-work train --join worker-0.join --returns --compute 5ms
	wait_for 20 step_is_past 10
	kill -TERM "$pid"
	finish
	[ "$status" -eq 75 ] || { cat err; false; }
}

@test "the only worker returns: the job waits for it, after SIGTERM and after a kill" {
	lin_cluster "" "\"steps\": $ENDLESS"
	background ps-work train --join worker-0.join --returns --compute 5ms
	wait_for 20 step_is_past 10
	kill -TERM "$pid"
	finish
	[ "$status" -eq 75 ] || { cat err; false; }
	wait_for 20 happened worker_awaited
	ps-stat -C "$RUN" why --json >why
	[ "$(jq -r 'select(.id == "the job") | .for, .code' why | xargs)" = "worker-0 ended" ]
	# The next coordinator waits for it, too.
	kill -9 "$coordinator"
	wait_for 10 is_gone "$coordinator"
	lin_coordinator
	wait_for 20 happened worker_awaited
	state_is running
	was=$(status .step)
	background ps-work train --join worker-0.join --returns --compute 5ms
	wait_for 20 step_is_past $((was + 5))
	[ "$(ps-stat -C "$RUN" why --json | grep -c '"the job"')" -eq 0 ]
	kill -9 "$pid"
	wait_for 30 happened worker_lost worker_awaited
	state_is running
	was=$(status .step)
	background ps-work train --join worker-0.join --returns --compute 5ms
	wait_for 20 step_is_past $((was + 5))
}

@test "a worker that gives up waiting for its coordinator exits with 75" {
	lin_cluster '"deadline": "1s",' "\"steps\": $ENDLESS"
	background ps-work train --join worker-0.join --compute 5ms
	worker=$pid
	wait_for 20 step_is_past 10
	kill -9 "$coordinator"
	status=0
	wait "$worker" || status=$?
	[ "$status" -eq 75 ] || { cat err; false; }
	run -75 ps-work train --join worker-0.join --timeout 0.2s
}

@test "a server waits for a coordinator whose name is not known yet, and a further one joins" {
	lin_cluster '"servers_max": 3,' "\"steps\": $ENDLESS"
	background ps-work train --join worker-0.join --compute 5ms
	wait_for 20 step_is_past 10
	jq '.data = "no-such-host.invalid:7070"' server-2.join >later.join
	chmod 600 later.join
	run -6 ps-serve --join later.join --timeout 0.3s
	[[ $output == *'cannot resolve "no-such-host.invalid:7070"'*'trying again for up to'* ]]
	background ps-serve --join server-2.join
	server=$!
	wait_for 20 eval '[ "$(status ".servers, .servers_wanted" | xargs)" = "3 3" ]'
	kill -TERM "$server"
	wait "$server"
	[ "$(status '.state, .servers, .servers_wanted' | xargs)" = "running 2 2" ]
	run -2 ps-serve lin.json --returns
	[[ $output == *'--returns requires --no-store'* ]]
}

# bats test_tags=fault
@test "killed within half a second of its start: the run is done all the same" {
	run -0 env PS_BIN="$BIN" "$BATS_TEST_DIRNAME/fault/early" "$(kills 3)"
	echo "$output"
	[[ $output == *"$(kills 3) runs, 0 failed"* ]]
	# When its state is good, and the supervisor has not yet seen that the job runs.
	run -0 env PS_BIN="$BIN" WHEN="the job is running" "$BATS_TEST_DIRNAME/fault/early" "$(kills 3)"
	echo "$output"
	[[ $output == *"$(kills 3) runs, 0 failed"* ]]
	# When the job is done, and the model is yet to be saved.
	run -0 env PS_BIN="$BIN" WHEN="the job is done" "$BATS_TEST_DIRNAME/fault/early" "$(kills 2)"
	echo "$output"
	[[ $output == *"$(kills 2) runs, 0 failed"* ]]
}

@test "of two coordinators in one run directory the later one goes on, the earlier one ends" {
	write_csv train.csv
	cat >lin.json <<-END
	{ $(paced $ENDLESS) "servers": 2, "workers": 2, "replicas": 2,
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "steps": $ENDLESS, "batch": 16, "lr": 0.1 } }
	END
	begin lin.json
	wait_for 20 state_is running
	# Here it lives, and is not ended by a mistake.
	run -1 ps-serve -C "$RUN" --no-store
	[[ $output == *"is already running on this host (pid $(pid_of coordinator))"* ]]
	state_is running
	# On another host, whose process numbers mean nothing here, it takes over.
	asleep=("$(supervisor)")
	kill -STOP "${asleep[@]}"
	first=$(pid_of coordinator)
	jq -c '.incarnation = "1" | .boot_id = "elsewhere" | .host = "elsewhere"' "$RUN/coordinator.owner" >owner
	mv owner "$RUN/coordinator.owner"
	before=$(cksum <"$RUN/state.json")
	ps-ctl pause -C "$RUN" >/dev/null 2>&1 || true
	wait_for 10 is_gone "$first"
	grep -q 'another coordinator has taken over .* (host elsewhere, pid [0-9]*); this one ends' "$RUN/coordinator.log"
	[ "$(cksum <"$RUN/state.json")" = "$before" ]
	background ps-serve -C "$RUN" --no-store
	wait_for 20 state_is running
	[ "$(status .layout_epoch)" -gt 1 ]
	kill -9 "${asleep[@]}"
}
