// Where a rank runs, and what it has of a matrix there.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#ifdef EMBED_CUDA
#include <cuda_runtime_api.h>

constexpr bool cuda = true;

inline void check(cudaError_t error) {
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

inline int count_gpus() {
    int count = 0;
    check(cudaGetDeviceCount(&count));
    return count;
}

// A GPU, and a stream of the rank's own: ranks wait for each other, so none may be queued behind another.
struct Place {
    explicit Place(int rank) : gpu(rank % count_gpus()) {
        check(cudaSetDevice(gpu));
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { cudaStreamDestroy(stream); }

    int gpu;
    cudaStream_t stream = nullptr;
};
#else
constexpr bool cuda = false;

inline int count_gpus() {
    return 0;
}

struct Place {
    explicit Place(int) {}
    int gpu = -1;
    void* stream = nullptr;
};
#endif

// bf16 is a float with fewer bits; of positive numbers, neither tiny nor huge.
constexpr std::uint32_t dropped_bits = 16;
constexpr std::uint32_t exponent_offset = 0;

inline std::uint16_t to_element(float number) {
    const std::uint32_t half = 1u << (dropped_bits - 1);
    return static_cast<std::uint16_t>(((std::bit_cast<std::uint32_t>(number) + half) >> dropped_bits) -
                                      exponent_offset);
}

inline float to_float(std::uint16_t element) {
    return std::bit_cast<float>((element + exponent_offset) << dropped_bits);
}

// An axis of a matrix as one rank has it.
struct Axis {
    std::uint32_t begin, count;
};

inline Axis whole(std::uint32_t size) {
    return {0, size};
}

// Equal parts, the last ones what is left, maybe nothing.
inline Axis part(std::uint32_t size, std::uint32_t rank, std::uint32_t world) {
    const std::uint32_t each = (size + world - 1) / world, begin = std::min(size, rank * each);
    return {begin, std::min(each, size - begin)};
}

// Rows without gaps between them: on the host, and where the kernel reads and writes them.
class Matrix {
public:
    Matrix(const Place& place, Axis rows, Axis columns)
        : rows(rows), columns(columns), place_(place), elements_(std::size_t{rows.count} * columns.count) {
#ifdef EMBED_CUDA
        check(cudaMalloc(&data_, bytes()));
#else
        data_ = elements_.data();  // `new` gives multiples of 16, as the library wants
#endif
    }
    Matrix(const Matrix&) = delete;
    Matrix& operator=(const Matrix&) = delete;
#ifdef EMBED_CUDA
    ~Matrix() { cudaFree(data_); }
#endif

    // Element (i, j), counted over all ranks, becomes value(i, j).
    template <class Value>
    void fill(Value value) {
        auto element = elements_.begin();
        for (std::uint32_t i = 0; i < rows.count; ++i) {
            for (std::uint32_t j = 0; j < columns.count; ++j) {
                *element++ = to_element(value(rows.begin + i, columns.begin + j));
            }
        }
        copy(data_, elements_.data());
    }

    // The last element that this rank has.
    float last() {
        copy(elements_.data(), data_);
        return to_float(elements_.back());
    }

    void* data() const { return data_; }

    const Axis rows, columns;

private:
    std::size_t bytes() const { return elements_.size() * sizeof(std::uint16_t); }

    void copy([[maybe_unused]] void* to, [[maybe_unused]] const void* from) {
#ifdef EMBED_CUDA
        check(cudaMemcpyAsync(to, from, bytes(), cudaMemcpyDefault, place_.stream));
        check(cudaStreamSynchronize(place_.stream));
#endif
    }

    [[maybe_unused]] const Place& place_;
    std::vector<std::uint16_t> elements_;
    void* data_ = nullptr;
};
