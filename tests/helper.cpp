// What tests start as a process of its own: `test_helper WHAT [ARGUMENT...]`.

#include "helper.hpp"

#include <iostream>

int main(int argc, char** argv) {
  using namespace rota::test;  // NOLINT(google-build-using-namespace)
  const std::map<std::string, int (*)(int, char**)> helpers{{"guarded", guarded},
                                                            {"interchange", interchange},
                                                            {"job", job},
                                                            {"streamer", streamer},
                                                            {"victim", victim}};
  const auto found = argc > 1 ? helpers.find(argv[1]) : helpers.end();
  if (found != helpers.end()) return found->second(argc - 1, argv + 1);
  std::cerr << "usage: test_helper WHAT [ARGUMENT...]\n";
  return 2;
}
