#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Servers and workers that come and go while a job runs.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	awk 'BEGIN { srand(1); for (i = 0; i < 200; i++) { for (k = 0; k < 100; k++) printf "%.3f,", rand(); print i % 2 } }' >train.csv
	RUN=$T/c.run
}

teardown() {
	teardown_dir
}

# job STEPS [members]: c.json
job() {
	cat >c.json <<-END
	{ $(paced "$1") "servers": 2, "workers": 2, "lease": "3s", ${2:-}
	  "job": { "model": "mlp", "optimizer": "sgd", "hidden": [5000], "data": "train.csv?label=last&scale=none", "steps": $1, "batch": 8, "lr": 0.01 } }
	END
}

pid_of() { cat "$RUN/$1.pid"; }
is_gone() { ! kill -0 "$1" 2>/dev/null; }
# Partitions that each server holds: "0 8 1 9".
held() {
	http GET /v1/layout | jq -r '[.tables[].runs[] | . as $r | .[2][] | {s: ., n: $r[1]}] | group_by(.s) |
		map("\(.[0].s) \(map(.n) | add)") | join(" ")'
}

@test "scale: servers and workers, up and down, while training goes on" {
	job $ENDLESS
	begin c.json
	wait_for 20 step_is_past 20
	ps-ctl scale servers=4 workers=3 2>err
	[ ! -s err ]
	[ "$(status '[.servers, .workers, .servers_wanted, .workers_wanted, .partitions_moving] | join(" ")')" = "4 3 4 3 0" ]
	[ "$(held | wc -w)" -eq 8 ]
	steps_on
	leaving=$(pid_of server-3) worker=$(worker 2 .pid)
	ps-ctl scale servers=2
	ps-ctl scale workers=1
	[ "$(status '[.servers, .workers] | join(" ")')" = "2 1" ]
	[ "$(held | wc -w)" -eq 4 ]
	wait_for 10 is_gone "$leaving"
	wait_for 10 is_gone "$worker"
	steps_on
	[ "$(status .state)" = running ]
	[ "$(http GET /v1/events | jq '[.events[] | select(.event | test("lost|failover"))] | length')" -eq 0 ]
	ps-ctl stop >/dev/null
	none_left "$T"
}

@test "a server that is told to end hands its partitions over first, however long that takes" {
	job $ENDLESS '"net": "servers:2M",'
	begin c.json
	wait_for 20 step_is_past 10
	leaving=$(pid_of server-1) began=$SECONDS
	kill -TERM "$leaving"
	wait_for 60 is_gone "$leaving"
	# Longer than a server waits for a coordinator that is gone.
	[ $((SECONDS - began)) -gt 3 ]
	[ "$(status '[.state, .servers] | join(" ")')" = "running 1" ]
	[ "$(http GET /v1/events | jq '[.events[] | select(.event | test("lost|failover"))] | length')" -eq 0 ]
	steps_on
	ps-ctl stop >/dev/null
	none_left "$T"
}

@test "scale: nobody waits a second for it" {
	job $ENDLESS
	begin c.json --set hidden=10000 --set quota_pushes=0
	wait_for 20 step_is_past 20
	(while sleep 0.05; do http GET '/v1/workers' | jq -c '[.ts // now, .workers[0].step]'; done >steps.txt) 3>&- &
	watcher=$!
	pids+=($!)
	for servers in 4 2 4 2; do
		ps-ctl scale servers=$servers
		steps_on
	done
	# A sample takes long on a busy machine.
	wait_for 20 eval '[ "$(wc -l <steps.txt)" -gt 5 ]'
	kill "$watcher"
	# The longest time in which the step of worker-0 did not change, in samples of 50 ms.
	still=$(awk -F'[],]' '{ if ($2 == last) n++; else n = 0; if (n > m) m = n; last = $2 } END { print m + 0 }' steps.txt)
	figure "worker-0 stood still for $((still * 50)) ms at most, of $(wc -l <steps.txt) samples"
	within=20
	[ -z "${PS_SANITIZED:-}" ] || within=100
	[ "$still" -lt $within ]
	ps-ctl stop >/dev/null
}

@test "scale: what is refused" {
	job $ENDLESS '"replicas": 2,'
	begin c.json --set workers=2:3
	wait_for 20 step_is_past 20
	for wrong in servers=0 workers=0 workers=1 workers=4 servers=2000 servers=x shards=2; do
		run -2 --separate-stderr ps-ctl scale $wrong
		echo "$wrong: $stderr"
		[ -n "$stderr" ]
	done
	run ps-ctl drain server-9
	[ "$status" -ne 0 ]
	echo "$output"
	[ "$(status .servers)" -eq 2 ]
	ps-ctl stop >/dev/null
	run -3 ps-ctl scale servers=3
	run -3 ps-ctl drain server-1
}

