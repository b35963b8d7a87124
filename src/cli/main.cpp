// `rota`: looks at datasets, and at what runs leave behind, their traces and checkpoints.

#include "cli/verbs.hpp"

int main(int argc, char** argv) { return rota::cli::run(argc, argv); }
