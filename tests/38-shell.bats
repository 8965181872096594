#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Words that the shells complete, by the shells themselves.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	export HOME=$T XDG_CONFIG_HOME=$T/config XDG_DATA_HOME=$T/data XDG_CACHE_HOME=$T/cache
	cd "$T"
}
teardown() { teardown_dir; }

words() { ps-ctl completion words -- "$@" | cut -f1; }

# What bash has in COMPREPLY for a line that is typed so far.
in_bash() {
	bash --norc -c '
		. <(ps-ctl completion bash)
		COMP_LINE=$1 COMP_POINT=${#1}
		_pskit
		printf "%s\n" "${COMPREPLY[@]}"' bash "$1" 2>bash.err
	[ ! -s bash.err ]
}

in_fish() {
	fish --no-config -c 'ps-ctl completion fish | source; complete -C "$argv[1]"' "$1" | cut -f1
}

# What zsh's own commands of completion are given, which want a terminal.
in_zsh() {
	zsh -f -c '
		compdef() { }
		compadd() {
			local -a ignored
			zparseopts -D -E -a ignored S: l d: a
			print -rl -- ${(P)1}
		}
		_files() { print -r -- "files $*" }
		. <(ps-ctl completion zsh)
		words=("${(@s: :)1}") CURRENT=$#words
		_pskit' zsh "$1"
}

need() { command -v "$1" >/dev/null || skip "$1 is not installed"; }

# offers FUNCTION LINE WORD...: each of these words is among what FUNCTION says.  A busy machine
# may take longer than the 0.3 s in which the words are to be there.
offers() {
	wait_for 10 has_words "$@" || {
		echo "$1 \"$2\":" $($1 "$2")
		return 1
	}
}

has_words() {
	local how=$1 line=$2 word got
	shift 2
	got=$($how "$line")
	for word; do
		grep -qxF -- "$word" <<<"$got" || return 1
	done
}

@test "every subcommand and option of the four programs, by their own tables" {
	for sub in $(ps-ctl --ps-complete | grep -v '^--'); do
		[ "$(words ps-ctl "$sub")" = "$sub" ] || words ps-ctl "$sub" | grep -qx "$sub"
		[ "$sub" = help ] || diff <(ps-ctl "$sub" --ps-complete | grep '^--' | sort) <(words ps-ctl "$sub" -- | grep '^--' | sort)
	done
	for sub in $(ps-work --ps-complete | grep -v '^--'); do
		diff <(ps-work "$sub" --ps-complete | sort) <(words ps-work "$sub" -- | sort)
	done
	diff <(ps-serve --ps-complete | sort) <(words ps-serve -- | sort)
	diff <(ps-stat --ps-complete | sort) <(words ps-stat -- | sort)
	for view in $(sed -n 's/^VIEW(\(.*\))/\1/p' "$BATS_TEST_DIRNAME/../cmd/stat/stat.def"); do
		words ps-stat "" | grep -qx "$view"
	done
	[ "$(words ps-serve --log-level w)" = warn ]
	[ "$(words ps-ctl checkpoint v)" = verify ]
	[ "$(words ps-ctl invite --role m)" = monitor ]
	[ "$(words ps-ctl list mod | xargs)" = "models modes" ]
	words ps-ctl run | grep -qx run
	[ "$(words ps-ctl run x.json)" = :json ]
	[ "$(words other x)" = "" ]
}

@test "keys and their values" {
	[ "$(words ps-ctl run x --set job.lr | xargs)" = ":nospace job.lr=" ]
	[ "$(words ps-ctl run x -s mome | xargs)" = ":nospace momentum=" ]
	[ "$(words ps-ctl sweep x --grid sync=bsp,a | xargs)" = ":nospace sync=bsp,asp" ]
	[ "$(words ps-ctl set sync=s | xargs)" = ":nospace sync=ssp:" ]
	[ "$(words ps-ctl run x -s model=ml)" = model=mlp ]
	[ "$(words ps-ctl run x -s optimizer=ada | xargs)" = "optimizer=adagrad optimizer=adam optimizer=adamw" ]
	[ "$(words ps-ctl sweep x --grid optimizer=sgd,nest)" = optimizer=sgd,nesterov ]
	[ "$(words ps-ctl set schedule=co | xargs)" = "schedule=constant :nospace schedule=cosine:" ]
	[ "$(words ps-ctl run x -s format=js)" = format=jsonl ]
	words ps-ctl run x -s codec=f | grep -qx codec=f16
	[ "$(words ps-ctl run x -s stop=au)" = stop=auc ]
	[ "$(words ps-ctl run x -s deterministic=t)" = deterministic=true ]
	# Only what can change, where it is to change.
	words ps-ctl set "" | grep -qx codec=
	run ! grep -qx name= <(words ps-ctl set "")
	words ps-ctl run x -s "" | grep -qx name=
}

@test "live names, and no waiting for those who do not answer" {
	mkdir other.run
	[ -z "$(words ps-ctl logs w)" ]
	endless
	begin lin.json
	wait_for 10 eval '[ "$(words ps-ctl logs w | xargs)" = "worker-0 worker-1" ]'
	wait_for 10 eval '[ "$(words ps-ctl drain "" | xargs)" = server-0 ]'
	wait_for 10 eval '[ "$(words ps-ctl export "" | xargs)" = "all w b" ]'
	wait_for 10 eval '[ "$(cd / && words ps-work pull -C "$T/lin.run" w)" = w ]'
	[ "$(words ps-ctl -C l)" = ":dirs"$'\n'"lin.run" ]
	[ "$(words ps-ctl report l)" = ":dirs"$'\n'"lin.run" ]
	# A coordinator that stands still.
	kill -STOP "$(cat lin.run/server-0.pid)"
	# It waits for 300 ms.
	within 1000 run words ps-ctl logs w
	within 1000 run words ps-ctl export ""
	[[ ${lines[0]} == all ]]
	kill -CONT "$(cat lin.run/server-0.pid)"
}

@test "bash" {
	mkdir -p one.run folder
	touch lin.json other.txt
	offers in_bash "ps-ctl st" start status stop
	offers in_bash "ps-ctl run --js" --json
	offers in_bash "ps-ctl table " add grow drop
	offers in_bash "ps-ctl key r" revoke rotate-psk
	offers in_bash "ps-ctl object " ls cat stat put rm
	offers in_bash "ps-ctl get " config
	offers in_bash "ps-ctl events worker_l" worker_lost
	offers in_bash "ps-ctl set adapt=backup,c" backup,codec
	offers in_bash "ps-ctl run l" lin.json
	run ! grep -qx other.txt <(in_bash "ps-ctl run ")
	offers in_bash "ps-ctl report " one.run
	# What is before = and : stays, because bash takes it for a word of its own.
	offers in_bash "ps-ctl run lin --set sync=" bsp ssp: asp
	offers in_bash "ps-ctl run lin --set job.l" job.lr= job.l2=
	offers in_bash "ps-stat --t" --tsv
	offers in_bash "ps-work tr" train
	offers in_bash "ps-serve --log-level d" debug
	offers in_bash "ps-ctl invite --output o" one.run other.txt
	run -2 ps-ctl completion tcsh
}

@test "fish" {
	need fish
	mkdir -p one.run folder
	touch lin.json other.txt
	offers in_fish "ps-ctl st" start status stop
	offers in_fish "ps-ctl run --js" --json
	offers in_fish "ps-ctl run l" lin.json
	offers in_fish "ps-ctl report o" one.run
	offers in_fish "ps-ctl run lin --set sync=" sync=bsp sync=ssp: sync=asp
	offers in_fish "ps-stat --t" --tsv
	offers in_fish "ps-work tr" train
	offers in_fish "ps-serve --log-level d" debug
	offers in_fish "ps-serve l" lin.json
}

@test "zsh" {
	need zsh
	mkdir -p one.run
	touch lin.json
	offers in_zsh "ps-ctl st" start status stop
	offers in_zsh "ps-ctl run lin --set sync=" sync=bsp sync=ssp: sync=asp
	offers in_zsh "ps-serve --log-level " debug error info warn
	offers in_zsh "ps-ctl run l" "files -g *.json"
	offers in_zsh "ps-stat --" --tsv --json
}

# ---- contrib/examples ------------------------------------------------------------------------

EXAMPLES=$BATS_TEST_DIRNAME/../contrib/examples

# example NAME ...: it runs, says nothing on stderr that bash would say, and leaves nothing.
example() {
	mkdir -p tmp
	TMPDIR=$PWD/tmp timeout 100 "$EXAMPLES/$1" "${@:2}" >out 2>err
	rmdir tmp
	run ! grep -E 'line [0-9]+:|unbound' err
}

@test "every example has a header that says what it shows, and is strict" {
	for script in "$EXAMPLES"/[a-z]*; do
		# Those of programs are in folders, and tried in 72 and 73.
		[ -f "$script" ] || continue
		case $script in *.bash) continue ;; esac
		[ -x "$script" ]
		sed -n 1p "$script" | grep -qx '#!/usr/bin/env bash'
		[ "$(sed -n '2,3p' "$script" | grep -c '^# ')" -eq 2 ]
		sed -n '4,5p' "$script" | grep -qx 'set -euo pipefail'
		grep -q "\`$(basename "$script")\`" "$EXAMPLES/README.md"
		grep -qE "(example |EXAMPLES/)$(basename "$script")" "$BATS_TEST_FILENAME"
	done
}

