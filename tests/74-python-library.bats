#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Workers and clients in Python, by the C library.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	need_numpy
	[ -z "${PS_SANITIZED:-}" ] || skip "a sanitizer must be loaded first"
	ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
	export PYTHONPATH=$ROOT/contrib/python PSKIT_LIBRARY=$BIN/libpskit.so.0 PYTHONDONTWRITEBYTECODE=1
	awk 'BEGIN { srand(7); for (i = 0; i < 400; i++) { a = rand(); b = rand(); c = rand()
		print a "," b "," c "," 3 * a - 2 * b + c / 2 + 1 } }' >linear.csv
	RUN=$T/c.run
}

teardown() {
	teardown_dir
}

job() {
	cat >c.json <<-END
	{ "workers": 2, "servers": 2, "lease": "2s", "job": { "model": "custom", "command": "/usr/bin/python3 $1", "batch": 50, "lr": 0.5, $2 } }
	END
}

@test "the example trains what its sisters in C train" {
	job "$ROOT/contrib/python/linear.py" '"epochs": 10'
	[ "$(wc -l <"$ROOT/contrib/python/linear.py")" -le 15 ]
	train c.json --set servers=1 --set deterministic=true
	has .steps 40
	loss=$(res .train_loss)
	cc -O2 -I"$ROOT/lib/pskit" -o linear "$ROOT/contrib/examples/c/linear.c" -L"$BIN" -lpskit -Wl,-rpath,"$BIN"
	train c.json --set servers=1 --set deterministic=true --set command=./linear
	figure "loss in Python $loss, in C $(res .train_loss)"
	jq -ne "($loss - $(res .train_loss) | fabs) < 1e-6"
	train c.json --set sync=asp
	has .examples 4000
}

@test "a worker that ends without a word is lost at once, by its exit code and last line" {
	cat >quits.py <<-'END'
	import os, sys, pskit

	with pskit.connect() as ps:
	    ps.join("w:3x2", examples=1000)
	    for task in ps.tasks():
	        if ps.rank == 1 and task.step == 5:
	            print("there is no room for the model", file=sys.stderr, flush=True)
	            os._exit(7)
	        ps.grad("w")[:] = 1
	        ps.clock(0.5)
	END
	job quits.py '"epochs": 1000'
	# Silence alone would take the hour of the lease.
	run --separate-stderr timeout 300 ps-ctl run c.json --json --set lease=1h --set on_worker_loss=fail
	[ "$status" -eq 1 ]
	[[ $(jq -r .reason <<<"$output") == *"worker-1 is lost (ended with code 7: there is no room for the model"* ]]
	grep '"worker_lost"' c.run/events.jsonl | grep -q 'is lost: ended with code 7: there is no room for the model'
}

