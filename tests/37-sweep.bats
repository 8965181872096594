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
	best=$(tail -n 1 out | jq -r .command)
	[[ $best =~ ^ps-ctl\ run\ lin.json\ --set\ lr=0.3\ --set\ sync=(bsp|ssp:3)$ ]]
	before=$(stat -c %Y.%i lin.sweep/*.run/result.json)
	run -0 --separate-stderr sweep --grid lr=0.3,0.0001 --grid sync=bsp,ssp:3
	[ "$(stat -c %Y.%i lin.sweep/*.run/result.json)" = "$before" ]
	[ "$(grep -c 'done before' <<<"$stderr")" -eq 4 ]
	# All points train the same, which is said once.
	[ "$(grep '^job: ' <<<"$stderr")" = "job: $(jq -r .job lin.sweep/lr-0.3_sync-bsp.run/result.json)" ]
	[[ $stderr == *"job: "*" (job.model) predicts "*" from "*" (job.data: "* ]]
	[[ $stderr == *"the best point alone: $best" ]]
	[ "${#lines[@]}" -eq 5 ]
	[[ ${lines[0]} =~ ^job.lr\ +sync\ +state\ +eval.loss ]]
	[[ ${lines[1]} =~ ^\ *0.3\ .*\ done ]]
	# One value more is one run more; the order of values is of no account.
	run -0 --separate-stderr sweep --grid lr=0.1,0.3 --grid sync=bsp
	[ "$(grep -c ': starts' <<<"$stderr")" -eq 1 ]
	# The best point by itself, in the run directory of the cluster file.
	ps-ctl run --best lin.sweep --set epochs=0 --set steps=1 >/dev/null
	[ "$(jq -c '[.job.lr, .job.steps]' lin.run/cluster.json)" = '[0.3,1]' ]
	run -4 ps-ctl run --best lin.run
	[[ $output == *"has no best.json: give the folder of a sweep"* ]]
	run -2 ps-ctl run lin.json --best lin.sweep
	none_left "$T"
}

@test "values with commas, and what is wrong with a grid" {
	cat >net.json <<-END
	{ "workers": 1, "job": { "model": "mlp", "optimizer": "sgd", "hidden": [4], "data": "a.csv?label=y&scale=none", "steps": 5, "lr": 0.01 } }
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
	[[ $output == *"a value is empty"* ]]
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
	run -1 --separate-stderr sweep --grid lr=1e30,0.3 --grid sync=bsp,asp --grid backup=0,1 --set factors=4 --json
	# What would else be in the logs of the runs alone.
	[[ $stderr == *"ps-ctl: job.factors is set, but changes nothing: model linear has no vectors of features (6 of 8 points)"* ]]
	[ "$(grep -c 'changes nothing' <<<"$stderr")" -eq 1 ]
	[ "$(jq -c 'select(.kind == "point" and .state == "done") | .settings | [.["job.lr"], .sync, .backup]' <<<"$output" | xargs)" = \
		"[0.3,bsp,0] [0.3,bsp,1] [0.3,asp,0]" ]
	[ "$(tail -n 1 <<<"$output" | jq -r .state)" = failed ]
	# What cannot be is said before, and why; so is what goes wrong.
	[ "$(jq -r 'select(.settings.sync == "asp" and .settings.backup == 1) | .result' <<<"$output" | sort -u)" = null ]
	[[ $(jq -r 'select(.settings.sync == "asp" and .settings.backup == 1) | .reason' <<<"$output") == *"backup: 1 requires sync bsp"* ]]
	[[ $(jq -r 'select(.settings["job.lr"] == 1e30 and .settings.backup == 0) | .reason' <<<"$output") == *"loss is"* ]]
	none_left "$T"
}

@test "a signal ends all with a checkpoint; killed outright it leaves nothing running; both go on" {
	endless
	background ps-ctl sweep lin.json --grid lr=0.001,0.002,0.003 -j 2 --set checkpoint_every=200
	wait_for 20 training 2
	run -1 sweep --grid lr=0.001
	[[ $output == *"another ps-ctl sweep is running"* ]]
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
		grep -q 'resuming from' "$run"/server-0.log
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

# The settings and state of all points, sorted.
points() { jq -c 'select(.kind == "point") | [.settings, .state]' "$1" | sort; }
# Two of its runs have gone on from the first rung and train.
climbing() { # [STEP]
	local run n=0
	for run in lin.sweep/*_rung-1.run; do
		RUN=$run
		! step_is_past "${1:-200}" || n=$((n + 1))
	done
	[ "$n" -ge 1 ]
}

@test "random points: the same ones for a seed, more of them later; a plot of them" {
	write_cluster 2
	sweep --range lr=1e-3..1 --grid batch=16,32 --range l2=0..0.1 --random 3 --seed 5 -j 2 --json >three
	[ "$(jq -r 'select(.kind == "point") | .state' three | sort | uniq -c | xargs)" = "3 done" ]
	jq -es 'map(select(.kind == "point").settings) | all(.["job.lr"] >= 1e-3 and .["job.lr"] <= 1 and .["job.l2"] <= 0.1)' three
	# Another order of the options is of no account; the first points of a longer search are kept.
	sweep --range l2=0..0.1 --grid batch=16,32 --range lr=1e-3..1 --random 3 --seed 5 --output other --json >again
	[ "$(jq -Sc 'select(.kind == "point").settings' three | sort)" = "$(jq -Sc 'select(.kind == "point").settings' again | sort)" ]
	run -0 --separate-stderr sweep --range lr=1e-3..1 --grid batch=16,32 --range l2=0..0.1 --random 4 --seed 5 -j 2 \
		--across examples --metric rmse
	[ "$(grep -c 'done before' <<<"$stderr")" -eq 3 ]
	[ "$(grep -c ': starts' <<<"$stderr")" -eq 1 ]
	[[ $output == *" examples"*"cost of each run until rmse <= "* ]]
	# The best one by the metric is the first one.
	[ "$(sed -n '2,5p' <<<"$output" | awk '{ print $5 }')" = "$(sed -n '2,5p' <<<"$output" | awk '{ print $5 }' | sort -g)" ]
	sweep --range lr=1e-3..1 --grid batch=16,32 --range l2=0..0.1 --random 4 --seed 5 --plot plot.svg --json >out
	/usr/bin/python3 -c 'import xml.etree.ElementTree as t; assert len(list(t.parse("plot.svg").getroot().iter("{http://www.w3.org/2000/svg}path"))) == 8'
	[ "$(jq -r .kind out | sort | uniq -c | xargs)" = "4 point 1 sweep 4 target" ]
	[ "$(tail -n 1 out | jq -r .kind)" = sweep ]
	run -2 sweep --range lr=1..2
	[[ $output == *"--random N"* ]]
	run -2 sweep --range lr=2..1 --random 2
	run -2 sweep --range lr=1..2 --grid lr=1 --random 2
	run -2 sweep --grid sync=bsp,asp --random 3
	[[ $output == *"only about 2 different points"* ]]
	run -2 sweep --grid lr=1 --plot plot.png
	run -2 sweep --grid lr=1 --metric acuracy
	run -78 sweep --range lrr=1..2 --random 2
	none_left "$T"
}

@test "asha: the best of each rung go on, with the bits of a run that was never stopped" {
	write_cluster 100
	sweep --grid lr=0.0001,0.001,0.01,0.1 --asha min=40,max=360 --json >out
	# One run at a time: of the first three the best goes on at once, and then the fourth, which wins.
	[ "$(jq -r 'select(.kind == "point") | "\(.settings["job.lr"]):\(.rung)"' out | xargs)" = \
		"0.0001:0 0.001:0 0.01:0 0.01:1 0.1:0 0.1:1 0.1:2" ]
	jq -es 'map(select(.kind == "point")) | all(.result.steps == .rung_steps)' out
	[ "$(tail -n 1 out | jq -c '[.state, .pruned, .done, .failed]')" = '["done",3,1,0]' ]
	[ "$(tail -n 1 out | jq -c '[.rungs[].steps]')" = '[40,120,360]' ]
	best=$(tail -n 1 out | jq -r '.best["job.lr"]')
	train lin.json --set epochs=0 --set steps=360 --set lr="$best"
	has .model_digest "$(jq -r .model_digest "lin.sweep/lr-${best}_rung-2.run/result.json")"
	# All is kept, and shown with the rung at which each was stopped.
	run -0 --separate-stderr sweep --grid lr=0.0001,0.001,0.01,0.1 --asha min=40,max=360 -x steps
	[ "$(grep -c 'done before' <<<"$stderr")" -eq 4 ]
	[ "$(grep -c 'starts\|continues' <<<"$stderr")" -eq 0 ]
	[[ ${lines[0]} =~ ^job.lr\ +state\ +rung ]]
	[[ ${lines[1]} =~ ^\ *$best\ +done\ +2\  ]]
	[[ ${lines[4]} =~ ^\ *0.0001\ +pruned\ +0\  ]]
	[[ $output == *"rung  steps  points  failed  promoted  stopped"* ]]
	# The curve of the best one goes over all its rungs.
	[[ $output =~ a\ +lr-$best\ +$best\ +done ]]
	run -2 sweep --grid lr=1,2 --asha min=40
	[[ $output == *"no job.steps"* ]]
	run -2 sweep --grid steps=1,2 --asha min=1,max=2 --output other
	[[ $output == *"--asha sets job.steps: remove it"* ]]
	run -78 sweep --grid lr=0.0001,0.001,0.01,0.1 --asha min=50,max=360
	[[ $output == *"other values of"*"job.steps"* ]]
	none_left "$T"
}

@test "asha that was interrupted goes on at the rung where it was" {
	endless
	background ps-ctl sweep lin.json --grid lr=0.001,0.002,0.003 --asha "min=20,max=$ENDLESS,eta=$((ENDLESS / 20))" --json
	wait_for 20 climbing
	kill -INT "$pid"
	finish
	[ "$status" -eq 75 ]
	# The one that had begun the last rung keeps the result of the first.
	[ "$(jq -r 'select(.kind == "point") | "\(.state):\(.rung):\(.result.steps)"' out | xargs)" = \
		"done:0:20 done:0:20 done:0:20 stopped:1:20" ]
	[ "$(tail -n 1 out | jq -r '.state, .done, .pruned' | xargs)" = "stopped 0 0" ]
	step=$(jq .steps lin.sweep/*_rung-1.run/result.json)
	[ "$step" -gt 200 ]
	background ps-ctl sweep lin.json --grid lr=0.001,0.002,0.003 --asha "min=20,max=$ENDLESS,eta=$((ENDLESS / 20))" --json
	wait_for 20 climbing "$step"
	kill -INT "$pid"
	finish
	[ "$status" -eq 75 ]
	grep -q 'resuming from' lin.sweep/*_rung-1.run/server-0.log
	[ "$(jq .steps lin.sweep/*_rung-1.run/result.json)" -gt "$step" ]
	[ "$(jq -r 'select(.kind == "point") | "\(.state):\(.rung):\(.kept)"' out | xargs)" = "done:0:true done:0:true stopped:1:false" ]
	none_left "$T"
}

# The digests of all rungs of a sweep, by their names.
digests() {
	local run
	for run in "$1"/*.run; do
		echo "$(basename "$run") $(jq -r '"\(.state) \(.steps) \(.model_digest)"' "$run/result.json")"
	done
}
# The run of this name has begun again, and trains.
begun_again() { grep -q 'rolling back to' "lin.sweep/$1.log" && step_is_past "$2"; }
# The last of these is the best one.
ASHA=(--grid lr=0.001,0.01,0.1 --asha min=20,max=180)
# let_run_go NAME [STEP]: let the run train at full speed once it is past that step.
let_run_go() {
	RUN=$T/lin.sweep/$1.run
	wait_for 60 step_is_past "${2:-0}"
	let_go
}
# kill_server_of NAME STEP: when the run is past that step; then it begins again and is let go.
kill_server_of() {
	RUN=$T/lin.sweep/$1.run
	wait_for 60 step_is_past "$2"
	! over
	kill -9 "$(cat "$RUN/server-0.pid")"
	wait_for 60 begun_again "$1" "$2"
	let_go
}

# bats test_tags=slow
@test "asha: a rung whose server is killed before it has written a checkpoint begins again" {
	write_cluster 100
	sweep "${ASHA[@]}" --output quiet.sweep --json >/dev/null
	background ps-ctl sweep lin.json "${ASHA[@]}" --set quota_pushes=4 --json
	# One without a checkpoint, and two that have only that of the rung before.
	kill_server_of lr-0.001_rung-0 1
	let_run_go lr-0.01_rung-0
	let_run_go lr-0.1_rung-0
	kill_server_of lr-0.1_rung-1 21
	kill_server_of lr-0.1_rung-2 61
	finish
	cat err
	[ "$status" -eq 0 ]
	grep -q 'rolling back to the beginning' lin.sweep/lr-0.001_rung-0.log
	grep -q 'rolling back to .*/lr-0.1_rung-0.run/checkpoints/step-000000000020' lin.sweep/lr-0.1_rung-1.log
	[ "$(digests lin.sweep)" = "$(digests quiet.sweep)" ]
	[ "$(tail -n 1 out | jq -c '[.state, .pruned, .done, .failed]')" = '["done",2,1,0]' ]
	none_left "$T"
}

