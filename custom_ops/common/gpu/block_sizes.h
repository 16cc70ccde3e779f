// Sizes that the CUDA kernels are cut by, all in one place. None depends on the device, so that the order of summation,
// and with it every bit of a result, is the same on any GPU of one architecture. Sizes of panels, and from where on cuBLAS is
// called, follow what was measured on an NVIDIA H200 on 2026-11-27; `python -m benchmarks.gpu_ops` measures all ops.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_BLOCK_SIZES_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_BLOCK_SIZES_H_

#include <cstdint>

namespace tfjac {

// Threads of every block: eight warps hide the latency of the tiles' loads, and several blocks fit on a multiprocessor.
constexpr int kThreads = 256;
constexpr int kWarp = 32;

// Products of matrices: a block computes a square tile, kPerThread x kPerThread numbers per thread, from panels of
// kPanelDepth rows in shared memory. 64 rather than 128, because kernels and Gram matrices of some hundred rows must
// still fill a GPU; larger products go through memory to cuBLAS. Shared memory: 8.5 KB in float32, 17 KB in float64.
constexpr int kTileSide = 64;
constexpr int kPanelDepth = 16;
constexpr int kPerThread = 4;
static_assert(kTileSide * kTileSide == kThreads * kPerThread * kPerThread, "the threads cover the tile");

// A panel's rows are padded by one access of 16 bytes in float32: threads that write down a column hit different banks,
// and rows stay aligned for vector loads.
constexpr int kPanelPadding = 4;

// Kernels that give each thread one column (spreading pairs, the gradient) let it walk down this many rows, so that finding the
// column's place costs nothing; those that write panels (JacobianRows, pairs) up to the second, where blocks are enough.
constexpr int kRowsPerThread = 32;
constexpr int kMostRowsPerThread = 64;

// Rows whose numbers a thread reads before it writes the first: one after the other, it would wait for each.
constexpr int kRowsAtOnce = 8;

// Parts of a sum: a line of threads takes at least kPartsOfLine of them; neighbouring lanes, kThreads / kMostLines at least,
// read a whole sector of 32 bytes.
constexpr int kPartsOfLine = 4;
constexpr int kMostLines = 16;

// ExampleGrams: numbers of several examples that wait in shared memory (24 KB in float32, 48 KB in float64, the most that
// needs no asking), and the columns, residual included, up to which they do.
constexpr int kExampleNumbers = 6144;
constexpr int kExampleColumns = 64;

// JᵀJ of as few columns, of many rows: the side of a thread's tile, blocks on a multiprocessor, and segments of the rows, one
// for each of these blocks on the largest GPU.
template <typename T>
constexpr int kGramSide = sizeof(T) == 4 ? 8 : 4;
constexpr int kGramBlocks = 2;
constexpr int kGramRowsAtOnce = 7;  // 28 rows of up to 63 columns, four for each line
constexpr int64_t kFewColumnsSegments = 264;

// Rows that each line of threads takes of those that wait, at least.
constexpr int kRowsOfLine = 4;

// ExampleGrams: blocks on a multiprocessor, so that some load while others multiply. A fifth would gain 4 % in float32, but the
// multiprocessors of 7.5 have room for four.
constexpr int kExampleBlocks = 4;

// The columns from which on cuBLAS computes them in float64: 10,000 of [40, 20] took it 0.08 ms.
constexpr int kBatchedColumns = 32;

// Mirroring a triangle: square tiles through shared memory, so that reading and writing both run along rows.
constexpr int kMirrorSide = 32;

// Systems of up to this size are factorised by one block in shared memory (33 KB in float64).
constexpr int kSmallSystem = 64;

// Systems up to this size are factorised many at a time by cuSOLVER's batched functions, which use one block for each.
constexpr int kBatchedSystem = 512;

// Factors handed to a kernel by value: kernel parameters end at 4 KB on all supported CUDA versions.
constexpr int kFactorsPerLaunch = 32;

// Bytes of the products of d with d of one example, up to which JᵀJ is computed from pairs.
constexpr int64_t kPairBytes = int64_t{16} << 20;

// Blocks that fill the largest GPU (132 to 148 multiprocessors, four blocks each).
constexpr int64_t kEnoughBlocks = 528;

#ifndef TFJAC_SMALL_LIMITS

// Sums over many rows with fewer tiles than kEnoughBlocks are cut into segments of at least this many rows, added
// afterwards in a fixed order.
constexpr int64_t kShortestSegment = 128;

// Panels of J or of pair products that wait in global memory for a product: large enough for cuBLAS' full rate, small
// enough to stay a small share of the memory. Pairs [4096, x] times [4096, 136] in float32: 21 TFLOP/s for x = 2,048, 29 for
// 16,384, 34 for 307,720.
constexpr int64_t kPanelBytes = int64_t{256} << 20;

// Examples at a time of products of pairs, more where the pairs are few: deep enough for cuBLAS' full rate, and few enough that
// a panel holds many pairs.
constexpr int64_t kPairDepth = 4096;

// Floating-point operations above which cuBLAS, with its larger tiles, beats tiles that are made from factors, though its
// operands have to go through memory: 4e8 of them took 0.13 ms by tiles, where cuBLAS takes 0.04.
constexpr double kWorthLibrary = 5e7;

// The same for the terms of a kernel, whose products go through memory once more to be weighted: 2,560 rows of 784-16-10 take
// 0.08 ms by tiles.
constexpr double kWorthWeighting = 4e9;

// The same for the grams of examples in float32, which lie in memory but are small: 256 of [64, 200] took cuBLAS and the
// gradient after it 0.11 ms, and 0.09 here.
constexpr double kWorthBatches = 4e9;

// Columns of a square panelᵀ panel from which on cuBLAS' syrk is called, which does half of the operations: it does not cut the
// sum, so that few tiles leave most of the GPU idle. 61 columns, 100,000 rows, float32: syrk 8.2 ms, gemm 0.044. 20,000 rows,
// syrk and gemm: 1,536 columns of float32 2.1 and 1.9 ms, 2,048 columns 2.1 and 3.2; 1,024 columns of float64 0.76 and 0.83.
template <typename T>
constexpr int64_t kWorthSyrk = sizeof(T) == 4 ? 1792 : 1024;

// Rows of a symmetric product that are computed at a time, up to the diagonal: few are wasted above it.
constexpr int64_t kBandRows = 512;

// Multiply-adds that folding the residuals must save to be worth three more launches, for each block.
constexpr double kWorthFolding = 1e8;

// The share of its cost that folding must save. JᵀJ of 8-50-50-1, 20,000 examples, which saves 18 %: 3.4 ms folded, 4.6 by one
// square in float32; 4.3 and 5.2 in float64.
constexpr double kClearly = 0.1;

// Blocks of a launch. Kernels loop over their tasks, so any number is right.
constexpr int64_t kMaxBlocks = 0x7fffffff;

#else  // for tests: small problems go where large ones go otherwise

constexpr int64_t kShortestSegment = 16;
constexpr int64_t kPanelBytes = 4096;
constexpr double kWorthLibrary = 1e5;
constexpr double kWorthWeighting = 1e5;
constexpr double kWorthBatches = 1e5;
template <typename T>
constexpr int64_t kWorthSyrk = 40;
constexpr int64_t kBandRows = 8;
constexpr int64_t kPairDepth = 24;
constexpr double kWorthFolding = 0;
constexpr double kClearly = 0;
constexpr int64_t kMaxBlocks = 5;

#endif

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_BLOCK_SIZES_H_
