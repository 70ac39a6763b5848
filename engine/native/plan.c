/* Plan: what a search scans, compares and gathers, prepared for many queries. */
#include "objects.h"

#include <math.h>

#define MAX_PROBED_SHARE 0.7 /* of the rows: a probe of more entries, copies included, takes longer than a scan of all rows */

struct scanned {
    PyObject *codes;
    const int64_t *lists;
    size_t list_count, total;
    PyObject *centroids; /* of `probe`; NULL: without lists */
    struct probe probe;
    size_t mean_bytes; /* of the codes in the lists of a centroid */
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
    for (size_t i = 0; i < self->scan_count; i++) {
        Py_XDECREF(self->scans[i].codes);
        Py_XDECREF(self->scans[i].centroids);
    }
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

/* Counts up to INT32_MAX, one for each centroid; NULL for None, or with an exception. */
static const int64_t *get_counts(struct views *views, PyObject *object, size_t count) {
    const Py_buffer *view = object == Py_None ? NULL : hold(views, object, sizeof(int64_t), "counts");
    if (view == NULL)
        return NULL;
    const int64_t *counts = view->buf;
    if ((size_t)view->len != count * sizeof(int64_t))
        return refuse("probe: not one count for each centroid");
    for (size_t i = 0; i < count; i++)
        if (counts[i] < 0 || counts[i] > INT32_MAX)
            return refuse("probe: a count out of range");
    return counts;
}

static double sum_of(const int64_t *counts, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)counts[i];
    return sum;
}

/* (centroids, lists of each, their entries, other lists, rows, allowed rows); the last two are None without a filter. */
static bool read_probe(Plan *self, struct scanned *scan, PyObject *given) {
    PyObject *centroids_object, *lists, *entries, *others, *rows, *allowed;
    const Codes *codes = (const Codes *)scan->codes;
    struct probe *probe = &scan->probe;
    size_t list_count;
    if (!PyTuple_Check(given) || !PyArg_ParseTuple(given, "O!OOOOO:probe", centroids_type, &centroids_object, &lists,
                                                   &entries, &others, &rows, &allowed))
        return PyErr_Occurred() ? false : refuse("probe: not a tuple") != NULL;
    scan->centroids = Py_NewRef(centroids_object);
    const struct centroids *centroids = probe->centroids = &((Centroids *)centroids_object)->centroids;
    if (centroids->dimensions != codes->scan.codebook.sub_quantizers * codes->scan.codebook.sub_dimensions)
        return refuse("probe: centroids of another space than the codes") != NULL;
    if (!get_lists(&self->views, lists, codes, &probe->lists, &list_count) ||
        !get_lists(&self->views, others, codes, &probe->others, &probe->other_count))
        return false;
    probe->lists_each = list_count / centroids->count;
    if (probe->lists_each == 0 || list_count % centroids->count)
        return refuse("probe: not as many lists for each centroid") != NULL;
    probe->entries = get_counts(&self->views, entries, centroids->count);
    if (probe->entries == NULL)
        return PyErr_Occurred() ? false : refuse("probe: no entries") != NULL;
    double covered = 0;
    for (size_t i = 0; i < scan->list_count; i++)
        covered += (double)codes->scan.lists[scan->lists[i]].size;
    probe->most_entries = (int64_t)(MAX_PROBED_SHARE * covered);
    scan->mean_bytes = (size_t)(sum_of(probe->entries, centroids->count) / (double)centroids->count) *
                       codebook_pairs(&codes->scan.codebook);
    if ((rows == Py_None) != (allowed == Py_None))
        return refuse("probe: rows without allowed rows") != NULL;
    if (rows == Py_None)
        return true;
    probe->rows = get_counts(&self->views, rows, centroids->count);
    probe->allowed = probe->rows == NULL ? NULL : get_counts(&self->views, allowed, centroids->count);
    if (probe->allowed == NULL)
        return false;
    const double all = sum_of(probe->rows, centroids->count);
    probe->selectivity = sum_of(probe->allowed, centroids->count) / (all > 1 ? all : 1);
    return true;
}

