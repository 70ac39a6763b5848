/* Codes: the lists of the segments with one codebook. Every offset and every row is checked here, against the buffers. */
#include "objects.h"

#include <math.h>

static void codes_free(PyObject *object) {
    Codes *self = (Codes *)object;
    PyMem_Free(self->lists);
    PyMem_Free(self->codewords);
    PyMem_Free(self->biases);
    release_views(&self->views);
    Py_XDECREF(self->columns);
    free_object(object);
}

static bool read_numbers(struct views *views, PyObject *object, size_t count, const char *what, const float **numbers) {
    *numbers = NULL;
    if (object == Py_None)
        return true;
    const Py_buffer *view = hold(views, object, sizeof(float), what);
    if (view == NULL)
        return false;
    if ((size_t)view->len != count * sizeof(float))
        return refuse("codebook: not of its shape") != NULL;
    *numbers = view->buf;
    for (size_t i = 0; i < count; i++)
        if (!isfinite((*numbers)[i]))
            return refuse("codebook: a number is not finite") != NULL;
    return true;
}

/* The centroids (sub_quantizers, CODEWORDS, sub_dimensions) with those of one dimension side by side, and minus `weight`
 * times their squared lengths as biases. */
static bool read_centroids(Codes *self, PyObject *object, float weight) {
    struct codebook *codebook = &self->scan.codebook;
    const size_t d = codebook->sub_dimensions, part = CODEWORDS * d;
    const float *centroids;
    struct views local = {0};
    bool is_read = read_numbers(&local, object, codebook->sub_quantizers * part, "centroids", &centroids);
    if (is_read && centroids == NULL)
        is_read = refuse("codebook: none") != NULL;
    if (is_read) {
        self->codewords = PyMem_Malloc(codebook->sub_quantizers * part * sizeof(float));
        self->biases = PyMem_Calloc(codebook->sub_quantizers * CODEWORDS, sizeof(float));
        is_read = (self->codewords != NULL && self->biases != NULL) || PyErr_NoMemory() != NULL;
    }
    for (size_t i = 0; is_read && i < codebook->sub_quantizers * part; i++) {
        self->codewords[i / part * part + i % d * CODEWORDS + i % part / d] = centroids[i];
        self->biases[i / d] -= weight * centroids[i] * centroids[i];
    }
    codebook->codewords = self->codewords;
    codebook->biases = self->biases;
    release_views(&local);
    return is_read;
}

static bool read_rotation(Codes *self, PyObject *object, size_t count) {
    if (object == Py_None)
        return true;
    const Py_buffer *view = hold(&self->views, object, sizeof(uint16_t), "rotation");
    if (view == NULL)
        return false;
    if ((size_t)view->len != count * sizeof(uint16_t))
        return refuse("rotation: not of its shape") != NULL;
    const uint16_t *numbers = view->buf;
    for (size_t i = 0; i < count; i++)
        if ((numbers[i] & 0x7c00) == 0x7c00) /* the exponent of infinities and NaN */
            return refuse("rotation: a number is not finite") != NULL;
    self->scan.codebook.rotation = numbers;
    return true;
}

/* Whether a list lies within its buffers and its rows within their column. */
static bool check_list(const struct list *list, const struct column *column, int64_t offset, int64_t entry,
                       size_t block_bytes, size_t block_rows, const Py_buffer *codes, const Py_buffer *rows) {
    const int64_t blocks = list->size / (int64_t)block_rows + (list->size % (int64_t)block_rows != 0);
    if (list->size < 0 || list->size > INT32_MAX || offset < 0 || offset > codes->len ||
        (codes->len - offset) / (int64_t)block_bytes < blocks)
        return refuse("list: its codes end beyond their buffer") != NULL;
    if (rows == NULL)
        return (list->first_row >= 0 && list->first_row <= column->rows - list->size) ||
               refuse("list: rows beyond the column") != NULL;
    if (entry < 0 || entry > rows->len / (int64_t)sizeof(int32_t) - list->size)
        return refuse("list: its rows end beyond their buffer") != NULL;
    for (int64_t i = 0; i < list->size; i++)
        if (list->rows[i] < 0 || list->rows[i] >= column->rows)
            return refuse("list: a row beyond the column") != NULL;
    return true;
}

/* Lists of one buffer: (column, codes, rows or None, offsets, firsts, sizes), the last three of one int64 a list.
 * `offsets` are bytes in `codes`; `firsts` are entries of `rows`, or the first row where there are none. */
