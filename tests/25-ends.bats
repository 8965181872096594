#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Ends that are no ordinary ones: while a cluster forms, with processes that do
# not react, with nowhere to write to.

bats_require_minimum_version 1.5.0
load lib/helper

setup() { setup_dir; }
teardown() { teardown_dir; }

is() { [ "$(ps-ctl -C lin.run status --json 2>/dev/null | jq -r 'select(.kind == "cluster").state')" = "$1" ]; }
pid_of() { cat "lin.run/$1.pid"; }
# Process $1 catches or blocks SIGTERM; before that SIGINT is ignored, as bash starts what is in the background.
heeds_signals() {
	local mask
	for mask in $(sed -n 's/^Sig\(Blk\|Cgt\):[[:space:]]*/0x/p' "/proc/$1/status" 2>/dev/null); do
		[ $((mask & 0x4000)) -eq 0 ] || return 0
	done
	return 1
}
is_frozen() { grep -q '^State:[[:space:]]*T' "/proc/$1/status"; }
gone() { ! kill -s 0 "$1" 2>/dev/null; }
has_gone_beyond() { [ "$(ps-ctl status --json | jq 'select(.kind == "cluster").step')" -gt "$1" ]; }

@test "a forming cluster is stopped at once, whenever it is" {
	endless
	mkfifo never.csv
	for pause in 0 0.02 0.1 0.3; do
		background ps-ctl run lin --set data=never.csv --set eval=
		wait_for 5 heeds_signals "$pid"
		sleep "$pause"
		kill -s INT "$pid"
		within 1000 finish
		[ "$status" -eq 130 ]
		none_left "$T"
	done
	within 1000 run -124 ps-ctl start lin --set data=never.csv --set eval= --timeout 0.05s
	none_left "$T"
}

@test "SIGTERM ends a worker without a coordinator at once, exit code 0" {
	endless
	background ps-serve lin.json
	serve=$pid
	wait_for 5 test -S lin.run/ctl.sock
	ps-ctl -C lin.run invite --role worker -o w.join 2>/dev/null
	background ps-work train -C lin.run --rank 0
	one=$pid
	background ps-work train -C lin.run --rank 1
	wait_for 10 is running
	kill -9 "$serve"
	wait_for 5 gone "$serve"
	for pid in "$pid" "$one"; do
		kill -s TERM "$pid"
		within 1000 finish
		[ "$status" -eq 0 ]
	done
	for sig in TERM INT; do
		background ps-work train --join w.join
		wait_for 5 heeds_signals "$pid"
		kill -s "$sig" "$pid"
		within 1000 finish
		[ "$status" -eq 0 ]
	done
}

@test "who dies while the cluster forms is the reason, at once" {
	write_cluster
	mkfifo never.csv
	background ps-ctl run lin --set data=never.csv --set eval= --json
	wait_for 10 test -s lin.run/worker-1.pid
	kill -9 "$(pid_of worker-1)"
	within 2000 finish
	[ "$status" -eq 1 ]
	[[ $(field reason <out) == "worker-1 ended by SIGKILL while the cluster was forming" ]]
	[ "$(grep -c SIGKILL err)" -eq 1 ]
	gzip -k train.csv && head -c 1000 train.csv.gz >cut.csv.gz
	within 2000 run -1 --separate-stderr ps-ctl start lin --set data='cut.csv.gz?label=y' --set eval=
	[ "$(grep -c cut.csv <<<"$stderr")" -eq 1 ]
	none_left "$T"
}

@test "a frozen worker holds nobody up for long, and is named" {
	endless
	background ps-ctl run lin
	wait_for 20 is running
	kill -s STOP "$(pid_of worker-1)"
	wait_for 5 is_frozen "$(pid_of worker-1)"
	kill -s INT "$pid"
	within 6000 finish
	[ "$status" -eq 130 ]
	grep -q 'waiting for worker-1 (frozen)' err
	none_left "$T"
}

@test "what cannot be written to standard output is a failure, of every program" {
	endless
	ps-ctl start lin 2>/dev/null
	for cmd in "ps-stat" "ps-stat --json" "ps-stat --tsv 0.1 2" "ps-stat --prom" "ps-stat --help" \
		"ps-work eval --json" "ps-work eval" "ps-work --help" "ps-work --version" "ps-work pull b" \
		"ps-work bench --help" "ps-serve --help" "ps-serve --version" "ps-ctl --version"; do
		run -1 bash -c "exec $cmd >&-"
		[[ $output == *[a-z]* ]]
		if [ -w /dev/full ]; then
			run -1 bash -c "$cmd >/dev/full"
			[[ $output == ps-* ]]
		fi
	done
	set -o pipefail
	run -0 bash -c 'set -o pipefail; ps-work predict | true; ps-ctl export all -o text | true'
	[ -z "$output" ]
}

@test "a server too many is 3; a cluster that has gone is 6, at once" {
	endless
	ps-ctl start lin 2>/dev/null
	ps-ctl invite --role server -o s.join 2>/dev/null
	ps-ctl invite --role worker -o w.join 2>/dev/null
	run -3 ps-serve --join s.join
	[[ $output == *"the cluster already has its"* ]]
	jq -c --arg psk "$(head -c 32 /dev/zero | base64)" '.psk = $psk' w.join >other.join
	chmod 600 other.join
	run -5 ps-work pull b --join other.join
	[[ $output == *"127.0.0.1:"*" refused the handshake"* ]]
	ps-ctl stop >/dev/null
	within 2000 run -6 ps-work pull b --join w.join
	[[ $output == *"cannot reach 127.0.0.1:"* ]]
}

