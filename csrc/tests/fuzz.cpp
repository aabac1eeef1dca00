// Random calls of the C interface against literal loops, for every architecture that this processor runs.
//
//     fuzz SEED COUNT [FIRST]
//
// runs the cases FIRST to FIRST + COUNT - 1 of a seed. For each case it compares the two passes of exact attention with
// literal.hpp and the range of its factors with a loop over them. It checks that a NaN among the values shows in the
// output of every query that attends it, that three threads give the same bits as one, and that a call in a half type
// gives the results of the call in float, each rounded once, or is within the bounds of bfloat16 products. It compares
// the bfloat16 instructions with their description, prints the largest errors relative to their bounds, and exits with
// 1 at the first failing case.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cases.hpp"
#include "instructions.hpp"
#include "literal.hpp"
#include "running.hpp"

namespace fuzz {
namespace {

// The initial value of a result: NaN.
template <class S> S unwritten() { return std::numeric_limits<S>::quiet_NaN(); }
template <> std::uint16_t unwritten() { return 0x7fff; }

// Everything that the two passes write for tensors of type S, computed in type T.
template <class T, class S = T> struct Results {
    Buffer<S> out, grad_query;
    Buffer<T> lse;
    std::vector<Buffer<S>> grad_keys, grad_values;
    int code;

    Results(const Case<T>& drawn, const Literal<T>& expected) : Results(drawn.call, expected.gradients()) {}

    Results(const separatrix_call& call, separatrix_gradients gradients) {
        const Index rows = call.heads * call.query_length, heads = call.heads / call.shared;
        out = made(rows * call.d_v), lse = Buffer<T>(rows), grad_query = made(rows * call.d);
        gradients.grad_query = grad_query.data.get();
        for (Index m = 0; m < call.sets; ++m) {
            grad_keys.push_back(made(heads * call.lengths[m] * call.d));
            grad_values.push_back(made(heads * call.lengths[m] * call.d_v));
            gradients.grad_keys[m] = grad_keys.back().data.get();
            gradients.grad_values[m] = grad_values.back().data.get();
        }
        code = separatrix_exact_forward(&call, out.data.get(), lse.data.get());
        if (!code) code = separatrix_exact_backward(&call, &gradients);
    }

    static Buffer<S> made(Index count) { return Buffer<S>(count, unwritten<S>()); }

    bool operator==(const Results& other) const {
        bool same = equal(out, other.out) && equal(lse, other.lse) && equal(grad_query, other.grad_query);
        for (std::size_t m = 0; m < grad_keys.size(); ++m)
            same = same && equal(grad_keys[m], other.grad_keys[m]) && equal(grad_values[m], other.grad_values[m]);
        return same;
    }

    template <class X> static bool equal(const Buffer<X>& a, const Buffer<X>& b) {
        return !a.size || !std::memcmp(a.data.get(), b.data.get(), std::size_t(a.size) * sizeof(X));
    }
};

// The largest errors so far of an architecture, relative to their bounds.
struct Worst {
    double forward = 0, backward = 0, narrow = 0;
    long compared = 0, planted = 0, threaded = 0, halved = 0, narrowed = 0;
};

template <class T>
void compare(const char* name, const Buffer<T>& got, const Expected& expected, double& worst, Worst& of) {
    for (Index i = 0; i < got.size; ++i) {
        const Wide truth = expected.truth[std::size_t(i)], bound = expected.bound[std::size_t(i)];
        const Wide error = truth == Wide(got[i]) ? 0 : std::fabs(Wide(got[i]) - truth);
        if (!(error <= bound)) {
            char told[200];
            std::snprintf(told, sizeof told, "%s at %ld: expected %.17Lg within %.3Lg, got %.17g", name, long(i), truth,
                          bound, double(got[i]));
            throw Wrong(told);
        }
        // Weights that are raised to the smallest weight have exactly the largest allowed error, so they are not
        // recorded.
        if (bound > (sizeof(T) == 4 ? 0x1p-100L : 0x1p-900L)) worst = std::max(worst, double(error / bound));
        ++of.compared;
    }
}

template <class T> void compare_all(const Results<T>& got, const Literal<T>& expected, Worst& worst) {
    compare("out", got.out, expected.out, worst.forward, worst);
    compare("lse", got.lse, expected.lse, worst.forward, worst);
    compare("grad_query", got.grad_query, expected.grad_query, worst.backward, worst);
    for (std::size_t m = 0; m < got.grad_keys.size(); ++m) {
        compare("grad_keys", got.grad_keys[m], expected.grad_keys[m], worst.backward, worst);
        compare("grad_values", got.grad_values[m], expected.grad_values[m], worst.backward, worst);
    }
}

// The largest product of values, column by column, as a logarithm; and the comparisons at both ends.
template <class T> void compare_range(const Case<T>& drawn) {
    const separatrix_call& call = drawn.call;
    double largest = -INFINITY;
    bool numbers = true;
    for (Index h = 0; h < call.heads; ++h) {
        for (Index i = 0; i < call.query_length; ++i)
            for (Index l = 0; l < call.d; ++l) numbers = numbers && !std::isnan(drawn.query.at(h, i, l));
        for (Index c = 0; c < std::max(call.d, call.d_v); ++c) {
            double log = 0;
            for (Index m = 0; m < call.sets; ++m) {
                double most = 0;
                for (Index j = 0; j < call.lengths[m]; ++j) {
                    if (!drawn.seen(m, h, j)) continue;
                    if (c < call.d) numbers = numbers && !std::isnan(drawn.key(m, h, j, c));
                    if (c >= call.d_v) continue;
                    const double value = std::fabs(double(drawn.value(m, h, j, c)));
                    numbers = numbers && !std::isnan(value);
                    most = std::max(most, value);
                }
                log += std::log2(most);
            }
            if (c < call.d_v) largest = std::max(largest, log);
        }
    }
    for (const double room : {1e300, -1e300}) {
        separatrix_range found{};
        found.room = found.near = room;
        if (separatrix_exact_range(&call, &found)) throw Wrong("the range was not found");
        const Index fits = numbers && room > 0;
        if (found.moderate != fits || found.near_one != fits) throw Wrong("the range is not what it is");
        if (numbers && found.log_output != largest && !(std::fabs(found.log_output - largest) <= (sizeof(T) == 4 ? 1e-5 : 1e-12)))
            throw Wrong("the largest product of values is not that");
    }
}

// The numbers of bfloat16, widened, with random bits.
Buffer<float> widened(const Buffer<std::uint16_t>& x) {
    Buffer<float> wide(x.size);
    for (Index i = 0; i < x.size; ++i) {
        const std::uint32_t bits = std::uint32_t(x[i]) << 16;
        std::memcpy(&wide[i], &bits, sizeof bits);
    }
    return wide;
}

// The same call in the half type of its numbers: the results of the call in float, rounded, bit for bit; or, if
// bfloat16 products may be used, a forward pass within their bounds.
void compare_half(const Case<float>& drawn, const Literal<float>& expected, const Results<float>& wide, Worst& worst) {
    std::vector<Buffer<std::uint16_t>> kept;
    const auto halved = [&](const Buffer<float>& x, separatrix_tensor& address, Index first) {
        kept.emplace_back(x.size, std::uint16_t(0));
        for (Index i = 0; i < x.size; ++i) kept.back()[i] = half_bits(drawn.half, double(x[i]));
        address.data = kept.back().data.get() + first;
    };
    separatrix_call call = drawn.call;
    separatrix_gradients gradients = expected.gradients();
    call.type = drawn.half;
    halved(drawn.query.buffer, call.query, drawn.query.first);
    halved(expected.given_out, gradients.out, 0);
    halved(drawn.grad_out.buffer, gradients.grad_out, drawn.grad_out.first);
    for (std::size_t m = 0; m < drawn.keys.size(); ++m) {
        halved(drawn.keys[m].buffer, call.keys[m], drawn.keys[m].first);
        halved(drawn.values[m].buffer, call.values[m], drawn.values[m].first);
    }
    const Results<float, std::uint16_t> got(call, gradients);
    if (got.code) throw Wrong("a kernel gave an error for a half type");
    separatrix_levels levels;
    separatrix_exact_levels(&call, &levels);
    const auto same = [&](const char* name, const Buffer<std::uint16_t>& half, const Buffer<float>& full) {
        for (Index i = 0; i < half.size; ++i, ++worst.halved)
            if (half[i] != half_bits(drawn.half, nearest(drawn.half, double(full[i]))))
                throw Wrong(std::string(name) + " of a half type is not that of float, rounded");
    };
    if (levels.is_narrow) {
        compare("out in bfloat16", widened(got.out), expected.narrow_out, worst.narrow, worst);
        compare("lse in bfloat16", got.lse, expected.narrow_lse, worst.narrow, worst);
        worst.narrowed += !got.equal(got.lse, wide.lse);
    } else {
        if (!got.equal(got.lse, wide.lse)) throw Wrong("lse of a half type is another than that of float");
        same("out", got.out, wide.out);
    }
    same("grad_query", got.grad_query, wide.grad_query);
    for (std::size_t m = 0; m < drawn.keys.size(); ++m) {
        same("grad_keys", got.grad_keys[m], wide.grad_keys[m]);
        same("grad_values", got.grad_values[m], wide.grad_values[m]);
    }
    separatrix_range range{}, wide_range{};
    range.room = wide_range.room = 93, range.near = wide_range.near = 16;
    if (separatrix_exact_range(&call, &range) || separatrix_exact_range(&drawn.call, &wide_range) ||
        std::memcmp(&range, &wide_range, sizeof range))
        throw Wrong("the range of a half type is another than that of float");
}

// Set one entry of the query, a key or a value to NaN: every result that depends on it must be NaN.
template <class T> void plant(Random& random, const Case<T>& drawn, const Literal<T>& expected, Worst& worst) {
    const separatrix_call& call = drawn.call;
    const Index m = random.whole(0, call.sets - 1), which = random.whole(0, 2);
    const Tensor<T>& x = which == 0 ? drawn.query : (which == 1 ? drawn.keys : drawn.values)[std::size_t(m)];
    if (x.shared() || !x.rows) return;
    const Index h = random.whole(0, x.heads - 1), r = random.whole(0, x.rows - 1), c = random.whole(0, x.columns - 1);
    const T kept = x.at(h, r, c);
    x.at(h, r, c) = random.chance(0.5) ? std::numeric_limits<T>::quiet_NaN() : -std::numeric_limits<T>::quiet_NaN();
    const Results<T> got(drawn, expected);
    compare_range(drawn);
    x.at(h, r, c) = kept;
    const Index heads = which == 0 ? 1 : call.shared;  // of queries that read this entry
    for (Index at = 0; at < heads * call.query_length; ++at) {
        const Index of = h * heads + at / call.query_length, i = at % call.query_length;
        bool attends = which != 0 || i == r;
        for (Index other = 0; other < call.sets && attends; ++other) {
            bool some = false;
            for (Index j = 0; j < call.lengths[other]; ++j)
                some = some || (drawn.may(other, of, i, j) && (which == 0 || other != m || j == r));
            attends = some;
        }
        const Index row = of * call.query_length + i;
        for (Index column = 0; attends && column < call.d_v; ++column)
            if ((which != 2 || column == c) && !std::isnan(got.out[row * call.d_v + column]))
                throw Wrong("out is a number, for a query that attends what is none");
        if (attends && which != 2 && !std::isnan(got.lse[row]))
            throw Wrong("lse is a number, of scores of which one is none");
        worst.planted += attends;
    }
}

void most_of(separatrix_levels& most, const separatrix_levels& other) {
    most.chunk = std::max(most.chunk, other.chunk), most.rows = std::max(most.rows, other.rows);
    most.tiles = std::max(most.tiles, other.tiles), most.chunks = std::max(most.chunks, other.chunks);
    most.query_block = std::max(most.query_block, other.query_block);
    most.query_blocks = std::max(most.query_blocks, other.query_blocks);
    most.pairs = std::max(most.pairs, other.pairs), most.groups = std::max(most.groups, other.groups);
}

template <class T> void run(Random& random, std::vector<std::string>& names, std::vector<Worst>& worst) {
    const Case<T> drawn(random);
    separatrix_levels levels{};
    separatrix_call call = drawn.call;
    for (const std::string& name : names)
        for (const Index type : {drawn.call.type, drawn.half}) {
            separatrix_levels own;
            call.type = type;
            separatrix_choose(name.c_str());
            separatrix_exact_levels(&call, &own);
            most_of(levels, own);
        }
    const Literal<T> expected(drawn, levels);
    const bool threaded = random.chance(0.2), planted = random.chance(0.2);
    const Random from_here = random;
    for (std::size_t k = 0; k < names.size(); ++k) try {
            separatrix_choose(names[k].c_str());
            const Results<T> got(drawn, expected);
            if (got.code) throw Wrong("a kernel gave the error " + std::to_string(got.code));
            compare_all(got, expected, worst[k]);
            compare_range(drawn);
            if constexpr (sizeof(T) == 4)
                if (drawn.half != drawn.call.type) compare_half(drawn, expected, got, worst[k]);
            separatrix_highest_bytes();
            if (separatrix_highest_bytes()) throw Wrong("memory is held though no call is running");
            if (threaded) {
                use_threads(true);
                const Results<T> again(drawn, expected);
                use_threads(false);
                if (!(got == again)) throw Wrong("three threads give other bits than one");
                ++worst[k].threaded;
            }
            random = from_here;
            if (planted) plant(random, drawn, expected, worst[k]);
        } catch (const Wrong& wrong) {
            throw Wrong(names[k] + ": " + wrong.what + "\n  " + drawn.described());
        }
}

}  // namespace
}  // namespace fuzz

