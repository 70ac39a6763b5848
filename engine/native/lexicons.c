/* Lexicons: the words of the chunks of all segments, searched alone or with the vectors. */
#include "objects.h"

#include <math.h>
#include <string.h>

#define MAX_LEXICONS UINT16_MAX
#define MAX_TERMS (1 << 20)  /* of a query */
#define POSTING_BYTES 20     /* that are read and written for a posting */
#define FUSED_BYTES 100      /* the same, with the vectors of the chunks that are compared */

typedef struct {
    PyObject_HEAD
    struct views views;
    struct lexicon *lexicons;
    struct column *ids;      /* columns without vectors */
    size_t count;
    int64_t chunks;
} Lexicons;

static void lexicons_free(PyObject *object) {
    Lexicons *self = (Lexicons *)object;
    for (size_t i = 0; i < self->count; i++) {
        PyMem_Free(self->lexicons[i].least);
        PyMem_Free((void *)self->ids[i].ids);
    }
    PyMem_Free(self->lexicons);
    PyMem_Free(self->ids);
    release_views(&self->views);
    free_object(object);
}

/* Write the least of the halves in each block. */
static bool read_halves(struct lexicon *lexicon) {
    const int64_t blocks = lexicon->chunks / WORD_BLOCK + 1;
    lexicon->least = PyMem_Malloc((size_t)blocks * sizeof *lexicon->least);
    if (lexicon->least == NULL)
        return PyErr_NoMemory() != NULL;
    for (int64_t i = 0; i < blocks; i++)
        lexicon->least[i] = INFINITY;
    for (int64_t row = 0; row < lexicon->chunks; row++) {
        const float half = lexicon->halves[row];
        if (!(half > 0 && half < INFINITY))
            return refuse("halves: not above 0 and finite") != NULL;
        float *least = &lexicon->least[row / WORD_BLOCK];
        *least = half < *least ? half : *least;
    }
    return true;
}

/* The buffer of an array, and how many values it has; NULL with an exception. */
static const void *read_array(struct views *views, PyObject *object, Py_ssize_t item, const char *what, int64_t *count) {
    const Py_buffer *view = hold(views, object, item, what);
    if (view == NULL)
        return NULL;
    static const int64_t none;
    *count = view->len / item;
    return view->len > 0 ? view->buf : &none;
}

static bool read_lexicon(Lexicons *self, PyObject *given) {
    PyObject *starts, *rows, *counts, *halves, *ids;
    long long batch_rows;
    struct lexicon *lexicon = &self->lexicons[self->count];
    struct column *column = &self->ids[self->count++];
    int64_t start_count, count_count;
    if (!PyTuple_Check(given) ||
        !PyArg_ParseTuple(given, "OOOOOL:lexicon", &starts, &rows, &counts, &halves, &ids, &batch_rows))
        return PyErr_Occurred() ? false : refuse("lexicon: not a tuple") != NULL;
    lexicon->starts = read_array(&self->views, starts, sizeof(int64_t), "starts", &start_count);
    if (lexicon->starts == NULL)
        return false;
    lexicon->rows = read_array(&self->views, rows, sizeof(uint32_t), "rows", &lexicon->postings);
    if (lexicon->rows == NULL)
        return false;
    lexicon->counts = read_array(&self->views, counts, sizeof(uint16_t), "counts", &count_count);
    if (lexicon->counts == NULL)
        return false;
    lexicon->halves = read_array(&self->views, halves, sizeof(float), "halves", &lexicon->chunks);
    if (lexicon->halves == NULL)
        return false;
    if (start_count < 1 || count_count != lexicon->postings || lexicon->chunks > UINT32_MAX || batch_rows < 1)
        return refuse("lexicon: arrays that do not fit each other") != NULL;
    lexicon->terms = start_count - 1;
    column->rows = lexicon->chunks;
    column->batch_rows = batch_rows;
    self->chunks += lexicon->chunks;
    return read_halves(lexicon) && read_ids(&self->views, column, ids);
}

