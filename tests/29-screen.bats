#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# ps-stat for eyes: the full screen, histograms, plots, and what else a stream can be asked for.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	export TMUX_TMPDIR=$T LC_ALL=C.UTF-8
	unset TMUX NO_COLOR
}
teardown() {
	kill -CONT "${asleep[@]}" 2>/dev/null || true
	tmux -L "$terminal" kill-server 2>/dev/null || true
	teardown_dir
}
asleep=()
terminal=none terminals=0
BRAILLE='[\x{2801}-\x{28ff}]'

cluster_file() {
	write_csv train.csv
	cat >one.json <<-END
	{ "servers": 2, "workers": 2, "heartbeat": "100ms", $1
	  "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y&scale=none", "steps": $ENDLESS, "batch": 16, "lr": 0.001 } }
	END
}

# Worker-0 and worker-1, of which the one that comes last is slow.
begin_with_a_slow_one() {
	cluster_file ''
	background ps-serve one.json
	RUN=$T/one.run
	wait_for 10 test -S "$RUN/ctl.sock"
	ps-serve -C "$RUN" --name server-1 2>server.log 3>&- &
	pids+=($!)
	ps-work train -C "$RUN" --rank 0 --compute 5ms 2>w0.log 3>&- &
	pids+=($!)
	ps-work train -C "$RUN" --rank 1 --compute 40ms 2>w1.log 3>&- &
	pids+=($!)
	wait_for 20 step_is_past 15
}

need_tmux() { command -v tmux >/dev/null || skip "tmux is not installed"; }

# terminal WIDTH HEIGHT COMMAND: in a shell of a terminal of that size; what it leaves behind
# is told by the shell.
terminal() {
	terminal=t$BATS_TEST_NUMBER-$((++terminals))
	tmux -L "$terminal" -f /dev/null new-session -d -x "$1" -y "$2" \
		"export PATH='$PATH' TERM=screen-256color; trap : INT QUIT; was=\$(stty -g); $3; echo \"code \$?\"; [ \"\$(stty -g)\" = \"\$was\" ] && echo as before; exec sleep 1000"
}
pane() { tmux -L "$terminal" capture-pane -p; }
shows() { pane | grep -qE -e "$1"; }
hides() { ! pane | grep -qE -e "$1"; }
press() { tmux -L "$terminal" send-keys "$@"; }
line() { pane | sed -n "$1p"; }
# The shell is back, on the screen that was there before, with its cursor.
given_back() { shows '^as before$' && [ "$(tmux -L "$terminal" display -p '#{alternate_on}#{cursor_flag}')" = 01 ]; }
screen_process() { pgrep -f -x "ps-stat -C $RUN top 0.2"; }

@test "numbers that are longer than their column are shortened, so that columns stand below each other" {
	for factor in 40000 4e12; do
		write_csv train.csv
		awk -F, -v OFS=, -v factor=$factor 'NR > 1 { $3 *= factor } { print }' train.csv >huge.csv
		echo '{ "workers": 2, "quota_pushes": 200, "job": { "model": "linear", "optimizer": "sgd", "lr": 1e-12, "batch": 16, "epochs": 1000000,
		        "data": "huge.csv?label=y&scale=none" } }' >huge.json
		begin huge.json
		wait_for 20 step_is_past 5
		ps-stat -C "$RUN" workers -k id,step,loss,epoch >out
		cat out
		[ "$(awk '{ print length }' out | sort -u | wc -l)" -eq 1 ]
		grep -qE '^ *worker-1 .* [0-9]\.[0-9]+e[1-9][0-9]* ' out
		# Other formats have all digits.
		ps-stat -C "$RUN" workers --json | jq -es 'all(.train_loss > 1e8)'
		ps-stat -C "$RUN" workers -o csv -k loss | grep -qE '^[0-9]{8,}|^[0-9.]+e\+[0-9]+$'
		ps-ctl -C "$RUN" stop --discard >/dev/null
	done
}

