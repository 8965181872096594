#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# ps-ctl where no cluster runs: help, tables, files, keys, mistakes and their exit codes.

bats_require_minimum_version 1.5.0
load lib/helper

setup() { setup_dir; }
teardown() { teardown_dir; }

# `!` before a command fails no test, so ask for what must hold.
no_runs() { [ -z "$(find . -name '*.run*')" ]; }

@test "no subcommand is a wrong use, and -h is not" {
	run -2 ps-ctl
	[[ $output == usage:* ]]
	run -0 ps-ctl -h
	[[ $output == *"  run "* && $output == *examples:* ]]
	run -0 ps-ctl --help
	[[ $output == *"exit codes:"* ]]
	run -0 ps-ctl help stop
	[[ $output == "usage: ps-ctl stop"* ]]
}

@test "every subcommand has help, and names its options for completion" {
	subs=$(ps-ctl list subcommands | cut -d' ' -f1)
	[ "$(wc -l <<<"$subs")" -ge 14 ]
	for sub in $subs; do
		ps-ctl "$sub" -h | grep -q "^usage: ps-ctl $sub"
		ps-ctl "$sub" --help | grep -q "^usage: ps-ctl $sub"
		ps-ctl "$sub" --ps-complete | grep -qx -- --help
	done
}

@test "did you mean: subcommands, options, keys, models" {
	run -2 ps-ctl sttaus
	[[ $output == *'did you mean "status"?'* ]]
	run -2 ps-ctl help strat
	[[ $output == *'did you mean "start"?'* ]]
	run -2 ps-ctl run --jsn lin
	[[ $output == *'did you mean "--json"?'* ]]
	run -2 ps-ctl list modles
	[[ $output == *'did you mean "models"?'* ]]
	run -4 ps-ctl show optimzer
	[[ $output == *'did you mean "optimizer"?'* ]]
	write_cluster
	run -78 ps-ctl run lin --set optimzer=sgd
	[[ $output == *'did you mean "job.optimizer"?'* || $output == *'did you mean "optimizer"?'* ]]
	# What other programs call it, keys as options or operands, and what another program of pskit does.
	run -2 ps-ctl run cluster --lr 0.1
	[[ $output == *'did you mean "--set lr=0.1"?'* ]]
	run -2 ps-ctl run cluster --batch-size=64 --json
	[[ $output == *'did you mean "--set batch=64"?'* ]]
	run -2 ps-ctl run cluster lr=0.1
	[[ $output == *'did you mean "--set lr=0.1"?'* ]]
	run -2 ps-ctl sweep cluster lr=0.1,0.2
	[[ $output == *'did you mean "--grid lr=0.1,0.2"?'* ]]
	run -2 ps-ctl sweep cluster lr=0.001..0.1
	[[ $output == *'did you mean "--range lr=0.001..0.1 --random N"?'* ]]
	run -2 ps-ctl runs --keep 2
	[[ $output == *"--keep requires --prune"* ]]
	run -2 ps-ctl predict model.safetensors
	[[ $output == *'did you mean "ps-work predict"?'* ]]
	mkdir cluster.run
	run -2 ps-ctl stop cluster
	[[ $output == *'did you mean "-C cluster.run"?'* ]]
	run -2 ps-stat cluster.run
	[[ $output == *'did you mean "-C cluster.run"?'* ]]
}

