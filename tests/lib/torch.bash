# SPDX-License-Identifier: ISC
# Tests of pskit.torch. Most scripts run in forks of one process that has imported torch.

# In setup_file and teardown_file.
start_torch_forks() {
	export PYTHONPATH=$BATS_TEST_DIRNAME/../contrib/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
	has_module torch || return 0
	export FORK="/usr/bin/python3 $BATS_TEST_DIRNAME/lib/torch_fork.py"
	$FORK serve "$BATS_FILE_TMPDIR/torch" 3>&- &
	export FORKS=$!
	FORK+=" $BATS_FILE_TMPDIR/torch"
	wait_for 60 test -S "$BATS_FILE_TMPDIR/torch"
}

stop_torch_forks() {
	[ -z "${FORKS-}" ] || kill "$FORKS"
}

# setup_torch SCRIPT...: in setup. The first one is that of trains().
setup_torch() {
	setup_training
	has_module torch || skip "python3-torch is not installed (make deps-torch)"
	[ -z "${PS_SANITIZED:-}" ] || skip "a sanitizer must be loaded first"
	export PSKIT_LIBRARY=$BIN/libpskit.so.0
	local script
	for script; do
		cp "$BATS_TEST_DIRNAME/lib/$script" .
	done
	SCRIPT=$1
	RUN=$T/exec.run
}

# trains WORDS [options]: two workers, each of them the script with these words
trains() {
	local words=$1
	shift
	RESULT=$(ps-ctl run --exec "$FORK $SCRIPT $words" --set workers=2 --json "$@" 2>stderr | tail -n 1)
	cat exec.run/worker-*.log
	[ "$(res .state)" = done ] || {
		cat stderr
		false
	}
}