@test "tables, rows, scores, views without copies, and what is refused" {
	cat >calls.py <<-'END'
	import numpy as np, pskit, sys

	def refused(code, f, *args, **more):
	    try:
	        f(*args, **more)
	    except pskit.Error as e:
	        assert e.code == code and str(e), e
	    else:
	        raise AssertionError("it was not refused")

	said = []
	with pskit.connect(log=lambda level, text: said.append(text)) as ps:
	    refused(2, ps.clock, 0)
	    ps.join("w:3x2,emb:100x2:sparse", examples=1000)
	    assert any("joined as worker" in s for s in said), said
	    w = None
	    for task in ps.tasks():
	        assert 0 < len(task) == task.end - task.begin <= 50
	        w = ps.param("w")
	        assert w.shape == (3, 2) and (w == -0.5 * task.step).all() and not w.flags.writeable and not w.flags.owndata
	        ids = [1, 10, 100 + ps.rank]
	        rows = ps.pull("emb", ids)
	        assert rows.shape == (3, 2)
	        ps.grad("w")[:] = 1
	        ps.push("emb", np.ones((3, 2)), ids)
	        refused(4, ps.grad, "v")
	        refused(2, ps.push, "w", np.ones(5))
	        ps.clock(0.5)
	    ps.finish(lambda h: {"rmse": float(h.param("w")[0, 0]), "mood": 1, "auc": float("nan"), "examples": 7})
	    print("mood was", "left out" if any('score "mood" is ignored' in s for s in said) else "taken")
	try:
	    ps.pull("w")
	except ValueError as e:
	    assert "closed" in str(e)
	END
	job calls.py '"steps": 20'
	begin c.json
	ps-ctl wait --for done --timeout 30s
	[ "$(http GET /v1/result | jq -c '.eval | [.rmse, .examples, has("auc", "mood")]')" = '[-10,7,false,false]' ]
	grep -qx "mood was left out" "$RUN"/worker-*.log
	/usr/bin/python3 - "$RUN" <<-'END'
	import numpy as np, pskit, sys
	with pskit.connect(sys.argv[1]) as ps:
	    assert [(t.name, t.shape, t.sparse) for t in ps.tables()] == [("w", (3, 2), False), ("emb", (0, 2), True)], ps.tables()
	    assert (ps.pull("w") == -10).all()
	    out = np.empty((3, 2), np.float32)
	    ps.push("w", np.ones((3, 2)))
	    assert ps.pull("w", out=out) is out and (out == -10.5).all()
	    assert ps.pull("emb", [10, 100, 101, 5])[:, 0].tolist() == [-10, -5, -5, 0]
	    ps.push("emb", [[2, 4]], [5])
	    assert ps.pull("emb", [5]).tolist() == [[-1, -2]]
	    for bad in (np.empty((3, 2)), np.empty((6, 2), np.float32)[::2], np.empty(5, np.float32)):
	        try:
	            ps.pull("w", out=bad)
	            raise AssertionError(bad)
	        except ValueError:
	            pass
	try:
	    pskit.connect("/nowhere")
	    raise AssertionError
	except pskit.Error as e:
	    print(e)
	END
	ps-ctl stop >/dev/null
	none_left "$T"
}

@test "the keyboard interrupts what waits; a script that fails leaves the job to the others" {
	cat >waits.py <<-'END'
	import os, pskit, sys
	with pskit.connect() as ps:
	    ps.join("w:1", examples=400)
	    for task in ps.tasks():
	        if os.path.exists(f"sleep.{ps.rank}"):
	            import time
	            time.sleep(1000)
	        if os.path.exists(f"fail.{ps.rank}"):
	            raise RuntimeError("no such luck")
	        ps.grad("w")[:] = 0
	        ps.clock(1)
	    ps.finish()
	END
	job waits.py '"steps": '$ENDLESS
	begin c.json --set quota_pushes=200 --set workers=3 --set on_worker_loss=wait:60s
	wait_for 20 step_is_past 20
	# worker-1 waits for worker-0, in the library.
	touch sleep.0
	wait_for 20 eval 'ps-stat -C "$RUN" why | grep -q "^worker-1, worker-2 wait for worker-0"'
	kill -INT "$(worker 1 .pid)"
	wait_for 10 grep -q KeyboardInterrupt "$RUN/worker-1.log"
	wait_for 10 worker_is 1 left
	rm sleep.0
	kill -INT "$(worker 0 .pid)"
	wait_for 10 worker_is 0 left
	at=$(worker 2 .step)
	wait_for 10 eval '[ "$(worker 2 .step)" -gt '$((at + 20))' ]'
	touch fail.2
	wait_for 10 grep -q 'RuntimeError: no such luck' "$RUN/worker-2.log"
	[ "$(http GET /v1/events | jq '[.events[] | select(.event == "worker_lost")] | length')" -eq 0 ]
	ps-ctl stop >/dev/null || true
	none_left "$T"
}

