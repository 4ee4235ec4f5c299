/* XXH3-64 with seed 0 and the default secret, from the public specification of the algorithm.
 *
 *  bytes       how they are hashed
 *  0           a constant
 *  1..3        one word of the first, middle and last byte
 *  4..8        one word of the first and last four bytes
 *  9..16       two words, multiplied
 *  17..128     pairs of 16 bytes from both ends towards the middle
 *  129..240    16 bytes at a time, in order
 *  241..       stripes of 64 bytes into eight accumulators, scrambled after every 1024 bytes
 *
 * Only the last class is worth vector instructions. AVX2 is chosen when the module is loaded, and
 * with it BMI2, which every processor with AVX2 has.
 */
#ifndef BORZOI_XXH3_H
#define BORZOI_XXH3_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "messages are little-endian, and so must be the machine; the Python path runs everywhere"
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define XXH3_HAS_AVX2 1
#include <immintrin.h>
#else
#define XXH3_HAS_AVX2 0
#endif

#define PRIME32_1 0x9E3779B1u
#define PRIME32_2 0x85EBCA77u
#define PRIME32_3 0xC2B2AE3Du
#define PRIME64_1 0x9E3779B185EBCA87ull
#define PRIME64_2 0xC2B2AE3D27D4EB4Full
#define PRIME64_3 0x165667B19E3779F9ull
#define PRIME64_4 0x85EBCA77C2B2AE63ull
#define PRIME64_5 0x27D4EB2F165667C5ull
#define MIX_OF_FOUR_TO_EIGHT 0x9FB21C651E98DF25ull
#define MIX_OF_AVALANCHE 0x165667919E3779F9ull

#define SECRET_BYTES 192
#define STRIPE_BYTES 64
/* The secret moves on by eight bytes with each stripe; a block ends where it is used up. */
#define SECRET_STEP 8
#define BLOCK_STRIPES ((SECRET_BYTES - STRIPE_BYTES) / SECRET_STEP)
#define SECRET_OF_SCRAMBLE (SECRET_BYTES - STRIPE_BYTES)
#define SECRET_OF_LAST_STRIPE (SECRET_BYTES - STRIPE_BYTES - 7)
#define SECRET_OF_MERGE 11

static const uint8_t SECRET[SECRET_BYTES] __attribute__((aligned(64))) = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static const uint64_t FIRST_ACCUMULATORS[8] __attribute__((aligned(64))) = {
    PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1,
};

/* Loads and stores at any address; the compiler makes one instruction of each. */

