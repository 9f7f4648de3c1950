// Device memory by handles (CUDA's virtual memory management): a handle is memory, each rank maps it where it
// likes. Memory lives as long as any handle or mapping of it, in whatever process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "pk/bootstrap/cuda/driver.hpp"
#include "pk/bootstrap/unique_fd.hpp"

namespace pk::bootstrap::cuda {

// One thread at a time maps and unmaps: four threads that did so at once, two to a device, ended in a
// corrupted heap (driver 580).
inline std::mutex& vmm_mutex() {
    static std::mutex mutex;
    return mutex;
}

class VmmHandle {
public:
    VmmHandle() = default;
    explicit VmmHandle(CUmemGenericAllocationHandle handle) : handle_(handle) {}
    VmmHandle(VmmHandle&& other) noexcept : handle_(std::exchange(other.handle_, 0)) {}
    VmmHandle& operator=(VmmHandle&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~VmmHandle() {
        if (handle_ == 0) return;
        const std::lock_guard lock(vmm_mutex());
        (void)Driver::get().release(handle_);
    }
    CUmemGenericAllocationHandle get() const { return handle_; }

private:
    CUmemGenericAllocationHandle handle_ = 0;
};

inline CUmemAllocationProp vmm_properties(int device, bool exported) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    if (exported) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return properties;
}

inline bool device_can(CUdevice_attribute what, int device) {
    int value = 0;
    return Driver::get().device_attribute(&value, what, device) == CUDA_SUCCESS && value != 0;
}

// Sizes of VMM memory on this device are multiples of this.
inline std::size_t vmm_granularity(int device, bool exported) {
    const CUmemAllocationProp properties = vmm_properties(device, exported);
    std::size_t bytes = 0;
    Driver::get().check(Driver::get().granularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                        "say how it divides memory");
    return bytes;
}

inline VmmHandle new_vmm_memory(std::size_t bytes, int device, bool exported) {
    const CUmemAllocationProp properties = vmm_properties(device, exported);
    CUmemGenericAllocationHandle handle = 0;
    const std::lock_guard lock(vmm_mutex());
    Driver::get().check(Driver::get().create(&handle, bytes, &properties, 0), "create peer memory");
    return VmmHandle(handle);
}

inline UniqueFd export_vmm_memory(const VmmHandle& handle) {
    int fd = -1;
    Driver::get().check(
        Driver::get().export_handle(&fd, handle.get(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        "export peer memory as a file descriptor");
    UniqueFd exported(fd);
    (void)::fcntl(fd, F_SETFD, FD_CLOEXEC);
    return exported;
}

inline VmmHandle import_vmm_memory(const UniqueFd& fd) {
    CUmemGenericAllocationHandle handle = 0;
    void* as_handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd.get()));
    Driver::get().check(
        Driver::get().import_handle(&handle, as_handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "import peer memory from a file descriptor");
    return VmmHandle(handle);
}

// All `bytes` of a handle's memory at an address of this process, for the use of `device`. alignment: of the
// address; 0: as the driver likes.
inline std::shared_ptr<char> map_vmm_memory(CUmemGenericAllocationHandle handle, std::size_t bytes,
                                            int device, std::size_t alignment = 0) {
    const Driver& driver = Driver::get();
    struct Range {
        CUdeviceptr at = 0;
        std::size_t bytes = 0;
        int device = 0;
        bool mapped = false;
        ~Range() {
            if (at == 0) return;
            quietly_on(device, [this] {
                const std::lock_guard lock(vmm_mutex());
                if (mapped) (void)Driver::get().unmap(at, bytes);
                (void)Driver::get().free_reserved(at, bytes);
            });
        }
    };
    auto range = std::make_shared<Range>();
    range->bytes = bytes;
    range->device = device;
    std::unique_lock lock(vmm_mutex());
    driver.check(driver.reserve(&range->at, bytes, alignment, 0, 0), "reserve addresses for peer memory");
    driver.check(driver.map(range->at, bytes, 0, handle, 0), "map peer memory");
    range->mapped = true;
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    driver.check(driver.set_access(range->at, bytes, &access, 1), "give the device access to peer memory");
    char* data = reinterpret_cast<char*>(range->at);
    return {std::move(range), data};
}

}  // namespace pk::bootstrap::cuda
