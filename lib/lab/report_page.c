/* SPDX-License-Identifier: ISC */
#include "core/num.h"
#include "lab/report_page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/version.h"
#include "lab/report_html.h"
#include "lab/report_table.h"
#include "msg/words.h"
#include "rundir/event_list.h"
#include "rundir/run_colour.h"

/* If there are more events, frequent kinds are left out. */
#define EVENTS_SHOWN 300

static const char style[] =
    ":root{color-scheme:light dark;--fg:#1b2330;--dim:#5d6879;--bg:#fff;--card:#f4f6f9;--line:#d5dbe3;"
    "--c0:#1f5fbf;--c1:#c4510c;--ok:#1a7f4b;--bad:#b3261e;--warn:#8a5a00}\n"
    "@media(prefers-color-scheme:dark){:root{--fg:#e4e9f0;--dim:#9aa6b6;--bg:#12161d;--card:#1c222c;--line:#343d4a;"
    "--c0:#7ab0ff;--c1:#ff9d5c;--ok:#5fd394;--bad:#ff8a80;--warn:#f0c060}}\n"
    "@media print{:root{color-scheme:light;--fg:#000;--dim:#444;--bg:#fff;--card:#fff;--line:#aaa;"
    "--c0:#1f5fbf;--c1:#c4510c;--ok:#1a7f4b;--bad:#b3261e;--warn:#8a5a00}body{font-size:11px}"
    "figure,tr,.card{break-inside:avoid}h2{break-after:avoid}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:1100px;padding:24px 20px 48px;background:var(--bg);color:var(--fg);"
    "font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Noto Sans\",\"DejaVu Sans\",sans-serif}\n"
    "h1{font-size:26px;line-height:1.2;margin:0 12px 4px "
    "0;overflow-wrap:anywhere}h2{font-size:18px;margin:32px 0 10px}\n"
    "header{display:flex;flex-wrap:wrap;align-items:baseline}\n"
    ".state{font-weight:600;border:1.5px solid;border-radius:99px;padding:1px 12px}\n"
    ".done{color:var(--ok)}.failed,.crashed{color:var(--bad)}.stopped,.running{color:var(--warn)}\n"
    ".note,.when{color:var(--dim);margin:4px 0}.reason{overflow-wrap:anywhere}\n"
    ".cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:10px;margin-top:16px}\n"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:8px 12px;min-width:0}\n"
    ".card b{display:block;font-size:19px;font-weight:600;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}\n"
    ".card span{color:var(--dim);font-size:13px}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:20px 28px}\n"
    "figure{margin:0;min-width:0}figcaption{font-weight:600}figcaption small{font-weight:400;color:var(--dim)}\n"
    "svg.plot{display:block;width:100%;height:auto}\n"
    "svg text{font-size:12px;fill:var(--dim);font-variant-numeric:tabular-nums}\n"
    ".grid{stroke:var(--line);stroke-width:1}.axis{stroke:var(--dim)}\n"
    ".mark{stroke:var(--bad);stroke-dasharray:2 3;opacity:.75}\n"
    "path{fill:none;stroke-width:2;stroke-linejoin:round}path.c0{stroke:var(--c0)}"
    "path.c1{stroke:var(--c1);stroke-dasharray:6 3}\n"
    "circle.c0{fill:var(--c0)}circle.c1{fill:var(--c1)}\n"
    ".legend{margin:2px 0;font-size:13px;color:var(--dim)}.legend span{margin-right:14px;white-space:nowrap}\n"
    "svg.key{width:24px;height:8px;vertical-align:middle}\n"
    "table{border-collapse:collapse;width:100%;font-size:14px}\n"
    "th{text-align:left;color:var(--dim);font-weight:600}th,td{padding:4px 14px 4px "
    "0;border-bottom:1px solid var(--line);"
    "vertical-align:top}\n"
    ".wide{overflow-x:auto}td:last-child,td.v:nth-child(2){overflow-wrap:anywhere}td:first-child{white-space:nowrap}\n"
    "code,.v{font-family:ui-monospace,\"DejaVu Sans "
    "Mono\",Menlo,Consolas,monospace;font-size:13px}code{overflow-wrap:anywhere}\n"
    ".all{columns:2 380px;column-gap:36px;font-size:13px;margin:0}.all div{break-inside:avoid;display:flex;"
    "justify-content:space-between;gap:16px;border-bottom:1px solid var(--line);padding:2px 0}\n"
    ".all dt{color:var(--dim)}.all dd{margin:0;text-align:right;overflow-wrap:anywhere;min-width:0}\n"
    ".news td{font-weight:600}\n"
    "footer{margin-top:36px;color:var(--dim);font-size:13px}\n"
    "@media(max-width:480px){body{padding:16px 12px 32px}.cards{grid-template-columns:1fr 1fr}td,th{padding-right:8px}"
    "svg text{font-size:14px}}\n";

