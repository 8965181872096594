/* SPDX-License-Identifier: ISC */
#include "auth/handshake.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#include "core/endian.h"

#define VERSION     1
#define HEAD        8 /* magic, version, one byte that depends on the message, 2 zeros */
#define PROLOGUE    (HS_HELLO_BYTES + HEAD)
#define CLIENT_INFO 56
#define SERVER_INFO 40
#define MAC1        16
#define MSG1_MACED  (HS_MSG1_BYTES - MAC1)

_Static_assert(HEAD + NOISE_MSG1_EXTRA + CLIENT_INFO + MAC1 == HS_MSG1_BYTES, "msg1");
_Static_assert(HEAD + NOISE_MSG2_EXTRA + SERVER_INFO == HS_MSG2_BYTES, "msg2");

const char *handshake_status_text(enum hs_status s)
{
	switch (s) {
#define HS_STATUS(id, number, error, cause, text) \
	case HS_##id: \
		return text;
#include "auth/hs_status.def"
#undef HS_STATUS
	}
	return "refused for a reason unknown to this version";
}

static enum err_code status_error(enum hs_status s)
{
	switch (s) {
#define HS_STATUS(id, number, error, cause, text) \
	case HS_##id: \
		return ERR_##error;
#include "auth/hs_status.def"
#undef HS_STATUS
	}
	return ERR_FAILED;
}

static enum err_cause status_cause(enum hs_status s)
{
	switch (s) {
#define HS_STATUS(id, number, error, cause, text) \
	case HS_##id: \
		return CAUSE_##cause;
#include "auth/hs_status.def"
#undef HS_STATUS
	}
	return CAUSE_UNKNOWN;
}

static void write_head(uint8_t *p, const char magic[static 4], uint8_t meaning)
{
	memcpy(p, magic, 4);
	p[4] = VERSION;
	p[5] = meaning;
	put_le16(p + 6, 0);
}

/* The bytes are not authenticated yet, so a message shows only small numbers of them. */
static enum err_code check_message_head(const uint8_t *p, const char magic[static 4],
    const char *who, struct err *e)
{
	if (memcmp(p, magic, 4) != 0)
		return err_set(e, ERR_PROTO, "the %s does not speak the pskit protocol", who);
	if (p[4] != VERSION)
		return err_because(e, ERR_PROTO, CAUSE_VERSION,
		    "the %s speaks protocol version %u, this program "
		    "version %d; run the same release on both sides",
		    who, p[4], VERSION);
	if (get_le16(p + 6) != 0)
		return err_set(e, ERR_PROTO,
		    "the %s's handshake has reserved bytes that are not zero", who);
	return ERR_OK;
}

static void make_mac1_key(uint8_t out[static 32], const uint8_t psk[static 32],
    const uint8_t server_pk[static 32])
{
	crypto_generichash_state st;

	crypto_generichash_init(&st, NULL, 0, 32);
	crypto_generichash_update(&st, (const uint8_t *)"ps-mac1", 7);
	crypto_generichash_update(&st, psk, 32);
	crypto_generichash_update(&st, server_pk, 32);
	crypto_generichash_final(&st, out, 32);
	sodium_memzero(&st, sizeof(st));
}

static void make_mac1(uint8_t out[static MAC1], const uint8_t key[static 32],
    const uint8_t hello[static HS_HELLO_BYTES], const uint8_t msg1[static HS_MSG1_BYTES])
{
	crypto_generichash_state st;

	crypto_generichash_init(&st, key, 32, MAC1);
	crypto_generichash_update(&st, hello, HS_HELLO_BYTES);
	crypto_generichash_update(&st, msg1, MSG1_MACED);
	crypto_generichash_final(&st, out, MAC1);
	sodium_memzero(&st, sizeof(st));
}

static void make_prologue(uint8_t out[static PROLOGUE], const uint8_t hello[static HS_HELLO_BYTES],
    const uint8_t msg1[static HS_MSG1_BYTES])
{
	memcpy(out, hello, HS_HELLO_BYTES);
	memcpy(out + HS_HELLO_BYTES, msg1, HEAD);
}

static void put_client_info(uint8_t p[static CLIENT_INFO], const struct hs_client_info *c)
{
	memset(p, 0, CLIENT_INFO);
	memcpy(p, c->cluster, HS_CLUSTER_BYTES);
	put_le64(p + 16, c->incarnation);
	put_le32(p + 24, c->rank);
	p[28] = c->role;
}

static bool get_client_info(const uint8_t p[static CLIENT_INFO], struct hs_client_info *c)
{
	memcpy(c->cluster, p, HS_CLUSTER_BYTES);
	c->incarnation = get_le64(p + 16);
	c->rank = get_le32(p + 24);
	c->role = p[28];
	return sodium_is_zero(p + 29, CLIENT_INFO - 29);
}

