# SPDX-License-Identifier: ISC
# A browser for bats files, beside lib/helper: tests/lib/dashboard.py has the commands.

need_browser() {
	command -v chromium >/dev/null && command -v chromedriver >/dev/null || skip "chromium and chromium-driver are not installed"
}

start_browser() {
	need_browser
	export T
	coproc BROWSER { exec /usr/bin/python3 "$LIB/dashboard.py" 2>browser.err 3>&-; }
	browser_pid=$BROWSER_PID
	# Copies of the descriptors, which subshells inherit.
	exec {web_in}>&"${BROWSER[1]}" {web_out}<&"${BROWSER[0]}"
	eval "exec ${BROWSER[1]}>&-"
	read -r -t 60 answer <&"$web_out" || {
		cat browser.err
		return 1
	}
}

# The driver ends the browser at the end of its input, and leaves nothing behind.
stop_browser() {
	[ -n "${browser_pid-}" ] || return 0
	exec {web_in}>&-
	wait "$browser_pid" 2>/dev/null || true
	browser_pid=
}

# web COMMAND...: print the answer, and set $answer to it.
web() {
	printf '%s\n' "$*" >&"$web_in"
	read -r -t 180 answer <&"$web_out"
	printf '%s\n' "$answer"
	[[ $answer != "! "* ]]
}

# text CSS: print the text of an element.  says CSS PATTERN: wait until it matches a JavaScript
# pattern.
text() { web "js document.querySelector('$1').innerText" | jq -r .; }
says() { web "until /$2/.test(document.querySelector('$1')?.innerText)" >/dev/null; }

# secret NAME: print a secret of the page's session, to make requests in its place.
secret() { web "js JSON.parse(sessionStorage.getItem('pskit-session')).$1" | jq -r .; }

# picture NAME: save screenshots of both widths, build/dashboard/NAME-WIDTH.png.
picture() {
	mkdir -p "$BIN/dashboard"
	for width in 1280 400; do
		web "size $width 900" >/dev/null
		# Nothing is wider than the window.
		[ "$(web 'js document.documentElement.scrollWidth <= innerWidth')" = true ]
		web "shot $BIN/dashboard/$1-$width.png" >/dev/null
	done
	web "size 1280 900" >/dev/null
}

# The console has no errors, other than those of a coordinator that is gone.
no_errors() {
	web errors | jq -e --arg but "${1:-^$}" 'map(select(test($but) | not)) | if . == [] then true else ., false end'
}
