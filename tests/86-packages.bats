#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# What is installed: the archive of the sources, Debian packages, and a container image.  The same commit gives the same
# bytes, and the tour of the README works in a fresh Debian and in a container.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training

setup() {
	setup_dir
	CHECKOUT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
	git -C "$CHECKOUT" rev-parse HEAD >/dev/null 2>&1 || skip "this is not a checkout of git"
	# A small repository whose commit has a tag, or none.
	export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.example GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.example
}
teardown() {
	[ -z "${CONTAINERS_STORAGE_CONF:-}" ] || timeout 60 podman rm --all --force --time 0 >/dev/null 2>&1 || true
	teardown_dir
}

need() {
	local program
	for program; do
		command -v "$program" >/dev/null || skip "$program is not installed"
	done
}

@test "make dist: the same bytes each time, named after the tag or the commit" {
	(umask 022 && "$CHECKOUT/contrib/dist" "$T/a" >name.a)
	(umask 077 && TZ=Asia/Tokyo LC_ALL=C "$CHECKOUT/contrib/dist" "$T/b" >name.b)
	cmp a/*.tar.gz b/*.tar.gz
	version=$("$CHECKOUT/contrib/version")
	[ "$(cat name.a)" = "$T/a/pskit-$version.tar.gz" ]
	tar -tzf a/*.tar.gz | grep -qx "pskit-$version/Makefile"
	# Permissions do not depend on who packs.
	run ! grep -q '^-rw-rw' <(tar -tvzf b/*.tar.gz)
	git init -q small
	mkdir -p small/contrib small/lib/base/core
	cp "$CHECKOUT/contrib/version" small/contrib/
	echo '#define PSKIT_VERSION "7.1.0"' >small/lib/base/core/version.h
	git -C small add . && GIT_COMMITTER_DATE='2026-11-30T23:30:00+0000' git -C small commit -qm one
	hash=$(git -C small rev-parse HEAD | cut -c 1-8)
	[ "$(TZ=Asia/Tokyo small/contrib/version)" = "7.1.0~git20261130.$hash" ]
	git -C small tag v7.1.0
	[ "$(small/contrib/version)" = 7.1.0 ]
	git -C small tag -d v7.1.0 >/dev/null && git -C small tag v7.0.0
	run -1 small/contrib/version
	[[ $output == *"the tag is v7.0.0, but lib/base/core/version.h names 7.1.0"* ]]
}

@test "the list of symbols suits the version of the package, also of a commit without a tag" {
	need dpkg-gensymbols
	mkdir -p tree/usr/lib debian
	cp "$BIN/libpskit.so.0" tree/usr/lib/
	cp "$CHECKOUT/contrib/debian/control" debian/
	dpkg-gensymbols -c4 -plibpskit0 -Ptree -Osymbols -I"$CHECKOUT/contrib/debian/libpskit0.symbols" \
		-v"$("$CHECKOUT/contrib/version" | sed 's/~git.*//')~git20000101.00000000-1" >differences 2>&1 || { cat differences; false; }
	run ! grep '^[-+]' differences
	[ "$(grep -c ' ps_' symbols)" -eq "$(wc -l <"$CHECKOUT/tests/lib/symbols")" ]
}

# bats test_tags=slow
@test "make deb: lintian finds nothing, and a build elsewhere, at another time, gives the same bytes" {
	need dpkg-buildpackage dh lintian
	(umask 022 && "$CHECKOUT/contrib/debian/build" "$BATS_FILE_TMPDIR/a" >built.a 2>&1) || { cat built.a; false; }
	run ! grep -E '^[EW]: ' built.a
	(umask 077 && TZ=Asia/Tokyo LC_ALL=C "$CHECKOUT/contrib/debian/build" "$BATS_FILE_TMPDIR/elsewhere/longer" >built.b 2>&1) ||
		{ cat built.b; false; }
	for file in "$BATS_FILE_TMPDIR"/a/*.deb "$BATS_FILE_TMPDIR"/a/*.tar.* "$BATS_FILE_TMPDIR"/a/*.dsc; do
		cmp "$file" "$BATS_FILE_TMPDIR/elsewhere/longer/${file##*/}"
	done
	[ "$(ls "$BATS_FILE_TMPDIR"/a/*.deb | grep -cv dbgsym)" -eq 4 ]
	figure "$(cd "$BATS_FILE_TMPDIR/a" && stat -c '%n %s' ./*.deb | grep -v dbgsym | xargs)"
}

