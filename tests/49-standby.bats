#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Coordinators that stand by: on a shared run directory, and with the state in etcd.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training
load lib/etcd
load lib/fault
load lib/pods

setup() {
	setup_training
	cd "$T"
	write_csv train.csv
	cat >lin.json <<-END
	{
		"servers": 2, "workers": 2, "replicas": 2, "deterministic": true, "deadline": "120s",
		"checkpoint_every": 200,
		"job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none",
			"eval": "train.csv?label=y&scale=none", "epochs": 0, "steps": 600, "batch": 16, "lr": 0.3 }
	}
	END
}

teardown() {
	exec 7>&-
	teardown_dir
}

# The digest of the job, of an undisturbed run on this host.
undisturbed() { ps-ctl run lin.json --set name=here --json 2>/dev/null | field model_digest; }

# coordinate K OPTIONS...: start coordinator K, which listens on 127.0.0.K; its log is c.K. Its clock is ahead by ${clock[K]}
# seconds.
coordinate() {
	local k=$1
	shift
	${clock[$k]:+env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" CLOCK_AHEAD="${clock[$k]}"} ps-serve "$@" --listen "127.0.0.$k:0" 2>>"c.$k" 3>&- &
	coordinator[$k]=$!
	pids+=($!)
}

# Two servers and two workers, which know the cluster by join files alone.
members() {
	local i
	for i in 0 1; do
		ps-ctl invite -C "$RUN" --role server --name "s$i" -o "s$i.join" 2>/dev/null
		ps-ctl invite -C "$RUN" --role worker --name "w$i" -o "w$i.join" 2>/dev/null
	done
	for i in 0 1; do
		ps-serve --join "s$i.join" 2>"s$i" 3>&- &
		pids+=($!)
		ps-work train --join "w$i.join" --data 'train.csv?label=y&scale=none' 2>"w$i" 3>&- &
		worker[$i]=$!
		pids+=($!)
	done
}

# The number of the coordinator that owns the state.
leader() {
	local k pid
	pid=$(owner | jq -r .pid)
	for k in "${!coordinator[@]}"; do
		[ "${coordinator[$k]}" != "$pid" ] || echo "$k"
	done
}
owner() { cat "$RUN/coordinator.owner"; }

# Kill the leader with this signal, and wait until another one answers: $next, instead of $first.
replace_leader() {
	local at
	first=$(leader)
	kill -s "$1" "${coordinator[$first]}"
	at=$(date +%s%N)
	wait_for 20 another_leads
	figure "coordinator $next answers $((($(date +%s%N) - at) / 1000000)) ms after SIG$1 of coordinator $first"
}
another_leads() {
	next=$(leader)
	[ -n "$next" ] && [ "$next" != "$first" ] && next_run && [ "$(status .state)" = running ]
}
# Which run directory the leader has; a shared one by default.
next_run() { :; }

# All members are there, and their steps go on.
goes_on() {
	local before
	wait_for 20 eval '[ "$(status .workers)" -eq 2 ] && [ "$(status .servers)" -eq 2 ]'
	before=$(status .step)
	wait_for 20 step_is_past $((before + 3))
}

# The job ends, and its workers, with digest $1; then the cluster ends.
ends_with() {
	let_go
	wait "${worker[0]}"
	wait "${worker[1]}"
	wait_for 20 state_is done
	[ "$(http GET /v1/result | field model_digest)" = "$1" ]
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "a shared run directory: the coordinator is killed twice, and the job ends in the same bits" {
	want=$(undisturbed)
	RUN=$T/lin.run
	coordinate 1 lin.json --no-store "${HELD[@]}"
	wait_for 10 test -S "$RUN/ctl.sock"
	members
	wait_for 20 step_is_past 5
	coordinate 2 -C "$RUN" --standby
	coordinate 3 -C "$RUN" --standby
	wait_for 20 eval '[ "$(grep -c "a coordinator stands by at 127.0.0.[23]" c.1)" -ge 2 ]'
	# A join file that is made now lists all of them.
	ps-ctl invite -C "$RUN" --role admin --name a -o a.join 2>/dev/null
	[[ $(jq -r .data a.join) == *127.0.0.1*127.0.0.[23]*127.0.0.[23]* ]]
	for round in 1 2; do
		replace_leader KILL
		goes_on
	done
	ps-stat --join a.join cluster >/dev/null
	ends_with "$want"
	wait "${coordinator[$next]}"
}

@test "a coordinator that was stopped for a while stands by afterwards" {
	RUN=$T/lin.run
	coordinate 1 lin.json --no-store "${HELD[@]}"
	wait_for 10 test -S "$RUN/ctl.sock"
	members
	wait_for 20 step_is_past 5
	for k in 2 3; do coordinate $k -C "$RUN" --standby; done
	wait_for 20 eval '[ "$(grep -c "a coordinator stands by at 127.0.0.[23]" c.1)" -ge 2 ]'
	replace_leader KILL
	goes_on
	replace_leader STOP
	goes_on
	kill -CONT "${coordinator[$first]}"
	wait_for 20 eval 'tail -n 1 "c.$first" | grep -q "standing by at 127.0.0.$first"'

	grep -q 'another coordinator .* taken over' "c.$first"
	goes_on
	# And it takes over again, when the members know of it.
	wait_for 20 eval 'grep -q "a coordinator stands by at 127.0.0.$first" "c.$next"'
	replace_leader KILL
	goes_on
	# A standby ends with its cluster.
	coordinate 4 -C "$RUN" --standby
	wait_for 20 eval 'grep -q "a coordinator stands by at 127.0.0.4" "c.$next"'
	ps-ctl stop --discard -C "$RUN" >/dev/null
	wait "${coordinator[4]}"
	grep -q 'the cluster has ended; this standby ends, too' c.4
}

@test "asp, in which workers lease their data: they get more from the coordinator that has taken over" {
	jq '.deterministic = false | .sync = "asp"' lin.json >asp.json
	mv asp.json lin.json
	RUN=$T/lin.run
	coordinate 1 lin.json --no-store "${HELD[@]}"
	wait_for 10 test -S "$RUN/ctl.sock"
	members
	wait_for 20 step_is_past 5
	coordinate 2 -C "$RUN" --standby
	coordinate 3 -C "$RUN" --standby
	wait_for 20 eval '[ "$(grep -c "a coordinator stands by at 127.0.0.[23]" c.1)" -ge 2 ]'
	replace_leader KILL
	# A leased range has one step, and a worker holds two of them.
	goes_on
	let_go
	wait "${worker[0]}"
	wait "${worker[1]}"
	wait_for 20 state_is done
	ps-ctl stop -C "$RUN" >/dev/null
}

# The run directories of the coordinators, whose state is in etcd: they have the same keys.
next_run_of_its_own() { RUN=$T/$next.run; }
owner_in_etcd() { etcd_get /t/lin/owner; }

# coordinate_in_etcd K OPTIONS...: the same command on each host.
coordinate_in_etcd() {
	local k=$1
	shift
	coordinate "$k" lin.json --standby --set "state=etcd://$ETCD/t" "${HELD[@]}" -C "$k.run" "$@"
}

begin_in_etcd() {
	owner() { owner_in_etcd; }
	next_run() { next_run_of_its_own; }
	etcd_start
	RUN=$T/1.run
	coordinate_in_etcd 1
	wait_for 10 test -S "$RUN/ctl.sock"
	members
	mkdir cred
	cp "$RUN/keys/psk" cred/pskit.psk
	cp "$RUN/keys/coordinator.key" cred/pskit.coordinator.key
	cp "$RUN/keys/admin.key" cred/pskit.admin.key
	grep -E ' [sw][01]$' "$RUN/keys/authorized_keys" >cred/pskit.authorized_keys
	wait_for 20 step_is_past 5
	export CREDENTIALS_DIRECTORY=$T/cred
	coordinate_in_etcd 2
	wait_for 20 grep -q 'a coordinator stands by at 127.0.0.2' c.1
}

@test "the state in etcd: the coordinator is killed, and started again, and the job ends in the same bits" {
	want=$(undisturbed)
	begin_in_etcd
	replace_leader KILL
	goes_on
	[ "$next" -eq 2 ]
	# The first host is back: its coordinator stands by, and takes over in its turn.
	coordinate_in_etcd 1 --resume auto
	wait_for 20 grep -q 'a coordinator stands by at 127.0.0.1' c.2
	replace_leader KILL
	goes_on
	ends_with "$want"
	wait "${coordinator[1]}"
	# Only the state of the last write is left.
	[ "$(etcd_keys /t/lin/state/ | grep -c /membership/)" -eq 1 ]
}

# The cluster as a host shows it that shares the run directory, but no lock and no socket: $1.run.
other_host() {
	mkdir -m 700 "$1.run"
	ln -s "$RUN"/* "$1.run"
	rm -f "$1".run/lock "$1".run/*.sock
	: >"$1.run/lock"
}

@test "a shared run directory: commands on a host without the coordinator find it by its state" {
	sed -i "s/\"steps\": 600/\"steps\": $ENDLESS/" lin.json
	RUN=$T/lin.run
	coordinate 1 lin.json --no-store "${HELD[@]}"
	wait_for 10 test -S "$RUN/ctl.sock"
	members
	wait_for 20 step_is_past 5
	coordinate 2 -C "$RUN" --standby
	wait_for 20 grep -q 'a coordinator stands by at 127.0.0.2' c.1
	other_host far
	[ "$(ps-ctl -C far.run status --json | head -n 1 | field state)" = running ]
	ps-ctl -C far.run set quota_pushes=11 >/dev/null
	ps-stat -C far.run cluster >/dev/null
	ps-ctl -C far.run doctor --quick >doctor || { cat doctor; false; }
	grep -q 'ok   standbys: 1 coordinator stands by, with this run directory' doctor
	# A client that runs on goes to the next coordinator.
	ps-stat -C far.run cluster --json 0.1 >rows 2>rows.err 3>&- &
	pids+=($!)
	reader=$!
	wait_for 20 test -s rows
	replace_leader KILL
	lines=$(wc -l <rows)
	wait_for 20 eval '[ "$(wc -l <rows)" -gt $((lines + 2)) ]' || { cat rows.err; false; }
	kill "$reader"
	goes_on
	ps-ctl -C far.run stop --discard >/dev/null
	wait "${coordinator[2]}"
	run -3 ps-ctl -C far.run status
}

@test "the state in etcd: commands and doctor on both hosts" {
	sed -i "s/\"steps\": 600/\"steps\": $ENDLESS/" lin.json
	begin_in_etcd
	[ "$(ps-ctl -C 2.run status --json | head -n 1 | field state)" = running ]
	ps-stat -C 2.run workers >/dev/null
	for host in 1 2; do
		ps-ctl -C $host.run doctor --quick >doctor || { cat doctor; false; }
		grep -q "ok   state: 3 of 3 members of etcd://$ETCD/t/lin answer (etcd 3" doctor
		grep -q "warn standbys: the coordinator that stands by at 127.0.0.2.* has a run directory of its own, $T/2.run" doctor
	done
	kill -9 "${etcd_pid[2]}"
	ps-ctl doctor lin.json --set "state=etcd://$ETCD/t" >doctor || { cat doctor; false; }
	grep -q "warn state: etcd at $(etcd_client 2) does not answer: .*; start this member again" doctor
	run -1 ps-ctl doctor lin.json --set "state=etcd://$(etcd_client 2)/t"
	[[ $output == *"fail state: etcd at $(etcd_client 2) does not answer"* ]]
	replace_leader KILL
	goes_on
	# The lock of the first run directory is free, and its coordinator is another one.
	[ "$(ps-ctl -C 1.run status --json | head -n 1 | field state)" = running ]
	ps-ctl -C 1.run stop --discard >/dev/null
	wait "${coordinator[2]}"
}

nobody_has_ended() {
	local p
	for p in "${worker[@]}" "${coordinator[@]}"; do
		kill -0 "$p" || {
			tail -n 4 c.*
			return 1
		}
	done
}

# away SECONDS STEPS: etcd does not answer for this time, in which at least so many steps are made.
away() {
	local was
	want=$(undisturbed)
	begin_in_etcd
	was=$(status .step)
	for i in 0 1 2; do kill -STOP "${etcd_pid[$i]}"; done
	wait_for 20 grep -q 'closes all sessions until it can' c.1
	rest "$1"
	ps-stat -C "$RUN" why --json >why
	[ "$(grep -c '"code":"state"' why)" -eq 1 ]
	for i in 0 1 2; do kill -CONT "${etcd_pid[$i]}"; done
	wait_for 20 eval 'next=$(leader); [ -n "$next" ] && next_run && [ "$(status .state)" = running ]'
	wait_for 20 eval '[ "$(status .workers)" -eq 2 ] && [ "$(status .servers)" -eq 2 ]'
	figure "$(($(status .step) - was)) steps meanwhile"
	[ "$(status .step)" -gt "$((was + $2))" ]
	goes_on
	nobody_has_ended
	ends_with "$want"
}

@test "etcd is away: training goes on, nobody ends, and one line says why" {
	away 0 0
}

# bats test_tags=slow
@test "etcd is away for a minute, too" {
	away 60 100
}

# frozen STEPS: etcd's leader is stopped for the time of so many steps.
frozen() {
	local steps=$1 was
	want=$(undisturbed)
	begin_in_etcd
	was=$(status .step)
	kill -STOP "${etcd_pid[$(etcd_leader)]}"
	# The owner may change until another member leads, which takes less time than these steps.
	wait_for $((60 + steps / 2)) eval 'next=$(leader); [ -n "$next" ] && next_run && step_is_past $((was + steps))'
	goes_on
	nobody_has_ended
	ends_with "$want"
}

# bats test_tags=slow
@test "the member of etcd that leads is frozen: the job goes on, whoever coordinates it then" {
	frozen 40
}

# bats test_tags=slow
@test "it is frozen for a minute, too" {
	frozen 320
}

# bats test_tags=slow
@test "the clocks of the coordinators' hosts are a minute apart, and the job ends in the same bits" {
	[ -e "$BIN/fault/shim.so" ] || skip "the fault kit is not built"
	want=$(undisturbed)
	clock=([1]=30 [2]=-30)
	begin_in_etcd
	replace_leader STOP
	goes_on
	# It begins again, in its run and with its keys.
	kill -CONT "${coordinator[1]}"
	wait_for 20 grep -q 'a coordinator stands by at 127.0.0.1' c.2
	replace_leader KILL
	goes_on
	[ "$next" -eq 1 ]
	ends_with "$want"
}

# bats test_tags=slow
@test "etcd is slow: reading the state takes longer than a lease lasts, and another coordinator takes over all the same" {
	etcd_start
	start_proxy
	tell to "$(etcd_client 0)"
	ETCD=$PROXY
	etcd_start() { :; }
	begin_in_etcd
	# Each request takes 0.36 s.
	tell delay 180
	replace_leader KILL
	goes_on
	tell delay 0
	let_go
	wait "${worker[0]}"
	wait "${worker[1]}"
}

@test "for Kubernetes: two coordinators, of which the one that leads is killed" {
	run -78 ps-ctl start lin.json --emit k8s --standby --set name=demo
	[[ $output == *'set the key state to an etcd'* ]]
	run -2 ps-ctl start lin.json --emit sbatch --standby
	[[ $output == *'--standby can only be used with --emit'* ]]
	ps-ctl start lin.json --emit systemd --standby --set name=demo >demo.service
	grep -qF -- "/ps-serve\" --standby --no-store --returns -C \"$T/demo.run\"" demo.service
	want=$(undisturbed)
	etcd_start 1
	ps-ctl start lin.json --emit k8s --standby --set name=demo --set "state=etcd://$ETCD/t" "${HELD[@]}" >k8s
	[ "$(jq -c '.items[] | select(.metadata.name == "demo-coordinator" and .kind == "StatefulSet").spec |
		[.replicas, .podManagementPolicy, .serviceName, .template.spec.containers[0].livenessProbe]' k8s)" = \
		'[2,"Parallel","demo-coordinator",null]' ]
	lay_out_pods
	for i in 0 1; do
		VOLUME=volume-$i pod coordinator demo-coordinator-$i none "$port" 127.0.0.$((i + 1))
		coordinator[$i]=${pids[-1]}
		# The first one leads, which is not so in general.
		[ "$i" -eq 1 ] || RUN=$T/volume-0/demo.run wait_for 20 test -S volume-0/demo.run/ctl.sock
	done
	for i in 0 1; do
		pod server demo-server-$i demo-server-$i.join 0
		pod worker demo-worker-$i worker-$i.join 0
		worker[$i]=${pids[-1]}
	done
	RUN=$T/volume-0/demo.run
	wait_for 20 step_is_past 5 || { cat demo-*.out; false; }
	wait_for 20 eval '[ "$(status ".standbys | length")" = 1 ]'
	kill -9 "${coordinator[0]}"
	RUN=$T/volume-1/demo.run
	wait_for 20 state_is running
	goes_on
	let_go
	wait "${worker[0]}"
	wait "${worker[1]}"
	wait_for 30 test -s "$RUN/result.json"
	[ "$(jq -r '.state + " " + .model_digest' "$RUN/result.json")" = "done $want" ]
	ps-ctl -C "$RUN" stop >/dev/null
	wait "${coordinator[1]}"
}

@test "what cannot be is refused: URLs, options, a state of another cluster" {
	refuses() { # WORDS COMMAND...
		local says=$1
		shift
		run "$@"
		echo "$output"
		[ "$status" -ne 0 ]
		[[ $output == *"$says"* ]]
	}
	refuses 'names no host' ps-serve lin.json --no-store --set state=etcd:///t
	refuses 'is not HOST:PORT' ps-serve lin.json --no-store --set state=etcd://h/t
	refuses 'has no prefix' ps-serve lin.json --no-store --set state=etcd://h:1
	refuses 'does not begin with etcd://' ps-serve lin.json --no-store --set state=http://h:1/t
	refuses '--standby can only be combined' ps-serve lin.json --standby --force-new-cluster
	refuses 'no run directory' ps-serve -C none.run --standby
	refuses 'does not answer' ps-serve lin.json --no-store --set state=etcd://127.0.0.1:1/t --set deadline=1s
	etcd_start
	RUN=$T/1.run
	coordinate 1 lin.json --no-store --set "state=etcd://$ETCD/t" "${HELD[@]}" -C 1.run
	wait_for 10 test -S "$RUN/ctl.sock"
	members
	wait_for 20 step_is_past 2
	refuses 'is already running on this host' ps-serve lin.json --no-store --set "state=etcd://$ETCD/t" -C 2.run
	kill -9 "${coordinator[1]}"
	wait "${coordinator[1]}" || true
	refuses 'the state belongs to another cluster' ps-serve lin.json --no-store --set "state=etcd://$ETCD/t" -C 3.run
}
