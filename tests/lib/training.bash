# For bats files that train, beside lib/helper: data, runs and their results.

# As setup_dir, with the data's folder in $DATA and the tests' tools in $LIB.
setup_training() {
	LIB=$(cd "$BATS_TEST_DIRNAME/lib" && pwd)
	DATA=$(cd "$BATS_TEST_DIRNAME/.." && pwd)/../shared/data
	setup_dir
}

# need_data PATH...: skip, with a word, when the files are not there.
need_data() {
	local f
	for f; do
		[ -r "$DATA/$f" ] || skip "no ../shared/data/$f"
	done
}

# unpack_fashion: for setup_file, where many runs read Fashion-MNIST: unpacked once, in $BATS_FILE_TMPDIR.
unpack_fashion() {
	local f
	for f in /usr/share/datasets/fashion-mnist/*-ubyte.gz; do
		[ ! -r "$f" ] || gzip -dc "$f" >"$BATS_FILE_TMPDIR/$(basename "$f" .gz)"
	done
}

# need_fashion: skip, with a word, when it is not there.
need_fashion() {
	[ -s "$BATS_FILE_TMPDIR/train-images-idx3-ubyte" ] || skip "dataset-fashion-mnist is not installed"
}

need_numpy() {
	/usr/bin/python3 -c 'import numpy' 2>/dev/null || skip "python3-numpy is not installed"
}

# train FILE [ps-ctl run options]: the result is in $RESULT; prints the logs
# when it is not done; and no process may have crashed.
train() {
	local file=$1
	shift
	RESULT=$(ps-ctl run "$file" --json "$@" 2>stderr | tail -n 1)

	if [ "$(res .state)" != done ]; then
		echo "$RESULT"
		cat stderr "${file%.json}".run/*.log
		return 1
	fi
	# Whoever has done its part ends well, too.
	if grep "ended by SIG[^KT]" stderr; then
		return 1
	fi
}

# res FILTER: a part of the last result.
res() {
	jq -r "$1" <<<"$RESULT"
}

# compare FILTER OPERATOR NUMBER
compare() {
	jq -e "$1 $2 $3" <<<"$RESULT" >/dev/null || {
		echo "$1 is $(res "$1"), not $2 $3; $RESULT"
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

# What a test has measured, for who reads the output.
figure() {
	echo "# $*" >&3
}

# begin NAME.json [options]: start its cluster in the background; $RUN is the run
# directory.
begin() {
	RUN=$T/${1%.json}.run
	ps-ctl start "$@" >start.log 2>&1 || {
		cat start.log "$RUN"/*.log
		return 1
	}
}

# The cluster's own words: http GET|POST PATH [BODY]
http() {
	local body=()
	[ $# -lt 3 ] || body=(--data "$3" -H 'Content-Type: application/json')
	curl -s --max-time 10 --unix-socket "$RUN/ctl.sock" -X "$1" "${body[@]}" "http://x$2"
}

status() {
	http GET /v1/status | jq -r "$1"
}

worker() {
	http GET /v1/workers | jq -r ".workers[$1]$2"
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
