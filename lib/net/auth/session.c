/* SPDX-License-Identifier: ISC */
#include "auth/session.h"

#include <assert.h>
#include <string.h>

#include "core/endian.h"

#define KDF_CONTEXT "psrecord" /* exactly crypto_kdf_CONTEXTBYTES */
#define KDF_RECORD  1
#define KDF_CHAIN   2

struct suite_row {
	enum suite suite;
	const char *name;
	bool sealed;
};

static const struct suite_row rows[] = {
#define SUITE(id, text, number, is_sealed, help) { SUITE_##id, text, is_sealed },
#include "auth/suite.def"
#undef SUITE
};
#define NROWS (sizeof(rows) / sizeof(rows[0]))

static const struct suite_row *row_of(enum suite s)
{
	for (size_t i = 0; i < NROWS; i++)
		if (rows[i].suite == s)
			return &rows[i];
	return NULL;
}

const char *suite_name(enum suite s)
{
	const struct suite_row *r = row_of(s);

	return r != NULL ? r->name : "?";
}

bool suite_parse(const char *name, enum suite *out)
{
	for (size_t i = 0; i < NROWS; i++) {
		if (strcmp(rows[i].name, name) == 0) {
			*out = rows[i].suite;
			return true;
		}
	}
	return false;
}

bool suite_is_sealed(enum suite s)
{
	const struct suite_row *r = row_of(s);

	return r != NULL && r->sealed;
}

bool suite_available(enum suite s)
{
	if (s == SUITE_AES256GCM)
		return crypto_aead_aes256gcm_is_available() == 1;
	return row_of(s) != NULL;
}

enum err_code suites_choose(const char *name, enum suite *local, enum suite *remote, struct err *e)
{
	*local = SUITE_POLY1305;
	*remote = SUITE_CHACHA20POLY1305;
	if (strcmp(name, "auto") == 0)
		return ERR_OK;
	if (!suite_parse(name, local) || !suite_available(*local))
		return err_set(e, ERR_CONFIG, "suite: \"%s\" is not available on this processor",
		    name);
	*remote = *local;
	return ERR_OK;
}

uint8_t suite_mask(void)
{
	uint8_t mask = 0;

	for (size_t i = 0; i < NROWS; i++)
		if (suite_available(rows[i].suite))
			mask = (uint8_t)(mask | 1u << rows[i].suite);
	return mask;
}

static void derive_key(uint8_t out[static 32], uint64_t id, const uint8_t chain[static 32])
{
	/* The call cannot fail for these sizes; but a key that was not derived must not be used. */
	if (crypto_kdf_derive_from_key(out, 32, id, KDF_CONTEXT, chain) != 0)
		abort();
}

/* Derive the next record key from the chain key and advance the chain, so that neither the old
 * record key nor the old chain key is kept. */
static void change_key(struct session_dir *d, enum suite suite)
{
	uint8_t next[32];

	derive_key(d->key, KDF_RECORD, d->chain);
	derive_key(next, KDF_CHAIN, d->chain);
	memcpy(d->chain, next, sizeof(next));
	sodium_memzero(next, sizeof(next));
	d->records = 0;
	sealer_free(d->sealer);
	d->sealer = NULL;
	if (suite == SUITE_AES256GCM && crypto_aead_aes256gcm_beforenm(&d->aes, d->key) != 0)
		abort(); /* session_init has checked that the processor supports it */
}

enum err_code session_init(struct session *s, enum suite suite, const uint8_t tx[static 32],
    const uint8_t rx[static 32], struct err *e)
{
	if (!suite_available(suite))
		return err_set(e, ERR_UNSUPPORTED,
		    "suite %s (%d) is not available on this processor", suite_name(suite),
		    (int)suite);
	memset(s, 0, sizeof(*s));
	s->suite = suite;
	s->sealed = suite_is_sealed(suite);
	memcpy(s->tx.chain, tx, 32);
	memcpy(s->rx.chain, rx, 32);
	change_key(&s->tx, suite);
	change_key(&s->rx, suite);
	return ERR_OK;
}

void session_wipe(struct session *s)
{
	tag_maker_free(s->tx.maker);
	tag_maker_free(s->rx.maker);
	sealer_free(s->tx.sealer);
	sealer_free(s->rx.sealer);
	sodium_memzero(s, sizeof(*s));
	/* A wiped session has the suite 0, which seals and opens nothing. */
	s->tx.dead = s->rx.dead = true;
}

static bool next_session_nonce(struct session_dir *d, uint8_t nonce[static 12])
{
	if (d->dead || d->counter >= SESSION_COUNTER_END)
		return false;
	put_le32(nonce, 0);
	put_le64(nonce + 4, d->counter++);
	return true;
}

