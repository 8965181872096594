#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# A cluster from its start to its end: run, start, status, wait, logs, export,
# stop, invite; and that nothing is left running, however it ends.

bats_require_minimum_version 1.5.0
load lib/helper

setup() { setup_dir; }
teardown() { teardown_dir; }

running() { [ "$(ps-ctl -C "${1:-lin.run}" status --json 2>/dev/null | jq -r 'select(.kind == "cluster").state')" = running ]; }

pid_of() { cat "lin.run/$1.pid"; }

@test "run: trains, prints the result last, leaves model and result, exit code 0" {
	write_cluster
	run -0 --separate-stderr ps-ctl run lin
	[[ ${lines[-1]} == "done: "*" steps, "*"train loss"*"eval loss"* ]]
	none_left "$T"
	[ "$(stat -c %a lin.run)" = 700 ]
	[ "$(jq -r .state lin.run/result.json)" = done ]
	[ -s lin.run/model.safetensors ]
	[ -s lin.run/server-0.log ] && [ -s lin.run/worker-1.log ]
	[ -z "$(find lin.run -name '*.pid')" ]
}

@test "run --json: one object with the contract's fields; the line learned is right" {
	write_cluster
	run -0 --separate-stderr ps-ctl run lin.json --json
	[ "${#lines[@]}" -eq 1 ]
	jq -e '.v == 1 and .ts and .kind == "result" and .state == "done" and .steps > 0 and
		.examples >= 400 * 20 and .seconds >= 0 and .alone_seconds > 0 and .train_loss < 0.01 and .eval.loss < 0.001 and
		.eval.rmse < 0.05 and .eval.r2 > 0.99 and (.model_digest | length) == 64 and
		.pushed_bytes > 0 and .pulled_bytes > 0' <<<"$output"
	jq -e --argjson printed "$output" '. == $printed' lin.run/result.json
	ps-ctl export all -o text >model.txt 2>/dev/null
	awk '$1 == "w[0,0]" { a = $2 } $1 == "w[1,0]" { b = $2 } $1 == "b[0,0]" { c = $2 }
		END { exit !(a > 1.9 && a < 2.1 && b > -1.1 && b < -0.9 && c > 0.4 && c < 0.6) }' model.txt
}

@test "run: --set changes a key, and a finished run is moved aside" {
	write_cluster
	ps-ctl run lin --set servers=2 --set epochs=1 --set job.batch=8 >/dev/null
	[ "$(jq -r '.servers, .job.epochs, .job.batch' lin.run/cluster.json | paste -sd' ')" = "2 1 8" ]
	ps-ctl run lin --set epochs=1 >/dev/null
	[ "$(jq -r .servers lin.run.1/cluster.json)" = 2 ]
	[ "$(jq -r .servers lin.run/cluster.json)" = 1 ]
}

@test "run: data from standard input" {
	write_cluster
	ps-ctl run lin --set workers=1 --set 'data=-?label=y&scale=none' --json <train.csv >out
	[ "$(field state <out)" = done ]
	printf 'a,y\n1,x\n' >bad.csv
	run -1 ps-ctl run lin --set workers=1 --set 'data=-?label=y&scale=none' --set eval= <bad.csv
	[[ $output == *" stdin:2: "* ]]
	tail -n +1 train.csv | ps-ctl run lin --set workers=1 --set 'data=-?label=y&scale=none' --json >out
	[ "$(field state <out)" = done ]
}

@test "run: in a directory whose sockets' paths are longer than an address" {
	deep=$(printf 'd%.0s' {1..90})/$(printf 'e%.0s' {1..60})
	mkdir -p "$deep"
	cd "$deep"
	write_cluster 2
	ps-ctl run lin --json >out
	[ "$(field state <out)" = done ]
	ps-ctl start lin 2>/dev/null
	ps-ctl wait --for done --timeout 60s
	ps-ctl stop
}

