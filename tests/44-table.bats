#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Tables that are added, grown and dropped while a job runs.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	need_numpy
}
teardown() { teardown_dir; }

# job NAME [members [job members]]: it ends when it is stopped.
job() {
	local sgd=', "optimizer": "sgd"'
	[ -e train.csv ] || write_csv train.csv
	cat >"$1.json" <<-END
	{ $(paced "${STEPS:-$ENDLESS}") "servers": 3, "workers": 2, "replicas": 2 ${2:-},
	  "job": { "model": "linear", "data": "train.csv?label=y&scale=none", "batch": 16, "lr": 0.5, "steps": ${STEPS:-$ENDLESS} ${3:-$sgd} } }
	END
}

pid_of() { cat "$RUN/$1.pid"; }
py() { /usr/bin/python3 -c "import sys, numpy as np; $1" "${@:2}"; }
# push TABLE ROWS COLS: a gradient of ones.
push() {
	/usr/bin/python3 -S "$LIB/arrays.py" ones "$2" "$3" | ps-work push "$1" -C "$RUN"
}
# holds TABLE EXPRESSION: of the array a, without numpy, which takes ten times as long to begin (tests/lib/arrays.py).
holds() {
	ps-work pull "$1" -C "$RUN" >pulled.npy || return 1
	/usr/bin/python3 -S "$LIB/arrays.py" holds pulled.npy "$2"
}
# holds_numpy TABLE EXPRESSION: of the array a of numpy.
holds_numpy() {
	ps-work pull "$1" -C "$RUN" >pulled.npy || return 1
	py 'a = np.load("pulled.npy"); sys.exit(0 if eval(sys.argv[1]) else str((a.shape, np.unique(a)[:9])))' "$2"
}
table() { ps-ctl table "$1" -C "$RUN" "${@:2}"; }
tables() { http GET /v1/tables | jq -c '[.tables[] | select(.added).id]'; }

@test "added, pushed to, grown and dropped, in bsp, asp and ssp, and the job goes on" {
	job c
	begin c.json
	wait_for 20 step_is_past 20
	for sync in bsp asp ssp:2; do
		ps-ctl set -C "$RUN" sync=$sync >/dev/null
		run -0 table add emb --rows 100 --cols 4
		[[ $output =~ ^"emb is added, from step "([0-9]+)" on"$ ]]
		at=${BASH_REMATCH[1]}
		holds emb 'a.shape == (100, 4) and (a == 0).all()'
		push emb 100 4
		holds emb '(a == -0.5).all()'
		run -0 table grow emb --rows 300 --json
		jq -e '.kind == "table_change" and .step >= '"$at" <<<"$output"
		holds emb 'a.shape == (300, 4) and (a[:100] == -0.5).all() and (a[100:] == 0).all()'
		push emb 300 4
		# Over several partitions, of which the first stay as short as they were.
		table grow emb --rows 70000
		push emb 70000 4
		holds emb '(a[:100] == -1.5).all() and (a[100:300] == -1).all() and (a[300:] == -0.5).all()'
		[ "$(http GET /v1/tables | jq -c '.tables[] | select(.id == "emb") | [.rows, .cols, .partitions, .added]')" = '[70000,4,7,true]' ]
		ps-ctl export emb -C "$RUN" -o npy | cmp - pulled.npy
		table drop emb
		[ "$(tables)" = "[]" ]
		run -4 --separate-stderr ps-work pull emb -C "$RUN"
		[[ $stderr == *'there is no table "emb"; there are: w, b'* ]]
	done
	ps-ctl events -C "$RUN" --json table | jq -r .text | grep -q "^table emb has 70000 rows, by local, from step [0-9]* on$"
	wait_for 20 step_is_past $(($(status .step) + 40))
	[ "$(http GET /v1/servers | jq '[.servers[].pushes_refused] | add')" -eq 0 ]
	# What was dropped takes no room any more.
	[ "$(http GET /v1/servers | jq '[.servers[].parameters] | add')" -lt 100 ]
	ps-ctl stop -C "$RUN" >/dev/null
	none_left "$T"
}