# bats test_tags=slow
@test "the packages in a fresh Debian: the tour of the README" {
	need mmdebstrap unshare ip
	[ "$(id -u)" = 0 ] || skip "only root may make a Debian"
	unshare --net --mount --pid --fork true 2>/dev/null || skip "no namespaces here"
	ls "$BATS_FILE_TMPDIR"/a/*.deb >/dev/null 2>&1 || skip "the packages have not been built"
	curl -fsI --max-time 20 http://deb.debian.org/debian/dists/bookworm/Release >/dev/null || skip "no Debian mirror can be reached"
	"$CHECKOUT/contrib/debian/tour" "$BATS_FILE_TMPDIR/a" >tour 2>&1 || { tail -n 60 tour; false; }
	grep -q '^pskit:' tour
	grep -q 'all commands of the tour succeeded' tour
}

# Podman's settings for a machine with little: its images are in $T.
use_podman() {
	need buildah podman busybox runc
	[ "$(id -u)" = 0 ] || skip "only root may make an image"
	cat >containers.conf <<-END
	[containers]
	default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
	[engine]
	runtime = "runc"
	cgroup_manager = "cgroupfs"
	events_logger = "file"
	END
	cat >storage.conf <<-END
	[storage]
	driver = "vfs"
	graphroot = "$T/images"
	runroot = "$T/containers"
	END
	export CONTAINERS_CONF=$T/containers.conf CONTAINERS_STORAGE_CONF=$T/storage.conf
}

# contained OPTION... IMAGE COMMAND...
contained() { timeout 120 podman run --rm --network none --read-only --cap-drop all --security-opt no-new-privileges "$@"; }

# bats test_tags=slow
@test "make image: at most 100 MB, the same each time; a job without privileges, and signals to process 1" {
	use_podman
	for n in 1 2; do
		"$CHECKOUT/contrib/image/build" "$BIN" localhost/pskit-$n >made 2>made.err || { cat made made.err; false; }
		podman image inspect localhost/pskit-$n --format '{{.Digest}} {{.Size}}' >image.$n
	done
	cmp image.1 image.2
	[ "$(cut -d ' ' -f 2 image.1)" -le 100000000 ]
	podman run --rm --network none localhost/pskit-1 true || skip "podman cannot run anything here: $(podman run --rm --network none \
		localhost/pskit-1 true 2>&1 | tail -n 1)"
	[ "$(contained localhost/pskit-1 id -u)" = 10001 ]
	mkdir data
	write_csv data/train.csv
	chmod -R go+rX "$T"
	contained --memory 256m --cpus 0.5 -v "$T/data:/data:ro" -v jobs:/var/lib/pskit localhost/pskit-1 sh -c '
		ps-ctl init --data /data/train.csv --set label=y job && ps-ctl run job/cluster --json' >out 2>err || { cat out err; false; }
	[ "$(tail -n 1 out | jq -r .state)" = done ]
	# A server may keep rows on its disk.
	contained -v jobs:/var/lib/pskit -v "$T/data:/data:ro" localhost/pskit-1 \
		ps-ctl run job/cluster --set name=disk --set spill_dir=rows --resume none --json >disk.out 2>disk.err || { cat disk.out disk.err; false; }
	# The next container has the run of the one before, and the program's exit code is its own.
	contained -v jobs:/var/lib/pskit -v "$T/data:/data:ro" localhost/pskit-1 \
		ps-work eval -C job/cluster.run '/data/train.csv?label=y' | grep -q loss
	run -2 contained localhost/pskit-1 ps-stat --nonsense
	contained -v jobs:/var/lib/pskit -v "$T/data:/data:ro" --name endless localhost/pskit-1 \
		ps-ctl run job/cluster --set epochs=1000000 --resume none >endless.out 2>&1 3>&- &
	pid=$!
	wait_for 30 eval 'podman exec endless ps-ctl -C job/cluster.run status 2>/dev/null | grep -q running'
	podman stop -t 20 endless >/dev/null
	status=0
	wait "$pid" || status=$?
	[ "$status" -eq 75 ] || { cat endless.out; false; }
	contained -v jobs:/var/lib/pskit localhost/pskit-1 ps-ctl -C job/cluster.run checkpoint ls --json >listed
	grep -q step listed || { cat listed endless.out; false; }
	figure "$(cat image.1)"
}
