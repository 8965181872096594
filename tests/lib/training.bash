# SPDX-License-Identifier: ISC
# For bats files that train, beside lib/helper: data, runs and their results.

# Like setup_dir; also sets $DATA to the folder of the data, and $LIB to that of the tests' tools.
setup_training() {
	LIB=$(cd "$BATS_TEST_DIRNAME/lib" && pwd)
	DATA=${PS_DATA:-$(cd "$BATS_TEST_DIRNAME/.." && pwd)/../shared/data}
	setup_dir
}

# need_data PATH...: skip the test with a reason when a file is missing.
need_data() {
	local f
	for f; do
		[ -r "$DATA/$f" ] || skip "no ../shared/data/$f"
	done
}

# unpack_fashion: for setup_file of files with many runs: unpack Fashion-MNIST once, in
# $BATS_FILE_TMPDIR.
unpack_fashion() {
	local f
	for f in /usr/share/datasets/fashion-mnist/*-ubyte.gz; do
		[ ! -r "$f" ] || gzip -dc "$f" >"$BATS_FILE_TMPDIR/$(basename "$f" .gz)"
	done
}

# need_fashion: skip the test with a reason when the data set is missing.
need_fashion() {
	[ -s "$BATS_FILE_TMPDIR/train-images-idx3-ubyte" ] || skip "dataset-fashion-mnist is not installed"
}

need_numpy() {
	has_module numpy || skip "python3-numpy is not installed"
}

# train FILE [ps-ctl run options]: run it; the result is in $RESULT.  Prints the logs when the run
# is not done, and fails when a process has crashed.
train() {
	local file=$1
	shift
	RESULT=$(ps-ctl run "$file" --json "$@" 2>stderr | tail -n 1)

	if [ "$(res .state)" != done ]; then
		echo "$RESULT"
		cat stderr "${file%.json}".run/*.log
		return 1
	fi
	# All processes must end without an error, too.
	if grep "ended by SIG[^KT]" stderr; then
		return 1
	fi
}

# res FILTER: print a part of the last result.
res() {
	plain_member "$RESULT" "${1#.}" || jq -r "$1" <<<"$RESULT"
}

# compare FILTER OPERATOR NUMBER: FILTER may be an expression of jq; NUMBER may be an expression of numbers.
compare() {
	local value
	value=$(res "$1")
	[[ $value =~ ^-?[0-9] ]] && awk "BEGIN { exit !($value $2 ($3)) }" || {
		echo "$1 is $value, not $2 $3; $RESULT"
		return 1
	}
}

# at_least FILTER NUMBER
at_least() {
	compare "$1" '>=' "$2"
}

# at_most FILTER NUMBER
at_most() {
	compare "$1" '<=' "$2"
}

# has FILTER VALUE
has() {
	[ "$(res "$1")" = "$2" ] || {
		echo "$1 is $(res "$1"), not $2; $RESULT"
		return 1
	}
}

# figure TEXT...: print a measurement to the output of the tests.
figure() {
	echo "# $*" >&3
}

# begin NAME.json [options]: start the cluster in the background; $RUN is its run directory.
begin() {
	RUN=$T/${1%.json}.run
	ps-ctl start "$@" >start.log 2>&1 || {
		cat start.log "$RUN"/*.log
		return 1
	}
}

# http GET|POST PATH [BODY]: print the answer of the cluster (tests/fault/ask.c).
http() {
	"$BIN/fault/ask" "$RUN/ctl.sock" "$@"
}

# print_part PLACE PATH FILTER [options of ask]: print a part of an answer. A member that is a plain word or a whole number is
# printed without jq, which would take most of the processor time of a wait that polls; PLACE is for jq, where
# the member is.
print_part() {
	local code=0
	if [[ $3 =~ ^\.[a-z_]+$ ]]; then
		"$BIN/fault/ask" -m "${3#.}" "${@:4}" "$RUN/ctl.sock" GET "$2" || code=$?
		# 3: jq must look at it.  Nothing is printed when nothing answers.
		[ "$code" = 3 ] || return 0
	fi
	http GET "$2" | jq -r "$1$3"
}

# status FILTER: print a part of the cluster's status.
status() {
	print_part '' /v1/status "$1"
}

# worker N FILTER: print a part of what the coordinator says about the worker at place N.
worker() {
	print_part ".workers[$1]" /v1/workers "$2" -w "$1"
}

state_is() {
	[ "$(status .state)" = "$1" ]
}

worker_is() {
	[ "$(worker "$1" .state)" = "$2" ]
}

step_is_past() {
	[ "$(status .step)" -gt "$1" ] 2>/dev/null
}

# ---- a job that a test harms ----------------------------------------------------------
#
# A fault that a test injects into a running job must happen before the job is over, on a machine of
# any speed and load.  A job that need not end has ENDLESS steps.  A job that must end, because the
# test checks its result, begins HELD: its servers take so few pushes a second from each worker that
# its steps last for minutes on any machine.  After the fault, let_go removes the limit.  The limit
# changes neither the order nor the values of the steps: a deterministic job ends with the same
# bits.  Each push is for one partition, so a model with more partitions is slower.
ENDLESS=1000000000
HELD=(--set quota_pushes=10)
# A sparse table has 16 partitions.
HELD_SPARSE=(--set quota_pushes=80)

# paced STEPS [N]: print a member for the cluster file that limits a job of ENDLESS steps to N
# pushes a second (80): a faster job would only take processor time from other tests.  Prints
# nothing for other numbers of steps.
paced() {
	[ "$1" != "$ENDLESS" ] || echo "\"quota_pushes\": ${2:-80},"
}

# let_go [N]: let a HELD job go on as fast as it can, or with N pushes a second.  Fails when the job
# is over, because the fault was injected too late then.
let_go() {
	! over || {
		echo "the job was over before it was harmed: $(status .state), step $(status .step)"
		return 1
	}
	ps-ctl set -C "$RUN" quota_pushes="${1:-0}" >/dev/null
}

over() {
	[[ $(status .state) =~ ^(done|failed|stopped)$ ]]
}

# steps_on [N]: wait until the job has made N more steps.
steps_on() {
	local to=$(($(status .step) + ${1:-10}))
	wait_for 20 step_is_past "$to"
}
