/* The kernel: search by vectors and by words over the rows of several segments, in plain C11 without dependencies.
 *
 * Rows are stored vectors in mapped Arrow columns. Codes are 4-bit product quantization in the blocks of FAISS's fast
 * scan (Andre et al., "Quicker ADC", 2018). A search builds look-up tables for the query, scans the codes into a
 * reservoir of candidates, compares these exactly with the column, and keeps the best rows by (score, id).
 *
 * Words are postings, scored by BM25 in blocks of chunks and pruned by bounds; a hybrid search adds the vectors of the
 * chunks that may be hits.
 *
 * Each instruction set fills one `struct kernel`; `kernel_best` picks one at run time. Nothing here allocates during a
 * search but `search.c`, `words.c` and `fuse.c`, and nothing knows Python but what includes `objects.h`.
 */
#ifndef AIDRE_KERNEL_H
#define AIDRE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- vectors ---------------------------------------------------------------------------------------------------- */

/* How a distance becomes a score (larger is better): the inner product; the same clamped to [-1, 1]; 1 - d^2 / 2
 * clamped, which tells neighbours apart where a float32 cosine cannot; minus the Euclidean distance. */
enum metric { METRIC_DOT, METRIC_COSINE, METRIC_CHORD, METRIC_EUCLIDEAN };

static inline bool metric_is_l2(enum metric metric) { return metric >= METRIC_CHORD; }

/* The inner product or the squared distance of a query (d,) and a stored row. */
typedef float (*compare_fn)(const float *query, const void *row, size_t d);

