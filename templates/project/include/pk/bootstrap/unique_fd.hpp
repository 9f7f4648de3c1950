// A file descriptor that is closed when its owner goes.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace pk::bootstrap {

class UniqueFd {
public:
    UniqueFd() = default;
    explicit UniqueFd(int fd) : fd_(fd) {}
    UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~UniqueFd() {
        if (fd_ >= 0) (void)::close(fd_);  // not again after EINTR: Linux has closed it by then
    }
    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }
    void close() { UniqueFd(std::move(*this)); }

    // A second descriptor of the same open file; invalid if there is none left (errno says so).
    static UniqueFd duplicate(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

private:
    int fd_ = -1;
};

}  // namespace pk::bootstrap
