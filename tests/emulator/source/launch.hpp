// A kernel that runs, and the scheduler of its threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "parts.hpp"
#include "random.hpp"

namespace emulator {

struct Shape {
    dim3 grid, threads;
    std::uint32_t cluster = 1, bytes = 0;  // blocks of one; dynamic shared memory
    bool at_once = false;                  // whether all blocks must run at the same time
};

// Thrown where no thread runs, to end the run.
struct GaveUp {};

class Launch {
public:
    Launch(const Shape& shape, std::function<void()> kernel, std::uint64_t seed);
    ~Launch();

    // Runs all threads to their end. False if that failed, which has been reported.
    bool run();

    const Shape shape;
    const std::function<void()> kernel;
    Random random;
    std::uint64_t clock = 0;     // ns
    std::uint64_t progress = 0;  // steps for which others may have waited

    // --- by the running thread

    // Stops it until it is woken. Returns whether that was by what it waited for.
    bool stop(Wait wait, std::uint32_t about, const void* place);
    // Lets others go first.
    void step_aside();
    void leave();
    // Its stack is left for good.
    [[noreturn]] void abandon();

    void wake(Thread* thread, bool in_time);

    // --- what is done later

    void add(const Transfer& transfer) { transfers_.push_back(transfer); }
    void add(Block& block, const Block::Write& write);
    void write_all(Block& block);
    void write_those_to(Block& block, const void* p, std::uint32_t bytes);

    // Prints `headline` and what all threads wait for.
    void report(const char* headline) const;
    // The run is to end.
    void give_up() { failed_ = true; }

private:
    bool run_blocks();
    void start(std::uint32_t first, std::uint32_t count);
    Warp* draw();
    void run(Warp* warp);
    void enqueue(Warp* warp);
    void change_mood();
    bool do_pending();
    void write_one(Block& block, std::size_t i);
    // Those that look again now and then. False if there are none.
    bool wake_polling();
    bool wake_at_mbarriers();

    std::vector<std::unique_ptr<Block>> blocks_;
    std::vector<std::unique_ptr<Cluster>> clusters_;
    std::vector<Warp*> queue_, slow_queue_;
    std::vector<Thread*> polling_;
    std::vector<Transfer> transfers_;
    std::vector<Block*> writing_;
    void* scheduler_ = nullptr;  // its stack
    std::uint64_t alive_ = 0;    // threads
    std::uint32_t until_mood_ = 0;
    std::uint32_t eagerness_ = 0;  // chance of what is pending, in 256ths at every turn
    bool failed_ = false;
};

// The launch that runs.
extern Launch* current;

}  // namespace emulator
