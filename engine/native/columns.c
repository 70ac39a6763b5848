/* Columns: the stored vectors of segments, compared in place. */
#include "objects.h"

#include <string.h>

#define MAX_COLUMNS UINT16_MAX

static void columns_free(PyObject *object) {
    Columns *self = (Columns *)object;
    for (size_t i = 0; self->columns != NULL && i < self->count; i++)
        PyMem_Free((void *)self->columns[i].ids);
    PyMem_Free(self->columns);
    while (self->spare_count > 0)
        scratch_free(self->spare[--self->spare_count]);
    release_views(&self->views);
    free_object(object);
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

bool read_ids(struct views *views, struct column *column, PyObject *batches) {
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
        const Py_buffer *view = is_read ? hold(views, offsets, sizeof(int64_t), "offsets of ids") : NULL;
        if (view == NULL || view->len < (Py_ssize_t)sizeof(int64_t)) {
            is_read = view != NULL && refuse("offsets of ids: none");
            break;
        }
        ids[i].offsets = view->buf;
        ids[i].rows = view->len / (Py_ssize_t)sizeof(int64_t) - 1;
        view = hold(views, bytes, 1, "bytes of ids");
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
    return read_ids(&self->views, column, ids);
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

PyObject *as_arrays(struct best *best) {
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

PyObject *as_lists(const struct best *best) {
    const Py_ssize_t size = (Py_ssize_t)best->size;
    PyObject *columns = PyList_New(size), *rows = PyList_New(size), *scores = PyList_New(size);
    bool is_made = columns != NULL && rows != NULL && scores != NULL;
    for (Py_ssize_t i = 0; is_made && i < size; i++) {
        const struct hit *hit = &best->hits[i];
        PyObject *column = PyLong_FromLong(hit->column), *row = PyLong_FromUnsignedLong(hit->row);
        PyObject *score = PyFloat_FromDouble(hit->score);
        is_made = column != NULL && row != NULL && score != NULL;
        PyList_SetItem(columns, i, column); /* an item may be NULL */
        PyList_SetItem(rows, i, row);
        PyList_SetItem(scores, i, score);
    }
    if (is_made)
        return Py_BuildValue("NNN", columns, rows, scores);
    Py_XDECREF(columns);
    Py_XDECREF(rows);
    Py_XDECREF(scores);
    return NULL;
}

bool get_column(const Columns *self, long long number) {
    return (number >= 0 && (size_t)number < self->count) || refuse("column: no such number") != NULL;
}

bool get_bitmap(const struct column *column, struct views *views, PyObject *object, const uint8_t **bits) {
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

bool check_rows(const struct column *column, const int64_t *rows, size_t count) {
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

/* Hits of the columns, from arrays of int64, int64 and float64; to be freed. NULL with an exception. */
static struct hit *read_hits(const Columns *self, struct views *views, PyObject *const parts[3], size_t *count) {
    const Py_buffer *columns = hold(views, parts[0], sizeof(int64_t), "columns");
    const Py_buffer *rows = columns == NULL ? NULL : hold(views, parts[1], sizeof(int64_t), "rows");
    const Py_buffer *scores = rows == NULL ? NULL : hold(views, parts[2], sizeof(double), "scores");
    if (scores == NULL)
        return NULL;
    /* `hold` may move its buffers */
    const int64_t *column = views->items[0].buf, *row = views->items[1].buf;
    const double *score = views->items[2].buf;
    *count = (size_t)views->items[0].len / sizeof(int64_t);
    if (views->items[1].len != views->items[0].len || views->items[2].len != views->items[0].len)
        return refuse("hits: not as many columns, rows and scores");
    struct hit *hits = PyMem_Malloc(*count * sizeof *hits + 1);
    if (hits == NULL)
        return (struct hit *)PyErr_NoMemory();
    for (size_t i = 0; i < *count; i++) {
        if (!get_column(self, column[i]) || !check_rows(&self->columns[column[i]], &row[i], 1)) {
            PyMem_Free(hits);
            return NULL;
        }
        hits[i] = (struct hit){score[i], (uint32_t)row[i], (uint16_t)column[i]};
    }
    return hits;
}

PyDoc_STRVAR(columns_feedback_doc,
             "feedback(columns, rows, scores, seeds, sharpness, weight)\n--\n\n"
             "The hits by the sum of their score and of weight * (v . mean), ordered anew, as `search` gives them: `mean` is\n"
             "that of the vectors of the first `seeds`, whose shares are exp(sharpness * score).");

static PyObject *columns_feedback(PyObject *object, PyObject *args) {
    const Columns *self = (Columns *)object;
    PyObject *parts[3], *result = NULL;
    Py_ssize_t seeds;
    double sharpness, weight;
    if (!PyArg_ParseTuple(args, "OOOndd:feedback", &parts[0], &parts[1], &parts[2], &seeds, &sharpness, &weight))
        return NULL;
    struct views views = {0};
    size_t count = 0;
    struct hit *hits = read_hits(self, &views, parts, &count);
    float *mean = PyMem_Malloc(self->search.dimensions * sizeof *mean);
    struct best best = {PyMem_Malloc(count * sizeof *best.hits + 1), 0, count, self->columns};
    if (hits != NULL && (mean == NULL || best.hits == NULL)) {
        PyErr_NoMemory();
    } else if (hits != NULL) {
        add_feedback(&self->search, hits, count, seeds < 0 ? 0 : (size_t)seeds, sharpness, weight, mean);
        for (size_t i = 0; i < count; i++)
            best_add(&best, hits[i]);
        result = as_arrays(&best);
    }
    PyMem_Free(hits);
    PyMem_Free(mean);
    PyMem_Free(best.hits);
    release_views(&views);
    return result;
}

static PyMethodDef columns_methods[] = {
    {"search", columns_search, METH_VARARGS, columns_search_doc},
    {"score", columns_score, METH_VARARGS, columns_score_doc},
    {"feedback", columns_feedback, METH_VARARGS, columns_feedback_doc},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot columns_slots[] = {
    {Py_tp_doc, (void *)columns_doc},   {Py_tp_new, columns_new}, {Py_tp_dealloc, columns_free},
    {Py_tp_methods, columns_methods}, {0, NULL},
};
PyType_Spec columns_spec = {"aidre.engine.native.kernel.Columns", sizeof(Columns), 0, Py_TPFLAGS_DEFAULT, columns_slots};
