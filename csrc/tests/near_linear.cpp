// Random calls of near-linear attention against literal loops, for every architecture that this processor runs.
//
//     near_linear SEED COUNT [FIRST]
//
// runs the cases FIRST to FIRST + COUNT - 1 of a seed: products with monomials, passes over tokens in the layout of
// keys and values, the causal scan, streams, and the extremes and norms of tokens. Every result is computed by
// definition in the widest floating-point type, twice: with the given numbers, and with their magnitudes. A sum of
// products with at most N roundings of unit u may differ by gamma(N) = N u / (1 - N u) of the second result (Higham,
// Lemma 3.1); N is an upper bound here. Three threads must give the same bits as one, and so must three threads that
// each attend the states of one stream while a fourth appends to other states; the thread sanitiser detects data races.
// The program prints the largest errors relative to their bounds, and exits with 1 at the first failing case.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "cases.hpp"
#include "running.hpp"

namespace fuzz {
namespace {

using Wide = long double;
using Wides = std::vector<Wide>;

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// The share of calls with a large tree.
constexpr double LARGE = 0.02;

// Monomials computed along a tree: number i > 0 is number parents[i] < i times coordinate last[i], and number 0 is one.
struct Tree {
    Index rank, d, depth = 0;
    std::vector<std::int64_t> parents, last;
    std::vector<std::int32_t> left, right, row_parents, row_coordinates;
    separatrix_monomials set{};

    // A large tree has more monomials, with 24 columns or more, than fit a block of csrc/tile.hpp.
    explicit Tree(Random& random, bool is_large = false)
        : rank(is_large ? random.any_size(2800, 16000) : random.any_size(1, 150)), d(random.any_size(1, 9)) {
        std::vector<Index> degrees(at(rank));
        std::vector<std::int32_t> place(at(rank), -1);
        parents.assign(at(rank), 0), last.assign(at(rank), 0);
        place[0] = 0;
        for (Index i = 1; i < rank; ++i) {
            do parents[at(i)] = random.whole(0, i - 1);
            while (degrees[at(parents[at(i)])] >= 8);
            last[at(i)] = random.whole(0, d - 1);
            degrees[at(i)] = degrees[at(parents[at(i)])] + 1;
            depth = std::max(depth, degrees[at(i)]);
            place[at(parents[at(i)])] = 0;
        }
        for (Index i = 0; i < rank; ++i)  // monomials with children have stored rows
            if (place[at(i)] == 0) {
                place[at(i)] = static_cast<std::int32_t>(row_parents.size());
                row_parents.push_back(i ? place[at(parents[at(i)])] : 0);
                row_coordinates.push_back(static_cast<std::int32_t>(last[at(i)]));
            }
        for (Index i = 0; i < rank; ++i) {
            const bool stored = place[at(i)] >= 0;
            left.push_back(stored ? place[at(i)] : place[at(parents[at(i)])]);
            right.push_back(static_cast<std::int32_t>(stored ? d : last[at(i)]));
        }
        set = {rank, d, static_cast<Index>(row_parents.size()), left.data(), right.data(), row_parents.data(),
               row_coordinates.data()};
    }

    Wides monomials(const Wide* x) const {
        Wides phi(at(rank), 1);
        for (Index i = 1; i < rank; ++i) phi[at(i)] = phi[at(parents[at(i)])] * x[last[at(i)]];
        return phi;
    }

    // The gradient of the coordinates, from that of the monomials.
    Wides pulled_back(const Wide* x, const Wides& phi, Wides grad) const {
        Wides found(at(d));
        for (Index i = rank - 1; i > 0; --i) {
            const std::size_t parent = at(parents[at(i)]), l = at(last[at(i)]);
            found[l] += grad[at(i)] * phi[parent];
            grad[parent] += grad[at(i)] * x[l];
        }
        return found;
    }
};

// The largest error so far of each kind of result, relative to its bound, and the number of comparisons.
struct Worst {
    std::map<std::string, double> errors;
    long compared = 0;

