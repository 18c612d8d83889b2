// What a model remembers between passes: the KV cache (pages through a table, can be cut back) and the recurrent states
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

  // Slots are named by index; the caller keeps track of which are in use.
  // A pass of its own, waited for.
  Result<void> copy_slot(Backend& backend, int from, int to) const;
  Result<void> export_slot(Backend& backend, int slot, std::span<std::byte> bytes) const;
  void import_slot(Backend& backend, int slot, std::span<const std::byte> bytes) const;
  // KV rows of the first n_positions of a sequence, all layers, in page order: for saved sessions.
  std::size_t kv_export_bytes(int n_positions) const;
  Result<void> export_kv(Backend& backend, int sequence, int n_positions, std::span<std::byte> bytes) const;
  void import_kv(Backend& backend, int sequence, int n_positions, std::span<const std::byte> bytes) const;

 private:
  ModelSpec spec_;
  StateLimits limits_;
  std::size_t page_bytes_ = 0;  // One page of one layer.
  StateSizes sizes_;
  int table_stride_ = 0;
  std::vector<Buffer> kv_;                 // [attention layers]
  Buffer pool_;                            // [n_slots, slot_bytes]
  Buffer table_;                           // int32 [n_sequences, table_stride]
  std::vector<std::int32_t> free_pages_;
  std::vector<std::vector<std::int32_t>> pages_;  // [n_sequences]
};

}  // namespace lily
