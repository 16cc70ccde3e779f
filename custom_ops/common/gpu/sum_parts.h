// Sums that were cut into parts, put together: in a fixed order, and by many threads where the parts are many.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_SUM_PARTS_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_SUM_PARTS_H_

#include "custom_ops/common/gpu/launch.h"

namespace tfjac {

// Parts of a matrix, dense in memory; of a triangular one, what is above the diagonal is left alone.
struct PartsShape {
  int64_t parts, rows, columns;
  bool triangular;
  int lines;  // threads that share the parts of a number; a power of two

  TFJAC_HOST_DEVICE int64_t size() const { return rows * columns; }
  TFJAC_HOST_DEVICE int lanes() const { return kThreads / lines; }  // numbers of a block
};

// out[row * ld + column] += sum_s parts[s, row, column]; the last row goes to `last`, if that is not null. Each line of threads
// adds neighbouring parts; the sums of the lines are added in order.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    SumPartsKernel(PartsShape shape, const T* __restrict__ parts, T* out, int64_t ld, T* last) {
  __shared__ T sums[kThreads];
  const int lanes = shape.lanes(), lane = static_cast<int>(threadIdx.x) % lanes;
  const int64_t line = static_cast<int>(threadIdx.x) / lanes, length = CeilingOf(shape.parts, shape.lines);
  for (int64_t task = FirstTask(); task < CeilingOf(shape.size(), lanes); task += TaskStep()) {
    const int64_t k = task * lanes + lane, row = k / shape.columns, column = k % shape.columns;
    const bool wanted = k < shape.size() && (column <= row || !shape.triangular);
    T sum = 0;
    if (wanted) {
      const int64_t end = SmallerOf((line + 1) * length, shape.parts);
#pragma unroll 8
      for (int64_t s = line * length; s < end; ++s) sum += parts[s * shape.size() + k];
    }
    __syncthreads();  // the sums of the task before have been used
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (line > 0 || !wanted) continue;
    T* const to = last != nullptr && row == shape.rows - 1 ? last + column : out + row * ld + column;
    sum += *to;
    for (int other = 1; other < shape.lines; ++other) sum += sums[other * lanes + lane];
    *to = sum;
  }
}

template <typename T>
int SumParts(void* stream, int64_t parts, int64_t rows, int64_t columns, bool triangular, const T* scratch, T* out,
             int64_t ld, T* last = nullptr) {
  if (parts <= 0) return 0;
  PartsShape shape{parts, rows, columns, triangular, 1};
  while (shape.lines < kMostLines && parts >= 2 * kPartsOfLine * shape.lines) shape.lines *= 2;
  return Launch(stream, CeilingOf(shape.size(), shape.lanes()), SumPartsKernel<T>, shape, scratch, out, ld, last);
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_SUM_PARTS_H_
