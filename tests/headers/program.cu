// A program of every task kind in one kernel, as a generated project has it. Compiled, not run.
#include "mpk/tasks/add.hpp"
#include "mpk/tasks/advance.hpp"
#include "mpk/tasks/attention.hpp"
#include "mpk/tasks/embedding.hpp"
#include "mpk/tasks/empty.hpp"
#include "mpk/tasks/linear.hpp"
#include "mpk/tasks/logits.hpp"
#include "mpk/tasks/rmsnorm.hpp"
#include "mpk/tasks/sample.hpp"
#include "mpk/tasks/silu_mul.hpp"
#include "mpk/tasks/swiglu.hpp"
#include "mpk/worker.hpp"

namespace {

struct Linear0 {
    static constexpr int n = 6144, k = 4096;
    static constexpr bool has_bias = true, has_residual = false;
    struct slot {
        static constexpr int x = 0, weight = 1, out = 2, bias = 3;
    };
};
struct Linear1 {
    static constexpr int n = 4096, k = 12288;
    static constexpr bool has_bias = false, has_residual = true;
    struct slot {
        static constexpr int x = 0, weight = 1, out = 2, residual = 3;
    };
};
struct SwiGlu2 {
    static constexpr int n = 1536, k = 576;
    struct slot {
        static constexpr int x = 0, gate = 1, up = 2, out = 3;
    };
};
struct Logits3 {
    static constexpr int n = 151936, k = 4096;
    struct slot {
        static constexpr int x = 0, weight = 1, out = 2;
    };
};
struct Attention4 {
    static constexpr int heads = 32, kv_heads = 8, head = 128, kv_page = 64;
    static constexpr float scale = 0.0883883476f, eps = 1e-6f;
    static constexpr bool has_q_norm = true, has_k_norm = true, has_rope = true;
    static constexpr float rope_theta = 500000, rope_factor = 32, rope_low_freq = 1, rope_high_freq = 4;
    static constexpr int rope_original_context = 8192;
    struct slot {
        static constexpr int qkv = 0, out = 1, q_norm = 2, k_norm = 3;
    };
};
struct Attention5 : Attention4 {
    static constexpr int heads = 14, kv_heads = 2, head = 256;
    static constexpr bool has_q_norm = false, has_k_norm = false;
};
struct Rows6 {
    static constexpr int n = 4096, hidden = 4096;
    static constexpr float eps = 1e-5f;
    struct slot {
        static constexpr int tokens = 0, table = 1, x = 0, weight = 1, out = 2;
        static constexpr int gate = 0, up = 1, a = 0, b = 1;
    };
};
struct Sample7 {
    static constexpr int vocab = 151936;
    struct slot {
        static constexpr int logits = 0, out = 1;
    };
};
struct Advance8 {
    struct slot {
        static constexpr int sampled = 0, tokens = 1;
    };
};

using namespace mpk::tasks;

struct Program {
    static constexpr std::uint32_t scratch_bytes = pk::max_of(
        {Linear<Linear0>::scratch_bytes, SwiGlu<SwiGlu2>::scratch_bytes, Logits<Logits3>::scratch_bytes,
         Attention<Attention4>::scratch_bytes, Attention<Attention5>::scratch_bytes,
         RmsNorm<Rows6>::scratch_bytes, Sample<Sample7>::scratch_bytes, Empty<Rows6>::scratch_bytes});

    PK_DEVICE static void run(mpk::Context& ctx) {
        switch (ctx.op.variant) {
            case 0:
                return Linear<Linear0>::run(ctx);
            case 1:
                return Linear<Linear1>::run(ctx);
            case 2:
                return SwiGlu<SwiGlu2>::run(ctx);
            case 3:
                return Logits<Logits3>::run(ctx);
            case 4:
                return Attention<Attention4>::run(ctx);
            case 5:
                return Attention<Attention5>::run(ctx);
            case 6:
                return Embedding<Rows6>::run(ctx);
            case 7:
                return RmsNorm<Rows6>::run(ctx);
            case 8:
                return SiluMul<Rows6>::run(ctx);
            case 9:
                return Add<Rows6>::run(ctx);
            case 10:
                return Sample<Sample7>::run(ctx);
            case 11:
                return Advance<Advance8>::run(ctx);
            default:
                return Empty<Rows6>::run(ctx);
        }
    }

    PK_DEVICE static bool active(const mpk::Machine& m, const mpk::Task& task, std::uint16_t variant) {
        switch (variant) {
            case 4:
                return Attention<Attention4>::active(m, task);
            case 5:
                return Attention<Attention5>::active(m, task);
            default:
                return true;
        }
    }
};

}  // namespace

static_assert(Program::scratch_bytes <= 99 * 1024, "fits the shared memory of sm_86 and sm_120");

__global__ void __launch_bounds__(mpk::worker_threads, 1) work(const __grid_constant__ mpk::Machine m) {
    extern __shared__ __align__(128) unsigned char scratch[];
    mpk::worker_main<Program>(m, blockIdx.x, scratch);
}