static const char *cipher_of(enum suite suite)
{
	return suite == SUITE_AES256GCM ? "AES-256-GCM" : "ChaCha20-Poly1305";
}

/* One AEAD call with the next nonce: message m of n bytes to c, with associated data ad. Either
 * m or ad is empty. */
static bool seal_message(struct session *s, const uint8_t *m, size_t n, uint8_t *c,
    const uint8_t *ad, size_t adn, uint8_t tag[static SESSION_TAG_BYTES])
{
	struct session_dir *d = &s->tx;
	uint8_t nonce[12];

	if (!next_session_nonce(d, nonce))
		return false;
	if (n >= SEALER_LARGE)
		return sealer_seal(&d->sealer, cipher_of(s->suite), d->key, nonce, m, n, c, tag);
	if (s->suite == SUITE_AES256GCM)
		return crypto_aead_aes256gcm_encrypt_detached_afternm(c, tag, NULL, m, n, ad, adn,
		           NULL, nonce, &d->aes) == 0;
	return crypto_aead_chacha20poly1305_ietf_encrypt_detached(c, tag, NULL, m, n, ad, adn, NULL,
	           nonce, d->key) == 0;
}

static bool open_in_place(struct session *s, uint8_t *c, size_t n, const uint8_t *ad, size_t adn,
    const uint8_t tag[static SESSION_TAG_BYTES])
{
	struct session_dir *d = &s->rx;
	uint8_t nonce[12];
	int rc = -1;

	if (next_session_nonce(d, nonce)) {
		if (n >= SEALER_LARGE)
			rc = sealer_open(&d->sealer, cipher_of(s->suite), d->key, nonce, c, n, tag)
			    ? 0
			    : -1;
		else if (s->suite == SUITE_AES256GCM)
			rc = crypto_aead_aes256gcm_decrypt_detached_afternm(c, NULL, c, n, tag, ad,
			    adn, nonce, &d->aes);
		else
			rc = crypto_aead_chacha20poly1305_ietf_decrypt_detached(c, NULL, c, n, tag,
			    ad, adn, nonce, d->key);
	}
	/* Allow one attempt for each connection, so that tags cannot be guessed. */
	if (rc != 0)
		d->dead = true;
	return rc == 0;
}

bool session_seal_header(struct session *s, const uint8_t hdr[static SESSION_HEADER_BYTES],
    uint8_t tag[static SESSION_TAG_BYTES])
{
	uint8_t none = 0;

	return seal_message(s, &none, 0, &none, hdr, SESSION_HEADER_BYTES, tag);
}

bool session_open_header(struct session *s, const uint8_t hdr[static SESSION_HEADER_BYTES],
    const uint8_t tag[static SESSION_TAG_BYTES])
{
	uint8_t none = 0;

	return open_in_place(s, &none, 0, hdr, SESSION_HEADER_BYTES, tag);
}

bool session_seal_payload(struct session *s, const uint8_t *in, size_t n, uint8_t *out,
    uint8_t tag[static SESSION_TAG_BYTES])
{
	uint8_t none = 0, nonce[12];

	if (n == 0) /* libsodium wants pointers that are not NULL */
		in = out = &none;
	if (s->sealed)
		return seal_message(s, in, n, out, NULL, 0, tag);
	assert(out == NULL || out == in);
	return next_session_nonce(&s->tx, nonce) &&
	    tag_make(&s->tx.maker, s->tx.key, nonce, in, n, tag);
}

bool session_open_payload(struct session *s, uint8_t *data, size_t n,
    const uint8_t tag[static SESSION_TAG_BYTES])
{
	uint8_t none = 0, nonce[12], want[TAG_BYTES];
	bool good;

	if (n == 0)
		data = &none;
	if (s->sealed)
		return open_in_place(s, data, n, NULL, 0, tag);
	good = next_session_nonce(&s->rx, nonce) &&
	    tag_make(&s->rx.maker, s->rx.key, nonce, data, n, want) &&
	    crypto_verify_16(want, tag) == 0;
	s->rx.dead |= !good;
	return good;
}

void session_next_tx(struct session *s)
{
	if (++s->tx.records >= SESSION_EPOCH_RECORDS)
		change_key(&s->tx, s->suite);
}

void session_next_rx(struct session *s)
{
	if (++s->rx.records >= SESSION_EPOCH_RECORDS)
		change_key(&s->rx, s->suite);
}

bool session_exhausted(const struct session *s)
{
	return s->tx.counter + 2 > SESSION_COUNTER_END || s->rx.counter + 2 > SESSION_COUNTER_END;
}
