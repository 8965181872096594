/* SPDX-License-Identifier: ISC */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/calls.h"
#include "tests/sim/etcd.h"
#include "tests/sim/sim.h"

/* In place of libcurl, as far as the client of etcd uses it: requests go to the etcd of the simulation
 * (etcd.c). */

struct handle {
	char url[256];
	const char *body;
	long timeout_ms;
	size_t (*take)(char *data, size_t size, size_t n, void *ctx);
	void *ctx;
};

CURL *sim_curl_easy_init(void)
{
	return sim_calloc(1, sizeof(struct handle));
}

void sim_curl_easy_cleanup(CURL *h)
{
	sim_free(h);
}

CURLcode sim_curl_easy_setopt(CURL *h, CURLoption option, ...)
{
	struct handle *c = h;
	va_list ap;

	va_start(ap, option);
	if (option == CURLOPT_URL)
		snprintf(c->url, sizeof c->url, "%s", va_arg(ap, const char *));
	else if (option == CURLOPT_POSTFIELDS)
		c->body = va_arg(ap, const char *);
	else if (option == CURLOPT_TIMEOUT_MS)
		c->timeout_ms = va_arg(ap, long);
	else if (option == CURLOPT_WRITEFUNCTION)
		c->take = va_arg(ap, size_t(*)(char *, size_t, size_t, void *));
	else if (option == CURLOPT_WRITEDATA)
		c->ctx = va_arg(ap, void *);
	va_end(ap);
	return CURLE_OK;
}

/* A process that was stopped may find an answer and the end of its time together: then the answer may count or
 * not. */
CURLcode sim_curl_easy_perform(CURL *h)
{
	struct handle *c = h;
	int64_t deadline = sim_now + c->timeout_ms * MSEC;
	struct etcd_exchange *x;
	CURLcode code = CURLE_OK;
	unsigned member;
	char method[64];
	size_t n;

	if (sscanf(c->url, "http://etcd-%u:2379/v3/%63s", &member, method) != 2)
		return CURLE_COULDNT_RESOLVE_HOST;
	x = etcd_post(member, method, c->body);
	while (!x->state && sim_now < deadline)
		fiber_wait_one(&x->wait, deadline);
	if (x->state == ETCD_REFUSED)
		code = CURLE_COULDNT_CONNECT;
	else if (!x->state || (sim_now > deadline + MSEC && sim_chance(50)))
		code = CURLE_OPERATION_TIMEDOUT;
	n = x->reply ? strlen(x->reply) : 0;
	if (!code && c->take(x->reply, 1, n, c->ctx) != n)
		code = CURLE_WRITE_ERROR;
	etcd_give_up(x);
	return code;
}

const char *sim_curl_easy_strerror(CURLcode code)
{
	return code == CURLE_COULDNT_CONNECT   ? "no connection"
	    : code == CURLE_OPERATION_TIMEDOUT ? "no answer in time"
	                                       : "not simulated";
}

/* ---- what only other clients ask for, which reach nobody here ---- */

void sim_curl_easy_reset(CURL *h)
{
	memset(h, 0, sizeof(struct handle));
}

CURLcode sim_curl_easy_getinfo(CURL *h, CURLINFO info, ...)
{
	(void)h;
	(void)info;
	return CURLE_UNKNOWN_OPTION;
}

CURLHcode sim_curl_easy_header(CURL *h, const char *name, size_t at, unsigned origin, int request,
    struct curl_header **out)
{
	(void)h;
	(void)name;
	(void)at;
	(void)origin;
	(void)request;
	*out = NULL;
	return CURLHE_MISSING;
}

struct curl_slist *sim_curl_slist_append(struct curl_slist *list, const char *text)
{
	struct curl_slist *one = sim_calloc(1, sizeof *one), **at = &list;

	one->data = sim_strdup(text);
	while (*at)
		at = &(*at)->next;
	*at = one;
	return list;
}

void sim_curl_slist_free_all(struct curl_slist *list)
{
	while (list) {
		struct curl_slist *next = list->next;

		sim_free(list->data);
		sim_free(list);
		list = next;
	}
}
