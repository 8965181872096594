#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The previous release: its checkpoints, models and run directories are read, and its workers take part; formats of a later
# version are refused by its number.  tests/previous has what it wrote.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_training
	CHECKOUT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
	OLD=$BATS_TEST_DIRNAME/previous/0.1.0
	cp "$OLD"/job.json "$OLD"/train.csv .
	RUN=$T/job.run
}
teardown() { teardown_dir; }

# old_run NAME: the run directory of that name becomes job.run, and its data those of this directory.
old_run() {
	rm -rf job.run
	cp -r "$OLD/$1" job.run
	chmod -R go= job.run
	sed -i "s|/data/here|$T|g" job.run/cluster.json
}
old_digest() { jq -r .model_digest "$OLD/finished/result.json"; }

@test "an unfinished run goes on from its checkpoint, and ends in the bits of the old release" {
	old_run unfinished
	train job.json --resume auto
	[ "$(res .model_digest)" = "$(old_digest)" ]
	grep -q 'resuming from .*step-000000000080' job.run/coordinator.log
	# A new run from an earlier checkpoint, with other servers.
	old_run unfinished
	mv job.run old
	train job.json --resume old/checkpoints/step-000000000040 --set servers=1 --set replicas=1
	[ "$(res .model_digest)" = "$(old_digest)" ]
	ps-ctl checkpoint verify old/checkpoints/step-000000000040
}

@test "a coordinator takes over the state that the old one has left" {
	old_run unfinished
	background ps-serve -C job.run --coordinator --no-store
	wait_for 20 ps-ctl -C job.run status >/dev/null 2>&1
	[ "$(status .state)" = running ]
	ps-ctl -C job.run events | grep -q recovered
	kill "$pid"
	finish
}

@test "a finished run: result, events, report; its model predicts the same" {
	old_run finished
	ps-ctl -C job.run events >events
	grep -q done events
	ps-ctl runs "$T" | grep -q done
	ps-ctl report job.run | grep -q "$(old_digest | cut -c 1-8)"
	ps-work predict job.run/model.safetensors train.csv | head -n 12 >predictions
	diff predictions "$OLD/predictions"
	train job.json --set name=more --init-from job.run
}

# make_later MANIFEST: give a checkpoint's manifest version 7, with a seal that is right.
make_later() {
	/usr/bin/python3 - "$1" <<-'END'
	import hashlib, re, sys
	text = open(sys.argv[1]).read()
	body, seal = re.fullmatch(r'(.*),"seal":"([0-9a-f]*)"}\n', text, re.S).groups()
	digest = lambda b: hashlib.blake2b(b.encode(), digest_size=32).hexdigest()
	assert digest(body + '}') == seal
	body = body.replace('"v":1,', '"v":7,', 1)
	open(sys.argv[1], 'w').write('%s,"seal":"%s"}\n' % (body, digest(body + '}')))
	END
}

# refused PATTERN COMMAND...: the command fails, and says why.
refused() {
	local pattern=$1
	shift
	run "$@"
	[ "$status" -ne 0 ]
	echo "$output"
	grep -qE -- "$pattern" <<<"$output"
}

@test "a checkpoint, a model and a state of a later release are refused by their version" {
	old_run unfinished
	for manifest in job.run/checkpoints/*/MANIFEST.json; do make_later "$manifest"; done
	refused 'version 7' ps-ctl run job.json --resume job.run/checkpoints/step-000000000040 --set name=other
	sed -i 's/"v":2,/"v":7,/' job.run/state.json
	refused 'version 7' ps-serve -C job.run --coordinator --no-store
	old_run finished
	sed -i 's/\\"v\\":1,/\\"v\\":7,/' job.run/model.safetensors
	refused 'version 7' ps-work predict job.run/model.safetensors train.csv
}

# bats test_tags=slow
@test "servers of this release and workers of the previous one, and the other way round: the same bits" {
	git -C "$CHECKOUT" cat-file -e 'v0.1.0^{commit}' 2>/dev/null || skip "the tag v0.1.0 is not in this clone"
	git -C "$CHECKOUT" archive --prefix=old/ v0.1.0 | tar -x
	make -C old -j2 build/ps-serve build/ps-work build/ps-ctl >made 2>&1 || { tail -n 20 made; false; }
	[[ $(old/build/ps-ctl version) == "ps-ctl 0.1.0 "* ]]
	for pair in "$BIN $T/old/build" "$T/old/build $BIN"; do
		read -r servers workers <<<"$pair"
		rm -rf job.run
		"$servers/ps-serve" job.json --set servers=1 --set replicas=1 >serve.log 2>&1 3>&- &
		pid=$!
		pids+=("$pid")
		wait_for 20 test -S job.run/coordinator.sock
		for rank in 0 1; do
			"$workers/ps-work" train -C job.run --rank $rank >"w$rank" 2>&1 3>&- &
			pids+=($!)
		done
		wait_for 60 state_is done || { cat serve.log w0 w1; false; }
		[ "$(http GET /v1/result | jq -r .model_digest)" = "$(old_digest)" ]
		ps-ctl -C job.run doctor --quick >doctor || true
		grep -q 'warn versions: worker-[01] (.*) is pskit 0[.]' doctor || cat doctor
		kill "$pid"
		finish
	done
}