@test "run: a worker's bad data fails the job, with file, line and exit code 1" {
	write_cluster
	printf 'a,y\n1,2\n3,oops\n' >bad.csv
	run -1 --separate-stderr ps-ctl run lin --set 'data=bad.csv?label=y&scale=none' --set eval= --json
	[ "$(field state <<<"$output")" = failed ]
	[[ $(field reason <<<"$output") == *bad.csv:3* ]]
	[[ $stderr == *worker-*"ended with code 1"*bad.csv:3* ]]
	none_left "$T"
}

@test "run: SIGINT and SIGTERM stop the cluster with a checkpoint, exit code 75" {
	endless
	for sig in INT TERM; do
		background ps-ctl run lin --json
		wait_for 20 running
		run -1 none_left "$T"
		kill -s "$sig" "$pid"
		finish
		[ "$status" -eq 75 ]
		[ "$(ps-ctl -C lin.run checkpoint ls --json | tail -n 1 | jq -r .state)" = whole ]
		[ "$(field state <out)" = stopped ]
		[ "$(field reason <out)" = "SIG$sig" ]
		[ "$(jq -r .state lin.run/result.json)" = stopped ]
		none_left "$T"
	done
}

@test "run: a signal that comes before ps-ctl has heard that the job runs saves a checkpoint, too" {
	endless
	background ps-ctl run lin --json
	# A frozen worker keeps the job from running until ps-ctl sleeps.
	wait_for 20 test -s lin.run/worker-1.pid
	worker=$(pid_of worker-1)
	kill -s STOP "$worker"
	kill -s STOP "$pid"
	kill -s CONT "$worker"
	wait_for 20 running
	kill -s INT "$pid"
	kill -s CONT "$pid"
	finish
	[ "$status" -eq 75 ]
	[ "$(ps-ctl -C lin.run checkpoint ls --json | tail -n 1 | jq -r .state)" = whole ]
	none_left "$T"
}

@test "run: a second signal ends at once what does not end by itself" {
	endless
	background ps-ctl run lin
	wait_for 20 running
	kill -s STOP "$(pid_of server-0)"
	kill -s TERM "$pid"
	wait_for 10 grep -q stopping err
	kill -s TERM "$pid"
	within 5000 finish
	[ "$status" -eq 143 ]
	none_left "$T"
}

@test "run: kill -9 of ps-ctl leaves nothing running" {
	endless
	background ps-ctl run lin
	wait_for 20 running
	kill -9 "$pid"
	finish
	[ "$status" -eq 137 ]
	wait_for 5 none_left "$T"
	run -3 ps-ctl status
}

@test "run: the loss of a worker is said, and the others finish" {
	endless
	background ps-ctl run lin --set lease=500ms
	wait_for 20 running
	kill -9 "$(pid_of worker-1)"
	wait_for 10 grep -q 'worker-1 ended by SIGKILL' err
	ps-ctl wait --for step=80 --timeout 60s
	running
	ps-ctl stop
	finish
	[ "$status" -eq 1 ]
}

@test "run: without server-0 it fails at once, and takes the rest down" {
	endless
	background ps-ctl run lin --set servers=2 --json
	wait_for 20 running
	kill -9 "$(pid_of server-0)"
	finish
	[ "$status" -eq 1 ]
	[ "$(field state <out)" = failed ]
	[ "$(field reason <out)" = "server-0 ended by SIGKILL" ]
	none_left "$T"
}

@test "run: without another server the job fails, and no model is asked for" {
	endless
	background ps-ctl run lin --set servers=2 --json
	wait_for 20 running
	kill -9 "$(pid_of server-1)"
	finish
	[ "$status" -eq 1 ]
	[ "$(field state <out)" = failed ]
	[[ $(field reason <out) == *server-1* ]]
	[ ! -e lin.run/model.safetensors ]
	none_left "$T"
}

@test "run without a job: servers until a signal" {
	echo '{"servers": 2}' >two.json
	background ps-ctl run two --json
	wait_for 20 running two.run
	kill -s TERM "$pid"
	finish
	[ "$status" -eq 143 ]
	[ "$(field state <out)" = stopped ]
	none_left "$T"
}

