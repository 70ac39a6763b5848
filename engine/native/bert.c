/* The encoder for AVX-512 with VNNI (vpdpbusd: four products of bytes are added in one step). */
#include "bert.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma")))
#define INLINE TARGET static inline __attribute__((always_inline))

#define ROWS_AT_ONCE 6        /* rows of a product: 24 registers of sums, 4 of weights, 1 of inputs */
#define TILE_ROWS 96          /* tokens that go through the dense layers together: their inner rows stay in the cache */
#define SCORE_ROWS 4          /* rows of attention that are computed together */
#define ALIGNED 64
#define OFFSET 128            /* added to weights, which makes them unsigned */
#define STATES 0xe6U          /* register states that the system must save: XCR0 */

bool bert_runs_here(void) {
    uint32_t a, b, c, d, low, high;
    const uint32_t wide = bit_AVX2 | bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (bit_FMA | bit_OSXSAVE)) != (bit_FMA | bit_OSXSAVE))
        return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return (low & STATES) == STATES && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & wide) == wide &&
           (c & bit_AVX512VNNI) != 0;
}

/* ---- dense layers ----------------------------------------------------------------------------------------------- */

/* Rows in bytes: value = code * scale; `sum` is of the codes. */
struct bytes {
    int8_t *codes;
    float *scale;
    int32_t *sum;
};

INLINE void quantize_row(const float *row, size_t d, int8_t *codes, float *scale, int32_t *sum) {
    __m512 most = _mm512_setzero_ps();
    for (size_t i = 0; i < d; i += LANES)
        most = _mm512_max_ps(most, _mm512_abs_ps(_mm512_loadu_ps(row + i)));
    const float largest = _mm512_reduce_max_ps(most);
    const __m512 factor = _mm512_set1_ps(largest > 0 ? 127 / largest : 0);
    __m512i all = _mm512_setzero_si512();
    for (size_t i = 0; i < d; i += LANES) {
        const __m512i steps = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(row + i), factor));
        all = _mm512_add_epi32(all, steps);
        _mm_storeu_si128((__m128i *)(void *)(codes + i), _mm512_cvtsepi32_epi8(steps));
    }
    *scale = largest / 127;
    *sum = _mm512_reduce_add_epi32(all);
}

TARGET static void quantize(const float *rows, size_t count, size_t d, const struct bytes *out) {
    for (size_t i = 0; i < count; i++)
        quantize_row(rows + i * d, d, out->codes + i * d, out->scale + i, out->sum + i);
}

/* Repeat a statement for each of so many rows. What is kept in registers has to have names: GCC keeps arrays in memory. */
#define ROWS_1(each) each(0)
#define ROWS_2(each) ROWS_1(each) each(1)
#define ROWS_3(each) ROWS_2(each) each(2)
#define ROWS_4(each) ROWS_3(each) each(3)
#define ROWS_5(each) ROWS_4(each) each(4)
#define ROWS_6(each) ROWS_5(each) each(5)

/* Where the products of some rows with one panel of weights come from, and go to. */
struct block {
    const struct dense *dense;
    const uint8_t *panel;
    const struct bytes *in;
    size_t row, column;
    float *out;
};

INLINE void store_sums(const struct block *block, size_t row, size_t at, __m512i sums) {
    const struct dense *dense = block->dense;
    const __m512i offset = _mm512_set1_epi32(OFFSET * block->in->sum[row]);
    const __m512 factor = _mm512_mul_ps(_mm512_set1_ps(block->in->scale[row]), _mm512_loadu_ps(dense->scale + at));
    const __m512 sum = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums, offset));
    _mm512_storeu_ps(block->out + row * dense->outputs + at, _mm512_fmadd_ps(sum, factor, _mm512_loadu_ps(dense->bias + at)));
}

/* In assembly, since GCC 12 copies the sums with its own function. */
INLINE void add_products(__m512i *sums, __m512i weights, __m512i input) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sums) : "v"(weights), "v"(input));
}

