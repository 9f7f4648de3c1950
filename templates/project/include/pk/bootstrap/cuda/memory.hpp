// Peer memory on devices: by VMM handles, or by cudaMalloc where the system refuses to pass those on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pk/bootstrap/cuda/vmm.hpp"
#include "pk/bootstrap/host_memory.hpp"

namespace pk::bootstrap::cuda {

inline std::size_t round_up(std::size_t bytes, std::size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

// Whether this rank can make memory by handles. PK_PEER_MEMORY=malloc in the environment of any rank makes
// all of them use cudaMalloc.
inline bool offers_vmm(int device, bool exported) {
    const char* wanted = std::getenv("PK_PEER_MEMORY");
    if (wanted != nullptr && std::strcmp(wanted, "malloc") == 0) return false;
    return device_can(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) &&
           (!exported || device_can(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device));
}

// Collective. Every rank maps every rank's handle for its own device: ranks of one device too, and a rank
// that goes takes nothing from the others. On failure `mapped` is empty on all ranks.
inline Agreement map_by_handles(Exchange& exchange, std::size_t bytes, int device, Mappings& mapped) {
    const bool exported = !exchange.one_process();
    struct Part {
        std::uint64_t handle, bytes;
    };
    VmmHandle handle;
    UniqueFd fd;
    std::shared_ptr<char> own;
    std::size_t size = 0;
    Agreement agreed = try_together(exchange, [&] {
        size = round_up(bytes, vmm_granularity(device, exported));
        handle = new_vmm_memory(size, device, exported);
        if (exported) fd = export_vmm_memory(handle);
        own = map_vmm_memory(handle.get(), size, device);
        clear(own.get(), size);
    });
    if (agreed.status != Status::ok) return agreed;
    const std::vector<Part> parts = gather(exchange, Part{handle.get(), size});
    std::vector<UniqueFd> fds(parts.size());
    if (exported) fds = exchange.all_gather_fds(fd.get());
    Mappings all;
    agreed = try_together(exchange, [&] {
        for (std::size_t r = 0; r < parts.size(); ++r) {
            if (static_cast<int>(r) == exchange.rank()) {
                all.push_back(own);
            } else if (exported) {
                const VmmHandle imported = import_vmm_memory(fds[r]);
                all.push_back(map_vmm_memory(imported.get(), parts[r].bytes, device));
            } else {
                all.push_back(map_vmm_memory(parts[r].handle, parts[r].bytes, device));
            }
        }
    });
    // The handle is not needed any more: all ranks have mapped it.
    if (agreed.status == Status::ok) mapped = std::move(all);
    return agreed;
}

// Lets the current device reach memory of cudaMalloc of another device in this process. It is not taken back:
// somebody else may have asked for it too.
inline void reach_device(int device, int other) {
    if (device == other) return;
    const cudaError_t result = cudaDeviceEnablePeerAccess(other, 0);
    if (result == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
        return;
    }
    check(result,
          ("let device " + std::to_string(device) + " reach device " + std::to_string(other)).c_str());
}

inline std::shared_ptr<char> new_device_memory(std::size_t bytes, int device) {
    void* data = nullptr;
    check(cudaMalloc(&data, bytes), "allocate peer memory");
    std::shared_ptr<char> memory(static_cast<char*>(data), [device](char* freed) {
        quietly_on(device, [freed] { (void)cudaFree(freed); });
    });
    clear(data, bytes);
    return memory;
}

// Memory of a cudaMalloc in another process.
inline std::shared_ptr<char> open_ipc(const cudaIpcMemHandle_t& handle, int device) {
    void* data = nullptr;
    check(cudaIpcOpenMemHandle(&data, handle, cudaIpcMemLazyEnablePeerAccess),
          "open memory of another process");
    return {static_cast<char*>(data), [device](char* closed) {
                quietly_on(device, [closed] { (void)cudaIpcCloseMemHandle(closed); });
            }};
}

// Collective.
inline PeerMappings map_by_malloc(Exchange& exchange, std::size_t bytes, int device) {
    std::shared_ptr<char> own;
    if (exchange.one_process()) {
        const std::vector<int> devices = gather(exchange, device);
        together(exchange, [&] {
            for (const int other : devices) reach_device(device, other);
            own = new_device_memory(bytes, device);
        });
        return {share_pointers(exchange, own), "cudaMalloc and peer access"};
    }
    // An allocation of whole pages of the device has its page for itself: with a handle goes the whole page.
    static constexpr std::size_t page = std::size_t{2} << 20;
    cudaIpcMemHandle_t handle{};
    together(exchange, [&] {
        own = new_device_memory(round_up(bytes, page), device);
        check(cudaIpcGetMemHandle(&handle, own.get()), "make a handle of peer memory for other processes");
    });
    const std::vector<cudaIpcMemHandle_t> handles = gather(exchange, handle);
    Mappings mapped;
    together(exchange, [&] {
        for (int r = 0; r < exchange.world(); ++r) {
            if (r == exchange.rank()) {
                mapped.push_back(own);
                continue;
            }
            if (exchange.same_process(r)) {
                fail(Status::unsupported, "ranks ", exchange.rank(), " and ", r,
                     " are in one process and others are not, expected one or the other where memory cannot "
                     "be "
                     "shared by VMM handles");
            }
            mapped.push_back(open_ipc(handles[static_cast<std::size_t>(r)], device));
        }
    });
    return {std::move(mapped), "cudaMalloc and cudaIpc"};
}

// Collective. All ranks take the same way.
inline PeerMappings map_memory(Exchange& exchange, std::size_t bytes, int device) {
    std::optional<DeviceScope> scope;
    bool offered = false;
    together(exchange, [&] {
        scope.emplace(device);
        offered = offers_vmm(device, !exchange.one_process());
    });
    Agreement refused{Status::unsupported, "a rank's device or PK_PEER_MEMORY"};
    bool all_offer = true;
    for (const std::uint8_t offer : gather(exchange, static_cast<std::uint8_t>(offered)))
        all_offer &= offer != 0;
    if (all_offer) {
        Mappings mapped;
        refused = map_by_handles(exchange, bytes, device, mapped);
        if (refused.status == Status::ok) return {std::move(mapped), "VMM handles"};
    }
    try {
        return map_by_malloc(exchange, bytes, device);
    } catch (const Error& error) {
        fail(error.status(), error.what(),
             "; and by VMM handles peer memory is not to be had because of: ", refused.text);
    }
}

}  // namespace pk::bootstrap::cuda
