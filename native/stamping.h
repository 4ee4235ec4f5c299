/* Stamping: a message gets an id if it came without one, its place, its time and its checksum.
 *
 * New ids (records/fresh_ids.py) are words of SplitMix64, two for each, with the version and the
 * variant of a random UUID put in. They are drawn while the messages are stamped, from a generator
 * whose state belongs to Python:
 *
 *  0..8     where the counter of the block starts
 *  8..16    what all words are changed by
 *  16..24   how many ids of the block are used
 */
#ifndef BORZOI_STAMPING_H
#define BORZOI_STAMPING_H

#define SPLIT_MIX_STEP 0x9E3779B97F4A7C15ull
#define SPLIT_MIX_FIRST 0xBF58476D1CE4E5B9ull
#define SPLIT_MIX_SECOND 0x94D049BB133111EBull

/* In the first and the second word of an id: a random UUID has version 4 and variant 2. */
#define VERSION_BITS 0x00F0000000000000ull
#define VERSION 0x0040000000000000ull
#define VARIANT_BITS 0xC0ull
#define VARIANT 0x80ull

#define GENERATOR_BYTES 24
/* Ids of a block: a test compares this with records/fresh_ids.py. */
#define BLOCK_IDS 4096u
/* Ids made at a time while a batch is stamped; an even number. */
#define PORTION_IDS 64

/* New ids. ------------------------------------------------------------------------------------ */

static inline uint64_t split_mixed(uint64_t counter)
{
    uint64_t word = (counter ^ counter >> 30) * SPLIT_MIX_FIRST;
    word = (word ^ word >> 27) * SPLIT_MIX_SECOND;
    return word ^ word >> 31;
}

/* Make ids from this counter on. They are made two at a time, so there is room for an even number. */
typedef void MakeIds(uint8_t *ids, size_t count, uint64_t counter, uint64_t change);

static void make_ids_portable(uint8_t *ids, size_t count, uint64_t counter, uint64_t change)
{
    for (; count > 0; count--, ids += ID_BYTES, counter += 2 * SPLIT_MIX_STEP) {
        uint64_t first = split_mixed(counter) ^ change;
        uint64_t second = split_mixed(counter + SPLIT_MIX_STEP) ^ change;
        store64(ids, (first & ~VERSION_BITS) | VERSION);
        store64(ids + 8, (second & ~VARIANT_BITS) | VARIANT);
    }
}

#if XXH3_HAS_AVX2

/* The lower halves of the products; there is no instruction for words of 64 bits. */
WITH_AVX2 static inline __m256i wide_product(__m256i words, uint64_t factor)
{
    __m256i low = _mm256_set1_epi64x((long long)(factor & 0xFFFFFFFFu));
    __m256i high = _mm256_set1_epi64x((long long)(factor >> 32));
    __m256i crossed = _mm256_add_epi64(_mm256_mul_epu32(words, high),
                                       _mm256_mul_epu32(_mm256_srli_epi64(words, 32), low));
    return _mm256_add_epi64(_mm256_mul_epu32(words, low), _mm256_slli_epi64(crossed, 32));
}

WITH_AVX2 static inline __m256i wide_words(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    return _mm256_setr_epi64x((long long)a, (long long)b, (long long)c, (long long)d);
}

WITH_AVX2 static void make_ids_avx2(uint8_t *ids, size_t count, uint64_t counter, uint64_t change)
{
    __m256i counters = wide_words(counter, counter + SPLIT_MIX_STEP, counter + 2 * SPLIT_MIX_STEP,
                                  counter + 3 * SPLIT_MIX_STEP);
    __m256i step = _mm256_set1_epi64x((long long)(4 * SPLIT_MIX_STEP));
    __m256i changes = _mm256_set1_epi64x((long long)change);
    __m256i chosen = wide_words(VERSION_BITS, VARIANT_BITS, VERSION_BITS, VARIANT_BITS);
    __m256i fixed = wide_words(VERSION, VARIANT, VERSION, VARIANT);
    for (size_t i = 0; i < count; i += 2, ids += 2 * ID_BYTES) {
        __m256i words = _mm256_xor_si256(counters, _mm256_srli_epi64(counters, 30));
        counters = _mm256_add_epi64(counters, step);
        words = wide_product(words, SPLIT_MIX_FIRST);
        words = _mm256_xor_si256(words, _mm256_srli_epi64(words, 27));
        words = wide_product(words, SPLIT_MIX_SECOND);
        words = _mm256_xor_si256(words, _mm256_srli_epi64(words, 31));
        words = _mm256_andnot_si256(chosen, _mm256_xor_si256(words, changes));
        _mm256_storeu_si256((__m256i *)(void *)ids, _mm256_or_si256(words, fixed));
    }
}

#endif

static MakeIds *make_ids = make_ids_portable;

