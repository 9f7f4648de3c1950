// What a launcher says to its ranks in environment variables: torchrun, Open MPI, MPICH and Intel MPI, Slurm.
#pragma once

#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "pk/bootstrap/exchange.hpp"

namespace pk::bootstrap {

// std::getenv, or a table in a test.
using GetVariable = const char* (*)(const char* name);

inline const char* environment_variable(const char* name) {
    return std::getenv(name);
}

struct Launch {
    const char* launcher = "";  // "": the environment has no launcher's variables
    int rank = -1;
    int world = -1;
    int local_rank =
        -1;  // the rank among those of this host, by which most launchers mean the device; -1: not said
    int local_world = -1;
};

struct LauncherVariables {
    const char* launcher;
    const char *rank, *world, *local_rank, *local_world;
};

// The first that sets both rank and world is taken. Slurm last: inside an allocation its variables are set
// for mpirun and torchrun too.
inline constexpr LauncherVariables launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""},
};

// -1 if the variable is not set or empty.
inline int count_variable(GetVariable get, const char* name) {
    const char* text = *name == '\0' ? nullptr : get(name);
    if (text == nullptr || *text == '\0') return -1;
    const std::string_view digits(text);
    int value = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < 0) {
        fail(Status::invalid_argument, "the environment variable ", name, " is '", text,
             "', expected a number of 0 or more");
    }
    return value;
}

inline Launch read_launch(GetVariable get = environment_variable) {
    for (const LauncherVariables& names : launchers) {
        Launch launch;
        launch.rank = count_variable(get, names.rank);
        launch.world = count_variable(get, names.world);
        if (launch.rank < 0 || launch.world < 0) continue;
        launch.launcher = names.launcher;
        launch.local_rank = count_variable(get, names.local_rank);
        launch.local_world = count_variable(get, names.local_world);
        if (launch.local_world >= 0 && launch.local_world != launch.world) {
            fail(Status::unsupported, "rank ", launch.rank, ": ", names.launcher, " started ",
                 launch.local_world, " of ", launch.world, " ranks on this host (", names.local_world, ", ",
                 names.world, "), expected all: ranks map each other's memory");
        }
        return launch;
    }
    return {};
}

inline std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325u) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hash;
}

// A number of the job that the launcher runs, the same on all its ranks; 0: the environment does not tell
// jobs apart.
inline std::uint64_t job_number(GetVariable get = environment_variable) {
    static constexpr const char* names[] = {"TORCHELASTIC_RUN_ID", "MASTER_PORT", "PMIX_NAMESPACE",
                                            "SLURM_JOB_ID", "SLURM_STEP_ID"};
    std::uint64_t hash = fnv1a("");
    bool any = false;
    for (const char* name : names) {
        const char* text = get(name);
        if (text == nullptr || *text == '\0') continue;
        any = true;
        hash = fnv1a(text, fnv1a(name, hash));
    }
    return any ? hash : 0;
}

// A name under which the ranks of this job meet if the caller gives none.
inline std::string default_rendezvous(int rank, GetVariable get = environment_variable) {
    const auto text = [&](const char* name) {
        const char* value = get(name);
        return std::string(value == nullptr ? "" : value);
    };
    std::string job;
    if (!text("MASTER_PORT").empty()) {
        job = "master " + text("MASTER_ADDR") + " " + text("MASTER_PORT") + " " + text("TORCHELASTIC_RUN_ID");
    } else if (!text("PMIX_NAMESPACE").empty()) {
        job = "pmix " + text("PMIX_NAMESPACE");
    } else if (!text("SLURM_JOB_ID").empty() && !text("SLURM_STEP_ID").empty()) {
        job = "slurm " + text("SLURM_JOB_ID") + " " + text("SLURM_STEP_ID");
    } else if (!text("PMI_RANK").empty() || !text("OMPI_COMM_WORLD_RANK").empty()) {
        job = "parent " + std::to_string(getppid());  // the launcher's process on this host starts them all
    } else {
        fail(Status::invalid_argument, "rank ", rank,
             " has no rendezvous name: give options.rendezvous or options.exchange, or set MASTER_ADDR and "
             "MASTER_PORT as torchrun does");
    }
    static constexpr char digits[] = "0123456789abcdef";
    std::string name = "job-";
    const std::uint64_t hash = fnv1a(job);
    for (int shift = 60; shift >= 0; shift -= 4) name += digits[hash >> shift & 15];
    return name;
}

}  // namespace pk::bootstrap
