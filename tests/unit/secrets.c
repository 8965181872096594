/* SPDX-License-Identifier: ISC */
/* The cluster's secret while it is renewed, and changes of authorized_keys. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/keyfile.h"
#include "auth/secrets.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "tap.h"

static char dir[] = "/tmp/pskit-secrets.XXXXXX";

static int64_t wall(void)
{
	return clock_wall() / NSEC_PER_SEC;
}

static bool is_private(const char *name)
{
	char *path = path_join(dir, name);
	struct stat st;
	bool good = stat(path, &st) == 0 && (st.st_mode & 07777) == 0600;

	free(path);
	return good;
}

static void test_rotation(void)
{
	struct key_pair key;
	struct secret_pair first, second;
	struct secret got[2], offered;
	struct secrets *s;
	uint8_t server[KEY_BYTES] = { 5 }, psk[KEY_BYTES], number[HS_CLUSTER_BYTES];
	char *path = path_join(dir, "psk");

	key_pair_generate(&key);
	ok(!psk_create(path, psk, NULL) && !secrets_read_dir(dir, &first, NULL) && !first.until &&
	        memcmp(first.now, psk, 32) == 0,
	    "a secret without one before it");
	s = secrets_new(&key, &first, mem_strdup(path), mem_strdup(dir), secrets_read_dir);
	secrets_cluster(psk, number);
	ok(secrets_accepted(s, got) == 1 && memcmp(got[0].cluster, number, sizeof number) == 0,
	    "is the only one that is accepted");
	ok(!secrets_look(s, 0), "nothing has changed");
	ok(!secrets_rotate_dir(dir, wall() + 100, NULL) && is_private("psk") &&
	        is_private("psk.old"),
	    "renewed, with mode 0600");
	secrets_offered(s, server, &offered);
	secrets_both(s, &second);
	ok(memcmp(offered.id.psk, psk, 32) != 0 && memcmp(offered.id.psk, second.now, 32) == 0 &&
	        memcmp(second.before, psk, 32) == 0,
	    "who dials finds it by itself");
	ok(secrets_accepted(s, got) == 2 && memcmp(got[1].cluster, number, sizeof number) == 0,
	    "both are accepted for the grace");
	secrets_refused(s, server);
	secrets_offered(s, server, &offered);
	ok(memcmp(offered.id.psk, psk, 32) == 0,
	    "a server that refuses the new one is offered the old one");
	server[1] = 1;
	secrets_offered(s, server, &offered);
	ok(memcmp(offered.id.psk, second.now, 32) == 0, "others are not");
	ok(!secrets_rotate_dir(dir, wall(), NULL) && secrets_look(s, 0) &&
	        secrets_accepted(s, got) == 1,
	    "without a grace one is left");
	secrets_both(s, &second);
	secrets_tidy_dir(dir, &second, wall());
	ok(!is_private("psk.old") && !secrets_read_dir(dir, &second, NULL) && !second.until,
	    "and the other is forgotten");
	file_replace(path, "pskit-psk1 rubbish\n", 19, 0600, NULL);
	secrets_both(s, &first);
	ok(!secrets_look(s, 0), "a file that is none changes nothing");
	secrets_free(s);
	free(path);
}

static void test_keyfile(void)
{
	static const char text[] =
	    "# ours\nworker x25519:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE= w1\n\n"
	    "  # w2 x25519 w2\nadmin\tx25519:AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=  w2 expires=2030-01-01\n";
	char *path = path_join(dir, "authorized_keys");
	struct keyring_entry entry = { .role = ROLE_WORKER, .name = "w3" },
	                     two[2] = { { .role = ROLE_WORKER, .name = "w4" } }, was;
	struct buf got = BUF_INIT;

	file_replace(path, text, sizeof text - 1, 0600, NULL);
	memset(entry.pk, 3, sizeof entry.pk);
	ok(!keyfile_add(path, &entry, 1, NULL) && keyfile_add(path, &entry, 1, NULL) == ERR_EXISTS,
	    "a key is admitted once");
	memset(two[0].pk, 4, sizeof two[0].pk);
	two[1] = entry;
	ok(keyfile_add(path, two, 2, NULL) == ERR_EXISTS &&
	        keyfile_remove(path, "w4", NULL, NULL) == ERR_NOTFOUND,
	    "of several all, or none");
	snprintf(two[1].name, sizeof two[1].name, "w5");
	memset(two[1].pk, 5, sizeof two[1].pk);
	ok(!keyfile_add(path, two, 2, NULL) && !keyfile_remove(path, "w5", NULL, NULL) &&
	        !keyfile_remove(path, "w4", NULL, NULL),
	    "here all");
	ok(keyfile_remove(path, "w9", NULL, NULL) == ERR_NOTFOUND, "what is not there cannot go");
	ok(!keyfile_remove(path, "w2", &was, NULL) && was.role == ROLE_ADMIN &&
	        was.expires == 1893456000,
	    "one goes, and is told");
	ok(!keyfile_remove(path, "w3", NULL, NULL) && !file_read(path, 4096, &got, NULL) &&
	        got.len ==
	            strlen(text) -
	                strlen(
	                    "admin\tx25519:AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=  w2 expires=2030-01-01\n") &&
	        memcmp(got.data, text, got.len) == 0,
	    "all else stays as it was, byte by byte");
	ok(is_private("authorized_keys"), "with mode 0600");
	buf_release(&got);
	free(path);
}

int main(void)
{
	key_init(NULL);
	if (!mkdtemp(dir))
		return 1;
	test_rotation();
	test_keyfile();
	file_remove_tree(dir, NULL);
	return tap_done();
}
