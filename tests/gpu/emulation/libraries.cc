// The functions of cuBLAS and cuSOLVER that libraries_gpu.cu.cc calls, written down from their reference: matrices
// column by column, on the host. Stands in for both libraries where the launchers are tested without a GPU.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

constexpr int kNoTranspose = 0, kLower = 0, kUpper = 1, kFloat = 0, kInvalid = 7;
constexpr int kAlignment = 256;  // of what cudaMalloc gives, which the real ones may count on

// c = alpha op(a) op(b) + beta c, op(a) [m, k], op(b) [k, n]
template <typename T>
int Gemm(int op_a, int op_b, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c,
         int ldc) {
  if (lda < 1 || ldb < 1 || ldc < 1) return kInvalid;
  if (lda < (op_a == kNoTranspose ? m : k) || ldb < (op_b == kNoTranspose ? k : n) || ldc < m) return kInvalid;
  for (int64_t x = 0; x < m; ++x) {
    for (int64_t y = 0; y < n; ++y) {
      T sum = 0;
      for (int64_t z = 0; z < k; ++z) {
        const int64_t from_a = op_a == kNoTranspose ? x + z * lda : z + x * lda;
        const int64_t from_b = op_b == kNoTranspose ? z + y * ldb : y + z * ldb;
        sum += a[from_a] * b[from_b];
      }
      T* const out = c + x + y * ldc;
      *out = alpha * sum + (beta == T(0) ? T(0) : beta * *out);
    }
  }
  return 0;
}

template <typename T>
int Gemms(int op_a, int op_b, int m, int n, int k, T alpha, const T* a, int lda, int64_t step_a, const T* b, int ldb,
          int64_t step_b, T beta, T* c, int ldc, int64_t step_c, int count) {
  int status = 0;
  for (int64_t j = 0; j < count && status == 0; ++j) {
    status = Gemm(op_a, op_b, m, n, k, alpha, a + j * step_a, lda, b + j * step_b, ldb, beta, c + j * step_c, ldc);
  }
  return status;
}

// The upper triangle of c = alpha a aᵀ + beta c, a [n, k]
template <typename T>
int Syrk(int triangle, int op, int n, int k, T alpha, const T* a, int lda, T beta, T* c, int ldc) {
  if (triangle != kUpper || op != kNoTranspose || lda < n || ldc < n) return kInvalid;
  for (int64_t y = 0; y < n; ++y) {
    for (int64_t x = 0; x <= y; ++x) {
      T sum = 0;
      for (int64_t z = 0; z < k; ++z) sum += a[x + z * lda] * a[y + z * lda];
      T* const out = c + x + y * ldc;
      *out = alpha * sum + (beta == T(0) ? T(0) : beta * *out);
    }
  }
  return 0;
}

// a = l lᵀ in the lower triangle; info is the order of the first minor that is not positive definite.
template <typename T>
void Factorise(int64_t n, T* a, int64_t lda, int* info) {
  *info = 0;
  for (int64_t x = 0; x < n; ++x) {
    for (int64_t y = 0; y <= x; ++y) {
      T sum = a[x + y * lda];
      for (int64_t z = 0; z < y; ++z) sum -= a[x + z * lda] * a[y + z * lda];
      if (x == y && !(sum > 0)) {
        *info = static_cast<int>(x + 1);
        return;
      }
      a[x + y * lda] = x == y ? std::sqrt(sum) : sum / a[y + y * lda];
    }
  }
}

template <typename T>
void Solve(int64_t n, const T* a, int64_t lda, T* b) {
  for (int64_t x = 0; x < n; ++x) {
    for (int64_t z = 0; z < x; ++z) b[x] -= a[x + z * lda] * b[z];
    b[x] /= a[x + x * lda];
  }
  for (int64_t x = n - 1; x >= 0; --x) {
    for (int64_t z = x + 1; z < n; ++z) b[x] -= a[z + x * lda] * b[z];
    b[x] /= a[x + x * lda];
  }
}

