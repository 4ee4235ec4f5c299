/* The accelerator: what src/borzoi/records/batch.py does with a batch, one message after another.
 *
 * The Python path is the oracle. Here a batch is sound or not; which fault it has is for Python to
 * find out, so there is one place that names faults. The layouts are those of records/header.py:
 *
 *  a message                              an index entry
 *  0..8     checksum of bytes 8..end      0..4    offset, in a request zero
 *  8..24    id                            4..8    END of the message
 *  24..32   offset                        8..16   timestamp, in a request zero
 *  32..40   timestamp
 *  40..48   origin timestamp
 *  48..52   bytes of user headers
 *  52..56   bytes of payload
 *  56..64   reserved, zero
 *
 * The bytes may lie in memory that other processes can write. So every loop tests each position
 * against the buffer right before it uses it, and reads a length once.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>

#include "xxh3.h"

/* Another number whenever a function changes what it takes or returns: accelerator.py has the same,
 * and does not use a module of another one. */
#define INTERFACE 1

#define HEADER_BYTES 64
#define ID_AT 8
#define OFFSET_AT 24
#define TIMESTAMP_AT 32
#define ORIGIN_TIMESTAMP_AT 40
#define USER_HEADERS_AT 48
#define PAYLOAD_AT 52
#define RESERVED_AT 56
#define ID_BYTES 16
#define ENTRY_BYTES 16
#define PAYLOAD_BYTES_MAX 64000000u
#define USER_HEADERS_BYTES_MAX 100000u

/* The metadata of a send is not longer, and more messages than this are checked by a thread: limits
 * of protocol/commands/messages.py and listeners/binary.py, which a test compares. */
#define METADATA_BYTES_MAX 775u
#define MESSAGES_MAX 32768u

/* Fewer ends than this are a list of integers, more are packed: the limit SMALL of batch.py. */
#define FEW 8
/* From this many messages on a check does not keep other threads from running. */
#define MANY 16384

/* Headers fetched into the cache ahead of the one that is looked at. */
#define AHEAD 8

/* Where messages end. ------------------------------------------------------------------------- */

typedef struct {
    const uint32_t *at;
    Py_ssize_t count;
    uint32_t few[FEW];
    Py_buffer view;
    uint32_t *grown;
    Py_ssize_t room;
    size_t equal_size; /* the size of every message, 0 if they differ */
} Ends;

static void ends_begin(Ends *ends)
{
    ends->at = ends->few;
    ends->count = 0;
    ends->view.obj = NULL;
    ends->grown = NULL;
    ends->room = FEW;
    ends->equal_size = 0;
}

static void ends_done(Ends *ends)
{
    if (ends->view.obj)
        PyBuffer_Release(&ends->view);
    PyMem_Free(ends->grown);
}

static int ends_grow(Ends *ends, Py_ssize_t room)
{
    uint32_t *grown = PyMem_Realloc(ends->grown, (size_t)room * sizeof *grown);
    if (!grown) {
        PyErr_NoMemory();
        return -1;
    }
    if (!ends->grown)
        memcpy(grown, ends->few, sizeof ends->few);
    ends->at = ends->grown = grown;
    ends->room = room;
    return 0;
}

static inline int ends_add(Ends *ends, uint32_t end)
{
    if (ends->count == ends->room && ends_grow(ends, ends->room * 4) < 0)
        return -1;
    (ends->grown ? ends->grown : ends->few)[ends->count++] = end;
    return 0;
}

/* Those of messages of one size; there is room. */
static void ends_fill(Ends *ends, uint32_t size, Py_ssize_t count)
{
    uint32_t *at = ends->grown ? ends->grown : ends->few;
    for (Py_ssize_t i = 0; i < count; i++)
        at[i] = size * (uint32_t)(i + 1);
    ends->count = count;
}

