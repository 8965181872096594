# SPDX-License-Identifier: ISC
# The fault kit for bats files, beside lib/helper and lib/training.

# start_proxy [options]: start a proxy that listens at $PROXY.
start_proxy() {
	PROXY_FIFO=$T/proxy.in PROXY_OUT=$T/proxy.out
	mkfifo "$PROXY_FIFO"
	"$BIN/fault/proxy" "$@" <"$PROXY_FIFO" >"$PROXY_OUT" 2>proxy.err 3>&- &
	proxy=$!
	pids+=("$proxy")
	exec 7>"$PROXY_FIFO"
	wait_for 5 test -s "$PROXY_OUT"
	PROXY=$(head -n 1 "$PROXY_OUT")
}

# tell COMMAND...: send a command to the proxy, and wait until it is executed.
tell() {
	local lines
	mapfile -t lines <"$PROXY_OUT"
	echo "$*" >&7
	wait_for 5 more_lines "${#lines[@]}"
	mapfile -t lines <"$PROXY_OUT"
	[ "${lines[-1]}" = ok ] || {
		echo "${lines[-1]}"
		return 1
	}
}

# Are there more than $1 lines, of which the last one tells how a command went?
more_lines() {
	local lines
	mapfile -t lines <"$PROXY_OUT"
	[ "${#lines[@]}" -gt "$1" ] && [[ ${lines[-1]} =~ ^(ok|not) ]]
}

# seen NAME: print one of the proxy's counters.
seen() {
	local lines i
	tell stats
	mapfile -t lines <"$PROXY_OUT"
	for ((i = ${#lines[@]} - 1; i >= 0; i--)); do
		if [[ ${lines[i]} =~ (^|[^a-z_-])"$1 "([0-9]+) ]]; then
			echo "${BASH_REMATCH[2]}"
			return
		fi
	done
}
