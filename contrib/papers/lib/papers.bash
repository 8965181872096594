# SPDX-License-Identifier: ISC
# shellcheck shell=bash disable=SC2034
# For the scripts of the papers. A script begins with a comment, which is its help, too: the citation, a paragraph
# "Published:" and a paragraph "Measured:". Then it calls, in this order:
#
#   begin_paper "$@"                        reads the options, goes to a working directory of its own
#   write_cluster <<END ... END             the cluster file that all variants share
#   run_variant NAME KEY=VALUE ...          one run of it, with these settings
#   compare_variants ACROSS METRIC [TARGET] the plot, and what each variant took until the target
#   add_row CELL ...                        a line of the table; the first one is the heading
#   expect TEXT VALUE RELATION BOUND REASON a check, and what explains it when it does not hold
#   end_paper                               prints all of it, and the verdict
#
# The verdict follows from the checks. The first check is the gain that the paper claims; the others are the rest of its claim.
# All hold: reproduced. The first one holds, and another one does not: partly. The first one does not hold: it does not pay here.

papers_folder=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
script=$(realpath "$0")
paper=$(basename "$(dirname "$script")")
output='' tiny=false seed=1 target=''
variants=() checks=() first_reason=''
# An address of an enclosing shell's cluster must not be taken for one of ours.
unset PS_CLUSTER

# Print the comment at the head of the script, from the citation on.
print_header() {
	awk 'NR > 2 && !/^#/ { exit } NR > 2 { sub(/^# ?/, ""); print }' "$script"
}

# Print one paragraph of the header on one line: Citation, Published or Measured.
print_paragraph() {
	print_header | awk -v wanted="$1" 'BEGIN { part = "Citation" }
		match($0, /^(Published|Measured): /) { part = substr($0, 1, RLENGTH - 2); $0 = substr($0, RLENGTH + 1) }
		part == wanted && NF { text = text (text == "" ? "" : " ") $0 }
		END { print text }'
}

print_help() {
	cat <<-END
	usage: contrib/papers/$paper/run [-o FOLDER] [--seed N] [--tiny]

	$(print_header)

	-o, --output FOLDER  write plot.svg, table.txt and verdict.json to this folder
	--seed N             the seed of everything random (1)
	--tiny               train for a few steps only, to try the script; the verdict means nothing then
	-h, --help           print this text

	The exit code is 0 when there is a verdict, whatever it is, 1 when a run has failed, and 2 after a wrong argument.
	END
}

# fail MESSAGE: end the script; a run has failed.
fail() {
	echo "$paper: $1" >&2
	exit 1
}

refuse_usage() {
	echo "$paper: $1; --help explains the arguments" >&2
	exit 2
}

