// Two to a power, for a vector: the exponential of every kernel, whose scores are in units of log 2.
//
// With n the whole number next to x and f = x - n, which is exact and lies in [-1/2, 1/2],
//
//     2^x = 2^n 2^f,    2^f = c_0 + c_1 f + ... + c_g f^g + error,
//
// the polynomial of least relative error on that interval (Remez' algorithm), of degree 5 in float and 11 in double. In
// float, coefficients are the floats, with c_0 = 1, for which the errors of the polynomial and of its evaluation are
// least together: each next to what is best for those after it once those before it are fixed.
// 2^n is put together from its bits. The powers that are asked for lie between LOWEST and the largest exponent of the
// type; what is not a number stays so. The tests prove by interval arithmetic that results err by less than 3.2 units in
// float and 2.31 in double, and look at every float there is between the two ends.
#pragma once

#include "vectors.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

template <class T> struct Exponential;

template <> struct Exponential<float> {
    static constexpr int DEGREE = 5;
    static constexpr float C[] = {1.0f,          0.693146884f,   0.240222111f,
                                  0.0555086471f, 0.0096729761f, 0.00132259855f};
    // 3/2 times the power of two whose neighbours are whole numbers apart, and the bias of the exponent.
    static constexpr float ROUNDER = 12582912.0f + 127.0f;
    static constexpr int MANTISSA = 23;
    static constexpr float LOWEST = -113.0f;
};

template <> struct Exponential<double> {
    static constexpr int DEGREE = 11;
    static constexpr double C[] = {0.9999999999999999971,     0.69314718055994533046,   0.24022650695910156205,
                                   0.055504108664819921483,   0.0096181291075883350833, 0.0013333558146789950323,
                                   0.00015403530462514613026, 0.0000152527334899608046, 1.3215433089594629037e-6,
                                   1.0178198033328527662e-7,  7.0741056262456593708e-9, 4.4352809446103361611e-10};
    static constexpr double ROUNDER = 6755399441055744.0 + 1023.0;
    static constexpr int MANTISSA = 52;
    static constexpr double LOWEST = -919.0;
};

template <class T> inline Vector<T> exp2(Vector<T> x) {
    using E = Exponential<T>;
    const Vector<T> shifted = x + E::ROUNDER;
    const Vector<T> f = x - (shifted - E::ROUNDER);
    Vector<T> p = all<T>(E::C[E::DEGREE]);
    for (int i = E::DEGREE - 1; i >= 0; --i) p = multiply_add(p, f, all<T>(E::C[i]));
    const Bits<T> power = (Bits<T>)shifted << E::MANTISSA;
    return p * (Vector<T>)power;
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
