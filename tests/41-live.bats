#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Settings that change while the job runs: one step for all, nothing lost, all or nothing.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup_file() { unpack_fashion; }
setup() { setup_training; }
teardown() { teardown_dir; }

events() { ps-ctl events -C "$RUN" --json "$@"; }

# job NAME MODE [members [job members]]
job() {
	[ -e train.csv ] || write_csv train.csv
	cat >"$1.json" <<-END
	{ "servers": 2, "workers": 3, "replicas": 2, "sync": "$2", "quota_pushes": 80 ${3:-},
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "eval": "train.csv?label=y&scale=none", "batch": 16, "lr": 0.01,
	           "steps": $ENDLESS ${4:-} } }
	END
}

settled() { [ "$(status .settings_step)" != null ]; }

@test "each setting in turn, mode after mode: from the step that it says, and the job goes on" {
	job c bsp
	begin c.json
	wait_for 20 step_is_past 20
	n=0
	for set in lr=0.005 "codec=int8 lr=0.004" optimizer=adam batch=32 sync=asp sync=asp:scaled sync=asp:dca "batch=8 lr=0.002" optimizer=adagrad sync=ssp:3:scaled \
		sync=ssp:1 optimizer=adamw sync=bsp backup=1 backup=0 local_steps=4 "local_steps=1 optimizer=sgd" clip_norm=1 \
		accumulate=2 "schedule=step:1000:0.9 momentum=0.5 l2=0.0001" sync=asp sync=bsp; do
		run -0 --separate-stderr ps-ctl set -C "$RUN" $set
		# Rule sgd has no momentum, which is set and told.
		[[ $set == *momentum* && $stderr == "ps-ctl: job.momentum is set, but changes nothing: update rule sgd has no momentum" ]] || [ -z "$stderr" ]
		[[ $output =~ ^"$set: from step "([0-9]+)" on"$ ]]
		at=${BASH_REMATCH[1]}
		n=$((n + 1))
		[ "$(status .settings)" -eq "$n" ]
		[ "$(events set | tail -n 1 | jq -r .text)" = "$set, by local, from step $at on" ]
	done
	wait_for 20 step_is_past "$((at + 20))"
	[ "$(http GET /v1/config | jq -rc '[.sync, .backup, .accumulate, .job.optimizer, .job.batch]')" = '["bsp",0,2,"sgd",8]' ]
	[ "$(http GET /v1/workers | jq -c '[.workers[].settings] | unique')" = "[$n]" ]
	# Nothing was late but for those that a step went on without.
	[ "$(http GET /v1/servers | jq '[.servers[].pushes_refused] | add')" -eq 0 ]
	run -0 ps-ctl get config -C "$RUN" lr sync eval_every --origin
	[[ ${lines[0]} =~ ^job.lr=0.002\ \ \(set\ by\ local,\ from\ step\ [0-9]+\ on\)$ ]]
	[[ ${lines[1]} == sync=bsp*"(set by local"* ]]
	[ "${lines[2]}" = "job.eval_every=0  (default)" ]
	run -0 ps-ctl stop -C "$RUN" --json
	jq -e ".settings | length == $n" "$RUN/result.json" >/dev/null
	none_left "$T"
}

@test "all or nothing: what is wrong or does not fit changes nothing" {
	job c bsp
	begin c.json
	wait_for 20 step_is_past 20
	before=$(http GET /v1/config)
	for wrong in "lr=0.1 seed=2" "lr=-1" "sync=asp backup=1" "optimizer=adan" "lr=0.1 hidden=[3]" "outer=adam" "batch=0" "schedule=often" \
		"servers=two" "lr=0.1 workers=0"; do
		run -78 --separate-stderr ps-ctl set -C "$RUN" $wrong
		[ -n "$stderr" ]
	done
	run -0 ps-ctl set -C "$RUN" --dry-run lr=0.1 sync=ssp:2
	[ "$output" = $'sync: "bsp" would be "ssp:2"\njob.lr: 0.01 would be 0.1' ]
	run -2 ps-ctl set -C "$RUN" --at soon lr=0.1
	run -2 ps-ctl set -C "$RUN" --at step=9 servers=3
	[ "$(http GET /v1/config)" = "$before" ]
	[ "$(status .settings)" -eq 0 ]
	# For no step, and at once.
	run -0 ps-ctl set -C "$RUN" log_level=debug checkpoint_every=200ms
	[ "$output" = "log_level=debug checkpoint_every=200ms: from now on" ]
	wait_for 20 eval 'events checkpoint | grep -q checkpoint'
	# Not when the step comes that the one before was asked for.
	ps-ctl set -C "$RUN" checkpoint_every=90000000 >/dev/null
	wait_for 20 step_is_past $(($(status .step) + 20))
	n=$(events checkpoint | wc -l)
	ps-ctl set -C "$RUN" checkpoint_every=100 >/dev/null
	wait_for 20 eval '[ "$(events checkpoint | wc -l)" -gt $((n + 1)) ]'
	[ "$(curl -s --unix-socket "$RUN/ctl.sock" http://x/metrics | grep '^ps_checkpoint_interval_seconds')" = "ps_checkpoint_interval_seconds 0" ]
	run -0 ps-ctl set -C "$RUN" servers=3 workers=2
	wait_for 20 eval '[ "$(status .servers)" = 3 ]'
	ps-ctl set -C "$RUN" optimizer=dog >/dev/null
	run -78 ps-ctl set -C "$RUN" lr=0.1
	[[ $output == *'job.lr: update rule dog finds its own step sizes'*'optimizer=adam lr=0.1' ]]
	ps-ctl stop -C "$RUN" >/dev/null
}

