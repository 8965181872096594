/* SPDX-License-Identifier: ISC */
#ifndef WEB_ASSETS_H
#define WEB_ASSETS_H

#include <stdbool.h>
#include <stddef.h>

/* The files of the dashboard's page. The build compresses them (gzip) and links them into the
 * program: nothing is read from the disk, and the page loads nothing from elsewhere. Read-only
 * data; any thread may use it. */
struct web_asset {
	const char *type; /* Content-Type */
	const unsigned char *gz;
	size_t len;
};

/* Finds the file for a path of the page ("/", "/app.js", ...). Returns false when there is
 * none. */
bool web_asset(const char *path, struct web_asset *out);

/* The page's Content-Security-Policy: it may use its own scripts, styles, images and requests, and
 * nothing else. */
#define WEB_POLICY \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " \
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

#endif