static bool read_lists(Codes *self, PyObject *given, size_t *capacity) {
    PyObject *codes_object, *rows_object, *offsets_object, *firsts_object, *sizes_object;
    long long number;
    const Columns *columns = (const Columns *)self->columns;
    if (!PyArg_ParseTuple(given, "LOOOOO:lists", &number, &codes_object, &rows_object, &offsets_object, &firsts_object,
                          &sizes_object) ||
        !get_column(columns, number))
        return false;
    struct views local = {0};
    const struct column *column = &columns->columns[number];
    Py_buffer codes = {0}, rows = {0};
    const Py_buffer *view = hold(&self->views, codes_object, 1, "codes");
    bool is_read = view != NULL;
    if (is_read)
        codes = *view;
    const bool has_rows = rows_object != Py_None;
    if (is_read && has_rows) {
        view = hold(&self->views, rows_object, sizeof(int32_t), "rows of lists");
        is_read = view != NULL;
        if (is_read)
            rows = *view;
    }
    Py_buffer numbers[3] = {{0}, {0}, {0}};
    PyObject *const objects[3] = {offsets_object, firsts_object, sizes_object};
    for (int i = 0; is_read && i < 3; i++) {
        view = hold(&local, objects[i], sizeof(int64_t), "lists");
        is_read = view != NULL && (i == 0 || view->len == numbers[0].len || refuse("lists: of several lengths"));
        if (is_read)
            numbers[i] = *view;
    }
    const size_t count = is_read ? (size_t)numbers[0].len / sizeof(int64_t) : 0;
    if (is_read && self->scan.list_count + count > *capacity) {
        *capacity = self->scan.list_count + count;
        struct list *lists = PyMem_Realloc(self->lists, *capacity * sizeof *lists);
        is_read = lists != NULL || PyErr_NoMemory() != NULL;
        self->lists = lists != NULL ? lists : self->lists;
    }
    const size_t block_bytes = codebook_pairs(&self->scan.codebook) * self->scan.block_rows;
    for (size_t i = 0; is_read && i < count; i++) {
        const int64_t offset = ((const int64_t *)numbers[0].buf)[i], first = ((const int64_t *)numbers[1].buf)[i];
        const int64_t size = ((const int64_t *)numbers[2].buf)[i];
        const bool is_inside = first >= 0 && (!has_rows || first <= rows.len / (int64_t)sizeof(int32_t));
        struct list list = {.codes = (const uint8_t *)codes.buf + (offset < 0 || offset > codes.len ? 0 : offset),
                            .rows = has_rows && is_inside ? (const int32_t *)rows.buf + first : NULL,
                            .size = size,
                            .first_row = has_rows ? 0 : first,
                            .column = (uint16_t)number};
        is_read = (is_inside || refuse("list: rows beyond their buffer")) &&
                  check_list(&list, column, offset, first, block_bytes, self->scan.block_rows, &codes,
                             has_rows ? &rows : NULL);
        self->lists[self->scan.list_count++] = list;
    }
    release_views(&local);
    return is_read;
}

PyDoc_STRVAR(codes_doc,
             "Codes(columns, centroids, norm_weight, rotation, sub_quantizers, sub_dimensions, block_rows, lists)\n--\n\n"
             "The codes of segments with one codebook, in lists; see read_lists in module.c for their form. With a\n"
             "`norm_weight`, for unit vectors, an estimate is the inner product minus so many times the squared length of\n"
             "the decoded row; else it is that of the metric.");

static PyObject *codes_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    PyObject *columns, *centroids, *rotation, *given;
    float weight;
    Py_ssize_t count, d, block_rows;
    if (!PyArg_ParseTuple(args, "O!OfOnnnO:Codes", columns_type, &columns, &centroids, &weight, &rotation, &count,
                          &d, &block_rows, &given))
        return NULL;
    const size_t dimensions = ((Columns *)columns)->search.dimensions;
    if (count < 1 || d < 1 || count > 1 << 20 || d > 1 << 20 || (rotation == Py_None && (size_t)(count * d) < dimensions) ||
        (block_rows != 32 && block_rows != 64 && block_rows != 128) || !(weight >= 0 && weight < 1e6f))
        return refuse("codes: not a product quantizer of this space");
    PyObject *tuple = PySequence_Tuple(given);
    if (tuple == NULL)
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Codes *self = (Codes *)allocate(type, 0);
    bool is_made = self != NULL;
    if (is_made) {
        struct codebook *codebook = &self->scan.codebook;
        self->columns = Py_NewRef(columns);
        codebook->sub_quantizers = (size_t)count;
        codebook->sub_dimensions = (size_t)d;
        codebook->dimensions = dimensions;
        codebook->is_l2 = metric_is_l2(((Columns *)columns)->search.metric) && weight == 0;
        self->scan.block_rows = (size_t)block_rows;
        const size_t padded = (size_t)(count * d);
        size_t capacity = 0;
        is_made = read_centroids(self, centroids, weight) &&
                  read_rotation(self, rotation, padded * dimensions);
        for (Py_ssize_t i = 0; is_made && i < PyTuple_Size(tuple); i++)
            is_made = read_lists(self, PyTuple_GetItem(tuple, i), &capacity);
        self->scan.lists = self->lists;
    }
    Py_DECREF(tuple);
    if (is_made)
        return (PyObject *)self;
    Py_XDECREF((PyObject *)self);
    return NULL;
}

static PyType_Slot codes_slots[] = {
    {Py_tp_doc, (void *)codes_doc}, {Py_tp_new, codes_new}, {Py_tp_dealloc, codes_free}, {0, NULL},
};
PyType_Spec codes_spec = {"aidre.engine.native.kernel.Codes", sizeof(Codes), 0, Py_TPFLAGS_DEFAULT, codes_slots};
