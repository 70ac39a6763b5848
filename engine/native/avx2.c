/* The kernel for AVX2 with FMA and F16C: x86-64 processors since 2013. */
#include "kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma,f16c")))
#define INLINE TARGET static inline __attribute__((always_inline))

/* ---- exact comparison ------------------------------------------------------------------------------------------- */

INLINE __m256 load8_f16(const uint8_t *row, size_t i) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(row + 2 * i)));
}

INLINE __m256 load8_f32(const uint8_t *row, size_t i) { return _mm256_loadu_ps((const float *)(row + 4 * i)); }

/* The first `count` (below 8) of the values from i on, and zeros. */
INLINE __m256 load_rest_f16(const uint8_t *row, size_t i, size_t count) {
    uint16_t rest[8] = {0};
    __builtin_memcpy(rest, row + 2 * i, 2 * count);
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)rest));
}

INLINE __m256 load_rest_f32(const uint8_t *row, size_t i, size_t count) {
    float rest[8] = {0};
    __builtin_memcpy(rest, row + 4 * i, 4 * count);
    return _mm256_loadu_ps(rest);
}

INLINE float sum8(__m256 values) {
    __m128 sums = _mm_add_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
    sums = _mm_add_ps(sums, _mm_movehl_ps(sums, sums));
    return _mm_cvtss_f32(_mm_add_ss(sums, _mm_movehdup_ps(sums)));
}

INLINE __m256 add_product(__m256 sum, __m256 a, __m256 b) { return _mm256_fmadd_ps(a, b, sum); }

INLINE __m256 add_square(__m256 sum, __m256 a, __m256 b) {
    const __m256 difference = _mm256_sub_ps(a, b);
    return _mm256_fmadd_ps(difference, difference, sum);
}

