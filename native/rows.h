/* Lines of JSON as the messages of a request: what src/borzoi/cli/sources.py makes of a file.
 *
 * A line is a JSON value, and the message its text as it is written, or that of one field of it. As
 * in lines.h only what is certain is done here, and any line with something else in it leaves all
 * of them to Python.
 */
#ifndef BORZOI_ROWS_H
#define BORZOI_ROWS_H

/* Bytes that are counted at once; their number fits in a byte. */
#define COUNTED 128

typedef struct {
    const uint8_t *start, *end;
} Span;

/* The value of a field, which must be there once; 0 when it is not certain which one that is. */
static int field_of(const uint8_t *at, const uint8_t *end, Span name, Span *value)
{
    int found = 0;
    size_t name_size = (size_t)(name.end - name.start);
    if (*at != '{')
        return 0;
    at = after_spaces(at + 1, end);
    while (at < end && *at == '"') {
        Span key = {at + 1, after_string(at, end)};
        if (!key.end)
            return 0;
        at = after_spaces(key.end--, end);
        if (memchr(key.start, '\\', (size_t)(key.end - key.start)) || at >= end || *at != ':')
            return 0;
        at = after_spaces(at + 1, end);
        Span span = {at, after_value(at, end, 1)};
        if (!span.end)
            return 0;
        if ((size_t)(key.end - key.start) == name_size &&
            memcmp(key.start, name.start, name_size) == 0) {
            if (found++)
                return 0;
            *value = span;
        }
        at = after_spaces(span.end, end);
        if (at < end && *at == '}')
            return found && at + 1 == end;
        if (at >= end || *at != ',')
            return 0;
        at = after_spaces(at + 1, end);
    }
    return 0;
}

/* A string without its quotes and escapes, anything else as it is written; NULL for other escapes. */
static uint8_t *put_payload(uint8_t *to, Span value)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    if (*value.start != '"') {
        size_t size = (size_t)(value.end - value.start);
        memcpy(to, value.start, size);
        return to + size;
    }
    const uint8_t *at = value.start + 1, *end = value.end - 1;
    while (at < end) {
        const uint8_t *escape = memchr(at, '\\', (size_t)(end - at));
        size_t size = (size_t)((escape ? escape : end) - at);
        memcpy(to, at, size);
        to += size;
        at += size;
        if (escape) {
            const char *form = at[1] ? strchr(from, at[1]) : NULL;
            if (!form)
                return NULL;
            *to++ = (uint8_t)into[form - from];
            at += 2;
        }
    }
    return to;
}

/* Messages for all lines; how many, or -1 when they are for Python. There is room for them. */
static Py_ssize_t put_messages(uint8_t *messages, int64_t *ends, Span lines, const Span *name,
                               uint64_t origin_timestamp, size_t *used)
{
    Py_ssize_t count = 0;
    uint8_t *to = messages;
    for (const uint8_t *at = lines.start, *end; at < lines.end; at = end + 1) {
        end = memchr(at, '\n', (size_t)(lines.end - at));
        if (!end)
            end = lines.end;
        Span value = {at, end};
        if (at == end || (name ? !field_of(at, end, *name, &value) : after_value(at, end, 0) != end))
            return -1;
        uint8_t *body = to + HEADER_BYTES, *next = put_payload(body, value);
        if (!next || next - body > PAYLOAD_BYTES_MAX)
            return -1;
        memset(to, 0, HEADER_BYTES);
        store64(to + ORIGIN_TIMESTAMP_AT, origin_timestamp);
        store64(to + USER_HEADERS_AT, (uint64_t)(next - body) << 32);
        to = next;
        ends[count++] = to - messages;
    }
    *used = (size_t)(to - messages);
    return count;
}

static Py_ssize_t lines_in(Span lines)
{
    Py_ssize_t count = 1;
    const uint8_t *at = lines.start;
    for (; lines.end - at >= COUNTED; at += COUNTED) {
        uint8_t some = 0;
        for (int i = 0; i < COUNTED; i++)
            some += at[i] == '\n';
        count += some;
    }
    for (; at < lines.end; at++)
        count += *at == '\n';
    return count;
}

PyDoc_STRVAR(json_messages_doc, "json_messages(lines, name, origin_timestamp)\n--\n\n"
             "Messages without ids for lines of JSON, or for this field of each, and where they\n"
             "end, as 64-bit integers; None when Python has to make them.");

static PyObject *json_messages(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    uint64_t origin_timestamp;
    Py_buffer lines, name = {.obj = NULL};
    if (expect(given, 3, "json_messages") < 0 || number_take(&origin_timestamp, arguments[2]) < 0 ||
        PyObject_GetBuffer(arguments[0], &lines, PyBUF_SIMPLE) < 0)
        return NULL;
    if (arguments[1] != Py_None && PyObject_GetBuffer(arguments[1], &name, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&lines);
        return NULL;
    }
    Span text = {lines.buf, (const uint8_t *)lines.buf + lines.len};
    Span field = {name.buf, (const uint8_t *)name.buf + (name.obj ? name.len : 0)};
    Py_ssize_t most = lines_in(text), count = -1;
    size_t used = 0;
    PyObject *messages = PyByteArray_FromStringAndSize(NULL, lines.len + most * HEADER_BYTES);
    PyObject *ends = PyByteArray_FromStringAndSize(NULL, most * (Py_ssize_t)sizeof(int64_t));
    if (messages && ends) {
        uint8_t *to = (uint8_t *)PyByteArray_AsString(messages);
        int64_t *into = (int64_t *)PyByteArray_AsString(ends);
        /* Nobody else has these, and what is read is held: other threads may run meanwhile. */
        Py_BEGIN_ALLOW_THREADS
        count = put_messages(to, into, text, name.obj ? &field : NULL, origin_timestamp, &used);
        Py_END_ALLOW_THREADS
    }
    if (name.obj)
        PyBuffer_Release(&name);
    PyBuffer_Release(&lines);
    PyObject *result = NULL;
    if (messages && ends && count < 0) {
        result = Py_NewRef(Py_None);
    } else if (messages && ends && PyByteArray_Resize(messages, (Py_ssize_t)used) == 0 &&
               PyByteArray_Resize(ends, count * (Py_ssize_t)sizeof(int64_t)) == 0) {
        result = Py_BuildValue("(OO)", messages, ends);
    }
    Py_XDECREF(messages);
    Py_XDECREF(ends);
    return result;
}

#endif
