/* SPDX-License-Identifier: ISC */
#include "web/assets.h"

#include <string.h>

/* PS_WEB is the directory in which the Makefile packs lib/web/page. */
#define PACK(name, file) \
	__asm__(".pushsection .rodata\n" \
	        ".balign 16\n" \
	        "web_" #name ":\n" \
	        ".incbin \"" PS_WEB "/" file ".gz\"\n" \
	        "web_" #name "_end:\n" \
	        ".popsection\n"); \
	extern const unsigned char web_##name[] __attribute__((visibility("hidden"))); \
	extern const unsigned char web_##name##_end[] __attribute__((visibility("hidden")));

PACK(index, "index.html")
PACK(script, "app.js")
PACK(style, "app.css")
PACK(icon, "icon.svg")

bool web_asset(const char *path, struct web_asset *out)
{
	static const struct {
		const char *path, *type;
		const unsigned char *from, *to;
	} all[] = {
		{ "/", "text/html; charset=utf-8", web_index, web_index_end },
		{ "/app.js", "text/javascript; charset=utf-8", web_script, web_script_end },
		{ "/app.css", "text/css; charset=utf-8", web_style, web_style_end },
		{ "/icon.svg", "image/svg+xml", web_icon, web_icon_end },
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(all[i].path, path) == 0) {
			*out = (struct web_asset){ all[i].type, all[i].from,
				(size_t)(all[i].to - all[i].from) };
			return true;
		}
	return false;
}
