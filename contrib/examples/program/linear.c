/* Least squares for ps-work train --exec; in the data's rows the last number is the target.
 *   cc -O2 -o linear-c linear.c */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { FEATURES_MAX = 1000 };

/* TABLE.param or TABLE.grad, as float32 in memory. */
static float *map(const char *name, size_t n)
{
	char path[4096];
	int fd;
	void *p;

	snprintf(path, sizeof path, "%s/%s", getenv("PSKIT_DIR"), name);
	fd = open(path, O_RDWR);
	p = mmap(NULL, n * sizeof(float), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* The next row: how many numbers. */
static int row(FILE *f, double *x)
{
	char line[16 * FEATURES_MAX], *at = line, *end;
	int n = 0;

	if (!fgets(line, sizeof line, f))
		return 0;
	for (; n < FEATURES_MAX; at = end + 1) {
		x[n] = strtod(at, &end);
		if (end == at)
			break;
		n++;
		if (*end != ',')
			break;
	}
	return n;
}

int main(void)
{
	static double x[FEATURES_MAX], g[FEATURES_MAX];
	char line[8192], path[4096];
	unsigned long long begin, end;
	unsigned n;
	float *w = NULL, *grad = NULL;

	while (fgets(line, sizeof line, stdin)) {
		double loss = 0;
		int m = 1;
		FILE *f;

		if (sscanf(line, "step %*u examples %u data %4095s %llu %llu", &n, path, &begin, &end) != 4)
			continue;       /* the first line is JSON, for others */
		f = fopen(path, "r");
		memset(g, 0, sizeof g);
		for (unsigned long long i = 0; f && i < end; i++) {
			double d;

			m = row(f, x);
			if (!w && m > 0) {
				w = map("w.param", (size_t)m);
				grad = map("w.grad", (size_t)m);
			}
			if (i < begin || m < 1 || !w || !grad)
				continue;
			d = w[m - 1] - x[m - 1];
			for (int k = 0; k < m - 1; k++)
				d += w[k] * x[k];
			loss += d * d / 2;
			g[m - 1] += d;
			for (int k = 0; k < m - 1; k++)
				g[k] += d * x[k];
		}
		if (!f || !w || !grad) {
			printf("error cannot read %s, or the files in PSKIT_DIR\n", path);
			return 1;
		}
		fclose(f);
		for (int k = 0; k < m; k++)
			grad[k] = (float)(g[k] / n);
		printf("ok loss %.17g examples %u\n", loss / n, n);
		fflush(stdout);
	}
	return 0;
}
