#include "custom_ops/common/gpu/libraries.h"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "custom_ops/common/gpu/api.h"
#include "custom_ops/common/gpu/launch.h"

// The environment variables of a library built for tests may have other names, so that those of this process are not theirs.
#ifndef TFJAC_VARIABLE_PREFIX
#define TFJAC_VARIABLE_PREFIX "TFJAC_"
#endif

namespace tfjac {
namespace {

std::atomic<int> library_use{kLibraryWhereFaster};
std::atomic<bool> may_use_tf32{false};

// Products of one call: below the limit of a grid's second axis, whatever cuBLAS makes of it.
constexpr int64_t kMostProducts = 32768;

// Values of the libraries' enumerations, the same from CUDA 11 to 13. Row-major lower is their column-major upper.
constexpr int kNoTranspose = 0, kTranspose = 1, kLower = 0, kUpper = 1, kDefaultMath = 0, kTf32Math = 3;

using Handle = void*;

// Folders to look in, each with a slash at its end.
std::mutex folders_mutex;
std::vector<std::string>& Folders() {
  static auto* const folders = new std::vector<std::string>;
  return *folders;
}

void* OpenAny(const std::string& folder, const std::vector<const char*>& names, int flags) {
  for (const char* const name : names) {
    if (void* const library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL | flags)) return library;
  }
  return nullptr;
}

// Open the file that the environment variable names, or one of `names`: first what the process has loaded already.
void* OpenLibrary(const char* variable, const std::vector<const char*>& names) {
  const char* const wish = std::getenv(variable);
  if (wish != nullptr && wish[0] != 0) return dlopen(wish, RTLD_NOW | RTLD_LOCAL);
  if (void* const library = OpenAny("", names, RTLD_NOLOAD)) return library;
  const std::lock_guard<std::mutex> lock(folders_mutex);
  for (const std::string& folder : Folders()) {
    if (void* const library = OpenAny(folder, names, 0)) return library;
  }
  return OpenAny("", names, 0);
}

// Set `function` to the library's function of that name; false where there is none.
template <typename Function>
bool Find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  return *function != nullptr;
}

template <typename T>
using Gemm = int(Handle, int, int, int, int, int, const T*, const T*, int, const T*, int, const T*, T*, int);
template <typename T>
using Gemms = int(Handle, int, int, int, int, int, const T*, const T*, int, long long, const T*, int, long long,
                  const T*, T*, int, long long, int);
template <typename T>
using Syrk = int(Handle, int, int, int, int, const T*, const T*, int, const T*, T*, int);

struct Cublas {
  int (*create)(Handle*);
  int (*destroy)(Handle);
  int (*set_stream)(Handle, cudaStream_t);
  int (*set_math)(Handle, int);
  Gemm<float>* sgemm;
  Gemm<double>* dgemm;
  Gemms<float>* sgemms;
  Gemms<double>* dgemms;
  Syrk<float>* ssyrk;
  Syrk<double>* dsyrk;

  bool Load() {
    void* const library =
        OpenLibrary(TFJAC_VARIABLE_PREFIX "CUBLAS", {"libcublas.so.12", "libcublas.so.13", "libcublas.so.11"});
    return library != nullptr && Find(library, "cublasCreate_v2", &create) &&
           Find(library, "cublasDestroy_v2", &destroy) && Find(library, "cublasSetStream_v2", &set_stream) &&
           Find(library, "cublasSetMathMode", &set_math) && Find(library, "cublasSgemm_v2", &sgemm) &&
           Find(library, "cublasDgemm_v2", &dgemm) && Find(library, "cublasSgemmStridedBatched", &sgemms) &&
           Find(library, "cublasDgemmStridedBatched", &dgemms) && Find(library, "cublasSsyrk_v2", &ssyrk) &&
           Find(library, "cublasDsyrk_v2", &dsyrk);
  }
};

template <typename T>
using Potrfs = int(Handle, int, int, T**, int, int*, int);
template <typename T>
using Potrss = int(Handle, int, int, int, T**, int, T**, int, int*, int);

// One system: the 64-bit interface of cuSOLVER, with types as values of cudaDataType.
struct Cusolver {
  int (*create)(Handle*);
  int (*create_params)(Handle*);
  int (*set_stream)(Handle, cudaStream_t);
  int (*buffer_size)(Handle, Handle, int, int64_t, int, const void*, int64_t, int, size_t*, size_t*);
  int (*factorise)(Handle, Handle, int, int64_t, int, void*, int64_t, int, void*, size_t, void*, size_t, int*);
  int (*solve)(Handle, Handle, int, int64_t, int64_t, int, const void*, int64_t, int, void*, int64_t, int*);
  Potrfs<float>* spotrfs;
  Potrfs<double>* dpotrfs;
  Potrss<float>* spotrss;
  Potrss<double>* dpotrss;

