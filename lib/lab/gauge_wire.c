/* SPDX-License-Identifier: ISC */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/thread.h"
#include "lab/gauge.h"
#include "socket/net.h"
#include "wire/conn.h"
#include "wire/transport.h"

/* Measures a connection between two ends, each on its own thread. The client sends a burst of
 * records; the server answers the last of them with a small one. */

#define LARGE        (256u << 10)
#define BURST_MAX    32u
#define SMALL        64u
#define ALL_LARGE    (24u << 20)
#define ROUNDS_SMALL 200
#define ROUNDS_IDLE  20
#define IDLE_MS      1
#define PATIENCE     (10 * NSEC_PER_SEC)

struct end {
	struct conn *conn;
	unsigned records, want;
	bool up, server, over;
	bool large; /* records too large to stay in the caches */
	/* Server: CPU seconds of each of n bursts; since: when the last one ended. */
	double *took, since;
	unsigned n;
};

static enum err_code admit_any(void *ctx, const uint8_t key[32], const struct hs_client_info *info,
    struct hs_server_info *reply, struct err *e)
{
	(void)ctx, (void)key, (void)info, (void)e;
	reply->max_record = RECORD_MAX;
	reply->shares = true;
	return ERR_OK;
}

static void mark_up(void *ctx, const struct hs_server_info *server)
{
	(void)server;
	((struct end *)ctx)->up = true;
}

/* Counts a record. The last one of a burst has seq 1, the very last has step UINT64_MAX. */
static enum conn_verdict count_record(void *ctx, const struct record *r, uint8_t *payload)
{
	struct end *x = ctx;
	struct record answer = { .type = REC_PULLED, .len = SMALL };
	uint8_t small[SMALL] = { 0 };

	(void)payload;
	x->records++;
	x->over |= r->step == UINT64_MAX;
	if (x->server && r->seq) {
		conn_send(x->conn, &answer, small);
		x->took[x->n++] = gauge_clock() - x->since;
		if (x->large)
			gauge_sweep();
		x->since = gauge_clock();
	}
	return CONN_TAKEN;
}

static const struct conn_handler handler = { .admit = admit_any,
	.live = mark_up,
	.record = count_record };

static bool end_is_up(void *ctx)
{
	return ((struct end *)ctx)->up;
}

static bool has_all(void *ctx)
{
	struct end *x = ctx;

	return x->records >= x->want || x->over;
}

static bool end_is_over(void *ctx)
{
	struct end *x = ctx;

	return x->over && !conn_queued(x->conn);
}

static void *serve_bursts(void *ctx)
{
	struct end *x = ctx;

	gauge_pin(1);
	if (conn_until(x->conn, end_is_up, x, PATIENCE, NULL))
		return NULL;
	x->since = gauge_clock();
	conn_until(x->conn, end_is_over, x, PATIENCE, NULL);
	return NULL;
}

struct shape {
	unsigned rounds, burst;
	uint32_t len;
	bool idle; /* both ends sleep before a round */
};

struct measured {
	/* median seconds of a round; seal is a part of client */
	double seal, client, server, wall;
};

struct samples {
	double *seal, *client, *wall;
};

/* The client's side of all rounds: sends a burst, waits for the answer, records the times. */
static enum err_code run_rounds(struct end *x, const struct shape *s, const uint8_t *body,
    struct samples *out, struct err *e)
{
	unsigned n = s->rounds, burst = s->burst;
	enum err_code rc = ERR_OK;

	for (unsigned i = 0; !rc && i < n; i++) {
		double begin;
		int64_t wall;

		if (s->idle)
			clock_sleep(IDLE_MS);
		if (x->large)
			gauge_sweep();
		begin = gauge_clock();
		wall = clock_now();
		for (unsigned k = 0; k < burst; k++) {
			struct record r = { .type = REC_PUSH,
				.len = s->len,
				.part = k,
				.seq = k + 1 == burst };

			if (i + 1 == n && k + 1 == burst)
				r.step = UINT64_MAX;
			conn_lend(x->conn, &r, body + (size_t)k * s->len);
		}
		out->seal[i] = gauge_clock() - begin;
		x->want = x->records + 1;
		rc = conn_until(x->conn, has_all, x, PATIENCE, e);
		out->client[i] = gauge_clock() - begin;
		out->wall[i] = (double)(clock_now() - wall) / 1e9;
	}
	return rc;
}

/* Connects two descriptors over the transport. */
static enum err_code connect_ends(const struct transport *transport, int fd[static 2],
    struct err *e)
{
	struct pollfd p;
	char bound[NET_TEXT];
	enum err_code rc;
	int listener;

	if (transport->takes_socket("/"))
		return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd)
		    ? err_sys(e, ERR_IO, "cannot create a pair of sockets")
		    : ERR_OK;
	rc = net_listen("127.0.0.1:0", 1, &listener, bound, e);
	if (rc)
		return rc;
	rc = net_connect(bound, &fd[1], e);
	if (!rc) {
		p = (struct pollfd){ listener, POLLIN, 0 };
		fd[0] = poll(&p, 1, 5000) == 1 ? net_accept(listener) : -1;
		if (fd[0] < 0) {
			close(fd[1]);
			rc = err_set(e, ERR_IO,
			    "cannot connect to this process on the loopback interface");
		}
	}
	close(listener);
	for (int i = 0; !rc && i < 2; i++)
		net_tune(fd[i]);
	return rc;
}