    template <class T>
    void compare(const std::string& name, const T* got, const Wides& truth, const Wides& size, Wide roundings, Wide u) {
        const Wide gamma = roundings * u / (1 - roundings * u);
        for (std::size_t i = 0; i < truth.size(); ++i) {
            const Wide error = std::fabs(Wide(got[i]) - truth[i]), bound = gamma * size[i] + 0x1p-120L;
            if (!(error <= bound)) {
                char told[200];
                std::snprintf(told, sizeof told, "%s at %zu: expected %.17Lg within %.3Lg, got %.17g", name.c_str(), i,
                              truth[i], bound, double(got[i]));
                throw Wrong(told);
            }
            errors[name] = std::max(errors[name], double(error / bound));
            ++compared;
        }
    }
};

template <class T> constexpr Wide UNIT = sizeof(T) == 4 ? 0x1p-24L : 0x1p-53L;

template <class T> Buffer<T> numbers(Random& random, Index count, double most = 1) {
    Buffer<T> x(count);
    for (Index i = 0; i < count; ++i) x[i] = random.chance(0.03) ? T(0) : static_cast<T>(random.between(-most, most));
    return x;
}

template <class T> Wides wide(const Buffer<T>& x, bool magnitudes) {
    Wides found(at(x.size));
    for (Index i = 0; i < x.size; ++i) found[at(i)] = magnitudes ? std::fabs(Wide(x[i])) : Wide(x[i]);
    return found;
}

template <class T> bool same(const Buffer<T>& a, const Buffer<T>& b) {
    return !a.size || !std::memcmp(a.data.get(), b.data.get(), at(a.size) * sizeof(T));
}

void finished(int code) {
    if (code) throw Wrong("a kernel gave the error " + std::to_string(code));
}

// Compute with one thread and with three, which must agree; f fills the buffers passed to it.
template <class F> auto with_threads(F&& f) {
    auto found = f();
    use_threads(true);
    auto again = f();
    use_threads(false);
    for (std::size_t i = 0; i < found.size(); ++i)
        if (!same(found[i], again[i])) throw Wrong("three threads give other bits than one");
    return found;
}

// Products with monomials of tokens that are stored side by side, in rows with gaps.
template <class T> void products(Random& random, const std::vector<std::string>& names, std::vector<Worst>& worst) {
    const bool is_large = random.chance(LARGE);
    const Tree tree(random, is_large);
    const Index heads = random.whole(1, 3), tokens = random.any_size(1, !is_large && random.chance(0.2) ? 3000 : 200);
    const Index columns = is_large ? random.whole(24, 30) : random.any_size(1, 26), rank = tree.rank, d = tree.d;
    Tensor<T> x = Tensor<T>::drawn(random, heads, d, tokens, std::numeric_limits<T>::quiet_NaN());
    Tensor<T> W = Tensor<T>::drawn(random, heads, columns, tokens, std::numeric_limits<T>::quiet_NaN());
    for (const Tensor<T>* each : {&x, &W})
        for (Index h = 0; h < heads; ++h)
            for (Index r = 0; r < each->rows; ++r)
                for (Index t = 0; t < tokens; ++t) each->at(h, r, t) = static_cast<T>(random.between(-1, 1));
    const Buffer<double> before = numbers<double>(random, heads * rank * columns);
    const Buffer<T> M = numbers<T>(random, heads * rank * columns);
    Wides state[2], sums[2], grad_x[2], grad_W[2];  // with the numbers, and with their magnitudes
    for (int size = 0; size < 2; ++size) {
        const auto given = [&](T y) { return size ? std::fabs(Wide(y)) : Wide(y); };
        state[size] = wide(before, size);
        const Wides m = wide(M, size);
        sums[size].resize(at(heads * columns * tokens)), grad_x[size].resize(at(heads * d * tokens));
        for (Index h = 0; h < heads; ++h)
            for (Index t = 0; t < tokens; ++t) {
                Wides point, gradient(at(rank));
                for (Index l = 0; l < d; ++l) point.push_back(given(x.at(h, l, t)));
                const Wides phi = tree.monomials(point.data());
                for (Index c = 0; c < columns; ++c)
                    for (Index a = 0; a < rank; ++a) {
                        const Wide w = given(W.at(h, c, t)), one = m[at((h * rank + a) * columns + c)];
                        state[size][at((h * rank + a) * columns + c)] += phi[at(a)] * w;
                        sums[size][at((h * columns + c) * tokens + t)] += phi[at(a)] * one;
                        gradient[at(a)] += one * w;
                    }
                const Wides back = tree.pulled_back(point.data(), phi, gradient);
                for (Index l = 0; l < d; ++l) grad_x[size][at((h * d + l) * tokens + t)] = back[at(l)];
            }
        grad_W[size] = sums[size];
    }
    separatrix_products call{};
    call.type = sizeof(T) == 4 ? SEPARATRIX_FLOAT32 : SEPARATRIX_FLOAT64;
    call.heads = heads, call.tokens = tokens, call.columns = columns, call.set = &tree.set;
    call.x = x.address(), call.W = W.address();
    const Wide added = Wide(tree.depth + tokens + 64), met = Wide(2 * tree.depth + 2 * rank + columns + 64);
    for (std::size_t k = 0; k < names.size(); ++k) {
        separatrix_choose(names[k].c_str());
        const auto states = with_threads([&] {
            std::vector<Buffer<double>> one(1);
            one[0] = Buffer<double>(before.size);
            std::memcpy(one[0].data.get(), before.data.get(), at(before.size) * sizeof(double));
            finished(separatrix_products_add(&call, one[0].data.get()));
            return one;
        });
        const auto others = with_threads([&] {
            std::vector<Buffer<T>> three(3);
            three[0] = Buffer<T>(heads * columns * tokens), three[1] = Buffer<T>(heads * d * tokens);
            three[2] = Buffer<T>(heads * columns * tokens);
            finished(separatrix_products_sums(&call, M.data.get(), three[0].data.get()));
            finished(separatrix_products_gradient(&call, M.data.get(), three[1].data.get(), three[2].data.get()));
            return three;
        });
        worst[k].compare("states", states[0].data.get(), state[0], state[1], added, UNIT<T>);
        worst[k].compare("sums", others[0].data.get(), sums[0], sums[1], met, UNIT<T>);
        worst[k].compare("gradients of tokens", others[1].data.get(), grad_x[0], grad_x[1], met, UNIT<T>);
        worst[k].compare("gradients of values", others[2].data.get(), grad_W[0], grad_W[1], met, UNIT<T>);
    }
}

// Numbers between -1 and 1 in all places of a tensor.
template <class T> void scatter(Random& random, const Tensor<T>& x) {
    for (Index h = 0; h < x.heads; ++h)
        for (Index r = 0; r < x.rows; ++r)
            for (Index c = 0; c < x.columns; ++c) x.at(h, r, c) = static_cast<T>(random.between(-1, 1));
}

// Passes over tokens in the layout of keys and values, which are scaled, converted and transposed tile by tile.
template <class In, class T> void passes(Random& random, const std::vector<std::string>& names, std::vector<Worst>& worst) {
    const bool is_large = random.chance(LARGE);
    const Tree tree(random, is_large);
    const Index heads = random.whole(1, 3), tokens = random.any_size(1, !is_large && random.chance(0.2) ? 3000 : 200);
    const Index d_v = is_large ? random.whole(23, 28) : random.any_size(1, 24);
    const Index rank = tree.rank, d = tree.d;
    // The moments are summed over the monomials with a coefficient, or over another level of monomials.
    const Index weighted = random.chance(0.5) ? 0 : random.any_size(1, 12), columns = d_v + 1 + weighted;
    const Index from = random.whole(0, rank), to = random.whole(from, rank);
    const Index terms = random.chance(0.5) ? rank : from;
    const In nothing = std::numeric_limits<In>::quiet_NaN();
    Tensor<In> x = Tensor<In>::drawn(random, heads, tokens, d, nothing);
    Tensor<In> values = Tensor<In>::drawn(random, heads, tokens, d_v, nothing);
    Tensor<In> weights = Tensor<In>::drawn(random, heads, tokens, std::max<Index>(weighted, 1), nothing);
    scatter(random, x), scatter(random, values), scatter(random, weights);
    Tensor<unsigned char> mask;
    if (random.chance(0.5)) {
        mask = Tensor<unsigned char>::drawn(random, heads, tokens, 1, 1);
        for (Index h = 0; h < heads; ++h)
            for (Index t = 0; t < tokens; ++t) mask.at(h, t) = random.chance(0.8) ? 255 : 0;
        if (!x.shared() && !values.shared() && !weights.shared() && !mask.shared())
            for (Index h = 0; h < heads; ++h)  // masked entries may be anything
                for (Index t = 0; t < tokens; ++t)
                    if (!mask.at(h, t)) x.at(h, t, 0) = values.at(h, t, d_v - 1) = weights.at(h, t, 0) = nothing;
    }
    const Buffer<double> factors = numbers<double>(random, heads * d), before = numbers<double>(random, heads * rank * columns);
    Buffer<T> M = numbers<T>(random, heads * rank * (columns + 1));
    const auto counts = [&](Index a, Index c) { return c <= d_v ? a < terms : a >= from && a < to; };
    for (Index i = 0; i < M.size; ++i)  // entries that are not read may be anything
        if (!counts(i / (columns + 1) % rank, i % (columns + 1))) M[i] = std::numeric_limits<T>::quiet_NaN();
    Wides state[2], sums[2];
    for (int size = 0; size < 2; ++size) {
        const auto given = [&](Wide y) { return size ? std::fabs(y) : y; };
        state[size] = wide(before, size);
        sums[size].resize(at(heads * tokens * (columns + 1)));
        const Wides m = wide(M, size);
        for (Index h = 0; h < heads; ++h)
            for (Index t = 0; t < tokens; ++t) {
                const bool hidden = mask.rows && !mask.at(h, t);
                Wides point;
                for (Index l = 0; l < d; ++l)
                    point.push_back(hidden ? 0 : given(Wide(x.at(h, t, l)) * Wide(factors[h * d + l])));
                const Wides phi = tree.monomials(point.data());
                for (Index a = 0; a < rank; ++a) {
                    for (Index c = 0; c < columns && !hidden; ++c)
                        if (counts(a, c) || (c == d_v && a >= from && a < to))
                            state[size][at((h * rank + a) * columns + c)] +=
                                phi[at(a)] * (c < d_v   ? given(Wide(values.at(h, t, c)))
                                              : c > d_v ? given(Wide(weights.at(h, t, c - d_v - 1)))
                                                        : 1);
                    for (Index c = 0; c <= columns; ++c)
                        if (counts(a, c))
                        sums[size][at((h * tokens + t) * (columns + 1) + c)] +=
                            phi[at(a)] * m[at((h * rank + a) * (columns + 1) + c)];
                }
            }
    }
    separatrix_pass call{};
    call.type = sizeof(In) == 4 ? SEPARATRIX_FLOAT32 : SEPARATRIX_FLOAT64;
    call.arithmetic = sizeof(T) == 4 ? SEPARATRIX_FLOAT32 : SEPARATRIX_FLOAT64;
    call.heads = heads, call.tokens = tokens, call.d_v = d_v, call.set = &tree.set;
    call.weighted = weighted, call.terms = terms, call.level_first = from, call.level_last = to;
    call.x = x.address(), call.values = values.address(), call.factors = factors.data.get();
    if (weighted) call.weights = weights.address();
    if (mask.rows) call.mask = mask.address();
    // A coordinate and its factor are converted and multiplied: three roundings for each factor of a monomial.
    const Wide added = Wide(4 * tree.depth + tokens + 64), met = Wide(4 * tree.depth + 2 * rank + 64);
    const Index queries = heads * tokens;
    for (std::size_t k = 0; k < names.size(); ++k) {
        separatrix_choose(names[k].c_str());
        const auto states = with_threads([&] {
            std::vector<Buffer<double>> one(1);
            one[0] = Buffer<double>(before.size);
            std::memcpy(one[0].data.get(), before.data.get(), at(before.size) * sizeof(double));
            finished(separatrix_pass_add(&call, one[0].data.get()));
            return one;
        });
        Buffer<double> totals(3 * queries);
        const auto outputs = with_threads([&] {
            std::vector<Buffer<In>> one(1);
            one[0] = Buffer<In>(queries * d_v);
            double* denominator = totals.data.get();
            finished(separatrix_pass_attend(&call, M.data.get(), one[0].data.get(), denominator, denominator + queries,
                                            weighted ? denominator + 2 * queries : nullptr));
            return one;
        });
        worst[k].compare("states of a pass", states[0].data.get(), state[0], state[1], added, UNIT<T>);
        // The output times the denominator is the numerator, apart from the roundings of a division and a conversion.
        Buffer<double> found(queries * (columns + 1));
        Wides sizes = sums[1];
        for (Index i = 0; i < queries; ++i) {
            const double total = totals[i];
            for (Index c = 0; c < d_v; ++c) {
                const Wide numerator = Wide(outputs[0][i * d_v + c]) * Wide(total);
                if (total == 0 && outputs[0][i * d_v + c] != 0) throw Wrong("an output over a denominator of zero");
                found[i * (columns + 1) + c] = total == 0 ? double(sums[0][at(i * (columns + 1) + c)]) : double(numerator);
                sizes[at(i * (columns + 1) + c)] += 0x1p+2L * UNIT<In> / UNIT<T> * std::fabs(numerator);
            }
            found[i * (columns + 1) + d_v] = total;
            // Of the weighted moments the kernel returns the largest, which is compared with the largest by definition.
            const auto truth = sums[0].data() + i * (columns + 1);
            for (Index c = d_v + 1; c <= columns; ++c) found[i * (columns + 1) + c] = double(truth[c]);
            found[i * (columns + 1) + d_v + 1] = totals[queries + i];
            if (!weighted) continue;
            const Index most = std::max_element(truth + d_v + 2, truth + columns + 1) - truth;
            found[i * (columns + 1) + most] = totals[2 * queries + i];
            for (Index c = d_v + 2; c <= columns; ++c)
                sizes[at(i * (columns + 1) + most)] = std::max(sizes[at(i * (columns + 1) + most)], sizes[at(i * (columns + 1) + c)]);
        }
        worst[k].compare("sums of a pass", found.data.get(), sums[0], sizes, met, UNIT<T>);
    }
}

// The results of a causal scan and its backward pass, by definition.
struct Scanned {
    Wides sums, grad_query;
    std::vector<Wides> after, grad_keys, grad_values, grad_before;