int main(int count, char** arguments) {
    if (count < 3) {
        std::fprintf(stderr, "usage: fuzz SEED COUNT [FIRST]\n");
        return 2;
    }
    const std::uint64_t seed = std::strtoull(arguments[1], nullptr, 10);
    const long cases = std::strtol(arguments[2], nullptr, 10);
    const long first = count > 3 ? std::strtol(arguments[3], nullptr, 10) : 0;
    std::vector<std::string> names = fuzz::architectures();
    std::vector<fuzz::Worst> worst(names.size());
    for (long number = first; number < first + cases; ++number) try {
            fuzz::Random random(seed, std::uint64_t(number)), bits(seed + 1, std::uint64_t(number));
            for (int k = 0; separatrix_runs("avx512_bf16") && k < 100; ++k) fuzz::compare_instructions(bits);
            if (separatrix_runs("avx512_amx")) fuzz::compare_tiles(bits);
            if (random.chance(0.5)) fuzz::run<float>(random, names, worst);
            else fuzz::run<double>(random, names, worst);
        } catch (const fuzz::Wrong& wrong) {
            std::printf("case %ld of seed %s: %s\n", number, arguments[1], wrong.what.c_str());
            return 1;
        }
    for (std::size_t k = 0; k < names.size(); ++k)
        std::printf("%-9s %ld cases of seed %s, %ld numbers: largest error %.3f of its bound forward, %.3f backward, "
                    "%.3f in bfloat16 (%ld calls); %ld cases with threads, %ld queries that attend a NaN, %ld numbers of half types\n",
                    names[k].c_str(), cases, arguments[1], worst[k].compared, worst[k].forward, worst[k].backward,
                    worst[k].narrow, worst[k].narrowed, worst[k].threaded, worst[k].planted, worst[k].halved);
    return 0;
}
