/* Prices European call options by the formula of Black and Scholes: 60 operations in one pass. */
#include "check.h"

#include <math.h>

/* The standard normal distribution, computed by the error function. */
#define NORMAL(x) "(0.5 + 0.5*erf(" x "*0.7071067811865476))"
#define D1 "((log(s/k) + (r + 0.5*v*v)*t) / (v*sqrt(t)))"
#define CALL "s*" NORMAL(D1) " - k*exp(-r*t)*" NORMAL("(" D1 " - v*sqrt(t))")

/* The same for one option, in double. */
static double price(double s, double k, double t, double r, double v)
{
    const double d1 = (log(s / k) + (r + 0.5 * v * v) * t) / (v * sqrt(t));
    const double d2 = d1 - v * sqrt(t);
    return s * 0.5 * erfc(-d1 * sqrt(0.5)) - k * exp(-r * t) * 0.5 * erfc(-d2 * sqrt(0.5));
}

int main(int argc, char **argv)
{
    /* Arrays: the share's price, the strike price, the years to expiry. Numbers, which each call
     * passes: the interest and the volatility. */
    static const char *const NAMES[] = {"s", "k", "t", "r", "v"};
    static const int32_t TYPES[] = {GPUVEC_F32, GPUVEC_F32, GPUVEC_F32, GPUVEC_F64 | GPUVEC_NUMBER,
                                    GPUVEC_F64 | GPUVEC_NUMBER};
    const size_t n = size_argument(argc, argv, 1000000);
    float *const s = malloc(n * sizeof *s), *const k = malloc(n * sizeof *k);
    float *const t = malloc(n * sizeof *t), *const call = malloc(n * sizeof *call);
    CHECK(s != NULL && k != NULL && t != NULL && call != NULL);
    for (size_t i = 0; i < n; i++) {
        s[i] = 80.0f + (float)(i % 41);
        k[i] = 90.0f + (float)(i % 23);
        t[i] = 0.25f + (float)(i % 13) / 4;
    }

    gpuvec_expr *expr;
    CHECK_OK(gpuvec_expr_compile(CALL, NAMES, TYPES, 5, &expr));
    for (int volatility = 10; volatility <= 30; volatility += 10) {
        const double r = 0.03, v = volatility / 100.0;
        const void *const inputs[] = {s, k, t, &r, &v};
        CHECK_OK(gpuvec_expr_run(expr, inputs, call, n, NULL));
        double largest = 0;
        for (size_t i = 0; i < n; i++) {
            largest = fmax(largest, fabs(call[i] - price(s[i], k[i], t[i], r, v)));
        }
        printf("volatility %d %%: option 0 costs %.4f; the largest error is %.1e\n", volatility,
               call[0], largest);
        CHECK(largest < 1e-4);
    }
    print_run("Black-Scholes");
    CHECK_OK(gpuvec_expr_destroy(expr));
    free(s);
    free(k);
    free(t);
    free(call);
    return EXIT_SUCCESS;
}