# bats test_tags=slow
@test "planned for a step: to that step, in the same bits however many servers" {
	write_csv train.csv 4000
	digests=()
	for servers in 1 3; do
		cat >d.json <<-END
		{ "servers": $servers, "workers": 2, "replicas": 1, "deterministic": true,
		  "job": { "model": "linear", "data": "train.csv?label=y&scale=none", "steps": 1200, "batch": 16, "lr": 0.05, "optimizer": "momentum" } }
		END
		begin d.json "${HELD[@]}"
		run -0 ps-ctl set -C "$T/d.run" --at step=600 optimizer=adam lr=0.001 batch=8
		[ "$output" = "optimizer=adam lr=0.001 batch=8: planned for step 600" ]
		run -0 ps-ctl set -C "$T/d.run" --at step=1100 lr=0.0005 --json
		[ "$(jq .planned <<<"$output")" -eq 1100 ]
		# A change is proposed a second before its step, by the pace of the last half second: the
		# first step must be seconds away when the pace changes.
		let_go 250
		wait_for 60 eval '[[ $(status .state) =~ ^(done|failed)$ ]]'
		[ "$(http GET /v1/result | jq -c '[.settings[].step]')" = "[600,1100]" ]
		digests+=("$(http GET /v1/result | jq -r .model_digest)")
		ps-ctl stop -C "$RUN" >/dev/null
		rm -rf d.run
	done
	[ "${#digests[0]}" -eq 64 ]
	[ "${digests[0]}" = "${digests[1]}" ]
}

@test "a run that is taken up goes on by what was set, in the same bits" {
	write_csv train.csv 4000
	cat >r.json <<-END
	{ "servers": 2, "workers": 2, "deterministic": true, "keep_last": 100,
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "steps": 1000, "batch": 16, "lr": 0.05 } }
	END
	begin r.json "${HELD[@]}"
	ps-ctl pause >/dev/null
	at=$(status .step)
	ps-ctl set --at step=$((at + 10)) optimizer=adam lr=0.001 batch=4 >/dev/null
	ps-ctl resume >/dev/null
	wait_for 60 step_is_past $((at + 15))
	run -0 ps-ctl checkpoint
	let_go
	wait_for 60 eval '[[ $(status .state) =~ ^(done|failed)$ ]]'
	want=$(http GET /v1/result | jq -r .model_digest)
	ps-ctl stop >/dev/null
	[ "${#want}" -eq 64 ]
	sed -i 's/"state":"done"/"state":"stopped"/; s/"state": "done"/"state": "stopped"/' r.run/result.json
	background ps-ctl run r.json "${HELD[@]}" --resume auto --json
	wait_for 20 eval '[ -S "$RUN/ctl.sock" ] && state_is running'
	let_go
	finish
	RESULT=$(tail -n 1 out)
	has .state done
	has .model_digest "$want"
}

# bats test_tags=fault
@test "nothing is lost and nothing counts twice, whatever dies while modes change" {
	for victims in workers "servers coordinator"; do
		run env TMPDIR="$T" LEASE=1 NET=0 SERVERS=3 WORKERS=3 REPLICAS=2 QUOTA=300 KILLS=$(kills 5) EVERY=0.4 VICTIMS="$victims" PS_BIN="$BIN" CHANGED=3 \
			CHANGES="sync=bsp sync=ssp:2 sync=asp lr=1 sync=ssp:0" "$BATS_TEST_DIRNAME/fault/soak" 5m
		figure "${lines[1]}"
		[ "$status" -eq 0 ] || { echo "$output"; false; }
		[[ ${lines[1]} =~ \ ([0-9]+)\ changes ]]
		[ "${BASH_REMATCH[1]}" -ge 3 ]
	done
}

