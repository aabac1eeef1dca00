// Two to a power, for a vector: the exponential of every kernel, whose scores are in units of log 2.
//
// With n the integer nearest to x and f = x - n, which is exact and lies in [-1/2, 1/2],
//
//     2^x = 2^n 2^f,    2^f = 1 + c_1 f + ... + c_g f^g + error,
//
// the polynomial of least relative error on that interval among those that are 1 at 0 (Remez' algorithm), of degree 6 in
// float and 11 in double. So a power of two with an integer exponent is exact, and the weight of a largest score is 1.
// 2^n is assembled from its bits. The argument must lie between LOWEST and the largest exponent of the type; NaN gives
// NaN. The tests prove by ball arithmetic that the error is below 2.4 units in the last place, and check every float
// between the two ends.
#pragma once

#include "vectors.hpp"

namespace separatrix {
namespace SEPARATRIX_ARCH {

template <class T> struct Exponential;

template <> struct Exponential<float> {
    static constexpr int DEGREE = 6;
    static constexpr float C[] = {1.0f,
                                  0.69314721496800627771f,
                                  0.24022652782868876169f,
                                  0.05550310551052779548f,
                                  0.0096176929758129145273f,
                                  0.0013406643887084073529f,
                                  0.00015594677269992374431f};
    // 3/2 times the power of two at which floating-point numbers are 1 apart, and the bias of the exponent.
    static constexpr float ROUNDER = 12582912.0f + 127.0f;
    static constexpr int MANTISSA = 23;
    static constexpr float LOWEST = -113.4f;
};

template <> struct Exponential<double> {
    static constexpr int DEGREE = 11;
    static constexpr double C[] = {1.0,
                                   0.69314718055994569676,
                                   0.24022650695910098007,
                                   0.055504108664790394169,
                                   0.0096181291076070022435,
                                   0.0013333558153440048206,
                                   0.00015403530441572391859,
                                   0.000015252727385119813008,
                                   1.3215442675168508284e-6,
                                   1.0180647688056841198e-7,
                                   7.0725704439098380192e-9,
                                   4.0780678341174945035e-10};
    static constexpr double ROUNDER = 6755399441055744.0 + 1023.0;
    static constexpr int MANTISSA = 52;
    static constexpr double LOWEST = -919.8;
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
