/* SPDX-License-Identifier: ISC */
#include "auth/keyring.h"

#include <sodium.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "auth/authfile.h"
#include "core/file.h"
#include "core/log.h"
#include "core/mem.h"

#define FILE_MAX       ((size_t)1 << 20)
#define LINE_MAX_BYTES 512
#define MAX_WORDS      4
#define KEY_PREFIX     "x25519:"
#define TOKEN_PREFIX   "token:"
#define EXPIRES_PREFIX "expires="

struct keyring {
	struct keyring_entry *entry;
	size_t n, cap;
};

const char *role_name(enum role r)
{
	switch (r) {
#define ROLE(id, name, number, help) \
	case ROLE_##id: \
		return name;
#include "auth/role.def"
#undef ROLE
	}
	return "?";
}

bool role_parse(const char *name, enum role *out)
{
	static const struct {
		const char *name;
		enum role role;
	} roles[] = {
#define ROLE(id, text, number, help) { text, ROLE_##id },
#include "auth/role.def"
#undef ROLE
	};

	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		if (roles[i].role != ROLE_NONE && strcmp(roles[i].name, name) == 0) {
			*out = roles[i].role;
			return true;
		}
	}
	return false;
}

struct keyring *keyring_new(void)
{
	return mem_alloc(sizeof(struct keyring));
}

void keyring_free(struct keyring *kr)
{
	if (kr == NULL)
		return;
	free(kr->entry);
	free(kr);
}

static bool is_good_name(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n >= 1 && n <= KEYRING_NAME_MAX && s[n] == '\0';
}

enum err_code keyring_add(struct keyring *kr, const struct keyring_entry *entry, struct err *e)
{
	char shown[4 * KEYRING_NAME_MAX + 1];

	if (memchr(entry->name, '\0', sizeof(entry->name)) == NULL || !is_good_name(entry->name)) {
		log_escape(shown, sizeof(shown), entry->name,
		    strnlen(entry->name, sizeof(entry->name)));
		return err_set(e, ERR_FORMAT, "name \"%s\" must be 1 to %d of A-Z a-z 0-9 . _ -",
		    shown, KEYRING_NAME_MAX);
	}
	if (entry->role == ROLE_NONE || role_name(entry->role)[0] == '?')
		return err_set(e, ERR_FORMAT, "%s has no role", entry->name);
	if (entry->is_token && entry->role != ROLE_MONITOR)
		return err_set(e, ERR_FORMAT,
		    "%s: a %s needs an x25519 key; only a monitor can "
		    "have a token",
		    entry->name, role_name(entry->role));
	for (size_t i = 0; i < kr->n; i++) {
		const struct keyring_entry *old = &kr->entry[i];

		if (strcmp(old->name, entry->name) == 0)
			return err_set(e, ERR_EXISTS, "there is already an entry named %s",
			    entry->name);
		if (old->is_token == entry->is_token && memcmp(old->pk, entry->pk, KEY_BYTES) == 0)
			return err_set(e, ERR_EXISTS, "%s has the same %s as %s", entry->name,
			    entry->is_token ? "token" : "key", old->name);
	}
	kr->entry = mem_grow(kr->entry, &kr->cap, kr->n + 1, sizeof(*kr->entry));
	kr->entry[kr->n++] = *entry;
	return ERR_OK;
}

bool keyring_remove(struct keyring *kr, const char *name)
{
	for (size_t i = 0; i < kr->n; i++) {
		if (strcmp(kr->entry[i].name, name) == 0) {
			memmove(&kr->entry[i], &kr->entry[i + 1],
			    (kr->n - i - 1) * sizeof(kr->entry[0]));
			kr->n--;
			return true;
		}
	}
	return false;
}

bool keyring_date(const char *s, int64_t *out)
{
	static const char form[] = "0000-00-00T00:00:00Z";
	size_t n = strlen(s);
	struct tm tm = { .tm_isdst = 0 }, back;
	int v[6] = { 0 }, part = 0;
	time_t t;

	if (n != 10 && n != sizeof(form) - 1)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (form[i] != '0') {
			if (s[i] != form[i])
				return false;
			part++;
		} else {
			if (s[i] < '0' || s[i] > '9')
				return false;
			v[part] = v[part] * 10 + (s[i] - '0');
		}
	}
	tm.tm_year = v[0] - 1900;
	tm.tm_mon = v[1] - 1;
	tm.tm_mday = v[2];
	tm.tm_hour = v[3];
	tm.tm_min = v[4];
	tm.tm_sec = v[5];
	/* timegm accepts any numbers, but only real dates come back unchanged. */
	t = timegm(&tm);
	if (t <= 0 || gmtime_r(&t, &back) == NULL || back.tm_mon != v[1] - 1 ||
	    back.tm_mday != v[2] || back.tm_hour != v[3] || back.tm_min != v[4] ||
	    back.tm_sec != v[5])
		return false;
	*out = (int64_t)t;
	return true;
}

