/* The kernel for AVX-512 (F, BW, VL): a unit of 64 rows in one register. */
#include "kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma,f16c")))
#define INLINE TARGET static inline __attribute__((always_inline))

/* ---- exact comparison ------------------------------------------------------------------------------------------- */

INLINE __m512 load16_f16(const uint8_t *row, size_t i) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(row + 2 * i)));
}

INLINE __m512 load16_f32(const uint8_t *row, size_t i) { return _mm512_loadu_ps(row + 4 * i); }

INLINE __m512 load_rest_f16(const uint8_t *row, size_t i, __mmask16 rest) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(rest, row + 2 * i));
}

INLINE __m512 load_rest_f32(const uint8_t *row, size_t i, __mmask16 rest) {
    return _mm512_maskz_loadu_ps(rest, row + 4 * i);
}

INLINE __m512 add_product(__m512 sum, __m512 a, __m512 b) { return _mm512_fmadd_ps(a, b, sum); }

INLINE __m512 add_square(__m512 sum, __m512 a, __m512 b) {
    const __m512 difference = _mm512_sub_ps(a, b);
    return _mm512_fmadd_ps(difference, difference, sum);
}

#define COMPARE(name, type, add)                                                                                       \
    TARGET static float name(const float *query, const void *row, size_t d) {                                         \
        __m512 s0 = _mm512_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;                                                    \
        size_t i = 0;                                                                                                  \
        for (; i + 64 <= d; i += 64) {                                                                                 \
            s0 = add(s0, _mm512_loadu_ps(query + i), load16_##type(row, i));                                           \
            s1 = add(s1, _mm512_loadu_ps(query + i + 16), load16_##type(row, i + 16));                                 \
            s2 = add(s2, _mm512_loadu_ps(query + i + 32), load16_##type(row, i + 32));                                 \
            s3 = add(s3, _mm512_loadu_ps(query + i + 48), load16_##type(row, i + 48));                                 \
        }                                                                                                              \
        for (; i + 16 <= d; i += 16)                                                                                   \
            s0 = add(s0, _mm512_loadu_ps(query + i), load16_##type(row, i));                                           \
        if (i < d) {                                                                                                   \
            const __mmask16 rest = (__mmask16)((1u << (d - i)) - 1);                                                   \
            s1 = add(s1, _mm512_maskz_loadu_ps(rest, query + i), load_rest_##type(row, i, rest));                      \
        }                                                                                                              \
        return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3)));                      \
    }

COMPARE(dot_f16, f16, add_product)
COMPARE(dot_f32, f32, add_product)
COMPARE(l2_f16, f16, add_square)
COMPARE(l2_f32, f32, add_square)

/* ---- the scan --------------------------------------------------------------------------------------------------- */

struct sums {
    __m512i all, odd;
};

INLINE void widen(struct sums *sums, __m512i bytes) {
    sums->all = _mm512_add_epi16(sums->all, bytes);
    sums->odd = _mm512_add_epi16(sums->odd, _mm512_srli_epi16(bytes, 8));
}

/* Add the sums of the two sub-quantizers of a pair: quarters 0 and 1 (first sub-block), 2 and 3 (second). */
INLINE __m512i add_quarters(__m512i sums) {
    return _mm512_add_epi16(sums, _mm512_shuffle_i64x2(sums, sums, 0xb1));
}

/* The estimates of two sub-blocks, in order of their rows; returns a mask of those above the threshold.
 *
 * Rows 0 to 7 and 8 to 15 of a sub-block are in the low bits of even and odd bytes, 16 to 23 and 24 to 31 in the high
 * bits. */
INLINE uint64_t finish(struct sums low, struct sums high, int32_t threshold, uint16_t *estimates) {
    const __m512i first = add_quarters(_mm512_sub_epi16(low.all, _mm512_slli_epi16(low.odd, 8)));
    const __m512i second = add_quarters(low.odd);
    const __m512i third = add_quarters(_mm512_sub_epi16(high.all, _mm512_slli_epi16(high.odd, 8)));
    const __m512i fourth = add_quarters(high.odd);
    const __m512i front = _mm512_shuffle_i64x2(first, second, 0x88), back = _mm512_shuffle_i64x2(third, fourth, 0x88);
    const __m512i rows = _mm512_shuffle_i64x2(front, back, 0x88);
    const __m512i next_rows = _mm512_shuffle_i64x2(front, back, 0xdd);
    const __m512i limit = _mm512_set1_epi16((int16_t)threshold);
    const uint64_t above = _mm512_cmpgt_epi16_mask(rows, limit) |
                           (uint64_t)_mm512_cmpgt_epi16_mask(next_rows, limit) << 32;
    if (above) {
        _mm512_storeu_si512(estimates, rows);
        _mm512_storeu_si512(estimates + SUB_BLOCK_ROWS, next_rows);
    }
    return above;
}

INLINE __m512i table_of(const uint8_t *values) {
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)values));
}

