#pragma once

// All of rota, and its table of contents. Each header names the one to read next, from error.hpp on.

#include "rota/bad_samples.hpp"           // what is done about them
#include "rota/batch.hpp"                 // what the loop gets
#include "rota/catalog.hpp"               // which files there are
#include "rota/cereal.hpp"                // blobs of anything
#include "rota/checkpoint.hpp"            // tensors and blobs in one file
#include "rota/checkpoint_directory.hpp"  // saving and finding
#include "rota/dispatch.hpp"              // a source that there is once
#include "rota/dtype.hpp"                 // element types
#include "rota/error.hpp"                 // what goes wrong
#include "rota/fingerprint.hpp"           // what a dataset is
#include "rota/loader.hpp"                // worker threads, read-ahead, next()
#include "rota/loader_stats.hpp"          // what loaders have done
#include "rota/mixture.hpp"               // several datasets, by weight
#include "rota/mpi.hpp"                   // communicators, the guard, the stop signal
#include "rota/open.hpp"                  // the formats there are
#include "rota/order.hpp"                 // (epoch, shard, position) <-> sample
#include "rota/packing.hpp"               // documents as sequences of one length
#include "rota/permutation.hpp"           // a keyed bijection
#include "rota/progress.hpp"              // what long work tells
#include "rota/resume.hpp"                // the loader in a checkpoint
#include "rota/schedule.hpp"              // whose turn it is
#include "rota/shard_plan.hpp"            // the cut into logical shards
#include "rota/snapshot.hpp"              // what is to be saved
#include "rota/source.hpp"                // reading samples by id
#include "rota/stream.hpp"                // shards that cannot be indexed
#include "rota/stream_loader.hpp"         // their loader
#include "rota/trace.hpp"                 // what a run says that it was handed
#include "rota/types.hpp"                 // samples, shards, positions
#include "rota/verify.hpp"                // all the damage of a checkpoint
#include "rota/windows.hpp"               // stretches of a time axis
#include "rota/worker.hpp"                // what a worker's own source is told
#include "rota/world.hpp"                 // who takes part
