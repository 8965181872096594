# For tests that drive the programs as a user would: load lib/helper.
# A test works in a directory of its own, T, and ends only what it has started.

setup_dir() {
	BIN=$(cd "$BATS_TEST_DIRNAME/.." && cd "${PS_BIN:-build}" && pwd) || return 1
	PATH=$BIN:$PATH
	unset PS_CLUSTER
	T=$(mktemp -d "${TMPDIR:-/tmp}/pskit-test.XXXXXX")
	cd "$T" || return 1
	pids=()
}

# Of a test that failed: what its clusters have to say, kept short.
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

# Clusters of this directory are stopped, whatever state the test left them in.
teardown_dir() {
	local run pid
	[ -n "${BATS_TEST_COMPLETED:-}" ] || tell_clusters || true
	for pid in "${pids[@]}"; do
		kill -9 "$pid" 2>/dev/null || true
	done
	for run in "$T"/*.run "$T"/*/*.run; do
		[ ! -e "$run/lock" ] || ps-ctl -C "$run" stop --timeout 3s >/dev/null 2>&1 || true
	done
	cd / && rm -rf "$T"
}

# In the background, with output to out and err: its number is in $pid.
background() {
	"$@" >out 2>err 3>&- &
	pid=$!
	pids+=("$pid")
}

# The exit code of the last background command, in $status.
finish() {
	status=0
	wait "$pid" || status=$?
}

# wait_for SECONDS COMMAND...: until it is true; fails at the end of the time,
# which a busy machine gets three times over.
wait_for() {
	local end=$((SECONDS + 3 * $1)) hundredths=2
	shift
	until "$@"; do
		if [ "$SECONDS" -ge "$end" ]; then
			echo "never true: $*" >&2
			return 1
		fi
		# To look takes others' time: after a while less often.
		sleep "0.0$hundredths"
		[ "$hundredths" -ge 5 ] || hundredths=$((hundredths + 1))
	done
}

# No process is left that a cluster in directory $1 had.  A zombie runs no more:
# it only waits for a parent that is not ours.
none_left() {
	local pid args state
	for pid in $(grep -laE 'ps-(serve|work)' /proc/[0-9]*/cmdline 2>/dev/null); do
		pid=${pid%/cmdline}
		args=$(tr '\0' ' ' 2>/dev/null <"$pid/cmdline") || continue
		case $args in
		*ps-serve*"$1"*|*ps-work*"$1"*)
			state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "$pid/status" 2>/dev/null) || continue
			[ -z "$state" ] || [ "$state" = Z ] || return 1 ;;
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
			"model": "linear",
			"data": "train.csv?label=y",
			"eval": "train.csv?label=y",
			"epochs": ${1:-20},
			"batch": 16,
			"lr": 0.3
		}
	}
	END
}

# A job that will not end by itself while a test looks at it.
endless() {
	write_cluster 100000000
}

# The member .$1 of the last line of stdin.
field() {
	tail -n 1 | jq -r ".$1"
}
