// The packed weight file: 4096 bytes of header that name the plan, then the weights as the plan lays them
// out.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "mpk/descriptors.hpp"
#include "mpk/engine/error.hpp"

namespace mpk::engine {

static_assert(std::endian::native == std::endian::little, "weight files are little endian");

struct WeightHeader {
    char magic[8];
    std::uint32_t header_bytes;
    std::uint32_t reserved;
    std::uint64_t data_bytes;
    std::uint8_t digest[32];
    char plan[64];  // NUL padded
};
static_assert(sizeof(WeightHeader) == 120);

inline constexpr char weight_magic[8] = {'K', 'G', 'E', 'N', 'W', 'T', 'S', '1'};
inline constexpr std::uint32_t weight_header_bytes = 4096;

// An open file whose header and size fit the plan. Throws an Error that names the file.
class WeightFile {
public:
    WeightFile(const char* path, const Plan& plan) : path_(path), data_bytes_(plan.weight_bytes) {
        // O_NONBLOCK: opening a pipe would wait for a writer; it is refused below.
        descriptor_ = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (descriptor_ < 0) {
            fail(Status::io_error, "cannot open weight file '", path_, "': ", std::strerror(errno));
        }
        try {
            check(plan);
        } catch (...) {
            ::close(descriptor_);
            throw;
        }
    }

    WeightFile(const WeightFile&) = delete;
    WeightFile& operator=(const WeightFile&) = delete;

    ~WeightFile() {
        if (mapping_ != nullptr) ::munmap(mapping_, weight_header_bytes + data_bytes_);
        close();
    }

    // Give the descriptor back; what map() returned stays valid.
    void close() {
        if (descriptor_ >= 0) ::close(descriptor_);
        descriptor_ = -1;
    }

    std::uint64_t size() const { return data_bytes_; }

    // The weights in place, shared with every other process that maps the file; valid as long as this object.
    const std::byte* map() {
        if (mapping_ == nullptr) {
            void* mapping =
                ::mmap(nullptr, weight_header_bytes + data_bytes_, PROT_READ, MAP_SHARED, descriptor_, 0);
            if (mapping == MAP_FAILED) {
                fail(Status::io_error, "cannot map weight file '", path_, "': ", std::strerror(errno));
            }
            mapping_ = mapping;
            ::madvise(mapping_, weight_header_bytes + data_bytes_, MADV_WILLNEED);
        }
        return static_cast<const std::byte*>(mapping_) + weight_header_bytes;
    }

    // Copy `bytes` weights from `offset` on.
    void read(std::uint64_t offset, void* destination, std::size_t bytes) const {
        read_at(weight_header_bytes + offset, destination, bytes);
    }

private:
    void check(const Plan& plan) const {
        struct stat status = {};
        if (::fstat(descriptor_, &status) != 0) {
            fail(Status::io_error, "cannot read weight file '", path_, "': ", std::strerror(errno));
        }
        if (!S_ISREG(status.st_mode))
            fail(Status::io_error, "weight file '", path_, "' is not a regular file");
        const auto size = static_cast<std::uint64_t>(status.st_size);
        WeightHeader header = {};
        if (size < sizeof header) {
            fail(Status::wrong_weights, "weight file '", path_, "' has ", size,
                 " bytes, fewer than its header; it is truncated or not a packed weight file");
        }
        read_at(0, &header, sizeof header);
        if (std::memcmp(header.magic, weight_magic, sizeof header.magic) != 0) {
            fail(Status::wrong_weights, "'", path_,
                 "' is not a packed weight file; make one with: kgen pack");
        }
        const std::string packed_for(header.plan, strnlen(header.plan, sizeof header.plan));
        if (packed_for != plan.name || std::memcmp(header.digest, plan.digest, sizeof header.digest) != 0) {
            fail(Status::wrong_weights, "weight file '", path_, "' was packed for plan '", packed_for,
                 "' (digest ", hex(header.digest), "), this library is plan '", plan.name, "' (digest ",
                 hex(plan.digest), "); pack it again with: kgen pack");
        }
        const std::uint64_t expected = weight_header_bytes + plan.weight_bytes;
        if (header.header_bytes != weight_header_bytes || header.data_bytes != plan.weight_bytes ||
            size != expected) {
            fail(Status::wrong_weights, "weight file '", path_, "' has ", size, " bytes (header ",
                 header.header_bytes, ", data ", header.data_bytes, "), expected ", expected, " (header ",
                 weight_header_bytes, ", data ", plan.weight_bytes, "); it is damaged or truncated");
        }
    }

    void read_at(std::uint64_t offset, void* destination, std::size_t bytes) const {
        auto* out = static_cast<std::byte*>(destination);
        while (bytes > 0) {
            const ssize_t got = ::pread(descriptor_, out, bytes, static_cast<off_t>(offset));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) {
                fail(Status::io_error, "cannot read weight file '", path_, "' at byte ", offset, ": ",
                     got == 0 ? "it ends there" : std::strerror(errno));
            }
            out += got;
            offset += static_cast<std::uint64_t>(got);
            bytes -= static_cast<std::size_t>(got);
        }
    }

    // The first bytes of a digest, enough to tell two apart.
    static std::string hex(const std::uint8_t* digest) {
        static constexpr char digits[] = "0123456789abcdef";
        std::string text;
        for (int i = 0; i < 6; ++i) {
            text += digits[digest[i] >> 4];
            text += digits[digest[i] & 15];
        }
        return text;
    }

    std::string path_;
    std::uint64_t data_bytes_;
    int descriptor_ = -1;
    void* mapping_ = nullptr;
};

}  // namespace mpk::engine
