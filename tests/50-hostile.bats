#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# A peer that means harm: the connection closes, the model and the process stay
# as they were.

load lib/helper

# One cluster for all cases: none of them may change its process or its model.
setup_file() {
	setup_dir
	export WIRE=$T RUN=$T/wire.run
	printf '{"name":"wire","servers":1,"sync":"asp","row_ids":"cached","pull_delta":true}' > "$T/wire.json"
	ps-ctl start "$T/wire.json" 3>&-
	curl -sf --unix-socket "$RUN/ctl.sock" -H 'content-type: application/json' -d \
		'{"tables":[{"name":"w","sparse":false,"rows":1000,"cols":70},{"name":"s","sparse":true,"rows":100,"cols":2}]}' \
		http://ps/v1/tables
	# The next view has the tables.
	wait_for 10 has_tables
	python3 "$BATS_TEST_DIRNAME/../contrib/python/psclient.py" -C "$RUN" push w 1
	PID=$(cat "$RUN/server-0.pid")
	export PID
	ps-work pull w -C "$RUN" | sha256sum > "$T/before"
}

teardown_file() {
	T=$WIRE
	PATH=$(cd "$BATS_TEST_DIRNAME/.." && cd "${PS_BIN:-build}" && pwd):$PATH
	pids=()
	ps-ctl -C "$RUN" stop >/dev/null 2>&1 || true
	BATS_TEST_COMPLETED=1 teardown_dir
}

setup() {
	setup_dir
	rss > "$T/rss"
}

teardown() {
	[ -n "${BATS_TEST_COMPLETED:-}" ] || (T=$WIRE && tell_clusters) || true
	BATS_TEST_COMPLETED=1 teardown_dir
}

has_tables() {
	python3 "$BATS_TEST_DIRNAME/../contrib/python/psclient.py" -C "$RUN" tables >tables && grep -qw w tables
}

rss() {
	awk '/VmRSS/ { print $2 }' "/proc/$PID/status"
}

hostile() {
	SERVER_PID=$PID python3 "$BATS_TEST_DIRNAME/lib/hostile.py" "$RUN" "$@"
	# The same process, the same model, no more memory.
	kill -0 "$PID"
	ps-work pull w -C "$RUN" | sha256sum | cmp - "$WIRE/before"
	[ -n "$PS_SANITIZED" ] || [ "$(rss)" -lt $(($(cat "$T/rss") + 32768)) ]
}

@test "every flipped bit of the first handshake message closes" {
	hostile msg1
}

@test "every flipped bit of a record's header and its tag closes" {
	hostile header
}

# bats test_tags=fault
@test "thousands of flipped bits of payloads close" {
	hostile payload "$(kills 2000)"
}

@test "swapped, doubled, dropped, cut, reflected and replayed bytes close" {
	hostile order
}

@test "random bytes, HTTP, TLS and silence are closed, and hold nobody up" {
	hostile strangers
}

@test "records that are authentic but wrong are refused" {
	hostile records
}

@test "blocks of row ids: wrong ones are refused, unknown names asked for" {
	hostile keys
}

@test "pulls of changed rows that are no pulls of changed rows are refused" {
	hostile changed_rows
}

@test "shared memory: what is none is refused, and what is written there does no harm" {
	hostile shared
}

@test "published memory: parameters are read there, and nothing can be written or cut" {
	ps-ctl keygen --role monitor --name m -o "$RUN/keys/monitor.key" >> "$RUN/keys/authorized_keys"
	kill -HUP "$PID"
	wait_for 10 grep -q 'keys have been read again' "$RUN/server-0.log"
	hostile published
}

@test "lent memory: it cannot be cut, and values that change while they are read do no harm" {
	hostile lent
}

@test "texts that an error message quotes and cuts are answered, in any alphabet" {
	hostile texts
}

@test "values that are not finite are refused by receipt" {
	hostile nonfinite
}

@test "wrong secret, wrong server key, unknown key: one sentence, exit 5" {
	cp -r "$RUN/keys" "$T/keys"
	# A secret that comes to stand in the run directory is the cluster's: the wrong one is a guest's.
	ps-ctl keygen --role admin --name other -o "$T/other.key" >/dev/null
	ps-ctl invite -C "$RUN" --role admin --name guest 2>/dev/null |
		jq -c --arg psk "$(cut -d' ' -f2 "$T/other.key")" '.psk = $psk' >"$T/guest.join"
	chmod 600 "$T/guest.join"
	run ps-work pull w --join "$T/guest.join" --timeout 5s
	echo "psk: $output"
	[ "$status" -eq 5 ]
	[ "${#lines[@]}" -eq 1 ]
	for file in coordinator.pub admin.key; do
		other=$T/other.key
		rm -f "$other"
		line=$(ps-ctl keygen --role admin --name other -o "$other")
		case $file in
		coordinator.pub) printf '%s\n' "$line" | sed 's/.*x25519:\([^ ]*\).*/\1/' > "$RUN/keys/coordinator.pub" ;;
		admin.key) cat "$other" > "$RUN/keys/admin.key" ;;
		esac
		run ps-work pull w -C "$RUN" --timeout 5s
		echo "$file: $output"
		[ "$status" -eq 5 ]
		[ "${#lines[@]}" -eq 1 ]
		cp "$T/keys/$file" "$RUN/keys/$file"
	done
	ps-work pull w -C "$RUN" > /dev/null
}

@test "a key file that others can read is refused, with the chmod to run" {
	chmod 644 "$RUN/keys/admin.key"
	run ps-work pull w -C "$RUN"
	echo "$output"
	[ "$status" -eq 5 ]
	[[ "$output" == *"chmod "*"admin.key"* ]]
}
