// Memory for the kernels, aligned to lines of the cache.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace separatrix {
namespace SEPARATRIX_ARCH {

// An array of `count` numbers whose first lies at a multiple of 64 bytes; its entries are not set.
template <class T> class Array {
public:
    explicit Array(std::int64_t count = 0) : data_(nullptr) {
        if (count > 0) {
            const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
            data_ = static_cast<T*>(std::aligned_alloc(64, bytes));
            if (!data_) throw std::bad_alloc();
        }
    }
    Array(Array&& other) noexcept : data_(other.data_) { other.data_ = nullptr; }
    Array& operator=(Array&& other) noexcept {
        std::swap(data_, other.data_);
        return *this;
    }
    ~Array() { std::free(data_); }

    operator T*() const { return data_; }

private:
    T* data_;
};

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