@test "drain: a server gives up what it holds and leaves; deterministic: the same bits" {
	need_data digits8x8/digits.csv.gz
	cat >c.json <<-END
	{ "servers": 3, "workers": 2, "deterministic": true, "on_worker_loss": "wait:10m",
	  "job": { "model": "mlp", "hidden": [32], "data": "$DATA/digits8x8/digits.csv.gz?label=last&scale=none", "steps": 1000,
	  "batch": 8, "optimizer": "adam", "lr": 0.001 } }
	END
	want=$(ps-ctl run c.json --set name=u --json 2>/dev/null | field model_digest)
	begin c.json "${HELD[@]}"
	wait_for 20 step_is_past 10
	server=$(pid_of server-1)
	ps-ctl drain server-1
	[[ " $(held) " != *" 1 "* ]] || [ "$(held | wc -w)" -eq 4 ]
	wait_for 10 is_gone "$server"
	grep -q 'all partitions have moved to other servers: leaving' "$RUN/server-1.log"
	[ "$(status .servers)" -eq 2 ]
	let_go
	wait_for 60 over
	[ "$(http GET /v1/result | field model_digest)" = "$want" ]
	ps-ctl stop >/dev/null
	none_left "$T"
}

@test "a worker by join file comes to a running job, and goes; one too many is told" {
	job $ENDLESS
	begin c.json --set workers=1:3
	wait_for 20 step_is_past 20
	was=$(status .workers)
	ps-ctl scale workers=1
	ps-ctl invite --role worker -o w.join 2>/dev/null
	ps-ctl invite --role worker -o v.join 2>/dev/null
	background ps-work train --join w.join --data 'train.csv?label=last'
	wait_for 10 eval '[ "$(status .workers)" -eq 2 ]' || { cat err; false; }
	steps_on
	kill -TERM "$pid"
	finish
	[ "$status" -eq 0 ]
	wait_for 10 eval '[ "$(status .workers)" -eq 1 ]'
	steps_on
	# Every place taken.
	ps-ctl scale workers=3
	run --separate-stderr ps-work train --join v.join --data 'train.csv?label=last'
	[ "$status" -ne 0 ]
	[[ $stderr == *'all 3 worker ranks are taken'* ]]
	ps-ctl stop >/dev/null
	none_left "$T"
}

@test "MIN:MAX: it begins with MIN, and takes the rest when they come" {
	job $ENDLESS
	background ps-serve c.json --set servers=1 --set workers=2:4
	wait_for 10 test -S "$RUN/ctl.sock"
	for rank in 0 1; do
		ps-work train -C "$RUN" --rank $rank >w$rank.out 2>&1 3>&- &
		pids+=($!)
	done
	wait_for 10 step_is_past 20
	[ "$(status '[.workers, .workers_wanted] | join(" ")')" = "2 4" ]
	ps-work train -C "$RUN" --rank 3 >w3.out 2>&1 3>&- &
	pids+=($!)
	wait_for 10 eval '[ "$(status .workers)" -eq 3 ]'
	wait_for 10 worker_is 3 active
	steps_on
	http POST /v1/stop '{"why":"test"}' >/dev/null
	finish
}

@test "rebalance: a server that came by file gets its share; who is pushed to is told" {
	job $ENDLESS
	begin c.json
	wait_for 20 step_is_past 20
	before=$(held)
	ps-ctl rebalance
	[ "$(held)" = "$before" ]
	wait_for 10 eval 'http GET /v1/servers | jq -e "[.servers[].heat | length] | min > 0" >/dev/null'
	ps-ctl rebalance
	[ "$(held)" = "$before" ]
	kill -9 "$(pid_of server-1)" 2>/dev/null || true
	wait_for 20 over
	ps-ctl stop >/dev/null
	rm -rf c.run*
	# With copies: one is lost for good, and another host takes its place.
	begin c.json --set replicas=2 --set servers=3 --max-restarts 0
	wait_for 20 step_is_past 20
	kill -9 "$(pid_of server-1)"
	wait_for 10 eval '[ "$(status .servers)" -eq 2 ]'
	ps-ctl invite --role server -o s.join 2>/dev/null
	background ps-serve --join s.join
	wait_for 10 eval '[ "$(status .servers)" -eq 3 ]' || { cat err; false; }
	ps-ctl rebalance
	[ "$(held | wc -w)" -eq 6 ]
	steps_on
	ps-ctl stop >/dev/null
	finish
	[ "$status" -eq 0 ]
	none_left "$T"
}