#define START(r) __m512i a##r = _mm512_setzero_si512(), b##r = a##r, c##r = a##r, d##r = a##r;
#define STEP(r)                                                                                                        \
    memcpy(&four, rows + r * k + i, sizeof four);                                                                     \
    input = _mm512_set1_epi32(four);                                                                                  \
    add_products(&a##r, w, input);                                                                       \
    add_products(&b##r, x, input);                                                                       \
    add_products(&c##r, y, input);                                                                       \
    add_products(&d##r, z, input);
#define STORE(r)                                                                                                       \
    store_sums(block, block->row + r, block->column, a##r);                                                           \
    store_sums(block, block->row + r, block->column + LANES, b##r);                                                   \
    store_sums(block, block->row + r, block->column + 2 * LANES, c##r);                                               \
    store_sums(block, block->row + r, block->column + 3 * LANES, d##r);
#define MULTIPLY(count)                                                                                                \
    TARGET static void multiply_##count(const struct block *block) {                                                  \
        const size_t k = block->dense->inputs;                                                                        \
        const int8_t *rows = block->in->codes + block->row * k;                                                       \
        const uint8_t *panel = block->panel;                                                                          \
        int32_t four;                                                                                                 \
        __m512i input;                                                                                                \
        ROWS_##count(START) for (size_t i = 0; i < k; i += 4, panel += 4 * COLUMNS_AT_ONCE) {                         \
            const __m512i w = _mm512_load_si512(panel), x = _mm512_load_si512(panel + 64);                            \
            const __m512i y = _mm512_load_si512(panel + 128), z = _mm512_load_si512(panel + 192);                     \
            ROWS_##count(STEP)                                                                                        \
        }                                                                                                             \
        ROWS_##count(STORE)                                                                                           \
    }

MULTIPLY(1)
MULTIPLY(2)
MULTIPLY(3)
MULTIPLY(4)
MULTIPLY(5)
MULTIPLY(6)

/* The outputs (count, outputs) of rows in bytes (count, inputs). */
static void multiply(const struct dense *dense, const struct bytes *in, size_t count, float *out) {
    static void (*const by_rows[])(const struct block *) = {NULL,       multiply_1, multiply_2, multiply_3,
                                                            multiply_4, multiply_5, multiply_6};
    const size_t panel_bytes = dense->inputs * COLUMNS_AT_ONCE;
    struct block block = {.dense = dense, .panel = dense->codes, .in = in, .out = out};
    for (; block.column < dense->outputs; block.column += COLUMNS_AT_ONCE, block.panel += panel_bytes)
        for (block.row = 0; block.row < count; block.row += ROWS_AT_ONCE)
            by_rows[count - block.row < ROWS_AT_ONCE ? count - block.row : ROWS_AT_ONCE](&block);
}

/* ---- what is done with rows of floats --------------------------------------------------------------------------- */

/* Bring a row to mean 0 and variance 1, then scale and shift it. */
INLINE void normalize(float *row, size_t d, const struct norm *norm, float epsilon) {
    __m512 sum = _mm512_setzero_ps(), square = sum;
    for (size_t i = 0; i < d; i += LANES)
        sum = _mm512_add_ps(sum, _mm512_loadu_ps(row + i));
    const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / (float)d);
    for (size_t i = 0; i < d; i += LANES) {
        const __m512 rest = _mm512_sub_ps(_mm512_loadu_ps(row + i), mean);
        square = _mm512_fmadd_ps(rest, rest, square);
    }
    const __m512 factor = _mm512_set1_ps(1 / sqrtf(_mm512_reduce_add_ps(square) / (float)d + epsilon));
    for (size_t i = 0; i < d; i += LANES) {
        const __m512 unit = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(row + i), mean), factor);
        _mm512_storeu_ps(row + i, _mm512_fmadd_ps(unit, _mm512_loadu_ps(norm->weight + i), _mm512_loadu_ps(norm->bias + i)));
    }
}

TARGET static void add_and_normalize(float *rows, const float *added, size_t count, size_t d, const struct norm *norm,
                                     float epsilon) {
    for (size_t r = 0; r < count; r++) {
        float *row = rows + r * d;
        for (size_t i = 0; i < d; i += LANES)
            _mm512_storeu_ps(row + i, _mm512_add_ps(_mm512_loadu_ps(row + i), _mm512_loadu_ps(added + r * d + i)));
        normalize(row, d, norm, epsilon);
    }
}

/* x * Phi(x). Phi(x) - 1/2 is an odd polynomial, the closest one on [-4, 4] (7e-6), and 1/2 beyond (1.3e-4). */
INLINE __m512 gelu(__m512 x) {
    static const float odd[] = {0.39888100f,     -0.066323613f,   0.0098157904f,    -0.0011128526f, 9.4939602e-05f,
                                -5.8605301e-06f, 2.4408012e-07f, -6.0667583e-09f, 6.7401867e-11f};
    const __m512 most = _mm512_set1_ps(4), half = _mm512_set1_ps(0.5f);
    const __m512 t = _mm512_max_ps(_mm512_min_ps(x, most), _mm512_sub_ps(_mm512_setzero_ps(), most));
    const __m512 square = _mm512_mul_ps(t, t);
    __m512 sum = _mm512_set1_ps(odd[8]);
    for (int i = 7; i >= 0; i--)
        sum = _mm512_fmadd_ps(sum, square, _mm512_set1_ps(odd[i]));
    const __m512 share = _mm512_fmadd_ps(sum, t, half);
    return _mm512_mul_ps(x, _mm512_max_ps(_mm512_min_ps(share, _mm512_set1_ps(1)), _mm512_setzero_ps()));
}

TARGET static void activate(float *values, size_t count) {
    for (size_t i = 0; i < count; i += LANES)
        _mm512_storeu_ps(values + i, gelu(_mm512_loadu_ps(values + i)));
}

/* e^x for x <= 0. */
INLINE __m512 exponential(__m512 x) {
    const __m512 times = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 0);
    __m512 rest = _mm512_fnmadd_ps(times, _mm512_set1_ps(0.693359375f), x);
    rest = _mm512_fnmadd_ps(times, _mm512_set1_ps(-2.12194440e-4f), rest);
    __m512 sum = _mm512_set1_ps(0.00833333f);
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0.0416666f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0.1666666f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(0.5f));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1));
    sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(1));
    return _mm512_scalef_ps(sum, times);
}

