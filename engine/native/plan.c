/* Plan: what a search scans, compares and gathers, prepared for many queries. */
#include "objects.h"

#include <math.h>

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
    for (size_t i = 0; i < self->scan_count; i++)
        Py_XDECREF(self->scans[i].codes);
    PyMem_Free(self->scans);
    PyMem_Free(self->exact);
    PyMem_Free(self->gathered);
    PyMem_Free((void *)self->allowed);
    release_views(&self->views);
    Py_XDECREF(self->columns);
    free_object(object);
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

/* The requests of one call, with what they need from Python already checked. */
struct task {
    const Plan *plan;
    struct choice *choices; /* of each scan */
    struct request *requests;
    size_t count;
    bool has_rest;
};

static enum outcome run(const struct task *task) {
    const Plan *plan = task->plan;
    const struct search *search = &((const Columns *)plan->columns)->search;
    for (size_t i = 0; i < plan->scan_count; i++) {
        const enum outcome outcome = search_scan(search, &((const Codes *)plan->scans[i].codes)->scan,
                                                 task->choices[i], task->requests, task->count);
        if (outcome != FOUND)
            return outcome;
    }
    for (size_t number = 0; task->has_rest && number < task->count; number++) {
        struct request *request = &task->requests[number];
        for (size_t i = 0; i < plan->exact_count; i++)
            search_exact(search, plan->exact[i], plan->allowed[plan->exact[i]], request->query, &request->best);
        for (size_t i = 0; i < plan->gathered_count; i++)
            search_rows(search, plan->gathered[i].column, plan->gathered[i].rows, plan->gathered[i].count,
                        request->query, &request->best);
    }
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

/* Whether rows that were not compared may be as good as the last hit. */
static bool is_short(const struct request *request) {
    const struct best *best = &request->best;
    if (request->edge == -INFINITY || best->k == 0)
        return false;
    return best->size < best->k || request->edge >= best->hits[best->size - 1].score;
}

static PyObject *results_of(struct request *requests, size_t count) {
    PyObject *results = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; results != NULL && i < count; i++) {
        PyObject *arrays = as_arrays(&requests[i].best); /* sorts the hits */
        PyObject *result = arrays == NULL ? NULL : Py_BuildValue("NO", arrays, is_short(&requests[i]) ? Py_True : Py_False);
        if (result == NULL || PyTuple_SetItem(results, (Py_ssize_t)i, result) < 0) {
            Py_DECREF(results);
            return NULL;
        }
    }
    return results;
}

/* Requests for queries (count, d), with memory of their own; NULL with an exception. */
static struct request *make_requests(Columns *columns, const float *queries, size_t count, size_t k,
                                     struct scratch *scratches[MAX_BATCH]) {
    struct request *requests = PyMem_Calloc(count + 1, sizeof *requests);
    struct hit *hits = PyMem_Malloc(count * k * sizeof *hits + 1);
    for (size_t i = 0; i < MAX_BATCH && i < count; i++) {
        scratches[i] = columns->spare_count > 0 ? columns->spare[--columns->spare_count] : scratch_new();
        if (scratches[i] == NULL) {
            PyMem_Free(requests);
            requests = NULL;
        }
    }
    if (requests == NULL || hits == NULL) {
        PyMem_Free(requests);
        PyMem_Free(hits);
        PyErr_NoMemory();
        return NULL;
    }
    requests[0].best.hits = hits; /* to be freed */
    for (size_t i = 0; i < count; i++)
        requests[i] = (struct request){queries + i * columns->search.dimensions, scratches[i % MAX_BATCH],
                                       {hits + i * k, 0, k, columns->columns}, -INFINITY};
    return requests;
}

static PyObject *call(struct task *task, size_t bytes) {
    enum outcome outcome;
    if (bytes > LONG_SEARCH_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        outcome = run(task);
        Py_END_ALLOW_THREADS
    } else {
        outcome = run(task);
    }
    if (outcome == OUT_OF_MEMORY)
        return PyErr_NoMemory();
    return outcome == FOUND_TOO_FEW ? Py_NewRef(Py_None) : results_of(task->requests, task->count);
}

PyDoc_STRVAR(plan_search_doc,
             "search(queries, k, candidates, lists, is_probe, has_rest)\n--\n\n"
             "For each query (n, d) of float32 the best k rows by (score, id): columns, rows and scores as bytes of\n"
             "int64, int64 and float64; and whether equals of these may be missing. None if a scan found too few\n"
             "candidates for one of the queries.\n\n"
             "`lists` chooses lists of each scan (None: those of the plan), `is_probe` tells that these are lists\n"
             "of centroids, which hold rows twice, and without `has_rest` only the scans are searched.");

static PyObject *plan_search(PyObject *object, PyObject *args) {
    Plan *self = (Plan *)object;
    Columns *columns = (Columns *)self->columns;
    PyObject *queries_object, *lists;
    Py_ssize_t k, candidates;
    int is_probe, has_rest;
    if (!PyArg_ParseTuple(args, "OnnOpp:search", &queries_object, &k, &candidates, &lists, &is_probe, &has_rest))
        return NULL;
    if (k < 0 || candidates < 0 || k > INT32_MAX || candidates > INT32_MAX)
        return refuse("k or candidates: out of range");
    struct views views = {0};
    const Py_buffer *view = hold(&views, queries_object, sizeof(float), "queries");
    const size_t query_bytes = columns->search.dimensions * sizeof(float);
    if (view == NULL || (size_t)view->len % query_bytes) {
        release_views(&views);
        return PyErr_Occurred() ? NULL : refuse("queries: not one float32 for each dimension");
    }
    struct task task = {.plan = self, .count = (size_t)view->len / query_bytes, .has_rest = has_rest != 0};
    struct scratch *scratches[MAX_BATCH] = {NULL};
    PyObject *result = NULL;
    size_t bytes = 0;
    task.requests = make_requests(columns, view->buf, task.count, (size_t)k, scratches);
    task.choices = PyMem_Malloc((self->scan_count + 1) * sizeof *task.choices);
    if (task.choices == NULL)
        PyErr_NoMemory();
    else if (task.requests != NULL &&
             choose(self, lists, (size_t)candidates, is_probe != 0, &views, task.choices, &bytes))
        result = call(&task, task.count * (bytes + (has_rest ? self->rest_bytes : 0)));
    for (size_t i = 0; i < MAX_BATCH; i++) {
        if (scratches[i] != NULL && columns->spare_count < MAX_SCRATCHES)
            columns->spare[columns->spare_count++] = scratches[i];
        else
            scratch_free(scratches[i]);
    }
    if (task.requests != NULL)
        PyMem_Free(task.requests[0].best.hits);
    PyMem_Free(task.requests);
    PyMem_Free(task.choices);
    release_views(&views);
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
PyType_Spec plan_spec = {"aidre.engine.native.kernel.Plan", sizeof(Plan), 0, Py_TPFLAGS_DEFAULT, plan_slots};
