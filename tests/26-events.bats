#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# What has happened: told while it does, and afterwards, over deaths of the coordinator.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() { setup_training; }
teardown() { teardown_dir; }

pid_of() { cat "$RUN/$1.pid"; }
events() { ps-ctl events -C "$RUN" "$@"; }
has_event() { events "$1" | grep -q "${2:-.}"; }
joined_again() { [ "$(grep -c " worker_joined worker-1 " out)" -ge 2 ]; }

# The numbers in events.jsonl, which go up by one from 0.
in_order() {
	jq -es 'map(.rev) == [range(length)]' "$RUN/events.jsonl" >/dev/null
}

@test "of a run that has ended: in order, by kind, the last ones, for programs" {
	write_cluster 2
	RUN=$T/lin.run
	train lin.json
	in_order
	run -0 events
	[[ $output == *" worker_joined worker-0 joined from "* ]]
	[[ ${lines[-1]} =~ ^20[0-9-]+T[0-9:.]+Z\ done\ +the\ job\ is\ done$ ]]
	[ "${#lines[@]}" -eq "$(wc -l <"$RUN/events.jsonl")" ]
	run -0 events worker_done
	[ "${#lines[@]}" -eq 2 ]
	run -0 events -n 1 worker_done server_joined --json
	[ "${#lines[@]}" -eq 1 ]
	[ "$(jq -r '.v, .kind, .event' <<<"$output" | tr '\n' ' ')" = "1 event worker_done " ]
	run -0 events -f
	[[ ${lines[-1]} == *" the job is done" ]]
	run -0 events worker_lost
	[ -z "$output" ]
	run -2 events worker_done worker_los
	[[ $output == *'unknown kind of event "worker_los"; did you mean "worker_lost"?'* ]]
	rm "$RUN/events.jsonl"
	run -4 events
	[[ $output == *events.jsonl* ]]
}

@test "followed, over a coordinator that is killed, to the end of the cluster" {
	cat >two.json <<-END
	{ "servers": 2, "workers": 2, "replicas": 2, "lease": "1s", "quota_pushes": 200,
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "steps": $ENDLESS, "batch": 16, "lr": 0.001 } }
	END
	write_csv train.csv
	begin two.json --max-restarts 9
	background ps-ctl events -C "$RUN" -f
	wait_for 20 step_is_past 100
	kill -9 "$(pid_of worker-1)"
	wait_for 20 joined_again
	# One that died while it wrote.
	before=$(wc -l <"$RUN/events.jsonl")
	# Its successor is not started before that.
	supervisor=$(sed -n 1p "$RUN/lock") coordinator=$(pid_of coordinator)
	stand_still "$supervisor"
	kill -9 "$coordinator"
	wait_for 10 grep -q '^State:[[:space:]]*Z' "/proc/$coordinator/status"
	printf '{"v":1,"kind":"event","re' >>"$RUN/events.jsonl"
	kill -CONT "$supervisor"
	wait_for 30 has_event recovered
	wait_for 20 grep -q ' recovered ' out
	in_order
	[ "$(wc -l <"$RUN/events.jsonl")" -gt "$before" ]
	[ "$(http GET "/v1/events?since=0" | jq '.events[0].rev')" -eq 0 ]
	kill -9 "$(pid_of server-1)"
	wait_for 20 grep -q ' server_lost ' out
	ps-ctl stop -C "$RUN" >/dev/null
	finish
	[ "$status" -eq 0 ]
	in_order
	events >all
	diff all out
	# What was under way may still be told of behind it.
	grep -q ' stopped ' all
}