/* ---- attention -------------------------------------------------------------------------------------------------- */

/* One head of one text. `keys` are (d, padded), `values` (length, d), `scores` (SCORE_ROWS, padded). */
struct head {
    float *keys, *values, *scores;
    size_t length, padded, d, stride;
    const float *queries;
};

static inline size_t padded_length(size_t length) { return (length + LANES - 1) / LANES * LANES; }

#define START_SCORES(r) __m512 a##r = _mm512_setzero_ps(), b##r = a##r, c##r = a##r, d##r = a##r;
#define STEP_SCORES(r)                                                                                                 \
    query = _mm512_set1_ps(rows[r][i]);                                                                               \
    a##r = _mm512_fmadd_ps(query, w, a##r);                                                                           \
    b##r = _mm512_fmadd_ps(query, x, b##r);                                                                           \
    c##r = _mm512_fmadd_ps(query, y, c##r);                                                                           \
    d##r = _mm512_fmadd_ps(query, z, d##r);
#define STORE_SCORES(r)                                                                                                \
    _mm512_store_ps(scores + r * padded, a##r);                                                                       \
    _mm512_store_ps(scores + r * padded + LANES, b##r);                                                               \
    _mm512_store_ps(scores + r * padded + 2 * LANES, c##r);                                                           \
    _mm512_store_ps(scores + r * padded + 3 * LANES, d##r);

/* The scores of 64 keys from `first` on. */
INLINE void score_keys(const struct head *head, const float *const rows[SCORE_ROWS], size_t first) {
    const size_t padded = head->padded;
    const float *keys = head->keys + first;
    float *scores = head->scores + first;
    __m512 query;
    ROWS_4(START_SCORES)
    for (size_t i = 0; i < head->d; i++, keys += padded) {
        const __m512 w = _mm512_load_ps(keys), x = _mm512_load_ps(keys + LANES);
        const __m512 y = _mm512_load_ps(keys + 2 * LANES), z = _mm512_load_ps(keys + 3 * LANES);
        ROWS_4(STEP_SCORES)
    }
    ROWS_4(STORE_SCORES)
}

#define START_SCORE(r) __m512 a##r = _mm512_setzero_ps();
#define STEP_SCORE(r) a##r = _mm512_fmadd_ps(_mm512_set1_ps(rows[r][i]), w, a##r);
#define STORE_SCORE(r) _mm512_store_ps(scores + r * head->padded, a##r);

/* The scores of 16 keys from `first` on. */
INLINE void score_few_keys(const struct head *head, const float *const rows[SCORE_ROWS], size_t first) {
    const float *keys = head->keys + first;
    float *scores = head->scores + first;
    ROWS_4(START_SCORE)
    for (size_t i = 0; i < head->d; i++, keys += head->padded) {
        const __m512 w = _mm512_load_ps(keys);
        ROWS_4(STEP_SCORE)
    }
    ROWS_4(STORE_SCORE)
}

TARGET static void score_rows_of_head(const struct head *head, const float *const rows[SCORE_ROWS]) {
    size_t first = 0;
    for (; first + 4 * LANES <= head->padded; first += 4 * LANES)
        score_keys(head, rows, first);
    for (; first < head->padded; first += LANES)
        score_few_keys(head, rows, first);
}

/* Scores to weights whose sum is 1, but for the factor that is returned. */
INLINE float soften(float *scores, size_t length, size_t padded, float scale) {
    const __m512 factor = _mm512_set1_ps(scale);
    const size_t last = padded - LANES;
    const __mmask16 rest = (__mmask16)(0xffffU >> (padded - length));
    __m512 most = _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), rest, _mm512_load_ps(scores + last)), sum = _mm512_setzero_ps();
    for (size_t i = 0; i < last; i += LANES)
        most = _mm512_max_ps(most, _mm512_load_ps(scores + i));
    const __m512 top = _mm512_set1_ps(_mm512_reduce_max_ps(most));
    for (size_t i = 0; i < padded; i += LANES) {
        const __mmask16 mask = i == last ? rest : (__mmask16)0xffffU;
        const __m512 x = _mm512_mul_ps(_mm512_sub_ps(_mm512_load_ps(scores + i), top), factor);
        const __m512 weight = _mm512_maskz_mov_ps(mask, exponential(x));
        sum = _mm512_add_ps(sum, weight);
        _mm512_store_ps(scores + i, weight);
    }
    return 1 / _mm512_reduce_add_ps(sum);
}

#define START_MIX(r) __m512 a##r = _mm512_setzero_ps(), b##r = a##r;
#define STEP_MIX(r)                                                                                                    \
    weight = _mm512_set1_ps(weights[r * head->padded]);                                                               \
    a##r = _mm512_fmadd_ps(weight, low, a##r);                                                                        \
    b##r = _mm512_fmadd_ps(weight, high, b##r);
#define STORE_MIX(r)                                                                                                   \
    if (r < count) {                                                                                                  \
        _mm512_storeu_ps(out + r * stride, _mm512_mul_ps(a##r, _mm512_set1_ps(factors[r])));                          \
        _mm512_storeu_ps(out + r * stride + LANES, _mm512_mul_ps(b##r, _mm512_set1_ps(factors[r])));                  \
    }

/* The weighted sums of 32 dimensions of all values. */
INLINE void mix_values(const struct head *head, const float factors[SCORE_ROWS], size_t count, size_t at, float *out,
                       size_t stride) {
    const float *weights = head->scores, *values = head->values + at;
    __m512 weight;
    ROWS_4(START_MIX)
    for (size_t j = 0; j < head->length; j++, weights++, values += head->d) {
        const __m512 low = _mm512_load_ps(values), high = _mm512_load_ps(values + LANES);
        ROWS_4(STEP_MIX)
    }
    out += at;
    ROWS_4(STORE_MIX)
}

TARGET static void attend_head(const struct head *head, float *out, size_t out_stride) {
    const float scale = 1 / sqrtf((float)head->d);
    for (size_t first = 0; first < head->length; first += SCORE_ROWS) {
        const size_t left = head->length - first, count = left < SCORE_ROWS ? left : SCORE_ROWS;
        const float *rows[SCORE_ROWS];
        float factors[SCORE_ROWS];
        for (size_t r = 0; r < SCORE_ROWS; r++)
            rows[r] = head->queries + (first + (r < count ? r : 0)) * head->stride;
        score_rows_of_head(head, rows);
        for (size_t r = 0; r < SCORE_ROWS; r++)
            factors[r] = soften(head->scores + r * head->padded, head->length, head->padded, scale);
        for (size_t at = 0; at < head->d; at += 2 * LANES)
            mix_values(head, factors, count, at, out + first * out_stride, out_stride);
    }
}

/* Attention of all heads of one text: `parts` are rows of queries, keys and values (length, 3 * hidden). */
TARGET static void attend(const struct bert *bert, const float *parts, size_t length, float *room, float *out) {
    const size_t d = bert->hidden / bert->heads, stride = 3 * bert->hidden, padded = padded_length(length);
    struct head head = {.keys = room, .values = room + d * padded, .length = length, .padded = padded, .d = d, .stride = stride};
    head.scores = head.values + d * padded;
    for (size_t h = 0; h < bert->heads; h++) {
        const float *keys = parts + bert->hidden + h * d, *values = parts + 2 * bert->hidden + h * d;
        head.queries = parts + h * d;
        for (size_t j = 0; j < padded; j++)
            for (size_t i = 0; i < d; i++)
                head.keys[i * padded + j] = j < length ? keys[j * stride + i] : 0;
        for (size_t j = 0; j < length; j++)
            memcpy(head.values + j * d, values + j * stride, d * sizeof *values);
        attend_head(&head, out + h * d, bert->hidden);
    }
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

/* Parts of the scratch memory. */
struct room {
    float *rows, *mixed, *parts, *inner, *added, *head;
    struct bytes bytes;
};

static uint8_t *take(uint8_t **next, size_t bytes) {
    uint8_t *taken = *next;
    *next += (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    return taken;
}

static size_t share_out(const struct bert *bert, size_t tokens, size_t longest, uint8_t *scratch, struct room *room) {
    const size_t width = bert->inner > bert->hidden ? bert->inner : bert->hidden, padded = padded_length(longest);
    const size_t tile = tokens < TILE_ROWS ? tokens : TILE_ROWS, f = sizeof(float);
    uint8_t *next = scratch;
    room->rows = (float *)(void *)take(&next, tokens * bert->hidden * f);
    room->mixed = (float *)(void *)take(&next, tokens * bert->hidden * f);
    room->parts = (float *)(void *)take(&next, tokens * 3 * bert->hidden * f);
    room->inner = (float *)(void *)take(&next, tile * width * f);
    room->added = (float *)(void *)take(&next, tile * bert->hidden * f);
    room->head = (float *)(void *)take(&next, padded * (2 * bert->hidden / bert->heads + SCORE_ROWS) * f);
    room->bytes.codes = (int8_t *)take(&next, tile * width);
    room->bytes.scale = (float *)(void *)take(&next, tile * f);
    room->bytes.sum = (int32_t *)(void *)take(&next, tile * sizeof(int32_t));
    return (size_t)(next - scratch);
}

size_t bert_scratch_bytes(const struct bert *bert, size_t tokens, size_t longest) {
    struct room room;
    return share_out(bert, tokens, longest, NULL, &room);
}

TARGET static void look_up(const struct bert *bert, int32_t token, size_t position, float *row) {
    const uint8_t *codes = bert->word_codes + (size_t)token * bert->hidden;
    const float *added = bert->position_rows + position * bert->hidden;
    const __m512 zero = _mm512_set1_ps(bert->word_zero), scale = _mm512_set1_ps(bert->word_scale);
    for (size_t i = 0; i < bert->hidden; i += LANES) {
        const __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(codes + i)));
        const __m512 word = _mm512_mul_ps(_mm512_sub_ps(_mm512_cvtepi32_ps(code), zero), scale);
        _mm512_storeu_ps(row + i, _mm512_add_ps(word, _mm512_loadu_ps(added + i)));
    }
    normalize(row, bert->hidden, &bert->embedded, bert->epsilon);
}

/* All of a layer but its attention, for a tile of rows. */
TARGET static void finish_tile(const struct bert *bert, const struct layer *layer, const struct room *room, size_t first,
                               size_t count) {
    const size_t d = bert->hidden;
    float *rows = room->rows + first * d;
    quantize(room->mixed + first * d, count, d, &room->bytes);
    multiply(&layer->joined, &room->bytes, count, room->added);
    add_and_normalize(rows, room->added, count, d, &layer->after_attention, bert->epsilon);
    quantize(rows, count, d, &room->bytes);
    multiply(&layer->inner, &room->bytes, count, room->inner);
    activate(room->inner, count * bert->inner);
    quantize(room->inner, count, bert->inner, &room->bytes);
    multiply(&layer->outer, &room->bytes, count, room->added);
    add_and_normalize(rows, room->added, count, d, &layer->after_outer, bert->epsilon);
}

TARGET static void run_layer(const struct bert *bert, const struct layer *layer, const struct room *room, size_t tokens,
                             const int32_t *lengths, size_t texts) {
    const size_t d = bert->hidden;
    for (size_t first = 0; first < tokens; first += TILE_ROWS) {
        const size_t count = tokens - first < TILE_ROWS ? tokens - first : TILE_ROWS;
        quantize(room->rows + first * d, count, d, &room->bytes);
        multiply(&layer->attention, &room->bytes, count, room->parts + first * 3 * d);
    }
    size_t at = 0;
    for (size_t text = 0; text < texts; at += (size_t)lengths[text++])
        attend(bert, room->parts + at * 3 * d, (size_t)lengths[text], room->head, room->mixed + at * d);
    for (size_t first = 0; first < tokens; first += TILE_ROWS)
        finish_tile(bert, layer, room, first, tokens - first < TILE_ROWS ? tokens - first : TILE_ROWS);
}

/* The mean of the rows of a text, of length 1. */
TARGET static void pool(const float *rows, size_t length, size_t d, float *out) {
    __m512 squares = _mm512_setzero_ps();
    for (size_t i = 0; i < d; i += LANES) {
        __m512 sum = _mm512_setzero_ps();
        for (size_t j = 0; j < length; j++)
            sum = _mm512_add_ps(sum, _mm512_loadu_ps(rows + j * d + i));
        sum = _mm512_mul_ps(sum, _mm512_set1_ps(1 / (float)length));
        squares = _mm512_fmadd_ps(sum, sum, squares);
        _mm512_storeu_ps(out + i, sum);
    }
    const float size = sqrtf(_mm512_reduce_add_ps(squares));
    const __m512 factor = _mm512_set1_ps(1 / (size > 1e-12f ? size : 1e-12f));
    for (size_t i = 0; i < d; i += LANES)
        _mm512_storeu_ps(out + i, _mm512_mul_ps(_mm512_loadu_ps(out + i), factor));
}

TARGET void bert_embed(const struct bert *bert, const int32_t *tokens, const int32_t *lengths, size_t texts,
                       uint8_t *scratch, float *rows) {
    struct room room;
    size_t total = 0, longest = 0, at = 0;
    for (size_t text = 0; text < texts; text++) {
        total += (size_t)lengths[text];
        longest = (size_t)lengths[text] > longest ? (size_t)lengths[text] : longest;
    }
    share_out(bert, total, longest, scratch, &room);
    for (size_t text = 0; text < texts; text++)
        for (size_t i = 0; i < (size_t)lengths[text]; i++, at++)
            look_up(bert, tokens[at], i, room.rows + at * bert->hidden);
    for (size_t i = 0; i < bert->layer_count; i++)
        run_layer(bert, &bert->layers[i], &room, total, lengths, texts);
    at = 0;
    for (size_t text = 0; text < texts; at += (size_t)lengths[text++])
        pool(room.rows + at * bert->hidden, (size_t)lengths[text], bert->hidden, rows + text * bert->hidden);
}

#else

bool bert_runs_here(void) { return false; }
void bert_embed(const struct bert *bert, const int32_t *tokens, const int32_t *lengths, size_t texts, uint8_t *scratch,
                float *rows) {
    (void)bert, (void)tokens, (void)lengths, (void)texts, (void)scratch, (void)rows;
}
size_t bert_scratch_bytes(const struct bert *bert, size_t tokens, size_t longest) {
    (void)bert, (void)tokens, (void)longest;
    return 0;
}

#endif

size_t dense_bytes(size_t inputs, size_t outputs) { return inputs * outputs; }

void pack_dense(const int8_t *weights, size_t inputs, size_t outputs, uint8_t *codes) {
    for (size_t column = 0; column < outputs; column += COLUMNS_AT_ONCE)
        for (size_t i = 0; i < inputs; i += 4)
            for (size_t j = 0; j < COLUMNS_AT_ONCE; j++)
                for (size_t k = 0; k < 4; k++)
                    *codes++ = (uint8_t)(weights[(i + k) * outputs + column + j] + 128);
}
