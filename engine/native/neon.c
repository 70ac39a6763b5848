/* The kernel for NEON: 64-bit ARM processors. Run under emulation only (qemu-aarch64), on no processor so far. */
#include "kernel.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- exact comparison ------------------------------------------------------------------------------------------- */

INLINE float32x4_t load4_f16(const uint8_t *row, size_t i) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(row + 2 * i)));
}

INLINE float32x4_t load4_f32(const uint8_t *row, size_t i) { return vreinterpretq_f32_u8(vld1q_u8(row + 4 * i)); }

/* The first `count` (below 4) of the values from i on, and zeros. */
INLINE float32x4_t load_rest_f16(const uint8_t *row, size_t i, size_t count) {
    uint8_t rest[8] = {0};
    memcpy(rest, row + 2 * i, 2 * count);
    return load4_f16(rest, 0);
}

INLINE float32x4_t load_rest_f32(const uint8_t *row, size_t i, size_t count) {
    uint8_t rest[16] = {0};
    memcpy(rest, row + 4 * i, 4 * count);
    return load4_f32(rest, 0);
}

INLINE float32x4_t add_product(float32x4_t sum, float32x4_t a, float32x4_t b) { return vfmaq_f32(sum, a, b); }

INLINE float32x4_t add_square(float32x4_t sum, float32x4_t a, float32x4_t b) {
    const float32x4_t difference = vsubq_f32(a, b);
    return vfmaq_f32(sum, difference, difference);
}