PyDoc_STRVAR(lexicons_doc,
             "Lexicons(lexicons)\n--\n\n"
             "The postings of several segments: (starts, rows, counts, halves, [(offsets, bytes) of ids], rows of a batch\n"
             "of ids) each. A half is the count at which a term has half of its weight in a chunk.");

static PyObject *lexicons_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    PyObject *given;
    if (!PyArg_ParseTuple(args, "O!:Lexicons", &PyTuple_Type, &given))
        return NULL;
    const size_t count = (size_t)PyTuple_Size(given);
    if (count >= MAX_LEXICONS)
        return refuse("lexicons: too many");
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Lexicons *self = (Lexicons *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    self->lexicons = PyMem_Calloc(count + 1, sizeof *self->lexicons);
    self->ids = PyMem_Calloc(count + 1, sizeof *self->ids);
    bool is_made = (self->lexicons != NULL && self->ids != NULL) || PyErr_NoMemory() != NULL;
    for (size_t i = 0; is_made && i < count; i++)
        is_made = read_lexicon(self, PyTuple_GetItem(given, (Py_ssize_t)i));
    if (is_made)
        return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return NULL;
}

/* ---- queries ---------------------------------------------------------------------------------------------------- */

/* The terms of a query: (numbers, weights, delta). */
static bool read_query(const Lexicons *self, struct views *views, PyObject *given, struct word_query *query) {
    PyObject *numbers, *weights;
    int64_t number_count, count;
    if (!PyTuple_Check(given) || !PyArg_ParseTuple(given, "OOd:query", &numbers, &weights, &query->delta))
        return PyErr_Occurred() ? false : refuse("query: not a tuple") != NULL;
    query->terms = read_array(views, numbers, sizeof(int64_t), "numbers of terms", &number_count);
    if (query->terms == NULL)
        return false;
    query->weights = read_array(views, weights, sizeof(double), "weights", &count);
    if (query->weights == NULL)
        return false;
    if (count > MAX_TERMS || number_count != count * (int64_t)self->count)
        return refuse("query: not one number for each term and lexicon") != NULL;
    if (!(query->delta >= 0 && query->delta < INFINITY))
        return refuse("query: delta out of range") != NULL;
    for (int64_t i = 0; i < count; i++)
        if (!(query->weights[i] > 0 && query->weights[i] < INFINITY))
            return refuse("query: weights that are not above 0 and finite") != NULL;
    query->count = (size_t)count;
    return true;
}

/* Bitmaps of the lexicons: a tuple. The array is to be freed; NULL with an exception. */
static const uint8_t **read_bitmaps(const Lexicons *self, struct views *views, PyObject *given) {
    if (!PyTuple_Check(given) || (size_t)PyTuple_Size(given) != self->count)
        return refuse("bitmaps: not one for each lexicon");
    const uint8_t **bitmaps = PyMem_Calloc(self->count + 1, sizeof *bitmaps);
    if (bitmaps == NULL)
        return (const uint8_t **)PyErr_NoMemory();
    for (size_t i = 0; i < self->count; i++)
        if (!get_bitmap(&self->ids[i], views, PyTuple_GetItem(given, (Py_ssize_t)i), &bitmaps[i])) {
            PyMem_Free((void *)bitmaps);
            return NULL;
        }
    return bitmaps;
}

/* Whether a search takes so long that it is done without the lock of the interpreter. */
static bool is_long(const struct word_search *search, size_t posting_bytes) {
    return count_postings(search) > LONG_SEARCH_BYTES / posting_bytes;
}

static size_t most_hits(const Lexicons *self, Py_ssize_t k) {
    return k < 0 ? 0 : (int64_t)k > self->chunks ? (size_t)self->chunks : (size_t)k;
}

/* ---- words alone ------------------------------------------------------------------------------------------------ */

static double take_best(void *taker, uint16_t column, int64_t first, const uint32_t *rows, size_t count,
                        const double *sums) {
    struct best *best = taker;
    for (size_t i = 0; i < count; i++)
        if (best->size < best->k || sums[rows[i]] >= best->hits[0].score)
            best_add(best, (struct hit){sums[rows[i]], (uint32_t)(first + rows[i]), column});
    return best->size == best->k ? best->hits[0].score : 0;
}