@test "start, status, wait, export, stop" {
	write_cluster
	run -0 --separate-stderr ps-ctl start lin
	[ -z "$output" ]
	[[ $stderr == *"cluster lin is "* && $stderr == *"1/1 server, "* ]]
	run -1 ps-ctl start lin
	[[ $output == *"already running"* ]]
	ps-ctl wait --for done --timeout 60s
	# Who has waited for "done" finds what the job has made.
	[ "$(jq -r .state lin.run/result.json)" = done ]
	[ -s lin.run/model.safetensors ]
	# The servers are still there.
	ps-ctl export all >live.safetensors
	cmp live.safetensors lin.run/model.safetensors
	ps-ctl export w -o npy >live.npy
	ps-ctl export w -o text >live.txt
	run -4 ps-ctl export nothing -o text
	run -0 --separate-stderr ps-ctl stop
	[[ $output == "done: "* ]]
	none_left "$T"
	# And of the saved model the same can be had.
	ps-ctl export w -o npy 2>/dev/null | cmp - live.npy
	ps-ctl export w -o text 2>/dev/null | cmp - live.txt
	ps-ctl export all 2>note | cmp - live.safetensors
	grep -q 'not running' note
	ps-ctl export all --file copy.safetensors 2>/dev/null
	cmp copy.safetensors live.safetensors
	run -4 ps-ctl export nothing -o text
}

@test "status: the cluster, then servers, then workers; of a finished run the result, and 3" {
	endless
	ps-ctl start lin --set servers=2 2>/dev/null
	ps-ctl status --json >out
	[ "$(jq -r .kind out | paste -sd' ')" = "cluster server server worker worker" ]
	[ "$(jq -r 'select(.id).id' out | paste -sd' ')" = "server-0 server-1 worker-0 worker-1" ]
	jq -es 'all(.v == 1 and .ts) and all(.[1:][]; .state and .host and .pid > 0 and (.step | type == "number") and .listen)' out
	kill -0 "$(jq -r 'select(.id == "worker-1").pid' out)"
	run -0 ps-ctl status
	[[ ${lines[0]} == "cluster lin: running"* && $output == *"worker-1 "* ]]
	ps-ctl stop >/dev/null
	run -3 --separate-stderr ps-ctl -C lin.run status --json
	[ "$(field state <<<"$output")" = stopped ]
}

@test "wait: true, timed out, and never" {
	endless
	ps-ctl start lin 2>/dev/null
	ps-ctl wait --for ready --timeout 60s
	ps-ctl wait --for workers=2 --timeout 60s
	ps-ctl wait --for step=20 --timeout 60s
	ps-ctl wait --for loss-below=0.5 --timeout 60s
	run -124 ps-ctl wait --for workers=3 --timeout 200ms
	[[ $output == *"workers=3"* ]]
	run -124 ps-ctl wait --for done --timeout 200ms
	background ps-ctl wait --for done
	ps-ctl stop >/dev/null
	finish
	[ "$status" -eq 1 ]
	grep -q stopped err
	run -1 ps-ctl -C lin.run wait --for done
	run -0 ps-ctl -C lin.run wait --for step=20
}

@test "wait --for done is true of a run that has ended well" {
	write_cluster 2
	ps-ctl run lin >/dev/null
	ps-ctl wait --for done
	run -1 ps-ctl wait --for step=100000000
	run -1 ps-ctl wait --for workers=1
}

@test "logs: each line with its process; -n, names, -f until the end" {
	endless
	ps-ctl start lin 2>/dev/null
	ps-ctl logs | grep -q '^server-0: '
	ps-ctl logs | grep -q '^worker-1: '
	[ -z "$(ps-ctl logs server-0 | grep -v '^server-0: ')" ]
	[ "$(ps-ctl logs -n 1 server-0 worker-0 | wc -l)" -eq 2 ]
	[ "$(ps-ctl logs -n 1 server-0)" = "server-0: $(tail -n 1 lin.run/server-0.log)" ]
	# In the order of time.
	ps-ctl logs | grep -oE '[0-9-]+T[0-9:.]+Z' | sort -c
	run -4 ps-ctl logs server-9
	background ps-ctl logs -f -n 1
	wait_for 5 test -s out
	ps-ctl stop >/dev/null
	finish
	[ "$status" -eq 0 ]
	grep -q '^supervisor: .*all processes have ended' out
}

