/* Results as JSON, spliced from the fragments that ingest stored with each chunk. */
#include "objects.h"

#include <string.h>

#define FIELDS 3          /* strings of a chunk: its id, and JSON of its source and of its metadata */
#define CONSTANTS 7       /* of a layout, see splice_doc */
#define ESCAPED_BYTES 6   /* of a character at most */

struct strings {
    const int64_t *offsets;
    const uint8_t *bytes;
    int64_t rows, length;
};

/* The fragments of one batch of a segment's chunks. */
struct fragments {
    struct strings fields[FIELDS];
    const uint8_t *etags;
    int64_t etag_rows;
};

typedef struct {
    PyObject_HEAD
    struct views views;
    struct fragments **segments;
    size_t *batches;
    size_t count, etag_bytes;
    int64_t batch_rows;
} Fragments;

static void fragments_free(PyObject *object) {
    Fragments *self = (Fragments *)object;
    for (size_t i = 0; self->segments != NULL && i < self->count; i++)
        PyMem_Free(self->segments[i]);
    PyMem_Free(self->segments);
    PyMem_Free(self->batches);
    release_views(&self->views);
    free_object(object);
}

static bool read_strings(Fragments *self, PyObject *offsets, PyObject *bytes, struct strings *strings) {
    const Py_buffer *view = hold(&self->views, offsets, sizeof(int64_t), "offsets of fragments");
    if (view == NULL)
        return false;
    if (view->len < (Py_ssize_t)sizeof(int64_t))
        return refuse("offsets of fragments: none") != NULL;
    strings->offsets = view->buf;
    strings->rows = view->len / (Py_ssize_t)sizeof(int64_t) - 1;
    view = hold(&self->views, bytes, 1, "bytes of fragments");
    if (view == NULL)
        return false;
    strings->bytes = view->buf;
    strings->length = view->len;
    return true;
}

static bool read_batch(Fragments *self, PyObject *given, struct fragments *batch) {
    PyObject *parts[2 * FIELDS], *etags;
    if (!PyArg_ParseTuple(given, "(OO)(OO)(OO)O:fragments", &parts[0], &parts[1], &parts[2], &parts[3], &parts[4],
                          &parts[5], &etags))
        return false;
    for (size_t i = 0; i < FIELDS; i++)
        if (!read_strings(self, parts[2 * i], parts[2 * i + 1], &batch->fields[i]))
            return false;
    const Py_buffer *view = hold(&self->views, etags, 1, "etags");
    if (view == NULL)
        return false;
    batch->etags = view->buf;
    batch->etag_rows = view->len / (Py_ssize_t)self->etag_bytes;
    return true;
}

static bool read_segment(Fragments *self, PyObject *given) {
    PyObject *batches = PySequence_Tuple(given);
    if (batches == NULL)
        return false;
    const size_t count = (size_t)PyTuple_Size(batches);
    struct fragments *segment = PyMem_Calloc(count + 1, sizeof *segment);
    bool is_read = segment != NULL || PyErr_NoMemory() != NULL;
    self->segments[self->count] = segment;
    self->batches[self->count++] = count;
    for (size_t i = 0; is_read && i < count; i++)
        is_read = read_batch(self, PyTuple_GetItem(batches, (Py_ssize_t)i), &segment[i]);
    Py_DECREF(batches);
    return is_read;
}

PyDoc_STRVAR(fragments_doc,
             "Fragments(segments, batch_rows, etag_bytes)\n--\n\n"
             "Of each segment the batches of its chunks: ((offsets, bytes) of ids, of sources, of metadata, etags).");

