#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The protocol of the copies of a partition, as a model of which every state is visited
# (tests/model/README): no acknowledged push is lost or counted twice, and each rule of the
# protocol is needed for that.

# model DEFINITION...: two servers, one push of a worker and one of somebody else.
model() {
	run "$BATS_TEST_DIRNAME/model/check" -DSERVERS=2 -DNOISE=1 -DDEATHS=0 "$@"
}

# finds_error DEFINITION...: without a rule the model has an error, and it is this one.
finds_error() {
	local what=$1
	shift
	model "$@"
	echo "$output" | tail -20
	[ "$status" -eq 1 ]
	[[ $output == *"assertion violated"*"$what"* ]]
}

@test "in no order of events an acknowledged push is lost or counted twice" {
	model -DEPOCHS=4
	echo "$output" | tail -20
	[ "$status" -eq 0 ]
	# The search went through the model, and not past it.
	[ "$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' <<<"$output")" -gt 100000 ]
}

@test "nor where answers are sent under a later layout than that of acceptance: by the tenures" {
	model -DEPOCHS=4 -DLATER_LAYOUT
	echo "$output" | tail -20
	[ "$status" -eq 0 ]
}

@test "without tenures an acknowledged push is lost then" {
	finds_error acked -DEPOCHS=4 -DLATER_LAYOUT -DNO_TENURE
}

@test "where a copy keeps the book of an earlier tenure an acknowledged push is lost" {
	finds_error acked -DEPOCHS=5 -DKEEP_LAST
}

@test "where changes count without a server that has just got its copy an acknowledged push is lost" {
	finds_error acked -DEPOCHS=4 -DNO_MUST
}

@test "where the tail's report of an earlier layout counts an acknowledged push is lost" {
	finds_error acked -DCHAIN=1 -DEPOCHS=5 -DNOISE=0 -DOTHERS -DOLD_REPORT
}

@test "where a link sends under the layout before that of the partition, a copy counts that is not there" {
	finds_error here -DCHAIN=1 -DEPOCHS=5 -DNOISE=0 -DLATE_LINKS -DLATE_SENDS
}

# When this was written, a server of seed 3 sent records under the layout before that of the partition.
@test "the model can do what the code did in some seeds of the simulator" {
	local bin
	bin=$(realpath "${PS_BIN:-build}")
	[ -x "$bin/sim" ] || skip "the simulator is not built with sanitizers, failpoints or assertions of locks"
	MOST=600 run "$BATS_TEST_DIRNAME/model/traces" 4 1 "$bin/sim"
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *"4 accepted, 0 too short, 0 refused"* ]]
}

@test "where a server goes on with a copy after a layout that it missed, one counts that is not there" {
	finds_error here -DEPOCHS=6 -DNOISE=0 -DGO_ON
}