  bool Load() {
    void* const library = OpenLibrary(TFJAC_VARIABLE_PREFIX "CUSOLVER", {"libcusolver.so.11", "libcusolver.so.12"});
    return library != nullptr && Find(library, "cusolverDnCreate", &create) &&
           Find(library, "cusolverDnCreateParams", &create_params) &&
           Find(library, "cusolverDnSetStream", &set_stream) &&
           Find(library, "cusolverDnXpotrf_bufferSize", &buffer_size) &&
           Find(library, "cusolverDnXpotrf", &factorise) && Find(library, "cusolverDnXpotrs", &solve) &&
           Find(library, "cusolverDnSpotrfBatched", &spotrfs) && Find(library, "cusolverDnDpotrfBatched", &dpotrfs) &&
           Find(library, "cusolverDnSpotrsBatched", &spotrss) && Find(library, "cusolverDnDpotrsBatched", &dpotrss);
  }
};

// The library, or null where it is not to be had, for now: what is not there is looked for again.
template <typename Library>
const Library* Loaded() {
  static std::mutex mutex;
  static Library library;
  static std::atomic<bool> loaded{false};
  if (loaded.load()) return &library;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!loaded.load() && library.Load()) loaded.store(true);
  return loaded.load() ? &library : nullptr;
}

// A handle and what belongs to it, one for each device and stream, so that streams do not share a library's workspace.
// Never destroyed: when a process ends, the driver may be gone before the handles.
struct Session {
  std::mutex mutex;  // one thread at a time
  Handle handle = nullptr;
  Handle params = nullptr;
  std::vector<std::unique_ptr<char[]>> host_buffers;  // the last is the largest; enqueued work may still use the others
  size_t host_bytes = 0;

  void* HostBuffer(size_t bytes) {
    if (bytes > host_bytes) {
      host_buffers.push_back(std::make_unique<char[]>(bytes));
      host_bytes = bytes;
    }
    return host_buffers.empty() ? nullptr : host_buffers.back().get();
  }
};

template <typename Library>
class Sessions {
 public:
  // Run use(library, session) with the session of the stream.
  template <typename Use>
  static int With(void* stream, int missing, int error, const Use& use) {
    const Library* const library = Loaded<Library>();
    if (library == nullptr) return missing;
    int device = 0;
    TFJAC_RETURN_IF_ERROR(cudaGetDevice(&device));
    Session& session = SessionOf(device, stream);
    const std::lock_guard<std::mutex> lock(session.mutex);
    int status = session.handle == nullptr ? Create(*library, &session) : 0;
    if (status != 0) session.handle = nullptr;  // whatever a library that fails leaves there
    if (status == 0) status = library->set_stream(session.handle, static_cast<cudaStream_t>(stream));
    if (status == 0) status = Prepare(*library, session);
    if (status == 0) status = use(*library, session);
    return status == 0 ? 0 : error + status;
  }

 private:
  static int Create(const Cublas& library, Session* session) { return library.create(&session->handle); }
  static int Create(const Cusolver& library, Session* session) {
    const int status = library.create(&session->handle);
    return status == 0 ? library.create_params(&session->params) : status;
  }
  static int Prepare(const Cublas& library, const Session& session) {
    return library.set_math(session.handle, may_use_tf32.load() ? kTf32Math : kDefaultMath);
  }
  static int Prepare(const Cusolver&, const Session&) { return 0; }

  static Session& SessionOf(int device, void* stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return (*sessions_)[{device, stream}];
  }

  static inline std::mutex mutex_;
  static inline auto* const sessions_ = new std::map<std::pair<int, void*>, Session>;
};

Gemm<float>* GemmOf(const Cublas& library, float) { return library.sgemm; }
Gemm<double>* GemmOf(const Cublas& library, double) { return library.dgemm; }
Gemms<float>* GemmsOf(const Cublas& library, float) { return library.sgemms; }
Gemms<double>* GemmsOf(const Cublas& library, double) { return library.dgemms; }
Potrfs<float>* PotrfsOf(const Cusolver& library, float) { return library.spotrfs; }
Potrfs<double>* PotrfsOf(const Cusolver& library, double) { return library.dpotrfs; }
Potrss<float>* PotrssOf(const Cusolver& library, float) { return library.spotrss; }
Potrss<double>* PotrssOf(const Cusolver& library, double) { return library.dpotrss; }
Syrk<float>* SyrkOf(const Cublas& library, float) { return library.ssyrk; }
Syrk<double>* SyrkOf(const Cublas& library, double) { return library.dsyrk; }
constexpr int DataType(float) { return CUDA_R_32F; }
constexpr int DataType(double) { return CUDA_R_64F; }

}  // namespace