@test "top: the slowest worker first, why, curves, views, keys; in 80 by 24 and 200 by 50" {
	need_tmux
	begin_with_a_slow_one
	terminal 80 24 "ps-stat -C $RUN top 0.2"
	wait_for 20 shows '^worker-1 +active '
	wait_for 20 shows '^everybody waits for worker-1 at step [0-9]+ '
	[[ $(line 1) == "one  running  step "*"bsp  2/2 workers  2/2 servers"* ]]
	pane | grep -A1 -E '^id +state +step +tr-loss +ex/s +slow data% comp% enc% push% wait% pull%' | grep -q '^worker-1 '
	wait_for 10 shows '^server-0 +live '
	# Loss falls: its curve begins at the top left.
	[[ $(line 5) == "loss "*"examples/s "* ]]
	starts_high() { line 6 | grep -qP "^$BRAILLE"; }
	wait_for 10 starts_high
	[ "$(pane | wc -L)" -le 80 ]
	tmux -L "$terminal" resize-window -x 200 -y 50
	wait_for 10 shows 'data compute encode push wait pull$'
	wait_for 10 shows '^worker-1 .* [█]{40,60}$'
	[ "$(pane | grep -n '^q quit' | cut -d: -f1)" -eq 50 ]
	press Tab
	wait_for 10 hides '^worker-'
	shows '^server-1 '
	press t
	wait_for 10 shows '^w +dense +2 +1 +1'
	press w '<'
	wait_for 10 shows '^worker-0 '
	press r
	press '?'
	wait_for 10 shows 'comes first: slow is'
	press x Space
	wait_for 10 shows 'Paused: space continues'
	held=$(line 1)
	# Some intervals of the screen.
	wait_for 10 step_is_past "$(($(status .step) + 20))"
	[ "$(line 1)" = "$held" ]
	press Space
	wait_for 10 hides 'is held'
	has_moved() { [ "$(line 1)" != "$held" ]; }
	wait_for 10 has_moved
	press q
	wait_for 10 given_back
	shows '^code 0$'
}

@test "top: without colours and blocks it is of letters, without room of what fits" {
	need_tmux
	begin_with_a_slow_one
	terminal 130 30 "NO_COLOR=1 LC_ALL=C ps-stat -C $RUN top 0.2"
	wait_for 20 shows '^worker-1 .* C{25,}W*$'
	shows 'Data Compute Encode Push Wait puLl'
	[ "$(tmux -L "$terminal" capture-pane -p -e | grep -cE $'\e''\[3[0-7]m')" -eq 0 ]
	tmux -L "$terminal" resize-window -x 30 -y 8
	wait_for 10 shows '^q quit'
	[ "$(pane | wc -L)" -le 30 ]
	tmux -L "$terminal" resize-window -x 1 -y 1
	tmux -L "$terminal" resize-window -x 100 -y 24
	wait_for 10 shows '^worker-1 '
	press q
	wait_for 10 given_back
}

@test "top gives the terminal back, whatever ends or stops it" {
	need_tmux
	begin_with_a_slow_one
	for way in "C-c 130" "TERM 143" "HUP 129" "QUIT 131" "SEGV 139" "ABRT 134"; do
		read -r how code <<<"$way"
		# That one is the sanitizer's own.
		[ "$how" != SEGV ] || [ -z "${PS_SANITIZED:-}" ] || continue
		terminal 80 24 "(ulimit -c 0; exec ps-stat -C $RUN top 0.2)"
		wait_for 20 shows '^worker-1 '
		case $how in
		C-*) press "$how" ;;
		*) kill -s "$how" "$(screen_process)" ;;
		esac
		wait_for 10 given_back
		shows "^code $code\$"
		tmux -L "$terminal" kill-server
	done
	terminal 80 24 "bash --norc -i"
	wait_for 10 shows '[$#]'
	press "ps-stat -C $RUN top 0.2" Enter
	wait_for 20 shows '^worker-1 '
	press C-z
	wait_for 10 shows 'Stopped'
	[ "$(tmux -L "$terminal" display -p '#{alternate_on}#{cursor_flag}')" = 01 ]
	press fg Enter
	wait_for 10 shows '^worker-1 '
	press q
	press 'echo I am back' Enter
	wait_for 10 shows '^I am back'
	[ "$(tmux -L "$terminal" display -p '#{alternate_on}#{cursor_flag}')" = 01 ]
}

