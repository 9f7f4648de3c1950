// How multicast objects are made and taken down, with a CUDA driver that only keeps books: no GPU has a part
// in it. What the driver would wait for without end, or what it calls undefined, is an error here.
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cases/bootstrap_memory.hpp"
#include "pk/bootstrap/cuda/multicast.hpp"

namespace {

constexpr std::size_t least = std::size_t{2} << 20, recommended = std::size_t{8} << 20;

struct Object {
    unsigned devices;
    std::size_t bytes;
    std::set<int> added;
    std::set<int> bound;
};

// What the driver knows. fail_bind: the device whose binding fails.
struct Books {
    std::mutex mutex;
    std::map<CUmemGenericAllocationHandle, Object> objects;
    std::map<CUmemGenericAllocationHandle, int> memory;  // its device
    std::map<CUdeviceptr, std::size_t> reserved;
    std::map<CUdeviceptr, CUmemGenericAllocationHandle> mapped;
    std::map<CUdeviceptr, int> mapped_for;
    CUmemGenericAllocationHandle next = 100;
    CUdeviceptr free_address = recommended;
    std::vector<std::string> wrong;
    int fail_bind = -1, unsupported = -1;
    bool one_device = false;
    std::size_t bytes = 0;  // of the last object

    void expect(bool right, const std::string& what) {
        if (!right) wrong.push_back(what);
    }
    std::string left() const {
        return std::to_string(objects.size()) + " objects, " + std::to_string(memory.size()) + " memories, " +
               std::to_string(mapped.size()) + " mappings, " + std::to_string(reserved.size()) + " ranges";
    }
};
Books books;
thread_local int current = 0;

using Lock = std::lock_guard<std::mutex>;

CUresult name_of(CUresult, const char** name) {
    *name = "CUDA_ERROR_OF_A_TEST";
    return CUDA_SUCCESS;
}
CUresult attribute(int* value, CUdevice_attribute what, CUdevice device) {
    *value = what != CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED || device != books.unsupported;
    return CUDA_SUCCESS;
}
CUresult memory_granularity(std::size_t* bytes, const CUmemAllocationProp*,
                            CUmemAllocationGranularity_flags) {
    *bytes = least;
    return CUDA_SUCCESS;
}
CUresult create_memory(CUmemGenericAllocationHandle* handle, std::size_t, const CUmemAllocationProp* about,
                       unsigned long long) {
    const Lock lock(books.mutex);
    books.memory[*handle = books.next++] = about->location.id;
    return CUDA_SUCCESS;
}
CUresult release(CUmemGenericAllocationHandle handle) {
    const Lock lock(books.mutex);
    if (const auto object = books.objects.find(handle); object != books.objects.end()) {
        books.expect(object->second.bound.empty(), "an object goes before what is bound to it");
        for (const auto& [at, mapped] : books.mapped) books.expect(mapped != handle, "an object goes mapped");
        books.objects.erase(object);
    } else {
        books.expect(books.memory.erase(handle) == 1, "a handle is released twice");
    }
    return CUDA_SUCCESS;
}
CUresult reserve(CUdeviceptr* at, std::size_t bytes, std::size_t alignment, CUdeviceptr, unsigned long long) {
    const Lock lock(books.mutex);
    books.expect(alignment >= least, "an address is not aligned");
    *at = books.free_address;
    books.free_address += (bytes + recommended - 1) / recommended * recommended;
    books.reserved[*at] = bytes;
    return CUDA_SUCCESS;
}
CUresult free_reserved(CUdeviceptr at, std::size_t bytes) {
    const Lock lock(books.mutex);
    books.expect(books.mapped.count(at) == 0 && books.reserved[at] == bytes, "a range goes that is mapped");
    books.reserved.erase(at);
    return CUDA_SUCCESS;
}
CUresult map(CUdeviceptr at, std::size_t, std::size_t, CUmemGenericAllocationHandle handle,
             unsigned long long) {
    const Lock lock(books.mutex);
    if (const auto object = books.objects.find(handle); object != books.objects.end())
        books.expect(object->second.added.size() == object->second.devices, "a mapping waits for devices");
    books.mapped[at] = handle;
    return CUDA_SUCCESS;
}
CUresult unmap(CUdeviceptr at, std::size_t) {
    const Lock lock(books.mutex);
    books.expect(books.mapped.erase(at) == 1, "unmapped twice");
    return CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr at, std::size_t, const CUmemAccessDesc* access, std::size_t) {
    const Lock lock(books.mutex);
    books.mapped_for[at] = access->location.id;
    return CUDA_SUCCESS;
}
CUresult unused(...) {
    books.wrong.push_back("a call that nobody expects");
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult object_granularity(std::size_t* bytes, const CUmulticastObjectProp* about,
                            CUmulticastGranularity_flags which) {
    const Lock lock(books.mutex);
    books.expect(about->numDevices > 1 && about->size != 0 && about->flags == 0, "properties of an object");
    *bytes = which == CU_MULTICAST_GRANULARITY_MINIMUM ? least : recommended;
    return CUDA_SUCCESS;
}
CUresult create_object(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp* about) {
    const Lock lock(books.mutex);
    books.expect(about->size % least == 0, "the size of an object");
    books.bytes = about->size;
    books.objects[*handle = books.next++] = {about->numDevices, about->size, {}, {}};
    return CUDA_SUCCESS;
}
CUresult add_device(CUmemGenericAllocationHandle handle, CUdevice device) {
    const Lock lock(books.mutex);
    books.expect(books.objects.at(handle).added.insert(device).second, "a device is added twice");
    return CUDA_SUCCESS;
}
CUresult bind_memory(CUmemGenericAllocationHandle handle, std::size_t at, CUmemGenericAllocationHandle memory,
                     std::size_t offset, std::size_t bytes, unsigned long long flags) {
    const Lock lock(books.mutex);
    Object& object = books.objects.at(handle);
    const int device = books.memory.at(memory);
    books.expect(object.added.size() == object.devices, "a binding waits for devices");
    books.expect(at == 0 && offset == 0 && flags == 0 && bytes == object.bytes, "what is bound");
    if (device == books.fail_bind) return CUDA_ERROR_SYSTEM_NOT_READY;
    books.expect(object.bound.insert(device).second, "bound twice");
    return CUDA_SUCCESS;
}
CUresult unbind_memory(CUmemGenericAllocationHandle handle, CUdevice device, std::size_t at,
                       std::size_t bytes) {
    const Lock lock(books.mutex);
    Object& object = books.objects.at(handle);
    books.expect(at == 0 && bytes == object.bytes, "what is unbound");
    books.expect(object.bound.erase(device) == 1, "unbound twice");
    for (const auto& [address, mapped] : books.mapped) {
        const bool own = mapped == handle && books.mapped_for[address] == device;
        books.expect(!own, "unbound before this rank's mapping has gone");
    }
    bool memory = false;
    for (const auto& [of, where] : books.memory) memory |= where == device;
    books.expect(memory || !books.mapped.empty(), "unbound after the memory has gone");
    return CUDA_SUCCESS;
}

}  // namespace

// The part of the runtime that the headers call.
cudaError_t cudaGetDeviceCount(int* count) {
    *count = 8;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
    *device = current;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    current = device;
    return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) {
    return cudaSuccess;
}
cudaError_t cudaGetLastError() {
    return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
    return "an error of a test";
}
const char* cudaGetErrorName(cudaError_t) {
    return "cudaErrorOfATest";
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned) {
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t) {
    const Lock lock(books.mutex);
    const auto found = books.mapped.find(reinterpret_cast<CUdeviceptr>(at));
    books.expect(found != books.mapped.end() && books.memory.count(found->second) == 1 && value == 0 &&
                     bytes == books.bytes,
                 "cleared by its own address");
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* about, int device) {
    *about = {};
    about->uuid.bytes[0] = static_cast<char>(books.one_device ? 1 : device + 1);
    return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned version,
                                             unsigned long long, cudaDriverEntryPointQueryResult* result) {
    static const std::map<std::string, void*> functions = {
        {"cuGetErrorName", reinterpret_cast<void*>(name_of)},
        {"cuDeviceGetAttribute", reinterpret_cast<void*>(attribute)},
        {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(memory_granularity)},
        {"cuMemCreate", reinterpret_cast<void*>(create_memory)},
        {"cuMemRelease", reinterpret_cast<void*>(release)},
        {"cuMemAddressReserve", reinterpret_cast<void*>(reserve)},
        {"cuMemAddressFree", reinterpret_cast<void*>(free_reserved)},
        {"cuMemMap", reinterpret_cast<void*>(map)},
        {"cuMemUnmap", reinterpret_cast<void*>(unmap)},
        {"cuMemSetAccess", reinterpret_cast<void*>(set_access)},
        {"cuMulticastGetGranularity", reinterpret_cast<void*>(object_granularity)},
        {"cuMulticastCreate", reinterpret_cast<void*>(create_object)},
        {"cuMulticastAddDevice", reinterpret_cast<void*>(add_device)},
        {"cuMulticastBindMem", reinterpret_cast<void*>(bind_memory)},
        {"cuMulticastUnbind", reinterpret_cast<void*>(unbind_memory)},
    };
    const bool multicast = std::strncmp(name, "cuMulticast", 11) == 0;
    *result =
        multicast && version < 12010 ? cudaDriverEntryPointVersionNotSufficent : cudaDriverEntryPointSuccess;
    const auto function = functions.find(name);
    *found = function == functions.end() ? reinterpret_cast<void*>(unused) : function->second;
    return cudaSuccess;
}
// Never called: memory here is made by handles.
cudaError_t cudaMalloc(void**, std::size_t) {
    return cudaErrorNotSupported;
}
cudaError_t cudaFree(void*) {
    return cudaErrorNotSupported;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
    return cudaErrorNotSupported;
}
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
    return cudaErrorNotSupported;
}
cudaError_t cudaIpcCloseMemHandle(void*) {
    return cudaErrorNotSupported;
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) {
    return cudaErrorNotSupported;
}

