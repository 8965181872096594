# For the examples here: a working directory that goes with them, data, and a cluster file lin.json.
work=$(mktemp -d "${TMPDIR:-/tmp}/pskit-example.XXXXXX")
finish() {
	for run in "$work"/*.run; do
		[ ! -e "$run/lock" ] || ps-ctl -C "$run" stop --timeout 5s >/dev/null 2>&1 || true
	done
	cd / && rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
cd "$work"

# y = 2 a - b + 0.5 and a little noise.
awk 'BEGIN { srand(7); print "a,b,y"
	for (i = 0; i < 4000; i++) { a = 2 * rand() - 1; b = 2 * rand() - 1
		printf "%.5f,%.5f,%.5f\n", a, b, 2 * a - b + 0.5 + 0.1 * (rand() - 0.5) } }' >train.csv
cat >lin.json <<END
{ "workers": 2, "job": { "model": "linear", "optimizer": "sgd", "data": "train.csv?label=y", "eval": "train.csv?label=y",
  "epochs": 20, "batch": 16, "lr": 0.05, "eval_every": 100 } }
END
