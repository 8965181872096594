#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# A power cut at the coordinator's host: what was not synced is gone, and nothing that the
# coordinator had announced.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	[ -z "${PS_SANITIZED:-}" ] || skip "a sanitizer must be loaded first"
	setup_training
	FAULT=$(cd "$BATS_TEST_DIRNAME/fault" && pwd)
	CUT=$T/cut
	mkdir "$CUT"
	asleep=()
}
teardown() {
	kill -CONT "${asleep[@]}" 2>/dev/null || true
	teardown_dir
}

with_cut() {
	env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_CUT="$CUT" "$@"
}

pid_of() { cat "$RUN/$1.pid"; }
is_gone() { ! kill -s 0 "$1" 2>/dev/null || grep -q '^State:[[:space:]]*Z' "/proc/$1/status"; }
over() { [[ $(status .state) =~ ^(done|failed|stopped)$ ]]; }
leases_are_past() { [ "$(http GET /v1/tasks | jq .done)" -gt "$1" ] 2>/dev/null; }
epoch_is_past() { [ "$(status .layout_epoch)" -gt "$1" ] 2>/dev/null; }

# The coordinator's host loses its power, and comes back with what was durable there.
cut_power() {
	local name
	name=$(basename "$RUN")
	asleep=("$(sed -n 1p "$RUN/lock")")
	kill -STOP "${asleep[@]}"
	coordinator=$(pid_of coordinator)
	kill -9 "$coordinator"
	wait_for 10 is_gone "$coordinator"
	rm -rf left
	"$FAULT/powercut" "$CUT" "$T" left
	rm -f "$RUN"/state[.-]* "$RUN/coordinator.owner" "$RUN/keys/authorized_keys"
	cp "left/$name"/state[.-]* "left/$name/coordinator.owner" "$RUN/"
	cp "left/$name/keys/authorized_keys" "$RUN/keys/"
	# They are durable: the next coordinator goes on with some of them.
	with_cut sync "$RUN"/state[.-]* "$RUN/keys/authorized_keys"
	kill -CONT "${asleep[@]}"
}

@test "ranges that were leased before a power cut are neither lost nor trained on twice" {
	write_csv train.csv
	cat >lin.json <<-END
	{ "servers": 2, "workers": 2, "replicas": 2, "sync": "asp", "quota_pushes": 4,
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "epochs": 60, "batch": 16, "lr": 0.01 } }
	END
	RUN=$T/lin.run
	with_cut ps-ctl start lin.json --max-restarts 9 >start.log 2>&1 || { cat start.log "$RUN"/*.log; false; }
	done=0
	for _ in 1 2 3 4; do
		wait_for 30 leases_are_past $((done + 4))
		done=$(http GET /v1/tasks | jq .done)
		epoch=$(status .layout_epoch)
		cut_power
		wait_for 30 epoch_is_past "$epoch"
	done
	ps-ctl set -C "$RUN" quota_pushes=0
	wait_for 60 over
	wait_for 10 test -s "$RUN/result.json"
	RESULT=$(cat "$RUN/result.json")
	has .state done
	has .examples $((60 * 400))
}