static void put_server_info(uint8_t p[static SERVER_INFO], const struct hs_server_info *i)
{
	put_le64(p, i->incarnation);
	put_le32(p + 8, i->epoch);
	put_le32(p + 12, i->generation);
	put_le32(p + 16, i->max_record);
	put_le32(p + 20, i->lifetime_seconds);
	put_le64(p + 24, i->credit);
	put_le64(p + 32, i->shares);
}

static bool get_server_info(const uint8_t p[static SERVER_INFO], struct hs_server_info *i)
{
	i->incarnation = get_le64(p);
	i->epoch = get_le32(p + 8);
	i->generation = get_le32(p + 12);
	i->max_record = get_le32(p + 16);
	i->lifetime_seconds = get_le32(p + 20);
	i->credit = get_le64(p + 24);
	i->shares = p[32];
	return get_le64(p + 32) <= 1;
}

static enum err_code start_session(struct noise *x, enum suite suite, struct session *s,
    struct err *e)
{
	uint8_t tx[32], rx[32];
	enum err_code rc;

	noise_split(x, tx, rx, NULL);
	rc = session_init(s, suite, tx, rx, e);
	sodium_memzero(tx, sizeof(tx));
	sodium_memzero(rx, sizeof(rx));
	return rc;
}

void handshake_identity_init(struct hs_identity *id, const struct key_pair *key,
    const uint8_t psk[static KEY_BYTES])
{
	id->key = *key;
	memcpy(id->psk, psk, KEY_BYTES);
	make_mac1_key(id->mac1_key, psk, key->pk);
}

void handshake_identity_wipe(struct hs_identity *id)
{
	sodium_memzero(id, sizeof(*id));
}

void handshake_server_wipe(struct hs_server *hs)
{
	noise_wipe(&hs->noise);
}

void handshake_client_wipe(struct hs_client *hc)
{
	noise_wipe(&hc->noise);
}

void handshake_server_hello(struct hs_server *hs, uint8_t suites, uint64_t epoch_hint,
    uint8_t hello[static HS_HELLO_BYTES])
{
	memset(hs, 0, sizeof(*hs));
	write_head(hs->hello, "PSS1", suites);
	put_le64(hs->hello + 8, epoch_hint);
	randombytes_buf(hs->hello + 16, 16);
	memcpy(hello, hs->hello, HS_HELLO_BYTES);
}

/* Try all identities, so that the time does not reveal which one matched. */
static size_t match_mac1(const struct hs_identity *ids, size_t nids,
    const uint8_t hello[static HS_HELLO_BYTES], const uint8_t msg1[static HS_MSG1_BYTES])
{
	uint8_t mac1[MAC1];
	size_t found = nids;

	for (size_t i = 0; i < nids; i++) {
		make_mac1(mac1, ids[i].mac1_key, hello, msg1);
		if (sodium_memcmp(mac1, msg1 + MSG1_MACED, MAC1) == 0)
			found = i;
	}
	return found;
}

/* The Noise part of read1, entered only after mac1 was right. */
static enum err_code read1_noise(struct hs_server *hs, const struct hs_identity *id,
    const uint8_t msg1[static HS_MSG1_BYTES], struct hs_peer *peer, struct err *e)
{
	uint8_t prologue[PROLOGUE], info[CLIENT_INFO];

	make_prologue(prologue, hs->hello, msg1);
	noise_init(&hs->noise, false, &id->key, NULL, id->psk, prologue, sizeof(prologue));
	if (!noise_read1(&hs->noise, msg1 + HEAD, info, sizeof(info)))
		return err_set(e, ERR_AUTH,
		    "the client knows the cluster's secret, but its "
		    "handshake does not verify");
	if (!get_client_info(info, &peer->info)) {
		noise_wipe(&hs->noise);
		return err_set(e, ERR_PROTO,
		    "the client's handshake has reserved bytes that are "
		    "not zero");
	}
	memcpy(peer->pk, hs->noise.rs, KEY_BYTES);
	peer->suite = hs->suite;
	return ERR_OK;
}

enum err_code handshake_server_read1(struct hs_server *hs, const struct hs_identity *ids,
    size_t nids, const uint8_t msg1[static HS_MSG1_BYTES], struct hs_peer *peer, struct err *e)
{
	enum err_code rc = check_message_head(msg1, "PSC1", "client", e);
	uint8_t suites = hs->hello[5], suite = msg1[5];
	size_t i;

	if (rc != ERR_OK)
		return rc;
	i = match_mac1(ids, nids, hs->hello, msg1);
	if (i == nids)
		return err_set(e, ERR_AUTH,
		    "the client has another cluster secret, or another "
		    "public key for this server");
	/* Checked after mac1, when the sender is known to have the psk. */
	if (suite > 7 || (suites & 1u << suite) == 0 || !suite_available((enum suite)suite))
		return err_set(e, ERR_AUTH,
		    "the client chose suite %s (%u), which the server did not offer",
		    suite_name((enum suite)suite), suite);
	hs->suite = (enum suite)suite;
	peer->identity = i;
	return read1_noise(hs, &ids[i], msg1, peer, e);
}

