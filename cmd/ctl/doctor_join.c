/* SPDX-License-Identifier: ISC */
#include "core/num.h"
#include "doctor.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"
#include "ctl.h"
#include "session/identity.h"
#include "session/probe.h"

#define STATUS_WAIT (5 * NSEC_PER_SEC)

/* Connects to the coordinator's data port with the key of the join file, and measures the link.
 * Returns ERR_AUTH or ERR_FORBIDDEN when the coordinator refuses us, ERR_UNREACH when it cannot be
 * reached. */
static enum err_code try_coordinator(struct doctor *d, const struct identity *id,
    const char *address)
{
	const struct dial_target to = { .tcp = address,
		.key = id->server_key,
		.transport = transport_find("tcp"),
		.id = &id->conn,
		.info = { .rank = UINT32_MAX, .role = ROLE_WORKER } };
	struct probe_result r;
	char text[1000], up[16], down[16];

	probe_link(&to, NULL, &r);
	num_count(r.up, up);
	num_count(r.down, down);
	if (r.stage == PROBE_DONE) {
		doctor_add_finding(d, DOCTOR_OK, DOCTOR_PLAIN, "links", address, "",
		    "the coordinator at %s accepts this key: %sB/s there, %sB/s back, round trip %.3g ms",
		    address, up, down, r.rtt * 1e3);
	} else if (r.stage == PROBE_TRANSFER) {
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "links", address,
		    "test the MTU: ping -M do -s 1472 HOST; lower it (ip link set dev DEV mtu "
		    "1400), or allow ICMP \"fragmentation needed\"",
		    "the coordinator at %s completes the handshake but receives no large records: %s",
		    address, r.why.msg);
	} else if (r.why.code == ERR_AUTH || r.why.code == ERR_FORBIDDEN) {
		snprintf(text, sizeof text, "the coordinator at %s refuses %s: %s", address,
		    id->name, r.why.msg);
		doctor_add_finding(d, DOCTOR_FAIL, DOCTOR_CAUSE, "keys", id->name,
		    "make a new join file on the coordinator's host: ps-ctl invite", "%s", text);
	} else {
		snprintf(text, sizeof text, "the coordinator at %s: %s", address, r.why.msg);
		doctor_add_message(d, DOCTOR_FAIL, DOCTOR_CAUSE, address, r.why.cause, text);
	}
	return r.why.code;
}

/* Tries the coordinators of the join file in turn. ERR_OK: one of them accepts the key; else the
 * error of the last one. */
static enum err_code try_coordinators(struct doctor *d, const struct identity *id)
{
	enum err_code code = ERR_UNREACH;
	char address[NET_TEXT];

	for (size_t i = 0; code && net_list_at(id->data, i, address); i++)
		code = try_coordinator(d, id, address);
	return code;
}

/* Asks the coordinator by HTTP what it reports about the cluster. Requests are signed, so this
 * also detects clocks that differ. When the data port was `unreached` and HTTP is, too, that
 * failure has been reported. */
static void ask_coordinator(struct doctor *d, const struct identity *id, bool unreached)
{
	struct http_target target = { .addr = id->http,
		.server_pk = id->server_key,
		.keys = &id->conn.hs.key,
		.psk = id->conn.hs.psk };
	struct err e = { 0 };

	if (!*id->http)
		doctor_add_finding(d, DOCTOR_OK, DOCTOR_PLAIN, "config", "", "",
		    "the file has no address of the control plane, so there are no further checks");
	else if (http_client_new(&target, &d->client, &e))
		doctor_add_message(d, DOCTOR_FAIL, DOCTOR_PLAIN, id->http, e.cause, e.msg);
	else if (!unreached ||
	    http_call(d->client, "GET", "/v1/status", NULL, STATUS_WAIT, NULL, NULL, &e) !=
	        ERR_UNREACH)
		doctor_live(d);
}

void doctor_join(struct doctor *d, const char *file)
{
	struct identity id = { 0 };
	struct err e = { 0 };
	enum err_code code;

	if (identity_from_join(file, &id, &e)) {
		doctor_add_message(d, DOCTOR_FAIL, DOCTOR_CAUSE, file, e.cause, e.msg);
		return;
	}
	doctor_add_finding(d, DOCTOR_OK, DOCTOR_PLAIN, "keys", file, "",
	    "%s is the join file of %s, and only its owner can read it", file, id.name);
	code = try_coordinators(d, &id);
	if (code != ERR_AUTH && code != ERR_FORBIDDEN)
		ask_coordinator(d, &id, code == ERR_UNREACH);
	identity_release(&id);
}
