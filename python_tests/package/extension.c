/* An extension module that calls gpuvec: dot(a, b) of two buffers of C floats. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <gpuvec.h>

static PyObject *dot(PyObject *module, PyObject *arguments)
{
    Py_buffer a, b;
    float result = 0;
    int32_t status;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y*y*", &a, &b)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = gpuvec_dot_f32(a.buf, b.buf, &result, (size_t)a.len / sizeof(float), NULL);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&a);
    PyBuffer_Release(&b);
    if (status != GPUVEC_OK) {
        PyErr_SetString(PyExc_RuntimeError, gpuvec_last_error());
        return NULL;
    }
    return PyFloat_FromDouble((double)result);
}

static PyMethodDef methods[] = {
    {"dot", dot, METH_VARARGS, "Returns the dot product of two buffers of floats."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "extension", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_extension(void)
{
    return PyModule_Create(&definition);
}
