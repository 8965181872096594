#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# ps-ctl checkpoint on run directories where no cluster runs, with checkpoints
# made by a writer that shares no code with the programs.

bats_require_minimum_version 1.5.0
load lib/helper

setup() {
	setup_dir
	LIB=$BATS_TEST_DIRNAME/lib
	mkdir -p a.run
	C=a.run/checkpoints
}

teardown() { teardown_dir; }

# make STEP [options]: its model's digest is in $digest.
make_one() {
	digest=$(/usr/bin/python3 "$LIB/checkpoint.py" "$C" "$@")
}

path_of() {
	printf '%s/step-%012d' "$C" "$1"
}

# One bit of byte $2 (from the end) of file $1.
flip() {
	/usr/bin/python3 - "$1" "$2" <<-END
		import sys
		with open(sys.argv[1], "r+b") as f:
		    f.seek(-int(sys.argv[2]), 2)
		    byte = f.read(1)[0]
		    f.seek(-1, 1)
		    f.write(bytes([byte ^ 16]))
	END
}

ckpt() { ps-ctl checkpoint "$@"; }

@test "ls: oldest first, with size, time and evaluation" {
	make_one 20 --loss 0.25
	make_one 3 --servers 5
	make_one 100 --generation 2
	mkdir "$C/.step-000000000200.tmp-1234" "$C/notes"
	run -0 ckpt ls
	[ "${#lines[@]}" -eq 4 ]
	[[ ${lines[1]} == *" 3  whole "*"2026-01-31T23:59:59.123Z"* ]]
	[[ ${lines[2]} == *" 20  whole "*"loss 0.25" ]]
	[[ ${lines[3]} == *" 100  whole "* ]]
	run -0 ckpt ls --json
	[ "$(jq -c '[.kind, .step, .state, .why, .generation, .eval.loss]' <<<"$output")" = \
		"$(printf '%s\n' '["checkpoint",3,"whole",null,1,null]' '["checkpoint",20,"whole",null,1,0.25]' \
			'["checkpoint",100,"whole",null,2,null]')" ]
	[ "$(ckpt ls --json | jq -s '.[0].size_bytes')" -eq "$(cat "$(path_of 3)"/*.safetensors | wc -c)" ]
}

@test "ls: a run without checkpoints has none, a run that is not there is said" {
	run -0 ckpt ls
	[ -z "$output" ]
	run -4 ckpt verify
	run -4 ps-ctl -C b.run checkpoint ls
	mkdir b.run
	run -3 ckpt ls
	run -0 ps-ctl -C b.run checkpoint ls
}

@test "verify: the model's digest, whatever number of servers wrote it" {
	for servers in 1 2 7 19; do
		make_one "$servers" --servers "$servers"
	done
	run -0 ckpt verify --json
	[ "$(jq -r '[.state, .model_digest] | @tsv' <<<"$output" | sort -u)" = "$(printf 'whole\t%s' "$digest")" ]
	[ "${#lines[@]}" -eq 4 ]
	run -0 ckpt verify 7
	[[ $output == "step 7: whole, "*", model $digest" ]]
	run -0 ckpt verify "$(path_of 7)/"
	run -0 ckpt verify step-000000000007
	mv "$(path_of 7)" elsewhere
	run -0 ckpt verify ./elsewhere
	mv elsewhere "$(path_of 8)"
	run -1 ckpt verify 8
	[[ $output == *"manifest of step 7"* ]]
}

@test "verify: every damaged file is named" {
	local file
	for file in server-0.params.safetensors server-1.params.safetensors server-0.state.safetensors \
		server-1.state.safetensors MANIFEST.json; do
		rm -rf "$C"
		make_one 10
		make_one 20
		flip "$(path_of 20)/$file" 30
		run -1 ckpt verify
		[[ ${lines[0]} == "step 10: whole"* ]]
		[[ ${lines[1]} == "step 20: damaged: "*"/$file"* ]]
		run -1 ckpt verify 20 --json
		[ "$(jq -c '[.state, .model_digest]' <<<"$output")" = '["damaged",null]' ]
		truncate -s -1 "$(path_of 10)/$file"
		run -0 ckpt ls
		[[ $output == *" 10  damaged "*"/$file"* ]]
		rm "$(path_of 10)/$file"
		run -1 ckpt verify 10
		[[ $output == *"/$file"* ]]
	done
}

