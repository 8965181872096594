#!/usr/bin/env bats
# The network cut, silently, between hosts of a cluster (tests/fault/cuts): it goes on
# or says why not, and no push is lost or counted twice.

load lib/helper

setup() {
	setup_dir
	export PS_BIN=$BIN TMPDIR=$T HOLD=3
}

teardown() {
	teardown_dir
}

# cuts [VARIABLE=...] -- PATTERN...: each is well; $output tells how it went.
cuts() {
	local env=()
	while [ "$1" != -- ]; do
		env+=("$1")
		shift
	done
	shift
	run env "${env[@]}" "$BATS_TEST_DIRNAME/fault/cuts" "$@"
	[[ $output != "1..0 # SKIP"* ]] || skip "${output#*SKIP }"
	sed -n 's/^ok [0-9]* - /# /p' <<<"$output" >&3
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(grep -c '^ok' <<<"$output")" -eq $# ]
}

# No line of the output is of a job that stood still.
all_went_on() {
	! grep -E ': 0 steps|the job failed' <<<"$output"
}

@test "a server and the coordinator: one way, the other, both" {
	cuts -- "coordinator>server-0" "server-0>coordinator" "coordinator=server-0"
	all_went_on
	! grep 'stopped: ' <<<"$output"
}

@test "two servers that copy to each other: one way, both" {
	cuts -- "server-0>server-1" "server-0=server-1"
	all_went_on
	! grep 'stopped: ' <<<"$output"
}

@test "a primary cut off from its only copy and from the coordinator, not from the workers" {
	for sync in bsp asp; do
		cuts SYNC=$sync -- "coordinator=server-0,server-0=server-1"
		all_went_on
	done
}

@test "the coordinator cut off from all servers: training goes on" {
	cuts -- "coordinator=server-0,coordinator=server-1"
	all_went_on
	! grep 'stopped: ' <<<"$output"
}

@test "the coordinator and the servers each cut off from all others: a clear stop" {
	cuts -- "coordinator=server-0,coordinator=server-1,server-0=server-1"
	grep 'the job failed: server-[01] .* is lost: no heartbeat' <<<"$output"
}

@test "a worker and the coordinator, a worker and a server: the other worker goes on" {
	cuts -- "coordinator>worker-0" "worker-0>coordinator" "coordinator=worker-0" "server-0>worker-0" "worker-0>server-1"
	all_went_on
	[ "$(grep -c 'stopped: worker-0$' <<<"$output")" -eq 5 ]
}
