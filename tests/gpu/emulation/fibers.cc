// The fibers behind the emulated kernels: see cuda_runtime.h beside this.
#include <setjmp.h>
#include <ucontext.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda_runtime.h"

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {
namespace {

constexpr size_t kStackBytes = size_t{64} << 10;
constexpr unsigned kWarpSize = 32;

enum class State { kReady, kAtWarpBarrier, kAtBlockBarrier, kDone };

struct Fiber {
  ucontext_t context;  // where it starts
  jmp_buf place;       // where it waits
  bool started = false;
  State state;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
};

std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<uint64_t> slots;
jmp_buf scheduler;
unsigned current;
const std::function<void()>* body;
bool falling = false;

// Jumps between stacks cost no system call, unlike swapcontext, which sets the signal mask.
void Wait(State state) {
  Fiber& self = *fibers[current];
  self.state = state;
  if (_setjmp(self.place) == 0) _longjmp(scheduler, 1);
}

// A fiber lives on from block to block and runs the thread of its number.
void Live() {
  while (true) {
    (*body)();
    Wait(State::kDone);
  }
}

void Resume(Fiber* fiber) {
  if (_setjmp(scheduler) != 0) return;
  if (fiber->started) _longjmp(fiber->place, 1);
  fiber->started = true;
  setcontext(&fiber->context);
}

std::unique_ptr<Fiber> NewFiber() {
  auto fiber = std::make_unique<Fiber>();
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.get();
  fiber->context.uc_stack.ss_size = kStackBytes;
  makecontext(&fiber->context, &Live, 0);
  return fiber;
}

void RunReady(unsigned threads) {
  for (unsigned k = 0; k < threads; ++k) {
    current = falling ? threads - 1 - k : k;
    if (fibers[current]->state != State::kReady) continue;
    threadIdx = dim3(current, 0, 0);
    Resume(fibers[current].get());
  }
}

bool AllAre(State state, unsigned begin, unsigned end) {
  for (unsigned k = begin; k < end; ++k) {
    if (fibers[k]->state != state) return false;
  }
  return true;
}

void Release(unsigned begin, unsigned end) {
  for (unsigned k = begin; k < end; ++k) fibers[k]->state = State::kReady;
}

// Let the fibers past barriers that all have reached; false where there is none.
bool PassBarriers(unsigned threads) {
  bool passed = false;
  for (unsigned begin = 0; begin < threads; begin += kWarpSize) {
    const unsigned end = begin + kWarpSize < threads ? begin + kWarpSize : threads;
    if (!AllAre(State::kAtWarpBarrier, begin, end)) continue;
    Release(begin, end);
    passed = true;
  }
  if (!passed && AllAre(State::kAtBlockBarrier, 0, threads)) {
    Release(0, threads);
    passed = true;
  }
  return passed;
}

bool RunBlock(unsigned threads) {
  Release(0, threads);
  do {
    RunReady(threads);
  } while (PassBarriers(threads));
  return AllAre(State::kDone, 0, threads);
}

}  // namespace

void WaitForBlock() { Wait(State::kAtBlockBarrier); }
void WaitForWarp() { Wait(State::kAtWarpBarrier); }
void* SlotOfThread(unsigned thread) { return &slots[thread]; }

cudaError_t RunGrid(dim3 grid, dim3 block, const std::function<void()>& kernel) {
  if (grid.x == 0 || block.x == 0 || block.x > 1024) return cudaErrorInvalidConfiguration;
  while (fibers.size() < block.x) fibers.push_back(NewFiber());
  slots.resize(block.x);
  body = &kernel;
  gridDim = grid, blockDim = block;
  for (unsigned k = 0; k < grid.x; ++k) {
    blockIdx = dim3(k, 0, 0);
    if (RunBlock(block.x)) continue;
    fibers.clear();  // they wait at a barrier for ever
    return cudaErrorLaunchFailure;
  }
  return cudaSuccess;
}

}  // namespace emulation

// Run the threads of a block in falling order (1) or in rising order (0).
extern "C" __attribute__((visibility("default"))) void tfjac_emulation_falling(int yes) { emulation::falling = yes; }