    Scanned(const Tree& tree, const separatrix_scan& scan, const separatrix_scan_gradients& given, bool magnitudes) {
        const Index sets = scan.sets, length = scan.length, d = scan.d, rank = scan.rank;
        const Index C = scan.columns + scan.weighted;
        const auto take = [&](const double* from, Index i) { return magnitudes ? std::fabs(Wide(from[i])) : Wide(from[i]); };
        sums.resize(at(scan.heads * length * (C + 1))), grad_query.resize(at(scan.heads * d * length));
        for (Index m = 0; m < sets; ++m) {
            after.emplace_back(at(scan.heads * rank * C)), grad_before.emplace_back(at(scan.heads * rank * C));
            grad_keys.emplace_back(at(scan.heads * d * length)), grad_values.emplace_back(at(scan.heads * C * length));
        }
        for (Index h = 0; h < scan.heads; ++h) {
            const auto point = [&](const double* x, Index t) {
                Wides found;
                for (Index l = 0; l < d; ++l) found.push_back(take(x, (h * d + l) * length + t));
                return found;
            };
            // The states of all sets after each token: (sets, length, rank * columns).
            std::vector<std::vector<Wides>> states(at(sets));
            for (Index m = 0; m < sets; ++m) {
                Wides now;
                for (Index i = 0; i < rank * C; ++i) now.push_back(take(scan.before[m], h * rank * C + i));
                for (Index t = 0; t < length; ++t) {
                    const Wides phi = tree.monomials(point(scan.keys[m], t).data());
                    for (Index a = 0; a < rank; ++a)
                        for (Index c = 0; c < C; ++c)
                            now[at(a * C + c)] += phi[at(a)] * take(scan.values[m], (h * C + c) * length + t);
                    states[at(m)].push_back(now);
                }
                for (Index i = 0; i < rank * C; ++i) after[at(m)][at(h * rank * C + i)] = now[at(i)];
            }
            std::vector<Wides> later(at(sets));  // the gradients of the states after a token, from the last on
            for (Index m = 0; m < sets; ++m)
                for (Index i = 0; i < rank * C; ++i) later[at(m)].push_back(take(given.after[m], h * rank * C + i));
            for (Index t = length - 1; t >= 0; --t) {
                const Wides x = point(scan.query, t), phi = tree.monomials(x.data());
                Wides gradient(at(rank));
                for (Index a = 0; a < rank; ++a)
                    for (Index c = 0; c < C; ++c) {
                        const Wide g = take(given.sums, (h * length + t) * C + c), one = take(scan.coefficients, a);
                        Wide product = 1;
                        for (Index m = 0; m < sets; ++m) product *= states[at(m)][at(t)][at(a * C + c)];
                        if (c < scan.columns) sums[at((h * length + t) * (C + 1) + c)] += one * phi[at(a)] * product;
                        if (scan.moments && c >= scan.columns - 1)
                            sums[at((h * length + t) * (C + 1) + c + 1)] += take(scan.moments, a) * phi[at(a)] * product;
                        gradient[at(a)] += one * g * product;
                        for (Index m = 0; m < sets; ++m) {
                            Wide others = one * g * phi[at(a)];
                            for (Index o = 0; o < sets; ++o)
                                if (o != m) others *= states[at(o)][at(t)][at(a * C + c)];
                            later[at(m)][at(a * C + c)] += others;
                        }
                    }
                put(grad_query, tree.pulled_back(x.data(), phi, gradient), h, t, d, length);
                for (Index m = 0; m < sets; ++m) {
                    const Wides y = point(scan.keys[m], t), psi = tree.monomials(y.data());
                    Wides back(at(rank)), values(at(C));
                    for (Index a = 0; a < rank; ++a)
                        for (Index c = 0; c < C; ++c) {
                            back[at(a)] += later[at(m)][at(a * C + c)] * take(scan.values[m], (h * C + c) * length + t);
                            values[at(c)] += later[at(m)][at(a * C + c)] * psi[at(a)];
                        }
                    put(grad_keys[at(m)], tree.pulled_back(y.data(), psi, back), h, t, d, length);
                    put(grad_values[at(m)], values, h, t, C, length);
                }
            }
            for (Index m = 0; m < sets; ++m)
                for (Index i = 0; i < rank * C; ++i) grad_before[at(m)][at(h * rank * C + i)] = later[at(m)][at(i)];
        }
    }

private:
    static void put(Wides& into, const Wides& column, Index h, Index t, Index rows, Index length) {
        for (Index r = 0; r < rows; ++r) into[at((h * rows + r) * length + t)] = column[at(r)];
    }
};

void scans(Random& random, const std::vector<std::string>& names, std::vector<Worst>& worst) {
    const Tree tree(random);
    separatrix_scan scan{};
    scan.heads = random.whole(1, 3), scan.sets = random.whole(1, 4), scan.length = random.any_size(1, 50);
    scan.d = tree.d, scan.columns = random.any_size(1, 14), scan.rank = tree.rank;
    const bool has_moments = random.chance(0.5);
    scan.weighted = has_moments && random.chance(0.5) ? random.any_size(1, 12) : 0;
    scan.terms = random.chance(0.5) ? scan.rank : random.whole(0, scan.rank);
    const Index C = scan.columns + scan.weighted, state = scan.heads * scan.rank * C;
    const Index points = scan.heads * scan.d * scan.length, values = scan.heads * C * scan.length;
    const Index sums = scan.heads * scan.length * (C + 1);
    scan.parents = tree.parents.data(), scan.last = tree.last.data();
    std::vector<Buffer<double>> held;
    const auto drawn = [&](Index count) {
        held.push_back(numbers<double>(random, count));
        return held.back().data.get();
    };
    double* const coefficients = drawn(scan.rank);
    for (Index a = scan.terms; a < scan.rank; ++a) coefficients[a] = 0;
    double* const moments = has_moments ? drawn(scan.rank) : nullptr;
    if (moments)
        for (Index a = random.whole(0, scan.rank); a > 0; --a) moments[a - 1] = 0;
    scan.coefficients = coefficients, scan.moments = moments, scan.query = drawn(points);
    separatrix_scan_gradients given{};
    given.sums = drawn(scan.heads * scan.length * C);
    for (Index m = 0; m < scan.sets; ++m) {
        scan.keys[m] = drawn(points), scan.values[m] = drawn(values), scan.before[m] = drawn(state);
        given.after[m] = drawn(state);
    }
    const Scanned truth(tree, scan, given, false), size(tree, scan, given, true);
    const Wide roundings = Wide((scan.sets + 2) * (tree.depth + scan.length + 8) + 2 * scan.rank + 2 * C + 64);
    // Whether the states of a row and a column are part of a sum.
    const auto counts = [&](Index a, Index c) {
        return (c < scan.columns && a < scan.terms) || (c >= scan.columns - 1 && moments && moments[a] != 0);
    };
    const Wide u = UNIT<double>;
    for (std::size_t k = 0; k < names.size(); ++k) {
        separatrix_choose(names[k].c_str());
        const auto found = with_threads([&] {
            std::vector<Buffer<double>> all;
            const auto made = [&](Index count) {
                all.emplace_back(count);
                return all.back().data.get();
            };
            separatrix_scan_results results{};
            separatrix_scan_gradients gradients = given;
            results.sums = made(sums), gradients.query = made(points);
            for (Index m = 0; m < scan.sets; ++m) {
                results.after[m] = made(state), gradients.keys[m] = made(points), gradients.values[m] = made(values);
                gradients.before[m] = made(state);
            }
            finished(separatrix_scan_forward(&scan, &results));
            if (!scan.weighted) finished(separatrix_scan_backward(&scan, &gradients));
            return all;
        });
        Worst& here = worst[k];
        here.compare("scanned sums", found[0].data.get(), truth.sums, size.sums, roundings, u);
        if (!scan.weighted)
            here.compare("scanned gradients", found[1].data.get(), truth.grad_query, size.grad_query, roundings, u);
        for (std::size_t m = 0; m < at(scan.sets); ++m) {
            const Buffer<double>* of = &found[2 + 4 * m];
            for (Index i = 0; i < state; ++i)
                if (!counts(i / C % scan.rank, i % C)) of[0][i] = double(truth.after[m][at(i)]);
            here.compare("states after a scan", of[0].data.get(), truth.after[m], size.after[m], roundings, u);
            if (scan.weighted) continue;
            here.compare("scanned gradients", of[1].data.get(), truth.grad_keys[m], size.grad_keys[m], roundings, u);
            here.compare("scanned gradients", of[2].data.get(), truth.grad_values[m], size.grad_values[m], roundings, u);
            here.compare("scanned gradients", of[3].data.get(), truth.grad_before[m], size.grad_before[m], roundings, u);
        }
    }
}

// Attend the states of a stream from three threads, each with its own call and number of queries, while a fourth
// appends to a copy of the states: the results must have the same bits as sequential calls.
template <class T> void share(const separatrix_stream& call, Index rank) {
    const Index readers = 3, columns = call.d_v + 1, state = call.heads * rank * columns;
    struct Client {
        separatrix_stream call;
        Buffer<T> out;
        std::vector<Buffer<double>> states;
        int code = 0;
        double reached = 0, largest[SEPARATRIX_MOST_SETS] = {};

        void run() {
            code = states.empty() ? separatrix_stream_attend(&call, out.data.get(), &reached)
                                  : separatrix_stream_append(&call, largest);
        }
    };
    const auto clients = [&] {
        std::vector<Client> all(at(readers + 1));
        for (Index i = 0; i <= readers; ++i) {
            Client& client = all[at(i)];
            client.call = call;
            if (i < readers) {
                client.call.tokens = std::max<Index>(1, call.tokens - i);
                client.out = Buffer<T>(call.heads * client.call.tokens * call.d_v, T(0));
                continue;
            }
            for (Index m = 0; m < call.sets; ++m) {
                client.states.emplace_back(state);
                std::memcpy(client.states.back().data.get(), call.states[m], at(state) * sizeof(double));
                client.call.states[m] = client.states.back().data.get();
            }
        }
        return all;
    };
    std::vector<Client> in_turn = clients(), together = clients();
    for (Client& client : in_turn) client.run();
    std::vector<std::thread> threads;
    for (Client& client : together) threads.emplace_back([&client] { client.run(); });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < in_turn.size(); ++i) {
        const Client &one = in_turn[i], &other = together[i];
        finished(one.code), finished(other.code);
        bool equal = !one.out.size || same(one.out, other.out);
        for (std::size_t m = 0; m < one.states.size(); ++m) equal = equal && same(one.states[m], other.states[m]);
        if (!equal) throw Wrong("threads that share a stream give other bits than one after the other");
    }
}

// A stream: append tokens to states, and attend them; a token beyond the bound changes no state.
template <class T> void streams(Random& random, const std::vector<std::string>& names, std::vector<Worst>& worst) {
    const Tree tree(random);
    separatrix_stream call{};
    call.type = sizeof(T) == 4 ? SEPARATRIX_FLOAT32 : SEPARATRIX_FLOAT64;
    call.heads = random.whole(1, 5), call.sets = random.whole(1, 4), call.tokens = random.whole(1, 8);
    call.d_v = random.any_size(1, 40), call.set = &tree.set, call.norm = random.chance(0.5) ? 0 : random.whole(1, 4);
    call.most = 1.5 * (call.norm ? double(tree.d) : 1.0), call.checked = random.chance(0.2);
    const Index columns = call.d_v + 1, state = call.heads * tree.rank * columns, rows = call.heads * call.tokens;
    std::vector<Buffer<T>> held;
    std::vector<Buffer<double>> before;
    const auto drawn = [&](Index count) {
        held.push_back(numbers<T>(random, count));
        return held.back().data.get();
    };
    const Buffer<double> coefficients = numbers<double>(random, tree.rank);
    call.coefficients = coefficients.data.get();
    T* const query = drawn(rows * tree.d);
    call.query = query;
    call.factors[0] = random.between(0.2, 1);
    std::vector<T*> keys, values;
    for (Index m = 0; m < call.sets; ++m) {
        keys.push_back(drawn(rows * tree.d)), values.push_back(drawn(rows * call.d_v));
        call.keys[m] = keys.back(), call.values[m] = values.back(), call.factors[m + 1] = random.between(0.2, 1);
        before.push_back(numbers<double>(random, state));
    }
    std::vector<Wides> states[2];
    Wides sums[2];
    for (int size = 0; size < 2; ++size) {
        const auto given = [&](T y) { return size ? std::fabs(Wide(y)) : Wide(y); };
        const auto point = [&](const T* x, Index row, Index m) {
            Wides found;
            for (Index l = 0; l < tree.d; ++l) found.push_back(given(x[row * tree.d + l]) * Wide(call.factors[m]));
            return found;
        };
        for (Index m = 0; m < call.sets; ++m) {
            states[size].push_back(wide(before[at(m)], size));
            for (Index row = 0; row < rows; ++row) {
                const Wides phi = tree.monomials(point(keys[at(m)], row, m + 1).data());
                for (Index a = 0; a < tree.rank; ++a)
                    for (Index c = 0; c < columns; ++c)
                        states[size].back()[at((row / call.tokens * tree.rank + a) * columns + c)] +=
                            phi[at(a)] * (c < call.d_v ? given(values[at(m)][row * call.d_v + c]) : 1);
            }
        }
        sums[size].resize(at(rows * columns));
        const Wides coefficient = wide(coefficients, size);
        for (Index row = 0; row < rows; ++row) {
            const Wides phi = tree.monomials(point(query, row, 0).data());
            for (Index a = 0; a < tree.rank; ++a)
                for (Index c = 0; c < columns; ++c) {
                    Wide product = coefficient[at(a)] * phi[at(a)];
                    for (const Wides& one : states[size])
                        product *= one[at((row / call.tokens * tree.rank + a) * columns + c)];
                    sums[size][at(row * columns + c)] += product;
                }
        }
    }
    const Wide roundings = Wide((call.sets + 1) * (tree.depth * 2 + call.tokens + 8) + tree.rank + 64), u = UNIT<double>;
    const Wide gamma = roundings * u / (1 - roundings * u);
    Wides out, out_size;  // quotients, each with its bound over gamma
    std::vector<bool> known;
    for (Index row = 0; row < rows; ++row)
        for (Index c = 0; c < call.d_v; ++c) {
            const Wide D = sums[0][at(row * columns + call.d_v)], size = sums[1][at(row * columns + call.d_v)];
            const Wide quotient = sums[0][at(row * columns + c)] / D, left = std::fabs(D) - gamma * size;
            known.push_back(left > 0);
            out.push_back(known.back() ? quotient : 0);
            const Wide lost = (sums[1][at(row * columns + c)] + std::fabs(quotient) * size) / left;
            out_size.push_back(known.back() ? lost + std::fabs(quotient) * (1 + UNIT<T> / gamma) : 0);
        }
    for (std::size_t k = 0; k < names.size(); ++k) {
        separatrix_choose(names[k].c_str());
        std::vector<Buffer<double>> now;
        std::vector<double> largest(at(call.sets));
        for (Index m = 0; m < call.sets; ++m) {
            now.emplace_back(state);
            std::memcpy(now.back().data.get(), before[at(m)].data.get(), at(state) * sizeof(double));
            call.states[m] = now.back().data.get();
        }
        if (!call.checked) {  // a token beyond the bound is refused, and changes no state
            T& entry = keys[at(random.whole(0, call.sets - 1))][random.whole(0, rows * tree.d - 1)];
            const T kept = entry;
            entry = random.chance(0.5) ? T(1e3) : std::numeric_limits<T>::quiet_NaN();
            const int code = separatrix_stream_append(&call, largest.data());
            entry = kept;
            for (Index m = 0; m < call.sets; ++m)
                if (code != SEPARATRIX_REFUSED || !same(now[at(m)], before[at(m)])) throw Wrong("a token is not refused");
        }
        finished(separatrix_stream_append(&call, largest.data()));
        for (Index m = 0; m < call.sets; ++m)
            worst[k].compare("states of a stream", now[at(m)].data.get(), states[0][at(m)], states[1][at(m)], roundings, u);
        Buffer<T> found(rows * call.d_v);
        double reached = 0;
        finished(separatrix_stream_attend(&call, found.data.get(), &reached));
        for (Index i = 0; i < found.size; ++i) {
            const T size = std::fabs(found[i]);  // NaN if a denominator is 0; `reached` is then NaN, too
            if (!(size <= static_cast<T>(reached)) && reached == reached) throw Wrong("an output is beyond what is reached");
            if (!known[at(i)]) found[i] = T(0);
        }
        worst[k].compare("outputs of a stream", found.data.get(), out, out_size, roundings, u);
        share<T>(call, tree.rank);
    }
}

// The extremes of columns and the norms of tokens.
template <class T> void entries(Random& random, const std::vector<std::string>& names, std::vector<Worst>& worst) {
    separatrix_tokens call{};
    call.type = sizeof(T) == 4 ? SEPARATRIX_FLOAT32 : SEPARATRIX_FLOAT64;
    call.heads = random.whole(1, 3), call.d = random.any_size(1, 40);
    call.length = random.any_size(1, random.chance(0.1) ? 9000 : 100);
    Tensor<T> x = Tensor<T>::drawn(random, call.heads, call.length, call.d, std::numeric_limits<T>::quiet_NaN());
    for (Index h = 0; h < call.heads; ++h)
        for (Index t = 0; t < call.length; ++t)
            for (Index l = 0; l < call.d; ++l) x.at(h, t, l) = static_cast<T>(random.between(-1, 1));
    call.x = x.address();
    Tensor<unsigned char> mask;
    if (random.chance(0.5)) {
        mask = Tensor<unsigned char>::drawn(random, call.heads, call.length, 1, 1);
        for (Index h = 0; h < call.heads; ++h)
            for (Index t = 0; t < call.length; ++t) mask.at(h, t) = random.chance(0.8) ? 255 : 0;
        call.mask = mask.address();
    }
    separatrix_norm norm{};
    norm.power = random.whole(1, 6);
    const Buffer<double> factors = numbers<double>(random, call.heads * call.d, 2);
    Buffer<double> weights = numbers<double>(random, call.heads * call.d);
    for (Index i = 0; i < weights.size; ++i) weights[i] = std::fabs(weights[i]);
    norm.factors = factors.data.get(), norm.weights = weights.data.get();
    Wides least(at(call.heads * call.d), INFINITY), most(at(call.heads * call.d), -INFINITY), largest(at(call.heads));
    Wides powers(at(call.heads * call.length)), weighted(at(call.heads * call.length));
    for (Index h = 0; h < call.heads; ++h)
        for (Index t = 0; t < call.length; ++t) {
            if (mask.rows && !mask.at(h, t)) continue;
            const std::size_t row = at(h * call.length + t);
            for (Index l = 0; l < call.d; ++l) {
                const std::size_t column = at(h * call.d + l);
                const Wide entry = x.at(h, t, l), y = std::fabs(entry * Wide(factors[h * call.d + l]));
                least[column] = std::min(least[column], entry), most[column] = std::max(most[column], entry);
                powers[row] += std::pow(y, Wide(norm.power)), weighted[row] += y * Wide(weights[h * call.d + l]);
            }
            largest[at(h)] = std::max(largest[at(h)], powers[row]);
        }
    const Wide roundings = Wide(call.d + 2 * norm.power + 8), u = UNIT<double>;
    for (std::size_t k = 0; k < names.size(); ++k) {
        separatrix_choose(names[k].c_str());
        const auto found = with_threads([&] {
            std::vector<Buffer<double>> five;
            for (const Index count : {call.heads * call.d, call.heads * call.d, call.heads * call.length,
                                      call.heads * call.length, call.heads})
                five.emplace_back(count);
            norm.powers = five[2].data.get(), norm.weighted = five[3].data.get(), norm.largest = five[4].data.get();
            finished(separatrix_extremes(&call, five[0].data.get(), five[1].data.get()));
            finished(separatrix_norms(&call, &norm));
            return five;
        });
        for (std::size_t i = 0; i < least.size(); ++i)
            if (Wide(found[0][Index(i)]) != least[i] || Wide(found[1][Index(i)]) != most[i]) throw Wrong("extremes");
        worst[k].compare("norms", found[2].data.get(), powers, powers, roundings, u);
        worst[k].compare("norms", found[3].data.get(), weighted, weighted, roundings, u);
        worst[k].compare("norms", found[4].data.get(), largest, largest, roundings, u);
    }
}

void run(Random& random, const std::vector<std::string>& names, std::vector<Worst>& worst) {
    switch (random.whole(0, 10)) {
    case 0: return products<float>(random, names, worst);
    case 1: return products<double>(random, names, worst);
    case 2: return streams<float>(random, names, worst);
    case 3: return streams<double>(random, names, worst);
    case 4: return entries<float>(random, names, worst);
    case 5: return entries<double>(random, names, worst);
    case 6: return passes<float, float>(random, names, worst);
    case 7: return passes<float, double>(random, names, worst);
    case 8: return passes<double, float>(random, names, worst);
    case 9: return passes<double, double>(random, names, worst);
    default: return scans(random, names, worst);
    }
}

}  // namespace
}  // namespace fuzz