static PyObject *fragments_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    PyObject *given;
    long long batch_rows;
    Py_ssize_t etag_bytes;
    if (!PyArg_ParseTuple(args, "O!Ln:Fragments", &PyTuple_Type, &given, &batch_rows, &etag_bytes))
        return NULL;
    if (batch_rows < 1 || etag_bytes < 1)
        return refuse("fragments: no rows, or etags without bytes");
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Fragments *self = (Fragments *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    const size_t count = (size_t)PyTuple_Size(given);
    self->batch_rows = batch_rows;
    self->etag_bytes = (size_t)etag_bytes;
    self->segments = PyMem_Calloc(count + 1, sizeof *self->segments);
    self->batches = PyMem_Calloc(count + 1, sizeof *self->batches);
    bool is_read = self->segments != NULL && self->batches != NULL;
    if (!is_read)
        PyErr_NoMemory();
    for (size_t i = 0; is_read && i < count; i++)
        is_read = read_segment(self, PyTuple_GetItem(given, (Py_ssize_t)i));
    if (is_read)
        return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

/* ---- splicing --------------------------------------------------------------------------------------------------- */

struct slice {
    const uint8_t *bytes;
    size_t length;
};

/* The pieces of one result. */
struct result {
    struct slice fields[FIELDS], score;
    const uint8_t *etag;
};

/* A string of a row; false if its offsets are damaged. */
static bool get_string(const struct strings *strings, int64_t row, struct slice *slice) {
    if (row >= strings->rows)
        return false;
    const int64_t start = strings->offsets[row], end = strings->offsets[row + 1];
    if (start < 0 || end < start || end > strings->length)
        return false;
    *slice = (struct slice){strings->bytes + start, (size_t)(end - start)};
    return true;
}

static bool get_result(const Fragments *self, int64_t segment, int64_t row, struct result *result) {
    if (segment < 0 || (size_t)segment >= self->count || row < 0)
        return false;
    const size_t number = (size_t)(row / self->batch_rows);
    row %= self->batch_rows;
    if (number >= self->batches[segment])
        return false;
    const struct fragments *batch = &self->segments[segment][number];
    for (size_t i = 0; i < FIELDS; i++)
        if (!get_string(&batch->fields[i], row, &result->fields[i]))
            return false;
    result->etag = batch->etags + (size_t)row * self->etag_bytes;
    return row < batch->etag_rows;
}

static uint8_t *put(uint8_t *out, struct slice slice) {
    memcpy(out, slice.bytes, slice.length);
    return out + slice.length;
}

static const char HEXADECIMAL[] = "0123456789abcdef";

/* A string in quotes, escaped as orjson does. */
static uint8_t *put_string(uint8_t *out, struct slice slice) {
    static const char short_escapes[] = "btn\0fr"; /* of the characters 8 to 13 */
    *out++ = '"';
    for (size_t i = 0; i < slice.length; i++) {
        const uint8_t character = slice.bytes[i];
        if (character >= 0x20 && character != '"' && character != '\\') {
            *out++ = character;
            continue;
        }
        *out++ = '\\';
        if (character >= 0x20) {
            *out++ = character;
        } else if (character >= 8 && character <= 13 && character != 11) {
            *out++ = (uint8_t)short_escapes[character - 8];
        } else {
            memcpy(out, "u00", 3);
            out[3] = (uint8_t)HEXADECIMAL[character >> 4];
            out[4] = (uint8_t)HEXADECIMAL[character & 15];
            out += 5;
        }
    }
    *out++ = '"';
    return out;
}

static uint8_t *put_hexadecimal(uint8_t *out, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        *out++ = (uint8_t)HEXADECIMAL[bytes[i] >> 4];
        *out++ = (uint8_t)HEXADECIMAL[bytes[i] & 15];
    }
    return out;
}

static bool get_bytes(PyObject *object, struct slice *slice) {
    char *bytes;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(object, &bytes, &length) < 0)
        return false;
    *slice = (struct slice){(const uint8_t *)bytes, (size_t)length};
    return true;
}

/* Room for a result between the constants, whatever has to be escaped. */
static size_t result_bytes(const struct result *result, size_t constant_bytes, size_t etag_bytes) {
    size_t size = constant_bytes + 2 * etag_bytes + ESCAPED_BYTES * result->fields[0].length + 2 + result->score.length;
    for (size_t i = 1; i < FIELDS; i++)
        size += result->fields[i].length;
    return size;
}

