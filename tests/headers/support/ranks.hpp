// A body run as every rank of a world, by threads of this process or by processes of their own.
#pragma once

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace testing {

using RankBody = std::function<void(int rank)>;

// What each rank threw; "" if nothing.
using Errors = std::vector<std::string>;

inline std::string error_of(const RankBody& body, int rank) {
    try {
        body(rank);
        return "";
    } catch (const std::exception& error) {
        return error.what();
    }
}

inline Errors as_threads(int world, const RankBody& body) {
    Errors errors(static_cast<std::size_t>(world));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world; ++rank) {
        threads.emplace_back([&, rank] { errors[static_cast<std::size_t>(rank)] = error_of(body, rank); });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
}

inline std::string read_to_end(int fd) {
    std::string text;
    char buffer[512];
    for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(n));
    return text;
}

// "killed" for a rank that ended before it could say how it went.
inline Errors as_processes(int world, const RankBody& body) {
    std::fflush(stdout);
    std::vector<int> pipes;
    std::vector<pid_t> children;
    for (int rank = 0; rank < world; ++rank) {
        int ends[2];
        if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
        const pid_t child = ::fork();
        if (child == 0) {
            ::alarm(120);
            const std::string text = "." + error_of(body, rank);
            (void)!::write(ends[1], text.data(), text.size());
            ::_exit(0);
        }
        ::close(ends[1]);
        pipes.push_back(ends[0]);
        children.push_back(child);
    }
    Errors errors;
    for (std::size_t rank = 0; rank < children.size(); ++rank) {
        const std::string text = read_to_end(pipes[rank]);
        errors.push_back(text.empty() ? "killed" : text.substr(1));
        ::close(pipes[rank]);
        ::waitpid(children[rank], nullptr, 0);
    }
    return errors;
}

inline bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

inline bool all_contain(const Errors& errors, const std::string& part) {
    for (const std::string& error : errors) {
        if (!contains(error, part)) return false;
    }
    return true;
}

inline std::string first_error(const Errors& errors) {
    for (std::size_t rank = 0; rank < errors.size(); ++rank) {
        if (!errors[rank].empty()) return "rank " + std::to_string(rank) + " says '" + errors[rank] + "'";
    }
    return "";
}

inline std::string listed(const Errors& errors) {
    std::string text;
    for (const std::string& error : errors) text += "[" + error + "]";
    return text;
}

// Throws, so that the rank's error tells.
inline void require(bool condition, const std::string& what) {
    if (!condition) throw std::runtime_error("not so: " + what);
}

inline int open_files() {
    int count = 0;
    DIR* folder = ::opendir("/proc/self/fd");
    while (::readdir(folder) != nullptr) ++count;
    ::closedir(folder);
    return count;
}

inline int mappings(const std::string& of) {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) count += contains(line, of) ? 1 : 0;
    return count;
}

class Stopwatch {
public:
    long ms() const {
        const auto passed = std::chrono::steady_clock::now() - begin_;
        return static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(passed).count());
    }

private:
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace testing
