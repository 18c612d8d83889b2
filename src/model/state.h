// What a model remembers between passes: the KV cache (pages through a table, can be cut back and shared) and the recurrent states
// (slots of a pool, cannot be cut back: they are copied, exported and imported).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/ops.h"
#include "spec/state_sizes.h"

namespace lily {

struct StateLimits {
  int n_sequences = 1;       // Rows of the page table.
  int max_positions = 0;     // Positions that one sequence may hold.
  int n_pages = 0;           // Pages that all sequences share; 0: n_sequences times what one may hold.
  int n_slots = 1;           // Recurrent states that exist at a time.
};

class ModelState {
 public:
  static Result<ModelState> create(Backend& backend, const ModelSpec& spec, const StateLimits& limits);

  KvLayer kv_layer(int attention_index) const;
  StateLayer state_layer(int delta_index) const;
  const StateLimits& limits() const { return limits_; }
  std::size_t slot_bytes() const { return sizes_.slot_bytes; }

  // Makes the table of `sequence` cover positions 0 .. n_positions - 1. kNoMemory when no page is free.
  Result<void> reserve(Backend& backend, int sequence, int n_positions);
  // Gives back the pages past n_positions; the contents of kept positions stay.
  void truncate(int sequence, int n_positions);

  // Pages may have several holders, each of which lets go of them on its own; the last one frees them.
  using Pages = std::vector<std::int32_t>;
  static int pages_for(int n_positions) { return (n_positions + kKvPageTokens - 1) / kKvPageTokens; }
  int free_pages() const { return static_cast<int>(free_pages_.size()); }
  std::size_t page_bytes() const { return page_bytes_ * kv_.size(); }  // Of all layers.
  // The pages of positions 0 .. n_positions - 1 of a sequence, held once more. The sequence may go on: it writes behind them.
  Pages share(int sequence, int n_positions);
  // Free pages, held; kNoMemory when there are too few.
  Result<Pages> take(int n_pages);
  void hold(std::span<const std::int32_t> pages);
  void release(std::span<const std::int32_t> pages);
  int holders(std::int32_t page) const { return holders_[static_cast<std::size_t>(page)]; }
  // An empty sequence begins with these pages. One that n_positions ends in the middle of is copied, since the sequence will write into it.
  Result<void> adopt(Backend& backend, int sequence, std::span<const std::int32_t> pages, int n_positions);

  // Slots are named by index; the caller keeps track of which are in use.
  // A pass of its own, waited for.
  Result<void> copy_slot(Backend& backend, int from, int to) const;
  Result<void> export_slot(Backend& backend, int slot, std::span<std::byte> bytes) const;
  void import_slot(Backend& backend, int slot, std::span<const std::byte> bytes) const;
  // Contents of pages, page_bytes() each.
  Result<void> export_pages(Backend& backend, std::span<const std::int32_t> pages, std::span<std::byte> bytes) const;
  void import_pages(Backend& backend, std::span<const std::int32_t> pages, std::span<const std::byte> bytes) const;

 private:
  ModelSpec spec_;
  StateLimits limits_;
  std::size_t page_bytes_ = 0;  // One page of one layer.
  StateSizes sizes_;
  int table_stride_ = 0;
  std::vector<Buffer> kv_;                 // [attention layers]
  Buffer pool_;                            // [n_slots, slot_bytes]
  Buffer table_;                           // int32 [n_sequences, table_stride]
  void append(Backend& backend, int sequence, std::span<const std::int32_t> pages);

  Pages free_pages_;
  std::vector<int> holders_;  // [n_pages]
  std::vector<Pages> pages_;  // [n_sequences]
};

}  // namespace lily