bool UseCublas(double operations, double worth) {
  const int use = library_use.load();
  return use == kAlwaysLibrary || (use == kLibraryWhereFaster && operations >= worth);
}

namespace {

// out is rows × columns, and sums over depth.
struct ProductSizes {
  int64_t rows, columns, depth;
};

// A matrix in memory: whether it is read as it is or transposed, and how many numbers lie from row to row.
template <typename T>
struct Operand {
  int transposed;
  const T* data;
  int64_t ld;
};

// All matrices are read column by column, so that everything is transposed: outᵀ = op(right)ᵀ op(left).
template <typename T>
int Product(void* stream, ProductSizes sizes, Operand<T> left, Operand<T> right, bool add, T* out, int64_t ld) {
  if (sizes.rows == 0 || sizes.columns == 0) return 0;
  return Sessions<Cublas>::With(stream, kNoCublas, kCublasError, [&](const Cublas& library, Session& session) {
    const T one = 1, beta = add ? 1 : 0;
    const int ld_a = static_cast<int>(LargerOf(right.ld, 1)), ld_b = static_cast<int>(LargerOf(left.ld, 1));
    return GemmOf(library, T())(session.handle, right.transposed, left.transposed, static_cast<int>(sizes.columns),
                                static_cast<int>(sizes.rows), static_cast<int>(sizes.depth), &one, right.data, ld_a,
                                left.data, ld_b, &beta, out, static_cast<int>(ld));
  });
}

}  // namespace

template <typename T>
int LibraryProduct(void* stream, int64_t rows, int64_t columns, int64_t depth, const T* left, int64_t ld_left,
                   const T* right, int64_t ld_right, bool add, T* out, int64_t ld) {
  const Operand<T> first{kTranspose, left, ld_left}, second{kNoTranspose, right, ld_right};
  return Product(stream, {rows, columns, depth}, first, second, add, out, ld);
}

template <typename T>
int LibraryProductOfRows(void* stream, int64_t rows, int64_t columns, int64_t depth, const T* left, int64_t ld_left,
                         const T* right, int64_t ld_right, bool add, T* out, int64_t ld) {
  const Operand<T> first{kNoTranspose, left, ld_left}, second{kTranspose, right, ld_right};
  return Product(stream, {rows, columns, depth}, first, second, add, out, ld);
}

template <typename T>
int LibraryProducts(void* stream, int64_t count, int64_t rows, int64_t columns, int64_t depth, const T* left,
                    const T* right, T* out) {
  return Sessions<Cublas>::With(stream, kNoCublas, kCublasError, [&](const Cublas& library, Session& session) {
    const T one = 1, zero = 0;
    int status = 0;
    for (int64_t k = 0; k < count && status == 0; k += kMostProducts) {
      status = GemmsOf(library, T())(
          session.handle, kNoTranspose, kTranspose, static_cast<int>(columns), static_cast<int>(rows),
          static_cast<int>(depth), &one, right + k * columns * depth, static_cast<int>(columns), columns * depth,
          left + k * rows * depth, static_cast<int>(rows), rows * depth, &zero, out + k * rows * columns,
          static_cast<int>(columns), rows * columns, static_cast<int>(SmallerOf(kMostProducts, count - k)));
    }
    return status;
  });
}

template <typename T>
int LibrarySquare(void* stream, int64_t size, int64_t depth, const T* panel, int64_t ld_panel, bool add, T* out,
                  int64_t ld) {
  if (size < kWorthSyrk<T>) {
    return LibraryProduct(stream, size, size, depth, panel, ld_panel, panel, ld_panel, add, out, ld);
  }
  return Sessions<Cublas>::With(stream, kNoCublas, kCublasError, [&](const Cublas& library, Session& session) {
    const T one = 1, beta = add ? 1 : 0;
    return SyrkOf(library, T())(session.handle, kUpper, kNoTranspose, static_cast<int>(size), static_cast<int>(depth),
                                &one, panel, static_cast<int>(ld_panel), &beta, out, static_cast<int>(ld));
  });
}