PyDoc_STRVAR(lexicons_search_doc,
             "search(query, k, bitmaps)\n--\n\n"
             "The best k of the chunks with a term of the query that the bitmaps allow (None: all), by (score, id):\n"
             "lexicons, rows and scores as bytes of int64, int64 and float64. The query is (numbers of the terms in each\n"
             "lexicon, -1 for none; weights; delta); the heaviest terms should come first.");

static PyObject *lexicons_search(PyObject *object, PyObject *args) {
    const Lexicons *self = (Lexicons *)object;
    PyObject *given, *bitmaps, *result = NULL;
    Py_ssize_t k;
    if (!PyArg_ParseTuple(args, "OnO:search", &given, &k, &bitmaps))
        return NULL;
    struct views views = {0};
    struct word_query query;
    struct best best = {NULL, 0, most_hits(self, k), self->ids};
    struct word_search search = {.lexicons = self->lexicons, .count = self->count, .query = &query, .take = take_best,
                                 .taker = &best};
    const uint8_t **allowed = NULL;
    if (read_query(self, &views, given, &query) && (allowed = read_bitmaps(self, &views, bitmaps)) != NULL) {
        struct word_room *room = word_room_new(query.count);
        search.allowed = allowed;
        best.hits = PyMem_Malloc(best.k * sizeof *best.hits + 1);
        if (room == NULL || best.hits == NULL) {
            PyErr_NoMemory();
        } else if (best.k > 0 && is_long(&search, POSTING_BYTES)) {
            Py_BEGIN_ALLOW_THREADS
            search_words(&search, 0, room);
            Py_END_ALLOW_THREADS
            result = as_arrays(&best);
        } else {
            search_words(&search, best.k > 0 ? 0 : -1, room);
            result = as_arrays(&best);
        }
        word_room_free(room);
    }
    PyMem_Free(best.hits);
    PyMem_Free((void *)allowed);
    release_views(&views);
    return result;
}

/* ---- chosen chunks ---------------------------------------------------------------------------------------------- */

/* Chosen chunks, and a number for each: (lexicons, rows, values); without values for NULL. */
struct chosen {
    const int64_t *lexicons, *rows;
    const double *values;
    size_t count;
};

static bool read_chosen(const Lexicons *self, struct views *views, PyObject *lexicons, PyObject *rows, PyObject *values,
                        struct chosen *chosen) {
    int64_t lexicon_count, row_count, value_count;
    chosen->lexicons = read_array(views, lexicons, sizeof(int64_t), "numbers of lexicons", &lexicon_count);
    if (chosen->lexicons == NULL)
        return false;
    chosen->rows = read_array(views, rows, sizeof(int64_t), "rows", &row_count);
    if (chosen->rows == NULL)
        return false;
    value_count = row_count;
    chosen->values = values == NULL ? NULL : read_array(views, values, sizeof(double), "values", &value_count);
    if (values != NULL && chosen->values == NULL)
        return false;
    if (lexicon_count != row_count || value_count != row_count)
        return refuse("chunks: not as many lexicons, rows and values") != NULL;
    chosen->count = (size_t)row_count;
    for (size_t i = 0; i < chosen->count; i++) {
        const int64_t number = chosen->lexicons[i];
        if (number < 0 || (size_t)number >= self->count)
            return refuse("lexicons: no such number") != NULL;
        if (!check_rows(&self->ids[number], &chosen->rows[i], 1))
            return false;
    }
    return true;
}

PyDoc_STRVAR(lexicons_score_doc, "score(query, lexicons, rows)\n--\n\n"
                                 "The scores of chosen chunks as bytes of float64; fastest where they ascend.");

