// Whether the magnitudes of a call's factors make balancing unnecessary: exact/balance.py gives the reason.
#pragma once

#include <algorithm>
#include <atomic>

#include "exact_sets.hpp"
#include "tasks.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// The magnitudes of the factors of one head of queries, as base-2 logarithms, for each column; masked rows are ignored.
template <class T> class Sizes {
public:
    // Memory for the sizes of `count` tensors with the same number of columns.
    Sizes(Index count, Index columns) : count_(count), columns_(columns), most_(count * columns), logs_(count * columns) {}

    // The rows place(0), ..., place(rows - 1) of a tensor.
    template <class Place>
    void look_at(Index m, Index type, const separatrix_tensor& x, Index head, Index rows, Place place) {
        T* most = most_ + m * columns_;
        as_stored<T>(type, [&](auto stored) {
            const auto row = [&](Index j) { return row_of<decltype(stored)>(x, head, place(j)); };
            if (columns_ >= 16) {
                look_at_blocks<16>(rows, row, most);
            } else if (columns_ >= 8) {
                look_at_blocks<8>(rows, row, most);
            } else {
                for (Index l = 0; l < columns_; ++l) {
                    most[l] = 0;
                    for (Index j = 0; j < rows; ++j) most[l] = larger(most[l], std::fabs(widened(row(j)[l])));
                }
            }
        });
    }

    // Whether every column of every factor has a largest magnitude from `low` to `high`: then no logarithms are needed.
    bool within(T low, T high) const {
        const Index numbers = count_ * columns_;
        int outside = 0;
        for (Index i = 0; i < numbers % W; ++i) outside |= !(low <= most_[i] && most_[i] <= high);
        Bits<T> beyond{};
        for (Index i = numbers % W; i < numbers; i += W) {
            const Vector<T> x = load(most_ + i);
            beyond |= ~((x >= low) & (x <= high));
        }
        for (Index i = 0; i < W; ++i) outside |= beyond[i] != 0;
        return !outside;
    }

    // The same as `largest_without(-1)`, for factors so close to 1 that their products stay in range.
    double logarithm_of_largest() const {
        T largest = 0;
        for (Index l = 0; l < columns_ % W; ++l) {
            T product = most_[l];
            for (Index m = 1; m < count_; ++m) product *= most_[m * columns_ + l];
            largest = std::max(largest, product);
        }
        Vector<T> most{};
        for (Index l = columns_ % W; l < columns_; l += W) {
            Vector<T> product = load(most_ + l);
            for (Index m = 1; m < count_; ++m) product *= load(most_ + m * columns_ + l);
            most = larger(most, product);
        }
        return std::log2(static_cast<double>(std::max(largest, largest_lane<T>(most))));
    }

    void take_logarithms() {
        for (Index i = 0; i < count_ * columns_; ++i) logs_[i] = std::log2(static_cast<double>(most_[i]));
    }

    // The largest product of the factors above 1, over the columns.
    double largest_above_one() const {
        return over_columns([](double log) { return log > 0 ? log : (log == log ? 0 : log); }, -1);
    }

    // The largest product of all factors but one, over the columns; of all of them for -1.
    double largest_without(Index one) const {
        return over_columns([](double log) { return log; }, one);
    }

    Index count() const { return count_; }

private:
    static constexpr Index W = WIDTH<T>;

    // Blocks of columns, whose largest magnitudes stay in registers; the last block may overlap the one before.
    template <Index COUNT, class Row> void look_at_blocks(Index rows, const Row& row, T* most) const {
        using Whole = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
        typedef T Block __attribute__((vector_size(COUNT * sizeof(T))));
        typedef Whole Bits __attribute__((vector_size(COUNT * sizeof(T))));
        for (Index start = 0; start < columns_; start += COUNT) {
            const Index first = std::min(start, columns_ - COUNT);
            Bits largest{};
            for (Index j = 0; j < rows; ++j) {
                const auto* entries = row(j) + first;
                Block x{};
                for (Index l = 0; l < COUNT; ++l) x[l] = widened(entries[l]);
                // Magnitudes are compared by their bits, so that NaN is larger than every number.
                Bits bits;
                std::memcpy(&bits, &x, sizeof x);
                bits &= std::numeric_limits<Whole>::max();
                largest = bits > largest ? bits : largest;
            }
            std::memcpy(most + first, &largest, sizeof largest);
        }
    }

    template <class F> double over_columns(F term, Index without) const {
        double most = -std::numeric_limits<double>::infinity();
        for (Index l = 0; l < columns_; ++l) {
            double sum = 0;
            for (Index m = 0; m < count_; ++m)
                if (m != without) sum += term(logs_[m * columns_ + l]);
            most = larger(most, sum);
        }
        return most;
    }

    Index count_, columns_;
    Array<T> most_;
    Array<double> logs_;
};

