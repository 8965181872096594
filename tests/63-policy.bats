#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Rows of sparse tables that come and go: who is admitted, who is wide, who expires, and what is counted of it.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	ln -s "$BATS_FILE_TMPDIR/tail.svm" .
	cat >c.json <<-JSON
	{ "servers": 2, "workers": 2, "deterministic": true, "on_worker_loss": "wait:10m",
	  "job": { "model": "logistic", "data": "tail.svm", "eval": "tail.svm",
	  "epochs": 4, "batch": 20, "optimizer": "adagrad", "lr": 0.1 } }
	JSON
}

teardown() {
	teardown_dir
}

# Each example has 10 features of 40 which often come, by which the classes differ, and 10 of a
# long tail that moves on with the examples.
setup_file() {
	awk 'BEGIN {
		srand(5)
		for (i = 0; i < 3000; i++) {
			delete on
			score = 0
			for (k = 0; k < 10; k++)
				on[int(rand() * 40) + 1] = 1
			for (k = 0; k < 10; k++)
				on[41 + i * 3 + int(1500 * rand() * rand())] = 1
			for (k = 1; k <= 40; k++)
				if (k in on) score += k % 2 ? 1 : -1
			printf "%d", (score + rand() - 0.5 > 0)
			for (k = 1; k <= 40; k++)
				if (k in on) printf " %d:1", k
			for (k = 41 + i * 3; k < 1541 + i * 3; k++)
				if (k in on) printf " %d:1", k
			print ""
		}
	}' >"$BATS_FILE_TMPDIR/tail.svm"
}

POLICY=admit=3,decay=200,expire=20,memory=64K

# counted FILTER: of the sparse table, w of logistic and v of fm.
counted() {
	http GET /v1/tables | jq -r ".tables[] | select(.id == \"w\" or .id == \"v\") | $1"
}

@test "sparse: ids that come often get rows, others do not, and the model is as good" {
	train c.json
	all=$(res .eval.accuracy)
	ps-ctl export w -C c.run -o text >all.txt
	train c.json --set sparse=admit=40
	figure "accuracy $all with $(wc -l <all.txt) rows, $(res .eval.accuracy) with $(ps-ctl export w -C c.run -o text | tee few.txt | wc -l)"
	at_least .eval.accuracy "$all - 0.08"
	# All of the 40 are there, and few of the tail; what is there has the same ids as before.
	[ "$(wc -l <few.txt)" -lt $(($(wc -l <all.txt) / 3)) ]
	[ "$(grep -cE '^w\[([0-9]|[1-3][0-9]),' few.txt)" -eq 40 ]
	[ -z "$(comm -13 <(cut -f1 all.txt | sort) <(cut -f1 few.txt | sort))" ]
	train c.json --set sparse=admit=0.01
	[ "$(ps-ctl export w -C c.run -o text | wc -l)" -lt $(($(wc -l <all.txt) / 3)) ]
}

