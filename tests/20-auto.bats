#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The numbers of workers and servers are chosen by pskit: "auto" in the cluster file.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_dir
	RUN=lin.run
	# A directory of its own shows that trials leave nothing behind.
	export TMPDIR=$T/tmp
	mkdir "$TMPDIR"
}
teardown() { teardown_dir; }

auto=(--set workers=auto --set servers=auto)

# The numbers in the run directory, as "WORKERS SERVERS".
numbers() { jq -r '"\(.workers) \(.servers)"' lin.run/cluster.json; }

no_trials() { [ -z "$(ls -A "$TMPDIR")" ]; }

trial_exists() { compgen -G "$TMPDIR/pskit-trial-*/trial.run" >/dev/null; }

# Skip a test of trials on one processor, where there are none.
need_two_processors() { [ "$(nproc)" -ge 2 ] || skip "one usable processor"; }

@test "one processor has one worker and one server, without a trial" {
	write_cluster 2
	taskset -c "$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')" ps-ctl run lin "${auto[@]}" 2>err
	grep "1 worker and 1 server by the rule of thumb: this host has one usable processor" err
	[ "$(numbers)" = "1 1" ]
	no_trials
}

@test "a short job gets the rule of thumb" {
	need_two_processors
	write_cluster 2
	ps-ctl run lin "${auto[@]}" 2>err
	grep "by the rule of thumb: the job is too short to measure; a step has the batches of" err
	[ "$(numbers | cut -d' ' -f1)" -ge 2 ]
	ps-ctl run lin "${auto[@]}" --set epochs=1000000000 --set steps=20 2>err
	grep "by the rule of thumb: the job is too short" err
	no_trials
}

@test "a long job is measured, and its run directory has numbers" {
	need_two_processors
	endless
	background ps-ctl run lin "${auto[@]}"
	wait_for 20 step_is_past 1
	grep -E "^ps-ctl: [0-9]+ workers? and [0-9]+ servers?: [0-9.]+[kMG]? examples/s" err
	[[ $(numbers) =~ ^[0-9]+\ [0-9]+$ ]]
	no_trials
	ps-ctl -C lin.run stop --discard
	finish
}

@test "a number that is given stays" {
	need_two_processors
	write_cluster 2
	ps-ctl run lin --set servers=2 --set workers=auto 2>err
	grep "and 2 servers by the rule of thumb" err
	[ "$(numbers | cut -d' ' -f2)" = 2 ]
	ps-ctl run lin --set servers=auto --set workers=1:3 2>err
	[ "$(numbers | cut -d' ' -f1)" = 1:3 ]
}

@test "a signal during the trials leaves nothing behind" {
	need_two_processors
	endless
	background ps-ctl run lin "${auto[@]}"
	wait_for 20 trial_exists
	kill -TERM "$pid"
	finish
	[ "$status" = 143 ]
	no_trials
	none_left "$TMPDIR"
	[ ! -e lin.run ]
}

@test "a job that cannot begin reports its own error" {
	need_two_processors
	endless
	printf 'x,y\n1,one\n' >train.csv
	run ! ps-ctl run lin "${auto[@]}"
	[[ $output == *"by the rule of thumb: a trial failed: "* ]]
	[[ $output == *train.csv* ]]
	no_trials
}

@test "a run that is resumed keeps its numbers" {
	endless
	ps-ctl start lin --set workers=3 --set servers=2
	wait_for 20 step_is_past 3
	ps-ctl -C lin.run stop
	ps-ctl start lin "${auto[@]}" --resume auto 2>err
	[ "$(numbers)" = "3 2" ]
	run ! grep -E "rule of thumb|examples/s" err
	ps-ctl -C lin.run stop --discard
}

@test "auto is refused where several hosts would read it" {
	write_cluster 2
	run -78 ps-ctl start lin --set servers=auto --emit mpirun
	[[ $output == *"servers: auto cannot be used with --emit; give a number"* ]]
	run -78 ps-ctl launch --file lin --set servers=auto --rank 0 --world-size 3 --run-id a
	[[ $output == *"servers: auto may differ between the hosts of the ranks; give a number"* ]]
	[ ! -e lin.run ]
}

@test "auto is refused with hosts, with deterministic, and for a job that runs" {
	write_cluster 2
	run -78 ps-ctl run lin "${auto[@]}" --set hosts=localhost,127.0.0.1
	[[ $output == *"workers: auto cannot be used with hosts; give a number"* ]]
	run -78 ps-ctl run lin "${auto[@]}" --set deterministic=true
	[[ $output == *"workers: must be a number when deterministic"* ]]
	endless
	ps-ctl start lin
	run -78 ps-ctl -C lin.run set workers=auto
	[[ $output == *'workers: must be a number, as "4"'* ]]
	ps-ctl -C lin.run stop --discard
}
