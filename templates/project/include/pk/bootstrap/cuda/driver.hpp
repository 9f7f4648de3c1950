// The functions of the CUDA driver that the runtime does not wrap. They are looked up at run time, so that a
// library made of this needs no libcuda to link or to load.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "pk/bootstrap/cuda/scope.hpp"

namespace pk::bootstrap::cuda {

struct Driver {
    decltype(&::cuGetErrorName) get_error_name;
    decltype(&::cuDeviceGetAttribute) device_attribute;
    decltype(&::cuMemGetAllocationGranularity) granularity;
    decltype(&::cuMemCreate) create;
    decltype(&::cuMemRelease) release;
    decltype(&::cuMemExportToShareableHandle) export_handle;
    decltype(&::cuMemImportFromShareableHandle) import_handle;
    decltype(&::cuMemAddressReserve) reserve;
    decltype(&::cuMemAddressFree) free_reserved;
    decltype(&::cuMemMap) map;
    decltype(&::cuMemUnmap) unmap;
    decltype(&::cuMemSetAccess) set_access;
    decltype(&::cuMemRetainAllocationHandle) retain;
    decltype(&::cuMemGetAllocationPropertiesFromHandle) properties;
    decltype(&::cuMemGetAddressRange) address_range;
    decltype(&::cuPointerGetAttribute) pointer_attribute;

    // Throws where the driver lacks one; the next call tries again.
    static const Driver& get() {
        static const Driver driver = load();
        return driver;
    }

    void check(CUresult result, const char* what) const {
        if (result == CUDA_SUCCESS) return;
        const char* name = "unknown error";
        (void)get_error_name(result, &name);
        const Status status = result == CUDA_ERROR_OUT_OF_MEMORY ? Status::out_of_memory : Status::cuda_error;
        fail(status, "the CUDA driver cannot ", what, ": ", name);
    }

    // version: of CUDA that the function is of, as 1000 * major + 10 * minor.
    template <class Function>
    static void find(const char* name, Function& function, unsigned version = 12000) {
        void* found = nullptr;
        cudaDriverEntryPointQueryResult result{};
        cuda::check(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result),
                    "look into its driver");
        if (result != cudaDriverEntryPointSuccess || found == nullptr) {
            fail(Status::unsupported_device, "the CUDA driver has no ", name, ", expected that of CUDA ",
                 version / 1000, ".", version % 1000 / 10, " or later");
        }
        function = reinterpret_cast<Function>(found);
    }

private:
    static Driver load() {
        Driver d{};
        find("cuGetErrorName", d.get_error_name);
        find("cuDeviceGetAttribute", d.device_attribute);
        find("cuMemGetAllocationGranularity", d.granularity);
        find("cuMemCreate", d.create);
        find("cuMemRelease", d.release);
        find("cuMemExportToShareableHandle", d.export_handle);
        find("cuMemImportFromShareableHandle", d.import_handle);
        find("cuMemAddressReserve", d.reserve);
        find("cuMemAddressFree", d.free_reserved);
        find("cuMemMap", d.map);
        find("cuMemUnmap", d.unmap);
        find("cuMemSetAccess", d.set_access);
        find("cuMemRetainAllocationHandle", d.retain);
        find("cuMemGetAllocationPropertiesFromHandle", d.properties);
        find("cuMemGetAddressRange", d.address_range);
        find("cuPointerGetAttribute", d.pointer_attribute);
        return d;
    }
};

}  // namespace pk::bootstrap::cuda
