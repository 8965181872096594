#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The manual: every page is well-formed, names all that there is to name, and
# its examples run.
#
# An example is run when a line `.\" run` stands before its .Bd block: by bash -e,
# in a directory with cluster.json, train.csv and test.csv.  `.\" run live`: and
# with that cluster started before, and stopped after.

setup() {
	cd "$BATS_TEST_DIRNAME/.."
	bin=$(cd "${PS_BIN:-build}" && pwd)
	dir=
}

teardown() {
	[ -n "$dir" ] || return 0
	for run in "$dir"/*.run; do
		[ ! -e "$run" ] || "$bin/ps-ctl" -C "$run" stop --timeout 2s >/dev/null 2>&1 || true
	done
	rm -rf "$dir"
}

# Long options in the .Fl macros of a page; with a name, of its .Ss NAME alone; and those of $3 on.
flags() {
	{
		[ $# -lt 3 ] || printf '%s\n' "${@:3}"
		awk -v sub_name="${2-}" '
			/^\.S[sh] / { inside = $1 == ".Ss" && $2 == sub_name }
			sub_name == "" || inside {
				while (match($0, /(^|[^A-Za-z0-9_])Fl -[a-z][a-z0-9-]*/)) {
					name = substr($0, RSTART, RLENGTH)
					$0 = substr($0, RSTART + RLENGTH)
					sub(/.*Fl -/, "--", name)
					print name
				}
			}' "man/$1"
	} | sort -u
}

# What a program says of its own options.
options() {
	"$bin/$1" "${@:2}" --ps-complete | grep '^--' | sort -u
}

# Compare two lists of options; says which side lacks what.
same() {
	[ "$2" != "$3" ] || return 0
	echo "$1: the page (<) and the program (>) differ:"
	diff <(printf '%s\n' "$2") <(printf '%s\n' "$3") | grep '^[<>]'
	return 1
}

# First argument of MACRO(...) in a .def file.
names() {
	sed -n "s/^$1(\"\{0,1\}\([A-Za-z0-9_.]*\)\"\{0,1\}[,)].*/\1/p" "$2" | grep .
}

# Second argument of MACRO(NAME, "TEXT") in a .def file.
forms() {
	sed -n "s/^$1([a-z0-9_]*, \"\([^\"]*\)\").*/\1/p" "$2" | grep .
}

# Every name that stdin gives must match PATTERN (with @ for the name) in the page.
named() {
	local name missing=0
	while read -r name; do
		grep -qE -e "${2//@/$name}" "man/$1" || { echo "man/$1 does not name $name"; missing=1; }
	done
	[ "$missing" -eq 0 ]
}

# Section $2 of page $1 must have rows ".It Cm NAME" or ".It Cm NAME , NAME" for exactly the names
# on stdin.
described() {
	sort -u > "$BATS_TEST_TMPDIR/all"
	[ -s "$BATS_TEST_TMPDIR/all" ]
	awk -v section="$2" '
		/^\.S[sh] / { inside = substr($0, 5) == section }
		inside && sub(/^\.It Cm /, "") { gsub(/ , /, "\n"); print }' "man/$1" | sort |
		diff "$BATS_TEST_TMPDIR/all" - || { echo "the code (<) and man/$1, $2 (>) differ"; return 1; }
}

# The same, and no other page repeats the list.  Two rows of it count as a list, because one row may
# be another thing with the same name; so do all its names within 12 lines, unless $3 is "rows".
described_once() {
	local name page rows bad=0
	described "$1" "$2" || bad=1
	for page in man/*; do
		[ "$page" != "man/$1" ] || continue
		rows=0
		while read -r name; do
			! grep -qE "^\.It Cm (.* , )?$name( |\$)" "$page" || rows=$((rows + 1))
		done < "$BATS_TEST_TMPDIR/all"
		[ "$rows" -lt 2 ] || { echo "$page has $rows rows of what man/$1 describes"; bad=1; }
		[ "${3-}" != rows ] || continue
		# Names are compared without what follows a colon.
		awk 'NR == FNR { sub(/:.*/, ""); names[$0]; next }
			{ last[FNR % 12] = $0; text = ""
			  for (i in last) text = text " " last[i]
			  gsub(/[^A-Za-z0-9_]+/, " ", text); text = text " "
			  for (n in names) if (!index(text, " " n " ")) next
			  exit 1 }' "$BATS_TEST_TMPDIR/all" "$page" || { echo "$page repeats a list of man/$1"; bad=1; }
	done
	[ "$bad" -eq 0 ]
}

