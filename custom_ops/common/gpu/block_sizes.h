// Sizes that the CUDA kernels are cut by, all in one place. None depends on the device, so that the order of summation,
// and with it every bit of a result, is the same on any GPU of one architecture. Chosen for Ampere and Hopper on paper;
// the measurements to tune them by are made by `python -m benchmarks.gpu_ops`.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_BLOCK_SIZES_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_BLOCK_SIZES_H_

#include <cstdint>

namespace tfjac {

// Threads of every block: eight warps hide the latency of the tiles' loads, and several blocks fit on a multiprocessor.
constexpr int kThreads = 256;
constexpr int kWarp = 32;

// Products of matrices: a block computes a square tile, kPerThread x kPerThread numbers per thread, from panels of
// kPanelDepth rows in shared memory. 64 rather than 128, because kernels and Gram matrices of some hundred rows must
// still fill a GPU; larger products go to cuBLAS. Shared memory: 8.5 KB in float32, 17 KB in float64.
constexpr int kTileSide = 64;
constexpr int kPanelDepth = 16;
constexpr int kPerThread = 4;
static_assert(kTileSide * kTileSide == kThreads * kPerThread * kPerThread, "the threads cover the tile");

// A panel's rows are padded by one access of 16 bytes in float32: threads that write down a column hit different banks,
// and rows stay aligned for vector loads.
constexpr int kPanelPadding = 4;

// Kernels that give each thread one column (JacobianRows, spreading pairs, the gradient) let it walk down this many
// rows, so that finding the column's place costs nothing.
constexpr int kRowsPerThread = 32;

// Mirroring a triangle: square tiles through shared memory, so that reading and writing both run along rows.
constexpr int kMirrorSide = 32;

// Systems of up to this size are factorised by one block in shared memory (33 KB in float64).
constexpr int kSmallSystem = 64;

// Factors handed to a kernel by value: kernel parameters end at 4 KB on all supported CUDA versions.
constexpr int kFactorsPerLaunch = 32;

// Blocks that fill the largest GPU (132 to 148 multiprocessors, four blocks each).
constexpr int64_t kEnoughBlocks = 528;

#ifndef TFJAC_SMALL_LIMITS

// Sums over many rows with fewer tiles than kEnoughBlocks are cut into segments of at least this many rows, added
// afterwards in a fixed order.
constexpr int64_t kShortestSegment = 128;

// Panels of J or of pair products that wait in global memory for a product: large enough for cuBLAS' full rate, small
// enough to stay a small share of the memory.
constexpr int64_t kPanelBytes = int64_t{64} << 20;

// Floating-point operations above which cuBLAS, with its larger tiles and tensor cores, beats the fused tiles.
constexpr double kWorthLibrary = 4e9;

// Multiply-adds that folding the residuals must save to be worth three more launches.
constexpr double kWorthFolding = 5e7;

// Blocks of a launch. Kernels loop over their tasks, so any number is right.
constexpr int64_t kMaxBlocks = 0x7fffffff;

#else  // for tests: small problems go where large ones go otherwise

constexpr int64_t kShortestSegment = 16;
constexpr int64_t kPanelBytes = 4096;
constexpr double kWorthLibrary = 1e5;
constexpr double kWorthFolding = 0;
constexpr int64_t kMaxBlocks = 5;

#endif

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_BLOCK_SIZES_H_
