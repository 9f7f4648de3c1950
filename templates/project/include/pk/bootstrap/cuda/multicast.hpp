// Multicast objects: memory of several devices, one part of each, that a multimem address stands for. Only
// projects whose spec asks for it have this header.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "pk/bootstrap/cuda/memory.hpp"

namespace pk::bootstrap::cuda {

struct MulticastDriver {
    decltype(&::cuMulticastGetGranularity) granularity;
    decltype(&::cuMulticastCreate) create;
    decltype(&::cuMulticastAddDevice) add_device;
    decltype(&::cuMulticastBindMem) bind;
    decltype(&::cuMulticastUnbind) unbind;

    // Throws where the driver lacks one; the next call tries again.
    static const MulticastDriver& get() {
        static const MulticastDriver driver = load();
        return driver;
    }

private:
    static MulticastDriver load() {
        static constexpr unsigned version = 12010;
        MulticastDriver d{};
        Driver::find("cuMulticastGetGranularity", d.granularity, version);
        Driver::find("cuMulticastCreate", d.create, version);
        Driver::find("cuMulticastAddDevice", d.add_device, version);
        Driver::find("cuMulticastBindMem", d.bind, version);
        Driver::find("cuMulticastUnbind", d.unbind, version);
        return d;
    }
};

// The memory of a device in a multicast object that has all devices; the object goes after it.
class MulticastBinding {
public:
    MulticastBinding(std::shared_ptr<VmmHandle> object, const VmmHandle& memory, std::size_t bytes,
                     int device)
        : object_(std::move(object)), bytes_(bytes), device_(device) {
        const std::lock_guard lock(vmm_mutex());
        Driver::get().check(MulticastDriver::get().bind(object_->get(), 0, memory.get(), 0, bytes, 0),
                            "bind memory to a multicast object");
    }
    MulticastBinding(const MulticastBinding&) = delete;
    MulticastBinding& operator=(const MulticastBinding&) = delete;
    ~MulticastBinding() {
        quietly_on(device_, [this] {
            const std::lock_guard lock(vmm_mutex());
            (void)MulticastDriver::get().unbind(object_->get(), device_, 0, bytes_);
        });
    }
    CUmemGenericAllocationHandle object() const { return object_->get(); }

private:
    std::shared_ptr<VmmHandle> object_;
    std::size_t bytes_;
    int device_;
};

// This rank's part of a multicast object. `bytes` and addresses are multiples of `granularity`.
class MulticastPart {
public:
    MulticastPart(std::shared_ptr<VmmHandle> object, std::size_t bytes, std::size_t granularity, int device,
                  bool exported)
        : bytes_(bytes),
          memory_(new_vmm_memory(bytes, device, exported)),
          own_(map_vmm_memory(memory_.get(), bytes, device, granularity)),
          binding_(std::move(object), memory_, bytes, device),
          all_(map_vmm_memory(binding_.object(), bytes, device, granularity)) {
        clear(own_.get(), bytes);
    }

    char* own() const { return own_.get(); }
    char* all() const { return all_.get(); }  // a multimem address
    std::size_t bytes() const { return bytes_; }

private:
    std::size_t bytes_;
    // Go from the last to the first, as CUDA wants it: the mapping of all parts, the binding of this one and
    // the object, and then the memory.
    VmmHandle memory_;
    std::shared_ptr<char> own_;
    MulticastBinding binding_;
    std::shared_ptr<char> all_;
};

inline CUmulticastObjectProp multicast_properties(int world, std::size_t bytes, bool exported) {
    CUmulticastObjectProp properties{};
    properties.numDevices = static_cast<unsigned>(world);
    properties.size = bytes;
    if (exported) properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return properties;
}

// Sizes and addresses are multiples of it: of what is recommended, where that is no more than the memory.
inline std::size_t multicast_granularity(int world, std::size_t bytes, int device, bool exported) {
    const std::size_t of_memory = vmm_granularity(device, exported);
    const auto properties = multicast_properties(world, round_up(bytes, of_memory), exported);
    std::size_t least = 0, recommended = 0;
    const auto ask = [&](std::size_t& granularity, CUmulticastGranularity_flags which) {
        Driver::get().check(MulticastDriver::get().granularity(&granularity, &properties, which),
                            "say how it divides multicast objects");
    };
    ask(least, CU_MULTICAST_GRANULARITY_MINIMUM);
    ask(recommended, CU_MULTICAST_GRANULARITY_RECOMMENDED);
    return std::max(of_memory, recommended <= bytes ? recommended : least);  // all are powers of two
}

inline void check_multicast(int device) {
    if (device_can(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device) &&
        device_can(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) &&
        device_can(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device))
        return;
    fail(
        Status::unsupported_device, "device ", device,
        " has no NVLink multicast, which this kernel was generated for, expected GPUs behind NVSwitches, and "
        "MULTICAST_SUPPORTED among the attributes of each");
}

// The network adds up what different devices have.
inline void check_different(const std::vector<cudaUUID_t>& devices) {
    for (std::size_t r = 0; r < devices.size(); ++r) {
        for (std::size_t s = 0; s < r; ++s) {
            if (std::memcmp(&devices[s], &devices[r], sizeof devices[r]) != 0) continue;
            fail(Status::invalid_argument, "ranks ", s, " and ", r,
                 " are on one device, expected a device for each rank: NVLink multicast adds up what "
                 "different "
                 "devices have");
        }
    }
}

// Collective. Nobody binds before all devices are in the object, nor returns before all have bound: the
// driver would wait for them without end. The memory is zeroed.
inline std::unique_ptr<MulticastPart> make_multicast(Exchange& exchange, std::size_t bytes, int device) {
    const bool exported = !exchange.one_process(), first = exchange.rank() == 0;
    std::optional<DeviceScope> scope;
    cudaDeviceProp about{};
    std::size_t granularity = 0;
    together(exchange, [&] {
        scope.emplace(device);
        check_multicast(device);
        check(cudaGetDeviceProperties(&about, device), "read the device's properties");
        granularity = multicast_granularity(exchange.world(), bytes, device, exported);
    });
    check_different(gather(exchange, about.uuid));
    for (const std::size_t other : gather(exchange, granularity)) granularity = std::max(granularity, other);
    const std::size_t size = round_up(bytes, granularity);
    std::shared_ptr<VmmHandle> object;
    UniqueFd fd;
    together(exchange, [&] {
        if (!first) return;
        const auto properties = multicast_properties(exchange.world(), size, exported);
        CUmemGenericAllocationHandle handle = 0;
        Driver::get().check(MulticastDriver::get().create(&handle, &properties), "create a multicast object");
        object = std::make_shared<VmmHandle>(handle);
        if (exported) fd = export_vmm_memory(*object);
    });
    // The threads of rank 0's process have its handle, others one of their own.
    const std::shared_ptr<VmmHandle>* const mine = &object;
    const auto objects = gather(exchange, mine);
    std::vector<UniqueFd> fds;
    if (exported) fds = exchange.all_gather_fds(fd.get());
    together(exchange, [&] {
        if (!first && exchange.same_process(0)) object = *objects[0];
        if (!first && !exchange.same_process(0))
            object = std::make_shared<VmmHandle>(import_vmm_memory(fds[0]));
        const std::lock_guard lock(vmm_mutex());
        Driver::get().check(MulticastDriver::get().add_device(object->get(), device),
                            "add a device to a multicast object");
    });
    std::unique_ptr<MulticastPart> part;
    together(exchange,
             [&] { part = std::make_unique<MulticastPart>(object, size, granularity, device, exported); });
    return part;
}

}  // namespace pk::bootstrap::cuda