# Where a table is too wide its last column has a word a line.
@test "ps-metrics(7) fits a terminal of 80 columns" {
	mandoc -T utf8 -O width=78 man/ps-metrics.7 | col -bx >"$BATS_TEST_TMPDIR/page"
	[ -z "$(grep -nE '^ {60,}[^ ]+$|^.{81,}$' "$BATS_TEST_TMPDIR/page")" ]
}

@test "every page passes mandoc's lint" {
	run mandoc -Tlint -W warning man/*
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "every page says what it is called, and is referred to by a page" {
	for page in man/*; do
		name=$(basename "$page")
		stem=${name%.*} section=${name##*.}
		grep -qx "\.Dt ${stem^^} $section" "$page"
		grep -lq "^\.Xr $stem $section" man/* || { echo "$name stands alone"; false; }
	done
}

@test "cross references lead to pages that are there" {
	missing=0
	while read -r name section; do
		case $name in
		ps-*) [ -e "man/$name.$section" ] || { echo "$name($section)"; missing=1; } ;;
		esac
	done < <(sed -n 's/^\.*\(.*\)\bXr \([a-z0-9-]*\) \([0-9]\).*/\2 \3/p' man/*)
	[ "$missing" -eq 0 ]
}

@test "program pages have their sections" {
	for page in ps-ctl.1 ps-stat.1 ps-work.1 ps-serve.8; do
		for section in SYNOPSIS ENVIRONMENT FILES SIGNALS "EXIT STATUS" EXAMPLES; do
			grep -qx "\.Sh $section" "man/$page" || { echo "$page has no $section"; false; }
		done
		for name in NO_COLOR PS_CLUSTER; do
			grep -q "Ev $name" "man/$page"
		done
	done
}

@test "options of ps-serve and ps-stat" {
	same ps-serve "$(flags ps-serve.8)" "$(options ps-serve)"
	same ps-stat "$(flags ps-stat.1)" "$(options ps-stat)"
}

@test "options of every command of ps-work" {
	for sub in $("$bin/ps-work" --ps-complete | grep -v '^--'); do
		# floats talks to no cluster.
		common=$(flags ps-work.1 Common | if [ "$sub" = floats ]; then grep -e --help -e --version; else cat; fi)
		grep -q "^\.Ss $sub\$" man/ps-work.1 || { echo "no subsection $sub"; false; }
		same "ps-work $sub" "$(printf '%s\n' "$common" "$(flags ps-work.1 "$sub")" | grep . | sort -u)" \
			"$(options ps-work "$sub")"
	done
}

@test "options of every subcommand of ps-ctl" {
	same ps-ctl "$(flags ps-ctl.1 Options)" "$(options ps-ctl)"
	for sub in $(names CTL cmd/ctl/ctl.def); do
		same "ps-ctl $sub" "$(flags ps-ctl.1 "$sub" --help --version)" "$(options ps-ctl "$sub")"
	done
}

@test "subcommands, lists and views" {
	names CTL cmd/ctl/ctl.def | named ps-ctl.1 '^\.Ss @( |$)'
	"$bin/ps-ctl" list exit-codes --json | jq -r .name | sed 's/+/[+]/' | named ps-ctl.1 '^\.It @$'
	names VIEW cmd/stat/stat.def | named ps-stat.1 '^\.Ss @$'
	for view in $(names VIEW cmd/stat/stat.def); do
		sed -n 's/^\t{ "\([^"]*\)", "[^"]*", COL_.*/\1/p' "cmd/stat/$view.c" | grep . |
			named ps-stat.1 '(Cm |, )@( |$)'
	done
}

@test "no subcommand or view is documented that is not there" {
	awk '/^\.S[sh] /{ inside = $2 == "SUBCOMMANDS" || (inside && $1 == ".Ss") } inside && /^\.Ss/ { print $2 }' \
		man/ps-ctl.1 | sort > "$BATS_TEST_TMPDIR/page"
	names CTL cmd/ctl/ctl.def | sort | diff "$BATS_TEST_TMPDIR/page" -
	awk '/^\.S[sh] /{ inside = $2 == "VIEWS" || (inside && $1 == ".Ss") } inside && /^\.Ss/ { print $2 }' \
		man/ps-stat.1 | sort > "$BATS_TEST_TMPDIR/page"
	names VIEW cmd/stat/stat.def | sort | diff "$BATS_TEST_TMPDIR/page" -
}