/* Four sums of four values each hide the latency of an addition. */
#define COMPARE(name, type, add)                                                                                       \
    static float name(const float *query, const void *row, size_t d) {                                                 \
        float32x4_t s0 = vdupq_n_f32(0), s1 = s0, s2 = s0, s3 = s0;                                                    \
        size_t i = 0;                                                                                                  \
        for (; i + 16 <= d; i += 16) {                                                                                 \
            s0 = add(s0, vld1q_f32(query + i), load4_##type(row, i));                                                  \
            s1 = add(s1, vld1q_f32(query + i + 4), load4_##type(row, i + 4));                                          \
            s2 = add(s2, vld1q_f32(query + i + 8), load4_##type(row, i + 8));                                          \
            s3 = add(s3, vld1q_f32(query + i + 12), load4_##type(row, i + 12));                                        \
        }                                                                                                              \
        for (; i + 4 <= d; i += 4)                                                                                     \
            s0 = add(s0, vld1q_f32(query + i), load4_##type(row, i));                                                  \
        if (i < d)                                                                                                     \
            s1 = add(s1, load_rest_f32((const uint8_t *)query, i, d - i), load_rest_##type(row, i, d - i));            \
        return vaddvq_f32(vaddq_f32(vaddq_f32(s0, s1), vaddq_f32(s2, s3)));                                            \
    }

COMPARE(dot_f16, f16, add_product)
COMPARE(dot_f32, f32, add_product)
COMPARE(l2_f16, f16, add_square)
COMPARE(l2_f32, f32, add_square)

/* ---- the scan --------------------------------------------------------------------------------------------------- */

#define REGISTERS 4 /* of sums for a unit: the low and the high bits of the codes of two sub-blocks */

/* Sums of bytes, widened: even bytes are rows 0 to 7 of a half sub-block, odd ones rows 8 to 15. */
struct sums {
    uint16x8_t even, odd;
};

/* The codes of one pair for a unit: those of its two sub-quantizers for each register of sums. */
struct codes {
    uint8x16_t first[REGISTERS], second[REGISTERS];
};

INLINE struct codes load_codes(const uint8_t *bytes) {
    const uint8x16_t low_bits = vdupq_n_u8(15);
    struct codes codes;
    for (size_t sub = 0; sub < 2; sub++, bytes += PAIR_BYTES) {
        const uint8x16_t first = vld1q_u8(bytes), second = vld1q_u8(bytes + PAIR_BYTES / 2);
        codes.first[2 * sub] = vandq_u8(first, low_bits);
        codes.first[2 * sub + 1] = vshrq_n_u8(first, 4);
        codes.second[2 * sub] = vandq_u8(second, low_bits);
        codes.second[2 * sub + 1] = vshrq_n_u8(second, 4);
    }
    return codes;
}

/* Bytes of the even and of the odd sub-quantizers, which are added apart: only their own sums fit 8 bits. */
struct bytes {
    uint8x16_t first[REGISTERS], second[REGISTERS];
};

INLINE void add_pair(struct bytes *bytes, const struct codes *codes, const uint8_t *values) {
    const uint8x16_t first = vld1q_u8(values), second = vld1q_u8(values + PAIR_BYTES / 2);
    for (size_t i = 0; i < REGISTERS; i++) {
        bytes->first[i] = vaddq_u8(bytes->first[i], vqtbl1q_u8(first, codes->first[i]));
        bytes->second[i] = vaddq_u8(bytes->second[i], vqtbl1q_u8(second, codes->second[i]));
    }
}

INLINE void widen(struct sums sums[REGISTERS], const struct bytes *bytes) {
    const uint16x8_t low_byte = vdupq_n_u16(255);
    for (size_t i = 0; i < REGISTERS; i++) {
        const uint16x8_t first = vreinterpretq_u16_u8(bytes->first[i]), second = vreinterpretq_u16_u8(bytes->second[i]);
        sums[i].even = vaddq_u16(sums[i].even, vaddq_u16(vandq_u16(first, low_byte), vandq_u16(second, low_byte)));
        sums[i].odd = vsraq_n_u16(vsraq_n_u16(sums[i].odd, first, 8), second, 8);
    }
}

INLINE struct bytes no_bytes(void) {
    struct bytes bytes;
    for (size_t i = 0; i < REGISTERS; i++)
        bytes.first[i] = bytes.second[i] = vdupq_n_u8(0);
    return bytes;
}

/* One bit for each of 8 estimates that are above the threshold. */
INLINE uint64_t above_mask(uint16x8_t estimates, int16x8_t limit) {
    static const uint16_t bits[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    return vaddvq_u16(vandq_u16(vcgtq_s16(vreinterpretq_s16_u16(estimates), limit), vld1q_u16(bits)));
}

/* The estimates of two sub-blocks, in order of their rows; returns a mask of those above the threshold. */
INLINE uint64_t finish(const struct sums sums[REGISTERS], int32_t threshold, uint16_t *estimates) {
    const int16x8_t limit = vdupq_n_s16((int16_t)threshold);
    uint64_t above = 0;
    for (size_t i = 0; i < REGISTERS; i++)
        above |= above_mask(sums[i].even, limit) << 16 * i | above_mask(sums[i].odd, limit) << (16 * i + 8);
    for (size_t i = 0; above && i < REGISTERS; i++) {
        vst1q_u16(estimates + 16 * i, sums[i].even);
        vst1q_u16(estimates + 16 * i + 8, sums[i].odd);
    }
    return above;
}

INLINE uint64_t estimate_unit(const uint8_t *codes, size_t stride, size_t ahead, const struct tables *tables,
                              int32_t threshold, uint16_t *estimates) {
    const uint16x8_t zero = vdupq_n_u16(0);
    struct sums sums[REGISTERS] = {{zero, zero}, {zero, zero}, {zero, zero}, {zero, zero}};
    const uint8_t *values = tables->values;
    for (size_t pair = 0; pair < tables->pairs;) {
        const size_t end = pair + PAIRS_IN_8_BITS < tables->pairs ? pair + PAIRS_IN_8_BITS : tables->pairs;
        struct bytes bytes = no_bytes();
        for (; pair < end; pair++, codes += stride, values += PAIR_BYTES) {
            __builtin_prefetch(codes + ahead);
            const struct codes loaded = load_codes(codes);
            add_pair(&bytes, &loaded, values);
        }
        widen(sums, &bytes);
    }
    return finish(sums, threshold, estimates);
}

INLINE void estimate_batch(const uint8_t *codes, size_t stride, size_t ahead, size_t queries,
                           const struct tables *tables, const struct reservoir *reservoirs, struct unit *units) {
    const uint16x8_t zero = vdupq_n_u16(0);
    struct sums sums[MAX_BATCH][REGISTERS];
    for (size_t query = 0; query < queries; query++)
        for (size_t i = 0; i < REGISTERS; i++)
            sums[query][i] = (struct sums){zero, zero};
    const size_t pairs = tables[0].pairs;
    for (size_t pair = 0; pair < pairs; pair += PAIRS_IN_8_BITS) {
        const size_t count = pairs - pair < PAIRS_IN_8_BITS ? pairs - pair : PAIRS_IN_8_BITS;
        struct codes loaded[PAIRS_IN_8_BITS];
        for (size_t i = 0; i < count; i++, codes += stride) {
            __builtin_prefetch(codes + ahead);
            loaded[i] = load_codes(codes);
        }
        for (size_t query = 0; query < queries; query++) {
            struct bytes bytes = no_bytes();
            for (size_t i = 0; i < count; i++)
                add_pair(&bytes, &loaded[i], tables[query].values + (pair + i) * PAIR_BYTES);
            widen(sums[query], &bytes);
        }
    }
    for (size_t query = 0; query < queries; query++)
        units[query].above = finish(sums[query], reservoirs[query].threshold, units[query].estimates);
}

#define SCAN_NAME scan
#define SCAN_TARGET
#define SCAN_UNIT estimate_unit
#define SCAN_BATCH_NAME scan_batch
#define SCAN_BATCH estimate_batch
#include "scan_loop.h"

/* ---- centroids -------------------------------------------------------------------------------------------------- */

static void multiply(const uint8_t *rows, size_t count, size_t bytes, const int8_t *query, int32_t *products) {
    for (size_t row = 0; row < count; row++, rows += bytes) {
        int32x4_t first = vdupq_n_s32(0), second = first;
        for (size_t i = 0; i < bytes; i += 8) {
            const int16x8_t values = vreinterpretq_s16_u16(vmovl_u8(vld1_u8(rows + i))), steps = vmovl_s8(vld1_s8(query + i));
            first = vmlal_s16(first, vget_low_s16(values), vget_low_s16(steps));
            second = vmlal_s16(second, vget_high_s16(values), vget_high_s16(steps));
        }
        products[row] = vaddvq_s32(vaddq_s32(first, second));
    }
}

#define TILE_QUERIES 2 /* whose sums stay in registers */
#define VECTORS 4      /* of a block's bytes: four centroids each */

static void subtract_products(const uint8_t *codes, size_t blocks, size_t bytes, const int8_t *queries,
                              const struct scaled *scaled, size_t count, const float *minuends, float *differences) {
    for (size_t block = 0; block < blocks; block++, codes += BLOCK_CENTROIDS * bytes)
        for (size_t first = 0; first < count; first += TILE_QUERIES) {
            int32x4_t sums[TILE_QUERIES][2 * VECTORS]; /* two for each centroid */
            for (size_t j = 0; j < TILE_QUERIES; j++)
                for (size_t k = 0; k < 2 * VECTORS; k++)
                    sums[j][k] = vdupq_n_s32(0);
            for (size_t i = 0; i < bytes; i += BYTES_TOGETHER)
                for (size_t k = 0; k < VECTORS; k++) { /* a code less ZERO_STEPS is signed */
                    const uint8x16_t stored = vld1q_u8(codes + BLOCK_CENTROIDS * (i + k));
                    const int8x16_t values = vreinterpretq_s8_u8(veorq_u8(stored, vdupq_n_u8(ZERO_STEPS)));
                    for (size_t j = 0; j < TILE_QUERIES; j++) {
                        int32_t four;
                        memcpy(&four, queries + (first + j) * bytes + i, sizeof four);
                        const int8x8_t steps = vreinterpret_s8_s32(vdup_n_s32(four));
                        sums[j][2 * k] = vpadalq_s16(sums[j][2 * k], vmull_s8(vget_low_s8(values), steps));
                        sums[j][2 * k + 1] = vpadalq_s16(sums[j][2 * k + 1], vmull_s8(vget_high_s8(values), steps));
                    }
                }
            for (size_t j = 0; j < TILE_QUERIES; j++) {
                const struct scaled *own = &scaled[first + j];
                for (size_t k = 0; k < VECTORS; k++) {
                    const size_t at = block * BLOCK_CENTROIDS + VECTORS * k;
                    const float32x4_t steps = vcvtq_f32_s32(vpaddq_s32(sums[j][2 * k], sums[j][2 * k + 1]));
                    const float32x4_t product = vaddq_f32(vmulq_f32(vdupq_n_f32(own->step), steps), vdupq_n_f32(own->shift));
                    vst1q_f32(differences + (first + j) * blocks * BLOCK_CENTROIDS + at, vsubq_f32(vld1q_f32(minuends + at), product));
                }
            }
        }
}

const struct kernel kernel_neon = {"neon", dot_f16, dot_f32, l2_f16,   l2_f32,
                                   scan,   scan_batch, multiply, subtract_products};
#endif
