#!/usr/bin/env bats
# The library: what programs see of it, and workers that are programs of their own.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
	RUN=$T/c.run
	[ -z "${PS_SANITIZED:-}" ] || CC="${CC:-gcc} -fsanitize=$(sed 's/.*san-//; s/-/,/g' <<<"$BIN")"
	: "${CC:=cc}"
}

teardown() {
	teardown_dir
}

build() {
	$CC -std=c99 -Wall -Wextra -pedantic -Werror -O2 -I"$ROOT/lib/pskit" -o "$1" "$2" -L"$BIN" -lpskit -Wl,-rpath,"$BIN" "${@:3}"
}

write_data() {
	awk 'BEGIN { srand(7); for (i = 0; i < 400; i++) { a = rand(); b = rand(); c = rand()
		print a "," b "," c "," 3 * a - 2 * b + c / 2 + 1 } }' >linear.csv
}

@test "its symbols are those of the list, in both libraries; it needs no BLAS" {
	nm -D --defined-only "$BIN/libpskit.so.0" | awk '$2 == "T" { sub("@.*", "", $3); print $3 }' | sort >so
	nm -g --defined-only "$BIN/libpskit.a" | awk 'NF == 3 { print $3 }' | sort >a
	diff "$ROOT/tests/lib/symbols" so
	diff so a
	# And each is declared in the header, and named by the manual.
	while read -r name; do
		grep -q "\b$name(" "$ROOT/lib/pskit/pskit.h"
		grep -q "\.Fn $name\|\.Fo $name" "$ROOT/man/pskit.3" || { echo "man/pskit.3 does not name $name"; false; }
	done <so
	readelf -d "$BIN/libpskit.so.0" | grep -q 'SONAME.*libpskit.so.0'
	run bash -c "readelf -d '$BIN/libpskit.so.0' | grep -c 'blas\|curl\|microhttpd'"
	[ "$output" = 0 ]
}

@test "the example trains what the programs of --exec train, and from C++ the header is one" {
	write_data
	build linear "$ROOT/contrib/examples/c/linear.c"
	[ "$(wc -l <"$ROOT/contrib/examples/c/linear.c")" -le 40 ]
	cat >c.json <<-END
	{ "workers": 2, "deterministic": true, "job": { "model": "custom", "command": "./linear", "epochs": 10, "batch": 50, "lr": 0.5 } }
	END
	train c.json
	has .steps 40
	loss=$(res .train_loss)
	cc -O2 -o linear-c "$ROOT/contrib/examples/program/linear.c"
	cat >e.json <<-END
	{ "workers": 2, "deterministic": true, "job": { "model": "custom", "tables": "w:4", "exec": "./linear-c", "data": "linear.csv",
	  "examples": 400, "epochs": 10, "batch": 50, "lr": 0.5 } }
	END
	train e.json
	[ "$(res .train_loss)" = "$loss" ]
	for set in sync=ssp:1 sync=asp replicas=2 via=allreduce; do
		train c.json --set deterministic=false --set servers=2 --set $set
		has .examples 4000
	done
	! command -v g++ >/dev/null || echo '#include "pskit.h"' | g++ -x c++ -Wall -Werror -fsyntax-only -I"$ROOT/lib/pskit" -
}

@test "a worker of the library is killed, and another is stopped: the rest end the job" {
	write_data
	build linear "$ROOT/contrib/examples/c/linear.c"
	cat >c.json <<-END
	{ "workers": 3, "servers": 2, "lease": "2s", "job": { "model": "custom", "command": "./linear", "steps": 60000, "batch": 5 } }
	END
	begin c.json
	wait_for 20 step_is_past 100
	kill -9 "$(worker 1 .pid)"
	wait_for 10 eval '[ "$(status .workers)" -eq 2 ]'
	ps-ctl wait --for done --timeout 60s
	ps-ctl stop >/dev/null
	none_left "$T"
}

# calls: a program that is one of the words of tests/lib/library.c
@test "tables from beside the job, sparse rows, scores, cancelling, and what is refused" {
	write_data
	build calls "$ROOT/tests/lib/library.c" -pthread
	build linear "$ROOT/contrib/examples/c/linear.c"
	cat >c.json <<-END
	{ "workers": 2, "servers": 2, "job": { "model": "custom", "command": "./calls worker", "steps": 50, "batch": 10, "lr": 1 } }
	END
	run -0 ./calls refused
	begin c.json
	ps-ctl wait --for done --timeout 30s
	cat "$RUN"/worker-*.log
	[ "$(http GET /v1/result | jq -c '.eval | [.rmse, .examples]')" = '[0.25,77]' ]
	run -0 ./calls beside "$RUN"
	echo "$output"
	ps-ctl stop >/dev/null
	# In a job that goes on: cancelled from another thread.
	cat >d.json <<-END
	{ "workers": "1:2", "job": { "model": "custom", "command": "./linear", "steps": 100000000, "batch": 10 } }
	END
	RUN=$T/d.run
	begin d.json
	wait_for 20 step_is_past 20
	ps-ctl scale workers=1
	grep -h 'linear: asked to leave' "$RUN"/worker-*.log
	run -0 ./calls cancel "$RUN"
	echo "$output"
	[ "$(status .state)" = running ]
	ps-ctl stop >/dev/null
	none_left "$T"
}