INLINE uint64_t estimate_unit(const uint8_t *codes, size_t stride, size_t ahead, const struct tables *tables,
                              int32_t threshold, uint16_t *estimates) {
    const __m512i low_bits = _mm512_set1_epi8(15), zero = _mm512_setzero_si512();
    struct sums low = {zero, zero}, high = {zero, zero};
    const uint8_t *values = tables->values;
    for (size_t pair = 0; pair < tables->pairs;) {
        const size_t end = pair + PAIRS_IN_8_BITS < tables->pairs ? pair + PAIRS_IN_8_BITS : tables->pairs;
        __m512i low_bytes = zero, high_bytes = zero;
        for (; pair < end; pair++, codes += stride, values += PAIR_BYTES) {
            __builtin_prefetch(codes + ahead);
            const __m512i table = table_of(values);
            const __m512i code = _mm512_loadu_si512(codes);
            low_bytes = _mm512_add_epi8(low_bytes, _mm512_shuffle_epi8(table, _mm512_and_si512(code, low_bits)));
            high_bytes = _mm512_add_epi8(
                high_bytes, _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(code, 4), low_bits)));
        }
        widen(&low, low_bytes);
        widen(&high, high_bytes);
    }
    return finish(low, high, threshold, estimates);
}

INLINE void estimate_batch(const uint8_t *codes, size_t stride, size_t ahead, size_t queries,
                           const struct tables *tables, const struct reservoir *reservoirs, struct unit *units) {
    const __m512i low_bits = _mm512_set1_epi8(15), zero = _mm512_setzero_si512();
    struct sums low[MAX_BATCH], high[MAX_BATCH];
    for (size_t query = 0; query < queries; query++)
        low[query] = high[query] = (struct sums){zero, zero};
    const size_t pairs = tables[0].pairs;
    for (size_t pair = 0; pair < pairs; pair += PAIRS_IN_8_BITS) {
        const size_t count = pairs - pair < PAIRS_IN_8_BITS ? pairs - pair : PAIRS_IN_8_BITS;
        __m512i lows[PAIRS_IN_8_BITS], highs[PAIRS_IN_8_BITS];
        for (size_t i = 0; i < count; i++, codes += stride) {
            __builtin_prefetch(codes + ahead);
            const __m512i code = _mm512_loadu_si512(codes);
            lows[i] = _mm512_and_si512(code, low_bits);
            highs[i] = _mm512_and_si512(_mm512_srli_epi16(code, 4), low_bits);
        }
        for (size_t query = 0; query < queries; query++) {
            const uint8_t *values = tables[query].values + pair * PAIR_BYTES;
            __m512i low_bytes = zero, high_bytes = zero;
            if (count == PAIRS_IN_8_BITS) {
                for (size_t i = 0; i < PAIRS_IN_8_BITS; i++) {
                    const __m512i table = table_of(values + i * PAIR_BYTES);
                    low_bytes = _mm512_add_epi8(low_bytes, _mm512_shuffle_epi8(table, lows[i]));
                    high_bytes = _mm512_add_epi8(high_bytes, _mm512_shuffle_epi8(table, highs[i]));
                }
            } else {
                for (size_t i = 0; i < count; i++) {
                    const __m512i table = table_of(values + i * PAIR_BYTES);
                    low_bytes = _mm512_add_epi8(low_bytes, _mm512_shuffle_epi8(table, lows[i]));
                    high_bytes = _mm512_add_epi8(high_bytes, _mm512_shuffle_epi8(table, highs[i]));
                }
            }
            widen(&low[query], low_bytes);
            widen(&high[query], high_bytes);
        }
    }
    for (size_t query = 0; query < queries; query++)
        units[query].above = finish(low[query], high[query], reservoirs[query].threshold, units[query].estimates);
}

#define SCAN_NAME scan
#define SCAN_TARGET TARGET
#define SCAN_UNIT estimate_unit
#define SCAN_BATCH_NAME scan_batch
#define SCAN_BATCH estimate_batch
#include "scan_loop.h"

/* ---- centroids -------------------------------------------------------------------------------------------------- */

#define ROWS_TOGETHER 4 /* rows that share the loads of the query */

