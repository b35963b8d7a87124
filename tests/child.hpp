#pragma once

// The programs in test_child. Each takes the arguments of a main.

#include "test.hpp"

namespace rota::test {

int guarded(int argc, char** argv);
int interchange(int argc, char** argv);
int job(int argc, char** argv);
int streamer(int argc, char** argv);
int victim(int argc, char** argv);

}  // namespace rota::test
