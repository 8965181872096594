#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# Look-ups in Redis' protocol by a read-only server, with redis-cli and redis-benchmark.

bats_require_minimum_version 1.5.0
load lib/helper

setup() {
	command -v redis-cli >/dev/null || skip "redis-tools is not installed"
	setup_dir
}

teardown() {
	teardown_dir
}

# trained: a run of a factorization of ratings, and its model file.
trained() {
	awk 'BEGIN { srand(3); for (u = 0; u < 40; u++) for (k = 0; k < 9; k++) printf "%d\t%d\t%d\n", u, int(rand() * 30), k % 5 + 1 }' >ratings.tsv
	echo '{ "job": { "model": "mf", "data": "ratings.tsv", "factors": 3, "epochs": 4, "batch": 20 } }' >m.json
	ps-ctl "$@" m.json >/dev/null 2>&1
}

# served FROM [settings]: serve it at r.sock.
served() {
	local from=$1
	shift
	ps-serve --read-only "$from" -C serve.run --set serve_redis=unix:r.sock "$@" >serve.log 2>&1 3>&- &
	pids+=($!)
	wait_for 20 answers
}

answers() { [ "$(redis-cli -s r.sock PING 2>/dev/null)" = PONG ]; }
cli() { redis-cli -s r.sock "$@"; }