@test "stop asks who runs the cluster, who prints the result; the steps are never less than were shown" {
	endless
	for how in "run lin --json" "start lin"; do
		# shellcheck disable=SC2086
		background ps-ctl $how
		wait_for 20 is running
		ps-ctl wait --for step=40
		before=$(ps-ctl status --json | jq 'select(.kind == "cluster").step')
		# Until a frozen worker is given up the second stop finds it alive.
		kill -s STOP "$(pid_of worker-0)"
		ps-ctl stop --json >first &
		second=$!
		run -0 --separate-stderr ps-ctl stop --json
		wait "$second"
		cmp first <(echo "$output")
		[ "$(jq -r '.state, .reason' first | paste -sd' ')" = "stopped ps-ctl stop" ]
		[ "$(jq .steps first)" -ge "$before" ]
		finish
		none_left "$T"
	done
	kill -s 0 "$pid" 2>/dev/null && return 1
	background ps-ctl run lin --json
	wait_for 20 is running
	kill -s STOP "$(pid_of worker-0)"
	run -0 --separate-stderr ps-ctl stop
	[[ $stderr == "ps-ctl: saved "*"/model.safetensors" ]]
	finish
	[ "$status" -eq 1 ]
	[ "$(field state <out)" = stopped ]
}

@test "a model that cannot be saved: run and wait and stop say why, exit code 1" {
	write_cluster 2
	awk 'BEGIN { srand(1); for (i = 0; i < 200; i++) {
		for (k = 0; k < 60; k++) printf "%.4f,", rand(); print i % 2 } }' >wide.csv
	small=(--set 'data=wide.csv?label=last' --set eval= --set model=mlp --set hidden=1000 --set workers=1)
	run -1 --separate-stderr bash -c 'ulimit -f 40; exec ps-ctl run lin "$@" --json' - "${small[@]}"
	[ "$(field state <<<"$output")" = done ]
	[[ $(field unsaved <<<"$output") == *model.safetensors*"File too large"* ]]
	[ "$(grep -c 'not saved' <<<"$stderr")" -eq 1 ]
	run -1 --separate-stderr ps-ctl -C lin.run wait --for done
	[[ $stderr == *"its model is not saved: "* ]]
	run -0 bash -c 'ulimit -f 40; exec ps-ctl start lin "$@" 2>&1' - "${small[@]}"
	run -1 --separate-stderr ps-ctl wait --for done --timeout 60s
	[[ $stderr == *"its model is not saved: "*"File too large"* ]]
	run -1 --separate-stderr ps-ctl stop
	[[ $stderr == *"the model is not saved: "* && $output == done* ]]
	[ ! -e lin.run/export.log ] && [ ! -e lin.run/model.safetensors ]
}

@test "the model of the run before to begin with; one that does not fit is 78" {
	write_cluster 2
	ps-ctl run lin >/dev/null
	ps-ctl run lin --set init=lin.run/model.safetensors --json | jq -e '.eval.loss < 0.003'
	[ "$(jq -r .job.init lin.run/cluster.json)" = "$T/lin.run.1/model.safetensors" ]
	head -c 150 lin.run/model.safetensors >cut.safetensors
	run -78 --separate-stderr ps-ctl run lin --set init=cut.safetensors
	[[ $stderr == *job.init*cut.safetensors* && ! -e lin.run.2 ]]
	cut -d, -f2- train.csv >narrow.csv
	run -78 --separate-stderr ps-ctl run lin --set 'data=narrow.csv?label=y&scale=none' --set eval= --set init=lin.run.1/model.safetensors
	[ "$(grep -c 'job.init.*its table "w" has 2 values' <<<"$stderr")" -eq 1 ]
	none_left "$T"
}

@test "a job of which nothing is left but its farewell: rows, steps, no half results" {
	write_csv train.csv
	echo '{ "workers": 4, "sync": "ssp:2", "job": { "model": "linear", "data": "train.csv?label=y&scale=none",
		"epochs": 1, "batch": 200 } }' >few.json
	ps-ctl start few 2>/dev/null
	ps-ctl wait --for done
	# There is work for two of the four at most.
	ps-ctl status --json | jq -es '(map(select(.kind == "cluster"))[0] | .step >= 1 and .train_loss > 0) and
		(map(select(.kind == "worker" and .step >= 1 and .train_loss > 0)) | length) >= 1'
	[ "$(ps-ctl stop --json | jq .steps)" -ge 1 ]
	endless
	background ps-ctl run lin --json
	wait_for 20 is running
	ps-ctl wait --for step=30
	kill -s TERM "$(pid_of worker-0)"
	wait_for 5 grep -q 'worker-0 has left' err
	before=$(ps-ctl status --json | jq 'select(.id == "worker-0").step')
	# ps-ctl looks a few times a second, and its last look is what is left.
	wait_for 20 has_gone_beyond $((before + 100))
	kill -9 "$(pid_of server-0)"
	finish
	[ "$(field eval <out)" = null ]
	[ "$(field steps <out)" -gt "$before" ]
	grep -q '^ps-ctl: server-0 ended by SIGKILL' err
}

@test "a failed job's model with values that are not finite is called that" {
	write_cluster 2
	header='{"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1,1],"data_offsets":[8,12]}}'
	while [ $((${#header} % 8)) -ne 0 ]; do header+=' '; done
	# Infinity, 1 and 2, little endian.
	printf '\x'"$(printf %x ${#header})"'\0\0\0\0\0\0\0%s\0\0\x80\x7f\0\0\x80\x3f\0\0\0\x40' "$header" >inf.safetensors
	run -1 --separate-stderr ps-ctl run lin --set init=inf.safetensors --json
	[[ $(field reason <<<"$output") == *"the training loss is "*"model.safetensors has 1 value that is not finite" ]]
}
