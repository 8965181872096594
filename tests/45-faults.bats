#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# What deaths, sleeps and leavings do to a job: it goes on, resumes or fails as
# its policy says, within seconds, and says why.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	netns=()
}

teardown() {
	teardown_dir
	local ns
	for ns in "${netns[@]}"; do
		ip netns del "$ns" 2>/dev/null || true
	done
}

# job NAME STEPS [members]: NAME.json, two servers and two workers; 400 examples.
job() {
	write_csv train.csv
	cat >"$1.json" <<-END
	{ $(paced "$2") "servers": 2, "workers": 2, "lease": "1s", ${3:-}
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "eval": "train.csv?label=y&scale=none", "steps": $2, "batch": 8,
	  "lr": 0.1 } }
	END
}

pid_of() {
	cat "$RUN/$1.pid"
}

# replace RANK [options]: a worker of our own in the rank of one that is gone.
replace() {
	background ps-work train -C "$RUN" --rank "$@"
}

# finished STATE: the job is over, in this state; the result is in $RESULT.
finished() {
	wait_for 60 over || return 1
	RESULT=$(http GET /v1/result)
	has .state "$1"
}

# said FILE PATTERN
said() {
	grep -q -- "$2" "$RUN/$1"
}

is_new_holder() {
	[ "$(worker "$1" .pid)" = "$2" ] && worker_is "$1" active
}

# ---- shrink ----------------------------------------------------------------------

@test "kill -9 of a worker: out after its lease, and the rest end the job" {
	for mode in bsp ssp:2 asp; do
		job shrink 1000
		begin shrink.json --set sync=$mode --set deadline=10m "${HELD[@]}"
		wait_for 10 step_is_past 10
		kill -9 "$(pid_of worker-1)"
		wait_for 20 worker_is 1 lost
		silent=$(sed -n 's/.*worker-1 .* is lost: no message for \([0-9]*\) ms.*/\1/p' "$RUN/server-0.log")
		# After its lease of a second, and long before the deadline.
		[ "$silent" -ge 1000 ] && [ "$silent" -lt 60000 ]
		let_go
		finished done
		has .steps 1000
		at_least .eval.r2 0.99
		ps-ctl stop -C "$RUN" >/dev/null
	done
}

@test "kill -9 of a worker that holds a range of the data: others train on it" {
	write_csv train.csv
	cat >range.json <<-END
	{ "servers": 2, "workers": 3, "lease": "3s",
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "epochs": 80, "batch": 8, "lr": 0.01 } }
	END
	for mode in ssp:0 asp; do
		begin range.json --set sync=$mode "${HELD[@]}"
		wait_for 10 step_is_past 10
		waits=$(worker 0 '| .wait_seconds - .data_seconds')
		kill -9 "$(pid_of worker-1)"
		let_go
		finished done
		# Of the dead one's own steps only its last report is left.
		[ "$(http GET /v1/tasks | jq '.done == .total and .leased == 0')" = true ]
		# Others had to wait for its lease to end: that is no time spent on data.
		http GET /v1/workers | jq -e '.workers[] | select(.id == "worker-0") | .wait_seconds - .data_seconds > '"$waits"
		ps-ctl stop -C "$RUN" >/dev/null
	done
}

@test "a server that was killed is replaced while a worker has no data left" {
	write_csv train.csv 2048
	cat >idle.json <<-END
	{ "servers": 2, "replicas": 2, "workers": 2, "sync": "asp", "lease": "10m",
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "epochs": 1, "batch": 1, "lr": 0.01 } }
	END
	begin idle.json "${HELD[@]}"
	# It has a range of the data then, which nobody else gets within its lease.
	wait_for 20 eval '[ "$(worker 0 .step)" -ge 1 ]'
	kill -STOP "$(pid_of worker-0)"
	let_go
	# Worker 1 does all the rest, and has nothing to do then. Worker 0 has two ranges of 64 examples at most.
	wait_for 30 eval 'http GET /v1/tasks | jq -e ".total - .done <= 2" >/dev/null'
	ps-ctl set -C "$RUN" quota_pushes=20
	kill -9 "$(pid_of server-1)"
	wait_for 30 grep -q '"copied"' "$RUN/events.jsonl"
	kill -CONT "$(pid_of worker-0)"
	# Each worker must say that it knows the new server, also the one without data.
	wait_for 30 grep -q '"worker_done"\|joined their chains' "$RUN/events.jsonl"
	! grep '"worker_done"' "$RUN/events.jsonl" || false
	let_go
	finished done
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "a restarted worker takes its rank over, before its lease is over and after" {
	for mode in bsp ssp:2 asp; do
		job again $ENDLESS
		begin again.json --set sync=$mode --set servers=3
		for when in before after before before; do
			wait_for 10 step_is_past $(($(status .step) + 20))
			kill -9 "$(worker 1 .pid)"
			[ $when = before ] || wait_for 10 worker_is 1 lost
			replace 1
			wait_for 10 is_new_holder 1 "$pid"
		done
		wait_for 10 step_is_past $(($(status .step) + 20))
		ps-ctl stop -C "$RUN" >/dev/null
		finish
		[ "$status" -eq 0 ] || { cat err; false; }
	done
}

