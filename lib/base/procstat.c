#include "base/procstat.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

void procstat_read(struct procstat *out)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long long size, resident;
	struct rusage ru;
	struct dirent *d;
	DIR *dir;

	*out = (struct procstat){ 0 };
	if (f) {
		if (fscanf(f, "%llu %llu", &size, &resident) == 2)
			out->rss_bytes = resident * (uint64_t)sysconf(_SC_PAGESIZE);
		fclose(f);
	}
	if (getrusage(RUSAGE_SELF, &ru) == 0)
		out->cpu_seconds = (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
		    (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1e-6;
	dir = opendir("/proc/self/fd");
	while (dir && (d = readdir(dir)))
		out->open_fds += d->d_name[0] != '.';
	if (dir)
		closedir(dir);
}