@test "handlers of signals run while a call waits: what one raises ends the call, what it calls is refused" {
	cat >hears.py <<-'END'
	import os, pskit, signal, sys, threading

	def refused(f):
	    try:
	        f()
	    except pskit.Error as e:
	        assert e.code == 2, e
	        return str(e)
	    raise AssertionError("it was not refused")

	def note(_number, _frame):
	    print("noted:", refused(lambda: ps.table("w")), flush=True)

	def end(_number, _frame):
	    raise SystemExit("ended by a handler")

	signal.signal(signal.SIGUSR1, note)
	signal.signal(signal.SIGTERM, end)
	with pskit.connect(rank=0) as ps:
	    if sys.argv[1] == "score":
	        ps.join("w:1", examples=10)
	        for task in ps.tasks():
	            ps.grad("w")[:] = 0
	            ps.clock()
	        ps.finish(lambda h: os.kill(os.getpid(), signal.SIGTERM) or {})
	    if sys.argv[1] == "thread":
	        def other():
	            print("refused:", refused(lambda: ps.set("lr", 1)), flush=True)
	            os.kill(os.getpid(), signal.SIGTERM)
	        signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=other).start())
	    print("waits", flush=True)
	    ps.join("w:1", examples=10)
	END
	echo '{ "workers": 2, "lease": "2s", "job": { "model": "custom", "batch": 1 } }' >own.json
	begin own.json
	export PS_CLUSTER=$T/own.run
	background /usr/bin/python3 hears.py note
	wait_for 20 grep -q waits out
	for n in 1 2; do
		kill -USR1 "$pid"
		wait_for 10 eval '[ "$(grep -c "noted: a call is under way" out)" -eq '$n' ]'
	done
	kill "$pid"
	finish
	[ "$status" -eq 1 ]
	grep -x 'ended by a handler' err
	rm out
	background /usr/bin/python3 hears.py thread
	wait_for 20 grep -q waits out
	kill -USR1 "$pid"
	finish
	grep -q 'refused: another thread is using' out
	grep -x 'ended by a handler' err
	ps-ctl -C "$PS_CLUSTER" stop >/dev/null || true
	unset PS_CLUSTER
	# In a callback.
	job "hears.py score" '"examples": 10, "epochs": 1'
	run ps-ctl run c.json --set workers=1
	[ "$status" -ne 0 ]
	grep -x 'ended by a handler' c.run/worker-0.log
	none_left "$T"
}

@test "what a program has set outlives the coordinator, and goes into checkpoints" {
	cat >sets.py <<-'END'
	import pskit
	with pskit.connect() as ps:
	    for key, value in (("epochs", 200), ("batch", 50), ("sync", "ssp:2"), ("lr", 0.5), ("optimizer", "momentum"), ("momentum", 0.25)):
	        ps.set(key, value)
	    ps.begin_with("w", [7, 8, 9])
	    ps.join("w:3,b:2", examples=400)
	    assert [ps.setting(k) for k in ("epochs", "sync", "lr", "momentum")] == ["200", "ssp:2", "0.125", "0.25"]
	    for task in ps.tasks():
	        if task.step == 0:
	            assert ps.param("w").tolist() == [7, 8, 9] or ps.rank and ps.param("w")[0] < 7, ps.param("w")
	        ps.grad("w")[:] = 1e-3
	        ps.grad("b")[:] = 0
	        ps.clock()
	    ps.finish()
	END
	cat >c.json <<-'END'
	{ "workers": 2, "servers": 2, "replicas": 2, "job": { "model": "custom", "command": "/usr/bin/python3 sets.py", "lr": 0.125 } }
	END
	begin c.json "${HELD[@]}"
	wait_for 20 step_is_past 10
	kill -9 "$(cat "$RUN/coordinator.pid")"
	wait_for 20 eval 'grep -q "the coordinator.*again\|coordinator_back\|recover" "$RUN"/events.jsonl "$RUN"/coordinator.log'
	wait_for 20 state_is running
	let_go
	ps-ctl wait --for done --timeout 180s
	[ "$(http GET /v1/result | jq .examples)" -ge 80000 ]
	ps-ctl stop >/dev/null
	none_left "$T"
	# Stopped, and taken up again: from the checkpoint, and not from the first values.
	begin c.json --set replicas=1 --set checkpoint_every=10 "${HELD[@]}"
	wait_for 20 eval 'ls -d "$RUN"/checkpoints/step-* 2>/dev/null | grep -q .'
	ps-ctl stop >/dev/null
	begin c.json --set replicas=1 --set checkpoint_every=10 "${HELD[@]}" --resume auto
	wait_for 20 step_is_past 10
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	grep -q 'resuming from' "$RUN"/server-0.log
	has .state done
	jq -e '.steps > 300' <<<"$RESULT"
}