@test "when every worker is dead the job fails, and says so" {
	job all $ENDLESS
	begin all.json
	wait_for 10 step_is_past 30
	kill -9 "$(pid_of worker-0)" "$(pid_of worker-1)"
	finished failed
	[[ $(res .reason) == *"all workers have ended"* ]]
}

# ---- wait, fail ------------------------------------------------------------------------

@test "wait: who comes back in time goes on, who does not fails the job" {
	job waits 1000 '"on_worker_loss": "wait:10m",'
	begin waits.json "${HELD[@]}"
	wait_for 10 step_is_past 10
	kill -9 "$(pid_of worker-1)"
	wait_for 10 worker_is 1 lost
	# It is waited for: nobody gets further.
	step=$(status .step)
	state_is running
	replace 1
	wait_for 10 step_is_past $((step + 10))
	let_go
	finished done
	ps-ctl stop -C "$RUN" >/dev/null

	begin waits.json --set on_worker_loss=wait:1s --set steps=$ENDLESS --set quota_pushes=80
	wait_for 10 step_is_past 30
	kill -9 "$(pid_of worker-1)"
	finished failed
	[[ $(res .reason) == *"worker-1 did not come back within 1 s"* ]]
	run ps-ctl wait -C "$RUN" --for done
	[ "$status" -eq 1 ]
}

@test "wait: who is waited for is waited for no more when on_worker_loss is set so" {
	job waits $ENDLESS '"on_worker_loss": "wait:10m",'
	begin waits.json
	wait_for 10 step_is_past 30
	kill -9 "$(pid_of worker-1)"
	wait_for 10 worker_is 1 lost
	ps-ctl set -C "$RUN" on_worker_loss=shrink >/dev/null
	wait_for 10 step_is_past $(($(status .step) + 40))
	ps-ctl stop -C "$RUN" >/dev/null

	begin waits.json
	wait_for 10 step_is_past 30
	kill -9 "$(pid_of worker-1)"
	wait_for 10 worker_is 1 lost
	ps-ctl set -C "$RUN" on_worker_loss=fail >/dev/null
	finished failed
	[[ $(res .reason) == *"worker-1 is lost (on_worker_loss no longer waits for it)"* ]]
}

@test "fail: the first loss ends the job" {
	job fails $ENDLESS '"on_worker_loss": "fail",'
	begin fails.json
	wait_for 10 step_is_past 30
	kill -9 "$(pid_of worker-0)"
	finished failed
	[[ $(res .reason) == "worker-0 is lost"*"on_worker_loss is fail" ]]
}

@test "backup: a frozen worker holds nobody up, and goes on at the open step when it wakes" {
	need_data a9a/a9a.gz
	for replicas in 1 2; do
		cat >spare.json <<-END
		{ "servers": 2, "workers": 3, "backup": 1, "replicas": $replicas, "lease": "10m", "quota_pushes": 800,
		  "job": { "model": "logistic", "optimizer": "sgd", "data": "$DATA/a9a/a9a.gz", "steps": $ENDLESS, "batch": 16, "lr": 0.1 } }
		END
		begin spare.json
		wait_for 20 step_is_past 20
		asleep=$(cat "$RUN/worker-1.pid")
		kill -STOP "$asleep"
		# The step that it has reported may be some tens older than the one at which it stands.
		was=$(worker 1 .step)
		wait_for 20 eval "[ \"\$(worker 0 .step)\" -gt $((was + 300)) ]"
		[ "$(worker 1 .state)" = active ]
		slept=$(worker 1 .step)
		woken=$(worker 0 .step)
		kill -CONT "$asleep"
		[ "$slept" -lt $((woken - 100)) ]
		# It has left out what the others did without it: its examples are not those of all steps.
		wait_for 20 eval "[ \"\$(worker 1 .step)\" -ge $woken ]"
		http GET /v1/workers | jq -e '.workers[1] | .examples < 16 * (.step - 100)'
		ps-ctl stop -C "$RUN" >/dev/null
	done
}

