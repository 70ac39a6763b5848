/* Centroids, those of inverted lists: ranked for a query, and chosen for rows. */
#include "objects.h"

#include <math.h>

static void centroids_free(PyObject *object) {
    release_views(&((Centroids *)object)->views);
    free_object(object);
}

/* A buffer of `count` finite float32; NULL with an exception. */
static const float *get_numbers(struct views *views, PyObject *object, size_t count, const char *what) {
    const Py_buffer *view = hold(views, object, sizeof(float), what);
    if (view == NULL)
        return NULL;
    const float *numbers = view->buf;
    if ((size_t)view->len != count * sizeof(float))
        return refuse("centroids: numbers of another shape");
    for (size_t i = 0; i < count; i++)
        if (!isfinite(numbers[i]))
            return refuse("centroids: a number is not finite");
    return numbers;
}

PyDoc_STRVAR(centroids_doc,
             "Centroids(codes, mean, squares, step, is_l2, is_relative)\n--\n\n"
             "Centroids less their mean, in steps plus 128, each padded with 128 to a multiple of 64 bytes; their mean\n"
             "(d,), and the squares of their distances from it (n,). Scores are minus distances if `is_l2`, else inner\n"
             "products; a gap between scores is that of a query of length 1 if `is_relative`.");

static PyObject *centroids_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    PyObject *codes, *mean, *squares;
    float step;
    int is_l2, is_relative;
    if (!PyArg_ParseTuple(args, "OOOfpp:Centroids", &codes, &mean, &squares, &step, &is_l2, &is_relative))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Centroids *self = (Centroids *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    struct centroids *centroids = &self->centroids;
    const Py_buffer *view = hold(&self->views, mean, sizeof(float), "mean");
    size_t d = 0, bytes = 1;
    bool is_made = view != NULL;
    if (is_made) {
        d = (size_t)view->len / sizeof(float);
        bytes = (d + BYTES_AT_ONCE - 1) / BYTES_AT_ONCE * BYTES_AT_ONCE;
        is_made = d >= 1 && d <= MAX_CENTROID_DIMENSIONS && isfinite(step) && step >= 0;
        is_made = is_made || refuse("centroids: no dimensions, too many of them, or no step") != NULL;
    }
    if (is_made) {
        view = hold(&self->views, codes, 1, "codes");
        is_made = view != NULL;
    }
    if (is_made) {
        *centroids = (struct centroids){.codes = view->buf, .count = (size_t)view->len / bytes, .dimensions = d,
                                        .bytes = bytes, .step = step, .is_l2 = is_l2 != 0, .is_relative = is_relative != 0};
        is_made = centroids->count >= 1 && centroids->count <= MAX_CENTROIDS && (size_t)view->len % bytes == 0;
        is_made = is_made || refuse("centroids: none, too many, or not of their length") != NULL;
    }
    if (is_made) {
        centroids->mean = get_numbers(&self->views, mean, d, "mean");
        centroids->squares = centroids->mean == NULL ? NULL : get_numbers(&self->views, squares, centroids->count, "squares");
        is_made = centroids->squares != NULL;
    }
    if (is_made)
        return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

PyDoc_STRVAR(rank_doc, "rank(query)\n--\n\nAll centroids for a query in the space of the codes (d,) float32, nearest first, as bytes\n"
                       "of int64, and their gaps as bytes of float64: the mean score of the nearest four minus theirs.");

static PyObject *centroids_rank(PyObject *object, PyObject *query) {
    const struct centroids *centroids = &((Centroids *)object)->centroids;
    const size_t count = centroids->count;
    struct views views = {0};
    const Py_buffer *view = hold(&views, query, sizeof(float), "query");
    PyObject *result = NULL;
    struct ranking ranking = {PyMem_Malloc(2 * count * sizeof *ranking.ranked), PyMem_Malloc(count * sizeof *ranking.scores),
                              PyMem_Malloc(centroids->bytes)};
    PyObject *numbers = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * sizeof(int64_t)));
    PyObject *gaps = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * sizeof(double)));
    if (ranking.ranked == NULL || ranking.scores == NULL || ranking.query == NULL) {
        PyErr_NoMemory();
    } else if (view != NULL && (size_t)view->len != centroids->dimensions * sizeof(float)) {
        refuse("query: not one float32 for each dimension");
    } else if (view != NULL && numbers != NULL && gaps != NULL) {
        int64_t *out = (int64_t *)(void *)PyBytes_AsString(numbers);
        double *out_gaps = (double *)(void *)PyBytes_AsString(gaps);
        float unit;
        const float best = score_centroids(chosen_kernel, centroids, view->buf, &ranking, &unit);
        if (sort_centroids(centroids, &ranking, -INFINITY) < count) {
            refuse("query: not finite");
        } else {
            for (size_t i = 0; i < count; i++) {
                const struct ranked next = ranking.ranked[i];
                out[i] = next.number;
                out_gaps[i] = unit > 0 ? ((double)best - (double)next.score) / (double)unit : 0;
            }
            result = PyTuple_Pack(2, numbers, gaps);
        }
    }
    Py_XDECREF(numbers);
    Py_XDECREF(gaps);
    PyMem_Free(ranking.ranked);
    PyMem_Free(ranking.scores);
    PyMem_Free(ranking.query);
    release_views(&views);
    return result;
}