# End the clusters that are still running, and remove the working directory.
clean_up() {
	local run
	for run in "$work"/*.run "$work"/*.sweep/*.run; do
		[ ! -e "$run/lock" ] || ps-ctl -C "$run" stop --discard --timeout 5s >/dev/null 2>&1 || true
	done
	cd / && rm -rf "$work"
}

begin_paper() {
	local program
	while [ $# -gt 0 ]; do
		case $1 in
		-h | --help) print_help; exit 0 ;;
		-o | --output) [ $# -ge 2 ] || refuse_usage "$1 needs a folder"; output=$2; shift 2 ;;
		--seed)
			[[ ${2:-} =~ ^[0-9]{1,9}$ ]] || refuse_usage "--seed needs a whole number"
			seed=$2; shift 2 ;;
		--tiny) tiny=true; shift ;;
		*) refuse_usage "there is no argument $1" ;;
		esac
	done
	for program in ps-ctl jq; do
		command -v "$program" >/dev/null || fail "$program is not in PATH"
	done
	if [ -n "$output" ]; then
		mkdir -p "$output" || fail "the folder $output cannot be made"
		output=$(realpath "$output")
	fi
	work=$(mktemp -d "${TMPDIR:-/tmp}/pskit-paper.XXXXXX")
	trap clean_up EXIT
	trap 'exit 130' INT TERM
	cd "$work" || exit 1
	mkdir cache
}

# size FULL TINY: the number for a run of the usual size, or of --tiny.
size() {
	if $tiny; then echo "$2"; else echo "$1"; fi
}

# Set train and test to the data paths of Fashion-MNIST, which is in PAPERS_FASHION or comes from Debian's package.
use_fashion() {
	local folder=${PAPERS_FASHION:-/usr/share/datasets/fashion-mnist}
	train=$folder/train-images-idx3-ubyte.gz test=$folder/t10k-images-idx3-ubyte.gz
	[ -r "$train" ] || fail "$train is missing: install Debian's dataset-fashion-mnist, or set PAPERS_FASHION"
}

# Set train and test to the data paths of clicks: those of PAPERS_CLICKS (TRAIN,TEST), or generated ones, $1 and $2 of them.
use_clicks() {
	if [ -n "${PAPERS_CLICKS:-}" ]; then
		train=${PAPERS_CLICKS%,*} test=${PAPERS_CLICKS##*,}
		return
	fi
	train=$work/train.ffm test=$work/test.ffm
	"$papers_folder/clicks" "$(($1 + $2))" 1 >clicks.ffm
	head -n "$1" clicks.ffm >"$train"
	tail -n "$2" clicks.ffm >"$test"
}

# Write standard input as the cluster file of all variants; cache is the folder for parsed data.
# The deadline is long, because a loaded machine may starve a worker for a minute.
write_cluster() {
	jq --argjson seed "$seed" --arg cache "$work/cache" '.deadline = "10m" | .job.seed = $seed | .job.cache = $cache' >base.json ||
		fail "the cluster file is not JSON"
}

# Run the cluster file under this name with these settings.
run_variant() {
	local name=$1 setting arguments=()
	shift
	for setting in "$@"; do arguments+=(--set "$setting"); done
	echo "$paper: $name" >&2
	ps-ctl run base.json --json --set name="$name" "${arguments[@]}" >"$name.out" 2>"$name.log" || {
		tail -n 5 "$name.log" >&2
		fail "the run $name has failed"
	}
	variants+=("$name")
}

# result NAME FIELD: a figure of the result of a variant, as .eval.accuracy.
result() {
	jq -r "$2" "$1.run/result.json"
}

# compare_variants steps|seconds|bytes|examples METRIC [TARGET]: draw the plot of all variants, and note what they took
# until the target: TARGET, or the worst of their best values. It sets target.
compare_variants() {
	local across=$1 metric=$2 arguments=()
	[ $# -lt 3 ] || arguments=(--target "$3")
	[ -z "$output" ] || arguments+=(-o "$output/plot.svg")
	ps-ctl compare "${variants[@]}" --across "$across" --metric "$metric" --json "${arguments[@]}" >targets 2>compare.log || {
		cat compare.log >&2
		fail "ps-ctl compare has failed"
	}
	target=$(jq -s 'map(select(.kind == "target"))[0].target * 10000 | round / 10000' targets)
}

# reached NAME steps|seconds|bytes|examples|best: what a variant took until the target; never, when it has not reached it.
reached() {
	jq -r --arg run "$1.run" --arg what "$2" 'select(.kind == "target" and .run == $run) | .[$what] // "never"' targets
}

# share NAME FIELD BASE: a figure of a variant divided by that of another one.
share() {
	calculate "$(result "$1" "$2") / $(result "$3" "$2")"
}

# lost NAME BASE: how much smaller the best value of a variant is than that of another one, as after compare_variants.
lost() {
	calculate "$(reached "$2" best) - $(reached "$1" best)"
}

# Add a row for each variant: megabytes pushed, their share of those of the first variant, the last and the best accuracy.
add_byte_rows() {
	local name
	add_row "$1" "MB pushed" "of all" accuracy "best accuracy"
	for name in "${variants[@]}"; do
		add_row "$name" "$(format %.1f "$(calculate "$(result "$name" .pushed_bytes) / 1e6")")" \
			"$(format %.3f "$(share "$name" .pushed_bytes "${variants[0]}")")" "$(format %.4f "$(result "$name" .eval.accuracy)")" \
			"$(format %.4f "$(reached "$name" best)")"
	done
}

# calculate EXPRESSION: its value by awk; never, when a word of it is never.
calculate() {
	case " $* " in
	*never* | *null*) echo never ;;
	*) awk "BEGIN { print $* }" ;;
	esac
}

# format PATTERN VALUE: the value as printf(1) of awk prints it, or never.
format() {
	case $2 in
	never | null | -) echo "$2" ;;
	*) awk -v pattern="$1" -v value="$2" 'BEGIN { printf pattern "\n", value }' ;;
	esac
}

add_row() {
	local IFS=$'\t'
	echo "$*" >>rows
}

# Print the rows in columns: the first column to the left, the others to the right.
print_table() {
	awk -F'\t' '{ for (i = 1; i <= NF; i++) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) }
			if (NF > columns) columns = NF }
		END { for (r = 1; r <= NR; r++) {
			line = sprintf("  %-" width[1] "s", cell[r, 1])
			for (i = 2; i <= columns; i++) line = line sprintf("  %" width[i] "s", cell[r, i])
			sub(/ +$/, "", line)
			print line } }' rows
}

# expect TEXT VALUE RELATION BOUND REASON: check that VALUE RELATION BOUND holds, where RELATION is <= or >=.
expect() {
	local holds=false
	case $2 in
	never | null) ;;
	*) [ "$(awk "BEGIN { print ($2 $3 $4) }")" != 1 ] || holds=true ;;
	esac
	$holds || first_reason=${first_reason:-$5}
	checks+=("$(jq -cn --arg text "$1" --arg value "$(format %.4g "$2")" --arg relation "$3" --arg bound "$(format %.4g "$4")" \
		--argjson holds $holds '{ text: $text, value: $value, relation: $relation, bound: $bound, holds: $holds }')")
}

# Print the table, the checks and the verdict, and write them to the folder of -o.
end_paper() {
	local verdict
	verdict=$(printf '%s\n' "${checks[@]}" | jq -cs --arg paper "$paper" --arg citation "$(print_paragraph Citation)" \
		--arg published "$(print_paragraph Published)" --arg measured "$(print_paragraph Measured)" --arg reason "$first_reason" \
		--argjson tiny $tiny '
		{ paper: $paper, citation: $citation, published: $published, measured: $measured, tiny: $tiny, checks: .,
		  verdict: (if all(.holds) then "reproduced" elif .[0].holds then "partly" else "does not pay here" end),
		  why: (if all(.holds) then .[0] | "\(.text): \(.value)" else $reason end) }')
	print_table >table.txt
	print_paragraph Citation
	echo "Published: $(print_paragraph Published)"
	echo
	cat table.txt
	echo
	jq -r '.checks[] | "  \(if .holds then "holds" else "fails" end)  \(.text): \(.value) (\(.relation) \(.bound))"' <<<"$verdict"
	echo
	jq -r '(if .tiny then "These runs were tiny, so this verdict means nothing.\n" else "" end) + "verdict: \(.verdict): \(.why)"' <<<"$verdict"
	if [ -n "$output" ]; then
		cp table.txt "$output/table.txt"
		echo "$verdict" >"$output/verdict.json"
	fi
}