/* IEEE 754 half to single precision, as the processor converts it. */
static inline float half_to_float(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    const uint32_t exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24 */
        const float value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    const uint32_t bits = sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | fraction << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#define MAX_NORM 1e18    /* of a vector, as in aidre.engine.model */
#define MIN_NORM 1e-150  /* of a vector with a direction, as in aidre.engine.index.vectors.encoding */

/* Write a vector as a query, scaled to length 1 if `is_unit`. False, with nothing written, for a vector that is no
 * query: not finite, too long, or without a direction. */
bool encode_f32(const float *vector, size_t d, bool is_unit, float *query);
bool encode_f64(const double *vector, size_t d, bool is_unit, float *query);

/* Where a vector was found in a body: its bytes [start, end), and its numbers. */
struct found_vector {
    size_t start, end, count;
};

/* Read the member `name`, a list of at most `most` numbers, out of a JSON object. False if there is none, or two, and for
 * whatever is not plainly read: a parser of JSON has to decide then. All else of the object remains unchecked. */
bool read_vector(const uint8_t *body, size_t length, const uint8_t *name, size_t name_length, float *values, size_t most,
                 struct found_vector *found);

/* ---- codes ------------------------------------------------------------------------------------------------------ */

#define SUB_BLOCK_ROWS 32     /* rows whose codes stand side by side; a block has 1, 2 or 4 sub-blocks */
#define UNIT_ROWS 64          /* rows that are estimated at once: two sub-blocks */
#define CODEWORDS 16          /* of one sub-quantizer: a code has 4 bits */
#define PAIR_BYTES 32         /* the tables of two sub-quantizers, or their codes for one sub-block */
#define PAIRS_IN_8_BITS 4     /* pairs whose table values are added before they are widened to 16 bits */
#define MAX_ESTIMATE 32767    /* the sum of the largest values of all tables: estimates are compared as signed 16 bits */

/* The tables of one query, one byte a codeword: 32 bytes for each pair of sub-quantizers. Within PAIRS_IN_8_BITS pairs
 * the largest values of the even ones sum up to 255 at most, and so do those of the odd ones. */
struct tables {
    uint8_t *values;
    size_t pairs;
    int32_t largest;          /* the sum of the largest values: no estimate is larger */
};

struct reservoir;
struct list;

/* Scan one list into a reservoir. */
typedef void (*scan_fn)(const struct list *list, size_t block_rows, const struct tables *tables,
                        struct reservoir *reservoir);

#define MAX_BATCH 8 /* queries that are scanned for at once: their tables fit the first cache */

/* Scan one list for several queries, each with tables and a reservoir of its own. */
typedef void (*scan_batch_fn)(const struct list *list, size_t block_rows, size_t queries, const struct tables *tables,
                              struct reservoir *reservoirs);

/* The estimates of a unit for one query of a batch, and which of them are above the query's threshold. */
struct unit {
    uint64_t above;
    uint16_t estimates[UNIT_ROWS];
};

/* ---- instruction sets ------------------------------------------------------------------------------------------- */

#define BYTES_AT_ONCE 64      /* a vector of bytes is padded to a multiple of it */
#define MAX_STEPS 63          /* of a query in bytes: two products with bytes of a row fit signed 16 bits */

/* The inner products of a query of `bytes` signed bytes, each up to MAX_STEPS, with rows of as many unsigned bytes. */
typedef void (*multiply_fn)(const uint8_t *rows, size_t count, size_t bytes, const int8_t *query, int32_t *products);

#define BLOCK_CENTROIDS 16    /* whose bytes stand side by side: four of each, then the next four of each */
#define BYTES_TOGETHER 4
#define QUERIES_TOGETHER 8    /* queries that are multiplied at once; there are a multiple of them */

/* What the product of a query in steps with a code stands for: step * (product - zero) + shift. */
struct scaled {
    float step;
    int32_t zero;
    float shift;
};

/* Minuends (blocks * BLOCK_CENTROIDS) less the scaled products of queries (count, bytes) with an even number of blocks. */
typedef void (*subtract_products_fn)(const uint8_t *codes, size_t blocks, size_t bytes, const int8_t *queries,
                                     const struct scaled *scaled, size_t count, const float *minuends, float *differences);

struct kernel {
    const char *name;
    compare_fn dot_f16, dot_f32, l2_f16, l2_f32;
    scan_fn scan;
    scan_batch_fn scan_batch;
    multiply_fn multiply;
    subtract_products_fn subtract_products;
};

extern const struct kernel kernel_scalar;
#if defined(__x86_64__)
extern const struct kernel kernel_avx2, kernel_avx512, kernel_vnni;
#endif
#if defined(__aarch64__)
extern const struct kernel kernel_neon;
#endif

/* The kernel of that name if this processor can run it, else NULL. */
const struct kernel *kernel_named(const char *name);
/* The fastest kernel that this processor can run. */
const struct kernel *kernel_best(void);

compare_fn kernel_compare(const struct kernel *kernel, enum metric metric, bool is_f16);
double metric_score(enum metric metric, float value);

/* ---- candidates ------------------------------------------------------------------------------------------------- */

struct candidate {
    uint32_t row;
    uint16_t column;
    uint16_t estimate;
};

#define BINS 2048

/* The candidates with the largest estimates, selected by counting: `bins` counts the estimates that were added, so that
 * `threshold` is always as high as it can be while `count` candidates are above it, or in the bin just above. */
struct reservoir {
    struct candidate *items;
    size_t size, capacity;    /* the capacity is several times `count`, and UNIT_ROWS more */
    size_t count;
    int32_t threshold;        /* only estimates above it are added; -1 while every row is */
    int32_t cut;              /* the largest estimate of which not all candidates were kept; -1: none */
    uint32_t bin, shift;      /* the lowest bin that is wanted; an estimate >> shift is its bin */
    size_t above;             /* candidates in higher bins */
    uint32_t *bins;
};

/* Begin with no candidates; `largest` bounds the estimates. */
void reservoir_start(struct reservoir *reservoir, int32_t largest);
/* Add the entries `first` + i of a list for which bit i of the mask is set and whose rows are allowed. */
void reservoir_add(struct reservoir *reservoir, const struct list *list, int64_t first, const uint16_t *estimates,
                   uint64_t mask);
/* Drop what is in bins that are no longer wanted. */
void reservoir_finish(struct reservoir *reservoir);
/* Keep the best `count`, and up to `more` others with the estimate of the last of them if these are all; raises `cut`. */
void reservoir_keep(struct reservoir *reservoir, size_t count, size_t more);

/* A list of codes: `size` entries in blocks, the last one padded. */
struct list {
    const uint8_t *codes;
    const int32_t *rows;      /* the row of each entry; NULL: rows from `first_row` on, in order */
    int64_t size, first_row;
    uint16_t column;          /* ordinal of the segment */
    const uint8_t *allowed;   /* see `struct choice`; set for each search */
};

static inline bool bit_at(const uint8_t *bits, int64_t number) { return bits[number >> 3] >> (number & 7) & 1; }

/* Which of the 64 entries of a list from `first` on are to be estimated: those that exist and, where entries are rows in
 * order, are allowed. */
uint64_t list_mask(const struct list *list, int64_t first);

/* ---- look-up tables --------------------------------------------------------------------------------------------- */

struct codebook {
    const float *codewords;   /* (sub_quantizers, sub_dimensions, CODEWORDS): side by side, to be compared at once */
    size_t sub_quantizers, sub_dimensions;
    const float *biases;      /* (sub_quantizers, CODEWORDS), what the closeness to a codeword starts from */
    const uint16_t *rotation; /* of a query to the dimensions of the codes, float16, row by row; NULL: zeros are added */
    size_t dimensions;
    bool is_l2;               /* whether closeness is minus the squared distance, not the inner product */
};

static inline size_t codebook_pairs(const struct codebook *codebook) { return (codebook->sub_quantizers + 1) / 2; }

/* Floats of scratch memory that `fill_tables` needs. */
size_t table_floats(const struct codebook *codebook);

/* The tables of a query (dimensions,); `tables->values` is room for PAIR_BYTES for each pair. */
void fill_tables(const struct kernel *kernel, const struct codebook *codebook, const float *query, float *room,
                 struct tables *tables);

/* ---- centroids -------------------------------------------------------------------------------------------------- */

#define MAX_CENTROIDS 65535
#define MAX_CENTROID_DIMENSIONS 65536 /* sums of as many products fit 32 bits */
#define ZERO_STEPS 128        /* the byte of a centroid that stands for 0 */
#define REFERENCE_CENTROIDS 4 /* from the mean of whose scores, the best ones, gaps are measured */

/* Centroids of inverted lists in the space of the codes, less their mean, in bytes. */
struct centroids {
    const uint8_t *codes;     /* (count, bytes): steps plus ZERO_STEPS, and padding of ZERO_STEPS */
    const float *mean;        /* (dimensions,) */
    const float *squares;     /* of their lengths, less the mean (count,) */
    size_t count, dimensions, bytes;
    float step;
    bool is_l2;               /* scores are minus distances, else inner products */
    bool is_relative;         /* ... as if the query had length 1 */
};

struct ranked {
    float score;
    uint32_t number;
};

/* Memory for the ranking of centroids. */
struct ranking {
    struct ranked *ranked;    /* (2 * count,) */
    float *scores;            /* (count,) */
    int8_t *query;            /* (bytes,) */
};

/* Score all centroids for a query in the space of the codes; returns the mean of the best REFERENCE_CENTROIDS scores, and
 * the score that a gap of 1 is. A single centroid may be near a query by chance, as that of a row that trained it is. */
float score_centroids(const struct kernel *kernel, const struct centroids *centroids, const float *query,
                      const struct ranking *ranking, float *unit);
/* Sort the centroids with a score of at least `least` to `ranking->ranked`, the best first; returns their number. */
size_t sort_centroids(const struct centroids *centroids, const struct ranking *ranking, float least);

#define MIN_RESIDUAL 5e-7F /* relative to the square of a row; less is rounding */

/* Centroids among which rows choose their lists, in their own precision and, less their mean, in bytes. */
struct lists {
    const float *centroids;   /* (count, dimensions) */
    const uint8_t *codes;     /* (blocks, bytes / BYTES_TOGETHER, BLOCK_CENTROIDS, BYTES_TOGETHER): steps plus ZERO_STEPS */
    const float *mean;        /* (dimensions,) */
    const float *half_squares; /* |o|^2 / 2 of each centroid o, and infinity for the padding (blocks * BLOCK_CENTROIDS,) */
    const float *products;    /* c . o - |o|^2 / 2 (count, count) */
    size_t count, blocks, dimensions, bytes;
    float step, spread;       /* `spread`: the mean of their squared distances from their mean */
};

/* The nearest centroid of each row (count, dimensions), and unless `second` is NULL that of the list that gets its copy;
 * false without memory. */
bool choose_lists(const struct kernel *kernel, const struct lists *lists, const float *rows, size_t count, int64_t *nearest,
                  int64_t *second);

/* ---- the best rows ---------------------------------------------------------------------------------------------- */

/* The ids of a segment's chunks, in batches of one length, as Arrow stores them: offsets and bytes. */
struct id_batch {
    const int64_t *offsets;
    const uint8_t *bytes;
    int64_t rows, length;
};

struct column {
    const uint8_t *vectors;   /* (rows, d), float16 or float32 */
    int64_t rows;
    const struct id_batch *ids;
    size_t id_batches;
    int64_t batch_rows;
};

struct hit {
    double score;
    uint32_t row;
    uint16_t column;
};

/* The best `k` rows by (score, id). A heap whose first hit is the last of the order. */
struct best {
    struct hit *hits;
    size_t size, k;
    const struct column *columns;
};

void best_add(struct best *best, struct hit hit);
/* Sort the hits, best first. */
void best_sort(struct best *best);

/* ---- words ------------------------------------------------------------------------------------------------------ */

/* Strings in ascending order of their bytes, as Arrow stores them. */
struct dictionary {
    const int64_t *offsets;   /* (count + 1,) */
    const uint8_t *bytes;
    int64_t count, length;
};

/* The number of the first string that is not less than the key, `count` if there is none; and whether it is equal. */
int64_t dictionary_first(const struct dictionary *dictionary, const uint8_t *key, size_t length, bool *is_equal);

/* What a text says of a phrase. UNDECIDED: its normal form has to be looked into. */
enum standing { ABSENT, UNDECIDED, STANDS };

/* Whether the words of a phrase stand in a text one after the other, in any case, with one to eight signs between two, and
 * not within longer words. They are ASCII letters in lower case, digits and underscores, with a space between two, and
 * only the first begins with an underscore. */
enum standing find_phrase(const uint8_t *text, size_t length, const uint8_t *phrase, size_t size);

#ifndef WORD_BLOCK
#define WORD_BLOCK 8192       /* chunks whose sums are kept at once */
#endif

/* The chunks of a segment by the terms that they hold. */
struct lexicon {
    const int64_t *starts;    /* of the postings of each term (terms + 1,) */
    const uint32_t *rows;     /* of each posting, ascending within a term */
    const uint16_t *counts;   /* how often the row holds the term */
    int64_t terms, postings;
    const float *halves;      /* of each chunk the count at which a term has half of its weight; above 0 (chunks,) */
    float *least;             /* of them, in each block of WORD_BLOCK chunks */
    int64_t chunks;
};

/* The terms of a query. The score of a chunk is the sum over them, in their order, of
 * weight * (count / (count + half) + delta). */
struct word_query {
    const int64_t *terms;     /* their numbers in each lexicon (lexicons, count); -1: it has none */
    const double *weights;    /* above 0 (count,), the largest first to be fast */
    size_t count;
    double delta;
};

/* A chunk that is scored apart from the search for words. */
struct known {
    double cosine, bonus;
    uint32_t row;
    uint16_t column;
};

/* Memory of a search for words: see words.c. */
struct word_room;
struct word_room *word_room_new(size_t terms); /* NULL without memory */
void word_room_free(struct word_room *room);

/* What is done with the chunks of a block: their rows, counted from `first` on, are `rows`, and `sums` are by row. Returns
 * the score that other chunks must reach, or one below 0 to end the search. */
typedef double (*take_words_fn)(void *taker, uint16_t column, int64_t first, const uint32_t *rows, size_t count,
                                const double *sums);

struct word_search {
    const struct lexicon *lexicons;
    size_t count;
    const struct word_query *query;
    const uint8_t *const *allowed; /* for each lexicon a bit for each chunk; NULL: all */
    const struct known *known; /* by lexicon and row; they are not taken */
    size_t known_count;
    take_words_fn take;
    void *taker;
};

/* Postings of the query in all lexicons. */
size_t count_postings(const struct word_search *search);
/* Take the chunks with a word whose score reaches `least`, block by block. */
void search_words(const struct word_search *search, double least, struct word_room *room);
/* The scores of chosen chunks of a lexicon, fastest where they ascend. */
void score_words(const struct lexicon *lexicon, const struct word_query *query, const int64_t *terms, const int64_t *rows,
                 size_t count, double *scores);

/* ---- searches --------------------------------------------------------------------------------------------------- */

struct scan {
    struct codebook codebook;
    size_t block_rows;
    const struct list *lists;
    size_t list_count;
};

struct search {
    const struct kernel *kernel;
    compare_fn compare;
    enum metric metric;
    size_t dimensions, row_bytes;
    const struct column *columns;
};

/* Memory of a search, kept from one to the next by its owner. */
struct scratch {
    float *floats;
    uint8_t *tables;
    struct candidate *candidates;
    uint32_t *places;         /* of candidates, by a hash of their rows */
    int64_t *lists;
    struct ranking ranking;
    size_t float_count, table_bytes, capacity, place_count, list_count, ranked_count, score_count, query_bytes;
    uint32_t bins[BINS];
};
struct scratch *scratch_new(void); /* NULL without memory */
void scratch_free(struct scratch *scratch);

/* How the lists of the centroids that are nearest to a query are found. */
struct probe {
    const struct centroids *centroids;
    const int64_t *lists;          /* of each centroid (count, lists_each) */
    size_t lists_each;
    const int64_t *entries;        /* allowed ones in the lists of each centroid, copies included (count,) */
    const int64_t *rows, *allowed; /* in them without copies: all, and those that a filter allows; NULL: no filter */
    double selectivity;            /* the share of the allowed rows */
    const int64_t *others;         /* lists without centroids, which are always scanned */
    size_t other_count;
    int64_t most_entries;          /* from so many on all lists are scanned instead */
};

/* What a search reads of a scan. */
struct choice {
    const int64_t *lists;          /* numbers of the lists to scan */
    size_t list_count;
    const uint8_t *const *allowed; /* for each column a bit for each row, least significant first; NULL: all rows */
    size_t count, total;           /* candidates to compare, and the rows that are allowed in the whole scan */
    const struct probe *probe;     /* the lists to scan instead, in which rows stand twice; NULL: `lists` */
    size_t nprobe;                 /* centroids whose lists are scanned at most */
    float gap;                     /* between the mean score of the best of them and the score of the last; 0: no bound */
};

/* One query of a search: its scratch memory, the best rows that were found so far, and the `edge`: the best score among
 * the candidates of whose estimate other rows were left out. Hits that are not better than it may have equals that were
 * not compared. */
struct request {
    const float *query;
    struct scratch *scratch;
    struct best best;
    double edge;
};

enum outcome { FOUND, FOUND_TOO_FEW, OUT_OF_MEMORY };

/* Add the candidates of a scan to the best of each request; without a probe the lists are read once for MAX_BATCH
 * requests. FOUND_TOO_FEW if a scan of all lists is better than a probe: the nearest lists hold fewer allowed rows than
 * there should be candidates, or hardly any of those that a filter allows. */
enum outcome search_scan(const struct search *search, const struct scan *scan, struct choice choice,
                         struct request *requests, size_t count);

/* Compare all allowed rows of a column (`allowed` NULL: all rows). */
void search_exact(const struct search *search, uint16_t column, const uint8_t *allowed, const float *query,
                  struct best *best);
/* Write the scores of chosen rows of a column. */
void score_rows(const struct search *search, uint16_t column, const int64_t *rows, size_t count, const float *query,
                double *scores);
/* Compare chosen rows of a column. */
void search_rows(const struct search *search, uint16_t column, const int64_t *rows, size_t count, const float *query,
                 struct best *best);

/* ---- words and vectors ------------------------------------------------------------------------------------------ */

/* The score of a chunk is a * cosine + (1 - a) * words / (words + c) + bonus. */
struct fusion {
    double a, c;
};

/* A search for the best chunks by the fused score. */
struct fuse {
    const struct search *search;   /* of the columns, which are those of the lexicons */
    const float *query;
    struct fusion fusion;
    double bound;             /* the cosine that no unknown chunk exceeds; -INFINITY: all chunks are known */
    size_t most;              /* unknown chunks that are compared at most */
    struct best *best;
};

/* Find the best chunks. The known ones are sorted, and two of one place joined; their cosines are computed where they are
 * NaN. FOUND_TOO_FEW if `most` are not enough. */
enum outcome search_fused(const struct fuse *fuse, const struct word_search *words, struct known *known);

/* The best known chunks by the sum of cosine and bonus alone, each chunk once. */
void add_joined(struct best *best, struct known *known, size_t count);

/* Add weight * (v . mean) to the score of each hit with vector v: `mean` (d,) is that of the vectors of the first `seeds`
 * hits, whose shares fall by e for each 1 / `sharpness` that their scores are less. */
void add_feedback(const struct search *search, struct hit *hits, size_t count, size_t seeds, double sharpness,
                  double weight, float *mean);

#endif
