#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# ps-ctl sweep --slurm: the points are array tasks, on two nodes which are both this host.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training
load lib/slurm

setup() {
	setup_training
	write_cluster 4
}

teardown() {
	[ -z "${SLURM_CONF:-}" ] || timeout 10 scancel -f -s KILL --me 2>/dev/null || true
	teardown_dir
}

# Small jobs: one server and one worker, and the same bits wherever they run.
small=(--set workers=1 --set deterministic=true --set checkpoint_every=20)
# 20 points.
points=(--grid lr=0.001,0.01,0.03,0.1,0.3 --grid batch=16,32 --grid l2=0,0.01)

# The best point of a sweep's output in JSON, and the digests of all of its points, sorted.
best() { jq -cS 'select(.kind == "sweep") | .best.settings // .best' "$1"; }
digests() { for run in "$1"/*.run; do jq -r .model_digest "$run/result.json"; done | sort; }
queued() { squeue --me -h -r -o '%F_%K' | sort; }
tasks() { cat lin.sweep/*.task 2>/dev/null | wc -l; }
results() { ls lin.sweep/*.run/result.json 2>/dev/null | wc -l; }

# The names of the points whose tasks run on node $1.
points_of() {
	local task
	for task in $(squeue --me -h -r -t RUNNING -w "$1" -o '%F_%K'); do
		basename "$(grep -lx "$task" lin.sweep/*.task)" .task
	done
}
# True when points train on node $1, and each has saved a checkpoint.
have_saved() {
	local name names
	names=$(points_of "$1") && [ -n "$names" ] || return 1
	for name in $names; do
		ls "lin.sweep/$name.run"/checkpoints/*/MANIFEST.json >/dev/null 2>&1 || return 1
	done
}

