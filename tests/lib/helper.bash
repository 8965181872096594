# SPDX-License-Identifier: ISC
# For tests that drive the programs as a user would: load lib/helper.
# A test works in a directory of its own, T, and ends only what it has started.

setup_dir() {
	BIN=$(cd "$BATS_TEST_DIRNAME/.." && cd "${PS_BIN:-build}" && pwd) || return 1
	[ -x "$BIN/fault/ask" ] || {
		echo "there is no $BIN/fault/ask: make faultkit" >&2
		return 1
	}
	# Debian's Python has the modules that tests need; another one before it may be a script that takes half a second to
	# find Python.
	PATH=$BIN:/usr/bin:$PATH
	unset PS_CLUSTER
	# Faults at random are the same in every run.  With an empty SEED, as in make soak, they are others each time, and
	# the tools of tests/fault print their seeds.
	export SEED=${SEED-1}
	[ -z "$SEED" ] || RANDOM=$SEED
	T=$(mktemp -d "${TMPDIR:-/tmp}/pskit-test.XXXXXX")
	cd "$T" || return 1
	pids=()
	trace_tests_alone
}

# For the line of a failure bats notes its place before each command, which takes 0.4 ms. Leave that out for the commands of
# tests/lib, which are most of them: a failure there is reported at the line of the test that called them.
trace_tests_alone() {
	[[ $(trap -p DEBUG) == *bats_debug_trap* ]] || return 0
	HELPERS=${BASH_SOURCE[0]%/*}/
	trap '[[ $BASH_SOURCE == "$HELPERS"* ]] || bats_debug_trap "$BASH_SOURCE"' DEBUG
}

# Print the last log lines of the clusters of a failed test.
tell_clusters() {
	local run log
	for run in "$T"/*.run "$T"/*/*.run; do
		[ -d "$run" ] || continue
		echo "-- ${run#"$T/"}"
		timeout 5 ps-ctl -C "$run" status 2>&1 | head -n 20
		tail -qn 30 "$run/events.jsonl" 2>/dev/null | cut -c 1-400
		for log in "$run"/*.log; do
			[ ! -s "$log" ] || { echo "-- ${log#"$T/"}" && tail -n 12 "$log" | cut -c 1-400; }
		done
	done
}

# kills N: print how many faults a test injects: N, or in make soak HARDER times as many.
kills() {
	echo $((${HARDER:-1} * $1))
}

# Stop all clusters of this directory, whatever state the test left them in.
teardown_dir() {
	local run pid
	[ -n "${BATS_TEST_COMPLETED:-}" ] || tell_clusters || true
	for pid in "${pids[@]}"; do
		kill -9 "$pid" 2>/dev/null || true
	done
	for run in "$T"/*.run "$T"/*/*.run; do
		[ ! -e "$run/lock" ] || ps-ctl -C "$run" stop --discard --timeout 3s >/dev/null 2>&1 || true
	done
	cd / && rm -rf "$T"
}

# background COMMAND...: run it in the background, with output to out and err; $pid is its process. What
# runs since an earlier call writes to the same files: all of them append, so that none overwrites lines of
# another.
background() {
	: >out
	: >err
	"$@" >>out 2>>err 3>&- &
	pid=$!
	pids+=("$pid")
}

# stand_still PID: stop the process. The kernel stops the threads of a busy machine one after the other: until all of
# them stand, the process may still answer.
stand_still() {
	kill -STOP "$1"
	wait_for 10 all_threads_stand "$1"
}
all_threads_stand() { ! grep -h '^State:' /proc/"$1"/task/*/status | grep -qv '[[:space:]][TZ][[:space:]]'; }

# reserve_ports [N]: set $port to the first of N TCP ports in a row (1) that belong to this test until it
# ends. A process has bound them, so that no other test takes them; a server, which binds with SO_REUSEADDR,
# can still listen at them. They are below the range from which the kernel takes the ports of connections.
reserve_ports() {
	local file
	file=$(mktemp "$T/ports.XXXXXX")
	/usr/bin/python3 -S - "${1:-1}" >"$file" 3>&- <<-'END' &
	import random, signal, socket, sys
	def bind(first, n):
	    bound = [socket.socket() for _ in range(n)]
	    try:
	        for i, s in enumerate(bound):
	            s.bind(("", first + i))
	    except OSError:
	        return None
	    for s in bound:
	        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
	    return bound
	n = int(sys.argv[1])
	with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
	    end = int(f.read().split()[0])
	for _ in range(1000):
	    first = random.randrange(1024, end - n)
	    bound = bind(first, n)
	    if bound:
	        print(first, flush=True)
	        signal.pause()
	sys.exit("no free ports")
	END
	pids+=($!)
	wait_for 10 test -s "$file"
	port=$(cat "$file")
}

# Wait for the last background command; $status is its exit code.
finish() {
	status=0
	wait "$pid" || status=$?
}

# rest SECONDS: sleep without a process: nobody writes to the pipe.
rest() {
	local pipe=$BATS_FILE_TMPDIR/never
	[ -p "$pipe" ] || mkfifo "$pipe"
	read -rt "$1" <>"$pipe" || true
}

# wait_for SECONDS COMMAND...: wait until the command succeeds.  Fails when the time is over; a slow
# or busy machine gets ten times as much, sanitizers twice as much as that.
wait_for() {
	local end=$((SECONDS + ${PS_SANITIZED:+2 *} 10 * $1)) hundredths=2 pause
	shift
	# Wait for a step or the end with one process, instead of several for each look.  What it
	# cannot wait for, as a missing coordinator, is polled below.
	case "$*" in
	step_is_past\ *[!0-9]*) ;;
	step_is_past\ *) "$BIN/fault/ask" -t "$((end - SECONDS))" -p "$2" "$RUN/ctl.sock" || true ;;
	over | "state_is done") ps-ctl wait -C "$RUN" --for "done" --timeout "$((end - SECONDS))s" >/dev/null 2>&1 || true ;;
	esac
	until "$@"; do
		if [ "$SECONDS" -ge "$end" ]; then
			echo "never true: $*" >&2
			return 1
		fi
		# Polling takes processor time from the cluster: poll less often after a while.
		printf -v pause 0.%02d "$hundredths"
		rest "$pause"
		[ "$hundredths" -ge 15 ] || hundredths=$((hundredths + 1))
	done
}

# Print the microseconds so far in which some process waited for a processor.
stalled_usec() {
	awk '/^some/ { sub(".*total=", ""); print; seen = 1 } END { exit !seen }' /proc/pressure/cpu 2>/dev/null
}

# within MILLISECONDS COMMAND...: check that the command takes less time, not counting the time in
# which some process of this machine waited for a processor.  Where the kernel does not report that,
# it may take ten times as long; with sanitizers five times.  The exit code is the command's, or 1.
within() {
	local most=$((${PS_SANITIZED:+5 *} $1)) begin stalled took code=0
	shift
	stalled=$(stalled_usec) || most=$((10 * most))
	begin=$(date +%s%3N)
	"$@" || code=$?
	took=$(($(date +%s%3N) - begin))
	[ -z "$stalled" ] || took=$((took - ($(stalled_usec) - stalled) / 1000))
	[ "$took" -lt "$most" ] || {
		echo "took $took ms of $most on a machine that is idle: $*"
		return 1
	}
	return "$code"
}

# True when no process of a cluster in directory $1 is left.  Zombies do not count: they wait for a
# parent that is not ours.
none_left() {
	local file line args
	for file in $(grep -laE 'ps-(serve|work)' /proc/[0-9]*/cmdline 2>/dev/null); do
		mapfile -d '' -t args 2>/dev/null <"$file" || continue
		case ${args[*]} in
		*ps-serve*"$1"* | *ps-work*"$1"*)
			while read -r line; do
				[[ $line != State:* ]] || [[ $line == State:*[[:space:]]Z* ]] || return 1
			done 2>/dev/null <"${file%cmdline}status" || continue ;;
		esac
	done
}