/* ---- the head ---- */

/* The policy in the head forbids scripts and all loading, so a page that shows foreign text stays
 * harmless even if one escape were missing. */
void report_page_begin(struct buf *out, const char *title, const char *more_style)
{
	buf_puts(out,
	    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
	    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
	    "<title>");
	report_html_text(out, title);
	buf_printf(out, "</title>\n<style>\n%s%s</style>\n</head>\n<body>\n", style, more_style);
}

void report_page_end(struct buf *out, const char *command)
{
	char now[32];

	clock_stamp(now);
	buf_printf(out,
	    "<footer>Made by pskit %s, %s, on %.10s %.8s UTC.</footer>\n</body>\n</html>\n",
	    PSKIT_VERSION, command, now, now + 11);
}

/* Appends a note when workers or their links were slowed down on purpose: the times are not measurements. */
static void put_emulation(struct buf *out, const struct report_run *r)
{
	const char *how = report_emulation(r);

	if (*how) {
		buf_puts(out, "<p class=\"reason\"><b>emulated</b>: ");
		report_html_printf(out, "workers or their links were slowed down by %s", how);
		buf_puts(out, "</p>\n");
	}
}

/* Time stamps are RFC 3339 and are cut to days and seconds. */
static void put_page_head(struct buf *out, const struct report_run *r)
{
	const char *name = *r->cluster ? r->cluster : r->name,
	           *reason = json_str(r->result, "reason", "");
	const struct run_colour *c = &run_colour[r->colour];
	char *title = mem_printf("%s: %s", name, r->state);
	/* The curves of evaluations are dashed. */
	char *colours = mem_printf(
	    ":root{--c0:%s;--c1:%s}@media(prefers-color-scheme:dark){:root{--c0:%s;--c1:%s}}"
	    "@media print{:root{--c0:%s;--c1:%s}}\n",
	    c->light, c->light, c->dark, c->dark, c->light, c->light);

	report_page_begin(out, title, colours);
	free(colours);
	free(title);
	buf_puts(out, "<header><h1>");
	report_html_text(out, name);
	buf_printf(out, "</h1><span class=\"state %s\">%s</span></header>\n", r->state, r->state);
	if (*reason && words_find(words_phase, r->state) != PHASE_DONE) {
		buf_puts(out, "<p class=\"reason\">");
		report_html_text(out, reason);
		buf_puts(out, "</p>\n");
	}
	put_emulation(out, r);
	buf_puts(out, "<p class=\"when\">");
	report_html_printf(out, "%s", r->name);
	if (*r->began)
		report_html_printf(out, " \302\267 began %.10s %.8s UTC", r->began, r->began + 11);
	if (*r->ended)
		report_html_printf(out, " \302\267 ended %.10s %.8s UTC", r->ended, r->ended + 11);
	buf_puts(out, "</p>\n");
}

static void put_result_card(struct buf *out, const char *name, const char *value)
{
	buf_puts(out, "<div class=\"card\"><b>");
	report_html_text(out, value);
	buf_puts(out, "</b><span>");
	report_html_text(out, name);
	buf_puts(out, "</span></div>\n");
}

/* Appends a card with one figure of the result; its name tells whether it is a number of bytes. */
static void put_result_figure(struct buf *out, const json_t *v, const char *figure)
{
	bool bytes = strlen(figure) > 6 && strcmp(figure + strlen(figure) - 6, "_bytes") == 0;
	char *name = mem_strdup(figure), *text = report_figure_text(v), count[16];

	for (char *p = name; *p; p++)
		*p = *p == '_' || *p == '.' ? ' ' : *p;
	if (bytes || (json_is_number(v) && strncmp(figure, "examples", 8) == 0)) {
		free(text);
		num_count(json_number_value(v), count);
		text = mem_printf("%s%s", count, bytes ? "B" : "");
	}
	if (bytes)
		name[strlen(name) - 6] = 0;
	put_result_card(out, name, text);
	free(name);
	free(text);
}

/* Figure 0 is the state, which the head shows already. */
static void put_result_cards(struct buf *out, const struct report_run *r)
{
	json_t *figures = report_figure_names(r, 1);
	const json_t *name, *digest = json_object_get(r->result, "model_digest");
	size_t i;

	buf_puts(out, "<div class=\"cards\">\n");
	json_array_foreach(figures, i, name) {
		const json_t *v = report_figure(r->result, json_string_value(name));

		if (i > 0 && json_is_number(v))
			put_result_figure(out, v, json_string_value(name));
	}
	buf_puts(out, "</div>\n");
	if (json_is_string(digest)) {
		buf_puts(out, "<p class=\"note\">model digest <code>");
		report_html_text(out, json_string_value(digest));
		buf_puts(out, "</code></p>\n");
	}
	json_decref(figures);
}

