// Arrays that a task reads and writes: plain memory on the host, device memory with a host copy on a GPU.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "pk/tile/bf16.hpp"

namespace testing {

#if PK_CUDA
inline void require(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    std::printf("FAIL %s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
}
#endif

class AnyArray {
public:
    AnyArray() { all().push_back(this); }
    AnyArray(const AnyArray&) = delete;
    AnyArray& operator=(const AnyArray&) = delete;
    virtual ~AnyArray() { std::erase(all(), this); }
    virtual void push() = 0;  // host to device
    virtual void pull() = 0;  // device to host

    static std::vector<AnyArray*>& all() {
        static std::vector<AnyArray*> arrays;
        return arrays;
    }
};

template <class T>
class Array final : public AnyArray {
public:
    explicit Array(std::size_t count, T value = T{}) : host_(count, value) {
#if PK_CUDA
        require(cudaMalloc(&device_, count * sizeof(T) + 1), "cudaMalloc");
#endif
    }
    ~Array() override {
#if PK_CUDA
        cudaFree(device_);
#endif
    }
    T& operator[](std::size_t i) { return host_[i]; }
    const T& operator[](std::size_t i) const { return host_[i]; }
    std::size_t size() const { return host_.size(); }
    const std::vector<T>& values() const { return host_; }
    void assign(const std::vector<T>& values) { host_ = values; }

#if PK_CUDA
    T* data() { return device_; }
    void push() override {
        require(cudaMemcpy(device_, host_.data(), host_.size() * sizeof(T), cudaMemcpyHostToDevice), "push");
    }
    void pull() override {
        require(cudaMemcpy(host_.data(), device_, host_.size() * sizeof(T), cudaMemcpyDeviceToHost), "pull");
    }
#else
    T* data() { return host_.data(); }
    void push() override {}
    void pull() override {}
#endif

private:
    std::vector<T> host_;
#if PK_CUDA
    T* device_ = nullptr;
#endif
};

// What an output holds before a task writes it.
inline constexpr float poison = 1.7014118e38f;
inline constexpr pk::tile::bf16 poison_bf16{0x7f00};

inline bool is_poison(float value) {
    return value == poison;
}
inline bool is_poison(pk::tile::bf16 value) {
    return value.bits == poison_bf16.bits;
}
inline bool same_bits(float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}
inline bool same_bits(pk::tile::bf16 a, pk::tile::bf16 b) {
    return a.bits == b.bits;
}

inline double widen(float value) {
    return value;
}
inline double widen(pk::tile::bf16 value) {
    return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

inline pk::tile::bf16 narrow(double value) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return {static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

inline std::mt19937_64& generator() {
    static std::mt19937_64 engine(20260101);
    return engine;
}

inline double normal(double deviation = 1) {
    return std::normal_distribution<double>(0, deviation)(generator());
}

inline std::uint32_t below(std::uint32_t bound) {
    return std::uniform_int_distribution<std::uint32_t>(0, bound - 1)(generator());
}

// A matrix with padded rows: random data, zero padding.
template <class T>
class Matrix {
public:
    Matrix(std::uint32_t rows, std::uint32_t cols, double deviation = 1)
        : rows(rows), cols(cols), stride(pk::tile::padded(cols)), array(std::size_t{rows} * stride) {
        for (std::uint32_t r = 0; r < rows; ++r) {
            for (std::uint32_t c = 0; c < cols; ++c) set(r, c, normal(deviation));
        }
    }
    void set(std::uint32_t r, std::uint32_t c, double value) {
        if constexpr (std::is_same_v<T, float>) {
            at(r, c) = static_cast<float>(value);
        } else {
            at(r, c) = narrow(value);
        }
    }
    T& at(std::uint32_t r, std::uint32_t c) { return array[std::size_t{r} * stride + c]; }
    double value(std::uint32_t r, std::uint32_t c) { return widen(at(r, c)); }
    // Everything, the padding apart, becomes poison.
    void spoil() {
        for (std::uint32_t r = 0; r < rows; ++r) {
            for (std::uint32_t c = 0; c < cols; ++c) {
                if constexpr (std::is_same_v<T, float>) {
                    at(r, c) = poison;
                } else {
                    at(r, c) = poison_bf16;
                }
            }
        }
    }
    // Whether the padding is still zero.
    bool padding_intact() {
        for (std::uint32_t r = 0; r < rows; ++r) {
            for (std::uint32_t c = cols; c < stride; ++c) {
                if (!same_bits(at(r, c), T{})) return false;
            }
        }
        return true;
    }

    std::uint32_t rows, cols, stride;
    Array<T> array;
};

}  // namespace testing
