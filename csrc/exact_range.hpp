// Whether the factors of a call are of a size that needs no balancing: see exact/balance.py, which says why.
#pragma once

#include <atomic>

#include "exact_sets.hpp"
#include "tasks.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

// The sizes of the factors of one head of queries, all as logarithms to base 2, column by column; what a mask hides is
// none of them.
template <class T> class Sizes {
public:
    // Of `count` tensors with the same number of columns.
    Sizes(Index count, Index columns) : count_(count), columns_(columns), logs_(count * columns) {}

    // The rows place(0), ..., place(rows - 1) of a tensor.
    template <class Place>
    void look_at(Index m, Index type, const separatrix_tensor& x, Index head, Index rows, Place place) {
        Array<T> most(columns_);
        fill_zeros<T>(most, 0, columns_);
        as_stored<T>(type, [&](auto stored) {
            for (Index j = 0; j < rows; ++j) {
                const auto* row = row_of<decltype(stored)>(x, head, place(j));
                for (Index l = 0; l < columns_; ++l) most[l] = larger(most[l], std::fabs(widened(row[l])));
            }
        });
        for (Index l = 0; l < columns_; ++l) logs_[m * columns_ + l] = std::log2(static_cast<double>(most[l]));
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
    Array<double> logs_;
};

template <class T> int range(const separatrix_call& call, separatrix_range& found) {
    const double room = found.room, near = found.near, scale = std::log2(std::fabs(call.scale));
    const double infinity = std::numeric_limits<double>::infinity();
    const Index same = with_same_sets(call);
    Array<double> outputs(call.heads / same);
    std::atomic<int> moderate{1}, near_one{std::fabs(scale) <= near || call.scale == 0};
    const double used = std::log2(2.0 * static_cast<double>((call.sets + 1) * call.d)) + std::max(scale, 0.0);
    auto look = [&](Index one) {
        Sizes<T> scores(call.sets + 1, call.d), values(call.sets, call.d_v);
        for (Index m = 0; m < call.sets; ++m) {
            const Seen seen(call, m, one * same);
            const auto place = [&](Index j) { return seen.place(j); };
            scores.look_at(m + 1, call.type, call.keys[m], one * same / call.shared, seen.count(), place);
            values.look_at(m, call.type, call.values[m], one * same / call.shared, seen.count(), place);
        }
        for (Index head = one * same; head < (one + 1) * same; ++head) {
            scores.look_at(0, call.type, call.query, head, call.query_length, [](Index i) { return i; });
            const double large = scores.largest_above_one(), large_values = values.largest_above_one();
            const double product = outputs[one] = values.largest_without(-1);
            // A comparison with what is not a number is false.
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
    if (const int failed = for_each_task(call.heads / same, look)) return failed;
    found.moderate = moderate;
    found.near_one = moderate && near_one;
    found.log_output = -infinity;
    for (Index one = 0; one < call.heads / same; ++one) found.log_output = larger(found.log_output, outputs[one]);
    return SEPARATRIX_DONE;
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