INLINE __m512i add_products(__m512i sums, const uint8_t *row, __m512i query) {
    const __m512i pairs = _mm512_maddubs_epi16(_mm512_loadu_si512(row), query);
    return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

INLINE __m256i halves(__m512i sums) {
    return _mm256_add_epi32(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64(sums, 1));
}

TARGET static void multiply(const uint8_t *rows, size_t count, size_t bytes, const int8_t *query, int32_t *products) {
    size_t row = 0;
    for (; row + ROWS_TOGETHER <= count; row += ROWS_TOGETHER, rows += ROWS_TOGETHER * bytes) {
        __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0;
        for (size_t i = 0; i < bytes; i += BYTES_AT_ONCE) {
            const __m512i steps = _mm512_loadu_si512(query + i);
            s0 = add_products(s0, rows + i, steps);
            s1 = add_products(s1, rows + bytes + i, steps);
            s2 = add_products(s2, rows + 2 * bytes + i, steps);
            s3 = add_products(s3, rows + 3 * bytes + i, steps);
        }
        const __m256i front = _mm256_hadd_epi32(halves(s0), halves(s1)), back = _mm256_hadd_epi32(halves(s2), halves(s3));
        const __m256i four = _mm256_hadd_epi32(front, back);
        _mm_storeu_si128((__m128i *)(products + row),
                         _mm_add_epi32(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1)));
    }
    for (; row < count; row++, rows += bytes) {
        __m512i sums = _mm512_setzero_si512();
        for (size_t i = 0; i < bytes; i += BYTES_AT_ONCE)
            sums = add_products(sums, rows + i, _mm512_loadu_si512(query + i));
        products[row] = _mm512_reduce_add_epi32(sums);
    }
}

INLINE __m512i add_pairs(__m512i sums, __m512i row, __m512i query) {
    return _mm512_add_epi32(sums, _mm512_madd_epi16(_mm512_maddubs_epi16(row, query), _mm512_set1_epi16(1)));
}

#define SUBTRACT_PRODUCTS(name, target, add)                                                                           \
    target static void name(const uint8_t *codes, size_t blocks, size_t bytes, const int8_t *queries,                 \
                            const struct scaled *scaled, size_t count, const float *minuends, float *differences) {    \
        for (size_t block = 0; block < blocks; block += 2, codes += 2 * BLOCK_CENTROIDS * bytes)                       \
            for (size_t first = 0; first < count; first += QUERIES_TOGETHER) {                                         \
                __m512i sums[2][QUERIES_TOGETHER];                                                                     \
                for (size_t j = 0; j < QUERIES_TOGETHER; j++)                                                          \
                    sums[0][j] = sums[1][j] = _mm512_setzero_si512();                                                  \
                for (size_t i = 0; i < bytes; i += BYTES_TOGETHER) {                                                   \
                    const __m512i one = _mm512_loadu_si512(codes + BLOCK_CENTROIDS * i);                               \
                    const __m512i other = _mm512_loadu_si512(codes + BLOCK_CENTROIDS * (bytes + i));                   \
                    for (size_t j = 0; j < QUERIES_TOGETHER; j++) {                                                    \
                        int32_t four;                                                                                  \
                        memcpy(&four, queries + (first + j) * bytes + i, sizeof four);                                 \
                        sums[0][j] = add(sums[0][j], one, _mm512_set1_epi32(four));                                    \
                        sums[1][j] = add(sums[1][j], other, _mm512_set1_epi32(four));                                  \
                    }                                                                                                  \
                }                                                                                                      \
                for (size_t j = 0; j < QUERIES_TOGETHER; j++)                                                          \
                    for (size_t half = 0; half < 2; half++) {                                                          \
                        const struct scaled *own = &scaled[first + j];                                                 \
                        const size_t at = (block + half) * BLOCK_CENTROIDS;                                            \
                        const __m512 steps = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums[half][j], _mm512_set1_epi32(own->zero))); \
                        const __m512 product = _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(own->step), steps), _mm512_set1_ps(own->shift)); \
                        _mm512_storeu_ps(differences + (first + j) * blocks * BLOCK_CENTROIDS + at,                    \
                                         _mm512_sub_ps(_mm512_loadu_ps(minuends + at), product));                      \
                    }                                                                                                  \
            }                                                                                                          \
    }

SUBTRACT_PRODUCTS(subtract_products, TARGET, add_pairs)

const struct kernel kernel_avx512 = {"avx512", dot_f16, dot_f32, l2_f16,   l2_f32,
                                     scan,     scan_batch, multiply, subtract_products};

/* ---- with VNNI: four products of bytes in one instruction --------------------------------------------------------- */

#define TARGET_VNNI __attribute__((target("avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c")))

TARGET_VNNI static inline __attribute__((always_inline)) __m512i add_fours(__m512i sums, __m512i row, __m512i query) {
    return _mm512_dpbusd_epi32(sums, row, query);
}

SUBTRACT_PRODUCTS(subtract_products_vnni, TARGET_VNNI, add_fours)

const struct kernel kernel_vnni = {"vnni", dot_f16, dot_f32, l2_f16,   l2_f32,
                                   scan,   scan_batch, multiply, subtract_products_vnni};
#endif
