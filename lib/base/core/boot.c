/* SPDX-License-Identifier: ISC */
#include "core/boot.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"

void boot_id(char out[static BOOT_TEXT])
{
	struct buf b = BUF_INIT;

	out[0] = '\0';
	if (file_read("/proc/sys/kernel/random/boot_id", BOOT_TEXT - 1, &b, NULL) == ERR_OK)
		snprintf(out, BOOT_TEXT, "%.*s", (int)strcspn((const char *)b.data, "\n"),
		    (const char *)b.data);
	buf_release(&b);
}

void boot_pid_namespace(char out[static BOOT_TEXT])
{
	ssize_t n = readlink("/proc/self/ns/pid", out, BOOT_TEXT - 1);

	out[n < 0 ? 0 : n] = '\0';
}
