/* SPDX-License-Identifier: ISC */
#include "doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "auth/keyring.h"
#include "ckpt/dirs.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/num.h"
#include "ctl.h"
#include "rundir/rundir.h"

/* A disk with less space than this counts as full. */
#define ROOM_MIN (1u << 20)

/* ---- keys ---- */

static void check_dir_is_private(struct doctor *d, const char *path)
{
	struct stat st;

	if (stat(path, &st) || !(st.st_mode & 077))
		return;
	doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "keys", path,
	    "run the chmod command of the message; other users could read the cluster's secrets: "
	    "start a new run for new secrets",
	    "other users can enter %s (mode %04o): chmod 700 %s", path,
	    (unsigned)st.st_mode & 07777, path);
}

/* True when a key with this file name may have this role: "worker-1.key" must be a worker's. */
static bool role_fits_name(const char *name, enum role role)
{
	const char *kind = role_name(role);
	size_t n = strlen(kind);

	return strcmp(name, "coordinator") == 0
	    ? role == ROLE_SERVER
	    : (strncmp(name, "server-", 7) != 0 && strncmp(name, "worker-", 7) != 0) ||
	        strncmp(name, kind, n) == 0;
}

static void say_not_admitted(struct doctor *d, const char *name, const struct key_pair *key)
{
	char text[48], remedy[900];

	key_to_text(key->pk, text);
	/* The names of keys tell their roles. For any other name the user has to fill in the role. */
	snprintf(remedy, sizeof remedy,
	    "echo '%s x25519:%s %s' >> %s/keys/authorized_keys, then send the coordinator SIGHUP",
	    strncmp(name, "worker-", 7) == 0                                           ? "worker"
	        : strcmp(name, "admin") == 0                                           ? "admin"
	        : strncmp(name, "server-", 7) == 0 || strcmp(name, "coordinator") == 0 ? "server"
	                                                                               : "ROLE",
	    text, name, d->dir);
	doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "keys", name, remedy,
	    "%s's key (%s/keys/%s.key) is not in authorized_keys", name, d->dir, name);
}

/* Checks one secret key: its file, whether authorized_keys admits it, and with which role. */
static void check_secret_key(struct doctor *d, const struct keyring *ring, const char *name)
{
	char *path = mem_printf("%s/keys/%s.key", d->dir, name);
	const struct keyring_entry *entry;
	struct key_pair key;
	struct err e = { 0 };

	if (key_pair_load(path, &key, &e)) {
		doctor_add_message(d, DOCTOR_FAIL, DOCTOR_CAUSE, name, e.cause, e.msg);
	} else {
		entry = keyring_find(ring, key.pk, 0);
		if (!entry)
			say_not_admitted(d, name, &key);
		else if (!keyring_find(ring, key.pk, clock_wall() / NSEC_PER_SEC))
			doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "keys", name,
			    "put a later expires= into keys/authorized_keys and send the coordinator SIGHUP",
			    "%s's key has expired", name);
		else if (!role_fits_name(name, entry->role))
			doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "keys", name,
			    "correct its line in keys/authorized_keys and send the coordinator SIGHUP",
			    "%s's key has the role %s in authorized_keys", name,
			    role_name(entry->role));
		key_pair_wipe(&key);
	}
	free(path);
}

/* Checks every secret key in a directory. Returns their number. */
static unsigned check_secret_keys(struct doctor *d, const struct keyring *ring, const char *keys)
{
	DIR *dir = opendir(keys);
	struct dirent *f;
	unsigned n = 0;

	while (dir && (f = readdir(dir))) {
		char *name = path_stem(f->d_name);
		size_t len = strlen(name);

		if (strcmp(f->d_name + len, ".key") == 0) {
			check_secret_key(d, ring, name);
			n++;
		}
		free(name);
	}
	if (dir)
		closedir(dir);
	return n;
}

/* The pre-shared key is read only to see whether it can be, and is wiped. A finding names the file
 * and the command that mends it. */
