#ifndef WEB_ASSETS_H
#define WEB_ASSETS_H

#include <stdbool.h>
#include <stddef.h>

/* The files of the dashboard's page, which the build packs (gzip) into the program: nothing
 * is looked for on the disk, and nothing is loaded from elsewhere. */
struct web_asset {
	const char *type;               /* Content-Type */
	const unsigned char *gz;
	size_t len;
};

/* The file of "/", "/app.js" ...; false: there is none. */
bool web_asset(const char *path, struct web_asset *out);

/* What the page may do: its own scripts, styles and requests, and nothing else. */
#define WEB_POLICY "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " \
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

#endif