# bats test_tags=slow
@test "asha: a sweep that is killed in rungs without a checkpoint begins these again" {
	write_cluster 100
	sweep "${ASHA[@]}" --output quiet.sweep --json >/dev/null
	background ps-ctl sweep lin.json "${ASHA[@]}" --set quota_pushes=4 --json
	RUN=$T/lin.sweep/lr-0.001_rung-0.run
	wait_for 60 step_is_past 1
	kill -9 "$pid"
	finish
	wait_for 20 none_left "$T"
	background ps-ctl sweep lin.json "${ASHA[@]}" --set quota_pushes=4 --json
	for lr in 0.001 0.01 0.1; do let_run_go "lr-${lr}_rung-0"; done
	RUN=$T/lin.sweep/lr-0.1_rung-1.run
	wait_for 60 step_is_past 21
	kill -9 "$pid"
	finish
	wait_for 20 none_left "$T"
	[ ! -e lin.sweep/lr-0.1_rung-1.run/checkpoints/step-* ]
	background ps-ctl sweep lin.json "${ASHA[@]}" --set quota_pushes=4 --json
	let_run_go lr-0.1_rung-1 20
	let_run_go lr-0.1_rung-2 60
	finish
	[ "$status" -eq 0 ]
	[ "$(digests lin.sweep)" = "$(digests quiet.sweep)" ]
	none_left "$T"
}