@test "every key of the cluster file, with type, default, bounds and live or fixed" {
	names KEY lib/cluster/conf/conf.def | named ps-cluster.5 '^\.It Cm @ Pq '
	[ "$(grep -c '^\.It Cm [a-z0-9_.]* Pq .*\(live\|fixed\)$' man/ps-cluster.5)" \
		-eq "$(names KEY lib/cluster/conf/conf.def | wc -l)" ]
	declare -A says types
	while read -r line; do
		line=${line#.It Cm }
		says[${line%% *}]=${line#*Pq }
	done < <(grep '^\.It Cm [a-z0-9_.]* Pq ' man/ps-cluster.5)
	while IFS='|' read -r type text; do
		types[$type]=$text
	done < <(sed -n 's/.*TYPE(\([A-Z0-9_]*\), "\([^"]*\)".*/\1|\2/p' lib/cluster/conf/conf_key.h)
	bad=0
	while IFS='|' read -r name type deflt low high live; do
		line=${says[$name]}
		want="${types[$type]};"
		case $name:$deflt in
		name:* | on_worker_loss:*) ;;
		*: | *:"[]") want="$want default none;" ;;
		*:BY_*) want="$want default by ${deflt#BY_};" want=${want,,} ;;
		*) want="$want default $deflt;" ;;
		esac
		[ "$type" != DURATION ] || low=${low}s high=${high}s
		case $type:$low:$high in
		SYNC:* | EVERY:* | *:0:0) ;;
		*) want="$want from $low to $high;" ;;
		esac
		want=${want/from ABOVE0/above 0} want=${want/to BELOW1/below 1}
		live=${live/AT_ONCE/LIVE}
		[ "$line" = "$want ${live,,}" ] || { echo "$name: the page has \"$line\", the code \"$want ${live,,}\""; bad=1; }
	done < <(tr '\n' ' ' < lib/cluster/conf/conf.def | sed 's/KEY(/\n&/g' |
		sed -n 's/^KEY(\([a-z][a-z0-9_.]*\), *\([A-Z]*\), *"\{0,1\}\([^",]*\)"\{0,1\}, *\([^,]*\), *\([^,]*\), *\([A-Z_]*\),.*/\1|\2|\3|\4|\5|\6/p')
	[ "$bad" -eq 0 ]
}

@test "update rules, modes, aggregators, losses and metrics, each in one page" {
	names RULE lib/learn/optim/optim.def | described_once ps-work.1 "UPDATE RULES"
	forms MODE lib/cluster/sync/sync.def | described_once ps-consistency.7 Modes rows
	forms AGGREGATOR lib/learn/aggregate/aggregate.def | described_once ps-consistency.7 "Robust sums"
	forms LOSS lib/learn/loss/loss.def | described_once ps-work.1 LOSSES
	names METRIC lib/learn/metric/metric.def | described_once ps-metrics.7 EVALUATIONS
}

@test "models with their tables, schedules, readers, codecs" {
	names MODEL lib/learn/model/model.def | named ps-models.7 '^\.Ss @$'
	"$bin/ps-ctl" list models --json | jq -r '.defaults | scan("[a-z0-9_]+(?==)")' | sort -u |
		named ps-models.7 '^\.Li .*\b@='
	names MODEL lib/learn/model/model.def | named ps-cluster.5 '\b@\b'
	"$bin/ps-ctl" list models --json | jq -r .tables | grep -oE '\b[wb][0-9]*\b' | sort -u |
		named ps-models.7 '^\.It Cm (.* , )?@( |$)'
	names SCHEDULE lib/learn/optim/schedule.def | named ps-cluster.5 '^\.It Cm @(:| |$)'
	names READER lib/learn/data/reader/reader.def | named ps-data.5 '^\.It Cm @$'
	names CODEC lib/learn/codec/codec.def | named ps-protocol.7 'Sy @$'
	names CODEC lib/learn/codec/codec.def | named ps-cluster.5 '\b@\b'
}

@test "options of data paths" {
	sed -n 's/^static const char \*const keys\[\] = { \(.*\) };/\1/p' lib/learn/data/source/data_uri.c | tr -d '",' | tr ' ' '\n' |
		grep . | named ps-cluster.5 '^\.It Cm @= '
}

@test "routes with their roles" {
	n=0
	while read -r method path roles rest; do
		n=$((n + 1))
		grep -qx "\.Ss $method $path" man/ps-http.7 || { echo "no $method $path"; false; }
		case $roles in 0) roles=all ;; *) roles=${roles//|/ } ;; esac
		grep -q "^\.It $method Ta $path Ta $roles Ta" man/ps-http.7 || { echo "$path: roles are $roles"; false; }
	done < <(sed -n 's/^ROUTE("\([A-Z]*\)", *"\([^"]*\)", *[a-z_]*, *\([^ ,]*\),.*/\1 \2 \3/p' lib/role/coordinator/http/routes.def)
	[ "$n" -eq "$(grep -c '^ROUTE' lib/role/coordinator/http/routes.def)" ]
	[ "$n" -eq "$(grep -cE '^\.Ss (GET|POST) ' man/ps-http.7)" ]
}