/* A list of integers, or anything that lays out 32-bit integers one after another. */
static int ends_take(Ends *ends, PyObject *given)
{
    ends_begin(ends);
    if (PyList_Check(given)) {
        Py_ssize_t count = PyList_Size(given);
        for (Py_ssize_t i = 0; i < count; i++) {
            unsigned long end = PyLong_AsUnsignedLong(PyList_GetItem(given, i));
            if (end > UINT32_MAX || (end == (unsigned long)-1 && PyErr_Occurred())) {
                if (!PyErr_Occurred())
                    PyErr_SetString(PyExc_OverflowError, "the end of a message has 32 bits");
                return -1;
            }
            if (ends_add(ends, (uint32_t)end) < 0)
                return -1;
        }
        return 0;
    }
    if (PyObject_GetBuffer(given, &ends->view, PyBUF_ND) < 0) {
        ends->view.obj = NULL;
        return -1;
    }
    if (ends->view.itemsize != sizeof(uint32_t) || (uintptr_t)ends->view.buf % sizeof(uint32_t)) {
        PyErr_SetString(PyExc_TypeError, "ends are 32-bit integers");
        return -1;
    }
    ends->at = ends->view.buf;
    ends->count = ends->view.len / (Py_ssize_t)sizeof(uint32_t);
    return 0;
}