static PyObject *lexicons_score(PyObject *object, PyObject *args) {
    const Lexicons *self = (Lexicons *)object;
    PyObject *given, *lexicons, *rows, *result = NULL;
    if (!PyArg_ParseTuple(args, "OOO:score", &given, &lexicons, &rows))
        return NULL;
    struct views views = {0};
    struct word_query query;
    struct chosen chosen;
    if (read_query(self, &views, given, &query) && read_chosen(self, &views, lexicons, rows, NULL, &chosen))
        result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(chosen.count * sizeof(double)));
    if (result != NULL) {
        double *scores = (double *)PyBytes_AsString(result);
        for (size_t start = 0, end; start < chosen.count; start = end) {
            const int64_t number = chosen.lexicons[start];
            for (end = start + 1; end < chosen.count && chosen.lexicons[end] == number;)
                end++;
            score_words(&self->lexicons[number], &query, query.terms + (size_t)number * query.count, chosen.rows + start,
                        end - start, scores + start);
        }
    }
    release_views(&views);
    return result;
}

/* ---- with vectors ----------------------------------------------------------------------------------------------- */

/* The known chunks: neighbours with their cosines, and those with a bonus. The array is to be freed. */
static struct known *join_known(const struct chosen *near, const struct chosen *bonuses) {
    struct known *known = PyMem_Malloc((near->count + bonuses->count) * sizeof *known + 1);
    if (known == NULL)
        return (struct known *)PyErr_NoMemory();
    for (size_t i = 0; i < near->count; i++)
        known[i] = (struct known){near->values[i], 0, (uint32_t)near->rows[i], (uint16_t)near->lexicons[i]};
    for (size_t i = 0; i < bonuses->count; i++)
        known[near->count + i] =
            (struct known){NAN, bonuses->values[i], (uint32_t)bonuses->rows[i], (uint16_t)bonuses->lexicons[i]};
    return known;
}

/* Whether the columns are those of the chunks of the lexicons. */
static bool fit(const Lexicons *self, const Columns *columns) {
    bool is_alike = columns->count == self->count;
    for (size_t i = 0; is_alike && i < self->count; i++)
        is_alike = columns->columns[i].rows == self->ids[i].rows;
    return is_alike || refuse("columns: not of the chunks of the lexicons") != NULL;
}

PyDoc_STRVAR(lexicons_fuse_doc,
             "fuse(query, k, bitmaps, columns, vector, a, c, near, bonuses, bound, most)\n--\n\n"
             "The best k chunks by a * cosine + (1 - a) * words / (words + c) + bonus, as `search` gives them.\n\n"
             "`near` are the neighbours of the vector: lexicons, rows and cosines; `bonuses` chunks with a bonus. No other\n"
             "chunk has a cosine above `bound` (None: there are no others). None where more than `most` chunks would have\n"
             "to be compared.");

