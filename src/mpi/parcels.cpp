#include "mpi/parcels.hpp"

#include <algorithm>
#include <utility>

#include "mpi/tags.hpp"

namespace rota::mpi {
namespace {

// For one more, so that adding it cannot fail.
void make_place(auto& all) {
  if (all.size() == all.capacity()) all.reserve(2 * all.size() + 1);
}

}  // namespace

Outbox::~Outbox() {
  for (auto& parcel : parcels_) keep_for_ever(std::const_pointer_cast<Bytes>(std::move(parcel)));
}

void Outbox::send(int rank, std::shared_ptr<const Bytes> parcel) {
  const int count = to_count(parcel->size());
  make_place(parcels_);
  make_place(requests_);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(parcel->data(), count, MPI_BYTE, rank, kParcelTag, comm_->get(), &request), "MPI_Isend");
  parcels_.push_back(std::move(parcel));
  requests_.push_back(request);
}

void Outbox::progress() {
  if (requests_.empty()) return;
  int count = 0;
  done_.resize(requests_.size());
  check(MPI_Testsome(to_count(requests_.size()), requests_.data(), &count, done_.data(), MPI_STATUSES_IGNORE),
        "MPI_Testsome");
  for (int i = 0; i < count; ++i) parcels_[static_cast<std::size_t>(done_[static_cast<std::size_t>(i)])] = {};
  std::erase(requests_, MPI_REQUEST_NULL);
  std::erase(parcels_, nullptr);
}

Inbox::~Inbox() {
  for (Coming& coming : coming_) keep_for_ever(std::move(coming.parcel));
}

std::shared_ptr<const Bytes> Inbox::receive() {
  for (;;) {
    int has_come = 0;
    MPI_Status status{};
    check(MPI_Iprobe(0, kParcelTag, comm_->get(), &has_come, &status), "MPI_Iprobe");
    if (has_come == 0) break;
    int count = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    coming_.push_back({.parcel = std::make_shared<Bytes>(static_cast<std::size_t>(count))});
    Coming& last = coming_.back();
    check(MPI_Irecv(last.parcel->data(), count, MPI_BYTE, 0, kParcelTag, comm_->get(), &last.request),
          "MPI_Irecv");
  }
  if (coming_.empty()) return nullptr;
  int is_done = 0;
  check(MPI_Test(&coming_.front().request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
  if (is_done == 0) return nullptr;
  auto parcel = std::move(coming_.front().parcel);
  coming_.pop_front();
  return parcel;
}

}  // namespace rota::mpi