static PyMethodDef centroids_methods[] = {
    {"rank", centroids_rank, METH_O, rank_doc},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot centroids_slots[] = {
    {Py_tp_doc, (void *)centroids_doc},   {Py_tp_new, centroids_new}, {Py_tp_dealloc, centroids_free},
    {Py_tp_methods, centroids_methods}, {0, NULL},
};
PyType_Spec centroids_spec = {"aidre.engine.native.kernel.Centroids", sizeof(Centroids), 0, Py_TPFLAGS_DEFAULT, centroids_slots};

/* ---- the lists of rows ------------------------------------------------------------------------------------------- */

static void lists_free(PyObject *object) {
    release_views(&((Lists *)object)->views);
    free_object(object);
}

PyDoc_STRVAR(lists_doc,
             "Lists(centroids, codes, mean, half_squares, products, step, spread)\n--\n\n"
             "Centroids o (n, d) among which rows choose their lists, float32; less their mean (d,), in steps plus 128, in\n"
             "blocks of 16 with four bytes of each side by side, an even number of them; |o|^2 / 2 and infinity for those\n"
             "that fill the last block; c . o - |o|^2 / 2 (centroids c, centroids o), or nothing if no list gets a copy; and\n"
             "the mean of their squared distances from their mean.");

static PyObject *lists_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    PyObject *objects[5];
    float step, spread;
    if (!PyArg_ParseTuple(args, "OOOOOff:Lists", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4], &step, &spread))
        return NULL;
    static const char *const names[] = {"centroids", "codes", "mean", "half_squares", "products"};
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Lists *self = (Lists *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    const void *values[5];
    size_t counts[5];
    for (size_t i = 0; i < 5; i++) {
        const Py_ssize_t item = i == 1 ? 1 : (Py_ssize_t)sizeof(float);
        const Py_buffer *view = hold(&self->views, objects[i], item, names[i]);
        if (view == NULL)
            goto failed;
        values[i] = view->buf;
        counts[i] = (size_t)(view->len / item);
    }
    const size_t d = counts[2], bytes = (d + BYTES_AT_ONCE - 1) / BYTES_AT_ONCE * BYTES_AT_ONCE;
    const size_t count = d ? counts[0] / d : 0, padded = counts[3];
    if (d > MAX_CENTROID_DIMENSIONS || count < 1 || count > MAX_CENTROIDS || counts[0] != count * d || padded < count ||
        padded % (2 * BLOCK_CENTROIDS) != 0 || padded > MAX_CENTROIDS + 2 * BLOCK_CENTROIDS || counts[1] != padded * bytes ||
        (counts[4] != 0 && counts[4] != count * count) || !isfinite(step) || !(spread >= 0)) {
        refuse("lists: no centroids, too many, or arrays that do not fit each other");
        goto failed;
    }
    self->lists = (struct lists){.centroids = values[0], .codes = values[1], .mean = values[2], .half_squares = values[3],
                                 .products = counts[4] ? values[4] : NULL, .count = count,
                                 .blocks = padded / BLOCK_CENTROIDS, .dimensions = d, .bytes = bytes, .step = step,
                                 .spread = spread};
    return (PyObject *)self;
failed:
    Py_DECREF((PyObject *)self);
    return NULL;
}

PyDoc_STRVAR(choose_doc, "choose(rows)\n--\n\nThe nearest centroid of each row (n, d) float32, as bytes of int64, and after those of all\n"
                         "rows the centroids of the lists that get their copies, unless there are no products.");

static PyObject *lists_choose(PyObject *object, PyObject *rows) {
    const struct lists *lists = &((Lists *)object)->lists;
    struct views views = {0};
    const Py_buffer *view = hold(&views, rows, sizeof(float), "rows");
    const size_t row_bytes = lists->dimensions * sizeof(float);
    PyObject *result = NULL;
    if (view != NULL && (size_t)view->len % row_bytes != 0) {
        refuse("rows: not one float32 for each dimension");
    } else if (view != NULL) {
        const size_t count = (size_t)view->len / row_bytes, each = lists->products == NULL ? 1 : 2;
        result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(each * count * sizeof(int64_t)));
        if (result != NULL) {
            int64_t *nearest = (int64_t *)(void *)PyBytes_AsString(result);
            const struct kernel *kernel = chosen_kernel;
            bool has_memory;
            Py_BEGIN_ALLOW_THREADS
            has_memory = choose_lists(kernel, lists, view->buf, count, nearest, each == 2 ? nearest + count : NULL);
            Py_END_ALLOW_THREADS
            if (!has_memory) {
                Py_CLEAR(result);
                PyErr_NoMemory();
            }
        }
    }
    release_views(&views);
    return result;
}

static PyMethodDef lists_methods[] = {
    {"choose", lists_choose, METH_O, choose_doc},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot lists_slots[] = {
    {Py_tp_doc, (void *)lists_doc},     {Py_tp_new, lists_new}, {Py_tp_dealloc, lists_free},
    {Py_tp_methods, lists_methods}, {0, NULL},
};
PyType_Spec lists_spec = {"aidre.engine.native.kernel.Lists", sizeof(Lists), 0, Py_TPFLAGS_DEFAULT, lists_slots};
