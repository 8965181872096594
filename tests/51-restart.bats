#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Restarts that fail: the supervisor tries again until the cause is gone or the deadline is over,
# and tells about it meanwhile.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() { setup_training; }
teardown() { teardown_dir; }

pid_of() { cat "$RUN/$1.pid"; }
over() { [[ $(status .state) =~ ^(done|failed|stopped)$ ]]; }
is_another() { [ "$(pid_of "$1" 2>/dev/null)" != "$2" ] && [ -s "$RUN/$1.pid" ]; }
says() {
	local what=$1
	shift
	"$@" 2>&1 | grep -qE "$what"
}

# A cluster whose supervisor cannot write pid files while $T/full exists: two servers with copies.
begin_short_of_disk() {
	endless
	env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY=.pid FS_FULL="$T/full" \
		ps-ctl start lin --set servers=2 --set replicas=2 --set on_worker_loss=wait:600s "$@" >start.log 2>&1
	RUN=$T/lin.run
}

@test "a server, a worker and a coordinator whose restart fails on a full disk come back when there is room" {
	begin_short_of_disk
	wait_for 20 step_is_past 20
	for id in server-1 worker-0; do
		old=$(pid_of $id)
		touch full
		kill -9 "$old"
		# The first attempts have failed, and all who are asked say so.
		wait_for 20 eval "[ \"\$(status .start_failing.tries)\" -ge 3 ] 2>/dev/null"
		says "cannot start $id \\([0-9]+ (try|tries), [0-9]+ s\\): .*No space left on device" ps-ctl -C "$RUN" status
		says "^$id waits for its start .*No space left on device; .*tries again" ps-stat -C "$RUN" why
		rm full
		wait_for 20 is_another $id "$old"
		wait_for 20 eval '[ "$(status .start_failing)" = null ]'
	done
	old=$(pid_of coordinator)
	touch full
	kill -9 "$old"
	wait_for 20 says 'the supervisor cannot start coordinator and tries again .*No space left on device' ps-ctl -C "$RUN" status
	run -3 ps-ctl -C "$RUN" status
	# Longer than all of --max-restarts' attempts together.
	wait_for 20 says '\(([5-9]|[0-9][0-9]+) tries' ps-ctl -C "$RUN" status
	rm full
	wait_for 20 is_another coordinator "$old"
	wait_for 20 state_is running
	step=$(status .step)
	wait_for 20 step_is_past $((step + 20))
	grep -q 'started coordinator after [0-9]* failed attempts' "$RUN/supervisor.log"
	ps-ctl -C "$RUN" stop >/dev/null
	none_left "$T"
}

@test "a coordinator that cannot be started until the deadline fails the job, with the reason" {
	# While it trains, no process may be slower than this; the wait for the end lasts as long.
	begin_short_of_disk --set deadline=12s
	wait_for 20 step_is_past 20
	touch full
	kill -9 "$(pid_of coordinator)"
	wait_for 90 test -s "$RUN/result.json"
	rm full
	jq -e '.state == "failed" and (.reason | test("coordinator.*No space left on device"))' "$RUN/result.json"
}

@test "a coordinator that is started again on a full disk waits until its state can be written" {
	endless
	env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY=state.json FS_FULL="$T/full" \
		ps-ctl start lin --set servers=2 --set replicas=2 --set on_worker_loss=wait:600s --set deadline=120s >start.log 2>&1
	RUN=$T/lin.run
	wait_for 20 step_is_past 20
	touch full
	kill -9 "$(pid_of coordinator)"
	wait_for 20 grep -q 'No space left on device: the cluster cannot change until it can be written' "$RUN/coordinator.log"
	rm full
	wait_for 20 state_is running
	step=$(status .step)
	wait_for 20 step_is_past $((step + 20))
	# An order that cannot be written is not confirmed.
	touch full
	run ps-ctl -C "$RUN" pause
	[[ $status -ne 0 && $output == *"the order holds, but the coordinator cannot write it to state.json"* ]]
	rm full
	wait_for 20 ps-ctl -C "$RUN" pause
	# One start was enough.
	[ "$(grep -c 'started coordinator\|restarted coordinator\|restarting coordinator' "$RUN/supervisor.log")" -le 1 ]
	ps-ctl -C "$RUN" stop --discard >/dev/null
	none_left "$T"
}

