#include "fiber.hpp"

#include <sys/mman.h>

#include <new>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulator {

namespace {

constexpr std::size_t page = 4096;

}  // namespace

Stacks::Stacks(std::size_t count) : count_(count) {
    void* memory = mmap(nullptr, page + count * bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    mprotect(memory, page, PROT_NONE);
    madvise(memory, page + count * bytes, MADV_HUGEPAGE);
    memory_ = static_cast<unsigned char*>(memory) + page;
}

Stacks::~Stacks() {
    munmap(memory_ - page, page + count_ * bytes);
}

bool Stacks::has_room(std::size_t i, const void* at) const {
    return static_cast<const unsigned char*>(at) >= memory_ + i * bytes + 2048;
}

#if defined(__x86_64__)

void* Stacks::prepare(std::size_t i, void (*entry)()) {
    unsigned char* begin = memory_ + i * bytes;
    // Stacks of neighbours begin in different sets of the cache.
    auto* top = reinterpret_cast<std::uint64_t*>(begin + bytes - i % 32 * 64 - 64);
    *--top = 0;  // where entry() would return to; 16-byte aligned as at any call
    *--top = reinterpret_cast<std::uint64_t>(entry);
    for (int saved = 0; saved < 6; ++saved) *--top = 0;
    return top;
}

// The registers that a function keeps for its caller go to the stack.
asm(R"(
.text
.globl emulator_switch_stack
.type emulator_switch_stack, @function
emulator_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulator_switch_stack, . - emulator_switch_stack
)");

#else

void* Stacks::prepare(std::size_t i, void (*entry)()) {
    unsigned char* begin = memory_ + i * bytes;
    // The context lies at the top of the stack that it is for.
    constexpr std::size_t room = (sizeof(ucontext_t) + 63) / 64 * 64;
    auto* context = new (begin + bytes - room) ucontext_t;
    getcontext(context);
    context->uc_stack.ss_sp = begin;
    context->uc_stack.ss_size = bytes - room;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    return context;
}

extern "C" void emulator_switch_stack(void** from, void* to) {
    ucontext_t here;
    *from = &here;
    swapcontext(&here, static_cast<ucontext_t*>(to));
}

#endif

}  // namespace emulator