/* Four sums of eight values each hide the latency of an addition. */
#define COMPARE(name, type, add)                                                                                       \
    TARGET static float name(const float *query, const void *row, size_t d) {                                         \
        __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;                                                    \
        size_t i = 0;                                                                                                  \
        for (; i + 32 <= d; i += 32) {                                                                                 \
            s0 = add(s0, _mm256_loadu_ps(query + i), load8_##type(row, i));                                            \
            s1 = add(s1, _mm256_loadu_ps(query + i + 8), load8_##type(row, i + 8));                                    \
            s2 = add(s2, _mm256_loadu_ps(query + i + 16), load8_##type(row, i + 16));                                  \
            s3 = add(s3, _mm256_loadu_ps(query + i + 24), load8_##type(row, i + 24));                                  \
        }                                                                                                              \
        for (; i + 8 <= d; i += 8)                                                                                     \
            s0 = add(s0, _mm256_loadu_ps(query + i), load8_##type(row, i));                                            \
        if (i < d)                                                                                                     \
            s1 = add(s1, load_rest_f32((const uint8_t *)query, i, d - i), load_rest_##type(row, i, d - i));            \
        return sum8(_mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3)));                                      \
    }

COMPARE(dot_f16, f16, add_product)
COMPARE(dot_f32, f32, add_product)
COMPARE(l2_f16, f16, add_square)
COMPARE(l2_f32, f32, add_square)

/* ---- the scan --------------------------------------------------------------------------------------------------- */

/* Sums of bytes, widened: `all` adds even bytes plus 256 times odd ones, `odd` the odd ones. */
struct sums {
    __m256i all, odd;
};

INLINE void widen(struct sums *sums, __m256i bytes) {
    sums->all = _mm256_add_epi16(sums->all, bytes);
    sums->odd = _mm256_add_epi16(sums->odd, _mm256_srli_epi16(bytes, 8));
}

/* The estimates of 16 rows: those of the even bytes, then those of the odd ones; both halves of a register hold
 * a part of each sum, as they belong to the two sub-quantizers of a pair. */
INLINE __m256i in_order(struct sums sums) {
    const __m256i even = _mm256_sub_epi16(sums.all, _mm256_slli_epi16(sums.odd, 8));
    return _mm256_add_epi16(_mm256_permute2x128_si256(even, sums.odd, 0x21), _mm256_blend_epi32(even, sums.odd, 0xf0));
}

INLINE uint64_t above_mask(__m256i first, __m256i second, __m256i limit) {
    const __m256i is_above = _mm256_packs_epi16(_mm256_cmpgt_epi16(first, limit), _mm256_cmpgt_epi16(second, limit));
    return (uint32_t)_mm256_movemask_epi8(_mm256_permute4x64_epi64(is_above, 0xd8));
}

/* The estimates of two sub-blocks, in order of their rows; returns a mask of those above the threshold. */
INLINE uint64_t finish(const struct sums sums[4], int32_t threshold, uint16_t *estimates) {
    const __m256i limit = _mm256_set1_epi16((int16_t)threshold);
    __m256i ordered[4];
    for (size_t i = 0; i < 4; i++)
        ordered[i] = in_order(sums[i]);
    const uint64_t above = above_mask(ordered[0], ordered[1], limit) | above_mask(ordered[2], ordered[3], limit) << 32;
    if (above)
        for (size_t i = 0; i < 4; i++)
            _mm256_storeu_si256((__m256i *)estimates + i, ordered[i]);
    return above;
}

INLINE uint64_t estimate_unit(const uint8_t *codes, size_t stride, size_t ahead, const struct tables *tables,
                              int32_t threshold, uint16_t *estimates) {
    const __m256i low_bits = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();
    struct sums sums[4] = {{zero, zero}, {zero, zero}, {zero, zero}, {zero, zero}};
    const uint8_t *values = tables->values;
    for (size_t pair = 0; pair < tables->pairs;) {
        const size_t end = pair + PAIRS_IN_8_BITS < tables->pairs ? pair + PAIRS_IN_8_BITS : tables->pairs;
        __m256i bytes[4] = {zero, zero, zero, zero};
        for (; pair < end; pair++, codes += stride, values += PAIR_BYTES) {
            __builtin_prefetch(codes + ahead);
            const __m256i table = _mm256_loadu_si256((const __m256i *)values);
            const __m256i first = _mm256_loadu_si256((const __m256i *)codes);
            const __m256i second = _mm256_loadu_si256((const __m256i *)(codes + PAIR_BYTES));
            bytes[0] = _mm256_add_epi8(bytes[0], _mm256_shuffle_epi8(table, _mm256_and_si256(first, low_bits)));
            bytes[1] = _mm256_add_epi8(
                bytes[1], _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(first, 4), low_bits)));
            bytes[2] = _mm256_add_epi8(bytes[2], _mm256_shuffle_epi8(table, _mm256_and_si256(second, low_bits)));
            bytes[3] = _mm256_add_epi8(
                bytes[3], _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(second, 4), low_bits)));
        }
        for (size_t i = 0; i < 4; i++)
            widen(&sums[i], bytes[i]);
    }
    return finish(sums, threshold, estimates);
}

INLINE void estimate_batch(const uint8_t *codes, size_t stride, size_t ahead, size_t queries,
                           const struct tables *tables, const struct reservoir *reservoirs, struct unit *units) {
    const __m256i low_bits = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();
    struct sums sums[MAX_BATCH][4];
    for (size_t query = 0; query < queries; query++)
        for (size_t i = 0; i < 4; i++)
            sums[query][i] = (struct sums){zero, zero};
    const size_t pairs = tables[0].pairs;
    for (size_t pair = 0; pair < pairs; pair += PAIRS_IN_8_BITS) {
        const size_t count = pairs - pair < PAIRS_IN_8_BITS ? pairs - pair : PAIRS_IN_8_BITS;
        __m256i parts[PAIRS_IN_8_BITS][4];
        for (size_t i = 0; i < count; i++, codes += stride) {
            __builtin_prefetch(codes + ahead);
            const __m256i first = _mm256_loadu_si256((const __m256i *)codes);
            const __m256i second = _mm256_loadu_si256((const __m256i *)(codes + PAIR_BYTES));
            parts[i][0] = _mm256_and_si256(first, low_bits);
            parts[i][1] = _mm256_and_si256(_mm256_srli_epi16(first, 4), low_bits);
            parts[i][2] = _mm256_and_si256(second, low_bits);
            parts[i][3] = _mm256_and_si256(_mm256_srli_epi16(second, 4), low_bits);
        }
        for (size_t query = 0; query < queries; query++) {
            const uint8_t *values = tables[query].values + pair * PAIR_BYTES;
            __m256i bytes[4] = {zero, zero, zero, zero};
            for (size_t i = 0; i < count; i++) {
                const __m256i table = _mm256_loadu_si256((const __m256i *)(values + i * PAIR_BYTES));
                for (size_t j = 0; j < 4; j++)
                    bytes[j] = _mm256_add_epi8(bytes[j], _mm256_shuffle_epi8(table, parts[i][j]));
            }
            for (size_t j = 0; j < 4; j++)
                widen(&sums[query][j], bytes[j]);
        }
    }
    for (size_t query = 0; query < queries; query++)
        units[query].above = finish(sums[query], reservoirs[query].threshold, units[query].estimates);
}

