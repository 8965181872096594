# SPDX-License-Identifier: ISC
# Harms processes of a local run, for tests/fault/examples and tests/fault/events, which set $run, $replicas
# and $victims, and have fail.
#
# A victim is "worker-N", "server-N" or "coordinator", which is killed; "reader", a process that reads a topic
# for a worker; "stop:NAME", which is stopped for up to 4 s and goes on; or "all": the supervisor is killed, and all
# others with it, and the job is resumed from its newest checkpoint.

pid_of() {
	case $1 in
	coordinator) pgrep -f -- "ps-serve -C $run --coordinator" ;;
	reader) for pid in $(pgrep -f -- "ps-work.* $run"); do pgrep -P "$pid" -f "topic read"; done | shuf -n 1 --random-source=<(yes $RANDOM) ;;
	*) ps-ctl status -C "$run" 2>/dev/null | awk -v id="$1" '$1 == id && $3 ~ /^[0-9]+$/ { print $3 }' ;;
	esac
}

has_ended() {
	[ -e "$run/result.json" ]
}

# What the coordinator answers to GET /v1/$1.
ask() {
	curl -sf --max-time 2 --unix-socket "$run/ctl.sock" "http://x/v1/$1"
}

# Do all partitions have all their replicas? The last one must not be killed.
has_replicas() {
	has_ended || { ask status && ask layout; } | jq -se --argjson replicas "$replicas" '.[0].state == "running" and .[0].partitions_moving == 0 and
		([.[1].tables[].runs[][2] | length] | length > 0 and all(. == $replicas))' >/dev/null 2>&1
}

# Has another process the place of the victim $1, which was process $2?
is_replaced() {
	local now
	has_ended && return
	now=$(pid_of "$1")
	[ -n "$now" ] && [ "$now" != "$2" ] && has_replicas
}

none_runs() {
	! pgrep -f -- "$run" >/dev/null
}

# Resumes the job. The lock of a killed supervisor is held until that has ended, which may take a moment. Every other
# refusal is an error of the job.
is_resumed() {
	ps-ctl start c --resume auto --max-restarts 100000 >resume.log 2>&1 9>&- && return
	grep -q 'is already running' resume.log || fail "the job cannot be resumed: $(tail -n 3 resume.log)"
	return 1
}

kill_all() {
	local pid
	pid=$(sed -n 1p "$run/lock") && kill -9 "$pid" || return
	await 60 "the processes do not end with their supervisor" none_runs
	await 60 "the lock of the killed supervisor is not free" is_resumed
	await 60 "the resumed job does not run" has_replicas
}

# Harms one victim, chosen at random, and waits until the job can bear the next one. Counts in $killed and
# $stopped.
harm_one() {
	local who=${victims[RANDOM % ${#victims[@]}]} pid name
	name=${who#stop:}
	if [ "$who" = all ]; then
		kill_all && killed=$((killed + 1)) && everything=$((everything + 1))
		return
	fi
	pid=$(pid_of "$name")
	[ -n "$pid" ] || return
	if [ "$name" != "$who" ]; then
		kill -STOP "$pid" 2>/dev/null && stopped=$((stopped + 1))
		sleep "$((RANDOM % 4)).$((RANDOM % 10))"
		kill -CONT "$pid" 2>/dev/null
		await 60 "the job does not bear that $name was stopped" has_replicas
		return
	fi
	kill -9 "$pid" 2>/dev/null && killed=$((killed + 1))
	case $who in
	worker-*|reader) sleep "0.$((RANDOM % 8 + 1))" ;;
	*) await 60 "$who is not replaced" is_replaced "$who" "$pid" ;;
	esac
}

# await SECONDS WHAT COMMAND...
await() {
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@"; do
		[ $SECONDS -lt $end ] || fail "$what within time"
		sleep 0.1
	done
}
