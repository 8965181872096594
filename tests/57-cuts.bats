#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The network of a cluster, cut silently between its hosts (tests/fault/cuts): the cluster goes on
# or says why not, and no push is lost or counted twice.
# bats file_tags=fault

load lib/helper

# Most of a cut is waiting, so clusters suffer side by side, each on a network of its
# own; the tests look at what became of them.
setup_file() {
	setup_dir
	export PS_BIN=$BIN TMPDIR=$BATS_FILE_TMPDIR HOLD=3
	suffer servers "coordinator>server-0" "server-0>coordinator" "coordinator=server-0" "server-0>server-1" "server-0=server-1"
	suffer alone "coordinator=server-0,server-0=server-1" "coordinator=server-0,coordinator=server-1" \
		"coordinator=server-0,coordinator=server-1,server-0=server-1"
	SYNC=asp suffer asp "coordinator=server-0,server-0=server-1"
	suffer workers "coordinator>worker-0" "worker-0>coordinator" "coordinator=worker-0"
	suffer slow "slow server-0=server-1"
	suffer links "server-0>worker-0" "worker-0>server-1"
	SYNC=asp REPLICAS=2 suffer two random "$(kills 5)"
	SYNC=ssp:2 REPLICAS=3 suffer three random "$(kills 5)"
	SYNC=bsp RELAY=1 suffer relay random "$(kills 5)"
	SYNC=bsp REPLICAS=2 SERVERS=3 suffer spare random "$(kills 5)"
	SYNC=asp suffer asp-sequences sequences "$(kills 3)"
	SYNC=ssp:2 REPLICAS=3 suffer ssp-sequences sequences "$(kills 3)"
	wait
	cd / && rm -rf "$T"
}

# suffer GROUP PATTERN...: one cluster, one cut after the other, in the background.
suffer() {
	"$BATS_TEST_DIRNAME/fault/cuts" "${@:2}" >"$BATS_FILE_TMPDIR/$1" 2>&1 3>&- &
}

# cuts GROUP PATTERN...: each was well; $output tells how it went.
cuts() {
	local group=$BATS_FILE_TMPDIR/$1 pattern line
	shift
	output=$(<"$group")
	[[ $output != "1..0 # SKIP"* ]] || skip "${output#*SKIP }"
	output=
	for pattern; do
		line=$(grep -F -- " - $pattern: " "$group") && [[ $line == "ok "* ]] || {
			echo "$pattern:"
			cat "$group"
			return 1
		}
		sed 's/^ok [0-9]* - /# /' <<<"$line" >&3
		output+=$line$'\n'
	done
}

# No line of the output is of a job that stood still.
all_went_on() {
	! grep -E ': 0 steps|the job failed' <<<"$output"
}

# Nor of one who had to stop.
nobody_stopped() {
	! grep 'stopped: ' <<<"$output"
}

@test "a server and the coordinator: one way, the other, both" {
	cuts servers "coordinator>server-0" "server-0>coordinator" "coordinator=server-0"
	all_went_on
	nobody_stopped
}

@test "two servers that copy to each other: one way, both" {
	cuts servers "server-0>server-1" "server-0=server-1"
	all_went_on
	nobody_stopped
}

@test "two servers cut off again whose connections were made over a slow link: noticed as soon" {
	cuts slow "slow server-0=server-1"
	all_went_on
	nobody_stopped
	[[ $output =~ steps\ in\ ([0-9]+)\.[0-9]\ s\ of\ the\ cut ]]
	[ "${BASH_REMATCH[1]}" -le 8 ]
}

@test "a primary cut off from its only copy and from the coordinator, not from the workers" {
	for group in alone asp; do
		cuts $group "coordinator=server-0,server-0=server-1"
		all_went_on
	done
}

@test "the coordinator cut off from all servers: training goes on" {
	cuts alone "coordinator=server-0,coordinator=server-1"
	all_went_on
	nobody_stopped
}

@test "the coordinator and the servers each cut off from all others: a clear stop" {
	cuts alone "coordinator=server-0,coordinator=server-1,server-0=server-1"
	grep 'the job failed: server-[01] .* is lost: no heartbeat' <<<"$output"
}

@test "a worker and the coordinator, a worker and a server: the other worker goes on" {
	local all
	cuts workers "coordinator>worker-0" "worker-0>coordinator" "coordinator=worker-0"
	all=$output
	cuts links "server-0>worker-0" "worker-0>server-1"
	output+=$all
	all_went_on
	[ "$(grep -c 'stopped: worker-0$' <<<"$output")" -eq 5 ]
}

# is_well GROUP: no push was lost or doubled; prints what was cut, and the seed.
is_well() {
	local group=$BATS_FILE_TMPDIR/$1
	output=$(<"$group")
	[[ $output != "1..0 # SKIP"* ]] || skip "${output#*SKIP }"
	sed 's/^ok 1 - /# /; s/^not ok 1 - /# failed: /' "$group" >&3
	[[ $output == "ok 1 - "* && $output == *" lost 0 doubled 0 torn 0" ]]
}

@test "links cut and slowed at random while pushes are on their way: nothing lost, nothing doubled" {
	is_well two
	is_well three
	is_well relay
	is_well spare
}

@test "a head or a tail is succeeded and a worker does not hear of it, or is not heard: nothing lost, copies complete" {
	is_well asp-sequences
	is_well ssp-sequences
}
