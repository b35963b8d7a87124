// Where Python ends a thread that is in a call of rota.
//
// A thread that asks for Python's lock when Python has ended is unwound (pthread_exit, up to Python 3.13).
// What the frames of C++ would destroy on the way needs that lock, or aborts the process where it is
// noexcept. So the first frame of this module that is asked what it has to do in such an unwinding never
// answers: the thread waits for ever, and nobody waits for it. CMakeLists.txt lets frames ask here, instead
// of the C++ library. Frames of another module that is called by a user's function are asked before them, in
// its own way.

#include <unistd.h>
#include <unwind.h>

extern "C" {

_Unwind_Reason_Code of_the_library(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                   _Unwind_Exception* thrown,
                                   _Unwind_Context* frame) __asm__("__real___gxx_personality_v0");

[[gnu::used]] _Unwind_Reason_Code personality(int version, _Unwind_Action actions,
                                              _Unwind_Exception_Class kind, _Unwind_Exception* thrown,
                                              _Unwind_Context* frame) __asm__("__wrap___gxx_personality_v0");

_Unwind_Reason_Code personality(int version, _Unwind_Action actions, _Unwind_Exception_Class kind,
                                _Unwind_Exception* thrown, _Unwind_Context* frame) {
  if ((actions & _UA_FORCE_UNWIND) != 0) {
    for (;;) ::pause();
  }
  return of_the_library(version, actions, kind, thrown, frame);
}
}
