/* SPDX-License-Identifier: ISC */
#include "supervisor/end_reports.h"

#include <stdio.h>
#include <unistd.h>

#include "core/json.h"
#include "http/client.h"

void end_reports_add(struct end_reports *r, const char *id, const char *how, enum err_cause cause,
    bool returns)
{
	char number[40];

	/* The coordinator records a report once, also if it is sent again. */
	snprintf(number, sizeof number, "%d-%u", (int)getpid(), ++r->count);
	if (!r->pending)
		r->pending = json_array();
	json_array_append_new(r->pending,
	    json_pack("{s:s, s:s, s:s, s:s, s:b}", "report", number, "id", id, "how", how, "cause",
	        err_cause_name(cause), "returns", returns));
}

enum err_code end_reports_send(struct end_reports *r, struct http_client *client, int64_t timeout,
    struct err *e)
{
	while (json_array_size(r->pending) > 0) {
		int status = 0;
		enum err_code rc = http_call(client, "POST", "/v1/ended",
		    json_array_get(r->pending, 0), timeout, &status, NULL, e);

		/* Another answer than "not now" is final. */
		if (status == 0 || status == 429 || status == 503)
			return ERR_OK;
		json_array_remove(r->pending, 0);
		if (rc)
			return rc;
	}
	return ERR_OK;
}

void end_reports_release(struct end_reports *r)
{
	json_decref(r->pending);
	*r = (struct end_reports){ 0 };
}
