#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The second client: what it pulls is what the C client pulls, and what it
# pushes counts once.

load lib/helper

client() {
	python3 "$BATS_TEST_DIRNAME/../contrib/python/psclient.py" -C "$RUN" "$@"
}

# start_table [KEY=VALUE ...]: a server without a job, and a table of two partitions
start_table() {
	RUN=$T/wire.run
	printf '{"name":"wire","servers":1,"sync":"asp"}' > "$T/wire.json"
	local sets=()
	for kv in "$@"; do sets+=(--set "$kv"); done
	ps-ctl start "$T/wire.json" "${sets[@]}"
	curl -sf --unix-socket "$RUN/ctl.sock" -H 'content-type: application/json' -d \
		'{"tables":[{"name":"w","sparse":false,"rows":1000,"cols":70},{"name":"s","sparse":true,"rows":100,"cols":2}]}' \
		http://ps/v1/tables
}

setup() {
	setup_dir
}

teardown() {
	[ -z "$RUN" ] || ps-ctl -C "$RUN" stop >/dev/null 2>&1 || true
	teardown_dir
}

@test "it sees the tables and pulls what ps-work pulls; a push of ones moves all by the learning rate, once" {
	start_table
	run client tables
	[ "$output" = "$(printf 's\tsparse\t100\t2\nw\tdense\t1000\t70')" ]
	run client push w 1
	[ "$output" = "applied applied" ]
	client pull w > "$T/py"
	[ "$(wc -l < "$T/py")" = 70000 ]
	# The default rule is sgd with lr 0.1.
	[ "$(sort -u "$T/py")" = -0.100000001 ]
	ps-work pull w -C "$RUN" > "$T/c.npy"
	python3 - "$T/c.npy" "$T/py" <<-'PY'
		import struct, sys
		raw = open(sys.argv[1], "rb").read()
		size = struct.unpack("<H", raw[8:10])[0]
		values = struct.unpack("<70000f", raw[10 + size:])
		mine = [float(x) for x in open(sys.argv[2])]
		assert all(abs(a - b) < 1e-8 for a, b in zip(values, mine))
	PY
}

@test "a table that is added and grows: each partition as it is cut now" {
	start_table
	ps-ctl table add emb --rows 100 --cols 2 -C "$RUN"
	ps-ctl table grow emb --rows 50000 -C "$RUN"
	ps-ctl table add gone --rows 1 -C "$RUN"
	ps-ctl table drop gone -C "$RUN"
	run client tables
	[ "$output" = "$(printf 'emb\tdense\t50000\t2\ns\tsparse\t100\t2\nw\tdense\t1000\t70')" ]
	run client push emb 1
	[ "$output" = "applied applied applied" ]
	client pull emb >"$T/py"
	[ "$(wc -l <"$T/py")" = 100000 ]
	[ "$(sort -u "$T/py")" = -0.100000001 ]
}

@test "sealed suites work, and are what the configuration says" {
	for suite in chacha20poly1305 poly1305; do
		start_table suite=$suite
		run client push w 2
		[ "$output" = "applied applied" ]
		PYTHONPATH=$BATS_TEST_DIRNAME/../contrib/python python3 - "$RUN" $suite <<-'PY'
			import sys, psclient
			c = psclient.Cluster(sys.argv[1])
			want = {"chacha20poly1305": 1, "poly1305": 3}[sys.argv[2]]
			assert c.session(0).suite == want, c.session(0).suite
		PY
		ps-ctl -C "$RUN" stop >/dev/null
	done
}

@test "a session goes on across the change of keys at 65536 records, both ways" {
	start_table
	PYTHONPATH=$BATS_TEST_DIRNAME/../contrib/python timeout 100 python3 - "$RUN" <<-'PY'
		import struct, sys, psclient
		c = psclient.Cluster(sys.argv[1])
		s, t = c.session(0), c.tables["s"]
		for burst in range(662):
		    s.sock.sendall(b"".join(s.encode(psclient.PULL_ROWS, struct.pack("<Q", i), flags=psclient.NOW, seq=i,
		                                     table=t["id"], part=0, **c.era()) for i in range(100)))
		    for i in range(100):
		        r = s.expect(psclient.ROWS)
		        assert r.seq == i and r.len == 8
		assert s.tx.nonce > 2 * 65536
	PY
}
