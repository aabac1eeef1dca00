// The numbers from which the error bound of exact attention is computed (exact_rounding.py), from the entries of a
// call.
//
// All of them are computed in double, from the extremes and norms of entries.hpp. SLACK covers their rounding.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels.hpp"
#include "separatrix.h"

namespace separatrix {

class ExactBounds {
public:
    ExactBounds(const Kernels& kernels, const separatrix_call& call, separatrix_bounds& bounds)
        : kernels_(kernels), call_(call), bounds_(bounds) {}

    int find() {
        bounds_.is_finite = 1, bounds_.log_scores = bounds_.log_least = bounds_.log_most = 0;
        std::vector<double> products(count(call_.d), 1.0), total(count(1), 1.0);
        if (const int failed = look_at(call_.query, call_.query_length, call_.d, nullptr)) return failed;
        bounds_.log_scores += log_of_largest();
        for (int64_t m = 0; m < call_.sets; ++m) {
            if (const int failed = look_at(call_.keys[m], call_.lengths[m], call_.d, &call_.masks[m])) return failed;
            bounds_.log_scores += log_of_largest();
            for (std::size_t i = 0; i < products.size(); ++i) products[i] *= size(i);
        }
        if (const int failed = look_at_values()) return failed;
        if (!bounds_.is_finite) return SEPARATRIX_DONE;
        if (const int failed = find_radii(products, total)) return failed;
        if (bounds_.errors) find_errors();
        return SEPARATRIX_DONE;
    }

private:
    static constexpr double SLACK = 1 + 0x1p-30;

    std::size_t count(int64_t columns) const { return static_cast<std::size_t>(call_.heads * columns); }

    separatrix_tokens tokens(const separatrix_tensor& x, int64_t length, int64_t d, const separatrix_tensor* mask) const {
        return {call_.type, call_.heads, length, d, x, mask ? *mask : separatrix_tensor{}};
    }

    // The extremes of each column of a set, 0 where there is no token.
    int look_at(const separatrix_tensor& x, int64_t length, int64_t d, const separatrix_tensor* mask) {
        low_ = std::vector<double>(count(d)), high_ = std::vector<double>(count(d));  // `resize` would be exported
        const separatrix_tokens set = tokens(x, length, d, mask);
        if (const int failed = kernels_.extremes[call_.type](set, low_.data(), high_.data())) return failed;
        for (std::size_t i = 0; i < low_.size(); ++i) {
            if (low_[i] > high_[i]) low_[i] = high_[i] = 0;
            if (!std::isfinite(low_[i]) || !std::isfinite(high_[i])) bounds_.is_finite = 0;
        }
        return SEPARATRIX_DONE;
    }
    double size(std::size_t i) const { return std::max(-low_[i], high_[i]); }

    // The logarithm to base 2 of the largest magnitude, if it is above 1.
    double log_of_largest() const {
        double most = 1;
        for (std::size_t i = 0; i < low_.size(); ++i) most = std::max(most, size(i));
        return std::log2(most);
    }

    // The ranges of products of values: their extremes are products of extremes.
    int look_at_values() {
        std::vector<double> low(count(call_.d_v), 1.0), high(low);
        std::vector<char> varies(low.size(), 0);
        for (int64_t m = 0; m < call_.sets; ++m) {
            if (const int failed = look_at(call_.values[m], call_.lengths[m], call_.d_v, &call_.masks[m])) return failed;
            double least = 1, most = 1;
            for (int64_t head = 0; head < call_.heads; ++head) {
                double largest = 0;
                for (std::size_t i = count_before(head); i < count_before(head + 1); ++i) {
                    const double ends[] = {low[i] * low_[i], low[i] * high_[i], high[i] * low_[i], high[i] * high_[i]};
                    low[i] = *std::min_element(ends, ends + 4), high[i] = *std::max_element(ends, ends + 4);
                    varies[i] |= low_[i] < high_[i];
                    largest = std::max(largest, size(i));
                }
                if (largest > 0) least = std::min(least, largest);
                most = std::max(most, largest);
            }
            bounds_.log_least += std::log2(least), bounds_.log_most += std::log2(most);
        }
        // Extremes of one set are exact; a product of several is rounded for each of them.
        const double rounded = call_.sets > 1 ? 4 * static_cast<double>(call_.sets) * 0x1p-53 : 0;
        for (int64_t head = 0; head < call_.heads; ++head) {
            double width = 0, largest = 0;
            for (std::size_t i = count_before(head); i < count_before(head + 1); ++i) {
                const double magnitude = std::max(std::fabs(low[i]), std::fabs(high[i])) * SLACK;
                largest = std::max(largest, magnitude);
                width = std::max(width, (high[i] - low[i]) * SLACK + (varies[i] ? rounded * magnitude : 0));
            }
            bounds_.width[head] = width, bounds_.largest[head] = largest;
        }
        return SEPARATRIX_DONE;
    }
    std::size_t count_before(int64_t head) const { return static_cast<std::size_t>(head * call_.d_v); }

