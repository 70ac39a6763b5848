/* The Python module: checks what it is given, once when it is opened, and calls the kernel.
 *
 * Columns, Codes and Plan hold the buffers of the arrays that they were made of, so these cannot be freed or resized.
 * They are immutable and may be searched by several threads. The lock of the interpreter is released only for long
 * searches: a short one ends sooner than another thread would give the lock back.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <math.h>
#include <string.h>

#include "kernel.h"

#define LONG_SEARCH_BYTES (8 << 20) /* bytes that a search reads; with more it releases the lock of the interpreter */
#define MAX_COLUMNS UINT16_MAX
#define MAX_SCRATCHES 4

static const struct kernel *chosen_kernel;

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

/* The buffers that an object holds. */
struct views {
    Py_buffer *items;
    size_t count, capacity;
};

static void release_views(struct views *views) {
    for (size_t i = 0; i < views->count; i++)
        PyBuffer_Release(&views->items[i]);
    PyMem_Free(views->items);
    *views = (struct views){0};
}

/* A C-contiguous buffer of `item` bytes a value; holds it in `views`. NULL with an exception. */
static const Py_buffer *hold(struct views *views, PyObject *object, Py_ssize_t item, const char *what) {
    if (views->count == views->capacity) {
        const size_t capacity = views->capacity ? 2 * views->capacity : 8;
        Py_buffer *items = PyMem_Realloc(views->items, capacity * sizeof *items);
        if (items == NULL)
            return (const Py_buffer *)PyErr_NoMemory();
        views->items = items;
        views->capacity = capacity;
    }
    Py_buffer *view = &views->items[views->count];
    if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS) < 0)
        return NULL;
    views->count++;
    if (view->itemsize != item && item != 1) {
        PyErr_Format(PyExc_ValueError, "%s: values of %zd bytes instead of %zd", what, view->itemsize, item);
        return NULL;
    }
    return view;
}

static void *refuse(const char *message) {
    PyErr_SetString(PyExc_ValueError, message);
    return NULL;
}

/* ---- Columns ---------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    struct views views;
    struct search search;
    struct column *columns;
    size_t count;
    struct scratch spare[MAX_SCRATCHES]; /* guarded by the lock of the interpreter */
    size_t spare_count;
} Columns;

static PyTypeObject *columns_type, *codes_type, *plan_type;

