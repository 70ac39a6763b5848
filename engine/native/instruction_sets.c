/* Which kernels this processor can run, and what they share. */
#include "kernel.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* The register states that the system saves when it changes threads: XCR0. */
#define STATE_AVX 0x6U
#define STATE_AVX512 0xe6U

static uint32_t saved_states(void) {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

/* Asked by CPUID: `__builtin_cpu_supports` is always 0 where the compiler's runtime is zig's. `wide` and `more` are bits of
 * leaf 7. */
static bool has_bits(uint32_t wide, uint32_t more, uint32_t states) {
    const uint32_t wanted = bit_FMA | bit_F16C | bit_OSXSAVE;
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & wanted) != wanted || (saved_states() & states) != states)
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & wide) == wide && (c & more) == more;
}

static bool has_avx2(void) { return has_bits(bit_AVX2, 0, STATE_AVX); }

static bool has_avx512(uint32_t more) {
    return has_bits(bit_AVX2 | bit_AVX512F | bit_AVX512BW | bit_AVX512VL, more, STATE_AVX512);
}
#endif

const struct kernel *kernel_named(const char *name) {
    if (strcmp(name, kernel_scalar.name) == 0)
        return &kernel_scalar;
#if defined(__x86_64__)
    if (strcmp(name, kernel_avx2.name) == 0)
        return has_avx2() ? &kernel_avx2 : NULL;
    if (strcmp(name, kernel_avx512.name) == 0)
        return has_avx512(0) ? &kernel_avx512 : NULL;
    if (strcmp(name, kernel_vnni.name) == 0)
        return has_avx512(bit_AVX512VNNI) ? &kernel_vnni : NULL;
#elif defined(__aarch64__)
    if (strcmp(name, kernel_neon.name) == 0)
        return &kernel_neon;
#endif
    return NULL;
}

const struct kernel *kernel_best(void) {
    static const char *const names[] = {"vnni", "avx512", "avx2", "neon"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct kernel *kernel = kernel_named(names[i]);
        if (kernel != NULL)
            return kernel;
    }
    return &kernel_scalar;
}

compare_fn kernel_compare(const struct kernel *kernel, enum metric metric, bool is_f16) {
    if (metric_is_l2(metric))
        return is_f16 ? kernel->l2_f16 : kernel->l2_f32;
    return is_f16 ? kernel->dot_f16 : kernel->dot_f32;
}

double metric_score(enum metric metric, float value) {
    if (isnan(value)) /* infinity minus infinity: as far as can be */
        return -INFINITY;
    double score = value;
    if (metric == METRIC_EUCLIDEAN)
        return -sqrt(score);
    if (metric == METRIC_CHORD)
        score = 1.0 - score / 2.0;
    return metric == METRIC_DOT ? score : fmin(fmax(score, -1.0), 1.0);
}
