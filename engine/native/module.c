/* The Python module: checks what it is given, once when it is opened, and calls the kernel.
 *
 * Columns, Codes, Plan, Lexicons, Strings and Texts hold the buffers of the arrays that they were made of, so these cannot
 * be freed or resized. They are immutable and may be searched by several threads. The lock of the interpreter is released
 * only for long searches: a short one ends sooner than another thread would give the lock back.
 */
#include "objects.h"

#include <string.h>

const struct kernel *chosen_kernel;
PyTypeObject *columns_type, *codes_type, *centroids_type;
static PyTypeObject *lists_type, *plan_type, *fragments_type, *strings_type, *lexicons_type, *texts_type;

void release_views(struct views *views) {
    for (size_t i = 0; i < views->count; i++)
        PyBuffer_Release(&views->items[i]);
    PyMem_Free(views->items);
    *views = (struct views){0};
}

const Py_buffer *hold(struct views *views, PyObject *object, Py_ssize_t item, const char *what) {
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

void *refuse(const char *message) {
    PyErr_SetString(PyExc_ValueError, message);
    return NULL;
}

void free_object(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* 'f' or 'd' for an array of native float32 or float64, 0 for anything else. */
static char format_of(const Py_buffer *view) {
    const char format = view->format != NULL && view->format[0] && !view->format[1] ? view->format[0] : 0;
    return format == 'f' || format == 'd' ? format : 0;
}

static bool encode(const Py_buffer *vector, size_t d, bool is_unit, float *query) {
    return format_of(vector) == 'f' ? encode_f32(vector->buf, d, is_unit, query)
                                    : encode_f64(vector->buf, d, is_unit, query);
}

bool encode_vector(PyObject *vector, size_t d, bool is_unit, float *query) {
    Py_buffer view;
    if (PyObject_GetBuffer(vector, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) {
        PyErr_Clear();
        return false;
    }
    const bool is_encoded = format_of(&view) && view.ndim == 1 && (size_t)(view.len / view.itemsize) == d &&
                            (uintptr_t)view.buf % (uintptr_t)view.itemsize == 0 && encode(&view, d, is_unit, query);
    PyBuffer_Release(&view);
    return is_encoded;
}

PyDoc_STRVAR(encode_doc, "encode_query(vector, is_unit, query)\n--\n\n"
                         "Write a vector of float32 or float64 to an array of float32, scaled to length 1 if `is_unit`.\n"
                         "False, with nothing written, for a vector that is not a query: not finite, too long, or without\n"
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
    PyObject *result = NULL;
    if (!format_of(&vector) || query.itemsize != sizeof(float) ||
        query.len / (Py_ssize_t)sizeof(float) != vector.len / vector.itemsize)
        refuse("vector: not of float32 or float64, or not as long as the query");
    else
        result = PyBool_FromLong(
            encode(&vector, (size_t)query.len / sizeof(float), is_unit != 0, query.buf));
    PyBuffer_Release(&vector);
    PyBuffer_Release(&query);
    return result;
}

#define MIN_NUMBER_BYTES 2 /* a digit and a comma */

PyDoc_STRVAR(read_doc, "read_vector(body, name)\n--\n\n"
                       "The numbers of the member `name` of a JSON object as bytes of float32, and the object with an empty\n"
                       "list in their place; None where a parser of JSON has to decide. All else remains unchecked.");

static PyObject *read_member(PyObject *module, PyObject *args) {
    (void)module;
    const char *body, *name;
    Py_ssize_t length, name_length;
    struct found_vector found;
    if (!PyArg_ParseTuple(args, "y#y#:read_vector", &body, &length, &name, &name_length))
        return NULL;
    const size_t most = (size_t)length / MIN_NUMBER_BYTES + 1;
    float *values = PyMem_Malloc(most * sizeof *values);
    if (values == NULL)
        return PyErr_NoMemory();
    PyObject *result = NULL;
    if (!read_vector((const uint8_t *)body, (size_t)length, (const uint8_t *)name, (size_t)name_length, values, most,
                     &found)) {
        PyMem_Free(values);
        return Py_NewRef(Py_None);
    }
    const Py_ssize_t rest = (Py_ssize_t)found.start + 2 + length - (Py_ssize_t)found.end;
    PyObject *vector = PyBytes_FromStringAndSize((const char *)values, (Py_ssize_t)(found.count * sizeof *values));
    PyObject *others = PyBytes_FromStringAndSize(NULL, rest);
    if (vector != NULL && others != NULL) {
        char *out = PyBytes_AsString(others);
        memcpy(out, body, found.start);
        memcpy(out + found.start, "[]", 2);
        memcpy(out + found.start + 2, body + found.end, (size_t)length - found.end);
        result = PyTuple_Pack(2, vector, others);
    }
    Py_XDECREF(vector);
    Py_XDECREF(others);
    PyMem_Free(values);
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
    {"read_vector", read_member, METH_VARARGS, read_doc},
    {NULL, NULL, 0, NULL},
};

static bool add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type) {
    *type = (PyTypeObject *)PyType_FromSpec(spec);
    return *type != NULL && PyModule_AddType(module, *type) == 0;
}

static int execute(PyObject *module) {
    chosen_kernel = kernel_best();
    return add_type(module, &columns_spec, &columns_type) && add_type(module, &codes_spec, &codes_type) &&
                   add_type(module, &centroids_spec, &centroids_type) && add_type(module, &lists_spec, &lists_type) &&
                   add_type(module, &plan_spec, &plan_type) &&
                   add_type(module, &fragments_spec, &fragments_type) &&
                   add_type(module, &strings_spec, &strings_type) &&
                   add_type(module, &lexicons_spec, &lexicons_type) && add_type(module, &texts_spec, &texts_type)
               ? 0
               : -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)execute}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "aidre.engine.native.kernel", "Vector search in C; see kernel.h.", 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_kernel(void) { return PyModuleDef_Init(&definition); }