static bool read_scan(Plan *self, PyObject *given) {
    PyObject *codes, *lists, *probe = Py_None;
    Py_ssize_t total;
    struct scanned *scan = &self->scans[self->scan_count];
    if (!PyArg_ParseTuple(given, "O!On|O:scan", codes_type, &codes, &lists, &total, &probe))
        return false;
    if (((Codes *)codes)->columns != self->columns)
        return refuse("scan: codes of other columns") != NULL;
    scan->codes = Py_NewRef(codes);
    scan->total = (size_t)(total < 0 ? 0 : total);
    self->scan_count++;
    return get_lists(&self->views, lists, (Codes *)codes, &scan->lists, &scan->list_count) &&
           (probe == Py_None || read_probe(self, scan, probe));
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
                       "(codes, numbers of lists, allowed rows, how to probe or None; see read_probe), `exact` columns, `gathered`\n"
                       "(column, rows). "
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
    enum outcome *outcomes; /* of each request */
    size_t count;
    bool has_rest, as_lists;
};

static enum outcome run_scans(const struct task *task, struct request *requests, size_t count) {
    const Plan *plan = task->plan;
    const struct search *search = &((const Columns *)plan->columns)->search;
    enum outcome outcome = FOUND;
    for (size_t i = 0; i < plan->scan_count && outcome == FOUND; i++)
        outcome = search_scan(search, &((const Codes *)plan->scans[i].codes)->scan, task->choices[i], requests, count);
    return outcome;
}

static void run_rest(const struct task *task, struct request *request) {
    const Plan *plan = task->plan;
    const struct search *search = &((const Columns *)plan->columns)->search;
    for (size_t i = 0; i < plan->exact_count; i++)
        search_exact(search, plan->exact[i], plan->allowed[plan->exact[i]], request->query, &request->best);
    for (size_t i = 0; i < plan->gathered_count; i++)
        search_rows(search, plan->gathered[i].column, plan->gathered[i].rows, plan->gathered[i].count, request->query,
                    &request->best);
}

/* Search for all requests together, or for one after the other where each probes lists of its own. */
static void run(const struct task *task, bool is_probe) {
    const size_t step = is_probe ? 1 : task->count;
    for (size_t first = 0; first < task->count; first += step) {
        task->outcomes[first] = run_scans(task, &task->requests[first], step);
        for (size_t i = first; i < first + step; i++) {
            task->outcomes[i] = task->outcomes[first];
            if (task->has_rest && task->outcomes[i] == FOUND)
                run_rest(task, &task->requests[i]);
        }
    }
}

static struct choice all_lists(const Plan *self, const struct scanned *scan, size_t count) {
    return (struct choice){.lists = scan->lists,
                           .list_count = scan->list_count,
                           .allowed = self->allowed,
                           .count = count < scan->total ? count : scan->total,
                           .total = scan->total};
}

#define USUAL_SHARE 8 /* a probe usually reads one in so many of the lists that it may read */

/* The bytes that a search reads of a scan. */
static size_t scan_bytes(const struct scan *scan, const struct choice *choice, size_t row_bytes) {
    size_t rows = 0;
    for (size_t i = 0; i < choice->list_count; i++)
        rows += (size_t)scan->lists[choice->lists[i]].size;
    return rows * codebook_pairs(&scan->codebook) + choice->count * row_bytes;
}

/* What to read of each scan: its own lists, or those of the tuple `lists`, a part of its own. */
static bool choose(const Plan *self, PyObject *lists, size_t count, struct views *views, struct choice *choices,
                   size_t *bytes) {
    if (lists != Py_None && (!PyTuple_Check(lists) || (size_t)PyTuple_Size(lists) != self->scan_count))
        return refuse("lists: not one item for each scan") != NULL;
    for (size_t i = 0; i < self->scan_count; i++) {
        const struct scanned *scan = &self->scans[i];
        const Codes *codes = (const Codes *)scan->codes;
        choices[i] = all_lists(self, scan, count);
        PyObject *own = lists == Py_None ? Py_None : PyTuple_GetItem(lists, (Py_ssize_t)i);
        if (own != Py_None && !get_lists(views, own, codes, &choices[i].lists, &choices[i].list_count))
            return false;
        *bytes += scan_bytes(&codes->scan, &choices[i], ((const Columns *)self->columns)->search.row_bytes);
    }
    return true;
}

