#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The published results of contrib/papers: each script runs, and says what it has found.

bats_require_minimum_version 1.5.0
load lib/helper

setup() {
	setup_dir
	PAPERS=$(cd "$BATS_TEST_DIRNAME/.." && pwd)/contrib/papers
	export TMPDIR=$T
}
teardown() { teardown_dir; }

need_fashion() {
	[ -r /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ] || skip "dataset-fashion-mnist is not installed"
}

@test "every paper has a citation, a claim and a description, and is in the README" {
	for name in $("$PAPERS/run" --list); do
		"$PAPERS/$name/run" --help >help
		[ "$(grep -cE '^(Published|Measured): ' help)" -eq 2 ] || { echo "$name"; false; }
		sed -n 3p help | grep -qE ', .*(19|20)[0-9]{2}' || sed -n 4p help | grep -qE '(19|20)[0-9]{2}' || { echo "$name"; false; }
		grep -q "^| \`$name\` |" "$PAPERS/README.md" || { echo "$name"; false; }
		[ "$(wc -l <"$PAPERS/$name/run")" -le 70 ] || { echo "$name"; false; }
	done
	[ "$(grep -c '^| `' "$PAPERS/README.md")" -eq "$("$PAPERS/run" --list | wc -l)" ]
}

# bats test_tags=slow
@test "a paper prints its table and verdict, and the page has them" {
	need_fashion
	"$PAPERS/run" --tiny -o page one-bit >out 2>err
	grep -qE '^one-bit: (reproduced|partly|does not pay here): ' out
	grep -qE '^  one-bit +[0-9.]+ +0\.[0-9]{3} +0\.[0-9]{4} +0\.[0-9]{4}$' page/one-bit/table.txt
	jq -e '.tiny and (.checks | length == 3) and (.why | length > 0)' page/one-bit/verdict.json
	# The bytes do not depend on how long is trained.
	jq -e '.checks[1] | .holds and (.value | tonumber) < 0.05' page/one-bit/verdict.json
	grep -q '<svg' page/one-bit/plot.svg
	grep -q '<h2 id="one-bit">' page/index.html
	grep -q 'data:image/svg+xml;base64,' page/index.html
	grep -q '<img alt="Plot: accuracy across bytes, 3 runs of one-bit;' page/index.html
	grep -q '<figcaption>one-bit: accuracy across bytes\.' page/index.html
	# A browser needs no network for the page.
	run ! grep -qE '(src|href)="(https?:)?//' page/index.html
	# Nothing is left of the runs.
	[ -z "$(compgen -G "$T/pskit-paper.*")" ]
}

@test "a wrong argument of a paper or of all is told, with exit code 2" {
	run -2 --separate-stderr "$PAPERS/one-bit/run" --fast
	[[ $stderr == *"there is no argument --fast"*"--help"* ]]
	run -2 --separate-stderr "$PAPERS/one-bit/run" --seed one
	[[ $stderr == *"--seed needs a whole number"* ]]
	run -2 --separate-stderr "$PAPERS/run" -o page no-such-paper
	[[ $stderr == *"there is no paper no-such-paper"* ]]
	[ ! -e page ]
}

@test "a run that fails ends the paper with exit code 1, and is in the page" {
	PAPERS_FASHION=$T run -1 --separate-stderr "$PAPERS/one-bit/run" --tiny
	[[ $stderr == *"train-images-idx3-ubyte.gz is missing"* ]]
	printf '#!/bin/sh\necho "the disk is full" >&2\nexit 1\n' >ps-ctl
	chmod +x ps-ctl
	touch train-images-idx3-ubyte.gz
	PAPERS_FASHION=$T PATH=$T:$PATH run -1 --separate-stderr "$PAPERS/run" -o page one-bit
	[[ $output == "one-bit: a run failed" ]]
	[[ $stderr == *"the disk is full"*"the run float32 has failed"* ]]
	grep -q 'a run failed' page/index.html
}

# bats test_tags=slow
@test "all papers run and have a verdict" {
	need_fashion
	"$PAPERS/run" --tiny -o page >out 2>err
	[ "$(grep -cE ': (reproduced|partly|does not pay here): ' out)" -eq "$("$PAPERS/run" --list | wc -l)" ]
}