static PyObject *lexicons_fuse(PyObject *object, PyObject *args) {
    const Lexicons *self = (Lexicons *)object;
    PyObject *given, *bitmaps, *columns_object, *vector, *bound, *near_parts[3], *bonus_parts[3], *result = NULL;
    Py_ssize_t k, most;
    struct fuse fuse = {.bound = -INFINITY};
    if (!PyArg_ParseTuple(args, "OnOO!Odd(OOO)(OOO)On:fuse", &given, &k, &bitmaps, columns_type, &columns_object, &vector,
                          &fuse.fusion.a, &fuse.fusion.c, &near_parts[0], &near_parts[1], &near_parts[2],
                          &bonus_parts[0], &bonus_parts[1], &bonus_parts[2], &bound, &most))
        return NULL;
    if (bound != Py_None && (fuse.bound = PyFloat_AsDouble(bound)) == -1.0 && PyErr_Occurred())
        return NULL;
    if (!(fuse.fusion.a >= 0 && fuse.fusion.a <= 1 && fuse.fusion.c > 0))
        return refuse("a or c: out of range");
    const Columns *columns = (Columns *)columns_object;
    struct views views = {0};
    struct word_query query;
    struct chosen near, bonuses;
    struct best best = {NULL, 0, most_hits(self, k), self->ids};
    struct known *known = NULL;
    const uint8_t **allowed = NULL;
    int64_t dimensions;
    enum outcome outcome;
    if (fit(self, columns) && read_query(self, &views, given, &query) &&
        read_chosen(self, &views, near_parts[0], near_parts[1], near_parts[2], &near) &&
        read_chosen(self, &views, bonus_parts[0], bonus_parts[1], bonus_parts[2], &bonuses) &&
        (fuse.query = read_array(&views, vector, sizeof(float), "vector", &dimensions)) != NULL &&
        (allowed = read_bitmaps(self, &views, bitmaps)) != NULL && (known = join_known(&near, &bonuses)) != NULL) {
        const struct word_search search = {.lexicons = self->lexicons, .count = self->count, .query = &query,
                                           .allowed = allowed, .known_count = near.count + bonuses.count};
        fuse.search = &columns->search;
        fuse.most = most < 0 ? 0 : (size_t)most;
        fuse.best = &best;
        best.hits = PyMem_Malloc(best.k * sizeof *best.hits + 1);
        if (best.hits == NULL) {
            PyErr_NoMemory();
        } else if ((size_t)dimensions != columns->search.dimensions) {
            refuse("vector: not one float32 for each dimension");
        } else {
            if (is_long(&search, FUSED_BYTES)) {
                Py_BEGIN_ALLOW_THREADS
                outcome = search_fused(&fuse, &search, known);
                Py_END_ALLOW_THREADS
            } else {
                outcome = search_fused(&fuse, &search, known);
            }
            if (outcome == OUT_OF_MEMORY)
                PyErr_NoMemory();
            else
                result = outcome == FOUND ? as_arrays(&best) : Py_NewRef(Py_None);
        }
    }
    PyMem_Free(known);
    PyMem_Free(best.hits);
    PyMem_Free((void *)allowed);
    release_views(&views);
    return result;
}

PyDoc_STRVAR(lexicons_join_doc,
             "join(k, near, words)\n--\n\n"
             "The best k chunks of two lists, each as lexicons, rows and values, by the sum of their values, as `search`\n"
             "gives them. Each chunk is at most once in a list; values are finite.");

static PyObject *lexicons_join(PyObject *object, PyObject *args) {
    const Lexicons *self = (Lexicons *)object;
    PyObject *near_parts[3], *word_parts[3], *result = NULL;
    Py_ssize_t k;
    if (!PyArg_ParseTuple(args, "n(OOO)(OOO):join", &k, &near_parts[0], &near_parts[1], &near_parts[2], &word_parts[0],
                          &word_parts[1], &word_parts[2]))
        return NULL;
    struct views views = {0};
    struct chosen near, words;
    struct best best = {NULL, 0, most_hits(self, k), self->ids};
    struct known *known = NULL;
    if (read_chosen(self, &views, near_parts[0], near_parts[1], near_parts[2], &near) &&
        read_chosen(self, &views, word_parts[0], word_parts[1], word_parts[2], &words) &&
        (known = join_known(&near, &words)) != NULL) {
        const size_t count = near.count + words.count;
        best.k = best.k < count ? best.k : count;
        best.hits = PyMem_Malloc(best.k * sizeof *best.hits + 1);
        if (best.hits == NULL) {
            PyErr_NoMemory();
        } else {
            add_joined(&best, known, count);
            result = as_arrays(&best);
        }
    }
    PyMem_Free(known);
    PyMem_Free(best.hits);
    release_views(&views);
    return result;
}

static PyMethodDef lexicons_methods[] = {
    {"search", lexicons_search, METH_VARARGS, lexicons_search_doc},
    {"score", lexicons_score, METH_VARARGS, lexicons_score_doc},
    {"fuse", lexicons_fuse, METH_VARARGS, lexicons_fuse_doc},
    {"join", lexicons_join, METH_VARARGS, lexicons_join_doc},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot lexicons_slots[] = {
    {Py_tp_doc, (void *)lexicons_doc},   {Py_tp_new, lexicons_new}, {Py_tp_dealloc, lexicons_free},
    {Py_tp_methods, lexicons_methods}, {0, NULL},
};
PyType_Spec lexicons_spec = {"aidre.engine.native.kernel.Lexicons", sizeof(Lexicons), 0, Py_TPFLAGS_DEFAULT,
                             lexicons_slots};