@test "events" {
	names EVENT lib/net/msg/event.def | described ps-http.7 "GET /v1/events"
	# The code reports every kind of event.def; a kind that it lacks does not compile.
	names EVENT lib/net/msg/event.def | sort > "$BATS_TEST_TMPDIR/kinds"
	grep -rohE --include='*.c' '\bEVENT_[a-z_]+' lib/cluster/coord lib/role/coordinator | sed 's/EVENT_//' | sort -u > "$BATS_TEST_TMPDIR/reported"
	[ "$(wc -l < "$BATS_TEST_TMPDIR/reported")" -gt 30 ]
	[ -z "$(comm -23 "$BATS_TEST_TMPDIR/kinds" "$BATS_TEST_TMPDIR/reported" | tee /dev/stderr)" ]
}

# NUMBER Ta NAME, as the .def file pairs them.
@test "numbers and names on the wire" {
	sed -n 's/^RECORD(\([A-Z_]*\), *\([0-9]*\),.*/\2 Ta \1/p' lib/net/wire/records.def | grep . > "$BATS_TEST_TMPDIR/rows"
	sed -n 's/^SUITE([^,]*, *"\([^"]*\)", *\([0-9]*\),.*/\2 Ta \1/p' lib/net/auth/suite.def >> "$BATS_TEST_TMPDIR/rows"
	sed -n 's/^HS_STATUS(\([A-Z]*\), *\([0-9]*\),.*/\2 Ta \1/p' lib/net/auth/hs_status.def >> "$BATS_TEST_TMPDIR/rows"
	sed -n 's/^ROLE([^,]*, *"\([^"]*\)", *\([1-9]\),.*/\2 Ta \1/p' lib/net/auth/role.def >> "$BATS_TEST_TMPDIR/rows"
	sed -n 's/^ERR([^,]*, *"\([^"]*\)", *\([0-9]*\),.*/\2 Ta \1/p' lib/base/core/err.def >> "$BATS_TEST_TMPDIR/rows"
	[ "$(wc -l < "$BATS_TEST_TMPDIR/rows")" -gt 50 ]
	named ps-protocol.7 '^\.It @ Ta ' < "$BATS_TEST_TMPDIR/rows"
	sed -n 's/^ERR([^,]*, *"\([^"]*\)".*/\1/p' lib/base/core/err.def | grep -vx ok | named ps-http.7 '^\.It [0-9]* Ta .*\b@\b'
}

@test "control messages: each, with all its members" {
	python3 - lib/net/msg/message.def man/ps-protocol.7 <<-'END'
	import re, sys
	messages, page = open(sys.argv[1]).read(), open(sys.argv[2]).read()
	found = re.findall(r'^BEGIN\((\w+), "(\w+)", ([^,]*), \w+\)\n(.*?)^END', messages, re.S | re.M)
	assert len(found) > 30, len(found)
	for name, op, senders, body in found:
	    keys = [m[2] or m[1] for m in re.findall(r'\b(INT|ID|FLAG|TEXT|TEXT_AS|DOC)\((\w+)(?:, "(\w+)")?', body)]
	    row = re.search(r'^\.It Cm %s\n(.*?)^\.(?:It|El)' % op if senders == "C" else r'^\.It %s Ta (.*?)^\.(?:It|El)' % op, page, re.S | re.M)
	    assert row, (op, "is not in the page")
	    missing = [k for k in keys if not re.search(r'\b%s\b' % k, row[1])]
	    assert not missing, (op, missing)
	END
}

@test "the cluster view: all members of it and of what it lists" {
	python3 - lib/net/msg/view.def man/ps-protocol.7 <<-'END'
	import re, sys
	view, page = open(sys.argv[1]).read(), open(sys.argv[2]).read()
	row = re.search(r'^\.It Cm view\n(.*?)^\.It Cm propose', page, re.S | re.M)[1]
	keys = [m[2] or m[1] for m in re.findall(r'^\t(INT|ID|FLAG|TEXT|TEXT_AS|DOC|LIST|OBJECT)\((\w+)(?:, "(\w+)")?', view, re.M)]
	assert len(keys) > 60, len(keys)
	missing = [k for k in keys if not re.search(r'\b%s\b' % k, row)]
	assert not missing, missing
	END
}