static bool parse_hash(const char *hex, uint8_t out[static KEY_BYTES])
{
	size_t n;

	return strlen(hex) == 2 * KEY_BYTES &&
	    strspn(hex, "0123456789abcdefABCDEF") == 2 * KEY_BYTES &&
	    sodium_hex2bin(out, KEY_BYTES, hex, 2 * KEY_BYTES, NULL, &n, NULL) == 0 &&
	    n == KEY_BYTES;
}

/* "x25519:..." or "token:..." */
static enum err_code parse_credential(const char *word, struct keyring_entry *entry, struct err *e)
{
	if (strncmp(word, KEY_PREFIX, strlen(KEY_PREFIX)) == 0) {
		if (!key_from_text(word + strlen(KEY_PREFIX), entry->pk))
			return err_set(e, ERR_FORMAT,
			    "the key must be %d characters of base64 after \"" KEY_PREFIX "\"",
			    KEY_TEXT_LEN);
		return ERR_OK;
	}
	if (strncmp(word, TOKEN_PREFIX, strlen(TOKEN_PREFIX)) == 0) {
		entry->is_token = true;
		if (!parse_hash(word + strlen(TOKEN_PREFIX), entry->pk))
			return err_set(e, ERR_FORMAT,
			    "the token's hash must be %d hexadecimal "
			    "digits after \"" TOKEN_PREFIX "\"",
			    2 * KEY_BYTES);
		return ERR_OK;
	}
	return err_set(e, ERR_FORMAT,
	    "the second word must begin with \"" KEY_PREFIX "\" or \"" TOKEN_PREFIX "\"");
}

static enum err_code parse_words(char *const *word, size_t n, struct keyring_entry *entry,
    struct err *e)
{
	char shown[80];
	enum err_code rc;

	memset(entry, 0, sizeof(*entry));
	if (n < 3 || n > MAX_WORDS)
		return err_set(e, ERR_FORMAT,
		    "must be: ROLE " KEY_PREFIX "BASE64 NAME [" EXPIRES_PREFIX "DATE]");
	if (!role_parse(word[0], &entry->role)) {
		log_escape(shown, sizeof(shown), word[0], strlen(word[0]));
		return err_set(e, ERR_FORMAT,
		    "unknown role \"%s\"; must be worker, server, relay, "
		    "monitor, reader or admin",
		    shown);
	}
	rc = parse_credential(word[1], entry, e);
	if (rc != ERR_OK)
		return rc;
	/* A name that is too long is cut to one character over the limit, so keyring_add refuses
	 * it. */
	memcpy(entry->name, word[2], strnlen(word[2], sizeof(entry->name)));
	if (n == 4 &&
	    (strncmp(word[3], EXPIRES_PREFIX, strlen(EXPIRES_PREFIX)) != 0 ||
	        !keyring_date(word[3] + strlen(EXPIRES_PREFIX), &entry->expires))) {
		log_escape(shown, sizeof(shown), word[3], strlen(word[3]));
		return err_set(e, ERR_FORMAT,
		    "\"%s\" must be " EXPIRES_PREFIX "YYYY-MM-DD or YYYY-MM-DDTHH:MM:SSZ", shown);
	}
	return ERR_OK;
}

/* Parse one line of n bytes, without its newline, and add its entry to kr. */
static enum err_code parse_entry_line(struct keyring *kr, const char *s, size_t n, struct err *e)
{
	char line[LINE_MAX_BYTES], *word[MAX_WORDS + 1], *p = line;
	size_t words = 0;
	struct keyring_entry entry;
	enum err_code rc;

	if (n >= sizeof(line))
		return err_set(e, ERR_FORMAT, "line of more than %zu bytes", sizeof(line) - 1);
	memcpy(line, s, n);
	line[n] = '\0';
	if (memchr(line, '\r', n) != NULL)
		return err_set(e, ERR_FORMAT, "carriage return; lines must end in a bare newline");
	p += strspn(p, " \t");
	if (*p == '#' || *p == '\0')
		return ERR_OK;
	while (*p != '\0' && words <= MAX_WORDS) {
		word[words++] = p;
		p += strcspn(p, " \t");
		if (*p != '\0')
			*p++ = '\0';
		p += strspn(p, " \t");
	}
	rc = parse_words(word, words, &entry, e);
	return rc != ERR_OK ? rc : keyring_add(kr, &entry, e);
}

enum err_code keyring_parse(const char *text, const char *name, struct keyring **out, struct err *e)
{
	struct keyring *kr = keyring_new();
	unsigned line = 1;