/* A list of where they are when the first message begins at `start`. */
static PyObject *ends_behind(const Ends *ends, size_t start)
{
    PyObject *list = PyList_New(ends->count);
    for (Py_ssize_t i = 0; list && i < ends->count; i++) {
        PyObject *end = PyLong_FromSize_t(start + ends->at[i]);
        if (!end || PyList_SetItem(list, i, end) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *ends_given(const Ends *ends)
{
    if (ends->count >= FEW)
        return PyBytes_FromStringAndSize((const char *)ends->at,
                                         ends->count * (Py_ssize_t)sizeof(uint32_t));
    return ends_behind(ends, 0);
}

/* The result of a check. For sound messages: their ends, with the common size (or 0) if there are
 * many. If `sound` is 0: None. If it is negative: NULL, an exception is set. Releases the ends. */
static PyObject *found(Ends *ends, int sound)
{
    PyObject *given = sound > 0 ? ends_given(ends) : NULL;
    if (given && ends->count >= FEW)
        given = Py_BuildValue("(Nn)", given, (Py_ssize_t)ends->equal_size);
    ends_done(ends);
    return sound == 0 ? Py_NewRef(Py_None) : given;
}

/* Whether a message from `start` to `end` lies inside; every caller asks before it reads. */
static inline int is_inside(size_t start, size_t end, size_t length)
{
    return end <= length && start <= end && end - start >= HEADER_BYTES;
}

static PyObject *outside(void)
{
    PyErr_SetString(PyExc_ValueError, "a message does not lie in the buffer");
    return NULL;
}

static inline size_t size_of(const uint8_t *message)
{
    return HEADER_BYTES + (size_t)load32(message + USER_HEADERS_AT) + load32(message + PAYLOAD_AT);
}

static inline uint64_t checksum_of(const uint8_t *message, size_t size)
{
    return xxh3(message + ID_AT, size - ID_AT);
}

/* Parsing arguments: 0 on success; -1 with an exception set, and nothing to release. ----------- */

static int expect(Py_ssize_t given, Py_ssize_t expected, const char *name)
{
    if (given == expected)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", name, expected, given);
    return -1;
}

static inline int number_take(uint64_t *number, PyObject *given)
{
    *number = PyLong_AsUnsignedLongLong(given);
    return *number == UINT64_MAX && PyErr_Occurred() ? -1 : 0;
}

/* Get the buffers of the first two arguments, the second one with these flags. */
static inline int buffers_take(Py_buffer *first, Py_buffer *second, PyObject *const *arguments,
                               int flags)
{
    if (PyObject_GetBuffer(arguments[0], first, PyBUF_SIMPLE) < 0)
        return -1;
    if (PyObject_GetBuffer(arguments[1], second, flags) == 0)
        return 0;
    PyBuffer_Release(first);
    return -1;
}

/* Define a function of one argument, which passes its bytes to `name_bytes`. */
#define TAKES_BYTES(name)                                               \
    static PyObject *name(PyObject *module, PyObject *given)            \
    {                                                                   \
        (void)module;                                                   \
        Py_buffer bytes;                                                \
        if (PyObject_GetBuffer(given, &bytes, PyBUF_SIMPLE) < 0)        \
            return NULL;                                                \
        PyObject *made = name##_bytes(bytes.buf, (size_t)bytes.len);    \
        PyBuffer_Release(&bytes);                                       \
        return made;                                                    \
    }

static void batch_done(Py_buffer *messages, Ends *ends)
{
    ends_done(ends);
    PyBuffer_Release(messages);
}

/* Get the first two arguments: the messages, with these flags, and their ends. */
static inline int batch_take(Py_buffer *messages, Ends *ends, PyObject *const *arguments, int flags)
{
    if (PyObject_GetBuffer(arguments[0], messages, flags) < 0)
        return -1;
    if (ends_take(ends, arguments[1]) == 0)
        return 0;
    batch_done(messages, ends);
    return -1;
}

#include "messages.h"
#include "lines.h"
#include "rows.h"
#include "stamping.h"

/* Receiving. ---------------------------------------------------------------------------------- */

/* The size of every message of a sound batch whose messages have one size, as most have; 0 for any
 * other. The arithmetic alone says where they lie, so nothing waits for what was read before. */
static size_t sound_size(const uint8_t *messages, size_t length, const uint8_t *indexes,
                         size_t count)
{
    uint64_t lengths = load64(messages + USER_HEADERS_AT);
    size_t size = HEADER_BYTES + (size_t)(uint32_t)lengths + (size_t)(lengths >> 32);
    if (length / count != size || length % count ||
        (uint32_t)lengths > USER_HEADERS_BYTES_MAX || lengths >> 32 > PAYLOAD_BYTES_MAX)
        return 0;
    uint64_t faults = 0, previous_offset = 0, end = 0;
    for (size_t i = 0; i < count; i++, indexes += ENTRY_BYTES) {
        const uint8_t *message = messages + end;
        __builtin_prefetch(i + AHEAD < count ? message + AHEAD * size : message, 1);
        uint64_t offset = load64(message + OFFSET_AT);
        end += size;
        faults |= load64(indexes) ^ end << 32;
        faults |= load64(indexes + 8) | (load64(message + USER_HEADERS_AT) ^ lengths) |
                  load64(message + RESERVED_AT) | (offset < previous_offset);
        previous_offset = offset;
    }
    return faults ? 0 : size;
}

/* Whether the batch is sound; then its ends, for which there is room, are filled in. */
static int is_sound(const uint8_t *messages, size_t length, const uint8_t *indexes, size_t count,
                    Ends *ends)
{
    size_t start = 0;
    uint64_t previous_offset = 0;
    for (size_t i = 0; i < count; i++, indexes += ENTRY_BYTES) {
        if (i + AHEAD < count) {
            size_t later = load32(indexes + AHEAD * ENTRY_BYTES + 4);
            __builtin_prefetch(messages + (later < length ? later : 0), 1);
        }
        uint32_t position = load32(indexes + 4);
        int is_last = i + 1 == count;
        /* The entry of the last message need only not lie before the others. */
        size_t end = is_last ? length : position;
        if (load32(indexes) || load64(indexes + 8) || !is_inside(start, end, length))
            return 0;
        const uint8_t *message = messages + start;
        uint32_t user_headers = load32(message + USER_HEADERS_AT);
        uint32_t payload = load32(message + PAYLOAD_AT);
        size_t size = end - start;
        if (HEADER_BYTES + (size_t)user_headers + payload != size ||
            payload > PAYLOAD_BYTES_MAX || user_headers > USER_HEADERS_BYTES_MAX)
            return 0;
        uint64_t offset = load64(message + OFFSET_AT);
        if (offset < previous_offset || load64(message + RESERVED_AT) ||
            (is_last && position < start))
            return 0;
        ends_add(ends, (uint32_t)end);
        if (i == 0)
            ends->equal_size = size;
        else if (ends->equal_size != size)
            ends->equal_size = 0;
        previous_offset = offset;
        start = end;
    }
    return 1;
}

/* Fill in the ends of a request: 1 when it is sound, 0 when not, -1 with an exception. */
static int check_request(const uint8_t *messages, size_t length, const uint8_t *indexes,
                         size_t indexes_length, uint64_t count, Ends *ends)
{
    /* The count is what the index has bytes for. Messages that cannot all be there get no room. */
    if (!count || indexes_length % ENTRY_BYTES || indexes_length / ENTRY_BYTES != count ||
        length > UINT32_MAX || count > length / HEADER_BYTES)
        return 0;
    if (count > FEW && ends_grow(ends, (Py_ssize_t)count) < 0)
        return -1;
    /* Many take milliseconds: whoever checks them on a thread leaves the others theirs. */
    PyThreadState *thread = count >= MANY ? PyEval_SaveThread() : NULL;
    int sound = 1;
    ends->equal_size = sound_size(messages, length, indexes, (size_t)count);
    if (ends->equal_size)
        ends_fill(ends, (uint32_t)ends->equal_size, (Py_ssize_t)count);
    else
        sound = is_sound(messages, length, indexes, (size_t)count, ends);
    if (thread)
        PyEval_RestoreThread(thread);
    return sound;
}

/* The same for the batch whose number of messages is at `count_at`, where four bytes are; its index
 * follows that, and its messages follow the index. */
static int check_behind(const uint8_t *bytes, size_t size, size_t count_at, size_t *messages_start,
                        Ends *ends)
{
    size_t count = load32(bytes + count_at), indexes_start = count_at + 4;
    *messages_start = indexes_start + count * ENTRY_BYTES;
    if (count > MESSAGES_MAX || *messages_start > size)
        return 0;
    return check_request(bytes + *messages_start, size - *messages_start, bytes + indexes_start,
                         count * ENTRY_BYTES, count, ends);
}

PyDoc_STRVAR(check_doc, "check(messages, indexes, count)\n--\n\n"
             "The ends of a sound request, if many with their common size (or 0); None for any\n"
             "other.");

static PyObject *check(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    Py_buffer messages, indexes;
    uint64_t count;
    if (expect(given, 3, "check") < 0 || number_take(&count, arguments[2]) < 0 ||
        buffers_take(&messages, &indexes, arguments, PyBUF_SIMPLE) < 0)
        return NULL;
    Ends ends;
    ends_begin(&ends);
    int sound = check_request(messages.buf, (size_t)messages.len, indexes.buf, (size_t)indexes.len,
                              count, &ends);
    PyBuffer_Release(&indexes);
    PyBuffer_Release(&messages);
    return found(&ends, sound);
}

PyDoc_STRVAR(split_doc, "split(payload)\n--\n\n"
             "The constant bytes of a send, where its messages begin, and what `check` says of\n"
             "them; None for a payload that is faulty or very long.");

static PyObject *split_bytes(const uint8_t *payload, size_t size)
{
    size_t metadata = size < 8 ? 0 : load32(payload);
    Ends ends;
    ends_begin(&ends);
    size_t messages_start = 0;
    int sound = 0;
    /* The count is the end of the metadata. */
    if (metadata >= 4 && metadata <= METADATA_BYTES_MAX && metadata + 4 <= size)
        sound = check_behind(payload, size, metadata, &messages_start, &ends);
    PyObject *result = found(&ends, sound);
    if (result && sound)
        result = Py_BuildValue("(y#nN)", (const char *)payload + 4, (Py_ssize_t)metadata - 4,
                               (Py_ssize_t)messages_start, result);
    return result;
}

TAKES_BYTES(split)

PyDoc_STRVAR(join_doc, "join(frame, repeated, messages, ends)\n--\n\n"
             "Add the messages of a send to those of others, and where they end: a whole request\n"
             "whose bytes from its code to its count are these. How many bytes were added; 0 for\n"
             "any other request, and for a faulty one.");

static PyObject *join(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    if (expect(given, 4, "join") < 0)
        return NULL;
    PyObject *joined = arguments[2], *list = arguments[3];
    if (!PyByteArray_Check(joined) || !PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "messages join a bytearray, and ends a list");
        return NULL;
    }
    Py_buffer frame, repeated;
    if (buffers_take(&frame, &repeated, arguments, PyBUF_SIMPLE) < 0)
        return NULL;
    const uint8_t *bytes = frame.buf;
    size_t size = (size_t)frame.len, same = (size_t)repeated.len;
    Ends ends;
    ends_begin(&ends);
    size_t messages_start = 0;
    int sound = 0;
    /* The length counts what follows it. */
    if (size >= same + 8 && load32(bytes) == size - 4 && !memcmp(bytes + 4, repeated.buf, same))
        sound = check_behind(bytes, size, 4 + same, &messages_start, &ends);
    Py_ssize_t before = PyByteArray_Size(joined), added = 0;
    PyObject *found_ends = sound > 0 ? ends_behind(&ends, (size_t)before) : NULL;
    if (found_ends) {
        added = (Py_ssize_t)(size - messages_start);
        if (PyByteArray_Resize(joined, before + added) < 0) {
            added = 0;
        } else if (PyList_SetSlice(list, PyList_Size(list), PyList_Size(list), found_ends) < 0) {
            PyByteArray_Resize(joined, before); /* neither without the other */
            added = 0;
        } else {
            memcpy(PyByteArray_AsString(joined) + before, bytes + messages_start, (size_t)added);
        }
        Py_DECREF(found_ends);
    }
    ends_done(&ends);
    PyBuffer_Release(&repeated);
    PyBuffer_Release(&frame);
    if (sound && !added)
        return NULL;
    return PyLong_FromSsize_t(added);
}

/* Walking. ------------------------------------------------------------------------------------ */

PyDoc_STRVAR(walk_doc, "walk(messages)\n--\n\n"
             "The same by what the headers say; None when they do not fit together.");

static PyObject *walk_bytes(const uint8_t *messages, size_t length)
{
    Ends ends;
    ends_begin(&ends);
    size_t start = 0;
    int sound = length <= UINT32_MAX;
    while (sound > 0 && start < length) {
        size_t size = size_inside(messages, start, length);
        if (!size || load64(messages + start + RESERVED_AT)) {
            sound = 0;
            break;
        }
        ends.equal_size = start == 0 || ends.equal_size == size ? size : 0;
        start += size;
        sound = ends_add(&ends, (uint32_t)start) < 0 ? -1 : 1;
    }
    return found(&ends, sound);
}

TAKES_BYTES(walk)

PyDoc_STRVAR(prefix_doc, "prefix(messages)\n--\n\n"
             "Ends of the whole, undamaged messages with consecutive offsets at the start.");

static PyObject *prefix_bytes(const uint8_t *messages, size_t given)
{
    Ends ends;
    ends_begin(&ends);
    size_t length = given < UINT32_MAX ? given : UINT32_MAX, start = 0;
    uint64_t previous_offset = 0;
    int failed = 0;
    while (!failed && length - start >= HEADER_BYTES) {
        const uint8_t *message = messages + start;
        size_t size = size_of(message);
        uint64_t offset = load64(message + OFFSET_AT);
        /* The last offset there is has no successor, though it would come out as zero. */
        if (size > length - start || load64(message + RESERVED_AT) ||
            (start && (offset != previous_offset + 1 || !offset)) ||
            checksum_of(message, size) != load64(message))
            break;
        start += size;
        previous_offset = offset;
        failed = ends_add(&ends, (uint32_t)start) < 0;
    }
    return found(&ends, failed ? -1 : 1);
}

TAKES_BYTES(prefix)

/* Sealing and verifying. --------------------------------------------------------------------- */

/* Write the checksums and return None, or return the number of the first that is wrong. */
static inline PyObject *checksums(PyObject *const *arguments, int writes)
{
    Py_buffer messages;
    Ends ends;
    if (batch_take(&messages, &ends, arguments, writes ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0)
        return NULL;
    size_t start = 0, length = (size_t)messages.len;
    Py_ssize_t i = 0;
    for (; i < ends.count && is_inside(start, ends.at[i], length); i++) {
        uint8_t *message = (uint8_t *)messages.buf + start;
        if (writes)
            store64(message, checksum_of(message, ends.at[i] - start));
        else if (checksum_of(message, ends.at[i] - start) != load64(message))
            break;
        start = ends.at[i];
    }
    PyObject *result;
    if (i == ends.count)
        result = Py_NewRef(Py_None);
    else
        result = is_inside(start, ends.at[i], length) ? PyLong_FromSsize_t(i) : outside();
    batch_done(&messages, &ends);
    return result;
}

PyDoc_STRVAR(seal_doc, "seal(messages, ends)\n--\n\nWrite the checksums.");

static PyObject *seal(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    return expect(given, 2, "seal") < 0 ? NULL : checksums(arguments, 1);
}

PyDoc_STRVAR(verify_doc, "verify(messages, ends)\n--\n\n"
             "The number of the first message whose checksum is wrong, or None.");

static PyObject *verify(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    return expect(given, 2, "verify") < 0 ? NULL : checksums(arguments, 0);
}

/* Index entries. ------------------------------------------------------------------------------ */

PyDoc_STRVAR(entries_doc, "entries(ends, relative_offset, position, timestamp)\n--\n\n"
             "The index entries of a batch that begins at this offset and byte of its segment.");

static PyObject *entries(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    if (expect(given, 4, "entries") < 0)
        return NULL;
    uint64_t numbers[3];
    for (int i = 0; i < 3; i++)
        if (number_take(&numbers[i], arguments[i + 1]) < 0)
            return NULL;
    Ends ends;
    PyObject *made = NULL;
    if (ends_take(&ends, arguments[0]) == 0)
        made = PyBytes_FromStringAndSize(NULL, ends.count * ENTRY_BYTES);
    if (made) {
        uint8_t *entry = (uint8_t *)PyBytes_AsString(made);
        for (Py_ssize_t i = 0; i < ends.count; i++, entry += ENTRY_BYTES) {
            uint64_t offset = (uint32_t)(numbers[0] + (uint64_t)i);
            uint64_t end = (uint32_t)(numbers[1] + ends.at[i]);
            store64(entry, end << 32 | offset);
            store64(entry + 8, numbers[2]);
        }
    }
    ends_done(&ends);
    return made;
}

/* One checksum, so that the tests can try every length. --------------------------------------- */

PyDoc_STRVAR(checksum_doc, "checksum(hashed)\n--\n\nXXH3-64 of these bytes.");

static PyObject *checksum_bytes(const uint8_t *hashed, size_t size)
{
    return PyLong_FromUnsignedLongLong(xxh3(hashed, size));
}

TAKES_BYTES(checksum)

/* The module. --------------------------------------------------------------------------------- */

/* Records are pure and read no environment, so the switch is here, where it holds in every process:
 * unset or "on" for the best there is, "portable" for no vector instructions, "off" for Python. */
static int configure(PyObject *module)
{
    const char *wanted = getenv("BORZOI_ACCELERATOR");
    const char *instructions = "portable";
    if (!wanted || !*wanted)
        wanted = "on";
    if (strcmp(wanted, "off") == 0) {
        PyErr_SetString(PyExc_ImportError, "it is switched off (BORZOI_ACCELERATOR=off)");
        return -1;
    }
    if (strcmp(wanted, "on") != 0 && strcmp(wanted, "portable") != 0) {
        PyErr_Format(PyExc_ImportError, "BORZOI_ACCELERATOR is on, portable or off, not '%s'",
                     wanted);
        return -1;
    }
#if XXH3_HAS_AVX2
    __builtin_cpu_init();
    if (strcmp(wanted, "on") == 0 && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("bmi2")) {
        hash_long = hash_long_avx2;
        make_ids = make_ids_avx2;
        stamp_run = stamp_run_avx2;
        instructions = "AVX2";
    }
#endif
    if (types_make(module) < 0 ||
        PyModule_AddStringConstant(module, "INSTRUCTIONS", instructions) < 0 ||
        PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0)
        return -1;
    return PyModule_AddIntConstant(module, "FEW", FEW);
}

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL

static PyMethodDef methods[] = {
    {"check", FAST(check), check_doc},
    {"split", split, METH_O, split_doc},
    {"join", FAST(join), join_doc},
    {"walk", walk, METH_O, walk_doc},
    {"prefix", prefix, METH_O, prefix_doc},
    {"stamp", FAST(stamp), stamp_doc},
    {"seal", FAST(seal), seal_doc},
    {"verify", FAST(verify), verify_doc},
    {"entries", FAST(entries), entries_doc},
    {"uuids", FAST(uuids), uuids_doc},
    {"checksum", checksum, METH_O, checksum_doc},
    {"count", count, METH_O, count_doc},
    {"messages", FAST(messages), messages_doc},
    {"equal_size", equal_size, METH_O, equal_size_doc},
    {"json_lines", FAST(json_lines), json_lines_doc},
    {"decimal_ids", decimal_ids, METH_O, decimal_ids_doc},
    {"json_messages", FAST(json_messages), json_messages_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)configure},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "borzoi.records._native",
    .m_doc = "Batches of messages, checked, stamped, verified and read.",
    .m_size = sizeof(Types),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = types_visit,
    .m_clear = types_clear,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