# as_accurate STEPS LESS: as without the changes, or LESS below.
as_accurate() {
	need_fashion
	cat >f.json <<-JSON
	{ "servers": 2, "workers": 2, "job": { "model": "mlp", "optimizer": "sgd", "hidden": [64], "steps": $1, "batch": 64, "lr": 0.1,
	  "data": "$BATS_FILE_TMPDIR/train-images-idx3-ubyte",
	  "eval": "$BATS_FILE_TMPDIR/t10k-images-idx3-ubyte" } }
	JSON
	train f.json
	static=$(res .eval.accuracy)
	begin f.json --set quota_pushes=100
	ps-ctl pause >/dev/null
	at=$(status .step)
	ps-ctl set --at step=$((at + 10)) sync=asp >/dev/null
	ps-ctl set --at step=$((at + 20)) sync=ssp:3 optimizer=adam lr=0.001 >/dev/null
	ps-ctl resume >/dev/null
	wait_for 60 step_is_past $((at + 25))
	let_go
	wait_for 60 eval '[[ $(status .state) =~ ^(done|failed)$ ]]'
	RESULT=$(http GET /v1/result)
	ps-ctl stop >/dev/null
	has .state done
	has '.settings | length' 2
	figure "static $static, changed $(res .eval.accuracy)"
	at_least .eval.accuracy "$(jq -n "$static - $2")"
}

# bats test_tags=slow
@test "from bsp by asp to ssp, and from sgd to adam: as accurate as without" {
	as_accurate 500 0.03
}

# bats test_tags=slow
@test "from bsp by asp to ssp, and from sgd to adam, in many steps: as accurate as without" {
	as_accurate 2000 0.005
}

@test "freeze: a table stays as it is, and the others go on" {
	job c bsp
	begin c.json
	wait_for 20 step_is_past 20
	run -0 ps-ctl freeze -C "$RUN" w
	[[ $output =~ ^frozen:\ w,\ from\ step\ ([0-9]+)\ on$ ]]
	wait_for 20 step_is_past "$((BASH_REMATCH[1] + 2))"
	w=$(ps-ctl export w -C "$RUN" -o text | sha256sum) b=$(ps-ctl export b -C "$RUN" -o text | sha256sum)
	wait_for 20 eval '[ "$(ps-ctl export b -C "$RUN" -o text | sha256sum)" != "$b" ]'
	[ "$(ps-ctl export w -C "$RUN" -o text | sha256sum)" = "$w" ]
	run -2 --separate-stderr ps-ctl freeze -C "$RUN" w,b
	[[ $stderr == *'"w,b": must be the name of a table'* ]]
	run -4 --separate-stderr ps-ctl freeze -C "$RUN" --off b
	[[ $stderr == *'table "b" is not frozen'* ]]
	run -78 --separate-stderr ps-ctl freeze -C "$RUN" v
	[[ $stderr == *"there is no table \"v\""* ]]
	run -0 ps-ctl freeze -C "$RUN" --off w
	[[ $output == "frozen: none, from step "* ]]
	wait_for 20 eval '[ "$(ps-ctl export w -C "$RUN" -o text | sha256sum)" != "$w" ]'
	ps-ctl stop -C "$RUN" >/dev/null
}

@test "adapt: the coordinator does without a straggler while there is one, and says why" {
	job a bsp ', "lease": "1s", "adapt": "backup"'
	sed -i 's/"replicas": 2/"replicas": 1/; s/"servers": 2/"servers": 1/' a.json
	RUN=$T/a.run
	background ps-serve a.json
	wait_for 10 test -S "$RUN/ctl.sock"
	for i in 0 1 2; do
		ps-work train -C "$RUN" --rank "$i" --compute "$([ "$i" = 2 ] && echo 200ms || echo 10ms)" 2>"work$i.err" 3>&- &
		pids+=($!)
	done
	wait_for 20 eval '[ "$(http GET /v1/config | jq .backup)" = 1 ]'
	run -0 ps-ctl events -C "$RUN" adapt
	[[ $output == *"backup=1: the slowest of 3 workers needs 0.2"* ]]
	kill -9 "${pids[-1]}"
	ps-work train -C "$RUN" --rank 2 --compute 10ms 2>work3.err 3>&- &
	pids+=($!)
	wait_for 20 eval '[ "$(http GET /v1/config | jq .backup)" = 0 ]'
	ps-ctl set -C "$RUN" adapt=none >/dev/null
	run -78 ps-ctl set -C "$RUN" adapt=everything
	ps-ctl stop -C "$RUN" >/dev/null
}