enum err_code handshake_server_write2(struct hs_server *hs, enum hs_status status,
    const struct hs_server_info *info, uint8_t msg2[static HS_MSG2_BYTES], struct session *s,
    struct err *e)
{
	static const struct hs_server_info nothing;
	uint8_t plain[SERVER_INFO];

	assert(status != HS_OK || (info != NULL && s != NULL));
	write_head(msg2, "PSS2", (uint8_t)status);
	noise_mix_hash(&hs->noise, msg2, HEAD);
	put_server_info(plain, info != NULL ? info : &nothing);
	if (!noise_write2(&hs->noise, plain, sizeof(plain), msg2 + HEAD))
		return err_set(e, ERR_AUTH, "the client's ephemeral key is not usable");
	if (status == HS_OK)
		return start_session(&hs->noise, hs->suite, s, e);
	noise_wipe(&hs->noise);
	return ERR_OK;
}

enum err_code handshake_client_read_hello(struct hs_client *hc,
    const uint8_t hello[static HS_HELLO_BYTES], uint8_t *suites, uint64_t *epoch_hint,
    struct err *e)
{
	enum err_code rc = check_message_head(hello, "PSS1", "server", e);

	if (rc != ERR_OK)
		return rc;
	memset(hc, 0, sizeof(*hc));
	memcpy(hc->hello, hello, HS_HELLO_BYTES);
	*suites = hello[5];
	*epoch_hint = get_le64(hello + 8);
	return ERR_OK;
}

enum err_code handshake_client_write1(struct hs_client *hc, const struct key_pair *self,
    const uint8_t server_pk[static KEY_BYTES], const uint8_t psk[static KEY_BYTES],
    enum suite suite, const struct hs_client_info *info, uint8_t msg1[static HS_MSG1_BYTES],
    struct err *e)
{
	uint8_t prologue[PROLOGUE], plain[CLIENT_INFO], mac1_key[32];

	if (!suite_available(suite))
		return err_set(e, ERR_UNSUPPORTED,
		    "suite %s (%d) is not available on this processor", suite_name(suite),
		    (int)suite);
	if ((hc->hello[5] & 1u << suite) == 0)
		return err_set(e, ERR_CONFIG,
		    "the server does not offer suite %s; set `suite` in "
		    "the server's cluster file",
		    suite_name(suite));
	hc->suite = suite;
	write_head(msg1, "PSC1", (uint8_t)suite);
	make_prologue(prologue, hc->hello, msg1);
	put_client_info(plain, info);
	noise_init(&hc->noise, true, self, server_pk, psk, prologue, sizeof(prologue));
	if (!noise_write1(&hc->noise, plain, sizeof(plain), msg1 + HEAD))
		return err_set(e, ERR_AUTH, "the server's public key in use is not a valid one");
	make_mac1_key(mac1_key, psk, server_pk);
	make_mac1(msg1 + MSG1_MACED, mac1_key, hc->hello, msg1);
	sodium_memzero(mac1_key, sizeof(mac1_key));
	return ERR_OK;
}

enum err_code handshake_client_read2(struct hs_client *hc, const uint8_t msg2[static HS_MSG2_BYTES],
    struct hs_server_info *info, struct session *s, struct err *e)
{
	uint8_t plain[SERVER_INFO];
	enum hs_status status = (enum hs_status)msg2[5];
	enum err_code rc = check_message_head(msg2, "PSS2", "server", e);

	if (rc != ERR_OK)
		goto fail;
	noise_mix_hash(&hc->noise, msg2, HEAD);
	if (!noise_read2(&hc->noise, msg2 + HEAD, plain, sizeof(plain)))
		return err_set(e, ERR_AUTH,
		    "the server's answer does not verify: it does not hold "
		    "the expected key and cluster secret, or the answer was altered");
	if (status != HS_OK) {
		rc = err_because(e, status_error(status), status_cause(status),
		    "refused by the server: %s", handshake_status_text(status));
		goto fail;
	}
	if (!get_server_info(plain, info)) {
		rc = err_set(e, ERR_PROTO,
		    "the server's handshake has reserved bytes that are not zero");
		goto fail;
	}
	return start_session(&hc->noise, hc->suite, s, e);
fail:
	handshake_client_wipe(hc);
	return rc;
}
