/* The kernel without vector instructions: for any processor, and the oracle of the others. */
#include "kernel.h"

#include <math.h>
#include <string.h>

/* ---- exact comparison ------------------------------------------------------------------------------------------- */

static inline float load_f16(const void *row, size_t i) {
    uint16_t half;
    memcpy(&half, (const uint8_t *)row + 2 * i, sizeof half);
    return half_to_float(half);
}

static inline float load_f32(const void *row, size_t i) {
    float value;
    memcpy(&value, (const uint8_t *)row + 4 * i, sizeof value);
    return value;
}

/* Eight partial sums, as short rounding chains as those of the vector kernels. */
#define SUMS 8
static inline float total(const float sums[SUMS]) {
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

static float dot_f16(const float *query, const void *row, size_t d) {
    float sums[SUMS] = {0};
    for (size_t i = 0; i < d; i++)
        sums[i % SUMS] += query[i] * load_f16(row, i);
    return total(sums);
}

static float dot_f32(const float *query, const void *row, size_t d) {
    float sums[SUMS] = {0};
    for (size_t i = 0; i < d; i++)
        sums[i % SUMS] += query[i] * load_f32(row, i);
    return total(sums);
}

static float l2_f16(const float *query, const void *row, size_t d) {
    float sums[SUMS] = {0};
    for (size_t i = 0; i < d; i++) {
        const float difference = query[i] - load_f16(row, i);
        sums[i % SUMS] += difference * difference;
    }
    return total(sums);
}

static float l2_f32(const float *query, const void *row, size_t d) {
    float sums[SUMS] = {0};
    for (size_t i = 0; i < d; i++) {
        const float difference = query[i] - load_f32(row, i);
        sums[i % SUMS] += difference * difference;
    }
    return total(sums);
}

/* ---- the scan --------------------------------------------------------------------------------------------------- */

/* Byte i of 16 holds the codes of rows ROW_OF_BYTE[i] (low bits) and ROW_OF_BYTE[i] + 16 (high bits) of a sub-block:
 * the order in which even and odd bytes, widened to 16 bits, are the rows in order. */
static const uint8_t ROW_OF_BYTE[16] = {0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15};

/* The estimates of the SUB_BLOCK_ROWS rows of one sub-block, and a mask of those above the threshold. */
static uint32_t estimate(const uint8_t *codes, size_t stride, const struct tables *tables, int32_t threshold,
                         uint16_t *estimates) {
    memset(estimates, 0, SUB_BLOCK_ROWS * sizeof *estimates);
    for (size_t pair = 0; pair < tables->pairs; pair++) {
        for (size_t i = 0; i < PAIR_BYTES; i++) {
            const uint8_t code = codes[pair * stride + i];
            const uint8_t *table = tables->values + pair * PAIR_BYTES + (i & ~(size_t)15);
            estimates[ROW_OF_BYTE[i & 15]] += table[code & 15];
            estimates[ROW_OF_BYTE[i & 15] + 16] += table[code >> 4];
        }
    }
    uint32_t above = 0;
    for (size_t i = 0; i < SUB_BLOCK_ROWS; i++)
        above |= (uint32_t)(estimates[i] > threshold) << i;
    return above;
}

static void scan(const struct list *list, size_t block_rows, const struct tables *tables,
                 struct reservoir *reservoir) {
    uint16_t estimates[SUB_BLOCK_ROWS];
    const size_t block_bytes = tables->pairs * block_rows;
    const uint8_t *block = list->codes;
    for (int64_t first = 0; first < list->size; first += (int64_t)block_rows, block += block_bytes) {
        for (size_t sub = 0; sub < block_rows; sub += SUB_BLOCK_ROWS) {
            const uint32_t wanted = (uint32_t)list_mask(list, first + (int64_t)sub);
            if (!wanted)
                continue;
            const uint32_t above = estimate(block + sub, block_rows, tables, reservoir->threshold, estimates);
            if (above & wanted)
                reservoir_add(reservoir, list, first + (int64_t)sub, estimates, above & wanted);
        }
    }
}

static void scan_batch(const struct list *list, size_t block_rows, size_t queries, const struct tables *tables,
                       struct reservoir *reservoirs) {
    for (size_t query = 0; query < queries; query++)
        scan(list, block_rows, &tables[query], &reservoirs[query]);
}

/* ---- centroids -------------------------------------------------------------------------------------------------- */

static void multiply(const uint8_t *rows, size_t count, size_t bytes, const int8_t *query, int32_t *products) {
    for (size_t row = 0; row < count; row++, rows += bytes) {
        int32_t sum = 0;
        for (size_t i = 0; i < bytes; i++)
            sum += rows[i] * query[i];
        products[row] = sum;
    }
}

static void subtract_products(const uint8_t *codes, size_t blocks, size_t bytes, const int8_t *queries,
                              const struct scaled *scaled, size_t count, const float *minuends, float *differences) {
    for (size_t block = 0; block < blocks; block++, codes += BLOCK_CENTROIDS * bytes)
        for (size_t query = 0; query < count; query++) {
            int32_t sums[BLOCK_CENTROIDS] = {0};
            for (size_t i = 0; i < bytes; i += BYTES_TOGETHER)
                for (size_t j = 0; j < BLOCK_CENTROIDS; j++)
                    for (size_t k = 0; k < BYTES_TOGETHER; k++)
                        sums[j] += codes[BLOCK_CENTROIDS * i + BYTES_TOGETHER * j + k] * queries[query * bytes + i + k];
            const struct scaled *own = &scaled[query];
            const size_t at = block * BLOCK_CENTROIDS;
            for (size_t j = 0; j < BLOCK_CENTROIDS; j++) {
                const float product = own->step * (float)(sums[j] - own->zero); /* rounded, as the others do it */
                differences[query * blocks * BLOCK_CENTROIDS + at + j] = minuends[at + j] - (product + own->shift);
            }
        }
}

const struct kernel kernel_scalar = {"scalar", dot_f16, dot_f32, l2_f16,   l2_f32,
                                     scan,     scan_batch, multiply, subtract_products};