# rows TABLE: "ID V0 V1 ..." of each row of the model file, with 9 digits.
rows() {
	python3 - "$1" <<-'END'
	import json, struct, sys
	f = open("m.run/model.safetensors", "rb")
	head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
	data = f.read()
	def tensor(name, code, size):
	    a, b = head[name]["data_offsets"]
	    return struct.unpack("<%d%s" % ((b - a) // size, code), data[a:b])
	ids, w = tensor("v.ids", "Q", 8), tensor("v", "f", 4)
	n = len(w) // len(ids)
	for k, i in enumerate(ids):
	    print(i, *["%.9g" % x for x in w[k * n:k * n + n]])
	END
}

@test "rows of a saved model, as text and raw, by one key, by many, and as a hash" {
	trained run
	served m.run/model.safetensors --set serve_redis_values=text
	rows v >want
	while read -r id values; do echo "$values"; done <want >values
	cut -d ' ' -f 1 want | sed 's/^/GET v:/' | cli | cmp - values
	# shellcheck disable=SC2046 # keys
	cli MGET $(cut -d ' ' -f 1 want | sed 's/^/v:/') | cmp - values
	# shellcheck disable=SC2046 # fields
	cli HMGET v $(cut -d ' ' -f 1 want) | cmp - values
	[ "$(cli EXISTS v:2 v:3 v:100000 b b:0 c:0)" = 4 ]
	[ "$(cli --no-raw GET v:100000)" = "(nil)" ]
	[ "$(cli --no-raw GET none:1)" = "(nil)" ]
	[ "$(cli HGETALL b | head -n 1)" = 0 ]
	[ "$(cli HGET b 0)" = "$(cli GET b:0)" ]
	[[ $(cli HGETALL v) == *"ERR the table is sparse"* ]]
	[[ $(cli SET a b) == *READONLY* ]]
	[[ $(cli EVAL x 0) == *"ERR unknown command 'EVAL', with args beginning with: 'x' '0'"* ]]
	cli INFO | grep -q '^v:sparse,columns=4'
	redis-benchmark -s r.sock -n 2000 -c 20 -P 8 -q GET v:2 >bench 2>&1
	grep -q 'requests per second' bench
	kill "${pids[-1]}"
	wait "${pids[-1]}" || true
	[ ! -e r.sock ]
	rm -r serve.run
	served m.run/model.safetensors
	cli GET v:2 | head -c 16 >raw
	[ "$(ps-work floats -d raw | tr '\n' ' ')" = "$(sed -n 's/^2 //p' want) " ]
}

@test "a replica of a living cluster shows its values, and rows that do not exist are nil" {
	trained start
	ps-ctl wait -C m.run --for done
	served m.run --set serve_redis_values=text
	ps-ctl export all -C m.run >/dev/null 2>&1 || true
	[ "$(cli GET v:2 | wc -w)" = 4 ]
	[ "$(cli GET v:2 | tr ' ' '\n' | head -n 1)" = "$(ps-work pull v -C m.run | awk '$1 == 2 { print $2 }')" ]
	[ "$(cli --no-raw GET v:100000)" = "(nil)" ]
	[ "$(cli EXISTS v:2 v:100000)" = 1 ]
	ps-ctl stop -C m.run >/dev/null
}

@test "access: a Unix socket, or a token, and never an open port by default" {
	trained run
	refused() {
		local text=$1
		shift
		run -78 ps-serve --read-only m.run/model.safetensors -C x.run "$@"
		echo "$output"
		[[ $output == *"$text"* ]]
	}
	refused 'requires serve_tokens for AUTH' --set serve_redis=0.0.0.0:0
	refused 'serve_open=true' --set serve_redis=127.0.0.1:0
	refused 'must be none, HOST:PORT or unix:PATH' --set serve_redis=there
	run -78 ps-serve m.json --set serve_redis=unix:r.sock
	[[ $output == *"only a read-only server"* ]]
	echo 0123456789abcdef >tokens
	chmod 600 tokens
	ps-serve --read-only m.run/model.safetensors -C serve.run --set serve_redis=127.0.0.1:0 --set serve_tokens=tokens \
		--set serve_redis_connections=3 >serve.log 2>&1 3>&- &
	pids+=($!)
	wait_for 20 grep -q "Redis' protocol on" serve.log
	port=$(sed -n "s/.*Redis' protocol on 127.0.0.1:\([0-9]*\).*/\1/p" serve.log)
	[[ $(redis-cli -p "$port" GET v:2) == *"NOAUTH Authentication required."* ]]
	[[ $(redis-cli -p "$port" --no-auth-warning -a wrong-wrong-wrong GET v:2 2>&1) == *WRONGPASS* ]]
	[ "$(redis-cli -p "$port" --no-auth-warning -a 0123456789abcdef EXISTS v:2)" = 1 ]
	# A client that is not authenticated cannot send much.
	exec 5<>"/dev/tcp/127.0.0.1/$port"
	printf '*11\r\n' >&5
	[[ $(timeout 10 cat <&5) == *"unauthenticated multibulk length"* ]]
	exec 5>&-
	# Only so many connections, and those that are open go on.
	exec 5<>"/dev/tcp/127.0.0.1/$port" 6<>"/dev/tcp/127.0.0.1/$port" 7<>"/dev/tcp/127.0.0.1/$port"
	for fd in 5 6 7; do
		printf 'AUTH 0123456789abcdef\r\nPING\r\n' >&$fd
		read -r -t 10 line <&$fd
		[[ $line == +OK* ]]
	done
	exec 8<>"/dev/tcp/127.0.0.1/$port"
	read -r -t 10 line <&8
	[[ $line == *"max number of clients reached"* ]]
	read -r -t 10 line <&5
	[[ $line == +PONG* ]]
	exec 5>&- 6>&- 7>&- 8>&-
}

@test "a client that does not read its answers is closed, and others go on" {
	trained run
	served m.run/model.safetensors --set serve_deadline=1s
	python3 - <<-'END'
	import socket, time
	s = socket.socket(socket.AF_UNIX)
	s.connect("r.sock")
	s.settimeout(20)
	keys = b"".join(b"$3\r\nv:2\r\n" for _ in range(10000))
	command = b"*10001\r\n$4\r\nMGET\r\n" + keys
	try:
	    while True:
	        s.sendall(command)
	except (BrokenPipeError, ConnectionResetError):
	    pass
	END
	answers
	[ "$(cli EXISTS v:2)" = 1 ]
}