# lose_node n1: kill its slurmd, the daemons of its tasks, which would report the end, and all processes of the tasks, at
# once; and Slurm learns that the node is down.
lose_node() {
	local file pid parent daemons=() processes=()
	for file in $(grep -lzs "^SLURMD_NODENAME=$1\$" /proc/[0-9]*/environ); do
		grep -qzs "^SLURM_CONF=$SLURM_CONF\$" "$file" || continue
		pid=${file#/proc/} pid=${pid%/environ}
		parent=$(ps -o ppid= -p "$pid" | tr -d ' ')
		[ "$(cat "/proc/$parent/comm" 2>/dev/null)" != slurmstepd ] || daemons+=("$parent")
		processes+=("$pid")
	done
	[ "${#daemons[@]}" -gt 0 ]
	# slurm: slurmctld, slurmd of n0, slurmd of n1 (tests/lib/slurm.bash).
	kill -9 "${slurm[-1]}" "${daemons[@]}" "${processes[@]}" 2>/dev/null || true
	scontrol update nodename="$1" state=down reason=lost
}

@test "by Slurm as on this host; a sweep that is killed finds its tasks again; told to stop it ends them" {
	slurm_start
	ps-ctl sweep lin.json "${small[@]}" --grid lr=0.01,0.1 --output here --json >here.out
	ps-ctl sweep lin.json "${small[@]}" --grid lr=0.01,0.1 --slurm --json >out 2>err || { cat err lin.sweep/*.log; false; }
	[ "$(best out)" = "$(best here.out)" ]
	[ "$(digests lin.sweep)" = "$(digests here)" ]
	[ "$(tasks)" -eq 0 ]
	[ -z "$(queued)" ]
	# The same array for both.
	[ "$(ls lin.sweep/slurm-*_0.log lin.sweep/slurm-*_1.log | sed 's/_[01][.]log//' | sort -u | wc -l)" -eq 1 ]
	# Nothing is left to do.
	ps-ctl sweep lin.json "${small[@]}" --grid lr=0.01,0.1 --slurm --json >again
	[ "$(jq -c 'select(.kind == "point") | .result.model_digest' again | sort)" = "$(jq -c 'select(.kind == "point") | .result.model_digest' out | sort)" ]
	# Runs that last.
	rm -rf lin.sweep
	long=("${small[@]}" --set epochs=1000000 --set quota_pushes=80 --grid lr=0.01,0.1)
	background ps-ctl sweep lin.json "${long[@]}" --slurm
	wait_for 30 eval '[ "$(ls lin.sweep/*.run/checkpoints/*/MANIFEST.json 2>/dev/null | cut -d/ -f2 | sort -u | wc -l)" -eq 2 ]'
	was=$(queued)
	kill -9 "$pid"
	wait "$pid" 2>/dev/null || true
	background ps-ctl sweep lin.json "${long[@]}" --slurm
	wait_for 10 grep -q 'still runs' err
	[ "$(queued)" = "$was" ]
	kill -TERM "$pid"
	finish
	[ "$status" -eq 75 ]
	[ -z "$(queued)" ]
	[ "$(jq -r .state lin.sweep/*.run/result.json | sort -u)" = stopped ]
	[ ! -e lin.sweep/*.run.1 ]
}

@test "without Slurm it says so" {
	PATH=$BIN:/nowhere run -4 "$BIN/ps-ctl" sweep lin.json --grid lr=0.1 --slurm
	[[ $output == *"cannot run squeue"* ]]
}

# bats test_tags=slow
@test "20 points on two nodes, a node lost in the middle: the best point of one host, and nothing is trained twice" {
	SLURM_SHARED=yes slurm_start
	write_cluster 20
	ps-ctl sweep lin.json "${small[@]}" "${points[@]}" --output here --json >here.out
	background ps-ctl sweep lin.json "${small[@]}" "${points[@]}" --set quota_pushes=60 --slurm --json
	wait_for 120 eval '[ "$(results)" -ge 5 ] && have_saved n1'
	lost=$(points_of n1)
	lose_node n1
	# What had not ended by then.
	lost=$(for name in $lost; do grep -qs '"state":"done"' "lin.sweep/$name.run/result.json" || echo "$name"; done)
	finish
	[ "$status" -eq 0 ] || { cat err; jq -c 'select(.kind == "point" and .state != "done")' out; false; }
	[ "$(best out)" = "$(best here.out)" ]
	[ "$(digests lin.sweep)" = "$(digests here)" ]
	# Every point has one run, none began anew, and the tasks of the lost node were queued again.
	[ "$(ls -d lin.sweep/*.run | wc -l)" -eq 20 ]
	run ! ls -d lin.sweep/*.run.1
	for name in $lost; do
		grep -q 'resuming from' "lin.sweep/$name.run"/*.log
	done
	[ -n "$lost" ]
	figure "$(wc -w <<<"$lost") points lost their node and resumed from checkpoints"
}

# bats test_tags=slow
@test "ASHA over array tasks: no rung twice, and the best point is that of one run" {
	SLURM_SHARED=yes slurm_start
	write_cluster 100
	ps-ctl sweep lin.json "${small[@]}" --grid lr=0.0001,0.001,0.01,0.1 --asha min=40,max=360 --slurm --json >out 2>err ||
		{ cat err lin.sweep/*.log; false; }
	# The order of the ends decides which others are promoted, but the best one always is.
	jq -es 'map(select(.kind == "point")) | all(.result.steps == .rung_steps) and
		(map("\(.settings["job.lr"]):\(.rung)") | length == (unique | length)) and
		(map(select(.settings["job.lr"] == 0.1).rung) | sort == [0, 1, 2])' out
	[ "$(best out)" = '{"job.lr":0.1}' ]
	want=$(ps-ctl run lin.json "${small[@]}" --set epochs=0 --set steps=360 --set lr=0.1 --set name=alone --json 2>/dev/null | field model_digest)
	[ "$(jq -r .model_digest lin.sweep/lr-0.1_rung-2.run/result.json)" = "$want" ]
	run ! ls -d lin.sweep/*.run.1
}