template <class T> int range(const separatrix_call& call, separatrix_range& found) {
    const double room = found.room, near = found.near, scale = std::log2(std::fabs(call.scale));
    const double infinity = std::numeric_limits<double>::infinity();
    const Index same = with_same_sets(call);
    Array<double> outputs(call.heads / same);
    std::atomic<int> moderate{1}, near_one{std::fabs(scale) <= near || call.scale == 0};
    const double used = std::log2(2.0 * static_cast<double>((call.sets + 1) * call.d)) + std::max(scale, 0.0);
    // If all factors are this close to 1, all conditions below hold.
    const double usual = std::min({near, room / 2, room - used}) / static_cast<double>(call.sets + 1) - 0.01;
    const T high = static_cast<T>(std::exp2(usual)), low = static_cast<T>(std::exp2(-usual));
    const auto look_at_group = [&](Index one, Sizes<T>& scores, Sizes<T>& values) {
        for (Index m = 0; m < call.sets; ++m) {
            const Seen seen(call, m, one * same);
            const auto place = [&](Index j) { return seen.place(j); };
            scores.look_at(m + 1, call.type, call.keys[m], one * same / call.shared, seen.count(), place);
            values.look_at(m, call.type, call.values[m], one * same / call.shared, seen.count(), place);
        }
        for (Index head = one * same; head < (one + 1) * same; ++head) {
            scores.look_at(0, call.type, call.query, head, call.query_length, [](Index i) { return i; });
            if (scores.within(low, high) && values.within(low, high)) {
                outputs[one] = values.logarithm_of_largest();
                continue;
            }
            scores.take_logarithms();
            values.take_logarithms();
            const double large = scores.largest_above_one(), large_values = values.largest_above_one();
            const double product = outputs[one] = values.largest_without(-1);
            // A comparison with NaN is false.
            if (!(large <= room - used && large_values <= room / 2 && (product >= -room / 2 || product == -infinity)))
                moderate = 0;
            if (!(large <= near && large_values <= near)) near_one = 0;
            for (const Sizes<T>* sizes : {&scores, &values})
                for (Index m = 0; m < sizes->count(); ++m) {
                    const double others = sizes->largest_without(m);
                    if (!(others >= -near || others == -infinity)) near_one = 0;
                }
        }
    };
    double entries = static_cast<double>(call.query_length * call.d);
    for (Index m = 0; m < call.sets; ++m) entries += static_cast<double>(call.lengths[m] * (call.d + call.d_v));
    // A task has some 10^4 entries.
    const Index groups = call.heads / same;
    const Index step = static_cast<Index>(std::max(1.0, 1e4 / std::max(1.0, static_cast<double>(same) * entries)));
    auto look = [&](Index task) {
        Sizes<T> scores(call.sets + 1, call.d), values(call.sets, call.d_v);
        for (Index one = task * step; one < std::min((task + 1) * step, groups); ++one) look_at_group(one, scores, values);
    };
    if (const int failed = for_each_task((groups + step - 1) / step, look, static_cast<double>(call.heads) * entries))
        return failed;
    found.moderate = moderate;
    found.near_one = moderate && near_one;
    found.log_output = -infinity;
    for (Index one = 0; one < groups; ++one) found.log_output = larger(found.log_output, outputs[one]);
    return SEPARATRIX_DONE;
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
