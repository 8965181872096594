#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# The coordinator's state in an etcd with users and TLS, and what etcd refuses.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training
load lib/etcd

setup() {
	setup_training
	cd "$T"
	# A cluster without a job, whose state is written when it forms and when a setting changes.
	echo '{ "servers": 1 }' >c.json
	unset ETCDCTL_USER ETCDCTL_PASSWORD ETCDCTL_CACERT ETCDCTL_CERT ETCDCTL_KEY
}

teardown() { teardown_dir; }

# coordinate OPTIONS...: a cluster whose state is in etcd, in $RUN.
coordinate() {
	RUN=$T/c.run
	ps-serve c.json --no-store --set "state=${ETCD_URL:-etcd}://$ETCD/t" -C c.run "$@" 2>c.log 3>&- &
	coordinator=$!
	pids+=("$coordinator")
	wait_for 20 test -S c.run/ctl.sock
	ps-serve -C c.run --name server-0 2>s.log 3>&- &
	pids+=($!)
	wait_for 20 state_is running
}

# The level of the log is a setting: each change is in the state before it is announced.
changes() { ps-ctl set -C c.run "log_level=$1" >/dev/null; }

# refused CODE WORDS [OPTION...]: a coordinator, and one that stands by, end with this code and one line.
refused() {
	local how
	for how in --no-store --standby; do
		echo "-- $how, ETCDCTL_USER=${ETCDCTL_USER:-}, ETCDCTL_CERT=${ETCDCTL_CERT:-}, ETCDCTL_CACERT=${ETCDCTL_CACERT:-}"
		run timeout 60 ps-serve c.json $how --set "state=${ETCD_URL:-etcd}://$ETCD/t" -C no.run "${@:3}"
		echo "$output"
		[ "$status" -eq "$1" ]
		[ "$(grep -c '^ps-serve: ' <<<"$output")" -eq 1 ]
		[[ $(grep '^ps-serve: ' <<<"$output") == *"$2"* ]]
	done
}

# How often a user has been authenticated.
authentications() {
	curl -sS "${ETCD_CURL[@]}" "${ETCD_SCHEME:-http}://$(etcd_client 0)/metrics" |
		sed -n 's/^grpc_server_handled_total{grpc_code="OK",grpc_method="Authenticate".*} //p'
}
authenticated() { [ "$(authentications)" -ge "$1" ]; }

# bats test_tags=slow
@test "a user with a role for the prefix: tokens end, are lost and become old, and the state is written" {
	openssl genrsa -out jwt.key 2048 2>/dev/null
	openssl rsa -in jwt.key -pubout -out jwt.pub 2>/dev/null
	ETCD_OPTIONS="--auth-token jwt,pub-key=jwt.pub,priv-key=jwt.key,sign-method=RS256,ttl=1s --bcrypt-cost 4"
	etcd_start 1
	etcd_users
	export ETCDCTL_USER=pskit:pskit-pass
	coordinate
	changes debug
	# Each lives for a second.
	wait_for 20 authenticated $(($(authentications) + 2))
	changes info
	# A token is older than the last change of a role then.
	token=$(etcd_ask 0 auth/authenticate '{"name":"root","password":"root-pass"}' | jq -r .token)
	etcd_grant pskit READWRITE /u/ /u0 "$token"
	changes warn
	kill -0 "$coordinator"
	ps-ctl stop -C c.run >/dev/null
	wait "$coordinator"
	! grep -E ' (warn|error)' c.log
}

# bats test_tags=slow
@test "a token that etcd has forgotten is replaced, and a user counts only where etcd has users" {
	ETCD_OPTIONS="--bcrypt-cost 4"
	etcd_start 1
	export ETCDCTL_USER=pskit ETCDCTL_PASSWORD=pskit-pass
	coordinate
	changes debug
	etcd_users
	changes info
	# Simple tokens are in the memory of the member.
	kill -9 "${etcd_pid[0]}"
	wait "${etcd_pid[0]}" || true
	etcd_member 0
	wait_for 20 eval 'state_is running && changes warn'
}

@test "users that etcd refuses: one sentence and the documented exit code" {
	ETCD_OPTIONS="--bcrypt-cost 4"
	etcd_start 1
	etcd_users
	refused 5 'requires a user: set ETCDCTL_USER=NAME:PASSWORD'
	export ETCDCTL_USER
	ETCDCTL_USER=pskit:wrong refused 5 'refuses the user "pskit" or the password'
	ETCDCTL_USER=nobody:x refused 5 'refuses the user "nobody" or the password'
	ETCDCTL_USER=other:other-pass refused 5 'permission denied: other needs permission to read and write all keys that begin with /t/c/'
	ETCDCTL_USER=reader:reader-pass refused 5 'permission denied: reader needs permission to read and write all keys that begin with /t/c/'
}

@test "TLS: certificates that one side refuses, and one with a common name" {
	etcd_tls
	certificate alice /CN=alice ""
	certificate old / "" -days -1
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=other -keyout tls/other.key -out tls/other.pem 2>/dev/null
	ETCD_OPTIONS+=" --bcrypt-cost 4"
	etcd_start 1
	etcd_users
	export ETCDCTL_USER=pskit:pskit-pass ETCDCTL_CACERT=tls/ca.pem ETCDCTL_CERT=tls/plain.pem ETCDCTL_KEY=tls/plain.key
	export ETCD_URL=etcds
	coordinate
	changes debug
	ETCDCTL_CERT=tls/alice.pem ETCDCTL_KEY=tls/alice.key refused 5 'use one without a common name (CN)'
	ETCDCTL_CERT=tls/old.pem ETCDCTL_KEY=tls/old.key refused 5 "refuses the client's certificate"
	ETCDCTL_CERT=tls/other.pem ETCDCTL_KEY=tls/other.key refused 5 "refuses the client's certificate"
	ETCDCTL_CERT='' ETCDCTL_KEY='' refused 5 "refuses the client's certificate"
	ETCDCTL_CACERT=tls/other.pem refused 5 'the certificate of etcd at 127.0.0.1'
	ETCDCTL_CACERT='' refused 5 'ETCDCTL_CACERT names the file of its authority'
	ETCDCTL_CACERT=tls/none refused 78 'ETCDCTL_CACERT: '
	ETCDCTL_CERT=tls/none refused 78 'ETCDCTL_CERT and ETCDCTL_KEY: '
	run -1 ps-ctl doctor c.json --set "state=etcd://$ETCD/t"
	[[ $output == *"fail state: etcd at $ETCD closes the connection without an answer (etcd:// is without TLS"* ]]
	ps-ctl stop -C c.run >/dev/null
	wait "$coordinator"
	# The members' own certificate.
	kill -9 "${etcd_pid[0]}"
	wait "${etcd_pid[0]}" || true
	certificate server / "subjectAltName=IP:127.0.0.1" -days -1
	etcd_member 0
	wait_for 20 eval 'curl -sk "https://$ETCD/health" --cert tls/plain.pem --key tls/plain.key | grep -q true'
	refused 5 'certificate has expired'
}