@test "top: a coordinator that is silent, one that has gone, and the next one" {
	need_tmux
	cluster_file ''
	begin one.json
	wait_for 20 step_is_past 3
	terminal 80 24 "ps-stat -C $RUN top 0.2"
	wait_for 20 shows '^worker-1 '
	asleep+=("$(cat "$RUN/server-0.pid")")
	kill -STOP "${asleep[0]}"
	wait_for 20 shows '^The coordinator has not answered for [0-9]+ s'
	kill -CONT "${asleep[0]}"
	wait_for 20 hides 'has not answered'
	ps-ctl -C "$RUN" stop >/dev/null 2>&1
	wait_for 20 shows '^No answer for [0-9]+ s: '
	shows '^worker-1 '
	begin one.json
	wait_for 20 hides 'No answer'
	wait_for 20 shows '  running  '
	press q
	wait_for 10 given_back
}

@test "where there is no terminal top is the workers' rows" {
	begin_with_a_slow_one
	run -0 --separate-stderr ps-stat -C "$RUN" top 0.2 2
	[ "${#lines[@]}" -eq 5 ]
	[[ ${lines[0]} =~ ^\ +id\ +state\ +step ]]
	[[ ${lines[3]} =~ worker-1 ]]
	[ "$(ps-stat -C "$RUN" top -H | wc -l)" -eq 2 ]
	[ "$(ps-stat -C "$RUN" top --json | jq -r .kind | uniq)" = worker ]
	run -2 ps-stat -C "$RUN" top -S nonsense
	if command -v tmux >/dev/null; then
		terminal 120 10 "TERM=dumb ps-stat -C $RUN top"
		wait_for 10 shows '^as before$'
		shows 'worker-1 active'
	fi
	run -4 ps-stat -C "$T" top
}

