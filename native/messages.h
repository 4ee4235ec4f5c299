/* Received messages for the client: what src/borzoi/client/messages.py makes of a poll's answer.
 *
 * A message is one block of memory with the numbers of its header as they arrived, and the bytes of
 * its payload. Numbers become Python integers when they are asked for: eight objects for each
 * message would take longer than receiving it. What a message can do is written in Python, and
 * client/compact_messages.py gives it to the type.
 */
#ifndef BORZOI_MESSAGES_H
#define BORZOI_MESSAGES_H

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    unsigned long long checksum;
    unsigned long long offset;
    unsigned long long timestamp;
    unsigned long long origin_timestamp;
    unsigned long long partition;
    uint8_t id[ID_BYTES];
    PyObject *payload;
    PyObject *encoded_headers;
} Message;

typedef struct {
    PyObject_HEAD
    Py_buffer messages;
    size_t start;
    unsigned long long partition;
    PyTypeObject *type;
} MessageIterator;

/* Of each copy of the module: its types. */
typedef struct {
    PyTypeObject *message;
    PyTypeObject *iterator;
} Types;

/* A message. ---------------------------------------------------------------------------------- */

/* Bytes and numbers refer to nothing else, so the garbage collector need not know a message. */
static PyObject *message_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"checksum", "id_bytes", "offset", "timestamp", "origin_timestamp",
                            "partition", "payload", "encoded_headers", NULL};
    PyObject *given[5], *id, *payload, *encoded_headers;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OSOOOOSS:Message", names, &given[0],
                                     &id, &given[1], &given[2], &given[3], &given[4], &payload,
                                     &encoded_headers))
        return NULL;
    if (PyBytes_Size(id) != ID_BYTES) {
        PyErr_SetString(PyExc_ValueError, "an id has 16 bytes");
        return NULL;
    }
    unsigned long long numbers[5];
    for (int i = 0; i < 5; i++) {
        numbers[i] = PyLong_AsUnsignedLongLong(given[i]);
        if (numbers[i] == UINT64_MAX && PyErr_Occurred())
            return NULL;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Message *message = (Message *)allocate(type, 0);
    if (!message)
        return NULL;
    message->checksum = numbers[0];
    message->offset = numbers[1];
    message->timestamp = numbers[2];
    message->origin_timestamp = numbers[3];
    message->partition = numbers[4];
    memcpy(message->id, PyBytes_AsString(id), ID_BYTES);
    Py_INCREF(payload);
    message->payload = payload;
    Py_INCREF(encoded_headers);
    message->encoded_headers = encoded_headers;
    return (PyObject *)message;
}

static void message_free(PyObject *self)
{
    Message *message = (Message *)self;
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(message->payload);
    Py_XDECREF(message->encoded_headers);
    /* A class that was derived from this one may have other memory. */
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *message_id_bytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyBytes_FromStringAndSize((const char *)((Message *)self)->id, ID_BYTES);
}

#define NUMBER(name) {#name, T_ULONGLONG, offsetof(Message, name), READONLY, NULL}
#define OBJECT(name) {#name, T_OBJECT_EX, offsetof(Message, name), READONLY, NULL}

