// Memory that the caller owns, of other ranks: raw pointers inside a process, cudaIpc handles for memory of
// cudaMalloc, file descriptors for VMM memory that was made to be exported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "pk/bootstrap/cuda/memory.hpp"

namespace pk::bootstrap::cuda {

// What a rank tells the others about its memory.
struct ViewOffer {
    enum class Kind : std::uint32_t { nothing, malloc, vmm };
    Kind kind = Kind::nothing;
    std::int32_t device = -1;
    std::uint64_t data = 0;    // the address at the owner
    std::uint64_t offset = 0;  // of the data in its allocation
    std::uint64_t size = 0;    // of the allocation
    std::uint64_t handle = 0;  // vmm: for ranks of the owner's process
    cudaIpcMemHandle_t ipc{};
};

// What the owner keeps while the others map.
struct OfferedMemory {
    ViewOffer offer;
    VmmHandle handle;
    UniqueFd fd;
};

// The memory must be one allocation on `device`. `exported`: some rank is in another process.
inline OfferedMemory offer_memory(void* mine, std::size_t bytes, int device, bool exported) {
    OfferedMemory offered;
    if (mine == nullptr) return offered;
    cudaPointerAttributes about{};
    check(cudaPointerGetAttributes(&about, mine), "say what the memory to share is");
    if (about.type != cudaMemoryTypeDevice || about.device != device) {
        fail(Status::invalid_argument, "the memory to share is ",
             about.type == cudaMemoryTypeManaged  ? "managed memory"
             : about.type == cudaMemoryTypeDevice ? "on another device"
                                                  : "host memory",
             ", expected memory of device ", device);
    }
    const Driver& driver = Driver::get();
    const auto data = reinterpret_cast<CUdeviceptr>(mine);
    CUmemoryPool pool = nullptr;
    if (driver.pointer_attribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, data) == CUDA_SUCCESS &&
        pool != nullptr) {
        fail(
            Status::unsupported,
            "the memory to share is of cudaMallocAsync, expected memory of cudaMalloc: that of a pool is not "
            "seen by others");
    }
    CUdeviceptr base = 0;
    std::size_t size = 0;
    driver.check(driver.address_range(&base, &size, data), "find the allocation of the memory to share");
    if (data + bytes > base + size) {
        fail(Status::unsupported, "the memory to share, ", bytes,
             " bytes, reaches over the end of its allocation of ", size,
             " bytes, expected one allocation (PyTorch: expandable_segments off)");
    }
    ViewOffer& offer = offered.offer;
    offer.device = device;
    offer.data = data;
    offer.offset = data - base;
    offer.size = size;
    CUmemGenericAllocationHandle handle = 0;
    if (driver.retain(&handle, mine) == CUDA_SUCCESS) {
        offered.handle = VmmHandle(handle);
        offer.kind = ViewOffer::Kind::vmm;
        offer.handle = handle;
        if (!exported) return offered;
        CUmemAllocationProp properties{};
        driver.check(driver.properties(&properties, handle), "say how the memory to share was made");
        if ((properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0) {
            fail(Status::unsupported,
                 "the memory to share is VMM memory that was not made to be exported, expected handle type "
                 "POSIX_FILE_DESCRIPTOR or memory of cudaMalloc");
        }
        offered.fd = export_vmm_memory(offered.handle);
        return offered;
    }
    offer.kind = ViewOffer::Kind::malloc;
    if (exported) {
        check(cudaIpcGetMemHandle(&offer.ipc, reinterpret_cast<void*>(base)),
              "make a handle of the memory to share for other processes");
    }
    return offered;
}

// The part of a mapping that was shown; keeps all of it.
inline std::shared_ptr<char> part_of(std::shared_ptr<char> whole, std::size_t offset) {
    char* data = whole.get() + offset;
    return {std::move(whole), data};
}

inline std::shared_ptr<char> map_offer(const ViewOffer& offer, bool same_process, const UniqueFd& fd,
                                       int device) {
    if (offer.kind == ViewOffer::Kind::nothing) return nullptr;
    if (same_process && (offer.kind == ViewOffer::Kind::malloc || offer.device == device)) {
        reach_device(device, offer.device);
        return {reinterpret_cast<char*>(offer.data), [](char*) {}};
    }
    if (offer.kind == ViewOffer::Kind::malloc) return part_of(open_ipc(offer.ipc, device), offer.offset);
    if (same_process) return part_of(map_vmm_memory(offer.handle, offer.size, device), offer.offset);
    const VmmHandle imported = import_vmm_memory(fd);
    return part_of(map_vmm_memory(imported.get(), offer.size, device), offer.offset);
}

// Collective.
inline Mappings map_view(Exchange& exchange, void* mine, std::size_t bytes, int device) {
    std::optional<DeviceScope> scope;
    OfferedMemory offered;
    together(exchange, [&] {
        scope.emplace(device);
        offered = offer_memory(mine, bytes, device, !exchange.one_process());
    });
    const std::vector<ViewOffer> offers = gather(exchange, offered.offer);
    bool any_fd = false;
    for (const ViewOffer& offer : offers) any_fd |= offer.kind == ViewOffer::Kind::vmm;
    std::vector<UniqueFd> fds(offers.size());
    if (any_fd && !exchange.one_process()) fds = exchange.all_gather_fds(offered.fd.get());
    Mappings mapped;
    together(exchange, [&] {
        for (std::size_t r = 0; r < offers.size(); ++r) {
            const bool here = exchange.same_process(static_cast<int>(r));
            mapped.push_back(map_offer(offers[r], here, fds[r], device));
        }
    });
    return mapped;
}

}  // namespace pk::bootstrap::cuda