@test "the same bits on any number of servers, through kill -9 and a resume" {
	jq '.job.model = "fm" | .job.factors = 4' c.json >fm.json
	mv fm.json c.json
	train c.json --set epochs=10 --set sparse=$POLICY
	want=$(res .model_digest)
	train c.json --set epochs=10 --set sparse=none
	[ "$(res .model_digest)" != "$want" ]
	# A server that is killed: the others have what its policy goes by.
	begin c.json --set epochs=10 --set sparse=$POLICY --set servers=3 --set replicas=2 --max-restarts 3 "${HELD_SPARSE[@]}"
	wait_for 20 step_is_past 10
	kill -9 "$(cat "$RUN/server-1.pid")"
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done
	has .model_digest "$want"
	ps-ctl stop -C "$RUN" >/dev/null
	# A job that is stopped, and goes on from its checkpoint on fewer servers.
	begin c.json --set epochs=10 --set sparse=$POLICY --set checkpoint_every=30 "${HELD_SPARSE[@]}"
	wait_for 20 step_is_past 40
	ps-ctl pause -C "$RUN" >/dev/null
	ps-ctl checkpoint -C "$RUN" >/dev/null
	was=$(counted '.offered')
	ps-ctl stop -C "$RUN" >/dev/null
	ps-ctl checkpoint verify -C "$RUN"
	begin c.json --set epochs=10 --set sparse=$POLICY --set checkpoint_every=30 "${HELD_SPARSE[@]}" --resume auto
	wait_for 20 step_is_past 40
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done
	has .model_digest "$want"
	# The counts have gone on, too.
	[ "$(counted '.offered')" -gt "$was" ]
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "what became of the rows is counted: over HTTP, in ps-stat tables, for Prometheus" {
	begin c.json --set sparse=$POLICY --set replicas=2 --set deterministic=false --set on_worker_loss=shrink --set sync=asp
	wait_for 60 over
	# The last heartbeat has come.
	wait_for 10 eval '[ "$(counted ".expired > 0 and .evicted > 0")" = true ]'
	# What was admitted is there, or has gone.
	wait_for 10 eval '[ "$(counted ".admitted == .live_rows + .expired + .evicted")" = true ]'
	[ "$(counted '.refused > 0 and .offered > .refused and .bytes > 0')" = true ]
	[ "$(counted .policy)" = "admit=3,decay=200,expire=20,memory=65536" ]
	# Dense ones have none.
	[ "$(http GET /v1/tables | jq -c '.tables[] | select(.id == "b") | [.live_rows, .bytes, .offered, .policy]')" = '[1,4,null,null]' ]
	ps-stat tables -C "$RUN" | tee /dev/stderr | grep -qE '^ *w +sparse'
	ps-stat tables -C "$RUN" -k id,live,offered,admitted,refused,expired,evicted,policy --json |
		jq -es '.[] | select(.id == "w") | .offered > 0'
	curl -s --unix-socket "$RUN/ctl.sock" http://x/metrics >m
	for what in offered admitted refused expired evicted; do
		[ "$(sed -n "s/^ps_table_rows_${what}_total{table=\"w\"} //p" m)" = "$(counted ".$what")" ]
	done
	[ "$(sed -n 's/^ps_table_rows{table="w"} //p' m)" = "$(counted .live_rows)" ]
	if command -v promtool >/dev/null; then promtool check metrics <m; fi
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "a table of its own policy, where no job is; a policy that is wrong is refused" {
	printf '{ "servers": 2, "replicas": 2, "sparse": "admit=2" }' >none.json
	begin none.json
	ps-ctl table add mine -C "$RUN" --sparse --cols 2 --policy expire=5,changes
	[ "$(http GET /v1/tables | jq -r '.tables[] | select(.id == "mine").policy')" = expire=5,changes ]
	# A thousand ids, three times: the second time they are admitted.
	ps-work bench -C "$RUN" --op push --sparse 1000 --iters 3 --json >/dev/null
	wait_for 10 eval '[ "$(http GET /v1/tables | jq ".tables[] | select(.id | startswith(\"bench\")) | .live_rows == 1000 and
		.admitted == 1000 and .refused == 1000 and .offered >= 3000")" = true ]'
	refuses() {
		run -"$1" --separate-stderr ps-ctl table add bad -C "$RUN" "${@:3}"
		[[ $stderr == *"$2"* ]] || { echo "$stderr"; false; }
	}
	refuses 78 'policy: admit: must be a number of times, 1 to 255, or a chance' --sparse --policy admit=999
	refuses 78 'policy: must be none, or some of admit=N|P' --sparse --policy often
	refuses 78 'policy: requires a sparse table' --rows 5 --policy admit=2
	ps-ctl stop -C "$RUN" >/dev/null
	run -78 --separate-stderr ps-ctl run none.json --set sparse=decay=7
	[[ $stderr == *'sparse: decay: requires admit=N'* ]]
	run -78 --separate-stderr ps-ctl run none.json --set sparse=admit=2,sketch=65G
	[[ $stderr == *'sparse: sketch: must be at most 64G, got "65G"'* ]]
	run -78 --separate-stderr ps-ctl run none.json --set sparse=admit=2,sketch=8G --set mem_limit=1G
	[[ $stderr == *'sparse: sketch=8589934592 needs '*' bytes on each of '*' servers, but mem_limit is 1073741824'* ]]
	# More than this host has: a server says so, and does not end at the first push.
	[ "$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)" -lt 60 ] || return 0
	printf '1 1:1\n0 2:1\n' >two.svm
	echo '{ "job": { "model": "logistic", "optimizer": "sgd", "lr": 0.1, "data": "two.svm", "steps": 2 } }' >job.json
	run -1 --separate-stderr ps-ctl run job.json --set sparse=admit=2,sketch=64G
	[[ $stderr == *'the counts for admit (sketch): it needs 68719476736 bytes'*'which has '*' left'* ]]
}

# merged BASE DELTA: like a server of answers has it who has read the one and then the other; says how many rows came.
merged() {
	/usr/bin/python3 - "$@" <<-'PY'
	import json, struct, sys
	def read(path):
	    b = open(path, "rb").read()
	    n = struct.unpack("<Q", b[:8])[0]
	    head, data = json.loads(b[8:8 + n]), b[8 + n:]
	    take = lambda k, f: [x for x, in struct.iter_unpack(f, data[slice(*head[k]["data_offsets"])])] if k in head else None
	    return dict(zip(take("w.ids", "<Q"), take("w", "<f"))), take("w.live", "<Q"), head["__metadata__"]
	base, _, meta = read(sys.argv[1])
	delta, live, after = read(sys.argv[2])
	assert after["since"] == meta["step"] and int(after["step"]) >= int(meta["step"])
	base.update(delta)
	if live is not None:
	    base = {i: base[i] for i in live}
	full, none, _ = read(sys.argv[3])
	assert none is None and base == full, (len(base), len(full))
	print(len(delta), len(full), live is not None)
	PY
}

# Nothing changes any more: all rest, and what they have pushed is there.
rests() {
	ps-ctl pause -C "$RUN" >/dev/null
}

@test "export --since: what has changed, and what is left, makes the whole" {
	need_numpy
	for sync in bsp ssp:5; do
		begin c.json --set epochs=1000000000 --set batch=1 --set quota_pushes=500 --set sparse=admit=2,expire=100 --set replicas=2 --set deterministic=false --set on_worker_loss=shrink \
			--set sync=$sync
		wait_for 20 step_is_past 150
		rests
		ps-ctl export w -C "$RUN" --since 0 >base.st 2>said
		[[ $(cat said) =~ ^"ps-ctl: to export later changes: --since "([0-9]+)$ ]]
		since=${BASH_REMATCH[1]}
		[ "$since" -gt 0 ]
		# So slow that some rows do not change before the job rests again, however busy the host is.
		ps-ctl set -C "$RUN" quota_pushes=20 >/dev/null
		ps-ctl resume -C "$RUN" >/dev/null
		wait_for 20 step_is_past $((since + 10))
		rests
		ps-ctl export w -C "$RUN" --since "$since" >delta.st 2>/dev/null
		ps-ctl export w -C "$RUN" --since 0 >full.st 2>/dev/null
		run -0 merged base.st delta.st full.st
		figure "$sync: $output"
		read -r came all gone <<<"$output"
		[ "$came" -lt "$all" ]
		[ "$came" -gt 0 ]
		[ "$gone" = True ]
		ps-ctl stop -C "$RUN" >/dev/null
		none_left "$T"
	done
	run -3 --separate-stderr ps-ctl export w -C c.run --since 5
	[[ $stderr == *'is not running, but --since requires running servers'* ]]
}

@test "export --since: where it is not known what changed it says so" {
	begin c.json --set epochs=1000000000 --set quota_pushes=800
	wait_for 20 step_is_past 5
	run -78 --separate-stderr ps-ctl export w -C "$RUN" --since 5
	[[ $stderr == *'does not record the changes of its rows: its policy must have changes, expire or memory'* ]]
	run -2 --separate-stderr ps-ctl export w -C "$RUN" --since 5 -o text
	[[ $stderr == *'--since requires -o safetensors'* ]]
	ps-ctl stop -C "$RUN" >/dev/null
}

# bats test_tags=slow
@test "checkpoint_deltas: checkpoints of what has changed are small, whole by themselves, and go on in the same bits" {
	local policy=admit=2,sketch=4K,expire=400 run="--set batch=4 --set steps=3000 --set epochs=0 --set keep_last=2 --set checkpoint_deltas=3"
	train c.json $run --set sparse=$policy
	want=$(res .model_digest)
	begin c.json $run --set sparse=$policy --set quota_pushes=80
	wait_for 20 step_is_past 100
	# A whole one, two of changes to it, of which one is pruned; the whole one stays.
	for i in 1 2 3; do
		ps-ctl checkpoint -C "$RUN" >/dev/null
	done
	ps-ctl stop -C "$RUN" >/dev/null
	[ -z "$(ps-ctl events -C "$RUN" --json checkpoint_failed)" ]
	[ "$(ls "$RUN/checkpoints" | wc -l)" -eq 3 ]
	ps-ctl checkpoint verify -C "$RUN"
	newest=$(ls -d "$RUN"/checkpoints/step-* | tail -n 1)
	manifest() { jq -r "$1" "$newest/MANIFEST.json"; }
	manifest '.base_step < .step' | grep -qx true
	figure "$(stat -c '%n %s' "$newest"/*server-0.* | sed 's,.*/,,' | xargs)"
	for kind in params state; do
		[ "$(stat -c %s "$newest/server-0.$kind.safetensors")" -lt "$(stat -c %s "$newest/base-server-0.$kind.safetensors")" ]
	done
	begin c.json $run --set sparse=$policy --set quota_pushes=80 --resume "step=$(manifest .step)"
	wait_for 20 step_is_past "$(manifest .step)"
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .state done
	has .model_digest "$want"
	ps-ctl stop -C "$RUN" >/dev/null
	# One whose base is damaged is damaged; of an id in it that is not there any more another file's fault would be told.
	file=$newest/base-server-0.params.safetensors
	flip_byte "$file" $(($(stat -c %s "$file") - 1))
	run -1 ps-ctl checkpoint verify "$newest"
	[[ $output == *'base-server-0.params.safetensors" is damaged'* ]]
}