# y = 2 a - b + 0.5, without noise: a linear model learns it exactly.
write_csv() {
	awk -v n="${2:-400}" 'BEGIN {
		srand(7)
		print "a,b,y"
		for (i = 0; i < n; i++) {
			a = rand() * 2 - 1
			b = rand() * 2 - 1
			printf "%.5f,%.5f,%.5f\n", a, b, 2 * a - b + 0.5
		}
	}' >"$1"
}

# A cluster file lin.json: one server, two workers, $1 epochs.
write_cluster() {
	write_csv train.csv
	cat >lin.json <<-END
	{
		"servers": 1,
		"workers": 2,
		"job": {
			"model": "linear", "optimizer": "sgd",
			"data": "train.csv?label=y&scale=none",
			"eval": "train.csv?label=y&scale=none",
			"epochs": ${1:-20},
			"batch": 16,
			"lr": 0.3
		}
	}
	END
}

# A job that does not end by itself during a test.  It makes forty steps a second; a faster one
# would only take processor time from the other tests.
endless() {
	write_cluster 1000000000
	sed -i 's/"servers": 1,/"servers": 1, "quota_pushes": 80,/' lin.json
}

# has_module NAME: true if Debian's Python has this module, which need not be imported for that: torch takes a second.
has_module() {
	/usr/bin/python3 -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec(sys.argv[1]))' "$1" 2>/dev/null
}

# plain_member JSON NAME: print a member of an object as jq -r .NAME does, without jq, which takes 40 ms of processor time.
# Fails when it must be left to jq: when the member is not a word, a whole number, true, false or null, or is absent.
plain_member() {
	local key="\"$2\":" head value opened closed
	[[ $2 =~ ^[a-z_]+$ ]] || return 1
	head=${1%%"$key"*}
	opened=${head//[!\{]/} closed=${head//[!\}]/}
	# Not a member of an object within.
	[ $((${#opened} - ${#closed})) -eq 1 ] || return 1
	value=${1#"$head$key"}
	[[ $value =~ ^' '?\"([^\"\\]*)\"[,}] || $value =~ ^' '?(-?[0-9]{1,15}|true|false|null)[,}] ]] || return 1
	printf '%s\n' "${BASH_REMATCH[1]}"
}

# The member .$1 of the last line of stdin.
field() {
	local lines
	mapfile -t lines
	[ ${#lines[@]} -gt 0 ] || return 0
	plain_member "${lines[-1]}" "$1" || jq -r ".$1" <<<"${lines[-1]}"
}

# flip_byte FILE OFFSET: change a byte of a file, whatever it is.
flip_byte() {
	local byte
	byte=$(od -An -tu1 -j "$2" -N 1 "$1")
	printf "\\x$(printf %02x $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
