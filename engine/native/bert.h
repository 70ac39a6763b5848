/* A BERT encoder in bytes: token ids in, one mean-pooled vector of length 1 for each text out.
 *
 * Weights are signed bytes with a scale for each output, as in the int8 graph of ONNX Runtime. The inputs of a product
 * are quantized row by row: so a vector depends on its own text alone, and many texts share a product without padding.
 */
#ifndef AIDRE_BERT_H
#define AIDRE_BERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COLUMNS_AT_ONCE 64    /* outputs whose weights stand side by side; the sizes of a model are multiples of it */
#define MAX_HEAD 128          /* dimensions of one head: a multiple of LANES */
#define LANES 16              /* floats of a register */
#define MAX_LAYERS 64
#define MAX_HIDDEN 4096
#define MAX_INNER 16384

/* output = input * weights + bias. Codes are of weights plus 128: (outputs / 64, inputs / 4, 64, 4). */
struct dense {
    uint8_t *codes;
    const float *scale, *bias;
    size_t inputs, outputs;
};

struct norm {
    const float *weight, *bias;
};

struct layer {
    struct dense attention, joined, inner, outer; /* query, key and value together; what joins the heads; the two others */
    struct norm after_attention, after_outer;
};

struct bert {
    size_t hidden, heads, inner, words, positions, layer_count;
    float epsilon;
    const uint8_t *word_codes; /* (words, hidden); value = (code - zero) * scale */
    float word_scale, word_zero;
    const float *position_rows; /* (positions, hidden), with the first token type */
    struct norm embedded;
    struct layer *layers;
};

/* Whether this processor can embed. */
bool bert_runs_here(void);
/* Bytes of the codes of a dense layer, which `pack_dense` fills from its weights (inputs, outputs). */
size_t dense_bytes(size_t inputs, size_t outputs);
void pack_dense(const int8_t *weights, size_t inputs, size_t outputs, uint8_t *codes);
/* Bytes of scratch memory for texts of `tokens` in all and `longest` at most. */
size_t bert_scratch_bytes(const struct bert *bert, size_t tokens, size_t longest);
/* Write the vectors (texts, hidden) of texts whose tokens stand one after the other. `scratch` is aligned to 64 bytes. */
void bert_embed(const struct bert *bert, const int32_t *tokens, const int32_t *lengths, size_t texts, uint8_t *scratch,
                float *rows);

#endif
