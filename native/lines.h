/* Messages as lines of JSON: what src/borzoi/cli/lines.py writes for `borzoi read`.
 *
 * Only what is certain is written here: messages without user headers whose payload is UTF-8, and
 * either no JSON at first sight or JSON without any doubt. With one message of another kind the
 * whole batch is left to Python, which knows all rules.
 */
#ifndef BORZOI_LINES_H
#define BORZOI_LINES_H

/* More than a line has besides its payload. */
#define LINE_BYTES 320
/* A byte of text is at most so many in JSON: \u00XX. */
#define ESCAPED_BYTES 6
/* JSON that is nested deeper is left to Python. */
#define DEPTH_MAX 32
/* Numbers up to this length, without exponents, are the same to every reader. */
#define NUMBER_BYTES_MAX 18
#define BLOCK 32
/* Of 128 bits as a decimal number. */
#define DIGITS_MAX 39
/* Said of a message that does not lie in the buffer. */
#define OUTSIDE (-2)

/* Texts. -------------------------------------------------------------------------------------- */

static inline int is_special(uint8_t byte)
{
    return (byte < 0x20) | (byte == '"') | (byte == '\\') | (byte >= 0x80);
}

/* The first byte that is not plain ASCII, or the end. */
static const uint8_t *plain_end(const uint8_t *at, const uint8_t *end)
{
    while (end - at >= BLOCK) {
        uint8_t special = 0;
        for (int i = 0; i < BLOCK; i++)
            special |= (uint8_t)is_special(at[i]);
        if (special)
            break;
        at += BLOCK;
    }
    while (at < end && !is_special(*at))
        at++;
    return at;
}

/* How many bytes the character of several bytes has that begins here; 0 when it is no UTF-8. */
static size_t character_size(const uint8_t *at, const uint8_t *end)
{
    uint8_t first = at[0];
    size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || (size_t)(end - at) < size)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    /* Longer than needed, half of a pair, or beyond the last character. */
    if ((first == 0xE0 && at[1] < 0xA0) || (first == 0xED && at[1] > 0x9F) ||
        (first == 0xF0 && at[1] < 0x90) || (first == 0xF4 && at[1] > 0x8F))
        return 0;
    return size;
}

/* Whether these bytes are JSON without any doubt. --------------------------------------------- */

static inline const uint8_t *after_spaces(const uint8_t *at, const uint8_t *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    return at;
}

/* Each of these returns where the value ends, or NULL. */

static const uint8_t *after_string(const uint8_t *at, const uint8_t *end)
{
    for (at++; (at = plain_end(at, end)) < end;) {
        if (*at == '"')
            return at + 1;
        if (*at >= 0x80) {
            size_t size = character_size(at, end);
            if (!size)
                return NULL;
            at += size;
        } else if (*at == '\\' && end - at >= 2 && at[1] && strchr("\"\\/bfnrt", at[1])) {
            at += 2;
        } else {
            return NULL;
        }
    }
    return NULL;
}

static const uint8_t *after_digits(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *first = at;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at == first ? NULL : at;
}

static const uint8_t *after_number(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *begin = at;
    at += *at == '-';
    const uint8_t *digits = at;
    at = after_digits(at, end);
    if (!at || (*digits == '0' && at - digits > 1))
        return NULL;
    if (at < end && *at == '.')
        at = after_digits(at + 1, end);
    if (!at || at - begin > NUMBER_BYTES_MAX || (at < end && (*at == 'e' || *at == 'E')))
        return NULL;
    return at;
}

static const uint8_t *after_word(const uint8_t *at, const uint8_t *end, const char *word)
{
    size_t size = strlen(word);
    return (size_t)(end - at) >= size && memcmp(at, word, size) == 0 ? at + size : NULL;
}

static const uint8_t *after_value(const uint8_t *at, const uint8_t *end, int depth);

/* After an object or an array. */
static const uint8_t *after_container(const uint8_t *at, const uint8_t *end, int depth)
{
    int is_object = *at == '{';
    uint8_t last = is_object ? '}' : ']';
    at = after_spaces(at + 1, end);
    if (at < end && *at == last)
        return at + 1;
    while (at && at < end && depth < DEPTH_MAX) {
        if (is_object) {
            at = *at == '"' ? after_string(at, end) : NULL;
            at = at ? after_spaces(at, end) : NULL;
            if (!at || at >= end || *at != ':')
                return NULL;
            at = after_spaces(at + 1, end);
        }
        at = after_value(at, end, depth + 1);
        at = at ? after_spaces(at, end) : NULL;
        if (!at || at >= end)
            return NULL;
        if (*at == last)
            return at + 1;
        if (*at != ',')
            return NULL;
        at = after_spaces(at + 1, end);
    }
    return NULL;
}

