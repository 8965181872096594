/* SPDX-License-Identifier: ISC */
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/authfile.h"
#include "auth/keyring.h"
#include "auth/keys.h"
#include "core/file.h"
#include "tap.h"

static char dir[64];
static char paths[4][128];

/* A path in the test's directory; valid until three more are asked for. */
static const char *in(const char *name)
{
	static unsigned next;
	char *p = paths[next++ % 4];

	snprintf(p, sizeof(paths[0]), "%s/%s", dir, name);
	return p;
}

static void put(const char *path, const char *text, size_t n, mode_t mode)
{
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || write(fd, text, n) != (ssize_t)n || fchmod(fd, mode) != 0)
		abort();
	close(fd);
}

static void base64(void)
{
	struct key_pair k;
	char text[48], bad[64];
	uint8_t back[32], zero[32] = { 0 };
	int twice = 0, beyond = 0;

	key_pair_generate(&k);
	key_to_text(k.pk, text);
	ok(strlen(text) == KEY_TEXT_LEN && key_from_text(text, back) && memcmp(back, k.pk, 32) == 0,
	    "a key as text and back");
	key_to_text(zero, text);
	ok(strcmp(text, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=") == 0, "zero as text");
	text[42] = 'B';
	ok(!key_from_text(text, back), "stray bits at the end are refused");
	text[42] = 'A';
	text[43] = 'A';
	ok(!key_from_text(text, back), "33 bytes are refused");
	text[43] = '\0';
	ok(!key_from_text(text, back), "a missing pad is refused");
	ok(!key_from_text("", back), "nothing is refused");
	key_to_text(k.pk, text);
	snprintf(bad, sizeof(bad), "%s ", text);
	ok(!key_from_text(bad, back), "a blank after it is refused");
	text[7] = '\n';
	ok(!key_from_text(text, back), "a newline inside is refused");
	text[7] = '-';
	ok(!key_from_text(text, back), "the URL alphabet is refused");

	/* Every byte in every place: only the one text of a key is read as it. */
	key_to_text(k.pk, text);
	for (int i = 0; i < KEY_TEXT_LEN; i++) {
		char right = text[i];

		for (int c = 0; c < 256; c++) {
			text[i] = (char)c;
			twice += (char)c != right && key_from_text(text, back) &&
			    memcmp(back, k.pk, 32) == 0;
			beyond += c >= 0x80 && key_from_text(text, back);
		}
		text[i] = right;
	}
	ok(twice == 0, "no other text is read as the same key");
	ok(beyond == 0, "no byte above 0x7f is a letter");
}

static void create_and_load(void)
{
	struct key_pair k, back;
	uint8_t psk[32], psk2[32];
	struct stat st;
	struct err e;
	const char *path = in("w7.key");

	umask(0);
	ok(key_pair_create(path, &k, &e) == ERR_OK, "create");
	ok(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600, "mode 0600 under any umask");
	ok(key_pair_load(path, &back, &e) == ERR_OK && memcmp(&k, &back, sizeof(k)) == 0, "load");
	ok(key_pair_create(path, &back, &e) == ERR_EXISTS, "%s", e.msg);
	ok(key_pair_load(path, &back, NULL) == ERR_OK && memcmp(&k, &back, sizeof(k)) == 0,
	    "the old key is still there");
	ok(psk_load(path, psk, &e) == ERR_AUTH, "a key is no psk: %s", e.msg);
	ok(psk_create(in("psk"), psk, &e) == ERR_OK && psk_load(in("psk"), psk2, &e) == ERR_OK &&
	        memcmp(psk, psk2, 32) == 0,
	    "psk");
	ok(key_pair_load(in("psk"), &back, &e) == ERR_AUTH, "a psk is no key");
	ok(key_pair_create(in("no/such.key"), &back, &e) == ERR_IO, "%s", e.msg);
	ok(key_pair_load(in("none.key"), &back, &e) == ERR_NOTFOUND, "%s", e.msg);
	umask(0777);
	ok(key_pair_create(in("masked.key"), &k, &e) == ERR_OK &&
	        key_pair_load(in("masked.key"), &back, &e) == ERR_OK &&
	        stat(in("masked.key"), &st) == 0 && (st.st_mode & 07777) == 0600,
	    "under umask 0777");
	umask(022);
}

static void refused(const char *name, const char *part)
{
	struct key_pair k, before;
	struct err e = { .msg = "" };

	memset(&k, 7, sizeof(k));
	before = k;
	ok(key_pair_load(in(name), &k, &e) == ERR_AUTH && strstr(e.msg, part) != NULL &&
	        memcmp(&k, &before, sizeof(k)) == 0,
	    "%s: %s", name, e.msg);
}

static void bad_files(void)
{
	static const mode_t modes[] = { 0644, 0640, 0604, 0620, 0602, 0601, 0610, 0660, 0777 };
	struct key_pair k;
	char text[128], b64[48], want[160];
	size_t n;

	key_pair_generate(&k);
	key_to_text(k.sk, b64);
	n = (size_t)snprintf(text, sizeof(text), "pskit-secret-key1 %s\n", b64);
	put(in("ok"), text, n, 0400);
	ok(key_pair_load(in("ok"), &k, NULL) == ERR_OK, "0400 is fine");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		put(in("open"), text, n, modes[i]);
		snprintf(want, sizeof(want), "run: chmod 600 %s", in("open"));
		refused("open", want);
	}
	if (symlink(in("ok"), in("link")) != 0 || mkfifo(in("fifo"), 0600) != 0 ||
	    mkdir(in("dir"), 0700) != 0)
		abort();
	refused("link", "symbolic link");
	refused("fifo", "not a regular file");
	refused("dir", "not a regular file");
	put(in("empty"), "", 0, 0600);
	refused("empty", "empty");
	text[n - 1] = '\r';
	text[n] = '\n';
	put(in("crlf"), text, n + 1, 0600);
	refused("crlf", "carriage return");
	put(in("noline"), text, n - 1, 0600);
	refused("noline", "must be one line");
	text[n - 1] = '\n';
	put(in("two"), text, n + 1, 0600);
	refused("two", "must be one line");
	text[20] = '!';
	put(in("junk"), text, n, 0600);
	refused("junk", "must be one line");
	text[20] = '\0';
	put(in("nul"), text, n, 0600);
	refused("nul", "must be one line");
	memset(text, 'x', sizeof(text));
	put(in("long"), text, sizeof(text), 0600);
	refused("long", "must be one line");
	if (truncate(in("long"), 1 << 20) != 0)
		abort();
	refused("long", "1048576 bytes");
	if (geteuid() == 0) {
		if (chown(in("ok"), 12345, 12345) != 0)
			abort();
		refused("ok", "belongs to user 12345");
	}
}

static char key1[48], key2[48], hash_hex[65], token[48];
static uint8_t pk1[32], pk2[32];

static struct keyring *parse(const char *text)
{
	struct keyring *kr = NULL;
	struct err e;

	if (keyring_parse(text, "test", &kr, &e) != ERR_OK)
		printf("# %s\n", e.msg);
	return kr;
}

static void add_up(void *ctx, const struct keyring_entry *entry)
{
	keyring_line(entry, ctx);
}

static void ring(void)
{
	char text[1024];
	struct keyring *kr, *again;
	const struct keyring_entry *x;
	struct keyring_entry fresh = { .role = ROLE_ADMIN, .name = "alice" };
	struct buf out = BUF_INIT;

	snprintf(text, sizeof(text),
	    "# who may come in\n\n  # and a comment\nworker x25519:%s w7 expires=2027-01-31\n"
	    "\tserver\tx25519:%s  s-1.example_x \nmonitor token:%s grafana "
	    "expires=2027-01-31T12:34:56Z",
	    key1, key2, hash_hex);
	kr = parse(text);
	ok(kr != NULL && keyring_count(kr) == 3, "three entries");
	x = keyring_find(kr, pk1, 1801353599);
	ok(x != NULL && x->role == ROLE_WORKER && strcmp(x->name, "w7") == 0 &&
	        x->expires == 1801353600 && memcmp(x->pk, pk1, 32) == 0,
	    "the worker, a second before");
	ok(keyring_find(kr, pk1, 1801353600) == NULL, "2027-01-31 00:00 UTC: expired");
	ok(keyring_find(kr, pk1, 0) == x, "found again by now = 0");
	x = keyring_find(kr, pk2, INT64_MAX);
	ok(x != NULL && x->role == ROLE_SERVER && x->expires == 0, "the server never expires");
	ok(keyring_find(kr, (uint8_t[32]){ 1 }, 1) == NULL, "an unknown key");
	x = keyring_find_token(kr, token, 1);
	ok(x != NULL && x->role == ROLE_MONITOR && x->is_token, "the monitor's token");
	ok(keyring_find_token(kr, token, 1801353600 + 45296) == NULL, "expires to the second");
	ok(keyring_find_token(kr, "", 1) == NULL && keyring_find_token(kr, hash_hex, 1) == NULL,
	    "neither no token nor its hash");
	ok(keyring_find(kr, keyring_find_name(kr, "grafana")->pk, 1) == NULL,
	    "a token's hash is not a key");

	memset(fresh.pk, 9, 32);
	ok(keyring_add(kr, &fresh, NULL) == ERR_OK && keyring_find(kr, fresh.pk, 1) != NULL, "add");
	ok(keyring_add(kr, &fresh, NULL) == ERR_EXISTS, "not twice");
	keyring_each(kr, add_up, &out);
	again = parse((char *)out.data);
	ok(again != NULL && keyring_count(again) == 4, "lines printed are lines read");
	buf_release(&out);
	keyring_line(keyring_find_name(again, "grafana"), &out);
	snprintf(text, sizeof(text), "monitor token:%s grafana expires=2027-01-31T12:34:56Z\n",
	    hash_hex);
	ok(strcmp((char *)out.data, text) == 0, "a token's line");
	buf_release(&out);
	keyring_line(keyring_find_name(again, "w7"), &out);
	snprintf(text, sizeof(text), "worker x25519:%s w7 expires=2027-01-31\n", key1);
	ok(strcmp((char *)out.data, text) == 0, "a worker's line");
	buf_release(&out);

	ok(keyring_remove(kr, "w7") && !keyring_remove(kr, "w7") &&
	        keyring_find(kr, pk1, 1) == NULL && keyring_find(kr, pk2, 1) != NULL,
	    "remove");
	fresh.pk[0] = 1;
	for (int i = 0; i < 100; i++) {
		snprintf(fresh.name, sizeof(fresh.name), "many%d", i);
		fresh.pk[1] = (uint8_t)i;
		keyring_add(kr, &fresh, NULL);
	}
	ok(keyring_count(kr) == 103, "a hundred more");
	keyring_free(kr);
	keyring_free(again);
	keyring_free(NULL);
}

/* %K is a key. */
static void wrong(const char *line, const char *part)
{
	char text[2048];
	struct keyring *kr = NULL;
	struct err e = { .msg = "" };
	const char *k = strstr(line, "%K");

	if (k != NULL)
		snprintf(text, sizeof(text), "# one\nworker x25519:%s w0\n%.*s%s%s\n", key2,
		    (int)(k - line), line, key1, k + 2);
	else
		snprintf(text, sizeof(text), "# one\nworker x25519:%s w0\n%s\n", key2, line);
	ok(keyring_parse(text, "keys/authorized_keys", &kr, &e) != ERR_OK && kr == NULL &&
	        strncmp(e.msg, "keys/authorized_keys:3: ", 24) == 0 && strstr(e.msg, part) != NULL,
	    "%s", e.msg);
}

static void ring_errors(void)
{
	char line[1200];

	wrong("worker", "must be: ROLE");
	wrong("worker x25519:%K", "must be: ROLE");
	wrong("worker x25519:%K w1 expires=2027-01-01 more", "must be: ROLE");
	wrong("wroker x25519:%K w1", "unknown role \"wroker\"");
	wrong("none x25519:%K w1", "unknown role");
	wrong("\033[31m x25519:%K w1", "unknown role");
	wrong("worker %K w1", "second word");
	wrong("worker x25519:abc w1", "44 characters");
	wrong("worker token:00 w1", "64 hex");
	wrong("worker x25519:%K w/1", "must be 1 to 63");
	wrong("worker x25519:%K w0", "already an entry named w0");
	wrong("worker x25519:%K w1 expires=2027-02-30", "must be expires=");
	wrong("worker x25519:%K w1 expires=2027-1-30", "must be expires=");
	wrong("worker x25519:%K w1 expires=2027-01-30T25:00:00Z", "must be expires=");
	wrong("worker x25519:%K w1 expires=2027-01-30T00:00:00", "must be expires=");
	wrong("worker x25519:%K w1 until=2027-01-30", "must be expires=");
	wrong("worker x25519:%K w1\r", "carriage return");
	snprintf(line, sizeof(line), "worker x25519:%s w1", key2);
	wrong(line, "same key as w0");
	snprintf(line, sizeof(line), "worker token:%s w1", hash_hex);
	wrong(line, "only a monitor");
	snprintf(line, sizeof(line), "worker x25519:%%K %064d", 0);
	wrong(line, "must be 1 to 63");
	memset(line, 'x', 600);
	line[600] = '\0';
	wrong(line, "line of more than");
}

static void ring_files(void)
{
	char text[256];
	struct keyring *kr = NULL;
	struct err e;
	size_t n = (size_t)snprintf(text, sizeof(text), "worker x25519:%s w0\n", key1);

	put(in("ak"), text, n, 0644);
	ok(keyring_load(in("ak"), &kr, &e) == ERR_OK && keyring_count(kr) == 1,
	    "authorized_keys may be readable");
	keyring_free(kr);
	put(in("ak"), text, n, 0664);
	ok(keyring_load(in("ak"), &kr, &e) == ERR_AUTH && strstr(e.msg, "chmod go-w") != NULL, "%s",
	    e.msg);
	put(in("ak"), text, n - 1, 0600);
	ok(keyring_load(in("ak"), &kr, &e) == ERR_FORMAT && strstr(e.msg, "newline") != NULL, "%s",
	    e.msg);
	text[3] = '\0';
	put(in("ak"), text, n, 0600);
	ok(keyring_load(in("ak"), &kr, &e) == ERR_FORMAT && strstr(e.msg, "NUL") != NULL, "%s",
	    e.msg);
	put(in("ak"), "", 0, 0600);
	ok(keyring_load(in("ak"), &kr, &e) == ERR_OK && keyring_count(kr) == 0, "empty is fine");
	keyring_free(kr);
	ok(keyring_load(in("fifo"), &kr, &e) == ERR_AUTH, "%s", e.msg);
	ok(keyring_load(in("absent"), &kr, NULL) == ERR_NOTFOUND, "absent");
}

static void roles(void)
{
	enum role r;

	ok(role_parse("relay", &r) && r == ROLE_RELAY && !role_parse("none", &r) &&
	        !role_parse("Relay", &r),
	    "role_parse");
	ok(strcmp(role_name(ROLE_MONITOR), "monitor") == 0 && role_name((enum role)77)[0] == '?',
	    "role_name");
	ok(ROLE_NONE == 0 && ROLE_WORKER == 1 && ROLE_SERVER == 2 && ROLE_RELAY == 3 &&
	        ROLE_MONITOR == 4 && ROLE_ADMIN == 5 && ROLE_READER == 6,
	    "numbers stand");
}

int main(void)
{
	uint8_t hash[32];

	alarm(60); /* a fifo that is opened in the wrong way hangs */
	snprintf(dir, sizeof(dir), "/tmp/auth_keys.XXXXXX");
	if (key_init(NULL) != ERR_OK || mkdtemp(dir) == NULL)
		return 1;
	randombytes_buf(pk1, 32);
	randombytes_buf(pk2, 32);
	key_to_text(pk1, key1);
	key_to_text(pk2, key2);
	keyring_token_new(token);
	keyring_token_hash(token, hash);
	sodium_bin2hex(hash_hex, sizeof(hash_hex), hash, 32);

	base64();
	create_and_load();
	bad_files();
	roles();
	ring();
	ring_errors();
	ring_files();
	ok(strlen(token) == 43, "a token has 43 characters");
	if (file_remove_tree(dir, NULL) != ERR_OK)
		printf("# %s could not be removed\n", dir);
	return tap_done();
}