@test "examples: stragglers, sweep, live-change" {
	example stragglers
	# Who waits for nobody is not slower than who waits for all.
	awk -F'\t' '{ s[$1] = $2 } END { exit !(s["asp"] > 0 && s["asp"] < s["bsp"]) }' out
	example sweep best.html
	[ "$(wc -l <out)" -eq 3 ]
	grep -q '</html>' best.html
	example live-change
	awk '{ b[$1] = $2 } END { exit !(b["raw"] > 3500 && b["f16"] > 1500 && b["f16"] < 0.7 * b["raw"]) }' out
}

@test "examples: failover" {
	example failover
	grep -q '^server_lost ' out
	[ "$(tail -n 1 out | jq -c '[.state, .steps]')" = '["done",4000]' ]
}

@test "examples: online" {
	example online 400 3
	awk '{ v[$1] = $2 } END { exit !(NR == 3 && v["p50"] > 0 && v["p99"] >= v["p50"] && v["events/s"] > 0) }' out
}

@test "examples: to-jq, to-gnuplot, to-prometheus" {
	example to-jq
	# The faster one waits for the slower one.
	awk '{ w[$1] = $3 } END { exit !(w["worker-1"] > w["worker-0"] + 20) }' out
	if command -v gnuplot >/dev/null; then
		example to-gnuplot
		grep -q evaluation out
		example to-gnuplot curve.png
		head -c 4 curve.png | grep -aq PNG
	fi
	endless
	begin lin.json
	mkdir folder
	background timeout 60 "$EXAMPLES/to-prometheus" folder 0.1
	wait_for 10 test -s folder/pskit.prom
	! command -v promtool >/dev/null || promtool check metrics <folder/pskit.prom
	grep -q '^ps_' folder/pskit.prom
	ps-ctl stop >/dev/null
	finish
	[ "$status" -eq 0 ]
	[ "$(ls -A folder)" = pskit.prom ]
	mkdir empty && cd empty
	run -3 "$EXAMPLES/to-prometheus" ../folder
	[[ $output == *"no cluster is running"* ]]
}
