// What tests start as a process of its own: `test_child WHAT [ARGUMENT...]`.

#include "child.hpp"

int main(int argc, char** argv) {
  using namespace rota::test;  // NOLINT(google-build-using-namespace)
  const std::map<std::string, int (*)(int, char**)> children{{"guarded", guarded},
                                                             {"interchange", interchange},
                                                             {"job", job},
                                                             {"streamer", streamer},
                                                             {"victim", victim}};
  const auto found = argc > 1 ? children.find(argv[1]) : children.end();
  if (found != children.end()) return found->second(argc - 1, argv + 1);
  std::cerr << "usage: test_child WHAT [ARGUMENT...]\n";
  return 2;
}