@test "run tells on standard error what it cannot start" {
	endless
	background env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY=.pid FS_FULL="$T/full" \
		ps-ctl run lin --set servers=2 --set replicas=2
	RUN=$T/lin.run
	wait_for 20 step_is_past 20
	touch full
	kill -9 "$(pid_of server-1)"
	wait_for 20 grep -q 'cannot start server-1: .*No space left on device; trying again' err
	# And the progress line, which comes every 10 s.
	wait_for 30 grep -qE '^cannot start server-1: .*No space left on device; step [0-9]+' err
	rm full
	wait_for 20 grep -q 'started server-1 after' err
	kill "$pid"
	finish
	none_left "$T"
}

# A server that begins with a file, which nobody can read while $T/broken exists.
begin_with_broken_disk() {
	endless
	train lin.json --set steps=20
	cp lin.run/model.safetensors first.safetensors
	sed -i 's|"job": {|"job": { "init": "./first.safetensors",|; s/"workers": 2/"workers": 1/' lin.json
	rm -rf lin.run
	RUN=$T/lin.run
	background env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_ONLY=first.safetensors \
		FS_UNREADABLE="$T/broken" ps-serve lin.json
	wait_for 20 test -S lin.run/ctl.sock
	touch broken
	ps-work train -C lin.run >w.out 2>w.err &
	worker_pid=$!
	wait_for 20 grep -q 'first.safetensors.*Input/output error: trying again for up to 10 s' err
}

# Makes a control group with $1 of memory, whose folder is $group.
make_group() {
	local path
	path=$(awk -F: '$2 == "memory" { print $3 }' /proc/self/cgroup)
	if [ -n "$path" ]; then
		group=/sys/fs/cgroup/memory$path/pskit-$$
		mkdir "$group" 2>/dev/null && echo "$1" 2>/dev/null >"$group/memory.limit_in_bytes"
	else
		group=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/pskit-$$
		mkdir "$group" 2>/dev/null && echo "$1" 2>/dev/null >"$group/memory.max"
	fi
}

@test "a worker without memory: it is named that the kernel has killed it" {
	[ -z "${PS_SANITIZED:-}" ] || skip "programs with sanitizers need more memory"
	make_group 20M || skip "no control group with a limit can be made here"
	awk 'BEGIN { for (i = 0; i < 90000; i++) { for (k = 0; k < 60; k++) printf "%d,", i * k % 977; print i % 2 } }' >big.csv
	cat >big.json <<-END
		{ "servers": 1, "workers": 1, "job": { "model": "logistic", "optimizer": "sgd", "data": "$PWD/big.csv?label=last", "steps": 10,
		  "batch": 16, "lr": 0.1, "data_memory": "1G", "cache": "none" } }
	END
	run -1 sh -c "echo \$\$ >$group/cgroup.procs; exec ps-ctl run big.json"
	# Once the last process in it is gone.
	wait_for 20 eval 'rmdir "$group" 2>/dev/null'
	[[ $output == *'worker-0 ended by SIGKILL, by the kernel: its control group had no memory left'* ]]
	[ "$(jq -r .cause big.run/result.json)" = memory ]
}

@test "a server whose disk fails while it fills its partitions reads again, and says so" {
	begin_with_broken_disk
	rm broken
	wait_for 20 step_is_past 5
	[ "$(grep -c 'trying again' err)" -eq 1 ]
	ps-ctl -C "$RUN" stop --discard >/dev/null
	wait "$worker_pid" || true
	finish || true
}

@test "a server that is asked to end does not go on reading a file that cannot be read" {
	begin_with_broken_disk
	kill -TERM "$pid"
	finish || true
	kill "$worker_pid" 2>/dev/null || true
	wait "$worker_pid" || true
	grep -q 'this process ends, and does not try to read again' err
}
