/* SPDX-License-Identifier: ISC */
/* The functions of libcurl that pskit calls; libcurl and the thirty libraries that it needs are
 * loaded at the first call. */
#include <curl/curl.h>
#include <pthread.h>
#include <stdarg.h>

#include "core/lazy_load.h"

/* These are macros that check the types of arguments. */
#undef curl_easy_setopt
#undef curl_easy_getinfo

#define CURL_CALL(type, name, params, args) \
	LAZY_CALL("libcurl.so.4", "libcurl4", type, name, params, args)

CURL_CALL(CURLcode, curl_global_init, (long flags), (flags))
CURL_CALL(curl_version_info_data *, curl_version_info, (CURLversion v), (v))
CURL_CALL(void, curl_easy_cleanup, (CURL * h), (h))
CURL_CALL(void, curl_easy_reset, (CURL * h), (h))
CURL_CALL(CURLcode, curl_easy_perform, (CURL * h), (h))
CURL_CALL(const char *, curl_easy_strerror, (CURLcode code), (code))
CURL_CALL(CURLHcode, curl_easy_header,
    (CURL * h, const char *name, size_t at, unsigned int origin, int request,
        struct curl_header **out),
    (h, name, at, origin, request, out))
CURL_CALL(struct curl_slist *, curl_slist_append, (struct curl_slist * list, const char *line),
    (list, line))
CURL_CALL(void, curl_slist_free_all, (struct curl_slist * list), (list))

/* Finds a function of libcurl, at the first call alone. */
static void *find_curl_call(_Atomic(void *) *found, const char *name)
{
	void *f = atomic_load_explicit(found, memory_order_acquire);

	if (f == NULL) {
		f = lazy_find("libcurl.so.4", "libcurl4", name);
		atomic_store_explicit(found, f, memory_order_release);
	}
	return f;
}

static void start_curl(void)
{
	curl_global_init(CURL_GLOBAL_ALL);
}

/* A program that needs no connection does not start libcurl. NULL, too, if that has failed. */
CURL *curl_easy_init(void)
{
	static pthread_once_t started = PTHREAD_ONCE_INIT;
	static _Atomic(void *) found;
	__typeof__(&curl_easy_init) init = find_curl_call(&found, "curl_easy_init");

	pthread_once(&started, start_curl);
	return init();
}

/* The number of an option tells the type of its value. */
CURLcode curl_easy_setopt(CURL *h, CURLoption option, ...)
{
	static _Atomic(void *) found;
	__typeof__(&curl_easy_setopt) set = find_curl_call(&found, "curl_easy_setopt");
	CURLcode rc;
	va_list values;

	va_start(values, option);
	if (option < CURLOPTTYPE_OBJECTPOINT)
		rc = set(h, option, va_arg(values, long));
	else if (option >= CURLOPTTYPE_OFF_T && option < CURLOPTTYPE_BLOB)
		rc = set(h, option, va_arg(values, curl_off_t));
	else
		rc = set(h, option, va_arg(values, void *));
	va_end(values);
	return rc;
}

CURLcode curl_easy_getinfo(CURL *h, CURLINFO info, ...)
{
	static _Atomic(void *) found;
	__typeof__(&curl_easy_getinfo) get = find_curl_call(&found, "curl_easy_getinfo");
	CURLcode rc;
	va_list values;

	va_start(values, info);
	rc = get(h, info, va_arg(values, void *));
	va_end(values);
	return rc;
}
