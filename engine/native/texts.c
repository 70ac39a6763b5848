/* Texts: a column of texts in the map, looked into for phrases. */
#include "objects.h"

#define MANY_TEXTS 1024 /* with more the lock of the interpreter is released */

typedef struct {
    PyObject_HEAD
    struct views views;
    struct column column; /* the texts are its `ids` */
} Texts;

static void texts_free(PyObject *object) {
    Texts *self = (Texts *)object;
    PyMem_Free((void *)self->column.ids);
    release_views(&self->views);
    free_object(object);
}

PyDoc_STRVAR(texts_doc, "Texts(batches, batch_rows)\n--\n\n"
                        "Texts in batches of one length, the last one shorter: offsets (n + 1,) of int64 into bytes.");

static PyObject *texts_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    PyObject *batches;
    long long batch_rows;
    if (!PyArg_ParseTuple(args, "OL:Texts", &batches, &batch_rows))
        return NULL;
    if (batch_rows < 1)
        return refuse("texts: no rows of a batch");
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Texts *self = (Texts *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->column.batch_rows = batch_rows;
    if (read_ids(&self->views, &self->column, batches))
        return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

/* Whether the phrase stands in a row; rows that the column has not, and those with damaged offsets, are undecided. */
static enum standing look(const struct column *column, int64_t row, const uint8_t *phrase, size_t size) {
    if (row < 0 || (uint64_t)(row / column->batch_rows) >= column->id_batches)
        return UNDECIDED;
    const struct id_batch *batch = &column->ids[row / column->batch_rows];
    const int64_t at = row % column->batch_rows;
    if (at >= batch->rows)
        return UNDECIDED;
    const int64_t start = batch->offsets[at], end = batch->offsets[at + 1];
    if (start < 0 || end < start || end > batch->length)
        return UNDECIDED;
    return end > start ? find_phrase(batch->bytes + start, (size_t)(end - start), phrase, size) : ABSENT;
}

static void look_all(const struct column *column, const int64_t *rows, size_t count, const uint8_t *phrase, size_t size,
                     uint8_t *found) {
    for (size_t i = 0; i < count; i++) {
        if (found[i] == STANDS)
            continue;
        const enum standing here = look(column, rows[i], phrase, size);
        found[i] = (uint8_t)here > found[i] ? (uint8_t)here : found[i];
    }
}

PyDoc_STRVAR(texts_find_doc,
             "find(rows, phrase, found)\n--\n\n"
             "Raise the bytes of `found` to what the texts of these rows say: 0 if they have not the phrase, 1 if their\n"
             "normal form must be looked into, 2 if they have it. The phrase is words of ASCII letters in lower case,\n"
             "digits and underscores, with a space between two.");

static PyObject *texts_find(PyObject *object, PyObject *args) {
    const struct column *column = &((Texts *)object)->column;
    struct views views = {0};
    PyObject *rows_object, *found_object, *result = NULL;
    const char *phrase;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "Oy#O:find", &rows_object, &phrase, &size, &found_object))
        return NULL;
    const Py_buffer *view = hold(&views, rows_object, sizeof(int64_t), "rows");
    if (view != NULL) {
        const int64_t *rows = view->buf;
        const size_t count = (size_t)view->len / sizeof *rows;
        view = hold(&views, found_object, 1, "found");
        if (view != NULL && (view->readonly || (size_t)view->len != count)) {
            refuse("found: not one byte a row that may be written");
        } else if (view != NULL) {
            uint8_t *found = view->buf;
            if (count > MANY_TEXTS) {
                Py_BEGIN_ALLOW_THREADS
                look_all(column, rows, count, (const uint8_t *)phrase, (size_t)size, found);
                Py_END_ALLOW_THREADS
            } else {
                look_all(column, rows, count, (const uint8_t *)phrase, (size_t)size, found);
            }
            result = Py_NewRef(Py_None);
        }
    }
    release_views(&views);
    return result;
}

static PyMethodDef texts_methods[] = {
    {"find", texts_find, METH_VARARGS, texts_find_doc},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot texts_slots[] = {
    {Py_tp_doc, (void *)texts_doc},  {Py_tp_new, texts_new}, {Py_tp_dealloc, texts_free},
    {Py_tp_methods, texts_methods}, {0, NULL},
};
PyType_Spec texts_spec = {"aidre.engine.native.kernel.Texts", sizeof(Texts), 0, Py_TPFLAGS_DEFAULT, texts_slots};
