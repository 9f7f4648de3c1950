#include "launch.hpp"

#include <algorithm>
#include <bit>

#include "mbarriers.hpp"
#include "memory.hpp"

namespace emulator {

Thread* running = nullptr;
Launch* current = nullptr;

namespace {

// Rounds in which everybody looks again and nothing changes, until the launch counts as stuck. More than a
// kernel needs that looks at its own watchdog every 512 polls.
constexpr std::uint32_t most_idle_rounds = 1600;
constexpr std::uint64_t idle_round_ns = 1'000'000, turn_ns = 20;

void thread_main() {
    current->kernel();
    current->leave();
}

}  // namespace

Launch::Launch(const Shape& s, std::function<void()> k, std::uint64_t seed)
    : shape(s), kernel(std::move(k)), random(seed) {}

Launch::~Launch() {
    for (const auto& block : blocks_) recycle_stacks(std::move(block->stacks), block->threads.size());
    for (const auto& block : blocks_) free_guarded(block->memory);
}

bool Launch::run() {
    const dim3& grid = shape.grid;
    const std::uint32_t count = grid.x * grid.y * grid.z, step = shape.at_once ? count : 1;
    current = this;
    for (std::uint32_t first = 0; first < count && !failed_; first += step) {
        start(first, step);
        try {
            failed_ = !run_blocks() || failed_;
        } catch (const GaveUp&) {
            failed_ = true;
        }
        if (failed_ || first + step == count) break;
        for (const auto& block : blocks_) recycle_stacks(std::move(block->stacks), block->threads.size());
        for (const auto& block : blocks_) free_guarded(block->memory);
        blocks_.clear();
        clusters_.clear();
    }
    current = nullptr;
    running = nullptr;
    return !failed_;
}

void Launch::start(std::uint32_t first, std::uint32_t count) {
    const dim3 &grid = shape.grid, &size = shape.threads;
    const std::uint32_t threads = size.x * size.y * size.z;
    for (std::uint32_t number = first; number < first + count; ++number) {
        auto& block = *blocks_.emplace_back(std::make_unique<Block>());
        if (number % shape.cluster == 0 || number == first) clusters_.push_back(std::make_unique<Cluster>());
        block.number = number;
        block.index = {number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y};
        block.cluster = clusters_.back().get();
        block.rank = static_cast<std::uint32_t>(block.cluster->blocks.size());
        block.cluster->blocks.push_back(&block);
        block.cluster->alive += threads;
        block.memory = static_cast<unsigned char*>(allocate_guarded(shape.bytes, 1024));
        block.stacks = take_stacks(threads);
        block.threads.resize(threads);
        block.warps.resize((threads + lanes - 1) / lanes);
        block.alive = threads;
        alive_ += threads;
        for (std::uint32_t t = 0; t < threads; ++t) {
            Thread& thread = block.threads[t];
            Warp& warp = block.warps[t / lanes];
            if (t % lanes == 0) warp.threads = &thread;
            thread.warp = &warp;
            thread.block = &block;
            thread.lane = static_cast<std::uint8_t>(t % lanes);
            thread.index = {t % size.x, t / size.x % size.y, t / size.x / size.y};
            thread.stack_pointer = block.stacks->prepare(t, thread_main);
            warp.alive |= 1u << t % lanes;
        }
        for (Warp& warp : block.warps) {
            warp.runnable = warp.alive;
            enqueue(&warp);
        }
    }
}

bool Launch::run_blocks() {
    std::uint64_t seen = 0;
    std::uint32_t idle = 0;
    while (alive_ != 0 && !failed_) {
        if (until_mood_-- == 0) change_mood();
        if (random.chance(eagerness_)) do_pending();
        if (random.chance(1) && !polling_.empty()) {
            wake(polling_[random.below(static_cast<std::uint32_t>(polling_.size()))], false);
        }
        clock += turn_ns;
        if (Warp* warp = draw()) {
            run(warp);
            continue;
        }
        if (do_pending()) continue;
        idle = progress == seen ? idle + 1 : 0;
        seen = progress;
        clock += idle_round_ns;
        if (idle <= most_idle_rounds) {
            const bool looks = wake_polling();
            if ((!looks || idle != 0) && wake_at_mbarriers()) continue;
            if (looks) continue;
        }
        report("no thread can go on");
        return false;
    }
    while (do_pending()) {
    }
    return !failed_;
}

// --- warps

void Launch::enqueue(Warp* warp) {
    if (warp->queued) return;
    warp->queued = true;
    (warp->slow ? slow_queue_ : queue_).push_back(warp);
}

Warp* Launch::draw() {
    std::vector<Warp*>& from = queue_.empty() ? slow_queue_ : queue_;
    if (from.empty()) return nullptr;
    std::swap(from[random.below(static_cast<std::uint32_t>(from.size()))], from.back());
    Warp* warp = from.back();
    from.pop_back();
    warp->queued = false;
    return warp;
}

// For a while some warps run only when no other can, and what is pending happens soon or late.
void Launch::change_mood() {
    until_mood_ = 500 + random.below(20000);
    static constexpr std::uint32_t eagerness[] = {0, 0, 1, 8, 64, 255};
    eagerness_ = eagerness[random.below(std::size(eagerness))];
    const std::uint32_t mood = random.below(5);
    for (const auto& block : blocks_) {
        const bool slow_block = random.chance(64);
        for (Warp& warp : block->warps) {
            warp.slow = mood == 1   ? slow_block
                        : mood == 2 ? random.chance(32)
                                    : mood == 3 && random.chance(224);
        }
    }
    std::vector<Warp*> all;
    all.swap(queue_);
    all.insert(all.end(), slow_queue_.begin(), slow_queue_.end());
    slow_queue_.clear();
    for (Warp* warp : all) {
        warp->queued = false;
        enqueue(warp);
    }
}

void Launch::run(Warp* warp) {
    if (warp->runnable == 0) return;
    warp->first = random.below(lanes);
    const std::uint32_t turned = std::rotr(warp->runnable, static_cast<int>(warp->first));
    running = &warp->threads[(warp->first + std::countr_zero(turned)) % lanes];
    emulator_switch_stack(&scheduler_, running->stack_pointer);
    running = nullptr;
    if (warp->runnable != 0) enqueue(warp);
}

bool Launch::stop(Wait wait, std::uint32_t about, const void* place) {
    Thread* self = running;
    Warp* warp = self->warp;
    self->wait = wait;
    self->about = about;
    self->place = place;
    warp->runnable &= ~(1u << self->lane);
    if (wait == Wait::poll) polling_.push_back(self);
    if (wait == Wait::mbarrier) self->block->at_mbarriers.push_back(self);
    const auto number = static_cast<std::size_t>(self - self->block->threads.data());
    if (!self->block->stacks->has_room(number, __builtin_frame_address(0))) {
        fail("the stack of a fiber is too small");
    }
    if (warp->runnable != 0) {
        const std::uint32_t after = (self->lane + 1u) % lanes;
        const std::uint32_t turned = std::rotr(warp->runnable, static_cast<int>(after));
        running = &warp->threads[(after + std::countr_zero(turned)) % lanes];
        emulator_switch_stack(&self->stack_pointer, running->stack_pointer);
    } else {
        emulator_switch_stack(&self->stack_pointer, scheduler_);
    }
    return self->in_time;
}

void Launch::step_aside() {
    emulator_switch_stack(&running->stack_pointer, scheduler_);
}

void Launch::wake(Thread* thread, bool in_time) {
    if (thread->wait == Wait::poll) {
        const auto at = std::find(polling_.begin(), polling_.end(), thread);
        *at = polling_.back();
        polling_.pop_back();
    }
    thread->wait = Wait::nothing;
    thread->in_time = in_time;
    thread->warp->runnable |= 1u << thread->lane;
    if (running == nullptr || thread->warp != running->warp) enqueue(thread->warp);
}

bool Launch::wake_polling() {
    std::vector<Thread*> all;
    all.swap(polling_);
    for (Thread* thread : all) {
        thread->wait = Wait::nothing;
        thread->warp->runnable |= 1u << thread->lane;
        enqueue(thread->warp);
    }
    return !all.empty();
}

bool Launch::wake_at_mbarriers() {
    bool any = false;
    for (const auto& block : blocks_) {
        for (Thread* thread : block->at_mbarriers) {
            thread->wait = Wait::nothing;
            thread->in_time = false;
            thread->warp->runnable |= 1u << thread->lane;
            enqueue(thread->warp);
            any = true;
        }
        block->at_mbarriers.clear();
    }
    return any;
}

void Launch::leave() {
    Thread* self = running;
    Warp* warp = self->warp;
    Block& block = *self->block;
    const std::uint32_t bit = 1u << self->lane;
    self->wait = Wait::over;
    warp->alive &= ~bit;
    warp->runnable &= ~bit;
    --block.alive;
    --block.cluster->alive;
    --alive_;
    ++progress;
    left(*self);
    abandon();
}

void Launch::abandon() {
    void* nowhere;
    emulator_switch_stack(&nowhere, scheduler_);
    __builtin_unreachable();
}

}  // namespace emulator