@test "deterministic: the same bits, whoever was killed or frozen meanwhile" {
	job same 1000 '"deterministic": true, "on_worker_loss": "wait:10m",'
	train same.json
	first=$(res .model_digest)
	RUN=$T/same.run
	rm -rf "$RUN"
	background ps-serve same.json "${HELD[@]}"
	wait_for 10 test -S "$RUN/ctl.sock"
	background ps-serve -C "$RUN" --name server-1
	replace 0
	replace 1
	wait_for 10 state_is running
	for i in 1 2 3; do
		steps_on
		victim=$((i % 2))
		kill -9 "$(worker $victim .pid)"
		[ $i -eq 1 ] || wait_for 10 worker_is $victim lost
		replace $victim
		wait_for 10 is_new_holder $victim "$pid"
	done
	steps_on
	kill -STOP "$pid"
	wait_for 10 worker_is $victim lost
	kill -CONT "$pid"
	wait_for 10 worker_is $victim active
	let_go
	finished done
	has .model_digest "$first"
	has .steps 1000
}

# ---- leaving, sleeping -----------------------------------------------------------------

@test "SIGTERM of a worker: it leaves, exit code 0, and the rest go on" {
	job leaves 1000
	# A worker that leaves is not lost: a lost one would be waited for, and the job would fail.
	begin leaves.json --set on_worker_loss=wait:20s --set lease=10m "${HELD[@]}"
	wait_for 10 step_is_past 10
	kill -9 "$(pid_of worker-1)" && replace 1     # one whose exit code is ours to see
	wait_for 10 is_new_holder 1 "$pid"
	steps_on
	kill -TERM "$pid"
	finish
	[ "$status" -eq 0 ]
	grep -q 'left at step' err
	wait_for 10 worker_is 1 left
	let_go
	finished done
	at_least .eval.r2 0.99
}

@test "SIGTERM while others are waited for: it leaves too" {
	job leaves $ENDLESS
	begin leaves.json --set lease=10m
	wait_for 10 step_is_past 30
	kill -STOP "$(pid_of worker-0)"
	leaver=$(pid_of worker-1)
	kill -TERM "$leaver"
	wait_for 10 said worker-1.log 'left at step'
	kill -CONT "$(pid_of worker-0)"
	wait_for 10 worker_is 1 left
	wait_for 10 step_is_past $(($(status .step) + 20))
}

@test "a worker that sleeps longer than its lease is told, and exits with 1" {
	for mode in bsp ssp:1 asp; do
		job sleeps $ENDLESS
		begin sleeps.json --set sync=$mode
		wait_for 10 step_is_past 30
		kill -9 "$(pid_of worker-1)"
		replace 1
		wait_for 10 is_new_holder 1 "$pid"
		wait_for 10 step_is_past $(($(status .step) + 20))
		kill -STOP "$pid"
		wait_for 10 worker_is 1 lost
		wait_for 10 step_is_past $(($(status .step) + 20))
		kill -CONT "$pid"
		finish
		[ "$status" -eq 1 ]
		cat err
		grep -q 'worker-1 was declared lost' err
		wait_for 10 step_is_past $(($(status .step) + 20))
		ps-ctl stop -C "$RUN" >/dev/null
	done
}

@test "ssp: nobody gets further ahead than S, and the log says who is waited for" {
	job bound $ENDLESS
	begin bound.json --set sync=ssp:3 --set lease=10m
	wait_for 10 step_is_past 30
	kill -STOP "$(pid_of worker-0)"
	wait_for 15 said worker-1.log 'waiting at step [0-9]* for 2 s: worker-0 (.*) is at step'
	# Servers tell the steps that all have completed; one may have had a CLOCK more.
	at=$(sed -n 's/.*waiting at step \([0-9]*\) for 2 s.*/\1/p' "$RUN/worker-1.log" | tail -n 1)
	floor=$(http GET /v1/servers | jq '[.servers[].step] | min')
	echo "waiting at step $at, all have completed $floor"
	[ $((at - floor)) -ge 4 ]
	[ $((at - floor)) -le 5 ]
	kill -CONT "$(pid_of worker-0)"
	wait_for 10 step_is_past $(($(status .step) + 20))
	ps-ctl stop -C "$RUN" >/dev/null

	begin bound.json --set sync=asp --set lease=10m
	wait_for 10 step_is_past 30
	kill -STOP "$(pid_of worker-0)"
	behind=$(worker 0 .step)
	wait_for 15 far_ahead 1 $((behind + 60))
	kill -CONT "$(pid_of worker-0)"
}

