// The host twin of peer memory: threads of one process share the heap, processes share files without a name.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "pk/bootstrap/exchange.hpp"

namespace pk::bootstrap {

// The memory of every rank as this rank sees it; a mapping goes with the last that holds it.
using Mappings = std::vector<std::shared_ptr<char>>;

struct PeerMappings {
    Mappings at;
    const char* way = "";  // how they were made, for reports
};

// Where all ranks are threads of one process: everybody's shared_ptr, so that memory lives as long as anybody
// may still touch it.
inline Mappings share_pointers(Exchange& exchange, const std::shared_ptr<char>& mine) {
    const std::vector<const std::shared_ptr<char>*> all = gather(exchange, &mine);
    Mappings shared;
    for (const std::shared_ptr<char>* pointer : all) shared.push_back(*pointer);
    exchange.barrier();  // nobody's `mine` goes before all have copied it
    return shared;
}

namespace host {

// From the system, which gives zeros page by page as they are touched: a workspace for the largest call costs
// nothing that smaller calls do not use.
inline std::shared_ptr<char> zeroed_heap(std::size_t bytes, int rank) {
    void* data =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
        fail(Status::out_of_memory, "rank ", rank, " cannot allocate ", bytes, " bytes of peer memory");
    }
    return {static_cast<char*>(data), [bytes](char* mapped) { (void)::munmap(mapped, bytes); }};
}

// A file in memory: not limited by /dev/shm, gone with its last descriptor and mapping.
inline UniqueFd new_file(std::size_t bytes, int rank) {
    UniqueFd file(::memfd_create("pk-peer-memory", MFD_CLOEXEC));
    if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
        fail(Status::out_of_memory, "rank ", rank, " cannot make ", bytes,
             " bytes of memory to share: ", std::strerror(errno));
    }
    return file;
}

inline std::shared_ptr<char> map_file(const UniqueFd& file, std::size_t bytes, int rank, int owner) {
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (data == MAP_FAILED) {
        fail(Status::out_of_memory, "rank ", rank, " cannot map ", bytes, " bytes of rank ", owner, ": ",
             std::strerror(errno));
    }
    return {static_cast<char*>(data), [bytes](char* mapped) { (void)::munmap(mapped, bytes); }};
}

inline PeerMappings map_memory(Exchange& exchange, std::size_t bytes) {
    const int rank = exchange.rank();
    Mappings mapped;
    if (exchange.one_process()) {
        std::shared_ptr<char> mine;
        together(exchange, [&] { mine = zeroed_heap(bytes, rank); });
        return {share_pointers(exchange, mine), "one heap"};
    }
    UniqueFd file;
    together(exchange, [&] { file = new_file(bytes, rank); });
    const std::vector<UniqueFd> files = exchange.all_gather_fds(file.get());
    together(exchange, [&] {
        for (std::size_t r = 0; r < files.size(); ++r) {
            mapped.push_back(map_file(files[r], bytes, rank, static_cast<int>(r)));
        }
    });
    return {std::move(mapped), "memory files"};
}

}  // namespace host

}  // namespace pk::bootstrap
