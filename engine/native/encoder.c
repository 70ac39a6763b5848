/* The Python type Encoder: checks the arrays of a model once, and embeds texts without the lock of the interpreter. */
#include "objects.h"

#include <stdlib.h>
#include <string.h>

#include "bert.h"

#define ALIGNED 64
#define MAX_TOKENS (1 << 20) /* of one call */

typedef struct {
    PyObject_HEAD
    struct views views;
    struct bert bert;
    uint8_t *codes; /* of all dense layers */
} Encoder;

static uint8_t *aligned(size_t bytes) { return aligned_alloc(ALIGNED, (bytes + ALIGNED - 1) / ALIGNED * ALIGNED + ALIGNED); }

/* The values of an array of so many items, which stays held. */
static const void *array_of(struct views *views, PyObject *object, size_t items, Py_ssize_t item, const char *what) {
    const Py_buffer *view = object == NULL ? NULL : hold(views, object, item, what);
    if (view == NULL)
        return NULL;
    if ((size_t)view->len != items * (size_t)item)
        return refuse("encoder: an array of the model has another size");
    return view->buf;
}

static bool read_norm(Encoder *self, PyObject *object, struct norm *norm) {
    const float *rows = array_of(&self->views, object, 2 * self->bert.hidden, sizeof(float), "norm");
    if (rows == NULL)
        return false;
    *norm = (struct norm){rows, rows + self->bert.hidden};
    return true;
}

static bool read_dense(Encoder *self, PyObject *layer, Py_ssize_t place, struct dense *dense, uint8_t **codes) {
    struct views weights = {0};
    const size_t size = dense->inputs * dense->outputs;
    const int8_t *rows = array_of(&weights, PyTuple_GetItem(layer, place), size, 1, "weights");
    if (rows != NULL)
        pack_dense(rows, dense->inputs, dense->outputs, *codes);
    release_views(&weights);
    if (rows == NULL)
        return false;
    dense->codes = *codes;
    *codes += size;
    dense->scale = array_of(&self->views, PyTuple_GetItem(layer, place + 1), dense->outputs, sizeof(float), "scale");
    if (dense->scale == NULL)
        return false;
    dense->bias = array_of(&self->views, PyTuple_GetItem(layer, place + 2), dense->outputs, sizeof(float), "bias");
    return dense->bias != NULL;
}

#define LAYER_ARRAYS 14 /* four dense layers of three arrays, and two norms */

static bool read_layer(Encoder *self, PyObject *arrays, struct layer *layer, uint8_t **codes) {
    const size_t d = self->bert.hidden, inner = self->bert.inner;
    if (!PyTuple_Check(arrays) || PyTuple_Size(arrays) != LAYER_ARRAYS) {
        refuse("encoder: a layer has not 14 arrays");
        return false;
    }
    layer->attention = (struct dense){.inputs = d, .outputs = 3 * d};
    layer->joined = (struct dense){.inputs = d, .outputs = d};
    layer->inner = (struct dense){.inputs = d, .outputs = inner};
    layer->outer = (struct dense){.inputs = inner, .outputs = d};
    return read_dense(self, arrays, 0, &layer->attention, codes) && read_dense(self, arrays, 3, &layer->joined, codes) &&
           read_norm(self, PyTuple_GetItem(arrays, 6), &layer->after_attention) &&
           read_dense(self, arrays, 7, &layer->inner, codes) && read_dense(self, arrays, 10, &layer->outer, codes) &&
           read_norm(self, PyTuple_GetItem(arrays, 13), &layer->after_outer);
}

