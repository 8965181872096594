# SPDX-License-Identifier: ISC
# An etcd on loopback addresses, for tests of the coordinator's state in it.
# Use: load lib/etcd.  ETCD_OPTIONS is more options of its members.

# etcd_start [N]: start one of N (3) members and set ETCD, the list of its client addresses.  Skips the test where there is none.
etcd_start() {
	local i
	command -v etcd >/dev/null || skip "etcd-server is not installed"
	mkdir -p etcd
	reserve_ports 8
	etcd_base=$port
	etcd_members=$(seq 0 $((${1:-3} - 1)))
	ETCD=
	for i in $etcd_members; do ETCD+=${ETCD:+,}$(etcd_client "$i"); done
	for i in $etcd_members; do etcd_member "$i"; done
	wait_for 20 etcd_answers 0
}

# etcd_tls: the members have TLS from now on, with certificates of the authority tls/ca; etcd_ask has that of "plain".
etcd_tls() {
	local name
	mkdir tls
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca -keyout tls/ca.key -out tls/ca.pem 2>/dev/null
	certificate server / "subjectAltName=IP:127.0.0.1"
	certificate plain / ""
	ETCD_SCHEME=https
	ETCD_CURL=(--cacert tls/ca.pem --cert tls/plain.pem --key tls/plain.key)
	ETCD_OPTIONS="--cert-file tls/server.pem --key-file tls/server.key --trusted-ca-file tls/ca.pem --client-cert-auth"
}

# certificate NAME SUBJECT EXTENSION [OPTION...]: make tls/NAME.pem and tls/NAME.key.
certificate() {
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$2" -keyout "tls/$1.key" -out "tls/$1.csr" 2>/dev/null
	openssl x509 -req -in "tls/$1.csr" -CA tls/ca.pem -CAkey tls/ca.key -CAcreateserial -days 2 "${@:4}" \
		-extfile <(printf '%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$3") -out "tls/$1.pem" 2>/dev/null
}

etcd_client() { echo "127.0.0.1:$((etcd_base + $1))"; }
etcd_peer() { echo "http://127.0.0.1:$((etcd_base + 5 + $1))"; }

# etcd_member N: start member N, or start it again.
etcd_member() {
	local all="" i state=new
	for i in $etcd_members; do all+=,m$i=$(etcd_peer "$i"); done
	[ ! -d "etcd/m$1" ] || state=existing
	GOMAXPROCS=1 etcd --name "m$1" --data-dir "etcd/m$1" --initial-cluster "${all#,}" --initial-cluster-state $state \
		--listen-client-urls "${ETCD_SCHEME:-http}://$(etcd_client "$1")" \
		--advertise-client-urls "${ETCD_SCHEME:-http}://$(etcd_client "$1")" \
		--listen-peer-urls "$(etcd_peer "$1")" --initial-advertise-peer-urls "$(etcd_peer "$1")" \
		--logger zap --log-level warn --unsafe-no-fsync ${ETCD_OPTIONS:-} >>"etcd/m$1.log" 2>&1 3>&- &
	etcd_pid[$1]=$!
	pids+=($!)
}

# etcd_ask N METHOD BODY: one request to member N.
etcd_ask() {
	curl -sS --max-time 2 "${ETCD_CURL[@]}" -d "$3" "${ETCD_SCHEME:-http}://$(etcd_client "$1")/v3/$2"
}
etcd_answers() { etcd_ask "$1" kv/range '{"key":"AA=="}' 2>/dev/null | grep -q revision; }

# etcd_users: etcd has users from now on.  "pskit" may use the keys of /t/, "reader" may read them, "other" has other keys; root
# has all.  The password of each is its name and "-pass".
etcd_users() {
	local name
	for name in root pskit reader other; do
		etcd_ask 0 auth/user/add "{\"name\":\"$name\",\"password\":\"$name-pass\"}"
		etcd_ask 0 auth/role/add "{\"name\":\"$name\"}"
		etcd_ask 0 auth/user/grant "{\"user\":\"$name\",\"role\":\"$name\"}"
	done >/dev/null
	etcd_grant pskit READWRITE /t/ /t0
	etcd_grant reader READ /t/ /t0
	etcd_grant other READWRITE /other/ /other0
	etcd_ask 0 auth/enable '{}' >/dev/null
}

# etcd_grant ROLE TYPE FROM TO [TOKEN]
etcd_grant() {
	curl -sS --max-time 2 "${ETCD_CURL[@]}" ${5:+-H "Authorization: $5"} "${ETCD_SCHEME:-http}://$(etcd_client 0)/v3/auth/role/grant" -d "$(
		jq -cn --arg role "$1" --arg type "$2" --arg from "$3" --arg to "$4" \
			'{name: $role, perm: {permType: $type, key: ($from | @base64), range_end: ($to | @base64)}}'
	)" >/dev/null
}

# The number of the member that leads.
etcd_leader() {
	local i
	for i in $etcd_members; do
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
	for i in $etcd_members; do
		answer=$(etcd_ask "$i" kv/range "{\"key\":\"$(printf %s "$1" | base64 -w0)\"}" 2>/dev/null) || continue
		jq -r '.kvs[0].value // "" | @base64d' <<<"$answer"
		return
	done
}