@test "stop: ends a run, a frozen coordinator, a frozen supervisor" {
	endless
	background ps-ctl run lin --json
	wait_for 20 running
	run -0 --separate-stderr ps-ctl stop
	[[ $output == stopped* ]]
	finish
	[ "$(field state <out)" = stopped ]
	run -3 ps-ctl stop
	ps-ctl start lin 2>/dev/null
	kill -s STOP "$(pid_of server-0)"
	run -0 ps-ctl stop --timeout 1s
	none_left "$T"
	ps-ctl start lin 2>/dev/null
	kill -s STOP $(sed -sn 1p lin.run/*.pid lin.run/lock)
	run -0 ps-ctl stop --timeout 500ms
	[[ $output == *killed* ]]
	none_left "$T"
}

@test "start: a failure is said with the process's own words, and leaves nothing" {
	write_cluster
	run -78 ps-ctl start lin --set listen=203.0.113.1:0
	[[ $output == *server-0*"ended with code"*203.0.113.1* ]]
	none_left "$T"
	printf 'a,y\n1,oops\n' >bad.csv
	run -1 ps-ctl start lin --set 'data=bad.csv?label=y&scale=none' --set eval=
	[[ $output == *bad.csv:2* ]]
	none_left "$T"
	run -3 ps-ctl -C lin.run stop
}

@test "start: not ready in time is 124, and leaves nothing" {
	write_cluster
	mkfifo never.csv
	run -124 ps-ctl start lin --set data=never.csv --set eval= --timeout 500ms
	[[ $output == *"not ready within 0.5 s"* ]]
	none_left "$T"
}

@test "start: the death of the supervisor takes all with it" {
	endless
	ps-ctl start lin 2>/dev/null
	kill -9 "$(sed -n 1p lin.run/lock)"
	wait_for 5 none_left "$T"
	run -3 ps-ctl -C lin.run status
}

@test "start: a wait longer than 2 s says what for" {
	write_cluster
	mkfifo never.csv
	run -124 ps-ctl start lin --set data=never.csv --set eval= --timeout 3s
	[[ $output == *"waiting for "*worker-0* ]]
}

@test "invite: a join file for the owner alone, and a word on loopback" {
	endless
	ps-ctl start lin 2>/dev/null
	ps-ctl invite --role worker --name w7 >join 2>note
	jq -e '.v == 1 and .cluster == "lin" and .role == "worker" and .name == "w7" and .data and .key and .psk' join
	grep -q 127.0.0.1 note
	ps-ctl invite --role server -o s.join 2>/dev/null
	[ "$(stat -c %a s.join)" = 600 ]
	run -1 ps-ctl invite --role server -o s.join
	run -1 ps-ctl invite --role worker --name w7
	[ "$(ps-ctl invite --role monitor --name m | jq -r '.token | length')" -ge 32 ]
	grep -q ' w7$' lin.run/keys/authorized_keys
}

@test "completion knows the ids of a living cluster" {
	endless
	ps-ctl start lin 2>/dev/null
	. <(ps-ctl completion bash)
	COMP_LINE="ps-ctl logs work"
	COMP_POINT=${#COMP_LINE}
	_pskit
	[ "${COMPREPLY[*]}" = "worker-0 worker-1" ]
}

@test "two that start at once: one runs, the other says so" {
	endless
	ps-ctl start lin >a 2>&1 &
	one=$!
	two=0 first=0
	ps-ctl start lin >b 2>&1 || two=$?
	wait "$one" || first=$?
	[ $((first + two)) -eq 1 ]
	cat a b | grep -q 'already running'
	running
}