static bool read_layers(Encoder *self, PyObject *layers) {
    struct bert *bert = &self->bert;
    const size_t d = bert->hidden, count = (size_t)PyTuple_Size(layers);
    if (count == 0 || count > MAX_LAYERS) {
        refuse("encoder: no layers, or too many");
        return false;
    }
    bert->layers = PyMem_Calloc(count, sizeof *bert->layers);
    uint8_t *codes = self->codes = aligned(count * (4 * d * d + 2 * d * bert->inner));
    if (bert->layers == NULL || codes == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (; bert->layer_count < count; bert->layer_count++)
        if (!read_layer(self, PyTuple_GetItem(layers, (Py_ssize_t)bert->layer_count), bert->layers + bert->layer_count, &codes))
            return false;
    return true;
}

static bool check_sizes(const struct bert *bert) {
    const size_t d = bert->hidden, heads = bert->heads, many = COLUMNS_AT_ONCE;
    const bool fits = d > 0 && d <= MAX_HIDDEN && d % many == 0 && heads > 0 && d % heads == 0 &&
                      d / heads % (2 * LANES) == 0 && bert->inner > 0 && bert->inner <= MAX_INNER && bert->inner % many == 0;
    if (!fits)
        refuse("encoder: the sizes of the model are not multiples of the kernel's");
    return fits;
}

static PyObject *encoder_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)keywords;
    PyObject *words, *positions, *norm, *layers;
    int hidden, heads, inner;
    struct bert bert = {0};
    if (!PyArg_ParseTuple(args, "iiifOffOOO!:Encoder", &hidden, &heads, &inner, &bert.epsilon, &words, &bert.word_scale,
                          &bert.word_zero, &positions, &norm, &PyTuple_Type, &layers))
        return NULL;
    if (!bert_runs_here())
        return refuse("encoder: this processor lacks AVX-512 with VNNI");
    bert.hidden = hidden > 0 ? (size_t)hidden : 0;
    bert.heads = heads > 0 ? (size_t)heads : 0;
    bert.inner = inner > 0 ? (size_t)inner : 0;
    if (!check_sizes(&bert))
        return NULL;
    const allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Encoder *self = (Encoder *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->bert = bert;
    const Py_buffer *rows = hold(&self->views, words, 1, "words");
    const Py_buffer *places = rows == NULL ? NULL : hold(&self->views, positions, sizeof(float), "positions");
    if (places != NULL) {
        rows = &self->views.items[0]; /* which a second buffer may have moved */
        self->bert.words = (size_t)rows->len / bert.hidden;
        self->bert.word_codes = rows->buf;
        self->bert.positions = (size_t)places->len / sizeof(float) / bert.hidden;
        self->bert.position_rows = places->buf;
        if (self->bert.words > 0 && self->bert.words <= INT32_MAX && self->bert.positions > 0 &&
            read_norm(self, norm, &self->bert.embedded) && read_layers(self, layers))
            return (PyObject *)self;
        if (!PyErr_Occurred())
            refuse("encoder: no words, or no positions");
    }
    Py_DECREF(self);
    return NULL;
}

static void encoder_free(PyObject *object) {
    Encoder *self = (Encoder *)object;
    release_views(&self->views);
    PyMem_Free(self->bert.layers);
    free(self->codes);
    free_object(object);
}

/* Whether all tokens are words and all texts have positions; counts the tokens, and those of the longest text. */
static bool check_texts(const struct bert *bert, const int32_t *tokens, size_t count, const int32_t *lengths, size_t texts,
                        size_t *longest) {
    size_t total = 0;
    *longest = 0;
    for (size_t i = 0; i < texts; i++) {
        if (lengths[i] < 1 || (size_t)lengths[i] > bert->positions)
            return false;
        total += (size_t)lengths[i];
        *longest = (size_t)lengths[i] > *longest ? (size_t)lengths[i] : *longest;
    }
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= bert->words)
            return false;
    return total == count && count <= MAX_TOKENS;
}

PyDoc_STRVAR(embed_doc, "embed(tokens, lengths)\n--\n\n"
                        "The vectors of texts, as bytes of float32: `tokens` (int32) of all texts one after the other,\n"
                        "and the number of each. ValueError for tokens and lengths that the model does not have.");

static PyObject *encoder_embed(PyObject *object, PyObject *args) {
    const Encoder *self = (const Encoder *)object;
    PyObject *token_object, *length_object, *result = NULL;
    if (!PyArg_ParseTuple(args, "OO:embed", &token_object, &length_object))
        return NULL;
    struct views views = {0};
    if (hold(&views, token_object, sizeof(int32_t), "tokens") && hold(&views, length_object, sizeof(int32_t), "lengths")) {
        const int32_t *tokens = views.items[0].buf, *lengths = views.items[1].buf;
        const size_t count = (size_t)views.items[0].len / sizeof *tokens, texts = (size_t)views.items[1].len / sizeof *lengths;
        size_t longest;
        uint8_t *scratch = NULL;
        if (!check_texts(&self->bert, tokens, count, lengths, texts, &longest))
            refuse("encoder: a token or a length that the model does not have");
        else if ((scratch = aligned(bert_scratch_bytes(&self->bert, count, longest))) == NULL)
            PyErr_NoMemory();
        else
            result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(texts * self->bert.hidden * sizeof(float)));
        if (result != NULL) {
            float *rows = (float *)(void *)PyBytes_AsString(result);
            Py_BEGIN_ALLOW_THREADS;
            bert_embed(&self->bert, tokens, lengths, texts, scratch, rows);
            Py_END_ALLOW_THREADS;
        }
        free(scratch);
    }
    release_views(&views);
    return result;
}

static PyMethodDef methods[] = {
    {"embed", encoder_embed, METH_VARARGS, embed_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot encoder_slots[] = {
    {Py_tp_new, (void *)encoder_new},
    {Py_tp_dealloc, (void *)encoder_free},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec encoder_spec = {"aidre.engine.native.kernel.Encoder", sizeof(Encoder), 0, Py_TPFLAGS_DEFAULT, encoder_slots};