/* Connects both ends and measures one shape of traffic. */
static enum err_code measure_shape(const struct transport *transport, enum suite suite,
    const struct conn_identity *id, const struct shape *s, struct measured *out, struct err *e)
{
	struct end client = { 0 }, server = { .server = true };
	struct hs_client_info info = { .incarnation = 1, .role = 1 };
	cpu_set_t may;
	struct samples samples = { mem_array(s->rounds, sizeof(double)),
		mem_array(s->rounds, sizeof(double)), mem_array(s->rounds, sizeof(double)) };
	uint8_t *body = mem_array(s->burst, s->len);
	pthread_t thread;
	int fd[2];
	enum err_code rc = connect_ends(transport, fd, e);

	if (rc) {
		free(samples.seal);
		free(samples.client);
		free(samples.wall);
		free(body);
		return rc;
	}
	server.took = mem_array(s->rounds, sizeof *server.took);
	client.large = server.large = s->len == LARGE;
	server.conn = conn_accept(fd[0], id, suite, 0, &handler, &server);
	client.conn = conn_dial(fd[1], id, id->hs.key.pk, &info, &handler, &client);
	rc = thread_start(&thread, serve_bursts, &server, e);
	if (!rc) {
		bool known = !pthread_getaffinity_np(pthread_self(), sizeof may, &may);

		gauge_pin(0);
		rc = conn_until(client.conn, end_is_up, &client, PATIENCE, e);
		if (!rc && transport->offers_memory(false))
			rc = conn_share(client.conn, e);
		/* Untouched pages would all be mapped to the same zero page. */
		memset(body, 1, (size_t)s->burst * s->len);
		if (!rc)
			rc = run_rounds(&client, s, body, &samples, e);
		if (known)
			pthread_setaffinity_np(pthread_self(), sizeof may, &may);
		if (rc)
			shutdown(fd[1], SHUT_RDWR);
		pthread_join(thread, NULL);
		/* The medians leave out the first rounds, which fill caches and find the other end
		 * asleep. */
		if (!rc)
			*out = (struct measured){ gauge_median(samples.seal, s->rounds),
				gauge_median(samples.client, s->rounds),
				gauge_median(server.took, server.n),
				gauge_median(samples.wall, s->rounds) };
	}
	free(samples.seal);
	free(samples.client);
	free(samples.wall);
	free(server.took);
	conn_free(client.conn);
	conn_free(server.conn);
	free(body);
	return rc;
}

/* Subtracts the fixed cost of messages. That was measured at another time, so a tenth of the total
 * is left for the bytes in any case. */
static double subtract_fixed(double all, double fixed)
{
	return all - fixed > all / 10 ? all - fixed : all / 10;
}

/* Three experiments between two threads: small records back and forth, the same with idle time in
 * between, and bursts of large ones. A small round trip is two records, each handled at two ends,
 * hence the division by 4. The cost of a burst minus that of two small records is the cost of its
 * bytes. The keys are made for this measurement and wiped. */
enum err_code gauge_wire(const char *transport, enum suite suite, size_t bytes,
    struct gauge_wire *out, struct err *e)
{
	unsigned burst = bytes / LARGE < 1 ? 1
	    : bytes / LARGE > BURST_MAX    ? BURST_MAX
	                                   : (unsigned)(bytes / LARGE);
	struct shape one = { ROUNDS_SMALL, 1, SMALL, false },
	             late = { ROUNDS_IDLE, 1, SMALL, true },
	             many = { ALL_LARGE / LARGE / burst, burst, LARGE, false };
	struct conn_identity id = { 0 };
	struct key_pair key;
	uint8_t psk[KEY_BYTES] = { 1 };
	struct measured small, idle, large;
	double n = (double)burst * LARGE;
	enum err_code rc = key_init(e);

	if (rc)
		return rc;
	if (!suite_available(suite))
		return err_set(e, ERR_CONFIG, "suite: \"%s\" is not available on this processor",
		    suite_name(suite));
	key_pair_generate(&key);
	handshake_identity_init(&id.hs, &key, psk);
	rc = measure_shape(transport_find(transport), suite, &id, &one, &small, e);
	if (!rc)
		rc = measure_shape(transport_find(transport), suite, &id, &late, &idle, e);
	if (!rc)
		rc = measure_shape(transport_find(transport), suite, &id, &many, &large, e);
	handshake_identity_wipe(&id.hs);
	key_pair_wipe(&key);
	if (rc)
		return rc;
	out->message = (small.client + small.server) / 4;
	out->seal_byte = large.seal / n;
	out->send_byte = subtract_fixed(large.client - large.seal, 2 * out->message) / n;
	out->take_byte = subtract_fixed(large.server, 2 * out->message) / n;
	out->hop = idle.wall / 2 - 2 * out->message;
	out->hop = out->hop < 0 ? 0 : out->hop;
	return ERR_OK;
}
