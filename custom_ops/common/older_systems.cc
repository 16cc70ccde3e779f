// What a compiler newer than the system that runs the library refers to in inline code, under its mangled names: so a wheel
// built here loads where the C and C++ libraries are those of manylinux_2_27. Hidden: nothing outside of the library sees
// them. Red Hat's toolsets do the same by libstdc++_nonshared.a. Linked into both libraries.
#if defined(__GLIBCXX__) || __has_include(<bits/c++config.h>)
#include <new>
#include <sstream>

#define TFJAC_HIDDEN extern "C" __attribute__((visibility("hidden")))

// glibc 2.32: whether reference counts may do without atomics. They may not.
TFJAC_HIDDEN char __libc_single_threaded;
char __libc_single_threaded = 0;

// libstdc++ of g++ 11: std::__throw_bad_array_new_length().
TFJAC_HIDDEN void _ZSt28__throw_bad_array_new_lengthv();
void _ZSt28__throw_bad_array_new_lengthv() { throw std::bad_alloc(); }

// libstdc++ of g++ 9: std::stringstream::stringstream(), which before took its default argument from the caller.
TFJAC_HIDDEN void _ZNSt7__cxx1118basic_stringstreamIcSt11char_traitsIcESaIcEEC1Ev(void* self);
void _ZNSt7__cxx1118basic_stringstreamIcSt11char_traitsIcESaIcEEC1Ev(void* self) {
  new (self) std::stringstream(std::ios_base::in | std::ios_base::out);
}
#endif