/* Where ids come from: `next` up to `stop` are made, and a generator has some left. */
typedef struct {
    const uint8_t *next, *stop;
    uint64_t counter, change;
    uint64_t left;
} IdSource;

static IdSource source_of(const uint8_t *generator)
{
    uint64_t used = load64(generator + 16);
    return (IdSource){
        .counter = load64(generator) + 2 * SPLIT_MIX_STEP * used,
        .change = load64(generator + 8),
        .left = used < BLOCK_IDS ? BLOCK_IDS - used : 0,
    };
}

static void source_leave(const IdSource *ids, uint8_t *generator)
{
    store64(generator + 16, BLOCK_IDS - ids->left);
}

static int generator_take(Py_buffer *generator, PyObject *given)
{
    if (PyObject_GetBuffer(given, generator, PyBUF_WRITABLE) < 0) {
        generator->obj = NULL;
        return -1;
    }
    if (generator->len == GENERATOR_BYTES)
        return 0;
    PyErr_SetString(PyExc_ValueError, "a generator of ids has 24 bytes");
    PyBuffer_Release(generator);
    return -1;
}

PyDoc_STRVAR(uuids_doc, "uuids(generator, count)\n--\n\n"
             "The next ids of a generator, which has that many left.");

static PyObject *uuids(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    uint64_t count;
    Py_buffer generator;
    if (expect(given, 2, "uuids") < 0 || number_take(&count, arguments[1]) < 0 ||
        generator_take(&generator, arguments[0]) < 0)
        return NULL;
    IdSource ids = source_of(generator.buf);
    PyObject *made = NULL;
    if (count > ids.left)
        PyErr_Format(PyExc_ValueError, "the block has %zu ids left, not %zu", (size_t)ids.left,
                     (size_t)count);
    else
        made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * ID_BYTES));
    if (made) {
        uint8_t *at = (uint8_t *)PyBytes_AsString(made);
        size_t even = count & ~(size_t)1;
        make_ids(at, even, ids.counter, ids.change);
        if (count > even) {
            uint8_t last[2 * ID_BYTES];
            make_ids(last, 1, ids.counter + 2 * SPLIT_MIX_STEP * even, ids.change);
            memcpy(at + even * ID_BYTES, last, ID_BYTES);
        }
        ids.left -= count;
        source_leave(&ids, generator.buf);
    }
    PyBuffer_Release(&generator);
    return made;
}

/* Calls new_ids(count) and has its bytes in `ids`. */
static int ask_for_ids(PyObject *new_ids, Py_ssize_t count, Py_buffer *ids)
{
    PyObject *given = PyObject_CallFunction(new_ids, "n", count);
    if (!given)
        return -1;
    int taken = PyObject_GetBuffer(given, ids, PyBUF_SIMPLE);
    Py_DECREF(given);
    if (taken < 0) {
        ids->obj = NULL;
        return -1;
    }
    if (ids->len != count * ID_BYTES) {
        PyErr_Format(PyExc_ValueError, "%zd ids have %zd bytes, not %zd", count, count * ID_BYTES,
                     ids->len);
        return -1;
    }
    return 0;
}

/* The messages of a batch. -------------------------------------------------------------------- */

static inline int lacks_id(const uint8_t *message)
{
    return !(load64(message + ID_AT) | load64(message + ID_AT + 8));
}

/* How many messages came without an id; -1 when one lies outside. */
static Py_ssize_t count_missing(const uint8_t *messages, size_t length, const Ends *ends)
{
    Py_ssize_t missing = 0;
    size_t start = 0;
    for (Py_ssize_t i = 0; i < ends->count; i++) {
        size_t end = ends->at[i];
        if (!is_inside(start, end, length))
            return -1;
        missing += lacks_id(messages + start);
        start = end;
    }
    return missing;
}

typedef struct {
    uint8_t *messages;
    size_t length;
    const Ends *ends;
    uint64_t base_offset, timestamp;
    /* The message that is next. */
    Py_ssize_t number;
} Stamping;

typedef enum { IS_STAMPED, LACKS_ID, LIES_OUTSIDE } Outcome;