// Fails where the environment variable says so.
int Create(void** handle) {
  static int something;
  *handle = &something;
  return std::getenv("TFJAC_EMULATED_FAILURE") != nullptr ? kInvalid : 0;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default"))) int

EXPORT cublasCreate_v2(void** handle) { return Create(handle); }
EXPORT cublasDestroy_v2(void*) { return 0; }
EXPORT cublasSetStream_v2(void*, void*) { return 0; }
EXPORT cublasSetMathMode(void*, int mode) { return mode == 0 || mode == 3 ? 0 : kInvalid; }
EXPORT cublasSgemm_v2(void*, int op_a, int op_b, int m, int n, int k, const float* alpha, const float* a, int lda,
                      const float* b, int ldb, const float* beta, float* c, int ldc) {
  return Gemm(op_a, op_b, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
}
EXPORT cublasDgemm_v2(void*, int op_a, int op_b, int m, int n, int k, const double* alpha, const double* a, int lda,
                      const double* b, int ldb, const double* beta, double* c, int ldc) {
  return Gemm(op_a, op_b, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
}
EXPORT cublasSgemmStridedBatched(void*, int op_a, int op_b, int m, int n, int k, const float* alpha, const float* a,
                                 int lda, long long step_a, const float* b, int ldb, long long step_b,
                                 const float* beta, float* c, int ldc, long long step_c, int count) {
  return Gemms(op_a, op_b, m, n, k, *alpha, a, lda, step_a, b, ldb, step_b, *beta, c, ldc, step_c, count);
}
EXPORT cublasDgemmStridedBatched(void*, int op_a, int op_b, int m, int n, int k, const double* alpha, const double* a,
                                 int lda, long long step_a, const double* b, int ldb, long long step_b,
                                 const double* beta, double* c, int ldc, long long step_c, int count) {
  return Gemms(op_a, op_b, m, n, k, *alpha, a, lda, step_a, b, ldb, step_b, *beta, c, ldc, step_c, count);
}
EXPORT cublasSsyrk_v2(void*, int triangle, int op, int n, int k, const float* alpha, const float* a, int lda,
                      const float* beta, float* c, int ldc) {
  return Syrk(triangle, op, n, k, *alpha, a, lda, *beta, c, ldc);
}
EXPORT cublasDsyrk_v2(void*, int triangle, int op, int n, int k, const double* alpha, const double* a, int lda,
                      const double* beta, double* c, int ldc) {
  return Syrk(triangle, op, n, k, *alpha, a, lda, *beta, c, ldc);
}

EXPORT cusolverDnCreate(void** handle) { return Create(handle); }
EXPORT cusolverDnCreateParams(void** params) { return Create(params); }
EXPORT cusolverDnSetStream(void*, void*) { return 0; }
EXPORT cusolverDnXpotrf_bufferSize(void*, void*, int, int64_t, int, const void*, int64_t, int, size_t* on_device,
                                   size_t* on_host) {
  *on_device = 100;
  *on_host = 10;
  return 0;
}
EXPORT cusolverDnXpotrf(void*, void*, int triangle, int64_t n, int type, void* a, int64_t lda, int computing,
                        void* on_device, size_t device_bytes, void* on_host, size_t host_bytes, int* info) {
  if (triangle != kLower || type != computing || lda < n || device_bytes < 100 || host_bytes < 10) return kInvalid;
  if (on_device == nullptr || on_host == nullptr) return kInvalid;
  if (reinterpret_cast<uintptr_t>(on_device) % kAlignment != 0) return kInvalid;
  type == kFloat ? Factorise(n, static_cast<float*>(a), lda, info) : Factorise(n, static_cast<double*>(a), lda, info);
  return 0;
}
EXPORT cusolverDnXpotrs(void*, void*, int triangle, int64_t n, int64_t columns, int type, const void* a, int64_t lda,
                        int type_b, void* b, int64_t ldb, int* info) {
  if (triangle != kLower || columns != 1 || type != type_b || lda < n || ldb < n) return kInvalid;
  type == kFloat ? Solve(n, static_cast<const float*>(a), lda, static_cast<float*>(b))
                 : Solve(n, static_cast<const double*>(a), lda, static_cast<double*>(b));
  *info = 0;
  return 0;
}

namespace {

template <typename T>
int FactoriseAll(int triangle, int n, T** a, int lda, int* info, int count) {
  if (triangle != kLower || lda < n) return kInvalid;
  for (int k = 0; k < count; ++k) Factorise<T>(n, a[k], lda, info + k);
  return 0;
}

template <typename T>
int SolveAll(int triangle, int n, int columns, T** a, int lda, T** b, int ldb, int* info, int count) {
  if (triangle != kLower || columns != 1 || lda < n || ldb < n) return kInvalid;
  for (int k = 0; k < count; ++k) Solve<T>(n, a[k], lda, b[k]);
  *info = 0;
  return 0;
}

}  // namespace

EXPORT cusolverDnSpotrfBatched(void*, int triangle, int n, float** a, int lda, int* info, int count) {
  return FactoriseAll(triangle, n, a, lda, info, count);
}
EXPORT cusolverDnDpotrfBatched(void*, int triangle, int n, double** a, int lda, int* info, int count) {
  return FactoriseAll(triangle, n, a, lda, info, count);
}
EXPORT cusolverDnSpotrsBatched(void*, int triangle, int n, int columns, float** a, int lda, float** b, int ldb,
                               int* info, int count) {
  return SolveAll(triangle, n, columns, a, lda, b, ldb, info, count);
}
EXPORT cusolverDnDpotrsBatched(void*, int triangle, int n, int columns, double** a, int lda, double** b, int ldb,
                               int* info, int count) {
  return SolveAll(triangle, n, columns, a, lda, b, ldb, info, count);
}
