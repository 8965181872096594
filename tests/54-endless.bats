#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Jobs without an end, changes for steps that are past, and what a fenced worker says.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() { setup_training; }
teardown() { teardown_dir; }

# A program whose loop over the steps ends with the job alone.
write_program() {
	need_numpy
	[ -z "${PS_SANITIZED:-}" ] || skip "a sanitizer must be loaded first"
	ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
	export PYTHONPATH=$ROOT/contrib/python PSKIT_LIBRARY=$BIN/libpskit.so.0 PYTHONDONTWRITEBYTECODE=1
	cat >loop.py <<-END
	import pskit
	with pskit.connect() as ps:
	    $1
	    ps.join("w:4", examples=400)
	    for task in ps.tasks():
	        ps.grad("w")[:] = 0
	        ps.clock(0.0)
	    ps.finish()
	END
}

@test "run --exec: a loop without an end is warned of, with what bounds it" {
	write_program pass
	background ps-ctl run --exec "/usr/bin/python3 $T/loop.py" --set workers=1 --set lease=60s
	RUN=$T/exec.run
	wait_for 30 step_is_past 20
	wait_for 10 grep -q 'warning: the job has neither steps nor epochs.*--set steps=N' err
	[ "$(grep -c 'neither steps nor epochs' err)" -eq 1 ]
	grep -q 'pskit: warning: .*neither steps nor epochs.*ps_set("steps", N)' "$RUN/worker-0.log"
	kill -INT "$pid"
	finish
}

@test "run --exec: no warning where the command line or the program says when it ends" {
	write_program pass
	ps-ctl run --exec "/usr/bin/python3 $T/loop.py" --set workers=1 --set lease=60s --set steps=20 >out 2>err
	grep -q '^done: 20 steps' out
	! grep -q 'neither steps' err exec.run/worker-0.log
	write_program 'ps.set("steps", 20)'
	ps-ctl run --exec "/usr/bin/python3 $T/loop.py" --set workers=1 --set lease=60s >out 2>err
	grep -q '^done: 20 steps' out
	! grep -q 'neither steps' err exec.run/worker-0.log
}

@test "set --at a step that is past is refused" {
	endless
	begin lin.json
	wait_for 20 step_is_past 50
	run -2 --separate-stderr ps-ctl set -C "$RUN" --at step=20 lr=0.1
	[[ $stderr == *"step 20 has passed: the fastest worker is at step "* ]]
	run -2 --separate-stderr ps-ctl set -C "$RUN" --at step=20 -n lr=0.1
	[ "$(status .settings)" -eq 0 ]
	run -0 ps-ctl set -C "$RUN" --at step=99999999 lr=0.1
	ps-ctl stop -C "$RUN" --discard >/dev/null
}

@test "a supervised worker that is fenced is not told to start ps-work" {
	endless
	begin lin.json --set lease=1s
	wait_for 20 step_is_past 50
	kill -STOP "$(cat "$RUN/worker-1.pid")"
	wait_for 30 eval 'ps-ctl -C "$RUN" events worker_lost | grep -q worker-1'
	kill -CONT "$(cat "$RUN/worker-1.pid")"
	wait_for 20 grep -q 'declared lost and its rank given up' "$RUN/worker-1.log"
	! grep -r 'start ps-work' "$RUN"/*.log
	ps-ctl stop -C "$RUN" --discard >/dev/null
}