/* Stamp as many messages as there are ids for. */
static inline __attribute__((always_inline)) Outcome stamp_each(Stamping *batch, IdSource *ids,
                                                                HashLong *of_long, MakeIds *make)
{
    /* Copies: a message is bytes, so the compiler must expect that writing one changes the rest. */
    const uint32_t *ends = batch->ends->at;
    Py_ssize_t i = batch->number, count = batch->ends->count;
    size_t start = i ? ends[i - 1] : 0, length = batch->length;
    uint64_t offset = batch->base_offset + (uint64_t)i, timestamp = batch->timestamp;
    uint8_t made[PORTION_IDS * ID_BYTES];
    IdSource source = *ids;
    Outcome outcome = IS_STAMPED;
    for (; i < count; i++, offset++) {
        size_t end = ends[i];
        if (!is_inside(start, end, length)) {
            outcome = LIES_OUTSIDE;
            break;
        }
        uint8_t *message = batch->messages + start;
        __builtin_prefetch(batch->messages + (length - end > HEADER_BYTES ? end : start), 1);
        if (lacks_id(message)) {
            if (source.next == source.stop) {
                if (!source.left) {
                    outcome = LACKS_ID;
                    break;
                }
                size_t portion = count - i < PORTION_IDS ? (size_t)(count - i) : PORTION_IDS;
                portion = portion < source.left ? portion : (size_t)source.left;
                make(made, portion, source.counter, source.change);
                source.counter += 2 * SPLIT_MIX_STEP * portion;
                source.left -= portion;
                source.next = made;
                source.stop = made + portion * ID_BYTES;
            }
            memcpy(message + ID_AT, source.next, ID_BYTES);
            source.next += ID_BYTES;
        }
        store64(message + OFFSET_AT, offset);
        store64(message + TIMESTAMP_AT, timestamp);
        store64(message, xxh3_with(of_long, message + ID_AT, end - start - ID_AT));
        start = end;
    }
    batch->number = i;
    /* Those that were made and are not needed are made again for the next batch. */
    ids->left = source.left + (uint64_t)(source.stop - source.next) / ID_BYTES;
    return outcome;
}

typedef Outcome StampRun(Stamping *batch, IdSource *ids);

static Outcome stamp_run_portable(Stamping *batch, IdSource *ids)
{
    return stamp_each(batch, ids, hash_long_portable, make_ids_portable);
}

#if XXH3_HAS_AVX2
WITH_AVX2 static Outcome stamp_run_avx2(Stamping *batch, IdSource *ids)
{
    return stamp_each(batch, ids, hash_long_avx2, make_ids_avx2);
}
#endif

static StampRun *stamp_run = stamp_run_portable;

/* Stamp the batch with ids that are asked for all at once. */
static int stamp_with_given(Stamping *batch, PyObject *new_ids)
{
    Py_buffer given = {.obj = NULL};
    IdSource ids = {.left = 0};
    Py_ssize_t missing = count_missing(batch->messages, batch->length, batch->ends);
    int result = -1;
    if (missing <= 0 || ask_for_ids(new_ids, missing, &given) == 0) {
        if (missing > 0) {
            ids.next = given.buf;
            ids.stop = ids.next + given.len;
        }
        if (missing < 0 || stamp_run(batch, &ids) != IS_STAMPED)
            outside();
        else
            result = 0;
    }
    if (given.obj)
        PyBuffer_Release(&given);
    return result;
}

/* Stamp the batch with ids of the generator. When its block is used up, one id is asked for, and
 * with it the next block begins. */
static int stamp_with_generator(Stamping *batch, PyObject *new_ids, uint8_t *generator)
{
    for (;;) {
        IdSource ids = source_of(generator);
        Outcome outcome = stamp_run(batch, &ids);
        source_leave(&ids, generator);
        if (outcome == IS_STAMPED)
            return 0;
        if (outcome == LIES_OUTSIDE) {
            outside();
            return -1;
        }
        Py_buffer given = {.obj = NULL};
        int asked = ask_for_ids(new_ids, 1, &given);
        if (asked == 0) {
            Py_ssize_t number = batch->number;
            uint8_t *message = batch->messages + (number ? batch->ends->at[number - 1] : 0);
            memcpy(message + ID_AT, given.buf, ID_BYTES);
            if (lacks_id(message)) { /* it would be asked for again, for ever */
                PyErr_SetString(PyExc_ValueError, "a new id is zero");
                asked = -1;
            }
        }
        if (given.obj)
            PyBuffer_Release(&given);
        if (asked < 0)
            return -1;
    }
}

PyDoc_STRVAR(stamp_doc, "stamp(messages, ends, base_offset, timestamp, new_ids, generator)\n--\n\n"
             "Number the messages in place, fill missing ids, and write the checksums. The ids are\n"
             "those of new_ids(count), or of the generator that belongs to it.");

static PyObject *stamp(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    uint64_t base_offset, timestamp;
    Py_buffer messages, generator;
    Ends ends;
    if (expect(given, 6, "stamp") < 0 || number_take(&base_offset, arguments[2]) < 0 ||
        number_take(&timestamp, arguments[3]) < 0 ||
        batch_take(&messages, &ends, arguments, PyBUF_WRITABLE) < 0)
        return NULL;
    int result = -1;
    Stamping batch = {messages.buf, (size_t)messages.len, &ends, base_offset, timestamp, 0};
    if (arguments[5] == Py_None) {
        result = stamp_with_given(&batch, arguments[4]);
    } else if (generator_take(&generator, arguments[5]) == 0) {
        result = stamp_with_generator(&batch, arguments[4], generator.buf);
        PyBuffer_Release(&generator);
    }
    batch_done(&messages, &ends);
    if (result < 0)
        return NULL;
    Py_RETURN_NONE;
}

#endif