@test "version, for people and for programs" {
	run -0 ps-ctl version
	[[ $output =~ ^ps-ctl\ [0-9.]+\ \(protocol\ [0-9]+ ]]
	[ "$(ps-ctl --version)" = "$output" ]
	[ "$(ps-ctl version --json | jq -r '.v, .kind, .name' | paste -sd' ')" = "1 version ps-ctl" ]
}

@test "-C stands before or after the subcommand" {
	mkdir a.run
	for args in "-C a.run status" "status -C a.run" "-Ca.run status" "status -Ca.run" \
	    "--cluster a.run status" "status --cluster=a.run" "--cluster=a.run status"; do
		run -3 ps-ctl $args
		[[ $output == *'"a.run" is not running'* ]]
	done
	PS_CLUSTER=a.run run -3 ps-ctl status
	run -2 ps-ctl -C
}

@test "no such cluster is 4, one that does not run is 3" {
	for sub in status stop "wait --for done" logs "export all -o text" "invite --role worker"; do
		run -4 ps-ctl -C none.run $sub
		run -4 ps-ctl $sub
	done
	mkdir a.run
	for sub in status stop "wait --for done" "invite --role worker"; do
		run -3 ps-ctl -C a.run $sub
	done
}

@test "what is wrong with wait, export, keygen and invite is said before anything else" {
	run -2 ps-ctl wait
	run -2 ps-ctl wait --for nothing
	[[ $output == *"loss-below=X"* ]]
	run -2 ps-ctl wait --for step=-1
	run -2 ps-ctl wait --for done --timeout soon
	run -2 ps-ctl export
	run -2 ps-ctl export all -o npy
	run -2 ps-ctl export all -o yaml
	run -2 ps-ctl invite
	run -2 ps-ctl invite --role king
	run -2 ps-ctl keygen --role worker
	run -2 ps-ctl keygen --name w
	run -2 ps-ctl keygen --role worker --name 'a b'
	[ -z "$(ls)" ]
}

@test "a binary format is not written to a terminal" {
	command -v script >/dev/null || skip "no script(1)"
	run script -qec "ps-ctl export all" /dev/null
	[[ $output == *"cannot be written to a terminal"* ]]
}

@test "list and show: every row of the tables, as text and as JSON Lines" {
	for what in options models optimizers codecs modes schedules readers subcommands exit-codes; do
		n=$(ps-ctl list $what | wc -l)
		[ "$n" -gt 0 ]
		[ "$(ps-ctl list $what --json | jq -r 'select(.v == 1 and .ts and .kind and .help) | .name' | wc -l)" -eq "$n" ]
	done
	for name in $(ps-ctl list options --json | jq -r .name); do
		[[ $(ps-ctl show "$name" --json) == *"\"name\":\"$name\""* ]]
	done
	run -0 ps-ctl show lr
	[[ $output == *"job.lr"*"default    by rule"*"above      0"* ]]
	run -0 ps-ctl show momentum
	[[ $output == *"option job.momentum"*"optimizer momentum"* ]]
	run -0 ps-ctl show optimizer
	[[ $output == *"default    by model"*"  adam: "*"defaults   lr=0.001 beta1=0.9 beta2=0.999 eps=1e-08"*"use "* ]]
	run -0 ps-ctl show model
	[[ $output == *"  mlp: "*"defaults   optimizer=adam"*"hidden=["* ]]
	run -0 ps-ctl show run
	[[ $output == "usage: ps-ctl run"* ]]
}

@test "init writes a file that loads, and explains every key of it" {
	for model in $(ps-ctl list models | cut -d' ' -f1); do
		run -0 ps-ctl init --model "$model" "$model"
		[ "$(jq -r .job.model "$model/cluster.json")" = "$model" ]
		readme=$(<"$model/README.md")
		for key in $(jq -r 'paths(scalars or type == "array") | select(all(.[]; type == "string")) | join(".")' "$model/cluster.json"); do
			[[ $readme == *"- \`$key\`: "* ]]
		done
		[[ $output == *"next: "*"ps-ctl run $model/cluster.json"* ]]
	done
	run -2 ps-ctl init --model mpl other
	[[ $output == *mlp* ]]
	[ ! -e other ]
}

@test "init overwrites nothing" {
	echo mine >cluster.json
	run -1 ps-ctl init
	[ "$(cat cluster.json)" = mine ]
	[ ! -e README.md ]
	mkdir two
	echo mine >two/README.md
	run -0 ps-ctl init two
	[ "$(cat two/README.md)" = mine ]
	[ -s two/cluster.json ]
}

@test "keygen: a secret for the owner alone, a line for authorized_keys" {
	line=$(ps-ctl keygen --role worker --name w7)
	[[ $line =~ ^worker\ x25519:[A-Za-z0-9+/]{43}=\ w7$ ]]
	[ "$(stat -c %a w7.key)" = 600 ]
	grep -q '^pskit-secret-key1 ' w7.key
	before=$(cat w7.key)
	run -1 ps-ctl keygen --role worker --name w7
	[ "$(cat w7.key)" = "$before" ]
	[ "$(ps-ctl keygen -r admin --name me -o other.key | cut -d' ' -f1,3)" = "admin me" ]
	[ "$before" != "$(cat other.key)" ]
}

@test "completion: words of the programs, and live ids only of a living cluster" {
	. <(ps-ctl completion bash)
	complete_words() {
		COMP_LINE="$*"
		COMP_POINT=${#COMP_LINE} COMPREPLY=()
		_pskit
		echo "${COMPREPLY[*]}"
	}
	[[ " $(complete_words ps-ctl sta) " == *" start "* && " $(complete_words ps-ctl sta) " == *" status "* ]]
	[ "$(complete_words ps-ctl run --js)" = --json ]
	[ "$(complete_words ps-ctl wait --for re)" = ready ]
	[[ " $(complete_words ps-ctl init --model ml) " == *" mlp "* ]]
	[ "$(complete_words ps-ctl run x --set job.lr)" = job.lr= ]
	[ "$(complete_words ps-ctl run x --set mome)" = momentum= ]
	[ "$(complete_words ps-ctl list mod)" = "models modes" ]
	[ -z "$(complete_words ps-ctl logs se)" ]
	run -2 ps-ctl completion tcsh
}

@test "a missing cluster file is 4, a wrong one 78, and nothing is started" {
	run -4 ps-ctl run none
	[[ $output == *'no such cluster file "none"'* ]]
	echo '{' >bad.json
	run -78 ps-ctl run bad
	[[ $output == *bad.json*line* ]]
	echo '{"servrs": 1}' >typo.json
	run -78 ps-ctl run typo
	[[ $output == *'did you mean "servers"?'* ]]
	echo '{"servers": "many"}' >type.json
	run -78 ps-ctl start type.json
	[[ $output == *servers* ]]
	echo '{"job": {"model": "mlpp"}}' >model.json
	run -78 ps-ctl run model
	[[ $output == *mlp* ]]
	echo '{"job": {"model": "linear", "data": "none.csv", "epochs": 1}}' >data.json
	run -78 ps-ctl start data
	[[ $output == *none.csv* ]]
	no_runs
}

@test "--set: parsed by the key's type, checked with all the rest" {
	write_cluster
	run -2 ps-ctl run lin --set lr
	[[ $output == *key=value* ]]
	run -78 ps-ctl run lin --set lr=fast
	[[ $output == *"job.lr"*fast* ]]
	run -78 ps-ctl run lin --set lr=-1
	run -78 ps-ctl run lin --set sync=sps
	run -78 ps-ctl run lin --set data=none.csv
	run -78 ps-ctl start lin --set data=- --set workers=1
	[[ $output == *"ps-ctl run"* ]]
	no_runs
}

@test "--set: what is wrong with an assignment is not blamed on the file" {
	write_cluster
	for set in model=none optimizer=none schedule=none data=none.csv eval=none.csv init=none name=a/b epochs=0 \
		codec=none l1=3 transport=udp lease=1ms; do
		run -78 ps-ctl run lin --set epochs=3 --set "$set"
		[[ $output == "ps-ctl: --set $set: "* ]]
	done
	run -78 ps-ctl run lin --set epochs=1e13
	[[ $output == *"in digits"* ]]
	run -78 ps-ctl run lin --set job=3
	[[ $output == *"job.lr"* ]]
	run -2 ps-ctl run lin --set =5
	run -78 ps-ctl run lin --set servers=2 --set listen=127.0.0.1:7001
	[[ $output == *"port 0"* ]]
	run -2 ps-work bench --sparse 0
	no_runs
}

@test "a directory that is no cluster is 4, another user's is 5" {
	run -4 ps-ctl -C / status
	[[ $output == *'"/" is not a run directory'* ]]
	write_cluster 1
	ps-ctl run lin >/dev/null
	if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --clear-groups true 2>/dev/null; then
		chmod 755 . && run -5 setpriv --reuid 65534 --regid 65534 --clear-groups "$BIN/ps-ctl" -C "$T/lin.run" status
		[[ $output == *"another user"* ]]
	fi
}

@test "a question mark in a directory's name begins no options" {
	mkdir 'a?x=1' 'a?x=1*'
	for dir in 'a?x=1' 'a?x=1*'; do
		cd "$T/$dir"
		write_cluster 1
		ps-ctl run lin >/dev/null
		ps-ctl run lin --set 'data=tra*.csv?label=y&scale=none' >/dev/null
	done
}

@test "a reader that leaves is no failure, a full disk is" {
	set -o pipefail
	ps-ctl list options | true
	ps-ctl list options --json | head -n 1 >/dev/null
	if [ -w /dev/full ]; then
		run -1 bash -c 'ps-ctl list models >/dev/full'
		[[ $output == *"standard output"* ]]
	fi
}

@test "checkpoint: an option that the action does not have is refused" {
	for words in "ls --timeout 5s:--timeout: ls has no such option without an object store" "verify --newer:--newer: verify has no such option" \
		"push --stop:--stop: push has no such option" "rm 3 --timeout 5s:--timeout: rm has no such option without an object store"; do
		# shellcheck disable=SC2086 # words
		run -2 ps-ctl checkpoint ${words%%:*}
		[[ $output == *"${words#*:}"* ]]
	done
}

@test "checkpoint ls in a wrong directory says what is wrong, once" {
	run -4 ps-ctl checkpoint ls
	[[ $output == 'ps-ctl: there is no *.run directory in '*'name a run directory with -C DIR' ]]
	write_cluster 1
	ps-ctl run lin >/dev/null
	mkdir lin.run/checkpoints other
	for where in lin.run lin.run/checkpoints; do
		run -4 bash -c "cd $where && ps-ctl checkpoint ls"
		[[ $output == 'ps-ctl: . is inside a run directory: give that directory with -C ./'* || $output == *'with -C .' ]]
		[ "$(wc -l <<<"$output")" -eq 1 ]
	done
	run -4 ps-ctl -C lin.run/checkpoints checkpoint ls
	[[ $output == *"lin.run/checkpoints is inside a run directory"* ]]
	run -4 ps-ctl -C other checkpoint ls
	[[ $output == *'"other" is not a run directory' ]]
	cp -r lin.run again.run
	run -3 ps-ctl checkpoint ls
	[[ $output == *"this directory has several runs: name one with -C DIR"* ]]
}

@test "integers are printed as integers, and one of a thing is no plural" {
	run -0 ps-ctl show keep_last
	[[ $output == *"max        1000000"* ]]
	run -0 ps-ctl show hidden
	[[ $output == *"max        1048576"* ]]
	write_cluster 1
	ps-ctl run lin --set workers=1 --set data='train.csv?label=y&scale=none' >/dev/null
	grep -q '2 tables over 1 server"' lin.run/events.jsonl
	# A report of a run with one evaluation has whole numbers of steps, and a mark for it.
	ps-ctl report lin.run >report.html
	grep -q '<circle class="c1"' report.html
	perl -0ne 'print $& while /<figcaption>(Loss|Evaluation).*?<\/figure>/gs' report.html >steps.html
	grep -qE '<text x="[0-9.]+" y="232"' steps.html
	[ -z "$(grep -E '<text x="[0-9.]+" y="232"[^>]*>[0-9]+[.]' steps.html)" ]
}

@test "-o is the output, -n a number of lines or rows, -C the run directory, in all programs" {
	for sub in $(ps-ctl --ps-complete | grep -v -e '^--' -e '^help$'); do ps-ctl "$sub" --help; done >all
	for sub in $(ps-work --ps-complete | grep -v '^--'); do ps-work "$sub" --help; done >>all
	ps-stat --help >>all
	ps-serve --help >>all
	letters() { grep -oE "^  -$1, --[a-z-]+" all | sort -u | cut -d' ' -f4 | paste -sd' '; }
	[ "$(letters o)" = "--output" ]
	run -2 ps-stat -o step,loss
	[[ $output == *'-o step,loss: no such format of the output; columns are chosen by -k'* ]]
	[ "$(letters n)" = "--lines --top" ]
	[ "$(letters C)" = "--cluster --run-dir" ]
}

@test "export -o: a format, or a file" {
	write_cluster 1
	ps-ctl run lin >/dev/null
	ps-ctl -C lin.run export b -o npy >want.npy 2>/dev/null
	run -0 ps-ctl -C lin.run export b -o got.npy
	cmp want.npy got.npy
	ps-ctl -C lin.run export all -o text >want.txt 2>/dev/null
	ps-ctl -C lin.run export all -o got.txt 2>/dev/null
	cmp want.txt got.txt
	run -2 ps-ctl -C lin.run export all -o model.pt
	[[ $output == *"must be safetensors, npy, text or onnx, or a file"* ]]
	[ ! -e model.pt ]
}