static void columns_free(PyObject *object) {
    Columns *self = (Columns *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (size_t i = 0; self->columns != NULL && i < self->count; i++)
        PyMem_Free((void *)self->columns[i].ids);
    PyMem_Free(self->columns);
    while (self->spare_count > 0)
        scratch_free(&self->spare[--self->spare_count]);
    release_views(&self->views);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static bool set_metric(struct search *search, const char *metric) {
    static const char *const names[] = {"dot", "cosine", "chord", "euclidean"};
    for (int i = 0; i < 4; i++)
        if (strcmp(metric, names[i]) == 0) {
            search->metric = (enum metric)i;
            return true;
        }
    return refuse("metric: dot, cosine, chord or euclidean") != NULL;
}

/* The ids of a column: a sequence of (offsets, bytes). */
static bool read_ids(Columns *self, struct column *column, PyObject *batches) {
    PyObject *tuple = PySequence_Tuple(batches);
    if (tuple == NULL)
        return false;
    const Py_ssize_t count = PyTuple_Size(tuple);
    struct id_batch *ids = PyMem_Calloc((size_t)count + 1, sizeof *ids);
    column->ids = ids;
    bool is_read = ids != NULL;
    for (Py_ssize_t i = 0; is_read && i < count; i++) {
        PyObject *offsets, *bytes;
        is_read = PyArg_ParseTuple(PyTuple_GetItem(tuple, i), "OO:ids", &offsets, &bytes);
        const Py_buffer *view = is_read ? hold(&self->views, offsets, sizeof(int64_t), "offsets of ids") : NULL;
        if (view == NULL || view->len < (Py_ssize_t)sizeof(int64_t)) {
            is_read = view != NULL && refuse("offsets of ids: none");
            break;
        }
        ids[i].offsets = view->buf;
        ids[i].rows = view->len / (Py_ssize_t)sizeof(int64_t) - 1;
        view = hold(&self->views, bytes, 1, "bytes of ids");
        is_read = view != NULL;
        if (is_read) {
            ids[i].bytes = view->buf;
            ids[i].length = view->len;
        }
    }
    column->id_batches = (size_t)count;
    Py_DECREF(tuple);
    if (!is_read && !PyErr_Occurred())
        PyErr_NoMemory();
    return is_read;
}

static bool read_column(Columns *self, struct column *column, PyObject *given) {
    PyObject *vectors, *ids;
    long long batch_rows;
    if (!PyArg_ParseTuple(given, "OOL:column", &vectors, &ids, &batch_rows))
        return false;
    const size_t item = self->search.row_bytes / self->search.dimensions;
    const Py_buffer *view = hold(&self->views, vectors, (Py_ssize_t)item, "vectors");
    if (view == NULL)
        return false;
    if (batch_rows < 1 || (size_t)view->len % self->search.row_bytes || view->len / (Py_ssize_t)self->search.row_bytes > UINT32_MAX)
        return refuse("vectors: not whole rows, too many, or no batches") != NULL;
    column->vectors = view->buf;
    column->rows = view->len / (Py_ssize_t)self->search.row_bytes;
    column->batch_rows = batch_rows;
    return read_ids(self, column, ids);
}

PyDoc_STRVAR(columns_doc,
             "Columns(metric, dimensions, item_bytes, columns)\n--\n\n"
             "The vectors of several segments: (vectors, [(offsets, bytes) of ids], rows of a batch of ids) each.");

static PyObject *columns_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    const char *metric;
    Py_ssize_t dimensions, item;
    PyObject *given;
    if (!PyArg_ParseTuple(args, "snnO:Columns", &metric, &dimensions, &item, &given))
        return NULL;
    if (dimensions < 1 || dimensions > 1 << 20 || (item != 2 && item != 4))
        return refuse("dimensions or size of an item");
    PyObject *tuple = PySequence_Tuple(given);
    if (tuple == NULL)
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Columns *self = (Columns *)allocate(type, 0);
    bool is_made = self != NULL && set_metric(&self->search, metric);
    if (is_made) {
        struct search *search = &self->search;
        search->kernel = chosen_kernel;
        search->compare = kernel_compare(chosen_kernel, search->metric, item == 2);
        search->dimensions = (size_t)dimensions;
        search->row_bytes = (size_t)(dimensions * item);
        self->count = (size_t)PyTuple_Size(tuple);
        self->columns = self->count < MAX_COLUMNS ? PyMem_Calloc(self->count + 1, sizeof *self->columns) : NULL;
        search->columns = self->columns;
        is_made = self->columns != NULL || refuse("columns: too many") != NULL;
        for (size_t i = 0; is_made && i < self->count; i++)
            is_made = read_column(self, &self->columns[i], PyTuple_GetItem(tuple, (Py_ssize_t)i));
    }
    Py_DECREF(tuple);
    if (is_made)
        return (PyObject *)self;
    Py_XDECREF((PyObject *)self);
    return NULL;
}

/* A query of float32, in a buffer that the caller releases. */
static bool get_query(const Columns *self, PyObject *object, Py_buffer *query) {
    if (PyObject_GetBuffer(object, query, PyBUF_C_CONTIGUOUS) < 0)
        return false;
    if (query->itemsize == sizeof(float) && (size_t)query->len == self->search.dimensions * sizeof(float))
        return true;
    PyBuffer_Release(query);
    return refuse("query: not one float32 for each dimension") != NULL;
}

/* The columns, rows and scores of hits, as bytes of int64, int64 and float64. */
static PyObject *as_arrays(struct best *best) {
    best_sort(best);
    const Py_ssize_t size = (Py_ssize_t)(best->size * sizeof(int64_t));
    PyObject *columns = PyBytes_FromStringAndSize(NULL, size), *rows = PyBytes_FromStringAndSize(NULL, size);
    PyObject *scores = PyBytes_FromStringAndSize(NULL, size);
    if (columns != NULL && rows != NULL && scores != NULL) {
        char *column = PyBytes_AsString(columns), *row = PyBytes_AsString(rows), *score = PyBytes_AsString(scores);
        for (size_t i = 0; i < best->size; i++) {
            const int64_t column_number = best->hits[i].column, row_number = best->hits[i].row;
            memcpy(column + 8 * i, &column_number, 8);
            memcpy(row + 8 * i, &row_number, 8);
            memcpy(score + 8 * i, &best->hits[i].score, 8);
        }
        return Py_BuildValue("NNN", columns, rows, scores);
    }
    Py_XDECREF(columns);
    Py_XDECREF(rows);
    Py_XDECREF(scores);
    return NULL;
}

static bool get_column(const Columns *self, long long number) {
    return (number >= 0 && (size_t)number < self->count) || refuse("column: no such number") != NULL;
}

/* A bitmap of the rows of a column: NULL for None. False with an exception. */
static bool get_bitmap(const struct column *column, struct views *views, PyObject *object, const uint8_t **bits) {
    *bits = NULL;
    if (object == Py_None)
        return true;
    const Py_buffer *view = hold(views, object, 1, "bitmap");
    if (view == NULL)
        return false;
    if (view->len < (column->rows + 7) / 8)
        return refuse("bitmap: shorter than the column") != NULL;
    *bits = view->buf;
    return true;
}

PyDoc_STRVAR(columns_search_doc,
             "search(column, query, k, bitmap)\n--\n\n"
             "The best k rows of a column that the bitmap allows (None: all): see Plan.search.");

static PyObject *columns_search(PyObject *object, PyObject *args) {
    Columns *self = (Columns *)object;
    long long number;
    PyObject *query_object, *bitmap;
    Py_ssize_t k;
    if (!PyArg_ParseTuple(args, "LOnO:search", &number, &query_object, &k, &bitmap) || !get_column(self, number))
        return NULL;
    struct column *column = &self->columns[number];
    struct views views = {0};
    const uint8_t *bits;
    Py_buffer query;
    k = k < 0 ? 0 : k > column->rows ? (Py_ssize_t)column->rows : k;
    if (!get_bitmap(column, &views, bitmap, &bits) || !get_query(self, query_object, &query)) {
        release_views(&views);
        return NULL;
    }
    struct best best = {PyMem_Malloc((size_t)k * sizeof(struct hit) + 1), 0, (size_t)k, self->columns};
    PyObject *result = NULL;
    if (best.hits == NULL) {
        PyErr_NoMemory();
    } else if ((size_t)column->rows * self->search.row_bytes > LONG_SEARCH_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        search_exact(&self->search, (uint16_t)number, bits, query.buf, &best);
        Py_END_ALLOW_THREADS
        result = as_arrays(&best);
    } else {
        search_exact(&self->search, (uint16_t)number, bits, query.buf, &best);
        result = as_arrays(&best);
    }
    PyMem_Free(best.hits);
    PyBuffer_Release(&query);
    release_views(&views);
    return result;
}

/* The int64 rows of a buffer, each of which the column must have. */
static bool check_rows(const struct column *column, const int64_t *rows, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (rows[i] < 0 || rows[i] >= column->rows)
            return refuse("rows: the column has no such row") != NULL;
    return true;
}

PyDoc_STRVAR(columns_score_doc,
             "score(column, query, rows, scores)\n--\n\n"
             "Write the scores of chosen rows (int64) to an array of float64.");

static PyObject *columns_score(PyObject *object, PyObject *args) {
    Columns *self = (Columns *)object;
    long long number;
    PyObject *query_object, *rows_object, *scores_object;
    if (!PyArg_ParseTuple(args, "LOOO:score", &number, &query_object, &rows_object, &scores_object) ||
        !get_column(self, number))
        return NULL;
    const struct column *column = &self->columns[number];
    struct views views = {0};
    Py_buffer query, scores;
    const Py_buffer *rows = hold(&views, rows_object, sizeof(int64_t), "rows");
    const size_t count = rows == NULL ? 0 : (size_t)rows->len / sizeof(int64_t);
    if (rows == NULL || !check_rows(column, rows->buf, count) || !get_query(self, query_object, &query)) {
        release_views(&views);
        return NULL;
    }
    PyObject *result = NULL;
    if (PyObject_GetBuffer(scores_object, &scores, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) == 0) {
        if (scores.itemsize == sizeof(double) && (size_t)scores.len == count * sizeof(double)) {
            score_rows(&self->search, (uint16_t)number, rows->buf, count, query.buf, scores.buf);
            result = Py_NewRef(Py_None);
        } else {
            refuse("scores: not one float64 for each row");
        }
        PyBuffer_Release(&scores);
    }
    PyBuffer_Release(&query);
    release_views(&views);
    return result;
}

static PyMethodDef columns_methods[] = {
    {"search", columns_search, METH_VARARGS, columns_search_doc},
    {"score", columns_score, METH_VARARGS, columns_score_doc},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot columns_slots[] = {
    {Py_tp_doc, (void *)columns_doc},   {Py_tp_new, columns_new}, {Py_tp_dealloc, columns_free},
    {Py_tp_methods, columns_methods}, {0, NULL},
};
static PyType_Spec columns_spec = {"aidre.engine.native.kernel.Columns", sizeof(Columns), 0, Py_TPFLAGS_DEFAULT, columns_slots};

/* ---- Codes ------------------------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    struct views views;
    PyObject *columns;
    struct scan scan;
    struct list *lists;
    float *codewords;
} Codes;

static void codes_free(PyObject *object) {
    Codes *self = (Codes *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyMem_Free(self->lists);
    PyMem_Free(self->codewords);
    release_views(&self->views);
    Py_XDECREF(self->columns);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
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

/* The centroids (sub_quantizers, CODEWORDS, sub_dimensions) with those of one dimension side by side. */
static bool read_centroids(Codes *self, PyObject *object) {
    struct codebook *codebook = &self->scan.codebook;
    const size_t d = codebook->sub_dimensions, part = CODEWORDS * d;
    const float *centroids;
    struct views local = {0};
    bool is_read = read_numbers(&local, object, codebook->sub_quantizers * part, "centroids", &centroids);
    if (is_read && centroids == NULL)
        is_read = refuse("codebook: none") != NULL;
    if (is_read) {
        self->codewords = PyMem_Malloc(codebook->sub_quantizers * part * sizeof(float));
        is_read = self->codewords != NULL || PyErr_NoMemory() != NULL;
    }
    for (size_t i = 0; is_read && i < codebook->sub_quantizers * part; i++)
        self->codewords[i / part * part + i % d * CODEWORDS + i % part / d] = centroids[i];
    codebook->codewords = self->codewords;
    release_views(&local);
    return is_read;
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
             "Codes(columns, centroids, mean, rotation, sub_quantizers, sub_dimensions, block_rows, lists)\n--\n\n"
             "The codes of segments with one codebook, in lists; see read_lists in module.c for their form.");

static PyObject *codes_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    PyObject *columns, *centroids, *mean, *rotation, *given;
    Py_ssize_t count, d, block_rows;
    if (!PyArg_ParseTuple(args, "O!OOOnnnO:Codes", columns_type, &columns, &centroids, &mean, &rotation, &count, &d,
                          &block_rows, &given))
        return NULL;
    const size_t dimensions = ((Columns *)columns)->search.dimensions;
    if (count < 1 || d < 1 || count > 1 << 20 || d > 1 << 20 || (size_t)(count * d) < dimensions ||
        (block_rows != 32 && block_rows != 64 && block_rows != 128))
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
        self->scan.block_rows = (size_t)block_rows;
        const size_t padded = (size_t)(count * d);
        size_t capacity = 0;
        is_made = read_centroids(self, centroids) &&
                  read_numbers(&self->views, mean, dimensions, "mean", &codebook->mean) &&
                  read_numbers(&self->views, rotation, padded * dimensions, "rotation", &codebook->rotation);
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
static PyType_Spec codes_spec = {"aidre.engine.native.kernel.Codes", sizeof(Codes), 0, Py_TPFLAGS_DEFAULT, codes_slots};

/* ---- Plan ------------------------------------------------------------------------------------------------------- */

struct scanned {
    PyObject *codes;
    const int64_t *lists;
    size_t list_count, total;
};

struct gathered {
    uint16_t column;
    const int64_t *rows;
    size_t count;
};

typedef struct {
    PyObject_HEAD
    struct views views;
    PyObject *columns;
    const uint8_t **allowed; /* of each column */
    struct scanned *scans;
    uint16_t *exact;
    struct gathered *gathered;
    size_t scan_count, exact_count, gathered_count;
    size_t rest_bytes; /* that are read beside the scans */
} Plan;

static void plan_free(PyObject *object) {
    Plan *self = (Plan *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (size_t i = 0; i < self->scan_count; i++)
        Py_XDECREF(self->scans[i].codes);
    PyMem_Free(self->scans);
    PyMem_Free(self->exact);
    PyMem_Free(self->gathered);
    PyMem_Free((void *)self->allowed);
    release_views(&self->views);
    Py_XDECREF(self->columns);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* The numbers of lists in a buffer of int64, each of which the codes must have. */
static bool get_lists(struct views *views, PyObject *object, const Codes *codes, const int64_t **lists, size_t *count) {
    const Py_buffer *view = hold(views, object, sizeof(int64_t), "numbers of lists");
    if (view == NULL)
        return false;
    *lists = view->buf;
    *count = (size_t)view->len / sizeof(int64_t);
    for (size_t i = 0; i < *count; i++)
        if ((*lists)[i] < 0 || (size_t)(*lists)[i] >= codes->scan.list_count)
            return refuse("lists: no such number") != NULL;
    return true;
}

static bool read_scan(Plan *self, PyObject *given) {
    PyObject *codes, *lists;
    Py_ssize_t total;
    struct scanned *scan = &self->scans[self->scan_count];
    if (!PyArg_ParseTuple(given, "O!On:scan", codes_type, &codes, &lists, &total))
        return false;
    if (((Codes *)codes)->columns != self->columns)
        return refuse("scan: codes of other columns") != NULL;
    scan->codes = Py_NewRef(codes);
    scan->total = (size_t)(total < 0 ? 0 : total);
    self->scan_count++;
    return get_lists(&self->views, lists, (Codes *)codes, &scan->lists, &scan->list_count);
}

static bool read_exact(Plan *self, PyObject *given) {
    const Columns *columns = (const Columns *)self->columns;
    const long long number = PyLong_AsLongLong(given);
    if (PyErr_Occurred() || !get_column(columns, number))
        return false;
    self->rest_bytes += (size_t)columns->columns[number].rows * columns->search.row_bytes;
    self->exact[self->exact_count++] = (uint16_t)number;
    return true;
}

static bool read_gathered(Plan *self, PyObject *given) {
    const Columns *columns = (const Columns *)self->columns;
    long long number;
    PyObject *rows;
    if (!PyArg_ParseTuple(given, "LO:rows", &number, &rows) || !get_column(columns, number))
        return false;
    const Py_buffer *view = hold(&self->views, rows, sizeof(int64_t), "rows");
    const size_t count = view == NULL ? 0 : (size_t)view->len / sizeof(int64_t);
    if (view == NULL || !check_rows(&columns->columns[number], view->buf, count))
        return false;
    self->rest_bytes += count * columns->search.row_bytes;
    self->gathered[self->gathered_count++] = (struct gathered){(uint16_t)number, view->buf, count};
    return true;
}

/* Apply `read` to each item of a sequence. */
static bool read_items(Plan *self, PyObject *items, bool (*read)(Plan *, PyObject *)) {
    bool is_read = true;
    for (Py_ssize_t i = 0; is_read && i < PyTuple_Size(items); i++)
        is_read = read(self, PyTuple_GetItem(items, i));
    return is_read;
}

PyDoc_STRVAR(plan_doc, "Plan(columns, bitmaps, scans, exact, gathered)\n--\n\n"
                       "What a search compares. `bitmaps` hold the allowed rows of each column (None: all), `scans` are\n"
                       "(codes, numbers of lists, allowed rows), `exact` columns, `gathered` (column, rows).\n"
                       "All sequences are tuples.");

static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    PyObject *columns_object, *bitmaps, *scans, *exact, *gathered;
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!:Plan", columns_type, &columns_object, &PyTuple_Type, &bitmaps, &PyTuple_Type,
                          &scans, &PyTuple_Type, &exact, &PyTuple_Type, &gathered))
        return NULL;
    const Columns *columns = (const Columns *)columns_object;
    if ((size_t)PyTuple_Size(bitmaps) != columns->count)
        return refuse("bitmaps: not one for each column");
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Plan *self = (Plan *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->columns = Py_NewRef(columns_object);
    self->allowed = PyMem_Calloc(columns->count + 1, sizeof *self->allowed);
    self->scans = PyMem_Calloc((size_t)PyTuple_Size(scans) + 1, sizeof *self->scans);
    self->exact = PyMem_Calloc((size_t)PyTuple_Size(exact) + 1, sizeof *self->exact);
    self->gathered = PyMem_Calloc((size_t)PyTuple_Size(gathered) + 1, sizeof *self->gathered);
    bool is_made = self->allowed != NULL && self->scans != NULL && self->exact != NULL && self->gathered != NULL;
    if (!is_made)
        PyErr_NoMemory();
    for (size_t i = 0; is_made && i < columns->count; i++)
        is_made = get_bitmap(&columns->columns[i], &self->views, PyTuple_GetItem(bitmaps, (Py_ssize_t)i),
                             &self->allowed[i]);
    if (is_made && read_items(self, scans, read_scan) && read_items(self, exact, read_exact) &&
        read_items(self, gathered, read_gathered))
        return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

/* One search, with what it needs from Python already checked. */
struct task {
    const Plan *plan;
    const float *query;
    struct choice *choices; /* of each scan */
    bool has_rest;
    struct scratch scratch;
    struct best best;
    double edge;
};

static enum outcome run(struct task *task) {
    const Plan *plan = task->plan;
    const struct search *search = &((const Columns *)plan->columns)->search;
    for (size_t i = 0; i < plan->scan_count; i++) {
        const enum outcome outcome = search_scan(search, &((const Codes *)plan->scans[i].codes)->scan, task->query,
                                                 task->choices[i], &task->scratch, &task->best, &task->edge);
        if (outcome != FOUND)
            return outcome;
    }
    for (size_t i = 0; task->has_rest && i < plan->exact_count; i++)
        search_exact(search, plan->exact[i], plan->allowed[plan->exact[i]], task->query, &task->best);
    for (size_t i = 0; task->has_rest && i < plan->gathered_count; i++)
        search_rows(search, plan->gathered[i].column, plan->gathered[i].rows, plan->gathered[i].count, task->query,
                    &task->best);
    return FOUND;
}

/* The bytes that a search reads of a scan. */
static size_t scan_bytes(const struct scan *scan, const struct choice *choice, size_t row_bytes) {
    size_t rows = 0;
    for (size_t i = 0; i < choice->list_count; i++)
        rows += (size_t)scan->lists[choice->lists[i]].size;
    return rows * codebook_pairs(&scan->codebook) + choice->count * row_bytes;
}

/* What to read of each scan: its own lists, or those of the tuple `lists`, those of a probe or a part of its own. */
static bool choose(const Plan *self, PyObject *lists, size_t count, bool is_probe, struct views *views,
                   struct choice *choices, size_t *bytes) {
    if (lists != Py_None && (!PyTuple_Check(lists) || (size_t)PyTuple_Size(lists) != self->scan_count))
        return refuse("lists: not one item for each scan") != NULL;
    for (size_t i = 0; i < self->scan_count; i++) {
        const struct scanned *scan = &self->scans[i];
        const Codes *codes = (const Codes *)scan->codes;
        struct choice *choice = &choices[i];
        *choice = (struct choice){scan->lists, scan->list_count, self->allowed, count, scan->total, false};
        if (count > scan->total)
            choice->count = scan->total;
        PyObject *own = lists == Py_None ? Py_None : PyTuple_GetItem(lists, (Py_ssize_t)i);
        if (own != Py_None) {
            choice->is_probe = is_probe;
            if (!get_lists(views, own, codes, &choice->lists, &choice->list_count))
                return false;
        }
        *bytes += scan_bytes(&codes->scan, choice, ((const Columns *)self->columns)->search.row_bytes);
    }
    return true;
}

PyDoc_STRVAR(plan_search_doc,
             "search(query, k, candidates, lists, is_probe, has_rest)\n--\n\n"
             "The best k rows for a query (float32), by (score, id): columns, rows and scores as bytes of int64, int64\n"
             "and float64; and whether equals of these may be missing. None if a scan found too few candidates.\n\n"
             "`lists` chooses lists of each scan (None: those of the plan), `is_probe` tells that these are lists\n"
             "of centroids, which hold rows twice, and without `has_rest` only the scans are searched.");

static PyObject *plan_search(PyObject *object, PyObject *args) {
    Plan *self = (Plan *)object;
    Columns *columns = (Columns *)self->columns;
    PyObject *query_object, *lists;
    Py_ssize_t k, candidates;
    int is_probe, has_rest;
    if (!PyArg_ParseTuple(args, "OnnOpp:search", &query_object, &k, &candidates, &lists, &is_probe, &has_rest))
        return NULL;
    if (k < 0 || candidates < 0 || k > UINT32_MAX || candidates > UINT32_MAX)
        return refuse("k or candidates: out of range");
    Py_buffer query;
    if (!get_query(columns, query_object, &query))
        return NULL;
    struct views views = {0};
    struct choice few[4], *choices = few;
    size_t bytes = has_rest ? self->rest_bytes : 0;
    PyObject *result = NULL;
    struct task task = {.plan = self, .query = query.buf, .has_rest = has_rest != 0, .edge = -INFINITY};
    task.best = (struct best){PyMem_Malloc((size_t)k * sizeof(struct hit) + 1), 0, (size_t)k, columns->columns};
    if (self->scan_count > sizeof few / sizeof *few)
        choices = PyMem_Malloc(self->scan_count * sizeof *choices);
    task.choices = choices;
    if (task.best.hits == NULL || choices == NULL) {
        PyErr_NoMemory();
    } else if (choose(self, lists, (size_t)candidates, is_probe != 0, &views, choices, &bytes)) {
        enum outcome outcome;
        if (columns->spare_count > 0)
            task.scratch = columns->spare[--columns->spare_count];
        if (bytes > LONG_SEARCH_BYTES) {
            Py_BEGIN_ALLOW_THREADS
            outcome = run(&task);
            Py_END_ALLOW_THREADS
        } else {
            outcome = run(&task);
        }
        if (columns->spare_count < MAX_SCRATCHES)
            columns->spare[columns->spare_count++] = task.scratch;
        else
            scratch_free(&task.scratch);
        if (outcome == OUT_OF_MEMORY) {
            PyErr_NoMemory();
        } else if (outcome == FOUND_TOO_FEW) {
            result = Py_NewRef(Py_None);
        } else {
            PyObject *arrays = as_arrays(&task.best);
            const double last = task.best.size < task.best.k ? -INFINITY
                                : task.best.size > 0        ? task.best.hits[task.best.size - 1].score
                                                            : INFINITY;
            if (arrays != NULL)
                result = Py_BuildValue("NO", arrays, task.edge > -INFINITY && task.edge >= last ? Py_True : Py_False);
        }
    }
    if (choices != few)
        PyMem_Free(choices);
    PyMem_Free(task.best.hits);
    release_views(&views);
    PyBuffer_Release(&query);
    return result;
}

static PyMethodDef plan_methods[] = {
    {"search", plan_search, METH_VARARGS, plan_search_doc},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot plan_slots[] = {
    {Py_tp_doc, (void *)plan_doc},   {Py_tp_new, plan_new}, {Py_tp_dealloc, plan_free},
    {Py_tp_methods, plan_methods}, {0, NULL},
};
static PyType_Spec plan_spec = {"aidre.engine.native.kernel.Plan", sizeof(Plan), 0, Py_TPFLAGS_DEFAULT, plan_slots};

/* ---- the module ------------------------------------------------------------------------------------------------- */

PyDoc_STRVAR(encode_doc, "encode_query(vector, is_unit, query)\n--\n\n"
                         "Write a vector of float32 or float64 to an array of float32, scaled to length 1 if `is_unit`.\n"
                         "False, with nothing written, for a vector that is no query: not finite, too long, or without\n"
                         "a direction.");

static PyObject *encode_query(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *vector_object, *query_object;
    int is_unit;
    if (!PyArg_ParseTuple(args, "OpO:encode_query", &vector_object, &is_unit, &query_object))
        return NULL;
    Py_buffer vector, query;
    if (PyObject_GetBuffer(vector_object, &vector, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0)
        return NULL;
    if (PyObject_GetBuffer(query_object, &query, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&vector);
        return NULL;
    }
    const char format = vector.format != NULL && vector.format[0] && !vector.format[1] ? vector.format[0] : 0;
    PyObject *result = NULL;
    if ((format != 'f' && format != 'd') || query.itemsize != sizeof(float) ||
        query.len / (Py_ssize_t)sizeof(float) != vector.len / vector.itemsize) {
        refuse("vector: not of float32 or float64, or not as long as the query");
    } else {
        const size_t d = (size_t)(query.len / (Py_ssize_t)sizeof(float));
        result = PyBool_FromLong(format == 'f' ? encode_f32(vector.buf, d, is_unit != 0, query.buf)
                                               : encode_f64(vector.buf, d, is_unit != 0, query.buf));
    }
    PyBuffer_Release(&vector);
    PyBuffer_Release(&query);
    return result;
}

PyDoc_STRVAR(choose_doc, "choose(name)\n--\n\nUse the kernel of that name, or the fastest one for None; returns its name.\n"
                         "ValueError if this processor cannot run it.");

static PyObject *choose_kernel(PyObject *module, PyObject *name) {
    (void)module;
    const struct kernel *kernel = kernel_best();
    if (name != Py_None) {
        const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
        if (text == NULL)
            return NULL;
        kernel = kernel_named(text);
        if (kernel == NULL)
            return refuse("kernel: unknown, or this processor cannot run it");
    }
    chosen_kernel = kernel;
    return PyUnicode_FromString(kernel->name);
}

static PyMethodDef methods[] = {
    {"choose", choose_kernel, METH_O, choose_doc},
    {"encode_query", encode_query, METH_VARARGS, encode_doc},
    {NULL, NULL, 0, NULL},
};

static bool add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type) {
    *type = (PyTypeObject *)PyType_FromSpec(spec);
    return *type != NULL && PyModule_AddType(module, *type) == 0;
}

static int execute(PyObject *module) {
    chosen_kernel = kernel_best();
    return add_type(module, &columns_spec, &columns_type) && add_type(module, &codes_spec, &codes_type) &&
                   add_type(module, &plan_spec, &plan_type)
               ? 0
               : -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)execute}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "aidre.engine.native.kernel", "Vector search in C; see kernel.h.", 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_kernel(void) { return PyModuleDef_Init(&definition); }