static const uint8_t *after_value(const uint8_t *at, const uint8_t *end, int depth)
{
    if (at >= end)
        return NULL;
    switch (*at) {
    case '{':
    case '[':
        return after_container(at, end, depth);
    case '"':
        return after_string(at, end);
    case 't':
        return after_word(at, end, "true");
    case 'f':
        return after_word(at, end, "false");
    case 'n':
        return after_word(at, end, "null");
    default:
        return *at == '-' || (*at >= '0' && *at <= '9') ? after_number(at, end) : NULL;
    }
}

/* Writing. ------------------------------------------------------------------------------------ */

static uint8_t *put(uint8_t *to, const char *text)
{
    size_t size = strlen(text);
    memcpy(to, text, size);
    return to + size;
}

static uint8_t *put_number(uint8_t *to, uint64_t number)
{
    uint8_t digits[20];
    int count = 0;
    do {
        digits[count++] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number);
    while (count)
        *to++ = digits[--count];
    return to;
}

/* 128 bits as a decimal number, nine digits at a time. */
static uint8_t *put_id(uint8_t *to, const uint8_t *id)
{
    uint32_t words[4], parts[5];
    int count = 0;
    for (int i = 0; i < 4; i++)
        words[i] = load32(id + 4 * i);
    do {
        uint64_t rest = 0;
        for (int i = 3; i >= 0; i--) {
            uint64_t value = rest << 32 | words[i];
            words[i] = (uint32_t)(value / 1000000000u);
            rest = value % 1000000000u;
        }
        parts[count++] = (uint32_t)rest;
    } while (words[0] | words[1] | words[2] | words[3]);
    to = put_number(to, parts[--count]);
    while (count) {
        uint32_t part = parts[--count];
        for (int i = 8; i >= 0; i--, part /= 10)
            to[i] = (uint8_t)('0' + part % 10);
        to += 9;
    }
    return to;
}

/* A text between quotes; NULL when it is no UTF-8. */
static uint8_t *put_text(uint8_t *to, const uint8_t *at, const uint8_t *end)
{
    static const char short_forms[] = "b\0t\0n\0\0\0f\0r";
    *to++ = '"';
    while (at < end) {
        const uint8_t *plain = plain_end(at, end);
        memcpy(to, at, (size_t)(plain - at));
        to += plain - at;
        at = plain;
        if (at == end)
            break;
        if (*at >= 0x80) {
            size_t size = character_size(at, end);
            if (!size)
                return NULL;
            memcpy(to, at, size);
            to += size;
            at += size;
            continue;
        }
        uint8_t byte = *at++;
        char form = byte >= 0x20 ? (char)byte
                    : byte >= 8 && byte <= 13 ? short_forms[2 * (byte - 8)] : 0;
        *to++ = '\\';
        if (form) {
            *to++ = (uint8_t)form;
        } else {
            to = put(to, "u00");
            *to++ = (uint8_t)('0' + (byte >> 4));
            *to++ = (uint8_t)"0123456789abcdef"[byte & 15];
        }
    }
    *to++ = '"';
    return to;
}

/* One line; NULL when the message is for Python. There is room for it. */
static uint8_t *put_line(uint8_t *to, const uint8_t *message, size_t payload, uint8_t first,
                         uint64_t partition)
{
    const uint8_t *at = message + HEADER_BYTES, *end = at + payload;
    to = put(to, "{\"partition\":");
    to = put_number(to, partition);
    to = put(to, ",\"offset\":");
    to = put_number(to, load64(message + OFFSET_AT));
    to = put(to, ",\"timestamp\":");
    to = put_number(to, load64(message + TIMESTAMP_AT));
    to = put(to, ",\"origin_timestamp\":");
    to = put_number(to, load64(message + ORIGIN_TIMESTAMP_AT));
    to = put(to, ",\"id\":\"");
    to = put_id(to, message + ID_AT);
    to = put(to, "\",\"headers\":{},\"payload\":");
    if (first == '{' || first == '[') {
        if (after_container(at, end, 0) != end)
            return NULL;
        memcpy(to, at, payload);
        to += payload;
    } else {
        to = put_text(to, at, end);
        if (!to)
            return NULL;
    }
    return put(to, "}\n");
}

