// loop_handler: what a produce or a fetch of one record costs at least on the event loop that the daemon runs on. A protocol of asyncio
// whose work is floor.h's: the loop reads, calls data_received, and takes the answer by transport.write; nothing else is in Python.
//
//   Append(), Read()        protocols, to be made for each connection; open_append(path) or read_table(directory) comes before them

#include "floor.h"
#define PY_SSIZE_T_CLEAN
#include <Python.h>

typedef struct {
    PyObject_HEAD
    PyObject *write;                 // of the transport
    uint8_t *in;
    size_t length;
} handler_t;

static PyObject *connection_made(handler_t *self, PyObject *transport) {
    Py_XSETREF(self->write, PyObject_GetAttrString(transport, "write"));
    if (!self->write || !(self->in = malloc(RECEIVE))) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *connection_lost(handler_t *self, PyObject *error) {
    (void)error;
    Py_CLEAR(self->write);
    Py_RETURN_NONE;
}

static PyObject *nothing(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    Py_RETURN_NONE;
}

static bool take(handler_t *self, PyObject *data) {
    size_t size = (size_t)PyBytes_GET_SIZE(data);
    if (size > RECEIVE - self->length) {
        PyErr_SetString(PyExc_ValueError, "a request is too long");
        return false;
    }
    memcpy(self->in + self->length, PyBytes_AS_STRING(data), size);
    self->length += size;
    return true;
}

static bool write_bytes(handler_t *self, PyObject *bytes) {
    PyObject *done = bytes ? PyObject_CallOneArg(self->write, bytes) : NULL;
    Py_XDECREF(bytes);
    Py_XDECREF(done);
    return done != NULL;
}

static bool append(handler_t *self, uint8_t *frame, uint8_t *end) {
    uint8_t out[ANSWER];
    ssize_t size = append_answer(frame, end, out);
    if (size < 0) {
        PyErr_SetString(PyExc_ValueError, "not a produce of one batch");
        return false;
    }
    return size == 0 || write_bytes(self, PyBytes_FromStringAndSize((char *)out, size));
}

// Small ranges are read: sendfile would be three system calls instead of two.
static bool read_range(handler_t *self, uint8_t *frame, uint8_t *end) {
    (void)end;
    uint8_t head[ANSWER];
    range_t range;
    size_t size = fetch_answer(frame, head, &range);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(size + range.left + TAGS));
    if (!bytes) return false;
    uint8_t *p = (uint8_t *)PyBytes_AS_STRING(bytes);
    memcpy(p, head, size);
    if (range.left && pread(range.file, p + size, range.left, range.position) != (ssize_t)range.left) die("pread");
    memset(p + size + range.left, 0, TAGS);
    return write_bytes(self, bytes);
}

static PyObject *received(handler_t *self, PyObject *data, bool (*answer)(handler_t *, uint8_t *, uint8_t *)) {
    if (!take(self, data)) return NULL;
    size_t at = 0;
    while (self->length - at >= 4) {
        size_t whole = 4 + (size_t)number(self->in + at, 4);
        if (self->length - at < whole) break;
        if (!answer(self, self->in + at, self->in + at + whole)) return NULL;
        at += whole;
    }
    memmove(self->in, self->in + at, self->length -= at);
    Py_RETURN_NONE;
}

static PyObject *append_received(handler_t *self, PyObject *data) { return received(self, data, append); }
static PyObject *read_received(handler_t *self, PyObject *data) { return received(self, data, read_range); }

static void dealloc(handler_t *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->write);
    free(self->in);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

#define METHODS(RECEIVED) \
    {{"connection_made", (PyCFunction)connection_made, METH_O, NULL}, \
     {"connection_lost", (PyCFunction)connection_lost, METH_O, NULL}, \
     {"data_received", (PyCFunction)RECEIVED, METH_O, NULL}, \
     {"eof_received", nothing, METH_NOARGS, NULL}, \
     {"pause_writing", nothing, METH_NOARGS, NULL}, \
     {"resume_writing", nothing, METH_NOARGS, NULL}, \
     {NULL, NULL, 0, NULL}}
static PyMethodDef append_methods[] = METHODS(append_received), read_methods[] = METHODS(read_received);
static PyType_Slot append_slots[] = {{Py_tp_methods, append_methods}, {Py_tp_dealloc, dealloc}, {0, NULL}};
static PyType_Slot read_slots[] = {{Py_tp_methods, read_methods}, {Py_tp_dealloc, dealloc}, {0, NULL}};
static PyType_Spec append_spec = {"loop_handler.Append", sizeof(handler_t), 0, Py_TPFLAGS_DEFAULT, append_slots};
static PyType_Spec read_spec = {"loop_handler.Read", sizeof(handler_t), 0, Py_TPFLAGS_DEFAULT, read_slots};

static PyObject *py_open_append(PyObject *module, PyObject *path) {
    (void)module;
    open_append(PyUnicode_AsUTF8(path));
    Py_RETURN_NONE;
}

static PyObject *py_read_table(PyObject *module, PyObject *path) {
    (void)module;
    read_table(PyUnicode_AsUTF8(path));
    return Py_BuildValue("LL", (long long)begin_offset, (long long)end_offset());
}

static PyMethodDef functions[] = {{"open_append", py_open_append, METH_O, NULL}, {"read_table", py_read_table, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "loop_handler", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_loop_handler(void) {
    PyObject *made = PyModule_Create(&module);
    if (!made || PyModule_AddObject(made, "Append", PyType_FromSpec(&append_spec)) ||
        PyModule_AddObject(made, "Read", PyType_FromSpec(&read_spec)))
        return NULL;
    return made;
}