@test "-w: histograms of the cluster, of servers, of workers, since the start and in between" {
	begin_with_a_slow_one
	run -0 ps-stat -C "$RUN" -w
	[[ ${lines[0]} == "staleness: "* ]]
	[[ $output == *"push latency: "*"100.00% █"*"apply: "* ]]
	# The figures have a heading, and each bound a unit.
	[ "$(grep -cE '^ +(updates|time) +pushes +so far$' <<<"$output")" -eq 3 ]
	[ -z "$(grep -E '^ +(<=|>) +[0-9.e+]+ +[0-9]+ ' <<<"${output#*push latency}")" ]
	# Half of all receipts come with the slow worker's part of the step.
	ps-stat -C "$RUN" -w --json >w.json
	[ "$(jq -r '.id + " " + .name' w.json | tr '\n' ,)" = "cluster staleness,cluster push_latency,cluster apply," ]
	jq -s -e '.[1] | .unit == "seconds" and .count > 30 and .p99 >= 0.016 and .counts[-1] == .count and
		(.counts | length) == (.le | length) + 1 and .counts == (.counts | sort)' w.json
	[ "$(ps-stat -C "$RUN" -w workers -H | cut -f 1,2 | uniq | tr '\t\n' ' ,')" = "worker-0 push_latency,worker-1 push_latency," ]
	[ "$(ps-stat -C "$RUN" -w servers --json | jq -r '.id + .name' | wc -l)" -eq 4 ]
	# The second report is of the interval alone.
	ps-stat -C "$RUN" -w --json 0.3 2 | jq -s '[.[] | select(.name == "apply")] | .[1].count < .[0].count' | grep -qx true
	run -2 ps-stat -C "$RUN" -w tables
	[[ $output == *"tables has no histograms"* ]]
	run -2 ps-stat -C "$RUN" -w -v
	LC_ALL=C ps-stat -C "$RUN" -w | grep -q '% #'
	# What they ask with: several answers of one moment.
	[ "$(http GET /v1/snapshot | jq -r 'keys_unsorted | join(" ")')" = "status servers workers tables why" ]
	http GET '/v1/snapshot?of=why,status' | jq -e 'keys == ["status", "why"] and .status.kind == "cluster"'
	for bad in of=nothing of=status,nothing of=statuswhy of=; do
		http GET "/v1/snapshot?$bad" | jq -e '.error.code == "usage" or (keys == [] and "'$bad'" == "of=")'
	done
	http GET /metrics | grep -qE '^ps_worker_push_latency_seconds_bucket\{worker="worker-1",le="\+Inf"\} [1-9]'
}

@test "plot: Braille while the job runs and after it; svg and png by gnuplot, or why not" {
	cluster_file ''
	begin one.json
	lines_are() { [ "$(wc -l <"$RUN/metrics.jsonl")" -ge "$1" ]; }
	wait_for 10 lines_are 3
	run -0 ps-stat -C "$RUN" plot loss ex/s pushed_bytes/s
	[[ ${lines[0]} == "loss "* ]]
	grep -q '^ex/s' <<<"$output"
	grep -qP "^ +[0-9.e-]+ *$BRAILLE" <<<"$output"
	LC_ALL=C ps-stat -C "$RUN" plot loss | LC_ALL=C grep -q "[.':]"
	run -0 ps-stat -C "$RUN" plot loss --across step 0.1 2
	[ "$(grep -c '^loss' <<<"$output")" -eq 2 ]
	run -0 ps-stat -H -C "$RUN" plot loss
	[[ $output != *PNG* && $output == *loss* ]]
	run -2 ps-stat -C "$RUN" plot wait%
	run -2 ps-stat -C "$RUN" plot los
	[[ $output == *'has no column "los"; there are: '*' train_loss '* ]]
	run -2 ps-stat -C "$RUN" plot
	run -2 ps-stat -C "$RUN" plot loss -o svg 1
	run -2 ps-stat -C "$RUN" plot loss --json
	run -2 ps-stat -C "$RUN" plot loss --across color
	# Live, it ends with the cluster.
	background ps-stat -C "$RUN" plot loss 0.1
	wait_for 10 grep -q '^loss' out
	ps-ctl -C "$RUN" stop >/dev/null
	finish
	[ "$status" -eq 0 ]
	run -0 ps-stat -C "$RUN" plot loss
	[[ ${lines[0]} == "loss "* ]]
	mkdir bin
	ln -s "$(command -v ps-stat)" bin/
	PATH=$T/bin run -4 ps-stat -C "$RUN" plot loss -o svg
	[[ $output == *"gnuplot, which is not installed"*"gnuplot-nox"* ]]
	command -v gnuplot >/dev/null || skip "gnuplot is not installed"
	ps-stat -C "$RUN" plot loss train_loss -o svg >two.svg
	grep -q '<svg ' two.svg
	grep -q 'train_loss' two.svg
	ps-stat -C "$RUN" plot loss -o png >one.png
	[ "$(head -c 4 one.png | tail -c 3)" = PNG ]
}

slowest_first() {
	[ "$(s workers -S slow -H -k id 0.5 2 | tail -n 2 | head -n 1)" = worker-1 ] &&
		s workers -H -k slow,id 0.5 2 | tail -n 1 | awk '$1 > 2 && $2 == "worker-1" { ok = 1 } END { exit !ok }'
}

@test "the stream: totals, times, commands, a file of CSV, formats, what does not go together" {
	begin_with_a_slow_one
	s() { ps-stat -C "$RUN" "$@"; }
	run -0 s -v 0.3 2
	[ "$(grep -c total <<<"$output")" -eq 2 ]
	s -v --json | jq -s -e '(.[0].pulls + .[1].pulls) == .[2].pulls and .[2].id == "total" and .[2].step == ([.[0].step, .[1].step] | min)'
	s workers -v -k id,pid,ex/s -H | tail -n 1 | grep -qE '^total	-	[0-9.]+$'
	[ "$(s -Hp -k loss 0.1 3 | wc -l)" -eq 3 ]
	# A time that is asked for comes first, or where it was put.
	now=$(date +%s)
	t=$(s -H -T u -k step | cut -f 1)
	[ "$t" -ge "$((now - 1))" ] && [ "$t" -le "$((now + 30))" ]
	s -T d -k step | tail -n 1 | grep -qE '^20[0-9-]{8} [0-9:]{8} '
	s -Hp -T u -k step,ts | grep -qE '^[0-9]+	[0-9]+\.[0-9]{3}$'
	# The slowest first, and the others by name.
	# In half a second of a busy machine either worker may be the slow one.
	wait_for 20 slowest_first
	run -0 s workers -k id -c 'echo threads=$(ls /proc/$PS_PID/task | wc -l); printf "who=%s\n" "$PS_ID"; printf "odd=\033[31m\n"'
	[[ ${lines[0]} =~ id\ +threads\ +who\ +odd$ ]]
	[[ ${lines[1]} =~ worker-0\ +[1-9]\ +worker-0\ +$'\xef\xbf\xbd'\[31m$ ]]
	# The number tells this sleep from those of other tests.
	run -0 s -k step -c "sleep 1000.$$; echo late=1" 0.1 1
	[[ $output == *"took too long and was killed"* ]]
	run -1 pgrep -f "sleep 1000[.]$$"
	run -0 s -k step -c 'exit 3'
	[[ $output == *"failed"* ]]
	s --csv both.csv -k step,loss,state 0.1 2 | grep -q running
	[ "$(head -n 1 both.csv)" = step,loss,state ]
	[ "$(wc -l <both.csv)" -eq 3 ]
	run -1 s --csv /nowhere/x
	[[ $output == *"cannot write /nowhere/x"* ]]
	run -1 s --csv /dev/full
	[ "$(s why -o csv -k who,for | head -n 1)" = who,for ]
	[ "$(s -o csv | head -n 1 | tr -cd , | wc -c)" -eq 11 ]
	[ "$(s -o wide -H | tr '\t' '\n' | wc -l)" -gt 20 ]
	s -o json | jq -e '.kind == "cluster"'
	s -o prom | grep -q '^ps_worker_step_phase_seconds_total{worker="worker-0",phase="encode"} '
	for bad in "-o tsv --json" "-o svg" "--csv x --prom" "-v why" "-c true top" "-T x" "--across step" "plot loss --join x" "-v tables -w"; do
		run -2 s $bad
		[[ $output == "ps-stat: "* ]] && [ "${#lines[@]}" -eq 1 ]
	done
}

@test "encoding has its own time, beside pushing" {
	cluster_file '"codec": "topk:0.01",'
	sed -i 's/"linear"/"softmax"/' one.json
	awk 'BEGIN { srand(3); for (j = 0; j < 2000; j++) printf "f%d,", j; print "y"
		for (i = 0; i < 40; i++) { for (j = 0; j < 2000; j++) printf "%d,", rand() * 9; print i % 4 } }' >train.csv
	begin one.json
	wait_for 30 step_is_past 5
	http GET /v1/workers | jq -e '.workers[0] | .encode_seconds > 0 and .push_seconds > 0'
	ps-stat -C "$RUN" workers -H -k data%,comp%,enc%,push%,wait%,pull% | awk '{ s = 0; for (i = 1; i <= NF; i++) s += $i; if (s < 99 || s > 101 || $3 <= 0) exit 1 }'
	ps-stat -C "$RUN" -H -k enc%,wait% | grep -qE '^[0-9.]+	[0-9.]+$'
	ps-ctl -C "$RUN" stop >/dev/null
	cluster_file ''
	begin one.json
	wait_for 30 step_is_past 5
	# Raw values travel from where they are.
	http GET /v1/workers | jq -e '.workers[0].encode_seconds == 0'
}
