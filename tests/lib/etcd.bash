# SPDX-License-Identifier: ISC
# An etcd of three members on loopback addresses, for tests of the coordinator's state in it.
# Use: load lib/etcd.

# etcd_start: start it and set ETCD, the list of its client addresses.  Skips the test where there is none.
etcd_start() {
	local i
	command -v etcd >/dev/null || skip "etcd-server is not installed"
	mkdir -p etcd
	reserve_ports 8
	etcd_base=$port
	ETCD=$(etcd_client 0),$(etcd_client 1),$(etcd_client 2)
	for i in 0 1 2; do etcd_member "$i"; done
	wait_for 20 etcd_answers 0
}

etcd_client() { echo "127.0.0.1:$((etcd_base + $1))"; }
etcd_peer() { echo "http://127.0.0.1:$((etcd_base + 5 + $1))"; }

# etcd_member N: start member N, or start it again.
etcd_member() {
	local all="" i state=new
	for i in 0 1 2; do all+=,m$i=$(etcd_peer "$i"); done
	[ ! -d "etcd/m$1" ] || state=existing
	GOMAXPROCS=1 etcd --name "m$1" --data-dir "etcd/m$1" --initial-cluster "${all#,}" --initial-cluster-state $state \
		--listen-client-urls "http://$(etcd_client "$1")" --advertise-client-urls "http://$(etcd_client "$1")" \
		--listen-peer-urls "$(etcd_peer "$1")" --initial-advertise-peer-urls "$(etcd_peer "$1")" \
		--logger zap --log-level warn --unsafe-no-fsync ${ETCD_OPTIONS:-} >>"etcd/m$1.log" 2>&1 3>&- &
	etcd_pid[$1]=$!
	pids+=($!)
}

# etcd_ask N METHOD BODY: one request to member N.
etcd_ask() { curl -sS --max-time 2 -d "$3" "http://$(etcd_client "$1")/v3/$2"; }
etcd_answers() { etcd_ask "$1" kv/range '{"key":"AA=="}' 2>/dev/null | grep -q revision; }

# The number of the member that leads.
etcd_leader() {
	local i
	for i in 0 1 2; do
		! etcd_ask "$i" maintenance/status '{}' 2>/dev/null | jq -e '.leader == .header.member_id' >/dev/null 2>&1 || echo "$i"
	done
}

# etcd_keys PREFIX: the names of the keys that begin with it.
etcd_keys() {
	local to
	to=${1%?}$(printf "\\$(printf %o $(($(printf %d "'${1: -1}") + 1)))")
	etcd_ask "${2:-0}" kv/range "{\"key\":\"$(printf %s "$1" | base64 -w0)\",\"range_end\":\"$(printf %s "$to" | base64 -w0)\",\"keys_only\":true}" |
		jq -r '.kvs[]?.key | @base64d'
}

# etcd_get KEY: its value, from the first member that answers.
etcd_get() {
	local i answer
	for i in 0 1 2; do
		answer=$(etcd_ask "$i" kv/range "{\"key\":\"$(printf %s "$1" | base64 -w0)\"}" 2>/dev/null) || continue
		jq -r '.kvs[0].value // "" | @base64d' <<<"$answer"
		return
	done
}
