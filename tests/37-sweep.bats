#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Many runs of one cluster file: all combinations, taken up again, and ended cleanly.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() { setup_training; }
teardown() { teardown_dir; }

sweep() { ps-ctl sweep lin.json "$@"; }
# How many of the sweep's clusters train now.
training() {
	local run n=0
	for run in lin.sweep/*.run; do
		RUN=$run
		! step_is_past 0 || n=$((n + 1))
	done
	[ "$n" -eq "$1" ]
}
# Two of its runs have a checkpoint.
checkpointed() { [ "$(ls lin.sweep/*.run/checkpoints/*/MANIFEST.json 2>/dev/null | cut -d/ -f2 | sort -u | wc -l)" -ge 2 ]; }

@test "all combinations, the best one first; what is done is not run again" {
	write_cluster 20
	sweep --grid lr=0.3,0.0001 --grid sync=bsp,ssp:3 -j 2 --json >out
	[ "$(jq -r .kind out | sort | uniq -c | xargs)" = "4 point 1 sweep" ]
	[ "$(jq -c 'select(.kind == "point") | .settings' out | sort)" = '{"job.lr":0.0001,"sync":"bsp"}
{"job.lr":0.0001,"sync":"ssp:3"}
{"job.lr":0.3,"sync":"bsp"}
{"job.lr":0.3,"sync":"ssp:3"}' ]
	[ "$(jq -r 'select(.kind == "point") | .state, .kept, .result.state' out | sort | uniq -c | xargs)" = "8 done 4 false" ]
	[ "$(tail -n 1 out | jq -r '.best["job.lr"], .done, .failed' | xargs)" = "0.3 4 0" ]
	# The losses go up.
	[ "$(tail -n 1 out | jq -r '.runs[]' | while read -r run; do jq .eval.loss "$run/result.json"; done | jq -s '. == sort')" = true ]
	before=$(stat -c %Y.%i lin.sweep/*.run/result.json)
	run -0 --separate-stderr sweep --grid lr=0.3,0.0001 --grid sync=bsp,ssp:3
	[ "$(stat -c %Y.%i lin.sweep/*.run/result.json)" = "$before" ]
	[ "$(grep -c 'done before' <<<"$stderr")" -eq 4 ]
	[ "${#lines[@]}" -eq 5 ]
	[[ ${lines[0]} =~ ^job.lr\ +sync\ +state\ +eval.loss ]]
	[[ ${lines[1]} =~ ^\ *0.3\ .*\ done ]]
	# One value more is one run more; the order of values is of no account.
	run -0 --separate-stderr sweep --grid lr=0.1,0.3 --grid sync=bsp
	[ "$(grep -c ': begins' <<<"$stderr")" -eq 1 ]
	none_left "$T"
}

@test "values with commas, and what is wrong with a grid" {
	cat >net.json <<-END
	{ "workers": 1, "job": { "model": "mlp", "optimizer": "sgd", "hidden": [4], "data": "a.csv?label=y", "steps": 5, "lr": 0.01 } }
	END
	awk 'BEGIN { srand(3); print "a,b,y"; for (i = 0; i < 60; i++) print rand() "," rand() "," i % 2 }' >a.csv
	cp a.csv b.csv
	cp a.csv c,d.csv
	data='a.csv?label=y\,b.csv?label=y,["c,d.csv?label=y"]'
	ps-ctl sweep net --grid 'hidden=[4],[4,3]' --grid "data=$data" --json >out
	[ "$(jq -c 'select(.kind == "point") | .settings["job.hidden"]' out | xargs)" = "[4] [4] [4,3] [4,3]" ]
	[ "$(jq -r 'select(.kind == "point") | .settings["job.data"] | length' out | xargs)" = "2 1 2 1" ]
	[ "$(jq -r 'select(.kind == "point") | .result.state' out | xargs)" = "done done done done" ]
	write_cluster 2
	run -2 sweep
	[[ $output == *"--grid KEY=VALUE"* ]]
	run -2 sweep --grid lr
	run -2 sweep --grid lr=1,,2
	[[ $output == *"empty value"* ]]
	run -2 sweep --grid lr=1,1
	run -2 sweep --grid lr=0.3,0.30
	[[ $output == *"are the same"* ]]
	run -2 sweep --grid lr=1 --grid lr=2
	run -78 sweep --grid lrr=1
	[[ $output == *'did you mean "lr"'* ]]
	run -4 ps-ctl sweep nothing --grid lr=1
	run -78 sweep --grid epochs=1 --set workers=1 --set "data=-?format=csv&label=y"
	[[ $output == *"standard input"* ]]
	printf '{ "servers": 1 }' >none.json
	run -78 ps-ctl sweep none --grid servers=1,2
	# Another base is another sweep.
	sweep --grid lr=0.3 >/dev/null
	run -78 sweep --grid lr=0.3 --set batch=8
	[[ $output == *"other values of job.batch"* ]]
	run -0 sweep --grid lr=0.3 --set batch=8 --output other
	none_left "$T"
}

@test "a run that fails is told of, and the others go on" {
	write_cluster 20
	run -1 --separate-stderr sweep --grid lr=1e30,0.3 --grid sync=bsp,asp --grid backup=0,1 --json
	[ "$(jq -c 'select(.kind == "point" and .state == "done") | .settings | [.["job.lr"], .sync, .backup]' <<<"$output" | xargs)" = \
		"[0.3,bsp,0] [0.3,bsp,1] [0.3,asp,0]" ]
	[ "$(tail -n 1 <<<"$output" | jq -r .state)" = failed ]
	# What cannot be is said before, and why; so is what goes wrong.
	[ "$(jq -r 'select(.settings.sync == "asp" and .settings.backup == 1) | .result' <<<"$output" | sort -u)" = null ]
	[[ $(jq -r 'select(.settings.sync == "asp" and .settings.backup == 1) | .reason' <<<"$output") == *"backup: 1 is for sync bsp"* ]]
	[[ $(jq -r 'select(.settings["job.lr"] == 1e30 and .settings.backup == 0) | .reason' <<<"$output") == *"loss is"* ]]
	none_left "$T"
}

@test "a signal ends all with a checkpoint; killed outright it leaves nothing running; both go on" {
	endless
	background ps-ctl sweep lin.json --grid lr=0.001,0.002,0.003 -j 2 --set checkpoint_every=200
	wait_for 20 training 2
	run -1 sweep --grid lr=0.001
	[[ $output == *"another ps-ctl sweep is at work"* ]]
	wait_for 20 checkpointed
	kill -9 "$pid"
	finish
	[ "$status" -eq 137 ]
	wait_for 10 none_left "$T"
	background ps-ctl sweep lin.json --grid lr=0.001,0.002,0.003 -j 2 --set checkpoint_every=200 --json
	wait_for 20 training 2
	kill -INT "$pid"
	finish
	[ "$status" -eq 75 ]
	none_left "$T"
	[ "$(tail -n 1 out | jq -r '.state, .done' | xargs)" = "stopped 0" ]
	[ "$(jq -r 'select(.kind == "point") | .state' out | sort | uniq -c | xargs)" = "2 stopped" ]
	for run in lin.sweep/*.run; do
		[ "$(jq -r .state "$run/result.json")" = stopped ]
		grep -q 'going on from' "$run"/server-0.log
	done
	[ ! -e lin.sweep/*.run.1 ]
	# At once.
	background ps-ctl sweep lin.json --grid lr=0.001,0.002 -j 2 --set checkpoint_every=200
	wait_for 20 training 2
	kill -TERM "$pid"
	kill -TERM "$pid"
	finish
	[ "$status" -eq 75 ]
	none_left "$T"
}
