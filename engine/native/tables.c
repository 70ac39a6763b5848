/* The look-up tables of a query: how close it is to each codeword of each sub-quantizer, in 8 bits. */
#include "kernel.h"

#include <math.h>
#include <string.h>

/* The query, rotated or padded, as the rows were before they were quantized. */
static void transform(const struct kernel *kernel, const struct codebook *codebook, const float *query, float *out) {
    const size_t padded = codebook->sub_quantizers * codebook->sub_dimensions, d = codebook->dimensions;
    if (codebook->rotation != NULL) {
        for (size_t i = 0; i < padded; i++)
            out[i] = kernel->dot_f16(query, codebook->rotation + i * d, d);
        return;
    }
    memcpy(out, query, d * sizeof *out);
    memset(out + d, 0, (padded - d) * sizeof *out);
}

/* The closeness of a part of the query to 16 codewords: inner products, or minus squared distances. */
static void compare_codewords(const float *part, const float *codewords, const float *biases, size_t d, bool is_l2,
                              float *closeness) {
    float sums[CODEWORDS];
    memcpy(sums, biases, sizeof sums);
    for (size_t i = 0; i < d; i++, codewords += CODEWORDS) {
        if (is_l2) {
            for (size_t word = 0; word < CODEWORDS; word++)
                sums[word] -= (part[i] - codewords[word]) * (part[i] - codewords[word]);
        } else {
            for (size_t word = 0; word < CODEWORDS; word++)
                sums[word] += part[i] * codewords[word];
        }
    }
    memcpy(closeness, sums, sizeof sums);
}

/* Subtract the least of 16 values from all; returns the largest difference. */
static float from_zero(float *values) {
    float least[4], most[4];
    memcpy(least, values, sizeof least);
    memcpy(most, values, sizeof most);
    for (size_t i = 4; i < CODEWORDS; i += 4) {
        for (size_t j = 0; j < 4; j++) {
            least[j] = values[i + j] < least[j] ? values[i + j] : least[j];
            most[j] = values[i + j] > most[j] ? values[i + j] : most[j];
        }
    }
    for (size_t j = 1; j < 4; j++) {
        least[0] = least[j] < least[0] ? least[j] : least[0];
        most[0] = most[j] > most[0] ? most[j] : most[0];
    }
    for (size_t word = 0; word < CODEWORDS; word++)
        values[word] -= least[0];
    return most[0] - least[0];
}

/* The number of steps of a table value for a difference of one in closeness. */
static float steps(const float *spans, size_t count) {
    float largest = 0, all = 0; /* the largest sum of the spans that are added in 8 bits, and of all */
    for (size_t first = 0; first < count; first += 2 * PAIRS_IN_8_BITS) {
        float sums[2] = {0, 0};
        for (size_t i = first; i < count && i < first + 2 * PAIRS_IN_8_BITS; i++)
            sums[i & 1] += spans[i];
        largest = fmaxf(largest, fmaxf(sums[0], sums[1]));
        all += sums[0] + sums[1];
    }
    /* One per cent less than the limits: divisions and products are rounded, too. */
    const float step = fminf(252.0f / largest, 0.99f * MAX_ESTIMATE / all);
    return isfinite(step) && isfinite(all) ? step : 0;
}

size_t table_floats(const struct codebook *codebook) {
    const size_t padded = codebook->sub_quantizers * codebook->sub_dimensions;
    return padded + codebook->sub_quantizers * (CODEWORDS + 1);
}

void fill_tables(const struct kernel *kernel, const struct codebook *codebook, const float *query, float *room,
                 struct tables *tables) {
    const size_t count = codebook->sub_quantizers, d = codebook->sub_dimensions;
    float *closeness = room + count * d, *spans = closeness + count * CODEWORDS;
    transform(kernel, codebook, query, room);
    for (size_t i = 0; i < count; i++) {
        float *table = closeness + i * CODEWORDS;
        compare_codewords(room + i * d, codebook->codewords + i * CODEWORDS * d, codebook->biases + i * CODEWORDS, d,
                          codebook->is_l2, table);
        spans[i] = from_zero(table);
    }
    const float step = steps(spans, count);
    tables->pairs = codebook_pairs(codebook);
    tables->largest = 0;
    memset(tables->values, 0, tables->pairs * PAIR_BYTES);
    if (!(step > 0)) /* all codewords are equally close, or a number is not finite: all estimates are equal */
        return;
    for (size_t i = 0; i < count * CODEWORDS; i++) { /* rounded down, so that sums stay within their limits */
        const float value = closeness[i] * step;
        tables->values[i] = (uint8_t)(value > 0 ? value : 0); /* 0 for NaN: infinity minus infinity */
    }
    for (size_t i = 0; i < count; i++)
        tables->largest += (int32_t)(spans[i] * step);
}