far_ahead() {
	[ "$(worker "$1" .step)" -gt "$2" ] 2>/dev/null
}

# ---- what cannot go on -----------------------------------------------------------------

@test "a loss that is not a number: the job fails, says at which step, keeps the model" {
	for mode in bsp ssp:1 asp; do
		job nan 1000
		run ps-ctl run nan.json --set sync=$mode --set lr=1e30 --json
		[ "$status" -eq 1 ]
		RESULT=${lines[-1]}
		has .state failed
		[[ $(res .reason) =~ worker-[01]:\ the\ training\ loss\ is\ (NaN|infinite)\ at\ step\ [0-9]+:\ lower\ job.lr ]]
		ps-ctl export -C nan.run all -o text >model.txt 2>/dev/null
		[ "$(grep -c '^[wb]' model.txt)" -eq 3 ]
		# The parameters of the last step whose loss was finite; in ssp and asp
		# another worker's update may have come before this one's first step.
		if [ $mode = bsp ] || [[ $(res .reason) != *"no earlier step had finite parameters" ]]; then
			[[ $(res .reason) == *"the model of step "*" is saved" ]]
			! grep -qiE 'nan|inf' model.txt
		fi
	done
	none_left "$T"
}

@test "a server killed: the job fails within seconds, with a clear sentence, and nothing is left" {
	for victim in server-1 server-0; do
		job dies $ENDLESS
		RUN=$T/dies.run
		background ps-ctl run dies.json --json
		wait_for 10 test -S "$RUN/ctl.sock"
		wait_for 10 step_is_past 30
		kill -9 "$(pid_of $victim)"
		within 5000 finish
		[ "$status" -eq 1 ]
		RESULT=$(tail -n 1 out)
		has .state failed
		[[ $(res .reason) == *$victim* ]]
		figure "$victim: $(res .reason)"
		none_left "$T"
	done
}

@test "a server that sleeps is lost, and says so when it wakes" {
	job sleeps $ENDLESS
	begin sleeps.json --set deadline=$((${PS_SANITIZED:+9 +} 6))s
	wait_for 10 step_is_past 30
	kill -STOP "$(pid_of server-1)"
	finished failed
	[[ $(res .reason) == *"server-1"*"no heartbeat for"* ]]
	kill -CONT "$(pid_of server-1)"
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
}

@test "a server with the only copy sleeps for a while: it is waited for, and the job goes on" {
	job naps $ENDLESS
	begin naps.json
	wait_for 10 step_is_past 30
	kill -STOP "$(pid_of server-1)"
	wait_for 10 eval 'ps-ctl -C "$RUN" events | grep -q "server-1 .*is silent and has the only replica of"'
	ps-stat -C "$RUN" why | grep 'server-1.*has been silent'
	kill -CONT "$(pid_of server-1)"
	at=$(status .step)
	wait_for 10 step_is_past $((at + 40))
	[ "$(status .state)" = running ]
	[ "$(ps-ctl -C "$RUN" events | grep -c 'is lost')" -eq 0 ]
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
}

# ---- two hosts -----------------------------------------------------------------------------

# Two namespaces with a wire between them: 10.77.0.1 in $here, 10.77.0.2 in $there.
two_hosts() {
	here=pskit-$$-a there=pskit-$$-b
	ip netns add $here 2>/dev/null || skip "network namespaces are not permitted here"
	netns+=($here)
	ip netns add $there
	netns+=($there)
	ip link add v1 netns $here type veth peer name v2 netns $there 2>/dev/null || skip "no veth devices here"
	ip -n $here addr add 10.77.0.1/24 dev v1
	ip -n $there addr add 10.77.0.2/24 dev v2
	for ns in $here $there; do
		ip -n $ns link set lo up
	done
	ip -n $here link set v1 up
	ip -n $there link set v2 up
}

