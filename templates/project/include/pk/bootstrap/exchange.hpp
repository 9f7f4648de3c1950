// How ranks exchange a few bytes and file descriptors while they set up. Every call is collective: all ranks
// make the same calls in the same order, one thread at a time for each Exchange.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "mpk/engine/error.hpp"
#include "pk/bootstrap/unique_fd.hpp"

namespace pk::bootstrap {

using mpk::engine::Error;
using mpk::engine::fail;
using mpk::engine::Status;

class Exchange {
public:
    Exchange(int rank, int world) : rank_(rank), world_(world) {}
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;
    virtual ~Exchange() = default;

    int rank() const { return rank_; }
    int world() const { return world_; }

    // all[r * bytes ...] is what rank r passed as `mine`; `bytes` is the same on all ranks. All that a rank
    // did before the call happens before all that any rank does after it, also where the ranks are threads.
    virtual void all_gather(const void* mine, void* all, std::size_t bytes) = 0;

    // An open file of every rank, as descriptors that the caller owns; result[rank()] is a duplicate of
    // `mine`. A rank that passes -1 has none: its place is invalid.
    virtual std::vector<UniqueFd> all_gather_fds(int mine) = 0;

    // Whether that rank is a thread of this process: then raw pointers of it have a meaning here.
    virtual bool same_process(int rank) const = 0;

    bool one_process() const {
        for (int r = 0; r < world_; ++r) {
            if (!same_process(r)) return false;
        }
        return true;
    }

    void barrier() {
        std::vector<char> all(static_cast<std::size_t>(world_));
        const char mine = 0;
        all_gather(&mine, all.data(), 1);
    }

private:
    int rank_;
    int world_;
};

// The value of every rank.
template <class T>
std::vector<T> gather(Exchange& exchange, const T& mine) {
    static_assert(std::is_trivially_copyable_v<T>, "what is gathered is copied byte by byte");
    std::vector<T> all(static_cast<std::size_t>(exchange.world()));
    exchange.all_gather(&mine, all.data(), sizeof(T));
    return all;
}

// What went wrong at the first rank where something did; `status` ok: nowhere.
struct Agreement {
    Status status = Status::ok;
    std::string text;
};

// Runs `body`, which makes no collective call, on every rank, and tells all ranks how it went: a rank that
// cannot go on does not leave the others waiting for it.
template <class Body>
Agreement try_together(Exchange& exchange, Body&& body) {
    struct Verdict {
        std::int32_t status;
        char text[508];
    };
    Verdict mine{};
    const auto note = [&](Status status, const char* text) {
        mine.status = static_cast<std::int32_t>(status);
        std::memcpy(mine.text, text, strnlen(text, sizeof mine.text - 1));
    };
    try {
        body();
    } catch (const Error& error) {
        note(error.status(), error.what());
    } catch (const std::bad_alloc&) {
        note(Status::out_of_memory, "not enough host memory");
    } catch (const std::exception& error) {
        note(Status::internal_error, error.what());
    } catch (...) {
        note(Status::internal_error, "an exception of unknown type was caught");
    }
    const std::vector<Verdict> all = gather(exchange, mine);
    for (std::size_t r = 0; r < all.size(); ++r) {
        if (all[r].status == 0) continue;
        return {static_cast<Status>(all[r].status), "rank " + std::to_string(r) + ": " + all[r].text};
    }
    return {};
}

// The same; throws on every rank what went wrong at the first.
template <class Body>
void together(Exchange& exchange, Body&& body) {
    const Agreement agreed = try_together(exchange, body);
    if (agreed.status != Status::ok) fail(agreed.status, agreed.text);
}

}  // namespace pk::bootstrap