/* The same for a probe of `nprobe` centroids, which ends at the gap and reads fewer lists than that. */
static void choose_nearest(const Plan *self, size_t count, size_t nprobe, float gap, struct choice *choices,
                           size_t *bytes) {
    const size_t row_bytes = ((const Columns *)self->columns)->search.row_bytes;
    for (size_t i = 0; i < self->scan_count; i++) {
        const struct scanned *scan = &self->scans[i];
        choices[i] = all_lists(self, scan, count);
        if (scan->centroids != NULL && nprobe > 0) {
            choices[i].probe = &scan->probe;
            choices[i].nprobe = nprobe;
            choices[i].gap = gap;
            *bytes += nprobe / USUAL_SHARE * scan->mean_bytes + choices[i].count * row_bytes;
        } else {
            *bytes += scan_bytes(&((const Codes *)scan->codes)->scan, &choices[i], row_bytes);
        }
    }
}

/* Whether rows that were not compared may be as good as the last hit. */
static bool is_short(const struct request *request) {
    const struct best *best = &request->best;
    if (request->edge == -INFINITY || best->k == 0)
        return false;
    return best->size < best->k || request->edge >= best->hits[best->size - 1].score;
}

/* The hits of a request, or None where a scan found too few; as lists also where equals may be missing. */
static PyObject *result_of(struct request *request, enum outcome outcome, bool as_lists_of_hits) {
    if (outcome != FOUND)
        return Py_NewRef(Py_None);
    if (as_lists_of_hits) {
        best_sort(&request->best);
        return is_short(request) ? Py_NewRef(Py_None) : as_lists(&request->best);
    }
    PyObject *arrays = as_arrays(&request->best); /* sorts the hits */
    return arrays == NULL ? NULL : Py_BuildValue("NO", arrays, is_short(request) ? Py_True : Py_False);
}