/* All lines into a bytearray: 1 when they are there, 0 when one is for Python, less for a fault. */
static int put_lines(PyObject *made, const Py_buffer *messages, const Py_buffer *starts,
                     uint64_t partition)
{
    const int64_t *start = starts->buf;
    Py_ssize_t count = starts->len / (Py_ssize_t)sizeof *start;
    size_t length = (size_t)messages->len, room = (size_t)PyByteArray_Size(made), used = 0;
    int written = 1;
    uint8_t *lines = (uint8_t *)PyByteArray_AsString(made);
    /* Nobody else has the lines, and the messages are held: other threads may run meanwhile. */
    PyThreadState *thread = PyEval_SaveThread();
    for (Py_ssize_t i = 0; i < count && written > 0; i++) {
        if (start[i] < 0 || (size_t)start[i] > length) {
            written = OUTSIDE;
            break;
        }
        const uint8_t *message = (const uint8_t *)messages->buf + start[i];
        size_t size = size_inside(messages->buf, (size_t)start[i], length);
        if (!size || load32(message + USER_HEADERS_AT)) {
            written = 0;
            break;
        }
        size_t payload = size - HEADER_BYTES;
        uint8_t first = payload ? message[HEADER_BYTES] : 0;
        size_t longest = first == '{' || first == '[' ? payload : ESCAPED_BYTES * payload;
        size_t needed = used + LINE_BYTES + longest;
        if (needed > room) {
            PyEval_RestoreThread(thread);
            room = needed + room / 2;
            written = PyByteArray_Resize(made, (Py_ssize_t)room) < 0 ? -1 : 1;
            lines = (uint8_t *)PyByteArray_AsString(made);
            thread = PyEval_SaveThread();
        }
        if (written < 0)
            break;
        uint8_t *end = put_line(lines + used, message, payload, first, partition);
        if (end)
            used = (size_t)(end - lines);
        else
            written = 0;
    }
    PyEval_RestoreThread(thread);
    if (written == OUTSIDE)
        outside();
    return written > 0 && PyByteArray_Resize(made, (Py_ssize_t)used) < 0 ? -1 : written;
}

PyDoc_STRVAR(json_lines_doc, "json_lines(messages, starts, partition)\n--\n\n"
             "A line of JSON for each message that starts at one of these positions, which are\n"
             "64-bit integers; None when Python has to write them.");

static PyObject *json_lines(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    uint64_t partition;
    Py_buffer messages, starts;
    if (expect(given, 3, "json_lines") < 0 || number_take(&partition, arguments[2]) < 0 ||
        buffers_take(&messages, &starts, arguments, PyBUF_ND) < 0)
        return NULL;
    PyObject *made = NULL;
    int written = -1;
    if (starts.itemsize != sizeof(int64_t) || (uintptr_t)starts.buf % sizeof(int64_t)) {
        PyErr_SetString(PyExc_TypeError, "starts are 64-bit integers");
    } else {
        size_t count = (size_t)starts.len / sizeof(int64_t);
        made = PyByteArray_FromStringAndSize(NULL, messages.len + (Py_ssize_t)count * LINE_BYTES);
        if (made)
            written = put_lines(made, &messages, &starts, partition);
    }
    PyBuffer_Release(&starts);
    PyBuffer_Release(&messages);
    if (written > 0)
        return made;
    Py_XDECREF(made);
    if (written < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(decimal_ids_doc, "decimal_ids(ids)\n--\n\n"
             "Ids of 16 bytes as decimal numbers one after another, and where each of them starts\n"
             "and the last one ends, as 32-bit integers.");

static PyObject *decimal_ids_bytes(const uint8_t *ids, size_t size)
{
    Py_ssize_t count = (Py_ssize_t)(size / ID_BYTES);
    PyObject *result = NULL, *digits = NULL, *bounds = NULL;
    if (count > INT32_MAX / DIGITS_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many ids at once");
    } else {
        digits = PyByteArray_FromStringAndSize(NULL, count * DIGITS_MAX);
        bounds = PyByteArray_FromStringAndSize(NULL, (count + 1) * (Py_ssize_t)sizeof(int32_t));
    }
    if (digits && bounds) {
        uint8_t *first = (uint8_t *)PyByteArray_AsString(digits), *to = first;
        int32_t *bound = (int32_t *)PyByteArray_AsString(bounds);
        for (Py_ssize_t i = 0; i < count; i++) {
            *bound++ = (int32_t)(to - first);
            to = put_id(to, ids + i * ID_BYTES);
        }
        *bound = (int32_t)(to - first);
        if (PyByteArray_Resize(digits, *bound) == 0)
            result = Py_BuildValue("(OO)", digits, bounds);
    }
    Py_XDECREF(digits);
    Py_XDECREF(bounds);
    return result;
}

TAKES_BYTES(decimal_ids)

#endif
