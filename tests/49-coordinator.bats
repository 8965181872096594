#!/usr/bin/env bats
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
over() { [[ $(status .state) =~ ^(done|failed|stopped)$ ]]; }
supervisor() { sed -n 1p "$RUN/lock"; }
# Seconds of processor time that process $1 has had.
cpu() { awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) / hz }' "/proc/$1/stat"; }
has_worked() { awk -v a="$(cpu "$1")" -v b="$2" 'BEGIN { exit !(a > b + 0.3) }'; }
is_gone() { ! kill -s 0 "$1" 2>/dev/null || grep -q '^State:[[:space:]]*Z' "/proc/$1/status"; }

kill_coordinator() {
	local epoch
	epoch=$(status .epoch)
	kill -9 "$(pid_of coordinator)"
	wait_for 10 eval "[ \"\$(status .epoch)\" -gt $epoch ] 2>/dev/null || over"
}

sparse() {
	local end=${2:-'"steps": 100000000'}
	need_data a9a/a9a.gz
	cat >sparse.json <<-END
	{ "servers": 2, "workers": 2, "replicas": 2, ${1:-}
	  "job": { "model": "logistic", "data": "$DATA/a9a/a9a.gz", "batch": 16, "optimizer": "adagrad", "lr": 0.1,
	  $end } }
	END
}

@test "killed three times, once with a server: the same bits, no epoch twice" {
	sparse '"deterministic": true, "on_worker_loss": "wait:30s",' '"steps": 20000'
	train sparse.json
	first=$(res .model_digest)
	begin sparse.json --max-restarts 9
	wait_for 20 step_is_past 100
	kill_coordinator
	over || kill_coordinator
	kill -9 "$(pid_of server-1)"
	over || kill_coordinator
	wait_for 60 over
	wait_for 10 test -s "$RUN/result.json"
	RESULT=$(cat "$RUN/result.json")
	has .state done
	has .model_digest "$first"
	[ "$(grep -c 'goes on where the one before' "$RUN/coordinator.log")" -ge 2 ]
	# In one life; one that was killed may have had in its log what it had not told anybody yet.
	awk '/goes on where the one before/ { last = 0 }
		match($0, /epoch [0-9]+:/) { e = substr($0, RSTART + 6) + 0; if (e < last) bad = 1; last = e }
		END { exit bad }' "$RUN/coordinator.log"
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
}

@test "each range of the data is trained on once, whoever asked for it" {
	sparse '"sync": "asp",' '"epochs": 8'
	begin sparse.json --max-restarts 9
	wait_for 20 step_is_past 50
	kill_coordinator
	over || kill_coordinator
	wait_for 60 over
	wait_for 10 test -s "$RUN/result.json"
	RESULT=$(cat "$RUN/result.json")
	has .state done
	has .examples $((8 * 32561))
}

@test "while it is away training goes on; a worker that died meanwhile is noticed after" {
	for sync in bsp asp; do
		sparse '"lease": "1s",'
		begin sparse.json --set sync=$sync --set workers=3
		wait_for 20 step_is_past 50
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
		kill -CONT "${asleep[@]}"
		wait_for 20 state_is running
		wait_for 20 step_is_past $(($(status .step) + 50))
		grep -q 'worker-2 joined' "$RUN/coordinator.log"
		ps-ctl stop -C "$RUN" >/dev/null
		none_left "$T"
	done
}

@test "its state lost or torn: it refuses, unless it is told to begin anew" {
	sparse
	begin sparse.json
	wait_for 20 step_is_past 50
	asleep=("$(supervisor)")
	kill -STOP "${asleep[@]}"
	server=$(pid_of server-0)
	worker=$(pid_of worker-0)
	kill -9 "$(pid_of coordinator)"
	run -78 ps-serve -C "$RUN" --coordinator
	[[ $output == *"what it held is gone"* ]]
	head -c 200 "$RUN/state.json" >torn
	mv torn "$RUN/state.json"
	run ps-serve -C "$RUN" --no-store
	[ "$status" -ne 0 ]
	[[ $output == *state.json* && $output == *--force-new-cluster* ]]
	rm "$RUN/state.json"
	run -78 ps-serve -C "$RUN" --no-store
	[[ $output == *"state.json is gone"* && $output == *--force-new-cluster* ]]
	kill -s 0 "$server" "$worker"
	background ps-serve -C "$RUN" --no-store --force-new-cluster
	wait_for 10 is_gone "$server"
	wait_for 10 is_gone "$worker"
	grep -q 'has begun anew and knows nothing of epoch 1' "$RUN/server-0.log"
	state_is forming
	kill -9 "${asleep[@]}"
}