int main(int count, char** arguments) {
    if (count < 3) {
        std::fprintf(stderr, "usage: near_linear SEED COUNT [FIRST]\n");
        return 2;
    }
    const std::uint64_t seed = std::strtoull(arguments[1], nullptr, 10);
    const long cases = std::strtol(arguments[2], nullptr, 10);
    const long first = count > 3 ? std::strtol(arguments[3], nullptr, 10) : 0;
    const std::vector<std::string> names = fuzz::architectures();
    std::vector<fuzz::Worst> worst(names.size());
    for (long number = first; number < first + cases; ++number) try {
            fuzz::Random random(seed, std::uint64_t(number));
            fuzz::run(random, names, worst);
        } catch (const fuzz::Wrong& wrong) {
            std::printf("case %ld of seed %s, on %s: %s\n", number, arguments[1], separatrix_chosen(), wrong.what.c_str());
            return 1;
        }
    for (std::size_t k = 0; k < names.size(); ++k) {
        std::printf("%-9s %ld cases of seed %s, %ld numbers; the largest errors, as parts of their bounds:", names[k].c_str(),
                    cases, arguments[1], worst[k].compared);
        for (const auto& [name, error] : worst[k].errors) std::printf(" %s %.3f;", name.c_str(), error);
        std::printf("\n");
    }
    return 0;
}
