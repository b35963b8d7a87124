// What the archives of other libraries ask for, in a module that they are linked into: see
// cmake/RotaBundle.cmake.

#include <unistd.h>

#include <cstdio>

extern "C" {

// HDF5 and bzip2 are compiled for programs, which have these themselves.
extern FILE _IO_2_1_stdin_;
extern FILE _IO_2_1_stdout_;
extern FILE _IO_2_1_stderr_;
FILE* stdin = &_IO_2_1_stdin_;
FILE* stdout = &_IO_2_1_stdout_;
FILE* stderr = &_IO_2_1_stderr_;

// std::random_device asks for it, and glibc has it since 2.36.
unsigned arc4random() {
  unsigned value = 0;
  return ::getentropy(&value, sizeof value) == 0 ? value : static_cast<unsigned>(::getpid());
}

// All of LDAP, SSH, HTTP/2 and others that libcurl could call. It calls libssh2_init, for which 0 is success.
long rota_left_out() { return 0; }

// But it wants to know the version of this one.
struct Version {
  int age;
  int number;
  const char* text;
  const char* protocol;
};
const Version* nghttp2_version(int /*least*/) {
  static constexpr Version kNone{.age = 0, .number = 0, .text = "none", .protocol = "none"};
  return &kNone;
}
}
