// Memory for the kernels, aligned to cache lines.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace separatrix {

// Count `bytes` that were allocated (or freed, if negative), because the memory of a call is part of its cost.
void count_bytes(std::int64_t bytes);

namespace SEPARATRIX_ARCH {

// An array of `count` numbers, aligned to 64 bytes and not initialised.
template <class T> class Array {
public:
    explicit Array(std::int64_t count = 0) : data_(nullptr), bytes_(0) {
        if (count <= 0) return;
        const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
        data_ = static_cast<T*>(std::aligned_alloc(64, bytes));
        if (!data_) throw std::bad_alloc();
        bytes_ = static_cast<std::int64_t>(bytes);
        count_bytes(bytes_);
    }
    Array(Array&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
        other.data_ = nullptr;
        other.bytes_ = 0;
    }
    Array& operator=(Array&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~Array() {
        if (data_) count_bytes(-bytes_);
        std::free(data_);
    }

    operator T*() const { return data_; }

private:
    T* data_;
    std::int64_t bytes_;
};

template <class T> inline Array<T> zeros(std::int64_t count) {
    Array<T> made(count);
    if (count > 0) std::memset(static_cast<T*>(made), 0, static_cast<std::size_t>(count) * sizeof(T));
    return made;
}

}  // namespace SEPARATRIX_ARCH
}  // namespace separatrix
