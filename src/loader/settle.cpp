// Settle::by_hand: what a program says of what it was handed out.

#include "loader/loader_impl.hpp"

namespace rota {

using internal::names_of;

void Loader::settle(const Batch& batch) {
  impl().settling.require_ledger("settle")->settle_batch(names_of(batch), batch.start(), batch.end());
}
void Loader::settle(std::span<const SampleId> ids, std::span<const std::int64_t> epochs) {
  impl().settling.require_ledger("settle")->settle(names_of("settle", ids, epochs));
}
void Loader::drop(const Batch& batch, std::string_view reason) {
  impl().settling.require_ledger("drop")->drop(names_of(batch), reason);
}
void Loader::drop(std::span<const SampleId> ids, std::span<const std::int64_t> epochs,
                  std::string_view reason) {
  impl().settling.require_ledger("drop")->drop(names_of("drop", ids, epochs), reason);
}
void Loader::again(const Batch& batch) { impl().settling.require_ledger("give up")->again(names_of(batch)); }
void Loader::again(std::span<const SampleId> ids, std::span<const std::int64_t> epochs) {
  impl().settling.require_ledger("give up")->again(names_of("give up", ids, epochs));
}
void Loader::again() { impl().settling.require_ledger("give up")->again(); }
std::vector<bool> Loader::try_settle(std::span<const SampleId> ids, std::span<const std::int64_t> epochs) {
  return impl().settling.require_ledger("settle")->try_settle(names_of("settle", ids, epochs));
}
DroppedSamples Loader::dropped() const { return impl().settling.ledger()->dropped(); }

}  // namespace rota
