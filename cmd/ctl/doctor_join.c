#include "doctor.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/identity.h"
#include "client/probe.h"
#include "ctl.h"

/* On another host, with the file that is to be used there. */

/* False: it knows us, and does not want us. */
static bool try_coordinator(struct doctor *d, const struct identity *id)
{
	struct hs_client_info info = { .slot = UINT32_MAX, .role = ROLE_WORKER };
	struct probe_result r;
	char text[700], up[16], down[16];

	memcpy(info.cluster, id->conn.cluster, sizeof info.cluster);
	probe_line(id->data, &id->conn, id->server_key, &info, NULL, &r);
	ctl_count(r.up, up);
	ctl_count(r.down, down);
	if (r.stage == PROBE_DONE) {
		doctor_say(d, DOCTOR_OK, DOCTOR_PLAIN, "lines", id->data, "", "the coordinator at %s knows this key: %sB/s there, %sB/s back, round trip %.3g ms",
		    id->data, up, down, r.rtt * 1e3);
	} else if (r.stage == PROBE_TRANSFER) {
		doctor_say(d, DOCTOR_FAIL, DOCTOR_CAUSE, "lines", id->data,
		    "try the MTU: ping -M do -s 1472 HOST; lower it (ip link set dev DEV mtu 1400) or let ICMP \"fragmentation needed\" pass",
		    "the coordinator at %s shakes hands, and gets no large records: %s", id->data, r.why.msg);
	} else if (r.why.code == ERR_AUTH || r.why.code == ERR_FORBIDDEN) {
		snprintf(text, sizeof text, "the coordinator at %s refuses %s: %s", id->data, id->name, r.why.msg);
		doctor_say(d, DOCTOR_FAIL, DOCTOR_CAUSE, "keys", id->name, "have a new join file made on the coordinator's host: ps-ctl invite", "%s", text);
	} else {
		snprintf(text, sizeof text, "the coordinator at %s: %s", id->data, r.why.msg);
		doctor_words(d, DOCTOR_FAIL, DOCTOR_CAUSE, id->data, text);
	}
	return r.why.code != ERR_AUTH && r.why.code != ERR_FORBIDDEN;
}

/* Signed questions also tell when the clocks differ. */
static void ask_coordinator(struct doctor *d, const struct identity *id)
{
	struct http_target target = { .addr = id->http, .server_pk = id->server_key, .keys = &id->conn.hs.key, .psk = id->conn.hs.psk };
	struct err e = { 0 };

	if (!*id->http)
		doctor_say(d, DOCTOR_OK, DOCTOR_PLAIN, "config", "", "", "the file names no control plane: nothing more can be asked from here");
	else if (http_client_new(&target, &d->client, &e))
		doctor_words(d, DOCTOR_FAIL, DOCTOR_PLAIN, id->http, e.msg);
	else
		doctor_live(d);
}

void doctor_join(struct doctor *d, const char *file)
{
	struct identity id = { .dirfd = -1 };
	struct err e = { 0 };

	if (identity_from_join(file, &id, &e)) {
		doctor_words(d, DOCTOR_FAIL, DOCTOR_CAUSE, file, e.msg);
		return;
	}
	doctor_say(d, DOCTOR_OK, DOCTOR_PLAIN, "keys", file, "", "%s is the join file of %s, and nobody else can read it", file, id.name);
	if (try_coordinator(d, &id))
		ask_coordinator(d, &id);
	identity_release(&id);
}