namespace {

using pk::bootstrap::cuda::make_multicast;

const void* volatile left_behind = nullptr;  // where a search for leaks finds it

testing::Errors make(int world, std::size_t bytes, bool abandon = false) {
    const std::string name = testing::fresh_name();
    return testing::as_threads(world, [&](int rank) {
        const auto exchange = testing::meet(name, rank, world);
        auto part = make_multicast(*exchange, bytes, rank);
        testing::require(part->own() != part->all() && part->bytes() >= bytes, "two addresses of all bytes");
        {
            const Lock lock(books.mutex);
            const auto& [handle, object] = *books.objects.begin();
            testing::require(object.bound.size() == static_cast<std::size_t>(world), "all have bound");
            testing::require(books.mapped.at(reinterpret_cast<CUdeviceptr>(part->all())) == handle,
                             "the address of all");
        }
        exchange->barrier();
        if (abandon && rank == 0) left_behind = part.release();
    });
}

void expect(testing::Suite& suite, const std::string& name, const testing::Errors& errors,
            const std::string& error, const std::string& left) {
    const bool said =
        error.empty() ? testing::first_error(errors).empty() : testing::all_contain(errors, error);
    suite.check(name, said && books.wrong.empty() && books.left() == left,
                testing::listed(errors) + " " + (books.wrong.empty() ? "" : books.wrong[0]) +
                    "; left: " + books.left());
    books.wrong.clear();
}

}  // namespace

int main() {
    testing::Suite suite;
    const std::string nothing = "0 objects, 0 memories, 0 mappings, 0 ranges";
    for (const int world : {2, 3, 8}) {
        expect(suite, std::to_string(world) + " ranks", make(world, 5000), "", nothing);
        suite.check("little memory is not rounded up to what is recommended", books.bytes == least);
    }
    expect(suite, "much memory", make(2, recommended + 1), "", nothing);
    suite.check("much memory is", books.bytes == 2 * recommended);
    books.fail_bind = 1;
    expect(suite, "a binding fails", make(3, 5000),
           "rank 1: the CUDA driver cannot bind memory to a multicast object: CUDA_ERROR_OF_A_TEST", nothing);
    books.fail_bind = -1;
    books.unsupported = 2;
    expect(suite, "a device has no multicast", make(3, 5000), "rank 2: device 2 has no NVLink multicast",
           nothing);
    books.unsupported = -1;
    books.one_device = true;
    expect(suite, "ranks share a device", make(3, 5000), "ranks 0 and 1 are on one device", nothing);
    books.one_device = false;
    expect(suite, "one rank leaves its part behind", make(2, 5000, true), "",
           "1 objects, 1 memories, 2 mappings, 2 ranges");
    return suite.finish();
}