static PyMemberDef message_members[] = {
    NUMBER(checksum),
    NUMBER(offset),
    NUMBER(timestamp),
    NUMBER(origin_timestamp),
    NUMBER(partition),
    OBJECT(payload),
    OBJECT(encoded_headers),
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef message_getters[] = {
    {"id_bytes", message_id_bytes, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot message_slots[] = {
    {Py_tp_new, (void *)message_new},
    {Py_tp_dealloc, (void *)message_free},
    {Py_tp_members, message_members},
    {Py_tp_getset, message_getters},
    {0, NULL},
};

/* Where programs import it from, also those that unpickle one. */
static PyType_Spec message_spec = {
    .name = "borzoi.client.messages.Message",
    .basicsize = sizeof(Message),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = message_slots,
};

/* All messages of an answer. ------------------------------------------------------------------ */

/* The size of the message at `start`, or 0 when it does not lie inside. */
static inline size_t size_inside(const uint8_t *messages, size_t start, size_t length)
{
    if (length - start < HEADER_BYTES)
        return 0;
    size_t size = size_of(messages + start);
    return size <= length - start ? size : 0;
}

static PyObject *iterator_next(PyObject *self)
{
    MessageIterator *iterator = (MessageIterator *)self;
    const uint8_t *found = (const uint8_t *)iterator->messages.buf + iterator->start;
    size_t size = size_inside(iterator->messages.buf, iterator->start,
                              (size_t)iterator->messages.len);
    if (!size)
        return NULL;
    /* Once: the sum of the two may not be more than was tested. */
    size_t user_headers = load32(found + USER_HEADERS_AT);
    if (user_headers > size - HEADER_BYTES)
        return NULL;
    size_t payload = size - HEADER_BYTES - user_headers;
    Message *message = PyObject_New(Message, iterator->type);
    if (!message)
        return NULL;
    message->checksum = load64(found);
    message->offset = load64(found + OFFSET_AT);
    message->timestamp = load64(found + TIMESTAMP_AT);
    message->origin_timestamp = load64(found + ORIGIN_TIMESTAMP_AT);
    message->partition = iterator->partition;
    memcpy(message->id, found + ID_AT, ID_BYTES);
    found += HEADER_BYTES;
    message->payload = PyBytes_FromStringAndSize((const char *)found, (Py_ssize_t)payload);
    message->encoded_headers = PyBytes_FromStringAndSize((const char *)found + payload,
                                                         (Py_ssize_t)user_headers);
    if (!message->payload || !message->encoded_headers) {
        Py_DECREF(message);
        return NULL;
    }
    iterator->start += size;
    return (PyObject *)message;
}

static void iterator_free(PyObject *self)
{
    MessageIterator *iterator = (MessageIterator *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (iterator->messages.obj)
        PyBuffer_Release(&iterator->messages);
    Py_DECREF(iterator->type);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyType_Slot iterator_slots[] = {
    {Py_tp_dealloc, (void *)iterator_free},
    {Py_tp_iter, (void *)PyObject_SelfIter},
    {Py_tp_iternext, (void *)iterator_next},
    {0, NULL},
};

static PyType_Spec iterator_spec = {
    .name = "borzoi.records._native.MessageIterator",
    .basicsize = sizeof(MessageIterator),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = iterator_slots,
};

PyDoc_STRVAR(count_doc, "count(messages)\n--\n\n"
             "How many messages fill the buffer, by their headers; None when they do not.");

static PyObject *count_bytes(const uint8_t *messages, size_t length)
{
    size_t start = 0, size;
    Py_ssize_t counted = 0;
    while (start < length && (size = size_inside(messages, start, length))) {
        start += size;
        counted++;
    }
    if (start == length)
        return PyLong_FromSsize_t(counted);
    Py_RETURN_NONE;
}

TAKES_BYTES(count)

PyDoc_STRVAR(messages_doc, "messages(messages, partition)\n--\n\n"
             "The messages of an answer, with copies of their bytes; ends where one is cut off.");

static PyObject *messages(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    uint64_t partition;
    if (expect(given, 2, "messages") < 0 || number_take(&partition, arguments[1]) < 0)
        return NULL;
    Types *types = PyModule_GetState(module);
    MessageIterator *iterator = PyObject_New(MessageIterator, types->iterator);
    if (!iterator)
        return NULL;
    iterator->start = 0;
    iterator->partition = partition;
    iterator->type = types->message;
    Py_INCREF(types->message);
    if (PyObject_GetBuffer(arguments[0], &iterator->messages, PyBUF_SIMPLE) < 0) {
        iterator->messages.obj = NULL;
        Py_DECREF(iterator);
        return NULL;
    }
    return (PyObject *)iterator;
}

/* What is sent. ------------------------------------------------------------------------------- */

PyDoc_STRVAR(equal_size_doc, "equal_size(payloads)\n--\n\n"
             "The size that all payloads of a list have; None when they differ, or one is not\n"
             "bytes.");

static PyObject *equal_size(PyObject *module, PyObject *given)
{
    (void)module;
    Py_ssize_t size = -1, count = PyList_CheckExact(given) ? PyList_Size(given) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *payload = PyList_GetItem(given, i);
        if (!PyBytes_CheckExact(payload) || (i && PyBytes_Size(payload) != size))
            Py_RETURN_NONE;
        size = PyBytes_Size(payload);
    }
    if (size < 0)
        Py_RETURN_NONE;
    return PyLong_FromSsize_t(size);
}

/* The types belong to the module. ------------------------------------------------------------- */

static int types_make(PyObject *module)
{
    Types *types = PyModule_GetState(module);
    types->message = (PyTypeObject *)PyType_FromModuleAndSpec(module, &message_spec, NULL);
    types->iterator = (PyTypeObject *)PyType_FromModuleAndSpec(module, &iterator_spec, NULL);
    if (!types->message || !types->iterator)
        return -1;
    return PyModule_AddType(module, types->message);
}

static int types_visit(PyObject *module, visitproc visit, void *arg)
{
    Types *types = PyModule_GetState(module);
    Py_VISIT(types->message);
    Py_VISIT(types->iterator);
    return 0;
}

static int types_clear(PyObject *module)
{
    Types *types = PyModule_GetState(module);
    Py_CLEAR(types->message);
    Py_CLEAR(types->iterator);
    return 0;
}

#endif