@test "what ps-ctl doctor looks at" {
	{
		sed -n 's/^REMEDY([A-Z_]*, *"\([a-z]*\)".*/\1/p' cmd/ctl/doctor_causes.def
		sed -n 's/.*doctor_\(add_finding\|add_ok\)(d, [^"]*"\([a-z]*\)".*/\2/p' cmd/ctl/doctor*.c | grep .
	} | sort -u > "$BATS_TEST_TMPDIR/checks"
	[ "$(wc -l < "$BATS_TEST_TMPDIR/checks")" -gt 15 ]
	sed -n '/^\.Ss doctor/,/^\.Ss pause/p' man/ps-ctl.1 > "$BATS_TEST_TMPDIR/section"
	while read -r check; do
		grep -qE "^\.It Cm (.* , )?$check( |\$)" "$BATS_TEST_TMPDIR/section" || { echo "no check $check"; false; }
	done < "$BATS_TEST_TMPDIR/checks"
}

@test "what a receipt may say" {
	grep -oE 'PUSH_[A-Z]+' lib/cluster/shard/shard.h | sed -n 's/^PUSH_//p' | tr A-Z a-z | sort -u > "$BATS_TEST_TMPDIR/status"
	named ps-consistency.7 '^\.It Cm @$' < "$BATS_TEST_TMPDIR/status"
	named ps-protocol.7 'Ta @ Ta' < "$BATS_TEST_TMPDIR/status"
	seq 1 11 | sed 's/^/P/' | named ps-consistency.7 '^\.It @$'
}

@test "exit codes of the programs" {
	for page in ps-ctl.1 ps-stat.1 ps-work.1 ps-serve.8; do
		sed -n 's/^ERR([^,]*, *"[^"]*", *[0-9]*, *\([0-9]*\),.*/\1/p' lib/base/core/err.def | sort -un | named "$page" '^\.It @$'
		grep -qx '\.It 128+N' "man/$page"
	done
}

# ---- examples ------------------------------------------------------------------------

# Write the runnable examples of a page to $dir/examples/N.KIND.
examples() {
	mkdir "$dir/examples"
	awk -v to="$dir/examples/" '
		/^\.\\" run/ { kind = $3 ? $3 : "alone"; want = 1; next }
		want && /^\.Bd / { n++; file = to n "." kind; want = 0; next }
		/^\.Ed/ { file = "" }
		file { gsub(/\\e/, "\\"); sub(/^\\&/, ""); print > file }' "man/$1"
	ls "$dir/examples" | sort -n
}

tiny_cluster() {
	awk 'BEGIN { srand(1); print "a,b,y"
		for (i = 0; i < 200; i++) { a = rand() - 0.5; b = rand() - 0.5; printf "%.6f,%.6f,%.6f\n", a, b, 2 * a - 3 * b + 1 } }' \
		> "$dir/train.csv"
	head -n 31 "$dir/train.csv" > "$dir/test.csv"
	printf '%s\n' '{ "servers": 1, "workers": 2, "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv",' \
		'"eval": "test.csv", "epochs": 3, "batch": 20, "lr": 0.1 } }' > "$dir/cluster.json"
}

run_examples() {
	local file
	dir=$(mktemp -d "$BATS_TEST_TMPDIR/man.XXXXXX")
	tiny_cluster
	examples "$1" > "$BATS_TEST_TMPDIR/list"
	[ -s "$BATS_TEST_TMPDIR/list" ]
	cd "$dir"
	PATH=$bin:$PATH
	unset PS_CLUSTER
	for file in $(cat "$BATS_TEST_TMPDIR/list"); do
		echo "--- $1, example $file:"
		cat "examples/$file"
		case $file in *.live) ps-ctl start cluster && ps-ctl wait --for done --timeout 60s ;; esac
		timeout 100 bash -euo pipefail "examples/$file" < /dev/null
		case $file in *.live) ps-ctl stop ;; esac
	done
}

@test "the examples of ps-ctl(1) run" { run_examples ps-ctl.1; }
@test "the examples of ps-stat(1) run" { run_examples ps-stat.1; }
@test "the examples of ps-work(1) run" { run_examples ps-work.1; }
@test "the examples of ps-serve(8) run" { run_examples ps-serve.8; }
@test "the examples of ps-cluster(5) run" { run_examples ps-cluster.5; }
@test "the examples of ps-consistency(7) run" { run_examples ps-consistency.7; }
@test "the examples of ps-http(7) run" { run_examples ps-http.7; }
@test "the examples of ps-troubleshoot(7) run" { run_examples ps-troubleshoot.7; }
@test "the examples of ps-bandwidth(7) run" { run_examples ps-bandwidth.7; }
