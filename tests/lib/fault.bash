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
	local n
	n=$(wc -l <"$PROXY_OUT")
	echo "$*" >&7
	wait_for 5 more_lines "$n"
	[ "$(tail -n 1 "$PROXY_OUT")" = ok ] || {
		tail -n 1 "$PROXY_OUT"
		return 1
	}
}

more_lines() {
	local n
	n=$(wc -l <"$PROXY_OUT")
	[ "$n" -gt "$1" ] && [[ $(tail -n 1 "$PROXY_OUT") =~ ^(ok|not) ]]
}

# seen NAME: print one of the proxy's counters.
seen() {
	tell stats
	sed -n "s/.*\<$1 \([0-9]*\).*/\1/p" "$PROXY_OUT" | tail -n 1
}
