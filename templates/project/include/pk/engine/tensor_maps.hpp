// The maps by which the copy engine knows the caller's matrices and the gathered rows.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <tuple>
#include <type_traits>

#include "pk/engine/versioned.hpp"
#include "pk/lcsc/loader.hpp"

namespace pk::engine {

// Looked up at run time, so that the library needs no libcuda to link or to load.
class MapEncoder {
public:
    MapEncoder() {
        static constexpr unsigned version = 12000;  // the function as of CUDA 12.0
        void* found = nullptr;
        cudaDriverEntryPointQueryResult result{};
        const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, version,
                                                                   cudaEnableDefault, &result);
        if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr) {
            (void)cudaGetLastError();
            fail(Status::unsupported_device, "the CUDA driver has no cuTensorMapEncodeTiled, expected that ",
                 "of CUDA 12.0 or later");
        }
        encode_ = reinterpret_cast<decltype(encode_)>(found);
    }

    // `rows` of k elements, `stride` elements apart, in boxes of `box_rows` rows by 128 bytes as a ring's
    // page has them. What lies outside reads as zeros.
    ptx::TensorMap operator()(CUtensorMapDataType type, const void* data, std::uint32_t rows, std::uint32_t k,
                              std::uint32_t stride, std::uint32_t box_rows) const {
        const cuuint64_t sizes[2] = {k, rows};
        const cuuint64_t strides[1] = {std::uint64_t{stride} * 2};
        const cuuint32_t box[2] = {64, box_rows};
        const cuuint32_t steps[2] = {1, 1};
        CUtensorMap encoded{};
        const CUresult result =
            encode_(&encoded, type, 2, const_cast<void*>(data), sizes, strides, box, steps,
                    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        if (result != CUDA_SUCCESS) {
            fail(Status::cuda_error, "the CUDA driver cannot describe the matrix at ", data, " (", rows,
                 " rows of ", k, ", ", stride, " apart) to the copy engine: error ",
                 static_cast<int>(result));
        }
        ptx::TensorMap map;
        static_assert(sizeof map == sizeof encoded);
        std::memcpy(&map, &encoded, sizeof map);
        return map;
    }

private:
    decltype(&::cuTensorMapEncodeTiled) encode_ = nullptr;
};

// Those made before. A map says where a matrix lies and how large it is, not what is in it, so it stays right
// when the memory is freed and given to another matrix.
template <class Type>
class TensorMaps {
public:
    const ptx::TensorMap& of(const void* data, std::uint32_t rows, std::uint32_t k, std::uint32_t stride,
                             std::uint32_t box_rows) {
        const Key key{data, rows, k, stride, box_rows};
        auto found = known_.find(key);
        if (found == known_.end()) {
            if (known_.size() >= most) known_.clear();
            found = known_.emplace(key, encode_(type, data, rows, k, stride, box_rows)).first;
        }
        return found->second;
    }

private:
    using Key = std::tuple<const void*, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
    static constexpr std::size_t most = 256;
    static constexpr CUtensorMapDataType type = std::is_same_v<Type, ptx::OfBf16>
                                                    ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                    : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    MapEncoder encode_;
    std::map<Key, ptx::TensorMap> known_;
};

}  // namespace pk::engine