template <typename T>
int CholeskyBuffer(void* stream, int64_t size, int64_t* bytes) {
  return Sessions<Cusolver>::With(stream, kNoCusolver, kCusolverError, [&](const Cusolver& library, Session& session) {
    size_t on_device = 0, on_host = 0;
    const int status = library.buffer_size(session.handle, session.params, kLower, size, DataType(T()), nullptr, size,
                                           DataType(T()), &on_device, &on_host);
    *bytes = static_cast<int64_t>(on_device);
    return status;
  });
}

template <typename T>
int LibraryCholesky(void* stream, int64_t size, T* matrix, T* rhs, void* buffer, int64_t bytes, int* failed) {
  return Sessions<Cusolver>::With(stream, kNoCusolver, kCusolverError, [&](const Cusolver& library, Session& session) {
    constexpr int type = DataType(T());
    size_t on_device = 0, on_host = 0;
    int status = library.buffer_size(session.handle, session.params, kLower, size, type, matrix, size, type, &on_device,
                                     &on_host);
    if (status != 0) return status;
    status = library.factorise(session.handle, session.params, kLower, size, type, matrix, size, type, buffer,
                               static_cast<size_t>(bytes), session.HostBuffer(on_host), on_host, failed);
    if (status != 0) return status;
    return library.solve(session.handle, session.params, kLower, size, 1, type, matrix, size, type, rhs, size,
                         failed + 1);
  });
}

template <typename T>
int LibraryCholeskys(void* stream, int64_t count, int64_t size, T** matrices, T** rhs, int* failed) {
  return Sessions<Cusolver>::With(stream, kNoCusolver, kCusolverError, [&](const Cusolver& library, Session& session) {
    const int n = static_cast<int>(size), k = static_cast<int>(count);
    const int status = PotrfsOf(library, T())(session.handle, kLower, n, matrices, n, failed, k);
    if (status != 0) return status;
    return PotrssOf(library, T())(session.handle, kLower, n, 1, matrices, n, rhs, n, failed + count, k);
  });
}

#define INSTANTIATE(T)                                                                                                \
  template int LibraryProduct(void*, int64_t, int64_t, int64_t, const T*, int64_t, const T*, int64_t, bool, T*,       \
                              int64_t);                                                                               \
  template int LibraryProductOfRows(void*, int64_t, int64_t, int64_t, const T*, int64_t, const T*, int64_t, bool, T*, \
                                    int64_t);                                                                         \
  template int LibraryProducts(void*, int64_t, int64_t, int64_t, int64_t, const T*, const T*, T*);                    \
  template int LibrarySquare(void*, int64_t, int64_t, const T*, int64_t, bool, T*, int64_t);                          \
  template int CholeskyBuffer<T>(void*, int64_t, int64_t*);                                                           \
  template int LibraryCholesky(void*, int64_t, T*, T*, void*, int64_t, int*);                                         \
  template int LibraryCholeskys(void*, int64_t, int64_t, T**, T**, int*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tfjac

const char* tfjac_cuda_error_message(int code) {
  static thread_local char text[256];
  if (code == tfjac::kNoCublas || code == tfjac::kNoCusolver) {
    const bool blas = code == tfjac::kNoCublas;
    std::snprintf(text, sizeof(text), "%s was not found; install the package %s, or name the file in %s",
                  blas ? "cuBLAS" : "cuSOLVER", blas ? "nvidia-cublas" : "nvidia-cusolver",
                  blas ? TFJAC_VARIABLE_PREFIX "CUBLAS" : TFJAC_VARIABLE_PREFIX "CUSOLVER");
  } else if (code >= tfjac::kCusolverError) {
    std::snprintf(text, sizeof(text), "cuSOLVER failed with status %d", code - tfjac::kCusolverError);
  } else if (code >= tfjac::kCublasError) {
    std::snprintf(text, sizeof(text), "cuBLAS failed with status %d", code - tfjac::kCublasError);
  } else {
    const cudaError_t error = static_cast<cudaError_t>(code);
    std::snprintf(text, sizeof(text), "%s: %s", cudaGetErrorName(error), cudaGetErrorString(error));
  }
  return text;
}

void tfjac_cuda_use_library(int use) { tfjac::library_use.store(use); }

void tfjac_cuda_use_tf32(int use) { tfjac::may_use_tf32.store(use != 0); }

void tfjac_cuda_search_in(const char* folder) {
  const std::lock_guard<std::mutex> lock(tfjac::folders_mutex);
  tfjac::Folders().push_back(std::string(folder) + "/");
}

int tfjac_cuda_driver_status() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return static_cast<int>(error);
}

int tfjac_cuda_runtime_version() {
  int version = 0;
  (void)cudaRuntimeGetVersion(&version);
  return version;
}