	for (const char *s = text; *s != '\0'; line++) {
		size_t n = strcspn(s, "\n");
		enum err_code rc = parse_entry_line(kr, s, n, e);

		if (rc != ERR_OK) {
			keyring_free(kr);
			err_prefix(e, "%s:%u", name, line);
			return rc;
		}
		s += n + (s[n] == '\n');
	}
	*out = kr;
	return ERR_OK;
}

enum err_code keyring_load(const char *path, struct keyring **out, struct err *e)
{
	size_t n;
	int fd;
	char *text;
	enum err_code rc = authfile_open(path, 0022, FILE_MAX, &fd, &n, e);

	if (rc != ERR_OK)
		return rc;
	text = mem_alloc(n + 1);
	rc = file_read_all(fd, text, n, e);
	close(fd);
	if (rc != ERR_OK)
		err_prefix(e, "%s", path);
	else if (strlen(text) != n)
		rc = err_set(e, ERR_FORMAT, "%s has a NUL byte at offset %zu", path, strlen(text));
	else if (n > 0 && text[n - 1] != '\n')
		rc = err_set(e, ERR_FORMAT,
		    "%s does not end in a newline: its last line may be incomplete", path);
	else
		rc = keyring_parse(text, path, out, e);
	free(text);
	return rc;
}

static bool is_unexpired(const struct keyring_entry *entry, int64_t now)
{
	return entry->expires == 0 || now < entry->expires;
}

const struct keyring_entry *keyring_find(const struct keyring *kr,
    const uint8_t pk[static KEY_BYTES], int64_t now)
{
	for (size_t i = 0; i < kr->n; i++) {
		const struct keyring_entry *x = &kr->entry[i];

		if (!x->is_token && memcmp(x->pk, pk, KEY_BYTES) == 0)
			return is_unexpired(x, now) ? x : NULL;
	}
	return NULL;
}

const struct keyring_entry *keyring_find_token(const struct keyring *kr, const char *token,
    int64_t now)
{
	const struct keyring_entry *found = NULL;
	uint8_t hash[KEY_BYTES];

	keyring_token_hash(token, hash);
	for (size_t i = 0; i < kr->n; i++) {
		const struct keyring_entry *x = &kr->entry[i];

		if (x->is_token && sodium_memcmp(x->pk, hash, KEY_BYTES) == 0)
			found = x;
	}
	return found != NULL && is_unexpired(found, now) ? found : NULL;
}

const struct keyring_entry *keyring_find_name(const struct keyring *kr, const char *name)
{
	for (size_t i = 0; i < kr->n; i++)
		if (strcmp(kr->entry[i].name, name) == 0)
			return &kr->entry[i];
	return NULL;
}

size_t keyring_count(const struct keyring *kr)
{
	return kr->n;
}

void keyring_each(const struct keyring *kr,
    void (*fn)(void *ctx, const struct keyring_entry *entry), void *ctx)
{
	for (size_t i = 0; i < kr->n; i++)
		fn(ctx, &kr->entry[i]);
}

void keyring_line(const struct keyring_entry *entry, struct buf *out)
{
	char text[2 * KEY_BYTES + 1];

	if (entry->is_token)
		sodium_bin2hex(text, sizeof(text), entry->pk, KEY_BYTES);
	else
		key_to_text(entry->pk, text);
	buf_printf(out, "%s %s%s %s", role_name(entry->role),
	    entry->is_token ? TOKEN_PREFIX : KEY_PREFIX, text, entry->name);
	if (entry->expires != 0) {
		buf_puts(out, " " EXPIRES_PREFIX);
		keyring_put_date(entry->expires, out);
	}
	buf_puts(out, "\n");
}

void keyring_put_date(int64_t seconds, struct buf *out)
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (gmtime_r(&t, &tm) == NULL)
		return;
	buf_printf(out, "%04d-%02d-%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
	if (seconds % 86400 != 0)
		buf_printf(out, "T%02d:%02d:%02dZ", tm.tm_hour, tm.tm_min, tm.tm_sec);
}

void keyring_fingerprint(const struct keyring_entry *entry, char out[static KEYRING_FINGERPRINT])
{
	uint8_t hash[32];

	/* For a token this is the hash of its hash, so the fingerprint does not reveal the
	 * stored hash. */
	crypto_generichash(hash, sizeof(hash), entry->pk, KEY_BYTES, NULL, 0);
	sodium_bin2hex(out, KEYRING_FINGERPRINT, hash, (KEYRING_FINGERPRINT - 1) / 2);
}

void keyring_token_new(char out[static 48])
{
	uint8_t raw[32];

	randombytes_buf(raw, sizeof(raw));
	sodium_bin2base64(out, 48, raw, sizeof(raw), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	sodium_memzero(raw, sizeof(raw));
}

void keyring_token_hash(const char *token, uint8_t hash[static KEY_BYTES])
{
	crypto_generichash(hash, KEY_BYTES, (const uint8_t *)token, strlen(token), NULL, 0);
}
