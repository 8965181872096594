#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# ps-ctl plan: what it says, in which form, and what it refuses.  Costs are given, so
# that what comes out is known; how near to the truth it comes is tests/bench/plan.

bats_require_minimum_version 1.5.0
load lib/helper

GIVEN=(--params 1M --compute 100ms --cost sum=0ns --cost update=0ns --cost answer=0ns --cost seal=0ns --cost send=0ns
	--cost take=0ns --cost message=0ns --cost hop=0ns --cost rule=0ns --cost copy=0ns)

setup() {
	setup_dir
	cat >c.json <<-'END'
	{ "servers": 2, "workers": 4, "job": { "model": "softmax", "lr": 0.1, "data": "nowhere", "steps": 100, "batch": 32, "optimizer": "sgd" } }
	END
	{ echo x1,x2,y; for i in $(seq 200); do echo "$((i % 7)),$((i % 5)),$((i % 2))"; done; } >train.csv
	cat >small.json <<-'END'
	{ "workers": 2, "job": { "model": "logistic", "optimizer": "sgd", "lr": 0.1, "data": "train.csv?label=y&scale=none", "steps": 50, "batch": 16 } }
	END
}

teardown() {
	teardown_dir
}

# plan [options]: the objects in plan.jsonl.
plan() {
	ps-ctl plan c "${GIVEN[@]}" --json "$@" >plan.jsonl
}

# Of the plan itself: is FILTER true?
holds() {
	jq -e "select(.kind == \"plan\") | $1" plan.jsonl >/dev/null || { echo "not so: $1"; head -1 plan.jsonl; return 1; }
}

near() {
	holds "($1) as \$x | ($2) as \$y | (\$x - \$y | fabs) <= $3 * \$y"
}

@test "a step is what links and computation make it" {
	# 4 MB each way, halves over two servers; 100 Mbit/s are 12.5 MB/s.
	plan --workers 1 --net 100M --rtt 20ms --server-net 10G --alone
	near .step_seconds '0.1 + 2 * 4e6 / 12.5e6 + 0.02' 0.02
	near .pushed_bytes 4e6 0.01
	holds '.servers == 2 and .workers == 1 and .costs.batch == 0.1'
	holds '.bottleneck == "workers'"'"' links twice as fast" and .relieved_step_seconds < .step_seconds'
	# The servers' links, each shared by four.
	plan --net 10G --server-net 100M --alone
	near .step_seconds '0.1 + 2 * 4 * 2e6 / 12.5e6' 0.05
	# Up and down as a worker sees them.
	plan --workers 1 --net 10M/100M --server-net 10G --alone
	near .push_seconds '4e6 / 1.25e6' 0.02
	# The parts make the whole.
	near '.compute_seconds + .push_seconds + .wait_seconds + .pull_seconds' .step_seconds 0.02
}

@test "all on one host share its cores; slow workers hold bsp up" {
	plan --cores 2 --alone
	near .step_seconds 0.2 0.01
	holds '.host_cpu_share > 0.99'
	plan --cores 0 --slow 1x3 --alone
	near .step_seconds 0.3 0.01
	plan --cores 0 --compute 100ms,5%x7 --alone --steps 500
	near .step_seconds '0.1 + 0.6 * (1 - pow(0.95; 4))' 0.1
}

@test "equal seeds, equal plans" {
	ps-ctl plan c "${GIVEN[@]}" --params 50K --compute 10ms,20%x5 --net 1G --json --alone | jq 'del(.ts, .costs)' >a
	ps-ctl plan c "${GIVEN[@]}" --params 50K --compute 10ms,20%x5 --net 1G --json --alone | jq 'del(.ts, .costs)' >b
	cmp a b
	ps-ctl plan c "${GIVEN[@]}" --params 50K --compute 10ms,20%x5 --net 1G --json --alone --seed 7 | jq 'del(.ts, .costs)' >b
	! cmp -s a b
}

# bats test_tags=slow
@test "a cluster would start with each alternative" {
	plan --net 100M --rtt 10ms
	touch nowhere
	jq -r 'select(.kind == "alternative") | .set' plan.jsonl | while read -r set; do
		# shellcheck disable=SC2086
		ps-ctl plan c "${GIVEN[@]}" --params 100K --net 100M --alone $set >/dev/null
	done
}

# bats test_tags=slow
@test "alternatives are sorted by time, and only those that a cluster can run are offered" {
	# What is not given is measured, and takes less time with fewer parameters.
	plan --params 50K --net 100M --rtt 10ms
	jq -se '[.[] | select(.kind == "alternative") | .seconds] | length > 8 and . == sort' plan.jsonl
	jq -se 'map(select(.kind == "alternative" and .set == "")) | length == 1' plan.jsonl
	jq -se 'all(.v == 1 and (.ts | length > 0))' plan.jsonl
	# What the file's own keys exclude is not offered.
	plan --params 50K --net 100M --set deterministic=true --set on_worker_loss=wait:10s
	! jq -r .set plan.jsonl | grep -E 'codec=|sync=|backup='
	# Nor what is more than servers may use: twice as many servers have half of the tables.
	plan --params 100M --set mem_limit=900M
	! jq -r .set plan.jsonl | grep -x -e '--set servers=1'
	run -0 --separate-stderr ps-ctl plan c "${GIVEN[@]}" --params 100M --set mem_limit=500M --alone
	[[ "$output" == *"more than mem_limit"* ]]
	# Nor what cannot be simulated, which is no reason to say nothing of the others.
	plan --net 100M --cost rule=1000s
	jq -se 'map(select(.kind == "alternative")) | length > 5 and all(.set | contains("local_steps") | not)' plan.jsonl
	# On a slow link a codec wins over float32, and says so.
	plan --net 10M
	jq -se 'map(select(.kind == "alternative")) | (map(select(.set | contains("codec=int8")))[0].seconds) < (map(select(.set == ""))[0].seconds)' plan.jsonl
}