@test "a worker that comes late goes by what the job has begun with, and says what it wanted" {
	cat >late.py <<-'END'
	import os, pskit, sys
	lr, batch = sys.argv[1:]
	with pskit.connect(log=lambda level, text: print(text), log_level=1) as ps:
	    for key, value in (("lr", lr), ("batch", batch), ("epochs", 1000000000)):
	        ps.set(key, value)
	    ps.begin_with("w", [float(lr)])
	    ps.join("w:1", examples=1000)
	    for task in ps.tasks():
	        with open(f"began.{ps.rank}", "w") as f:
	            print(ps.setting("lr"), len(task), float(ps.param("w")[0]), file=f)
	        ps.grad("w")[:] = 0
	        ps.clock()
	        if os.path.exists("enough"):
	            break
	    ps.finish()
	END
	echo '{ "workers": "1:2", "job": { "model": "custom" } }' >own.json
	begin own.json
	PS_CLUSTER=$RUN background /usr/bin/python3 late.py 0.5 10
	wait_for 20 [ -s began.0 ]
	PS_CLUSTER=$RUN background /usr/bin/python3 late.py 0.25 20
	wait_for 20 [ -s began.1 ]
	touch enough
	finish
	cat out err
	[ "$status" -eq 0 ]
	ps-ctl wait --for done --timeout 30s
	[ "$(cat began.0)" = "0.5 10 0.5" ]
	[ "$(cat began.1)" = "0.5 10 0.5" ]
	grep -x 'job.lr is 0.5 in this job, not 0.25 as requested by the program' out
	ps-ctl stop >/dev/null
}

@test "a worker has no say in what a job of another model begins with" {
	mkfifo never.csv
	echo '{ "workers": 2, "job": { "model": "linear", "data": "never.csv", "epochs": 1 } }' >lin.json
	RUN=$T/lin.run
	background ps-ctl run lin
	wait_for 20 eval '[ "$(status .state 2>/dev/null)" = forming ]'
	/usr/bin/python3 - "$RUN" <<-'END'
	import json, os, sys
	import psclient
	run = sys.argv[1]
	psk, secret = psclient.read_key(run, "psk"), psclient.read_key(run, "worker-1.key")
	s = psclient.Session(os.path.join(run, "coordinator.sock"), psclient.read_key(run, "coordinator.pub"), psk, secret)
	join = {"op": "worker_join", "rank": 1, "pid": 1, "host": "h", "zone": "", "examples": 10,
	        "tables": [{"name": "w", "rows": 3, "cols": 1}]}
	for more in ({"settings": {"lr": "100"}}, {"settings": {"steps": "1"}}):
	    s.send(psclient.CTL, json.dumps({**join, **more}).encode(), seq=1)
	    answer = s.text()
	    assert "a worker can set keys only with model custom" in answer["error"]["message"], answer
	END
	[ "$(http GET /v1/config | jq -c '[.job.lr, .job.steps]')" = '[1,0]' ]
	kill "$pid"
	finish
	[ "$status" -eq 143 ]
}

@test "pip installs it" {
	/usr/bin/python3 -c 'import pip, setuptools' 2>/dev/null || skip "python3-pip and python3-setuptools are not installed"
	cp -r "$ROOT/contrib/python" src
	/usr/bin/python3 -m pip install --quiet --no-index --no-build-isolation --no-deps --target there ./src
	PYTHONPATH=$T/there /usr/bin/python3 -c 'import pskit; print(pskit.__file__, pskit.version())' | grep "^$T/there/"
}
