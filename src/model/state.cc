// KV pages and recurrent slots: sizes, tables, copies.
#include "model/state.h"

#include <algorithm>

#include "base/check.h"

namespace lily {
namespace {

int pages_for(int n_positions) { return (n_positions + kKvPageTokens - 1) / kKvPageTokens; }

}  // namespace

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
  const std::size_t held = pages.size();
  if (wanted <= held) return {};
  while (pages.size() < wanted) {
    pages.push_back(free_pages_.back());
    free_pages_.pop_back();
  }
  const std::size_t at = static_cast<std::size_t>(sequence) * static_cast<std::size_t>(table_stride_) + held;
  backend.write(table_, at * sizeof(std::int32_t), std::as_bytes(std::span(pages).subspan(held)));
  return {};
}

void ModelState::truncate(int sequence, int n_positions) {
  auto& pages = pages_[static_cast<std::size_t>(sequence)];
  while (pages.size() > static_cast<std::size_t>(pages_for(n_positions))) {
    free_pages_.push_back(pages.back());
    pages.pop_back();
  }
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

std::size_t ModelState::kv_export_bytes(int n_positions) const {
  return static_cast<std::size_t>(pages_for(n_positions)) * page_bytes_ * kv_.size();
}

Result<void> ModelState::export_kv(Backend& backend, int sequence, int n_positions,
                                   std::span<std::byte> bytes) const {
  LILY_CHECK(bytes.size() == kv_export_bytes(n_positions));
  LILY_CHECK(pages_[static_cast<std::size_t>(sequence)].size() >= static_cast<std::size_t>(pages_for(n_positions)));
  for (const auto& layer : kv_) {
    for (int i = 0; i < pages_for(n_positions); ++i) {
      const auto page = static_cast<std::size_t>(pages_[static_cast<std::size_t>(sequence)][static_cast<std::size_t>(i)]);
      LILY_RETURN_IF_ERROR(backend.read(layer, page * page_bytes_, bytes.first(page_bytes_)));
      bytes = bytes.subspan(page_bytes_);
    }
  }
  return {};
}

void ModelState::import_kv(Backend& backend, int sequence, int n_positions,
                           std::span<const std::byte> bytes) const {
  LILY_CHECK(bytes.size() == kv_export_bytes(n_positions));
  LILY_CHECK(pages_[static_cast<std::size_t>(sequence)].size() >= static_cast<std::size_t>(pages_for(n_positions)));
  for (const auto& layer : kv_) {
    for (int i = 0; i < pages_for(n_positions); ++i) {
      const auto page = static_cast<std::size_t>(pages_[static_cast<std::size_t>(sequence)][static_cast<std::size_t>(i)]);
      backend.write(layer, page * page_bytes_, bytes.first(page_bytes_));
      bytes = bytes.subspan(page_bytes_);
    }
  }
}

}  // namespace lily