@test "for people: parts, limit, memory, costs, accuracy, table" {
	run -0 --separate-stderr ps-ctl plan c "${GIVEN[@]}" --params 50K --net 100M --examples 91M --example-bytes 110000
	for word in "2 servers, 4 workers, bsp, codec raw, batch 32: a step takes" "  compute " "  push " "  wait " "  pull " "idle " "bytes " \
		"memory " "limit " "91.0M examples of 110000 bytes, 10.0TB; each worker reads" "batch 100 ms (given)" "accuracy " \
		"unchanged" "--set sync=asp" "Equal examples are not equal losses"; do
		[[ "$output" == *"$word"* ]] || { echo "no: $word"; echo "$output"; false; }
	done
	run -0 --separate-stderr ps-ctl plan c "${GIVEN[@]}" --params 50K --alone
	[[ "$output" != *"unchanged"* ]]
}

# bats test_tags=slow
@test "costs are measured where they are not given, by the job's own data" {
	run -0 --separate-stderr ps-ctl plan small --json --alone
	jq -e '.costs | .batch > 0 and .sum > 0 and .send > 0 and .take > 0 and .message > 0 and .crowded >= 1' <<<"$output"
	jq -e '.step_seconds > 0 and .step_seconds < 1' <<<"$output"
	# Rows of sparse tables: bytes by what a batch touches.
	for i in $(seq 300); do echo "$((i % 2)) $((i % 50 + 1)):1 $((i % 90 + 100)):1"; done >train.libsvm
	run -0 --separate-stderr ps-ctl plan small --set data=train.libsvm --json --alone
	jq -e '.costs.row_sum > 0 and .costs.row_answer > 0 and .pushed_bytes < 4000 and .pushed_bytes > 300' <<<"$output"
}

@test "a cluster that runs is measured" {
	ps-ctl start small --set steps=100000000 --set quota_pushes=200 --timeout 30s
	run -0 --separate-stderr ps-ctl plan --measure --window 2s --json --alone
	jq -e '.measured_step_seconds > 0 and .step_seconds > 0 and .costs.batch > 0' <<<"$output"
	ps-ctl stop >/dev/null
	run -3 --separate-stderr ps-ctl plan --measure
}

@test "what it cannot do is said" {
	refused() {
		local code=$1 word=$2
		shift 2
		run "-$code" --separate-stderr ps-ctl plan "$@"
		[ -z "$output" ] && [[ "$stderr" == *"$word"* ]] || { echo "$stderr"; false; }
	}
	refused 2 "give a cluster file"
	refused 4 "no such cluster file" nothing
	refused 78 "--params N --compute TIME" c
	refused 2 "requires --compute" c --params 1M
	refused 2 "must be bits a second" c "${GIVEN[@]}" --net fast
	refused 2 "must be bits a second" c "${GIVEN[@]}" --net 1G/
	refused 2 "must be a time" c --params 1M --compute soon
	refused 2 "must be a time" c --params 1M --compute 50ms,5
	refused 2 "a number of workers" c "${GIVEN[@]}" --slow 3
	refused 2 "did you mean \"send\"" c "${GIVEN[@]}" --cost sned=1ns
	refused 2 "must be a time" c "${GIVEN[@]}" --cost send=1
	refused 2 "must be a time" c "${GIVEN[@]}" --cost send
	refused 2 "unknown cost" c "${GIVEN[@]}" --cost =1ns
	for wrong in s -1ns 1e9s nans 1e400ns ""; do
		refused 2 "must be a time" c "${GIVEN[@]}" --cost send="$wrong"
	done
	for wrong in 0.5 1e4 nan 1ns ""; do
		refused 2 "must be a factor from 1" c "${GIVEN[@]}" --cost crowded="$wrong"
	done
	refused 2 "must be bits a second" c "${GIVEN[@]}" --net 1e-300
	refused 2 "must be a time" c --params 1M --compute 50ms,5%x1e300
	refused 2 "a number of workers" c "${GIVEN[@]}" --slow 1x1e300
	refused 2 "must be a number" c --params many --compute 1s
	refused 2 "must be a number" c --params 900P --compute 1s
	refused 2 "plans for the running cluster" c --measure
	refused 2 "can only be used with --measure" c "${GIVEN[@]}" --window 2s
	refused 2 "it requires --cores above 0" c "${GIVEN[@]}" --net 1G --proxied 1
	refused 78 "backup: must be less" c "${GIVEN[@]}" --set backup=4
	refused 78 "exceed the limit of the simulation" c "${GIVEN[@]}" --workers 4096 --servers 100 --alone
	echo '{ "servers": 1 }' >bare.json
	refused 78 "a plan requires the key job" bare
	refused 4 "no cluster here" --measure
}
