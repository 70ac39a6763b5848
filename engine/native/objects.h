/* What the files of the Python module share. */
#ifndef AIDRE_OBJECTS_H
#define AIDRE_OBJECTS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include "kernel.h"

#define LONG_SEARCH_BYTES (8 << 20) /* bytes that a search reads; with more it releases the lock of the interpreter */
#define MAX_SCRATCHES MAX_BATCH     /* kept from one search to the next */

/* The kernel of Columns that are made from now on. */
extern const struct kernel *chosen_kernel;

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

/* The buffers that an object holds. */
struct views {
    Py_buffer *items;
    size_t count, capacity;
};

void release_views(struct views *views);
/* A C-contiguous buffer of `item` bytes a value; holds it in `views`. NULL with an exception. */
const Py_buffer *hold(struct views *views, PyObject *object, Py_ssize_t item, const char *what);
/* NULL, with a ValueError. */
void *refuse(const char *message);
/* Free an object of a type of this module, after its own fields. */
void free_object(PyObject *object);

/* ---- types ------------------------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    struct views views;
    struct search search;
    struct column *columns;
    size_t count;
    struct scratch *spare[MAX_SCRATCHES]; /* guarded by the lock of the interpreter */
    size_t spare_count;
} Columns;

typedef struct {
    PyObject_HEAD
    struct views views;
    PyObject *columns;
    struct scan scan;
    struct list *lists;
    float *codewords, *biases;
} Codes;

typedef struct {
    PyObject_HEAD
    struct views views;
    struct centroids centroids;
} Centroids;

typedef struct {
    PyObject_HEAD
    struct views views;
    struct lists lists;
} Lists;

extern PyTypeObject *columns_type, *codes_type, *centroids_type;
extern PyType_Spec columns_spec, codes_spec, centroids_spec, lists_spec, plan_spec, fragments_spec, strings_spec,
    lexicons_spec, texts_spec;

/* The ids of a column: a sequence of (offsets, bytes). False with an exception; `column->ids` is to be freed. */
bool read_ids(struct views *views, struct column *column, PyObject *batches);
/* Whether there is a column of that number; else with an exception. */
bool get_column(const Columns *self, long long number);
/* A bitmap of the rows of a column: NULL for None. False with an exception. */
bool get_bitmap(const struct column *column, struct views *views, PyObject *object, const uint8_t **bits);
/* Whether a column has all these rows; else with an exception. */
bool check_rows(const struct column *column, const int64_t *rows, size_t count);
/* The columns, rows and scores of hits, as bytes of int64, int64 and float64. */
PyObject *as_arrays(struct best *best);
/* The same of sorted hits, as lists of numbers. */
PyObject *as_lists(const struct best *best);
/* Write a one-dimensional array of float32 or float64 as a query (d,); false, without an exception, for anything else, or
 * for a vector that is not a query. */
bool encode_vector(PyObject *vector, size_t d, bool is_unit, float *query);

#endif