/* ---- settings ---- */

static void put_setting_row(struct buf *out, const char *key, const json_t *v, const json_t *deflt)
{
	char *text = report_value_text(v), *usual = report_value_text(deflt);

	buf_puts(out, "<tr><td class=\"v\">");
	report_html_text(out, key);
	buf_puts(out, "</td><td class=\"v\">");
	report_html_text(out, text);
	buf_puts(out, "</td><td class=\"v\">");
	report_html_text(out, *usual ? usual : "-");
	buf_puts(out, "</td></tr>\n");
	free(text);
	free(usual);
}

static void put_changed_settings(struct buf *out, const struct report_run *r)
{
	json_t *defaults = report_default_settings(), *v;
	const char *key;

	buf_puts(out,
	    "<h2>Settings that differ from the defaults</h2>\n"
	    "<div class=\"wide\"><table><tr><th>setting</th><th>value</th><th>default</th></tr>\n");
	json_object_foreach(r->settings, key, v)
		if (!json_equal(v, json_object_get(defaults, key)))
			put_setting_row(out, key, v, json_object_get(defaults, key));
	buf_puts(out, "</table></div>\n");
	json_decref(defaults);
}

static void put_all_settings(struct buf *out, const struct report_run *r)
{
	const char *key;
	json_t *v;

	buf_puts(out, "<h2>All settings</h2>\n<dl class=\"all\">\n");
	json_object_foreach(r->settings, key, v) {
		char *text = report_value_text(v);

		buf_puts(out, "<div><dt>");
		report_html_text(out, key);
		buf_puts(out, "</dt><dd>");
		report_html_text(out, *text ? text : "-");
		buf_puts(out, "</dd></div>\n");
		free(text);
	}
	buf_puts(out, "</dl>\n");
}

/* ---- events ---- */

static void collect_event(void *ctx, const json_t *line)
{
	json_array_append(ctx, (json_t *)line);
}

static void put_event_row(struct buf *out, const json_t *e, double epoch)
{
	const char *stamp = json_str(e, "ts", ""), *kind = json_str(e, "event", "");
	double since = report_parse_time(stamp) - epoch;

	buf_printf(out, "<tr%s><td>",
	    report_is_notable_event(event_kind_by_name(kind)) ? " class=\"news\"" : "");
	if (isfinite(since))
		report_html_printf(out, "%+.1f s", fabs(since) < 0.05 ? 0 : since);
	else
		report_html_printf(out, "%.19s", stamp);
	buf_puts(out, "</td><td>");
	report_html_text(out, kind);
	buf_puts(out, "</td><td>");
	report_html_text(out, json_str(e, "text", ""));
	buf_puts(out, "</td></tr>\n");
}

static void put_event_table(struct buf *out, const json_t *events, double epoch)
{
	json_t *shown = json_copy((json_t *)(uintptr_t)events);
	size_t left_out = event_list_trim(shown, EVENTS_SHOWN), i;
	const json_t *e;

	buf_puts(out, "<h2>Events</h2>\n");
	if (json_array_size(shown) == 0) {
		buf_puts(out, "<p>There are none.</p>\n");
		json_decref(shown);
		return;
	}
	buf_puts(out, "<div class=\"wide\"><table><tr><th>time</th><th>event</th><th></th></tr>\n");
	json_array_foreach(shown, i, e)
		put_event_row(out, e, epoch);
	if (left_out)
		buf_printf(out,
		    "<tr><td></td><td></td><td>%zu more, of frequent kinds, are in events.jsonl</td></tr>\n",
		    left_out);
	buf_puts(out, "</table></div>\n");
	json_decref(shown);
}

/* The page needs no other file and no network. It is made whole in memory; out is the caller's. */
void report_page(struct buf *out, const struct report_run *r)
{
	json_t *events = json_array();
	double epoch;

	report_each_line(r->dir, "events.jsonl", collect_event, events);
	put_page_head(out, r);
	put_result_cards(out, r);
	buf_puts(out, "<h2>Curves</h2>\n");
	report_curves(out, r, events, &epoch);
	put_changed_settings(out, r);
	put_event_table(out, events, epoch);
	put_all_settings(out, r);
	report_page_end(out, "ps-ctl report");
	json_decref(events);
}