@test "each optimizer's state begins with the table, and goes on with the rows that were there" {
	job c '' ', "optimizer": "momentum", "momentum": 0.5'
	begin c.json
	wait_for 20 step_is_past 20
	table add emb --rows 10
	push emb 10 1
	table grow emb --rows 20
	push emb 20 1
	# -0.5, then -0.75 for those with a velocity, -0.5 for the new ones.
	holds emb '(a[:10] == -1.25).all() and (a[10:] == -0.5).all()'
	ps-ctl set -C "$RUN" optimizer=adagrad lr=0.5 >/dev/null
	table add other --rows 10
	push other 10 1
	holds_numpy other '(np.abs(a + 0.5) < 0.3).all() and (a < 0).all()'
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "first values: zeros, uniform, and those of rows that come later" {
	job c
	begin c.json
	wait_for 20 step_is_past 1
	table add u --rows 5000 --cols 2 --init uniform:0.25
	holds_numpy u 'abs(a).max() <= 0.25 and abs(a).max() > 0.24 and abs(a.mean()) < 0.02 and len(np.unique(a)) > 9000'
	cp pulled.npy before.npy
	table grow u --rows 100000
	holds_numpy u '(a[:5000] == np.load("before.npy")).all() and abs(a).max() <= 0.25 and len(np.unique(a)) > 190000'
	table add s --sparse --cols 3
	[ "$(http GET /v1/tables | jq -c '.tables[] | select(.id == "s") | [.type, .partitions]')" = '["sparse",16]' ]
	run -0 ps-work pull s -C "$RUN"
	[ -z "$output" ]
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "what was added outlives servers and the coordinator that are killed" {
	job c
	begin c.json --max-restarts 9
	wait_for 20 step_is_past 20
	table add emb --rows 70000 --cols 2
	push emb 70000 2
	# Of each partition there are two copies; who takes the dead one's place is given them.
	for victim in server-1 server-2; do
		n=$(ps-ctl events -C "$RUN" --json copied | wc -l)
		kill -9 "$(pid_of "$victim")"
		wait_for 20 eval '[ "$(http GET /v1/layout | jq "[.tables[].runs[] | select((.[2] | length) < 2 or .[3] >= 0)] | length")" = 0 ] &&
			[ "$(ps-ctl events -C "$RUN" --json copied | wc -l)" -gt '"$n"' ]'
		holds emb '(a == -0.5).all()'
	done
	kill -9 "$(pid_of coordinator)"
	# A command waits for the one that is started in its place.
	table add other --rows 5
	table drop other
	wait_for 20 eval '[ "$(status .state)" = running ] && ps-ctl events -C "$RUN" --json recovered | grep -q .'
	wait_for 20 holds emb '(a == -0.5).all()'
	table grow emb --rows 80000
	push emb 80000 2
	holds emb 'a.shape == (80000, 2) and (a[:70000] == -1).all() and (a[70000:] == -0.5).all()'
	table drop emb
	table add emb --rows 5
	holds emb 'a.shape == (5, 1)'
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "it is in checkpoints: a run that goes on has it, grown as it was, and can grow it further" {
	job c
	begin c.json
	wait_for 20 step_is_past 20
	table add emb --rows 100 --cols 2
	table add gone --rows 9
	table grow emb --rows 70000
	push emb 70000 2
	table drop gone
	ps-ctl checkpoint -C "$RUN"
	ps-ctl stop -C "$RUN" >/dev/null
	ps-ctl checkpoint verify -C "$RUN"
	begin c.json --resume auto
	wait_for 20 step_is_past 40
	[ "$(tables)" = '["emb"]' ]
	holds emb 'a.shape == (70000, 2) and (a == -0.5).all()'
	table grow emb --rows 70001
	push emb 70001 2
	holds emb '(a[:70000] == -1).all() and (a[70000:] == -0.5).all()'
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "a deterministic run ends in the same bits, whatever comes and goes beside it" {
	STEPS=600 job c ', "deterministic": true'
	sed -i 's/"lr": 0.5/"lr": 0.01/' c.json
	train c.json
	want=$(res .model_digest)
	begin c.json "${HELD[@]}"
	wait_for 20 step_is_past 10
	table add emb --rows 1000
	table grow emb --rows 2000
	table drop emb
	let_go
	wait_for 60 over
	RESULT=$(http GET /v1/result)
	has .model_digest "$want"
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "what is wrong is refused with a sentence, and changes nothing" {
	job c ', "mem_limit": "400M"'
	begin c.json
	wait_for 20 step_is_past 1
	table add emb --rows 10
	before=$(http GET /v1/tables | jq -c 'del(.. | .ts?)')
	refuses() {
		local want=$1 code=$2
		shift 2
		run -"$code" --separate-stderr ps-ctl table -C "$RUN" "$@"
		[[ $stderr == *"$want"* ]] || { echo "$* says $stderr"; false; }
	}
	refuses 'table "emb" already exists' 78 add emb --rows 10
	refuses 'table "w" already exists' 78 add w --rows 10
	refuses 'belongs to the job'"'"'s model: only tables of ps-ctl table add can grow' 78 grow w --rows 1000
	refuses 'can be dropped' 78 drop w
	refuses 'there is no table "no"' 4 drop no
	refuses 'there is no table "no"' 4 grow no --rows 5
	refuses 'has 10 rows, and can have' 78 grow emb --rows 10
	refuses 'must be 1 to 63 letters' 78 add 'a b' --rows 10
	refuses 'must be 1 to 63 letters' 78 add '../x' --rows 10
	refuses 'but the servers have' 78 add big --rows 1000000000000
	refuses 'has no memory for it: mem_limit: it would make' 78 add big --rows 100000000
	refuses '--rows is required' 2 add x
	refuses '--rows is required' 2 grow emb
	refuses '--cols, --sparse, --init, --policy and --decay can only be used with add' 2 grow emb --rows 20 --cols 2
	refuses 'did you mean "grow"' 2 grwo emb
	refuses 'must be zeros or uniform:LIMIT' 2 add x --rows 1 --init gauss
	for body in '{}' '{"add":{"name":"x","rows":1,"cols":1},"drop":"emb"}' '{"drop":7}' '{"grow":{"name":"emb","rows":-1}}' \
		'{"add":{"name":"x","rows":1,"cols":1,"dropped":true}}' '{"add":{"name":"x","rows":1,"cols":1,"reduced":true}}' \
		'{"add":{"name":"x","rows":1,"cols":1,"init":"file"}}' '{"add":[]}' '{"drop":"'"$(printf 'x%.0s' {1..300})"'"}'; do
		[[ $(http POST /v1/tables "$body" | jq -r .error.code) =~ ^(usage|config|notfound)$ ]]
	done
	[ "$(http GET /v1/tables | jq -c 'del(.. | .ts?)')" = "$before" ]
	run -78 --separate-stderr ps-ctl freeze -C "$RUN" emb
	[[ $stderr == *'there is no table "emb"'* ]]
	table add s --sparse
	refuses 'is sparse: it grows automatically' 78 grow s --rows 10
	state_is running
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "who pushes and pulls while tables come and go gets an answer, or a sentence" {
	job c
	begin c.json
	wait_for 20 step_is_past 20
	/usr/bin/python3 -S "$LIB/arrays.py" ones 100 1 >one.npy
	for i in 1 2 3; do
		while [ ! -e enough ]; do
			ps-work push emb -C "$RUN" <one.npy && echo pushed
			ps-work pull emb -C "$RUN" >/dev/null && echo pulled
		done >>"did.$i" 2>>"said.$i" 3>&- &
		pids+=($!)
	done
	for i in 1 2 3 4 5; do
		table add emb --rows 100
		table grow emb --rows 150
		table drop emb
	done >/dev/null
	touch enough
	wait "${pids[@]}" || true
	cat did.* said.* | sort | uniq -c | sort -rn | head -n 12
	# Nothing but that there is none, that it was dropped, or has another size now.
	! grep -hv 'there is no table "emb"\|table "emb" was dropped\|the array has 100 values, table "emb" has 150 x 1' said.*
	state_is running
	wait_for 20 step_is_past $(($(status .step) + 20))
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "where no job is" {
	printf '{ "servers": 2 }' >none.json
	begin none.json
	run -0 table add emb --rows 10
	[ "$output" = "emb is added, from now on" ]
	holds emb 'a.shape == (10, 1)'
	table grow emb --rows 20
	holds emb 'a.shape == (20, 1)'
	table drop emb
	table add emb --rows 3 --cols 3
	holds emb 'a.shape == (3, 3)'
	ps-ctl stop -C "$RUN" >/dev/null
}

# values TABLE: its parameters, as one sum of their text.
values() {
	ps-work pull "$1" -C "$RUN" | sha256sum
}

# without_job: a cluster of two servers without a job, with a table of each type that has been pushed to.
without_job() {
	printf '{"name":"free","servers":2,"sync":"%s"%s}' "$1" "${2:-}" >free.json
	ps-ctl start free.json >/dev/null
	RUN=$T/free.run
	curl -sf --unix-socket "$RUN/ctl.sock" -H 'content-type: application/json' -d \
		'{"tables":[{"name":"w","sparse":false,"rows":1000,"cols":70},{"name":"s","sparse":true,"rows":100,"cols":2}]}' \
		http://ps/v1/tables >/dev/null
	python3 "$BATS_TEST_DIRNAME/../contrib/python/psclient.py" -C "$RUN" push w 1 >/dev/null
}

@test "tables of a cluster without a job are saved when asked, by SIGTERM and by stop, and resumed" {
	local mode before supervisor
	for mode in bsp asp; do
		without_job "$mode"
		run ps-ctl -C "$RUN" checkpoint take --timeout 60s
		echo "$output"
		[ "$status" -eq 0 ]
		python3 "$BATS_TEST_DIRNAME/../contrib/python/psclient.py" -C "$RUN" push w 1 >/dev/null
		before=$(values w)
		# The supervisor saves what has changed since.
		read -r supervisor _ <"$RUN/lock"
		kill -TERM "$supervisor"
		wait_for 30 test -e "$RUN/result.json"
		# The supervisor owns the run directory until it ends, a moment after the coordinator.
		wait_for 30 eval '! kill -s 0 "$supervisor" 2>/dev/null'
		ps-ctl start free.json --resume auto >/dev/null
		[ "$(values w)" = "$before" ]
		python3 "$BATS_TEST_DIRNAME/../contrib/python/psclient.py" -C "$RUN" push w 1 >/dev/null
		[ "$(values w)" != "$before" ]
		before=$(values w)
		ps-ctl -C "$RUN" stop
		ps-ctl start free.json --resume auto >/dev/null
		[ "$(values w)" = "$before" ]
		ps-ctl -C "$RUN" stop --discard
		rm -r "$RUN"
	done
}

@test "tables of a cluster without a job are saved every checkpoint_every" {
	without_job asp ', "checkpoint_every": "100ms"'
	wait_for 20 eval '[ "$(ps-ctl -C "$RUN" checkpoint ls --json | jq -r "select(.state == \"whole\") | .step" | tail -n 1)" -ge 2 ]'
	ps-ctl -C "$RUN" stop --discard
}
