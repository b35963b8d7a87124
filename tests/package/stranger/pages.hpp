#pragma once

// What the code in docs/ takes for granted: the reader's communicator, loader, checkpoints, source and
// training.

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <rota/rota.hpp>
#include <span>
#include <string>
#include <vector>

extern const rota::Communicator& comm;
extern rota::Loader& loader;
extern rota::CheckpointDirectory& checkpoints;
extern const std::shared_ptr<const rota::Source> source;
extern const std::shared_ptr<const rota::Source> documents;

void train(std::span<const rota::SampleId> ids);
void train(const rota::Batch& batch);
void evaluate(const rota::Batch& batch);