@test "diff: the same, and what differs" {
	make_one 10 --servers 3
	make_one 20
	make_one 30 --change 2
	make_one 40 --seed 2
	run -0 ckpt diff 10 20
	[ "$(grep -c ' same ' <<<"$output")" -eq 2 ]
	run -1 ckpt diff 20 30 --json
	[ "$(jq -c '[.kind, .table, .state, .values, .differ]' <<<"${lines[0]}")" = '["difference","w","differs",107,1]' ]
	jq -e '(.max_abs - 2 | fabs) < 1e-6 and (.rms - (4 / 107 | sqrt) | fabs) < 1e-6' <<<"${lines[0]}"
	[ "$(jq -r .state <<<"${lines[1]}")" = same ]
	run -1 ckpt diff 20 "$(path_of 40)" --json
	[ "$(jq -c '[.table, .values, .rows_only_a, .rows_only_b]' <<<"${lines[1]}")" = '["emb",0,60,60]' ]
	run -4 ckpt diff 20 21
	[[ $output == *step-000000000021* ]]
	cp -r "$(path_of 20)" other
	flip other/MANIFEST.json 200
	run -1 ckpt diff 20 ./other
	[[ $output == *other/MANIFEST.json* ]]
}

@test "rm: all that is named, or nothing" {
	for step in 1 2 3 4; do
		make_one "$step"
	done
	run -4 ckpt rm 1 9
	[ "$(ckpt ls --json | wc -l)" -eq 4 ]
	run -0 ckpt rm 1 "$(path_of 3)"
	[ "$(ckpt ls --json | jq .step | xargs)" = "2 4" ]
	[ "$(find "$C" -mindepth 1 -maxdepth 1 | wc -l)" -eq 2 ]
	run -2 ckpt rm ./a.run
	[ -d a.run ]
}

@test "wrong use, and take without a cluster" {
	run -2 ckpt verfy
	[[ $output == *'did you mean "verify"?'* ]]
	run -2 ckpt everything
	run -2 ckpt diff 1
	run -2 ckpt rm
	run -2 ckpt ls more
	run -2 ckpt verify 1 2
	run -3 ckpt
	[[ $output == *"not running"* || $output == *"no cluster is running"* ]]
	run -3 ckpt take
}

# A coordinator that says $1 with status $2 to POST /v1/checkpoints.
coordinator() {
	cat >coordinator.py <<-'END'
		import fcntl, http.server, os, socketserver, struct, sys

		lock = os.open("a.run/lock", os.O_RDWR | os.O_CREAT, 0o600)
		fcntl.fcntl(lock, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))     # F_OFD_SETLK
		os.write(lock, b"%d\n" % os.getpid())

		class Handler(http.server.BaseHTTPRequestHandler):
		    def do_POST(self):
		        self.rfile.read(int(self.headers["Content-Length"]))
		        good = self.path == "/v1/checkpoints"
		        body = sys.argv[1].encode()
		        self.send_response(int(sys.argv[2]) if good else 404)
		        self.send_header("Content-Type", "application/json")
		        self.send_header("Content-Length", str(len(body)))
		        self.end_headers()
		        self.wfile.write(body)
		    def address_string(self):
		        return "-"

		os.umask(0o077)
		server = socketserver.UnixStreamServer("a.run/ctl.sock", Handler)
		print("listening", flush=True)
		server.serve_forever()
	END
	background /usr/bin/python3 coordinator.py "$1" "$2"
	wait_for 5 grep -q listening out
}

@test "take: the living cluster's answer" {
	chmod 700 a.run
	coordinator '{"step":1000,"path":"a.run/checkpoints/step-000000001000"}' 200
	run -0 ckpt
	[ "$output" = 1000 ]
	run -0 ckpt take --json
	[ "$(jq -c '[.kind, .step, .path]' <<<"$output")" = \
		'["checkpoint",1000,"a.run/checkpoints/step-000000001000"]' ]
}

@test "take: what the living cluster refuses" {
	chmod 700 a.run
	coordinator '{"error":{"code":"io","message":"the disk is full","hint":""}}' 500
	run -1 ckpt
	[[ $output == *"the disk is full"* ]]
}