static uint8_t *put_result(uint8_t *out, const struct slice *layout, const struct result *result, bool has_id,
                           bool has_metadata, size_t etag_bytes) {
    out = put(out, layout[0]);
    if (has_id)
        out = put_string(out, result->fields[0]);
    out = put(put(out, layout[1]), result->score);
    out = put(put(out, layout[2]), result->fields[1]);
    out = put(out, layout[3]);
    if (has_metadata)
        out = put(out, result->fields[2]);
    out = put(out, layout[4]);
    if (has_metadata)
        out = put_hexadecimal(out, result->etag, etag_bytes);
    return put(out, layout[5]);
}

PyDoc_STRVAR(splice_doc,
             "splice(hits, scores, layout, has_ids, has_metadata)\n--\n\n"
             "The results of hits as bytes: `hits` are (segment, row) and `scores` the JSON of each one's score. The\n"
             "layout is seven constants: before the id, the score, the source, the metadata and the ETag, after that,\n"
             "and between results. None where a fragment is damaged.");

static PyObject *splice(PyObject *object, PyObject *args) {
    const Fragments *self = (const Fragments *)object;
    PyObject *hits, *scores, *constants;
    int has_ids, has_metadata;
    struct slice layout[CONSTANTS];
    size_t constant_bytes = 0, size = 0;
    if (!PyArg_ParseTuple(args, "O!O!O!pp:splice", &PyList_Type, &hits, &PyList_Type, &scores, &PyTuple_Type, &constants,
                          &has_ids, &has_metadata))
        return NULL;
    const size_t count = (size_t)PyList_Size(hits);
    if (PyTuple_Size(constants) != CONSTANTS || (size_t)PyList_Size(scores) != count)
        return refuse("splice: not seven constants, or not one score for each hit");
    for (size_t i = 0; i < CONSTANTS; i++) {
        if (!get_bytes(PyTuple_GetItem(constants, (Py_ssize_t)i), &layout[i]))
            return NULL;
        constant_bytes += layout[i].length;
    }
    struct result *results = PyMem_Malloc(count * sizeof *results + 1);
    if (results == NULL)
        return PyErr_NoMemory();
    PyObject *spliced = NULL;
    for (size_t i = 0; i < count; i++) {
        long long segment, row;
        if (!PyArg_ParseTuple(PyList_GetItem(hits, (Py_ssize_t)i), "LL:hit", &segment, &row) ||
            !get_bytes(PyList_GetItem(scores, (Py_ssize_t)i), &results[i].score))
            goto end;
        if (!get_result(self, segment, row, &results[i])) {
            spliced = Py_NewRef(Py_None);
            goto end;
        }
        size += result_bytes(&results[i], constant_bytes, self->etag_bytes);
    }
    uint8_t *bytes = PyMem_Malloc(size + 1), *out = bytes;
    if (bytes == NULL) {
        PyErr_NoMemory();
        goto end;
    }
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            out = put(out, layout[CONSTANTS - 1]);
        out = put_result(out, layout, &results[i], has_ids != 0, has_metadata != 0, self->etag_bytes);
    }
    spliced = PyBytes_FromStringAndSize((const char *)bytes, out - bytes);
    PyMem_Free(bytes);
end:
    PyMem_Free(results);
    return spliced;
}

static PyMethodDef fragments_methods[] = {
    {"splice", splice, METH_VARARGS, splice_doc},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot fragments_slots[] = {
    {Py_tp_doc, (void *)fragments_doc},   {Py_tp_new, fragments_new}, {Py_tp_dealloc, fragments_free},
    {Py_tp_methods, fragments_methods}, {0, NULL},
};
PyType_Spec fragments_spec = {"aidre.engine.native.kernel.Fragments", sizeof(Fragments), 0, Py_TPFLAGS_DEFAULT,
                              fragments_slots};
