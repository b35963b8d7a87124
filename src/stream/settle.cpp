// Settle::by_hand of a dispatch: what a program says of the items that it was handed out.

#include "rota/cereal.hpp"
#include "stream/stream_loader_impl.hpp"

namespace rota {

namespace internal {

template <typename Archive>
void serialize(Archive& archive, KeptSample& item) {
  archive(item.name.epoch, item.name.id.value, item.record);
}

}  // namespace internal

using internal::names_of;

void StreamLoader::settle(const Batch& batch) {
  impl().settling()->require_ledger("settle")->settle(names_of(batch));
}
void StreamLoader::settle(std::span<const SampleId> ids, std::span<const std::int64_t> epochs) {
  impl().settling()->require_ledger("settle")->settle(names_of("settle", ids, epochs));
}
void StreamLoader::drop(const Batch& batch, std::string_view reason) {
  impl().settling()->require_ledger("drop")->drop(names_of(batch), reason);
}
void StreamLoader::drop(std::span<const SampleId> ids, std::span<const std::int64_t> epochs,
                        std::string_view reason) {
  impl().settling()->require_ledger("drop")->drop(names_of("drop", ids, epochs), reason);
}
void StreamLoader::again(const Batch& batch) {
  impl().settling()->require_ledger("give up")->again(names_of(batch));
}
void StreamLoader::again(std::span<const SampleId> ids, std::span<const std::int64_t> epochs) {
  impl().settling()->require_ledger("give up")->again(names_of("give up", ids, epochs));
}
void StreamLoader::again() { impl().settling()->require_ledger("give up")->again(); }
std::vector<bool> StreamLoader::try_settle(std::span<const SampleId> ids,
                                           std::span<const std::int64_t> epochs) {
  return impl().settling()->require_ledger("settle")->try_settle(names_of("settle", ids, epochs));
}
DroppedSamples StreamLoader::dropped() const { return impl().settling()->ledger()->dropped(); }

void StreamLoader::merge() {
  Impl& run = impl();
  internal::Ledger& ledger = *run.settling()->require_ledger("merge");
  internal::KeptSamples mine = ledger.take_items_given_up();
  internal::KeptSamples all;
  try {
    for (const std::string& of_rank : run.gather([&] { return to_blob(mine); })) {
      auto items = from_blob<internal::KeptSamples>(of_rank);
      std::ranges::move(items, std::back_inserter(all));
    }
  } catch (...) {
    ledger.give_back(std::move(mine));
    throw;
  }
  run.dispatch()->come_again(std::move(all));
}

}  // namespace rota
