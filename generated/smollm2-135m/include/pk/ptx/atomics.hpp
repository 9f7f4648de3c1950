// Loads, stores and read-modify-writes of global memory with an explicit order and scope.
// gpu: among the threads of this device. sys: seen by the host too.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

#define PK_PTX_LOAD(NAME, ORDER, TYPE, PTX, REG)                                         \
    __device__ __forceinline__ TYPE NAME(const TYPE* p) {                                \
        TYPE v;                                                                          \
        asm volatile("ld." ORDER "." PTX " %0, [%1];" : "=" REG(v) : "l"(p) : "memory"); \
        return v;                                                                        \
    }
#define PK_PTX_STORE(NAME, ORDER, TYPE, PTX, REG)                                     \
    __device__ __forceinline__ void NAME(TYPE* p, TYPE v) {                           \
        asm volatile("st." ORDER "." PTX " [%0], %1;" : : "l"(p), REG(v) : "memory"); \
    }
#define PK_PTX_ADD(NAME, ORDER, TYPE, PTX, REG)                                                              \
    __device__ __forceinline__ TYPE NAME(TYPE* p, TYPE v) {                                                  \
        TYPE old;                                                                                            \
        asm volatile("atom." ORDER ".add." PTX " %0, [%1], %2;" : "=" REG(old) : "l"(p), REG(v) : "memory"); \
        return old;                                                                                          \
    }

PK_PTX_LOAD(load_relaxed, "relaxed.gpu", std::uint32_t, "u32", "r")
PK_PTX_LOAD(load_relaxed, "relaxed.gpu", std::int32_t, "s32", "r")
PK_PTX_LOAD(load_acquire, "acquire.gpu", std::uint32_t, "u32", "r")
PK_PTX_LOAD(load_acquire, "acquire.gpu", std::uint64_t, "u64", "l")
PK_PTX_STORE(store_relaxed, "relaxed.gpu", std::uint32_t, "u32", "r")
PK_PTX_STORE(store_release, "release.gpu", std::uint32_t, "u32", "r")
PK_PTX_STORE(store_release, "release.gpu", std::uint64_t, "u64", "l")
PK_PTX_STORE(store_relaxed_system, "relaxed.sys", std::int32_t, "s32", "r")
PK_PTX_STORE(store_relaxed_system, "relaxed.sys", float, "f32", "f")
PK_PTX_STORE(store_release_system, "release.sys", std::uint32_t, "u32", "r")
PK_PTX_ADD(add_relaxed, "relaxed.gpu", std::uint32_t, "u32", "r")
PK_PTX_ADD(add_relaxed, "relaxed.gpu", std::int32_t, "s32", "r")
PK_PTX_ADD(add_acq_rel, "acq_rel.gpu", std::uint32_t, "u32", "r")

#undef PK_PTX_LOAD
#undef PK_PTX_STORE
#undef PK_PTX_ADD

// 16 bytes, 16-byte aligned, that are loaded and stored at once.
__device__ __forceinline__ uint4 load_relaxed(const uint4* p) {
    std::uint64_t low, high;
    asm volatile(
        "{\n"
        ".reg .b128 v;\n"
        "ld.relaxed.gpu.global.b128 v, [%2];\n"
        "mov.b128 {%0, %1}, v;\n"
        "}"
        : "=l"(low), "=l"(high)
        : "l"(p)
        : "memory");
    return {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
            static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)};
}
__device__ __forceinline__ void store_relaxed(uint4* p, uint4 v) {
    asm volatile(
        "{\n"
        ".reg .b128 v;\n"
        "mov.b128 v, {%1, %2};\n"
        "st.relaxed.gpu.global.b128 [%0], v;\n"
        "}"
        :
        : "l"(p), "l"(v.x | static_cast<std::uint64_t>(v.y) << 32),
          "l"(v.z | static_cast<std::uint64_t>(v.w) << 32)
        : "memory");
}

// *p = desired if it was expected; what it was.
__device__ __forceinline__ std::uint32_t compare_exchange_relaxed(std::uint32_t* p, std::uint32_t expected,
                                                                  std::uint32_t desired) {
    std::uint32_t old;
    asm volatile("atom.relaxed.gpu.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(old)
                 : "l"(p), "r"(expected), "r"(desired)
                 : "memory");
    return old;
}

}  // namespace pk::ptx
