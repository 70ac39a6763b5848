/* Strings: a sorted dictionary in the map, searched in place. */
#include "objects.h"

typedef struct {
    PyObject_HEAD
    struct views views;
    struct dictionary dictionary;
} Strings;

static void strings_free(PyObject *object) {
    release_views(&((Strings *)object)->views);
    free_object(object);
}

PyDoc_STRVAR(strings_doc, "Strings(offsets, bytes)\n--\n\n"
                          "Strings in ascending order: offsets (n + 1,) of int64 into bytes.");

static PyObject *strings_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    PyObject *offsets, *bytes;
    if (!PyArg_ParseTuple(args, "OO:Strings", &offsets, &bytes))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Strings *self = (Strings *)allocate(type, 0);
    if (self == NULL)
        return NULL;
    const Py_buffer *view = hold(&self->views, offsets, sizeof(int64_t), "offsets of strings");
    if (view != NULL && view->len >= (Py_ssize_t)sizeof(int64_t)) {
        self->dictionary.offsets = view->buf;
        self->dictionary.count = view->len / (Py_ssize_t)sizeof(int64_t) - 1;
        view = hold(&self->views, bytes, 1, "bytes of strings");
        if (view != NULL) {
            self->dictionary.bytes = view->buf;
            self->dictionary.length = view->len;
            return (PyObject *)self;
        }
    } else if (view != NULL) {
        refuse("offsets of strings: none");
    }
    Py_DECREF((PyObject *)self);
    return NULL;
}

/* The number of the first string that is not less than the key; `is_found` only where it is equal, else -1. */
static PyObject *look_up(PyObject *object, PyObject *key, bool is_found) {
    char *bytes;
    Py_ssize_t length;
    bool is_equal;
    if (PyBytes_AsStringAndSize(key, &bytes, &length) < 0)
        return NULL;
    const int64_t first =
        dictionary_first(&((Strings *)object)->dictionary, (const uint8_t *)bytes, (size_t)length, &is_equal);
    return PyLong_FromLongLong(is_equal || !is_found ? first : -1);
}

PyDoc_STRVAR(strings_first_doc, "first(key)\n--\n\nThe number of the first string that is not less than the key.");

static PyObject *strings_first(PyObject *object, PyObject *key) { return look_up(object, key, false); }

PyDoc_STRVAR(strings_find_doc, "find(key)\n--\n\nThe number of the string that is the key; -1 where there is none.");

static PyObject *strings_find(PyObject *object, PyObject *key) { return look_up(object, key, true); }

static PyMethodDef strings_methods[] = {
    {"first", strings_first, METH_O, strings_first_doc},
    {"find", strings_find, METH_O, strings_find_doc},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot strings_slots[] = {
    {Py_tp_doc, (void *)strings_doc},   {Py_tp_new, strings_new}, {Py_tp_dealloc, strings_free},
    {Py_tp_methods, strings_methods}, {0, NULL},
};
PyType_Spec strings_spec = {"aidre.engine.native.kernel.Strings", sizeof(Strings), 0, Py_TPFLAGS_DEFAULT, strings_slots};
