#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# A command says what went wrong once: alone, under ps-ctl run and under ps-ctl start.

bats_require_minimum_version 1.5.0
load lib/helper

setup() {
	setup_dir
	write_cluster
	jq '.job += {data: "bad.csv?label=y&scale=none", eval: []}' lin.json >bad.json
	printf 'a,y\n1,2\n3,oops\n' >bad.csv
	jq '.job += {data: "huge.csv?label=y&scale=none", eval: [], batch: 2, epochs: 500}' lin.json >nan.json
	printf 'a,y\n1e38,3e38\n-1e38,2e38\n3e37,-3e38\n2e38,1e38\n' >huge.csv
}
teardown() { teardown_dir; }

# once CODE SENTENCE COMMAND...: it ends with CODE, and standard error has the sentence in one place.
once() {
	local code=$1 sentence=$2 status=0
	shift 2
	timeout 60 "$@" >out 2>err </dev/null 3>&- || status=$?
	if [ "$status" -ne "$code" ] || [ "$(grep -oF -- "$sentence" err | wc -l)" -ne 1 ]; then
		echo "$* ended with $status:"
		cat err
		return 1
	fi
}

# A cluster by hand, NAME.run, with its coordinator's number in $server.
serve() {
	ps-serve -C "$1.run" "$1.json" 2>"$1.err" 3>&- &
	server=$!
	pids+=("$server")
	wait_for 20 ps-ctl -C "$1.run" status >/dev/null 2>&1
}

@test "what is not there, and what a configuration must not say" {
	for program in "ps-ctl run" "ps-ctl start" ps-serve; do
		# shellcheck disable=SC2086
		{
			once 4 'no such cluster file "none.json"' $program none.json
			once 78 'nokey: no such key' $program lin.json --set nokey=1
			once 78 'job.lr: must be a finite number' $program lin.json --set job.lr=x
		}
	done
	for program in "ps-ctl status" ps-stat "ps-work eval" "ps-work train"; do
		# shellcheck disable=SC2086
		once 4 'no run directory "none.run"' $program -C none.run
	done
	once 4 'no run directory "none.run"' ps-work predict none.run train.csv
	cp lin.json "my job.json"
	for program in "ps-ctl run" "ps-ctl start"; do
		# shellcheck disable=SC2086
		{
			once 78 'no such file' $program lin.json --set job.data=none.csv
			once 78 'got "my job", the name of the cluster file; add --set name=NAME' $program "my job.json"
			once 78 'train.csv: is not a cluster file, which is a JSON object' $program train.csv
		}
	done
	once 4 "cannot open $T/none.join" ps-work train --join none.join
}

@test "a target that the loss does not take ends the job, which evaluates nothing" {
	run -1 ps-ctl run lin.json --set loss=poisson --set eval='[]'
	[[ $output == *"an example has target -"*", but the loss poisson needs a number of at least 0"* ]]
}

@test "a port that is taken, and a coordinator that cannot be reached" {
	jq 'del(.job)' lin.json >holds.json
	serve holds
	taken=$(ps-ctl -C holds.run status --json | jq -r 'select(.kind == "server").listen')
	for key in listen http; do
		for program in "ps-ctl run" "ps-ctl start" ps-serve; do
			# shellcheck disable=SC2086
			once 1 "$taken is in use by another process" $program lin.json --set "$key=$taken"
		done
	done
	ps-ctl -C holds.run invite --role worker -o w.join 2>/dev/null
	kill -9 "$server"
	wait "$server" || true
	once 6 "cannot reach $taken: Connection refused" ps-work eval --join w.join
	once 6 'Connection refused' ps-stat --join w.join
	once 3 'is not running' ps-ctl -C holds.run status
	# One failure, though two ports do not answer.
	timeout 60 ps-ctl doctor --join w.join >out 2>err && false
	[ "$(grep -c 'Connection refused' out)" -eq 1 ]
}

@test "bad data and a loss that is no number: by hand, under run, under start" {
	once 1 'bad.csv:3' ps-ctl run bad.json
	once 1 'bad.csv:3' ps-ctl start bad.json
	once 1 'the training loss is infinite at step' ps-ctl run nan.json
	serve bad
	once 1 'bad.csv:3' ps-work train -C bad.run
	kill "$server"
	jq '.workers = 1' nan.json >one.json
	serve one
	once 1 'the training loss is infinite at step' ps-work train -C one.run
}

@test "a worker that is refused, and a follower whose coordinator is lost" {
	jq '.workers = 1 | .quota_pushes = 200 | .job += {epochs: 0, steps: 1000000000}' lin.json >slow.json
	serve slow
	background ps-work train -C slow.run
	ps-ctl -C slow.run wait --for step=5 2>/dev/null
	once 1 'the only worker rank is taken' ps-work train -C slow.run
	ps-ctl -C slow.run invite --role worker --name gone -o gone.join 2>/dev/null
	ps-ctl -C slow.run key revoke gone >/dev/null
	for program in "ps-work train" "ps-work eval" ps-serve; do
		# shellcheck disable=SC2086
		once 5 "this key is not in the server's authorized_keys" $program --join gone.join
	done
	once 5 'this key is not authorised here' ps-stat --join gone.join
	ps-stat -C slow.run 0.1 >rows 2>stat.err 3>&- &
	follower=$!
	pids+=("$follower")
	wait_for 10 test -s rows
	kill -9 "$server"
	wait "$follower" || true
	[ "$(wc -l <stat.err)" -eq 1 ]
	grep -q '^ps-stat: the cluster has ended: ' stat.err
}

@test "a full disk" {
	[ -e "$BIN/fault/shim.so" ] || skip "the fault kit is not built"
	touch full
	full=(env ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$BIN/fault/shim.so" FS_FULL="$T/full")
	once 1 'No space left on device' "${full[@]}" FS_ONLY=lin.run/ ps-ctl run lin.json
	once 1 'No space left on device' "${full[@]}" FS_ONLY=lin.run/ ps-ctl start lin.json
	once 1 'No space left on device' "${full[@]}" FS_ONLY=model.safetensors ps-ctl run lin.json
	once 0 'No space left on device' "${full[@]}" FS_ONLY=/checkpoints/ ps-ctl run lin.json --set checkpoint_every=50 --set quota_pushes=400
}

@test "an option that would do nothing is refused" {
	once 2 '--range and --if-match can only be used with cat' ps-ctl object ls s3://bucket/x --range 0-5
	once 2 '--force-new-cluster requires a cluster file' ps-serve -C none.run --name server-1 --force-new-cluster
	once 2 '--resume requires a cluster file' ps-serve -C none.run --name server-1 --resume auto
}

# An empty file of the library's name stands for one that is missing.
@test "a shared library that is missing is named, with its package" {
	for pair in libcurl.so.4:libcurl4 librdkafka.so.1:librdkafka1 libopenblas.so.0:libopenblas0; do
		mkdir "${pair#*:}"
		: >"${pair#*:}/${pair%:*}"
		case $pair in
		libcurl*) command=(ps-ctl object cat http://127.0.0.1:1/none) ;;
		librdkafka*) command=(ps-ctl topic ls kafka://127.0.0.1:1/none) ;;
		*) command=(ps-work bench) ;;
		esac
		once 127 "${command[0]}: cannot load the library ${pair%:*}: " env LD_LIBRARY_PATH="$PWD/${pair#*:}" "${command[@]}"
		grep -q "; install the Debian package ${pair#*:} (apt-get install ${pair#*:})\$" err
	done
}
