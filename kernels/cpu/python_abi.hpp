// What the library uses of Python's stable ABI, as addresses that Python hands over when it has loaded the library: one
// file serves every Python from 3.11 on, the free-threaded one too, is linked without Python, and needs no header of it.
#pragma once
#include <stdint.h>

struct PyObject;
struct Python {
    void* (*as_pointer)(PyObject*);         // PyLong_AsVoidPtr
    char* (*bytes)(PyObject*);              // PyBytes_AsString
    PyObject* (*error)();                   // PyErr_Occurred
    void* (*release)();                     // PyEval_SaveThread
    void (*resume)(void*);                  // PyEval_RestoreThread
    void (*keep)(PyObject*);                // Py_IncRef
    int (*acquire_lock)(void*, int);        // PyThread_acquire_lock
    void (*release_lock)(void*);            // PyThread_release_lock
    PyObject* none;
};
static Python python;