#define SCAN_NAME scan
#define SCAN_TARGET TARGET
#define SCAN_UNIT estimate_unit
#define SCAN_BATCH_NAME scan_batch
#define SCAN_BATCH estimate_batch
#include "scan_loop.h"

/* ---- centroids -------------------------------------------------------------------------------------------------- */

INLINE __m256i products_of(const uint8_t *row, const int8_t *query) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)row);
    const __m256i pairs = _mm256_maddubs_epi16(bytes, _mm256_loadu_si256((const __m256i *)query));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

INLINE int32_t sum_of(__m256i sums) {
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

TARGET static void multiply(const uint8_t *rows, size_t count, size_t bytes, const int8_t *query, int32_t *products) {
    for (size_t row = 0; row < count; row++, rows += bytes) {
        __m256i first = _mm256_setzero_si256(), second = first;
        for (size_t i = 0; i < bytes; i += BYTES_AT_ONCE) {
            first = _mm256_add_epi32(first, products_of(rows + i, query + i));
            second = _mm256_add_epi32(second, products_of(rows + i + 32, query + i + 32));
        }
        products[row] = sum_of(_mm256_add_epi32(first, second));
    }
}

#define TILE_QUERIES 4 /* whose sums stay in registers */

INLINE __m256i add_pairs(__m256i sums, __m256i row, __m256i query) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_maddubs_epi16(row, query), _mm256_set1_epi16(1)));
}

INLINE void subtract(__m256i sums, const struct scaled *scaled, const float *minuends, float *differences) {
    const __m256 steps = _mm256_cvtepi32_ps(_mm256_sub_epi32(sums, _mm256_set1_epi32(scaled->zero)));
    const __m256 product = _mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(scaled->step), steps), _mm256_set1_ps(scaled->shift));
    _mm256_storeu_ps(differences, _mm256_sub_ps(_mm256_loadu_ps(minuends), product));
}

TARGET static void subtract_products(const uint8_t *codes, size_t blocks, size_t bytes, const int8_t *queries,
                                     const struct scaled *scaled, size_t count, const float *minuends, float *differences) {
    for (size_t block = 0; block < blocks; block++, codes += BLOCK_CENTROIDS * bytes)
        for (size_t first = 0; first < count; first += TILE_QUERIES) {
            __m256i sums[2][TILE_QUERIES];
            for (size_t j = 0; j < TILE_QUERIES; j++)
                sums[0][j] = sums[1][j] = _mm256_setzero_si256();
            for (size_t i = 0; i < bytes; i += BYTES_TOGETHER) {
                const __m256i *rows = (const __m256i *)(codes + BLOCK_CENTROIDS * i);
                const __m256i one = _mm256_loadu_si256(rows), other = _mm256_loadu_si256(rows + 1);
                for (size_t j = 0; j < TILE_QUERIES; j++) {
                    int32_t four;
                    memcpy(&four, queries + (first + j) * bytes + i, sizeof four);
                    sums[0][j] = add_pairs(sums[0][j], one, _mm256_set1_epi32(four));
                    sums[1][j] = add_pairs(sums[1][j], other, _mm256_set1_epi32(four));
                }
            }
            for (size_t j = 0; j < TILE_QUERIES; j++)
                for (size_t half = 0; half < 2; half++) {
                    const size_t at = block * BLOCK_CENTROIDS + half * BLOCK_CENTROIDS / 2;
                    subtract(sums[half][j], &scaled[first + j], minuends + at,
                             differences + (first + j) * blocks * BLOCK_CENTROIDS + at);
                }
        }
}

const struct kernel kernel_avx2 = {"avx2", dot_f16, dot_f32, l2_f16,   l2_f32,
                                   scan,   scan_batch, multiply, subtract_products};
#endif