# Writes every byte that passes the wire to a file, until it is ended.
listen_in() {
	ip netns exec $there /usr/bin/python3 -c '
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
s.bind(("v2", 0))
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
out = open(sys.argv[1], "wb", buffering=0)
while True:
    out.write(s.recv(65536))' "$1" 3>&- &
	pids+=($!)
	wait_for 5 test -e "$1"
}

@test "two hosts: a server and a worker join by file, over TCP and sealed" {
	two_hosts
	# Something secret in the control messages, to be looked for on the wire.
	for suite in auto poly1305; do
		job far 1000
		RUN=$T/far.run
		rm -rf "$RUN" ./*.join
		listen_in wire.$suite
		background ip netns exec $here ps-serve far.json --set listen=10.77.0.1:0 --set http=10.77.0.1:0 --set suite=$suite "${HELD[@]}"
		coordinator=$pid
		wait_for 10 test -S "$RUN/ctl.sock"
		ps-ctl invite -C "$RUN" --role server -o s.join
		ps-ctl invite -C "$RUN" --role worker -o w.join
		[ "$(stat -c %a w.join)" = 600 ]
		ip netns exec $there ps-serve --join s.join --listen 10.77.0.2:0 >s.out 2>&1 3>&- &
		pids+=($!)
		server=$!
		mkdir -p elsewhere
		cp train.csv elsewhere
		(cd elsewhere && exec ip netns exec $there ps-work train --join ../w.join --rank 1 --data 'train.csv?label=y&scale=none' >../w.out 2>&1 3>&-) &
		pids+=($!)
		far_worker=$!
		ip netns exec $here ps-work train -C "$RUN" --rank 0 >w0.out 2>&1 3>&- &
		pids+=($!)
		wait_for 10 state_is running || { cat err s.out w.out w0.out; false; }
		[[ $(http GET /v1/servers | jq -r '.servers[1].listen') == 10.77.0.2:* ]]
		let_go
		finished done || { cat err s.out w.out w0.out; false; }
		at_least .eval.r2 0.99
		has .steps 1000
		wait "$far_worker"
		http POST /v1/stop '{"why":"test"}'
		wait "$server"
		pid=$coordinator
		finish
		[ "$status" -eq 0 ]
	done
	# What `poly1305` shows to who listens in, the sealed suite hides.
	grep -aq worker_join wire.poly1305
	! grep -aq worker_join wire.auto
	[ "$(stat -c %s wire.auto)" -gt 100000 ]
}

@test "mem_limit: what does not fit is refused at the start, new rows later, and training goes on" {
	awk 'BEGIN { for (i = 0; i < 5000; i++) { printf "%d", i % 2; for (k = 0; k < 20; k++) printf " %d:1", i * 20 + k + 1
		print "" } }' >wide.svm
	cat >tight.json <<-END
	{ "servers": 1, "workers": 1, "mem_limit": "50M",
	  "job": { "model": "logistic", "optimizer": "sgd", "data": "wide.svm", "epochs": 1, "batch": 16, "lr": 0.1 } }
	END
	run -78 --separate-stderr ps-ctl run tight.json
	[[ $stderr == *"mem_limit: 52428800 bytes are less than the sessions of 1 worker and 1 server may need, which is 94371840 bytes"* ]]
	train tight.json --set mem_limit=200M
	has .examples 5000
	begin tight.json --set mem_limit=91M --set epochs=$ENDLESS
	wait_for 20 eval "[ \"\$(http GET /v1/servers | jq '.servers[0].pushes_refused')\" -gt 100 ]"
	rows=$(http GET /v1/servers | jq '.servers[0].rows')
	[ "$rows" -gt 1000 ] && [ "$rows" -lt 100000 ]
	wait_for 20 step_is_past $(($(status .step) + 500))
	[ "$(http GET /v1/servers | jq '.servers[0].rows')" = "$rows" ]
	grep -q 'mem_limit is reached: pushes that need new rows are refused' "$RUN/server-0.log"
	ps-ctl stop -C "$RUN" >/dev/null
	awk 'BEGIN { for (i = 0; i < 8; i++) { for (k = 0; k < 1000; k++) printf "%d,", (i * k) % 7; print i % 2 } }' >dense.csv
	run -78 --separate-stderr ps-ctl run tight.json --set model=mlp --set hidden=2000 --set 'data=dense.csv?label=last' \
		--set mem_limit=100M
	[[ $stderr == *'mem_limit: table "w0" does not fit'* ]]
	none_left "$T"
}
