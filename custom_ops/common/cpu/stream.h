// Writing results that are too large for the cache past it, so that memory is not read before it is overwritten. For
// files compiled per instruction set.
#ifndef TFJAC_CUSTOM_OPS_COMMON_CPU_STREAM_H_
#define TFJAC_CUSTOM_OPS_COMMON_CPU_STREAM_H_

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace tfjac::TFJAC_ISA {

constexpr int64_t kWorthStreaming = int64_t{8} << 20;  // bytes; about what a core's share of the cache holds

// Write one cache line, 64 bytes, to an address that is a multiple of 64.
static inline void StreamLine(char* to, const char* from) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#elif defined(__AVX__)
  for (int k = 0; k < 64; k += 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + k),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + k)));
  }
#elif defined(__SSE2__)
  for (int k = 0; k < 64; k += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + k), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k)));
  }
#else
  std::memcpy(to, from, 64);
#endif
}

// Make streamed writes visible to other threads.
static inline void StreamFence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// Copy past the cache, save for the parts of cache lines at both ends. StreamFence() is the caller's.
template <typename T>
static inline void StreamCopy(T* to, const T* from, int64_t count) {
  char* out = reinterpret_cast<char*>(to);
  const char* in = reinterpret_cast<const char*>(from);
  int64_t bytes = count * static_cast<int64_t>(sizeof(T));
  const int64_t gap = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(out) & 63);
  const int64_t head = gap < bytes ? gap : bytes;
  std::memcpy(out, in, head);
  out += head, in += head, bytes -= head;
  for (; bytes >= 64; bytes -= 64, out += 64, in += 64) StreamLine(out, in);
  std::memcpy(out, in, bytes);
}

// A sequence of numbers on its way to memory: collected in a small buffer, written by whole cache lines.
template <typename T>
class StreamWriter {
 public:
  explicit StreamWriter(T* to) : to_(reinterpret_cast<char*>(to)) {}
  StreamWriter(const StreamWriter&) = delete;
  StreamWriter& operator=(const StreamWriter&) = delete;
  ~StreamWriter() {
    Flush();
    std::memcpy(to_, buffer_, fill_ * sizeof(T));
    StreamFence();
  }

  static constexpr int64_t kRoom = 512;  // numbers that Next() may ask for at a time

  // Room for `count` <= kRoom further numbers, to be written before the next call.
  T* Next(int64_t count) {
    if (fill_ + count > kCapacity) Flush();
    T* const room = buffer_ + fill_;
    fill_ += count;
    return room;
  }

 private:
  static constexpr int64_t kCapacity = 2048;

  // Write what fills whole lines, keep the rest.
  void Flush() {
    const char* from = reinterpret_cast<const char*>(buffer_);
    int64_t bytes = fill_ * static_cast<int64_t>(sizeof(T));
    const int64_t head = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to_) & 63);
    if (head > 0 && head <= bytes) {  // at the start only: after it, to_ stays at a line's boundary
      std::memcpy(to_, from, head);
      to_ += head, from += head, bytes -= head;
    }
    if ((reinterpret_cast<uintptr_t>(to_) & 63) == 0) {
      for (; bytes >= 64; bytes -= 64, to_ += 64, from += 64) StreamLine(to_, from);
    }
    std::memmove(buffer_, from, bytes);
    fill_ = bytes / static_cast<int64_t>(sizeof(T));
  }

  char* to_;
  int64_t fill_ = 0;
  alignas(64) T buffer_[kCapacity];
};

}  // namespace tfjac::TFJAC_ISA

#endif  // TFJAC_CUSTOM_OPS_COMMON_CPU_STREAM_H_
