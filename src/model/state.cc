// KV pages and recurrent slots: sizes, tables, copies.
#include "model/state.h"

#include <algorithm>

#include "base/check.h"
#include "base/size.h"

namespace lily {

Result<ModelState> ModelState::create(Backend& backend, const ModelSpec& spec, const StateLimits& limits) {
  ModelState state;
  state.spec_ = spec;
  state.limits_ = limits;
  state.table_stride_ = pages_for(limits.max_positions);
  if (limits.n_pages == 0) state.limits_.n_pages = limits.n_sequences * state.table_stride_;
  state.sizes_ = state_sizes(spec, backend.info().kv_element_bytes);
  state.page_bytes_ = kKvPageTokens * state.sizes_.kv_row;
  const auto n_pages = static_cast<std::size_t>(state.limits_.n_pages);
  for (int i = 0; i < spec.count(LayerKind::kAttention); ++i) {
    LILY_TRY(auto pages, backend.allocate(n_pages * state.page_bytes_, "KV cache"));
    state.kv_.push_back(std::move(pages));
  }
  LILY_TRY(state.pool_, backend.allocate(static_cast<std::size_t>(limits.n_slots) * state.sizes_.slot_bytes, "recurrent states"));
  LILY_TRY(state.table_, backend.allocate(sizeof(std::int32_t) * static_cast<std::size_t>(limits.n_sequences) *
                                              static_cast<std::size_t>(state.table_stride_),
                                          "page table"));
  for (int page = state.limits_.n_pages; page-- > 0;) state.free_pages_.push_back(page);
  state.holders_.resize(n_pages);
  state.pages_.resize(static_cast<std::size_t>(limits.n_sequences));
  return state;
}

KvLayer ModelState::kv_layer(int attention_index) const {
  return {kv_[static_cast<std::size_t>(attention_index)].address(), table_.as<const std::int32_t>(),
          table_stride_, spec_.n_kv_heads};
}

StateLayer ModelState::state_layer(int delta_index) const {
  const auto at = static_cast<std::int64_t>(sizes_.layer_bytes) * delta_index;
  return {pool_.as<unsigned char>(), static_cast<std::int64_t>(sizes_.slot_bytes), at,
          at + static_cast<std::int64_t>(sizes_.conv_offset)};
}

Result<void> ModelState::reserve(Backend& backend, int sequence, int n_positions) {
  LILY_CHECK(n_positions <= limits_.max_positions);
  auto& pages = pages_[static_cast<std::size_t>(sequence)];
  const auto wanted = static_cast<std::size_t>(pages_for(n_positions));
  if (wanted > pages.size() + free_pages_.size()) {
    return Error{ErrorCode::kNoMemory, "KV cache: " + std::to_string(n_positions) + " positions need " +
                                           std::to_string(wanted) + " pages, " +
                                           std::to_string(pages.size() + free_pages_.size()) + " are free"};
  }
  if (wanted <= pages.size()) return {};
  LILY_TRY(const Pages more, take(static_cast<int>(wanted - pages.size())));
  append(backend, sequence, more);
  return {};
}

// The pages are held for the sequence already.
void ModelState::append(Backend& backend, int sequence, std::span<const std::int32_t> more) {
  auto& pages = pages_[size(sequence)];
  backend.write(table_, (size(sequence) * size(table_stride_) + pages.size()) * sizeof(std::int32_t), std::as_bytes(more));
  pages.insert(pages.end(), more.begin(), more.end());
}

void ModelState::truncate(int sequence, int n_positions) {
  auto& pages = pages_[size(sequence)];
  const auto kept = std::min(pages.size(), size(pages_for(n_positions)));
  // The last one first, so that the next sequence takes them in their order.
  for (std::size_t i = pages.size(); i-- > kept;) release({&pages[i], 1});
  pages.resize(kept);
}

ModelState::Pages ModelState::share(int sequence, int n_positions) {
  const auto& pages = pages_[size(sequence)];
  LILY_CHECK(pages.size() >= size(pages_for(n_positions)));
  Pages out(pages.begin(), pages.begin() + pages_for(n_positions));
  hold(out);
  return out;
}

Result<ModelState::Pages> ModelState::take(int n_pages) {
  if (n_pages > free_pages()) {
    return Error{ErrorCode::kNoMemory, "KV cache: " + std::to_string(n_pages) + " pages are needed, " + std::to_string(free_pages()) + " are free"};
  }
  Pages out(free_pages_.rbegin(), free_pages_.rbegin() + n_pages);
  free_pages_.resize(free_pages_.size() - size(n_pages));
  for (const auto page : out) holders_[size(page)] = 1;
  return out;
}

void ModelState::hold(std::span<const std::int32_t> pages) {
  for (const auto page : pages) ++holders_[size(page)];
}

void ModelState::release(std::span<const std::int32_t> pages) {
  for (const auto page : pages) {
    LILY_CHECK(holders_[size(page)] > 0);
    if (--holders_[size(page)] == 0) free_pages_.push_back(page);
  }
}

Result<void> ModelState::adopt(Backend& backend, int sequence, std::span<const std::int32_t> pages, int n_positions) {
  LILY_CHECK(pages_[size(sequence)].empty() && pages.size() == size(pages_for(n_positions)));
  const auto whole = pages.first(size(n_positions / kKvPageTokens)), part = pages.subspan(whole.size());
  std::vector<std::byte> bytes(part.size() * page_bytes());
  LILY_RETURN_IF_ERROR(export_pages(backend, part, bytes));
  LILY_TRY(const Pages copy, take(static_cast<int>(part.size())));
  import_pages(backend, copy, bytes);
  hold(whole);
  append(backend, sequence, whole);
  append(backend, sequence, copy);
  return {};
}

Result<void> ModelState::copy_slot(Backend& backend, int from, int to) const {
  if (backend.begin({.copy_from = from, .copy_to = to})) {
    backend.copy({pool_.as<std::byte>(static_cast<std::size_t>(from) * sizes_.slot_bytes),
                  pool_.as<std::byte>(static_cast<std::size_t>(to) * sizes_.slot_bytes),
                  static_cast<std::int64_t>(sizes_.slot_bytes)});
  }
  return backend.wait(backend.submit());
}

Result<void> ModelState::export_slot(Backend& backend, int slot, std::span<std::byte> bytes) const {
  LILY_CHECK(bytes.size() == sizes_.slot_bytes);
  return backend.read(pool_, static_cast<std::size_t>(slot) * sizes_.slot_bytes, bytes);
}

void ModelState::import_slot(Backend& backend, int slot, std::span<const std::byte> bytes) const {
  LILY_CHECK(bytes.size() == sizes_.slot_bytes);
  backend.write(pool_, static_cast<std::size_t>(slot) * sizes_.slot_bytes, bytes);
}

Result<void> ModelState::export_pages(Backend& backend, std::span<const std::int32_t> pages, std::span<std::byte> bytes) const {
  LILY_CHECK(bytes.size() == pages.size() * page_bytes());
  for (const auto page : pages) {
    for (const auto& layer : kv_) {
      LILY_RETURN_IF_ERROR(backend.read(layer, size(page) * page_bytes_, bytes.first(page_bytes_)));
      bytes = bytes.subspan(page_bytes_);
    }
  }
  return {};
}

void ModelState::import_pages(Backend& backend, std::span<const std::int32_t> pages, std::span<const std::byte> bytes) const {
  LILY_CHECK(bytes.size() == pages.size() * page_bytes());
  for (const auto page : pages) {
    for (const auto& layer : kv_) {
      backend.write(layer, size(page) * page_bytes_, bytes.first(page_bytes_));
      bytes = bytes.subspan(page_bytes_);
    }
  }
}

}  // namespace lily
