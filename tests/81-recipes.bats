#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The commands of README.md, pasted in order into a fresh shell, and the recipes of ps-recipes(7).
#
# A recipe is run when a line `.\" run` stands before its .Bd block: by bash -e, in a directory with a small
# cluster file and data in each format.  `.\" run live`: with that cluster running, which does not end by itself;
# s3, ssh, mpi: with a store, a remote shell, or Open MPI.  A recipe without that line is covered elsewhere.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training
load lib/sshd

setup_file() {
	export CHECKOUT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
	export BUILT=$(cd "$CHECKOUT" && cd "${PS_BIN:-build}" && pwd)
}

setup() {
	setup_dir
}

teardown() {
	teardown_dir
}

# Write the blocks of README.md that a reader pastes to standard output.
readme_commands() {
	awk '/^```sh$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$CHECKOUT/README.md"
}

@test "the commands of the README work in a fresh shell, pasted in order" {
	[ "$BUILT" = "$CHECKOUT/build" ] || skip "the README's commands use the plain build"
	readme_commands >commands
	[ "$(wc -l <commands)" -ge 15 ]
	[[ "$(tail -n 1 commands)" == "ps-ctl stop"* ]]
	# The prompt of a shell that is pasted to shows each command before its output.
	{
		echo "cd '$CHECKOUT'"
		cat commands
		echo 'pwd'
	} >pasted
	mkdir home
	run env -i HOME="$T/home" PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin TMPDIR="$T" TERM=dumb \
		timeout 300 bash -ex pasted
	echo "$output"
	[ "$status" -eq 0 ]
	tour=$(tail -n 1 <<<"$output")
	[[ "$tour" == "$T"/* ]]
	[ -s "$tour/cluster.run/model.safetensors" ]
	ls "$tour"/cluster.run/checkpoints/step-*/MANIFEST.json
	head -c 6 "$tour/w0.npy" | grep -q NUMPY
	[[ "$output" == *accuracy* ]]
}

@test "the README shows the columns that ps-stat prints" {
	write_cluster 1
	ps-ctl run lin.json >/dev/null 2>&1
	ps-stat -C lin.run 2>/dev/null | head -n 1 >columns || ps-stat --help >/dev/null
	endless
	ps-ctl start lin.json 2>/dev/null
	ps-stat -C lin.run 1 1 | head -n 1 >columns
	ps-ctl -C lin.run stop >/dev/null 2>&1
	grep -qxF -- "$(cat columns)" "$CHECKOUT/README.md"
}

@test "the folders that the README names are there, and no others" {
	grep -oE '\blib/[a-z]+' "$CHECKOUT/README.md" | sort -u >named
	(cd "$CHECKOUT" && ls -d lib/*) | sort >there
	diff named there
}

# ---- recipes -------------------------------------------------------------------------

# Write the recipes of one kind to recipes/N, and print their number.
write_recipes() {
	mkdir -p recipes
	awk -v kind="$1" -v to="recipes/" '
		/^\.\\" run/ { want = ($3 ? $3 : "alone") == kind; next }
		want && /^\.Bd / { n++; file = sprintf("%s%02d", to, n); want = 0; next }
		/^\.Ed/ { file = "" }
		file { gsub(/\\e/, "\\"); sub(/^\\&/, ""); print > file }
		END { print n + 0 }' "$CHECKOUT/man/ps-recipes.7"
}

write_data() {
	awk 'BEGIN { srand(1); print "a,b,y"
		for (i = 0; i < 200; i++) {
			a = rand() - 0.5; b = rand() - 0.5
			printf "%.6f,%.6f,%.6f\n", a, b, 2 * a - 3 * b + 1
		} }' >train.csv
	head -n 31 train.csv >test.csv
	cp train.csv 2026-11-24.csv
	cp test.csv 2026-11-25.csv
	echo '{ "servers": 1, "workers": 2, "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv",
		"eval": "test.csv", "epochs": 3, "batch": 20, "lr": 0.1 } }' >cluster.json
	awk 'BEGIN { srand(2); OFS = "\t"
		for (i = 0; i < 2000; i++) print int(rand() * 50) + 1, int(rand() * 80) + 1, int(rand() * 5) + 1, 880000000 + i }' >u1.base
	head -n 200 u1.base >u1.test
	awk 'BEGIN { srand(5); print "user,film" >"watched.csv"; print "film,title,genre" >"films.csv"
		for (i = 0; i < 60; i++) print "film" i ",Title " i ",g" i % 6 "|h" i % 4 >"films.csv"
		print "brandnew,Title,g1" >"films.csv"
		for (i = 0; i < 900; i++) print (i % 30 ? "user" i % 30 : "ann") ",film" int(rand() * 60) >"watched.csv" }'
	awk 'BEGIN { srand(3)
		for (i = 0; i < 500; i++) {
			u = int(rand() * 20); a = int(rand() * 30); y = (u * 7 + a) % 2
			print (y ? 1 : -1) " |u u" u " |a a" a >"clicks.vw"
			print y " 0:" u ":1 1:" 20 + a ":1" >"clicks.ffm"
		} }'
	awk 'BEGIN { srand(4); split("the king and queen of a far land went to their daughter", w, " ")
		for (i = 0; i < 5000; i++) printf "%s%s", w[int(rand() * 12) + 1], i % 12 == 11 ? "\n" : " " }' >text.txt
	cp "$CHECKOUT"/contrib/examples/program/linear.json "$CHECKOUT"/contrib/examples/program/linear.py .
	cp "$CHECKOUT"/contrib/examples/c/linear.c train.c
	awk 'BEGIN { srand(7)
		for (i = 0; i < 400; i++) { a = rand(); b = rand(); c = rand(); print a "," b "," c "," 3 * a - 2 * b + c / 2 + 1 } }' >linear.csv
}

# Run the recipes of a kind, each in a directory of its own.
run_recipes() {
	local recipe count
	count=$(write_recipes "$1")
	[ "$count" -ge "$2" ]
	mkdir "$T/data"
	cd "$T/data"
	write_data
	for recipe in "$T"/recipes/*; do
		echo "--- $1 ${recipe##*/}:"
		cat "$recipe"
		cp -r "$T/data" "$T/$1.${recipe##*/}"
		cd "$T/$1.${recipe##*/}"
		# A job without an end makes as many steps as it needs, and leaves the processor to others.
		if [ "$1" = live ] || grep -q epochs=100000000 "$recipe"; then
			sed -i 's/"servers": 1,/"servers": 1, "quota_pushes": 400,/' cluster.json
		fi
		[ "$1" != live ] || ps-ctl start cluster --set epochs=100000000
		timeout 100 bash -euo pipefail "$recipe" </dev/null
		[ "$1" != live ] || ps-ctl -C cluster.run stop
		wait_for 20 none_left "$PWD"
	done
}

# The C library as an installation has it.
install_library() {
	[ "$BUILT" = "$CHECKOUT/build" ] || skip "the library that is installed is the plain build's"
	make -s -C "$CHECKOUT" install PREFIX="$T/usr" >/dev/null
	export PKG_CONFIG_PATH=$T/usr/lib/pkgconfig LD_LIBRARY_PATH=$T/usr/lib
}

@test "recipes that need nothing else run" {
	install_library
	run_recipes alone 20
}

@test "recipes for a running job run" {
	run_recipes live 10
}

# bats test_tags=slow
@test "recipes for object stores run" {
	export NODE_PATH=$CHECKOUT/build/npm/node_modules
	[ -d "$NODE_PATH/s3rver" ] && command -v node >/dev/null || skip "npm's s3rver is not installed (make deps-check)"
	mkdir -p store/faults
	node "$BATS_TEST_DIRNAME/lib/s3.js" "$T/store" >port 2>store.err 3>&- &
	pids+=($!)
	wait_for 20 test -s port
	unset AWS_PROFILE AWS_SESSION_TOKEN AWS_REGION AWS_DEFAULT_REGION AWS_ENDPOINT_URL_S3
	export HOME=$T AWS_ACCESS_KEY_ID=S3RVER AWS_SECRET_ACCESS_KEY=not-to-be-seen AWS_ENDPOINT_URL=http://127.0.0.1:$(head -n 1 port)
	run_recipes s3 1
}

# bats test_tags=slow
@test "recipes for other hosts run by ssh" {
	sshd_start 127.0.0.2 127.0.0.3
	sed -i '1i Host a\nHostName 127.0.0.2\nHost b\nHostName 127.0.0.3' ssh/config
	run_recipes ssh 2
}

@test "recipes for MPI run" {
	command -v mpirun >/dev/null || skip "openmpi-bin is not installed"
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
	run_recipes mpi 1
}