static inline uint32_t load32(const uint8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline uint64_t load64(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline void store64(uint8_t *at, uint64_t word)
{
    memcpy(at, &word, sizeof word);
}

static inline uint64_t rotated(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

/* Both halves of the 128-bit product, folded into one. */
static inline uint64_t folded_product(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t avalanche(uint64_t hash)
{
    hash ^= hash >> 37;
    hash *= MIX_OF_AVALANCHE;
    return hash ^ hash >> 32;
}

/* The avalanche of XXH64, which the shortest inputs still use. */
static inline uint64_t older_avalanche(uint64_t hash)
{
    hash ^= hash >> 33;
    hash *= PRIME64_2;
    hash ^= hash >> 29;
    hash *= PRIME64_3;
    return hash ^ hash >> 32;
}

static inline uint64_t mixed16(const uint8_t *input, const uint8_t *secret)
{
    return folded_product(load64(input) ^ load64(secret), load64(input + 8) ^ load64(secret + 8));
}

static inline uint64_t hash_up_to_16(const uint8_t *input, size_t length)
{
    if (length > 8) {
        uint64_t low = load64(input) ^ load64(SECRET + 24) ^ load64(SECRET + 32);
        uint64_t high = load64(input + length - 8) ^ load64(SECRET + 40) ^ load64(SECRET + 48);
        return avalanche(length + __builtin_bswap64(low) + high + folded_product(low, high));
    }
    if (length >= 4) {
        uint64_t both = load32(input + length - 4) + ((uint64_t)load32(input) << 32);
        uint64_t hash = both ^ load64(SECRET + 8) ^ load64(SECRET + 16);
        hash ^= rotated(hash, 49) ^ rotated(hash, 24);
        hash *= MIX_OF_FOUR_TO_EIGHT;
        hash ^= (hash >> 35) + length;
        hash *= MIX_OF_FOUR_TO_EIGHT;
        return hash ^ hash >> 28;
    }
    if (length) {
        uint32_t all = (uint32_t)input[0] << 16 | (uint32_t)input[length >> 1] << 24 |
                       (uint32_t)length << 8 | input[length - 1];
        return older_avalanche(all ^ (uint64_t)(load32(SECRET) ^ load32(SECRET + 4)));
    }
    return older_avalanche(load64(SECRET + 56) ^ load64(SECRET + 64));
}

static inline uint64_t hash_17_to_128(const uint8_t *input, size_t length)
{
    uint64_t hash = length * PRIME64_1;
    for (size_t pair = (length - 1) / 32 + 1; pair-- > 0;) {
        hash += mixed16(input + 16 * pair, SECRET + 32 * pair);
        hash += mixed16(input + length - 16 * (pair + 1), SECRET + 32 * pair + 16);
    }
    return avalanche(hash);
}

static inline uint64_t hash_129_to_240(const uint8_t *input, size_t length)
{
    uint64_t hash = length * PRIME64_1;
    for (size_t at = 0; at < 128; at += 16)
        hash += mixed16(input + at, SECRET + at);
    hash = avalanche(hash);
    for (size_t at = 128; at + 16 <= length; at += 16)
        hash += mixed16(input + at, SECRET + at - 128 + 3);
    hash += mixed16(input + length - 16, SECRET + 136 - 17);
    return avalanche(hash);
}

static inline uint64_t merged(const uint64_t accumulators[8], size_t length)
{
    const uint8_t *secret = SECRET + SECRET_OF_MERGE;
    uint64_t hash = length * PRIME64_1;
    for (int i = 0; i < 8; i += 2)
        hash += folded_product(accumulators[i] ^ load64(secret + 8 * i),
                               accumulators[i + 1] ^ load64(secret + 8 * i + 8));
    return avalanche(hash);
}

/* More than 240 bytes, in portable C. --------------------------------------------------------- */

static inline void accumulate(uint64_t accumulators[8], const uint8_t *input, const uint8_t *secret)
{
    for (int i = 0; i < 8; i++) {
        uint64_t word = load64(input + 8 * i);
        uint64_t keyed = word ^ load64(secret + 8 * i);
        accumulators[i ^ 1] += word;
        accumulators[i] += (keyed & 0xFFFFFFFFu) * (keyed >> 32);
    }
}

static inline void scramble(uint64_t accumulators[8])
{
    for (int i = 0; i < 8; i++) {
        uint64_t word = accumulators[i];
        word ^= word >> 47;
        word ^= load64(SECRET + SECRET_OF_SCRAMBLE + 8 * i);
        accumulators[i] = word * PRIME32_1;
    }
}

static uint64_t hash_long_portable(const uint8_t *input, size_t length)
{
    uint64_t accumulators[8];
    memcpy(accumulators, FIRST_ACCUMULATORS, sizeof accumulators);
    /* The last stripe is always taken from the end, so a stripe that just ends there is not one. */
    size_t stripes = (length - 1) / STRIPE_BYTES;
    for (size_t stripe = 0, of_block = 0; stripe < stripes; stripe++) {
        accumulate(accumulators, input + STRIPE_BYTES * stripe, SECRET + SECRET_STEP * of_block);
        if (++of_block == BLOCK_STRIPES) {
            scramble(accumulators);
            of_block = 0;
        }
    }
    accumulate(accumulators, input + length - STRIPE_BYTES, SECRET + SECRET_OF_LAST_STRIPE);
    return merged(accumulators, length);
}

/* The same with four accumulators in each of two registers. ----------------------------------- */

#if XXH3_HAS_AVX2

#define WITH_AVX2 __attribute__((target("avx2,bmi2")))

WITH_AVX2 static inline __m256i wide_load(const uint8_t *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

WITH_AVX2 static inline __m256i wide_accumulate(__m256i accumulators, const uint8_t *input,
                                                const uint8_t *secret)
{
    __m256i words = wide_load(input);
    __m256i keyed = _mm256_xor_si256(words, wide_load(secret));
    __m256i products = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
    __m256i neighbours = _mm256_shuffle_epi32(words, _MM_SHUFFLE(1, 0, 3, 2));
    return _mm256_add_epi64(_mm256_add_epi64(accumulators, neighbours), products);
}

WITH_AVX2 static inline __m256i wide_scramble(__m256i words, const uint8_t *secret)
{
    __m256i prime = _mm256_set1_epi64x(PRIME32_1);
    words = _mm256_xor_si256(words, _mm256_srli_epi64(words, 47));
    words = _mm256_xor_si256(words, wide_load(secret));
    __m256i low = _mm256_mul_epu32(words, prime);
    __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(words, 32), prime);
    return _mm256_add_epi64(low, _mm256_slli_epi64(high, 32));
}

WITH_AVX2 static uint64_t hash_long_avx2(const uint8_t *input, size_t length)
{
    const uint8_t *first = (const uint8_t *)FIRST_ACCUMULATORS;
    __m256i a = wide_load(first), b = wide_load(first + 32);
    size_t stripes = (length - 1) / STRIPE_BYTES;
    const uint8_t *at = input;
    while (stripes) {
        size_t run = stripes < BLOCK_STRIPES ? stripes : BLOCK_STRIPES;
        for (size_t stripe = 0; stripe < run; stripe++, at += STRIPE_BYTES) {
            a = wide_accumulate(a, at, SECRET + SECRET_STEP * stripe);
            b = wide_accumulate(b, at + 32, SECRET + SECRET_STEP * stripe + 32);
        }
        if (run == BLOCK_STRIPES) {
            a = wide_scramble(a, SECRET + SECRET_OF_SCRAMBLE);
            b = wide_scramble(b, SECRET + SECRET_OF_SCRAMBLE + 32);
        }
        stripes -= run;
    }
    at = input + length - STRIPE_BYTES;
    a = wide_accumulate(a, at, SECRET + SECRET_OF_LAST_STRIPE);
    b = wide_accumulate(b, at + 32, SECRET + SECRET_OF_LAST_STRIPE + 32);
    uint64_t accumulators[8];
    _mm256_storeu_si256((__m256i *)(void *)accumulators, a);
    _mm256_storeu_si256((__m256i *)(void *)(accumulators + 4), b);
    return merged(accumulators, length);
}

#endif

typedef uint64_t HashLong(const uint8_t *input, size_t length);

static HashLong *hash_long = hash_long_portable;

static inline uint64_t xxh3_with(HashLong *of_long, const uint8_t *input, size_t length)
{
    if (length > 240)
        return of_long(input, length);
    if (length > 128)
        return hash_129_to_240(input, length);
    if (length > 16)
        return hash_17_to_128(input, length);
    return hash_up_to_16(input, length);
}

static inline uint64_t xxh3(const uint8_t *input, size_t length)
{
    return xxh3_with(hash_long, input, length);
}

#endif