void doctor_keys(struct doctor *d)
{
	char *keys = rundir_path(d->dir, "keys"), *list = rundir_path(keys, "authorized_keys"),
	     *secret = rundir_path(keys, "psk");
	struct keyring *ring = NULL;
	struct err e = { 0 };
	uint8_t psk[KEY_BYTES];
	unsigned n = 0;

	check_dir_is_private(d, d->dir);
	check_dir_is_private(d, keys);
	if (psk_load(secret, psk, &e))
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "keys", "psk",
		    "run the chmod command of the message, or start a new run, which makes new secrets",
		    "%s", e.msg);
	if (keyring_load(list, &ring, &e))
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "keys", "authorized_keys",
		    "correct that line, then send the coordinator SIGHUP", "%s", e.msg);
	else
		n = check_secret_keys(d, ring, keys);
	doctor_add_ok(d, "keys",
	    "%u key%s, all in authorized_keys and readable only by their owner", n, NUM_S(n));
	keyring_free(ring);
	explicit_bzero(psk, sizeof psk);
	free(keys);
	free(list);
	free(secret);
}

/* ---- the disk ---- */

bool doctor_has_checkpoint(const struct doctor *d)
{
	char *path = d->dir ? rundir_path(d->dir, "checkpoints") : NULL;
	struct ckpt_entry *list = NULL;
	size_t n = 0;

	if (path && ckpt_list(path, false, &list, &n, NULL) == ERR_OK)
		ckpt_list_free(list, n);
	free(path);
	return n > 0;
}

/* Estimates the bytes of the next checkpoint: the size of the last one, else the memory that the
 * servers report. 0 when neither is known. */
static uint64_t estimate_checkpoint_size(const struct doctor *d, const char *dir)
{
	char *path = rundir_path(dir, "checkpoints");
	struct ckpt_entry *list = NULL;
	json_t *answer = NULL, *s;
	uint64_t size = 0;
	size_t n = 0, i;

	if (ckpt_list(path, false, &list, &n, NULL) == ERR_OK && n) {
		size = list[n - 1].bytes;
		ckpt_list_free(list, n);
	} else if (d->client &&
	    http_call(d->client, "GET", "/v1/servers", NULL, d->patience, NULL, &answer, NULL) ==
	        ERR_OK) {
		json_array_foreach(json_object_get(answer, "servers"), i, s)
			size += (uint64_t)(json_int(s, "parameter_bytes", 0) +
			    json_int(s, "state_bytes", 0));
	}
	json_decref(answer);
	free(path);
	return size;
}

static const char *remedy_of_write_error(int error)
{
	return error == ENOSPC || error == EDQUOT
	    ? "free some space there, or choose another directory: df -h shows the free space"
	    : error == EACCES || error == EPERM
	    ? "choose another directory, or let this user write there: ls -ld shows its mode"
	    : "choose another directory";
}

/* Reports a directory in which nothing can be written. Tries it with a file that has no name. */
static bool check_dir_is_writable(struct doctor *d, const char *dir)
{
	int fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	bool full, other;

	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
		return true;
	other = fd < 0;
	full = !other && write(fd, "", 1) != 1;
	if (other || full)
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "disk", dir,
		    remedy_of_write_error(errno), "cannot write to %s: %s", dir, strerror(errno));
	if (fd >= 0)
		close(fd);
	return !other && !full;
}

/* Fails below the size of one checkpoint, warns below three. Sizes are bytes; f_bavail counts what
 * unprivileged users may take. */
void doctor_disk(struct doctor *d, const char *dir)
{
	uint64_t need = estimate_checkpoint_size(d, dir), room;
	char left[16], wants[16];
	struct statvfs fs;

	if (statvfs(dir, &fs)) {
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "disk", dir, "",
		    "cannot examine %s: %s", dir, strerror(errno));
		return;
	}
	room = (uint64_t)fs.f_bavail * fs.f_frsize;
	num_human((double)room, left);
	num_human((double)need, wants);
	if (!check_dir_is_writable(d, dir))
		return;
	if (room < ROOM_MIN || room < need)
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "disk", dir,
		    "free some space there, or lower keep_last: df -h shows the free space",
		    "%s has %sB left, and a checkpoint takes %sB", dir, left, wants);
	else if (room / 3 < need)
		doctor_add_finding(d, DOCTOR_WARN, DOCTOR_PLAIN, "disk", dir,
		    "free some space there, or lower keep_last",
		    "%s has %sB left, which is less than three checkpoints of %sB", dir, left,
		    wants);
	doctor_add_ok(d, "disk", "%s has %sB left%s%s%s", dir, left,
	    need ? "; a checkpoint takes " : "", need ? wants : "", need ? "B" : "");
}
