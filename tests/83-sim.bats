#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Clusters of real programs in virtual time (tests/sim): what is lost there is lost in life, too.

load lib/helper

setup() {
	setup_dir
	SIM=$BIN/sim
	[ -x "$SIM" ] || skip "the simulator is not built with sanitizers, failpoints or assertions of locks"
}

teardown() {
	teardown_dir
}

# At most 1,200 short seeds, and no more than the machine runs in 25 s: on two idle cores these take about 20 s.
@test "no acknowledged push is lost or counts twice, and each job ends" {
	"$SIM" --seeds 600 --seconds 25 >one 2>&1 &
	run "$SIM" --from 601 --seeds 600 --seconds 25
	wait $! && first=0 || first=$?
	cat one
	echo "# $(tail -n 1 one); ${lines[-1]}" >&3
	[ "$first" -eq 0 ]
	[ "$status" -eq 0 ]
}

@test "seeds that once failed do not fail again (tests/sim/seeds)" {
	mapfile -t seeds < <(sed -n 's/^\([^#|][^|]*\)|.*/\1/p' "$BATS_TEST_DIRNAME/sim/seeds")
	[ "${#seeds[@]}" -gt 0 ]
	# shellcheck disable=SC2086 # a line may have options
	run "$SIM" ${seeds[*]}
	[ "$status" -eq 0 ]
	[ "$(grep -c '^ok seed' <<<"$output")" -eq "${#seeds[@]}" ]
}

@test "a seed has one trace, in any process and after any other seed" {
	"$SIM" --trace 7 | sed '$d' >one
	"$SIM" --trace 7 | sed '$d' >two
	cmp one two
	hash=$("$SIM" 7 | sed -n 's/^ok seed 7.*trace //p')
	[ -n "$hash" ]
	[ "$("$SIM" 5 6 7 | sed -n 's/^ok seed 7.*trace //p')" = "$hash" ]
}

@test "each rare state is counted, or named as never reached" {
	"$SIM" --states 7 >out
	cat out
	[ "$(grep -c -E '^ +([0-9]+|never)  ' out)" -eq "$(grep -c '^STATE(' "$BATS_TEST_DIRNAME/sim/states.def")" ]
}
