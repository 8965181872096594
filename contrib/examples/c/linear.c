/* Least squares as a worker of its own: cc -O2 -o linear linear.c $(pkg-config --cflags --libs pskit) */
#include <pskit.h>
#include <stdio.h>
enum { ROWS = 400, COLS = 4 };          /* of a row of linear.csv the last number is the target */
static double x[ROWS][COLS];

/* The mean loss of some examples, and its gradient. */
static double gradient(const struct ps_step *s, const float *w, float *g)
{
	double loss = 0, sum[COLS] = { 0 }, n = (double)(s->end - s->begin);
	for (uint64_t i = s->begin; i < s->end; i++) {
		double d = w[COLS - 1] - x[i][COLS - 1];
		for (int k = 0; k < COLS - 1; k++)
			d += w[k] * x[i][k];
		for (int k = 0; k < COLS; k++)
			sum[k] += d * (k < COLS - 1 ? x[i][k] : 1);
		loss += d * d / 2;
	}
	for (int k = 0; k < COLS; k++)
		g[k] = (float)(sum[k] / n);
	return loss / n;
}

int main(void)
{
	FILE *f = fopen("linear.csv", "r");
	struct ps_step s;
	struct ps *p;
	int n = 0, rc;
	while (f && n < ROWS && fscanf(f, "%lf,%lf,%lf,%lf", &x[n][0], &x[n][1], &x[n][2], &x[n][3]) == COLS)
		n++;
	rc = ps_open(NULL, NULL, &p) || ps_join(p, "w:4", (uint64_t)n) ? PS_FAILED : PS_OK;
	while (!rc && (rc = ps_step_begin(p, &s)) == PS_OK)
		rc = ps_step_end(p, gradient(&s, ps_param(p, "w", NULL), ps_grad(p, "w", NULL)));
	rc = rc == PS_OVER ? ps_finish(p, NULL, NULL) : rc;
	if (rc)
		fprintf(stderr, "linear: %s\n", ps_message(p));
	ps_close(p);
	return rc != 0;
}
