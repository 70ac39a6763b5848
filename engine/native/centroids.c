/* The centroids of inverted lists, ranked by their closeness to a query, in bytes. */
#include "kernel.h"

#include <math.h>

/* The query as steps of up to MAX_STEPS, less the mean for distances; returns the size of a step, 0 for a query of which
 * nothing is left. */
static float to_steps(const struct centroids *centroids, const float *query, int8_t *steps, float *square) {
    const size_t d = centroids->dimensions;
    float largest = 0, sum = 0;
    for (size_t i = 0; i < d; i++) {
        const float value = query[i] - (centroids->is_l2 ? centroids->mean[i] : 0);
        largest = fabsf(value) > largest ? fabsf(value) : largest;
        sum += value * value;
    }
    *square = sum;
    const float scale = MAX_STEPS / largest;
    const bool is_finite = isfinite(scale) && isfinite(largest) && !isnan(sum);
    for (size_t i = 0; i < d; i++) {
        const float value = query[i] - (centroids->is_l2 ? centroids->mean[i] : 0);
        steps[i] = (int8_t)(is_finite ? rintf(value * scale) : 0);
    }
    for (size_t i = d; i < centroids->bytes; i++)
        steps[i] = 0;
    return is_finite ? largest / MAX_STEPS : 0;
}

#define LANES 8 /* largest values that are found side by side */

/* The mean of the best scores, REFERENCE_CENTROIDS at most. */
static float reference_of(const float *scores, size_t count) {
    float best[REFERENCE_CENTROIDS], sum = 0;
    const size_t kept = count < REFERENCE_CENTROIDS ? count : REFERENCE_CENTROIDS;
    for (size_t i = 0; i < kept; i++)
        best[i] = -INFINITY;
    for (size_t i = 0; i < count; i += LANES) {
        float largest = -INFINITY;
        if (i + LANES <= count) {
            float pairs[LANES / 2];
            for (size_t j = 0; j < LANES / 2; j++)
                pairs[j] = scores[i + j] > scores[i + LANES / 2 + j] ? scores[i + j] : scores[i + LANES / 2 + j];
            for (size_t j = 0; j < LANES / 2; j++)
                largest = pairs[j] > largest ? pairs[j] : largest;
            if (!(largest > best[kept - 1]))
                continue;
        }
        for (size_t j = i; j < count && j < i + LANES; j++) {
            size_t at = kept;
            for (; at > 0 && scores[j] > best[at - 1]; at--)
                if (at < kept)
                    best[at] = best[at - 1];
            if (at < kept)
                best[at] = scores[j];
        }
    }
    for (size_t i = 0; i < kept; i++)
        sum += best[i] / (float)kept;
    return sum;
}

float score_centroids(const struct kernel *kernel, const struct centroids *centroids, const float *query,
                      const struct ranking *ranking, float *unit) {
    int32_t *products = (int32_t *)(void *)ranking->ranked;
    float *scores = ranking->scores, square;
    const float step = to_steps(centroids, query, ranking->query, &square) * centroids->step;
    int32_t zero = 0;
    for (size_t i = 0; i < centroids->bytes; i++)
        zero += ZERO_STEPS * ranking->query[i];
    kernel->multiply(centroids->codes, centroids->count, centroids->bytes, ranking->query, products);
    for (size_t i = 0; i < centroids->count; i++)
        scores[i] = step * (float)(products[i] - zero);
    for (size_t i = 0; centroids->is_l2 && i < centroids->count; i++) {
        const float squared = square + centroids->squares[i] - 2 * scores[i];
        scores[i] = squared > 0 ? -sqrtf(squared) : 0;
    }
    *unit = centroids->is_relative ? sqrtf(square) : 1;
    return reference_of(scores, centroids->count);
}

#define BUCKETS 256

/* The bucket of a score below `top`. What is not a number, as between scores that are infinite, is in the first one. */
static size_t bucket_of(float top, float score, float scale) {
    const float place = (top - score) * scale;
    return !(place > 0) ? 0 : place < BUCKETS - 1 ? (size_t)place : BUCKETS - 1;
}

/* Sort by counting: into buckets of scores, and within these by insertion. */
static void sort(const struct ranked *items, size_t count, struct ranked *sorted) {
    uint32_t starts[BUCKETS + 1] = {0};
    float least = items[0].score, most = least;
    for (size_t i = 1; i < count; i++) {
        least = items[i].score < least ? items[i].score : least;
        most = items[i].score > most ? items[i].score : most;
    }
    const float scale = (BUCKETS - 1) / (most - least), usable = isfinite(scale) ? scale : 0;
    const float top = isfinite(most - least) ? most : 0;
    for (size_t i = 0; i < count; i++)
        starts[bucket_of(top, items[i].score, usable) + 1]++;
    for (size_t i = 1; i < BUCKETS; i++)
        starts[i] += starts[i - 1];
    for (size_t i = 0; i < count; i++)
        sorted[starts[bucket_of(top, items[i].score, usable)]++] = items[i];
    for (size_t i = 1; i < count; i++) {
        const struct ranked moved = sorted[i];
        size_t at = i;
        for (; at > 0 && sorted[at - 1].score < moved.score; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = moved;
    }
}

size_t sort_centroids(const struct centroids *centroids, const struct ranking *ranking, float least) {
    struct ranked *items = ranking->ranked + centroids->count;
    size_t count = 0;
    for (size_t i = 0; i < centroids->count; i++)
        if (ranking->scores[i] >= least)
            items[count++] = (struct ranked){ranking->scores[i], (uint32_t)i};
    if (count > 0)
        sort(items, count, ranking->ranked);
    return count;
}