static PyObject *results_of(const struct task *task) {
    PyObject *results = PyTuple_New((Py_ssize_t)task->count);
    for (size_t i = 0; results != NULL && i < task->count; i++) {
        PyObject *result = result_of(&task->requests[i], task->outcomes[i], task->as_lists);
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

/* Search, without the lock of the interpreter if it takes long. */
static PyObject *call(const struct task *task, bool is_probe, size_t bytes) {
    if (task->count * bytes > LONG_SEARCH_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        run(task, is_probe);
        Py_END_ALLOW_THREADS
    } else {
        run(task, is_probe);
    }
    for (size_t i = 0; i < task->count; i++)
        if (task->outcomes[i] == OUT_OF_MEMORY)
            return PyErr_NoMemory();
    return results_of(task);
}

/* How a search chooses lists: `lists` (NULL: nearest ones), and how it returns hits. */
struct wanted {
    PyObject *lists;
    Py_ssize_t k, candidates, nprobe;
    float gap;
    int has_rest;
    bool as_lists;
};

static bool is_valid(const struct wanted *wanted) {
    if (wanted->k < 0 || wanted->candidates < 0 || wanted->k > INT32_MAX || wanted->candidates > INT32_MAX)
        return refuse("k or candidates: out of range") != NULL;
    if (wanted->nprobe < 0 || !(wanted->gap >= 0))
        return refuse("nprobe or gap: out of range") != NULL;
    return true;
}

static PyObject *search_queries(Plan *self, const struct wanted *wanted, const float *queries, size_t query_count) {
    Columns *columns = (Columns *)self->columns;
    struct views views = {0};
    struct task task = {.plan = self, .count = query_count, .has_rest = wanted->has_rest != 0, .as_lists = wanted->as_lists};
    struct scratch *scratches[MAX_BATCH] = {NULL};
    PyObject *result = NULL;
    const size_t count = (size_t)wanted->candidates;
    const bool is_probe = wanted->lists == NULL;
    size_t bytes = wanted->has_rest ? self->rest_bytes : 0;
    task.requests = make_requests(columns, queries, task.count, (size_t)wanted->k, scratches);
    task.choices = PyMem_Malloc((self->scan_count + 1) * sizeof *task.choices);
    task.outcomes = PyMem_Calloc(task.count + 1, sizeof *task.outcomes);
    if (task.choices == NULL || task.outcomes == NULL) {
        PyErr_NoMemory();
    } else if (task.requests != NULL) {
        bool is_chosen = true;
        if (is_probe)
            choose_nearest(self, count, (size_t)wanted->nprobe, wanted->gap, task.choices, &bytes);
        else
            is_chosen = choose(self, wanted->lists, count, &views, task.choices, &bytes);
        result = is_chosen ? call(&task, is_probe, bytes) : NULL;
    }
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
    PyMem_Free(task.outcomes);
    release_views(&views);
    return result;
}

static PyObject *search_for(Plan *self, const struct wanted *wanted, PyObject *queries) {
    if (!is_valid(wanted))
        return NULL;
    struct views views = {0};
    PyObject *result = NULL;
    const Py_buffer *view = hold(&views, queries, sizeof(float), "queries");
    const size_t query_bytes = ((Columns *)self->columns)->search.dimensions * sizeof(float);
    if (view != NULL && (size_t)view->len % query_bytes)
        refuse("queries: not one float32 for each dimension");
    else if (view != NULL)
        result = search_queries(self, wanted, view->buf, (size_t)view->len / query_bytes);
    release_views(&views);
    return result;
}

PyDoc_STRVAR(plan_search_doc,
             "search(queries, k, candidates, lists, has_rest)\n--\n\n"
             "For each query (n, d) of float32 the best k rows by (score, id): columns, rows and scores as bytes of\n"
             "int64, int64 and float64; and whether equals of these may be missing.\n\n"
             "`lists` chooses lists of each scan (None: those of the plan), and without `has_rest` only the scans are\n"
             "searched.");

static PyObject *plan_search(PyObject *object, PyObject *args) {
    struct wanted wanted = {0};
    PyObject *queries;
    if (!PyArg_ParseTuple(args, "OnnOp:search", &queries, &wanted.k, &wanted.candidates, &wanted.lists, &wanted.has_rest))
        return NULL;
    return search_for((Plan *)object, &wanted, queries);
}

PyDoc_STRVAR(plan_probe_doc,
             "probe(queries, k, candidates, nprobe, gap)\n--\n\n"
             "The same in the lists of at most `nprobe` centroids, the nearest ones, whose scores are no more than `gap`\n"
             "less than the mean of the first four (0: any). None for a query for which all lists should be scanned.");

static PyObject *plan_probe(PyObject *object, PyObject *args) {
    struct wanted wanted = {.has_rest = true};
    PyObject *queries;
    if (!PyArg_ParseTuple(args, "Onnnf:probe", &queries, &wanted.k, &wanted.candidates, &wanted.nprobe, &wanted.gap))
        return NULL;
    return search_for((Plan *)object, &wanted, queries);
}

PyDoc_STRVAR(plan_find_doc,
             "find(vectors, is_unit, k, candidates, nprobe, gap)\n--\n\n"
             "For each vector of a list, of float32 or float64, the best k rows by (score, id) as three lists: columns,\n"
             "rows and scores. It is encoded as `encode_query` does, and the lists are chosen as `probe` does, all of them\n"
             "with an nprobe of 0. None where more than one such search is needed, and instead of all where a vector is no\n"
             "query.");

static PyObject *plan_find(PyObject *object, PyObject *args) {
    Plan *self = (Plan *)object;
    struct wanted wanted = {.has_rest = true, .as_lists = true};
    PyObject *vectors;
    int is_unit;
    if (!PyArg_ParseTuple(args, "O!pnnnf:find", &PyList_Type, &vectors, &is_unit, &wanted.k, &wanted.candidates,
                          &wanted.nprobe, &wanted.gap) ||
        !is_valid(&wanted))
        return NULL;
    wanted.lists = wanted.nprobe > 0 ? NULL : Py_None;
    const size_t count = (size_t)PyList_Size(vectors), d = ((Columns *)self->columns)->search.dimensions;
    float *queries = PyMem_Malloc(count * d * sizeof *queries + 1);
    if (queries == NULL)
        return PyErr_NoMemory();
    PyObject *result = NULL;
    size_t encoded = 0;
    while (encoded < count &&
           encode_vector(PyList_GetItem(vectors, (Py_ssize_t)encoded), d, is_unit != 0, queries + encoded * d))
        encoded++;
    if (encoded == count)
        result = search_queries(self, &wanted, queries, count);
    else
        result = Py_NewRef(Py_None);
    PyMem_Free(queries);
    return result;
}

static PyMethodDef plan_methods[] = {
    {"search", plan_search, METH_VARARGS, plan_search_doc},
    {"probe", plan_probe, METH_VARARGS, plan_probe_doc},
    {"find", plan_find, METH_VARARGS, plan_find_doc},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot plan_slots[] = {
    {Py_tp_doc, (void *)plan_doc},   {Py_tp_new, plan_new}, {Py_tp_dealloc, plan_free},
    {Py_tp_methods, plan_methods}, {0, NULL},
};
PyType_Spec plan_spec = {"aidre.engine.native.kernel.Plan", sizeof(Plan), 0, Py_TPFLAGS_DEFAULT, plan_slots};
