#pragma once

// All of rota, in reading order: what most programs need comes first.

// clang-format off: not in order of names

// A program that trains.
#include "rota/balance.hpp"               // batches dealt so that ranks have as much to do
#include "rota/batch.hpp"                 // what the loop gets
#include "rota/checkpoint_directory.hpp"  // saving, and finding what was saved
#include "rota/communicator.hpp"          // groups of ranks, the stop signal
#include "rota/loader.hpp"                // worker threads, read-ahead, next()
#include "rota/loader_options.hpp"        // batch size, shuffle, epochs, bad samples, mixtures
#ifdef ROTA_MPI
#include "rota/mpi.hpp"  // communicators of MPI, the session
#endif
#include "rota/open.hpp"       // the file formats
#include "rota/resume.hpp"     // the loader in a checkpoint
#include "rota/stats.hpp"      // what a loader waits for, and which rank
#include "rota/transform.hpp"  // functions run on samples and on batches

// Datasets.
#include "rota/catalog.hpp"         // which files there are
#include "rota/object_storage.hpp"  // S3, and web servers
#include "rota/packing.hpp"         // documents packed into sequences of one length
#include "rota/select.hpp"          // some samples of a source; several side by side
#include "rota/source.hpp"          // a source of your own; join, split
#include "rota/storage.hpp"         // a place of your own, where files are
#include "rota/windows.hpp"         // windows of a time axis
#include "rota/worker.hpp"          // facts for a worker's own source
#include "rota/write_shards.hpp"    // datasets written as tar, MDS or TFRecord shards

// What cannot be indexed.
#include "rota/stream.hpp"         // shards that are read in sequence
#include "rota/stream_loader.hpp"  // their loader; a source that exists once (Dispatch)

// Checkpoints.
#include "rota/cereal.hpp"      // blobs of anything
#include "rota/checkpoint.hpp"  // tensors and blobs in one file
#include "rota/snapshot.hpp"    // what a save writes
#include "rota/trace.hpp"       // records of what each rank was given
#include "rota/verify.hpp"      // all the damage of a checkpoint

// Values.
#include "rota/dtype.hpp"        // element types
#include "rota/error.hpp"        // the one exception
#include "rota/fingerprint.hpp"  // the identity of a dataset
#include "rota/lengths.hpp"      // of samples, known before any is read
#include "rota/message.hpp"      // what there is to tell beside errors
#include "rota/run.hpp"          // an order and a place in it, without data
#include "rota/run_plan.hpp"     // what it changes on its way
#include "rota/types.hpp"        // samples, shards, positions, enumerations of options
#include "rota/world.hpp"        // this process's rank
