// The candidates for merging in a long piece, lowest rank first and leftmost first within a rank.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

namespace lily {

// Far ranks wait unsorted in buckets; only the bucket at hand is put in order. A single heap would
// be several times slower on a megabyte without a break, because each step would miss the cache.
class MergeQueue {
 public:
  // Empties the queue; n is about how many candidates come.
  void start(std::size_t n) {
    bits_ = std::clamp(static_cast<int>(std::bit_width(n)) - 8, 0, 8);
    current_ = -1;
    run_.clear();
    at_ = 0;
    late_.clear();
    buckets_.resize(std::max(buckets_.size(), std::size_t{33} << bits_));
  }

  void push(std::uint32_t rank, std::uint32_t position) {
    const std::uint64_t key = static_cast<std::uint64_t>(rank) << 32 | position;
    const int bucket = bucket_of(rank);
    if (bucket > current_) {
      buckets_[static_cast<std::size_t>(bucket)].push_back(key);
    } else {
      late_.push_back(key);
      std::push_heap(late_.begin(), late_.end(), std::greater<>());
    }
  }

  // The position of a candidate that pop() will give a few steps from now, to fetch its memory
  // ahead.
  std::uint32_t soon() const {
    return static_cast<std::uint32_t>(run_.empty() ? 0 : run_[std::min(at_ + 8, run_.size() - 1)]);
  }

  // The next candidate as rank << 32 | position. False: none left.
  bool pop(std::uint64_t& key) {
    if (at_ == run_.size() && late_.empty() && !next_bucket()) return false;
    if (late_.empty() || (at_ < run_.size() && run_[at_] < late_.front())) {
      key = run_[at_++];
      return true;
    }
    key = late_.front();
    std::pop_heap(late_.begin(), late_.end(), std::greater<>());
    late_.pop_back();
    return true;
  }

 private:
  // Ascending in rank, and finer where ranks are low: 2^bits buckets per power of two.
  int bucket_of(std::uint32_t rank) const {
    const int shift = std::max(static_cast<int>(std::bit_width(rank)) - bits_ - 1, 0);
    return (shift << bits_) + static_cast<int>(rank >> shift);
  }

  bool next_bucket() {
    run_.clear();
    at_ = 0;
    const int end = static_cast<int>(std::size_t{33} << bits_);
    for (++current_; current_ < end; ++current_) {
      auto& bucket = buckets_[static_cast<std::size_t>(current_)];
      if (bucket.empty()) continue;
      run_.swap(bucket);
      if (!std::is_sorted(run_.begin(), run_.end())) std::sort(run_.begin(), run_.end());
      return true;
    }
    return false;
  }

  int bits_ = 0;
  int current_ = -1;                                 // The bucket that run_ was.
  std::vector<std::vector<std::uint64_t>> buckets_;  // Those above current_.
  std::vector<std::uint64_t> run_;                   // Sorted; the part from at_ on is left.
  std::size_t at_ = 0;
  std::vector<std::uint64_t>
      late_;  // A heap: candidates that came when their bucket was already at hand or past.
};

}  // namespace lily
