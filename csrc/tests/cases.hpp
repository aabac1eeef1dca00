// Random calls of exact attention: shapes, strides, types, windows, masks, offsets, orders and heads that share keys,
// each determined by its number.
//
// Every tensor has a separate buffer that ends with its last entry, so that a sanitiser detects reads beyond it, and
// begins at an arbitrary entry of it. Entries that no call may read are NaN: the gaps between rows, and hidden keys.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "../separatrix.h"
#include "half_types.hpp"

namespace fuzz {

using Index = std::int64_t;

// The generator splitmix64, with one stream for each pair of a seed and a number.
class Random {
public:
    Random(std::uint64_t seed, std::uint64_t number) : state_(seed * 0x9e3779b97f4a7c15u + number) { next(), next(); }

    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
    double between(double low, double high) { return low + (high - low) * uniform(); }
    Index whole(Index low, Index high) {
        return low + static_cast<Index>(next() % static_cast<std::uint64_t>(high - low + 1));
    }
    // Distributed uniformly over orders of magnitude.
    Index any_size(Index low, Index high) {
        return static_cast<Index>(std::exp(between(std::log(double(low)), std::log(double(high) + 1))));
    }
    bool chance(double p) { return uniform() < p; }

private:
    std::uint64_t state_;
};

// Numbers in memory that ends with the last of them.
template <class T> struct Buffer {
    std::unique_ptr<T[]> data;
    Index size = 0;

    Buffer() = default;
    explicit Buffer(Index n, T fill = std::numeric_limits<T>::quiet_NaN())
        : data(new T[static_cast<std::size_t>(n)]), size(n) {
        for (Index i = 0; i < n; ++i) data[static_cast<std::size_t>(i)] = fill;
    }
    T& operator[](Index i) const { return data[static_cast<std::size_t>(i)]; }
};

// A tensor (heads, rows, columns) with arbitrary strides.
template <class T> struct Tensor {
    Buffer<T> buffer;
    Index first = 0, heads = 0, rows = 0, columns = 0, head = 0, row = 0;

    T& at(Index h, Index r, Index c = 0) const { return buffer[first + h * head + r * row + c]; }
    bool shared() const { return (!head && heads > 1) || (!row && rows > 1); }
    separatrix_tensor address() const { return {buffer.data.get() + first, head, row}; }

    static Tensor drawn(Random& random, Index heads, Index rows, Index columns, T fill) {
        Tensor x;
        x.heads = heads, x.rows = rows, x.columns = columns;
        x.row = columns, x.head = rows * columns;
        switch (random.whole(0, 7)) {
        case 0: x.row = columns + random.whole(1, 5), x.head = rows * x.row; break;
        case 1: x.head = columns, x.row = heads * columns; break;
        case 2: x.head = 0; break;
        case 3: x.head = rows * columns + random.whole(1, 9); break;
        case 4: if (random.chance(0.3)) x.row = 0, x.head = columns; break;
        default: break;
        }
        x.first = random.whole(0, 3);
        const bool empty = !heads || !rows || !columns;
        x.buffer = Buffer<T>(empty ? x.first : x.first + (heads - 1) * x.head + (rows - 1) * x.row + columns, fill);
        return x;
    }
};

// A call in numbers of type T, with incoming gradients. The numbers may be representable in a half type, so that the
// same call can be made in that type.
template <class T> struct Case {
    separatrix_call call{};
    Tensor<T> query;
    std::vector<Tensor<T>> keys, values;
    std::vector<Tensor<unsigned char>> masks;
    Tensor<T> grad_out, grad_lse;
    Index half;  // a half type, or the type of the call

    explicit Case(Random& random) {
        draw_shape(random);
        half = call.type;
        const bool narrow = sizeof(T) == 4 && random.chance(0.25);
        if (narrow) draw_narrow_shape(random), half = SEPARATRIX_BFLOAT16;
        else if (sizeof(T) == 4 && random.chance(0.5)) half = random.chance(0.5) ? SEPARATRIX_FLOAT16 : SEPARATRIX_BFLOAT16;
        draw_positions(random);
        query = numbers(random, call.heads, call.query_length, call.d);
        for (Index h = 0; h < call.heads; ++h)  // a query with large scores beside one with small ones
            for (Index i = 0; !query.shared() && i < call.query_length; ++i) {
                const T by = std::ldexp(T(1), static_cast<int>(random.whole(-4, 0)));
                for (Index l = 0; l < call.d; ++l) query.at(h, i, l) = rounded(query.at(h, i, l) * by);
            }
        for (Index m = 0; m < call.sets; ++m) draw_set(random, m);
        // Magnitudes of scores: small, for sums without a peak, at the border of those, and beyond.
        const double sizes[] = {0.1, 3, 40, 250};
        const double size = sizes[random.whole(0, narrow && random.chance(0.8) ? 1 : 3)] * (sizeof(T) == 8 ? 4 : 1);
        call.scale = (random.chance(0.2) ? -size : size) * std::pow(2.0, double(call.sets + 1)) / double(call.d);
        call.query = query.address();
        grad_out = numbers(random, call.heads, call.query_length, call.d_v);
        grad_lse = numbers(random, call.heads, call.query_length, 1);
        for (Index h = 0; h < call.heads; ++h)  // gradients of all sizes, and some queries without
            for (Index i = 0; !grad_out.shared() && !grad_lse.shared() && i < call.query_length; ++i) {
                const T by = random.chance(0.1) ? T(0) : std::ldexp(T(1), static_cast<int>(random.whole(-12, 12)));
                for (Index c = 0; c < call.d_v; ++c) grad_out.at(h, i, c) = rounded(grad_out.at(h, i, c) * by);
                grad_lse.at(h, i) *= by;
            }
    }

    // The number of the half type nearest to x.
    T rounded(T x) const { return half == call.type ? x : static_cast<T>(nearest(half, double(x))); }

    // In these functions, h is a head of queries.
    const T& key(Index m, Index h, Index j, Index l) const { return keys[std::size_t(m)].at(h / call.shared, j, l); }
    const T& value(Index m, Index h, Index j, Index c) const { return values[std::size_t(m)].at(h / call.shared, j, c); }
    bool seen(Index m, Index h, Index j) const {
        return !masks[std::size_t(m)].rows || masks[std::size_t(m)].at(h / call.mask_shared, j);
    }

    // Whether the query at index i may attend the key at j of set m: by definition, without overflow.
    bool may(Index m, Index h, Index i, Index j) const {
        const Index behind = i + call.offset - j, window = call.windows[m];
        if ((call.is_causal || window >= 0) && behind < 0) return false;
        if (window >= 0 && behind >= window) return false;
        return seen(m, h, j);
    }

    std::string described() const {
        const char* const names[] = {"float", "double", "float16", "bfloat16"};
        std::string told = names[half];
        const auto tell = [&](const char* name, auto number) { told += name + std::to_string(number); };
        tell(", order ", call.sets + 1), tell(", heads ", call.heads), tell(", shared ", call.shared);
        tell(", masks shared ", call.mask_shared), tell(", queries ", call.query_length);
        tell(", d ", call.d), tell(", d_v ", call.d_v), tell(", causal ", call.is_causal);
        tell(", offset ", call.offset), tell(", scale ", call.scale);
        for (Index m = 0; m < call.sets; ++m)
            told += "; keys " + std::to_string(call.lengths[m]) + ", window " + std::to_string(call.windows[m]) +
                    (call.masks[m].data ? ", masked" : "");
        return told;
    }

private:
    void draw_shape(Random& random) {
        call.type = sizeof(T) == 4 ? SEPARATRIX_FLOAT32 : SEPARATRIX_FLOAT64;
        call.sets = random.chance(0.15) ? random.whole(5, 8) : random.whole(1, 4);
        call.shared = random.chance(0.3) ? random.whole(2, 3) : 1;
        call.mask_shared = random.chance(0.5) ? call.shared : 1;
        call.heads = random.whole(1, random.chance(0.2) ? 5 : 3) * call.shared;
        call.query_length = random.any_size(1, 120);
        call.d = random.any_size(1, 70);
        call.d_v = random.any_size(1, 70);
        for (Index m = 0; m < call.sets; ++m) call.lengths[m] = random.any_size(1, random.chance(0.5) ? 700 : 20);
        const double most = std::exp(random.between(std::log(20.0), std::log(12000.0)));
        while (tuples() > most) {
            Index& longest = random.chance(0.3) ? call.query_length : call.lengths[random.whole(0, call.sets - 1)];
            longest = (longest + 1) / 2;
        }
        if (random.chance(0.02)) call.lengths[random.whole(0, call.sets - 1)] = 0;
        if (random.chance(0.01)) call.query_length = 0;
    }

    // A call for bfloat16 products, with prefixes for more than one tile, and panels of inner keys.
    void draw_narrow_shape(Random& random) {
        call.sets = random.whole(2, 3);
        call.query_length = random.whole(1, 5);
        for (Index m = 0; m < call.sets; ++m) call.lengths[m] = random.whole(1, call.sets == 2 ? 40 : 6);
        call.lengths[random.whole(0, call.sets - 1)] = random.whole(33, 300);
    }

    double tuples() const {
        double product = double(call.heads * call.query_length);
        for (Index m = 0; m < call.sets; ++m) product *= double(call.lengths[m]);
        return product;
    }

    void draw_positions(Random& random) {
        constexpr Index FAR = Index(1) << 62;
        call.is_causal = random.chance(0.5);
        if (random.chance(0.6)) call.offset = random.whole(-8, call.lengths[0] + 8);
        if (random.chance(0.03)) call.offset = random.chance(0.5) ? FAR : -FAR;
        for (Index m = 0; m < call.sets; ++m) {
            call.windows[m] = random.chance(0.6) ? -1 : random.whole(1, call.lengths[m] + 4);
            if (random.chance(0.03)) call.windows[m] = std::numeric_limits<Index>::max();
        }
    }

    Tensor<T> numbers(Random& random, Index heads, Index rows, Index columns) const {
        Tensor<T> x = Tensor<T>::drawn(random, heads, rows, columns, std::numeric_limits<T>::quiet_NaN());
        for (Index h = 0; h < heads; ++h)
            for (Index r = 0; r < rows; ++r)
                for (Index c = 0; c < columns; ++c) x.at(h, r, c) = rounded(number(random));
        return x;
    }

    static T number(Random& random) { return random.chance(0.03) ? T(0) : static_cast<T>(random.between(-1, 1)); }

    void draw_set(Random& random, Index m) {
        const Index length = call.lengths[m];
        keys.push_back(numbers(random, call.heads / call.shared, length, call.d));
        values.push_back(numbers(random, call.heads / call.shared, length, call.d_v));
        masks.emplace_back();
        if (random.chance(0.4)) {
            const double densities[] = {0, 0.1, 0.5, 0.9, 1};
            const double density = densities[random.whole(0, 4)];
            Tensor<unsigned char>& mask = masks.back();
            mask = Tensor<unsigned char>::drawn(random, call.heads / call.mask_shared, length, 1, 1);
            for (Index h = 0; h < mask.heads; ++h)
                for (Index j = 0; j < length; ++j)
                    mask.at(h, j) = random.chance(density) ? (random.chance(0.5) ? 1 : 255) : 0;
            call.masks[m] = mask.address();
            if (random.chance(0.5)) hide(keys.back(), m), hide(values.back(), m);
        }
        call.keys[m] = keys.back().address();
        call.values[m] = values.back().address();
    }

    // Entries that masks hide from all heads of queries may be anything.
    void hide(const Tensor<T>& x, Index m) const {
        if (x.shared()) return;
        for (Index h = 0; h < x.heads; ++h)
            for (Index j = 0; j < x.rows; ++j) {
                bool some = false;
                for (Index of = h * call.shared; of < (h + 1) * call.shared; ++of) some = some || seen(m, of, j);
                for (Index c = 0; c < x.columns && !some; ++c) x.at(h, j, c) = std::numeric_limits<T>::quiet_NaN();
            }
    }
};

}  // namespace fuzz