    // R_i, the smaller of |scale| sum_l |q_l| prod_m max_j |k_m,jl| and |scale| ||q||_k prod_m max_j ||k_m,j||_k; what
    // underflows in a sum of powers is added.
    int find_radii(const std::vector<double>& products, std::vector<double>& total) const {
        const double k = static_cast<double>(call_.sets + 1), lost = static_cast<double>(call_.d) * 0x1p-1000;
        const auto root = [k](double x) { return k == 2 ? std::sqrt(x) : k == 3 ? std::cbrt(x) : std::pow(x, 1 / k); };
        std::vector<double> factors(products.size(), 1.0), norms(total.size()), powers(count(call_.query_length));
        for (int64_t m = 0; m < call_.sets; ++m) {
            const separatrix_norm norm{call_.sets + 1, factors.data(), nullptr, nullptr, nullptr, norms.data()};
            const separatrix_tokens keys = tokens(call_.keys[m], call_.lengths[m], call_.d, &call_.masks[m]);
            if (const int failed = kernels_.norms[call_.type](keys, norm)) return failed;
            for (std::size_t head = 0; head < total.size(); ++head) total[head] *= root(norms[head] + lost);
        }
        factors.assign(factors.size(), call_.scale);
        const separatrix_norm norm{call_.sets + 1, factors.data(), products.data(), powers.data(), bounds_.radii, norms.data()};
        const separatrix_tokens queries = tokens(call_.query, call_.query_length, call_.d, nullptr);
        if (const int failed = kernels_.norms[call_.type](queries, norm)) return failed;
        const double slack = SLACK * (1 + (k + 2) * std::numeric_limits<double>::epsilon());
        for (std::size_t i = 0; i < powers.size(); ++i)
            bounds_.radii[i] = slack * std::min(bounds_.radii[i],
                                                root(powers[i] + lost) * total[i / static_cast<std::size_t>(call_.query_length)]);
        return SEPARATRIX_DONE;
    }

    // The bounds on the errors of the outputs. Their `average` and `relative` cover the rounding.
    void find_errors() const {
        bounds_.most_radius = bounds_.most_error = bounds_.most_value = 0;
        for (int64_t head = 0; head < call_.heads; ++head) {
            const double largest = bounds_.largest[head], width = bounds_.average * bounds_.width[head];
            const double base = (largest > 0 ? bounds_.relative * largest : 0) + bounds_.least;
            bounds_.most_value = std::max(bounds_.most_value, largest);
            for (int64_t i = head * call_.query_length; i < (head + 1) * call_.query_length; ++i) {
                const double radius = bounds_.radii[i], half = (bounds_.score * radius + bounds_.weight) / 2;
                double error = base + upper_tanh(half) * width;
                if (!(error < std::numeric_limits<double>::infinity())) error = std::numeric_limits<double>::infinity();
                bounds_.errors[i] = error;
                bounds_.most_radius = std::max(bounds_.most_radius, radius);
                bounds_.most_error = std::max(bounds_.most_error, error);
            }
        }
    }

    // tanh, or an upper bound with a relative error below 2^-21.
    static double upper_tanh(double x) { return x < 0x1p-10 ? x : std::tanh(x); }

    const Kernels& kernels_;
    const separatrix_call& call_;
    separatrix_bounds& bounds_;
    std::vector<double> low_, high_;
};

}  // namespace separatrix
