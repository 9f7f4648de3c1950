// What the launchers' environment variables mean.
#pragma once

#include <cstdlib>
#include <map>
#include <string>

#include "cases/bootstrap_memory.hpp"

namespace testing {

inline std::map<std::string, std::string>& variables() {
    static std::map<std::string, std::string> table;
    return table;
}

inline const char* variable(const char* name) {
    const auto found = variables().find(name);
    return found == variables().end() ? nullptr : found->second.c_str();
}

inline std::string launch_error() {
    return error_of([](int) { (void)pk::bootstrap::read_launch(variable); }, 0);
}

inline void environment_cases(Suite& suite) {
    const auto reads = [&](const std::string& name, int rank, int world, int local) {
        const pk::bootstrap::Launch launch = pk::bootstrap::read_launch(variable);
        suite.check("environment: " + name, launch.launcher == name && launch.rank == rank &&
                                                launch.world == world && launch.local_rank == local);
    };
    variables() = {};
    reads("", -1, -1, -1);
    variables() = {{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "3"}};
    reads("Slurm", 3, 4, 3);
    variables()["PMI_RANK"] = "1";
    variables()["PMI_SIZE"] = "2";
    reads("MPICH", 1, 2, -1);
    variables()["OMPI_COMM_WORLD_RANK"] = "0";
    variables()["OMPI_COMM_WORLD_SIZE"] = "8";
    variables()["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
    reads("Open MPI", 0, 8, 0);
    variables()["RANK"] = "1";  // alone it is somebody else's
    reads("Open MPI", 0, 8, 0);
    variables()["WORLD_SIZE"] = "2";
    variables()["LOCAL_RANK"] = "1";
    reads("torchrun", 1, 2, 1);
    variables()["LOCAL_WORLD_SIZE"] = "1";
    suite.check("environment: two hosts",
                contains(launch_error(), "torchrun started 1 of 2 ranks on this host"), launch_error());
    variables() = {{"RANK", "one"}, {"WORLD_SIZE", "2"}};
    suite.check("environment: no number", contains(launch_error(), "RANK is 'one'"), launch_error());

    variables() = {{"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_RUN_ID", "a"}};
    const std::string name = pk::bootstrap::default_rendezvous(0, variable);
    const std::uint64_t job = pk::bootstrap::job_number(variable);
    suite.check("environment: one job, one name", name == pk::bootstrap::default_rendezvous(1, variable));
    variables()["TORCHELASTIC_RUN_ID"] = "b";
    suite.check(
        "environment: other job, other name",
        name != pk::bootstrap::default_rendezvous(0, variable) && job != pk::bootstrap::job_number(variable));
    variables() = {};
    const std::string none = error_of([](int) { (void)pk::bootstrap::default_rendezvous(1, variable); }, 0);
    suite.check("environment: no name", contains(none, "rank 1 has no rendezvous name"), none);
    suite.check("environment: no job", pk::bootstrap::job_number(variable) == 0);
}

// Needs processes: the environment is a process's.
inline void launched_cases(Suite& suite) {
    const std::string port = std::to_string(::getpid());
    const auto launched = [&](int other_job) {
        return as_processes(2, [&, other_job](int rank) {
            ::setenv("RANK", std::to_string(rank).c_str(), 1);
            ::setenv("WORLD_SIZE", "2", 1);
            ::setenv("MASTER_ADDR", "127.0.0.1", 1);
            ::setenv("MASTER_PORT", port.c_str(), 1);
            ::setenv("TORCHELASTIC_RUN_ID", rank == other_job ? "other" : "run", 1);
            pk::bootstrap::Options options;
            options.timeout_ms = 3000;
            const std::string name = "launched-" + port;
            if (other_job >= 0) options.rendezvous = name.c_str();
            const auto first = pk::bootstrap::connect(options);
            const auto second = pk::bootstrap::connect(options);
            write_and_read(*first, 100);
            write_and_read(*second, 100);
        });
    };
    Errors errors = launched(-1);
    suite.check("launched by torchrun", first_error(errors).empty(), first_error(errors));
    errors = launched(1);
    suite.check("ranks of two jobs", all_contain(errors, "belongs to another job than rank 0"),
                listed(errors));
    const std::string none = error_of([](int) { (void)pk::bootstrap::connect({}); }, 0);
    suite.check("no rank", contains(none, "options.rank is -1"), none);
}

}  // namespace testing
