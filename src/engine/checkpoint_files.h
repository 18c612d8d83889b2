// Kept states in a folder, so that they outlive the process. A state is a file of its own; the KV rows before it lie in files of 1,024
// positions each that states of one chat share, its last rows in the state's file. Files are written whole or not at all, by a thread of
// their own, and checked when they are read: one that is damaged is skipped with a line in the log. Nothing here ever fails a request.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "spec/model_spec.h"

namespace lily {

class CheckpointFiles {
 public:
  // What a state has to be of to be of use here.
  struct Form {
    std::uint64_t model = 0;  // The weights, and how they are computed with.
    std::size_t slot_bytes = 0, page_bytes = 0;
  };
  using Bytes = std::vector<std::byte>;

  // One state: written, about to be, or lost. The store of states holds it; the thread that writes says what became of it.
  struct Saved {
    enum class What { kPending, kThere, kLost };
    std::atomic<What> what = What::kPending;
    std::string name;
    std::uint64_t bytes = 0;
    std::vector<std::string> runs;  // Files of KV rows that it needs.
  };
  struct Found {
    std::vector<TokenId> tokens;
    std::shared_ptr<Saved> saved;
  };
  struct Contents {
    std::shared_ptr<const Bytes> state;
    Bytes pages;
  };
  // Pages first .. first + n - 1 of the state that is being saved.
  using ReadPages = std::function<Result<Bytes>(int first, int n)>;

  // States of this form lie in a folder of their own inside of `folder`. Null where it can be neither made nor read, which the log says.
  static std::unique_ptr<CheckpointFiles> open(const Path& folder, const Form& form);
  // Writes what is pending.
  ~CheckpointFiles();
  CheckpointFiles(const CheckpointFiles&) = delete;
  CheckpointFiles& operator=(const CheckpointFiles&) = delete;

  // What earlier processes left, the oldest first, `most` at most. What nobody needs any more is removed. Called once, at the start.
  std::vector<Found> list(std::size_t most);
  // Null where too much waits to be written. A state that was lost in writing is to be removed.
  Result<std::shared_ptr<Saved>> save(std::span<const TokenId> tokens, std::shared_ptr<const Bytes> state, const ReadPages& read_pages);
  Result<Contents> load(std::span<const TokenId> tokens, const Saved& saved) const;
  void remove(const Saved& saved);
  std::uint64_t bytes() const { return bytes_; }

 private:
  CheckpointFiles(Path folder, const Form& form);
  struct Run {
    int users = 0;
    std::uint64_t bytes = 0;
  };
  struct Write {
    Path path;
    Bytes bytes;
  };
  void hold(const Saved& saved);
  void enqueue(std::size_t bytes, std::function<void()> work);
  void work();
  Result<void> write_all(const std::vector<Write>& files, const Saved& saved) const;
  Bytes file_of(std::uint64_t kind, std::span<const TokenId> tokens, std::span<const std::span<const std::byte>> body) const;
  Path path_of(const std::string& name) const { return folder_ / name; }

  const Path folder_;
  const Form form_;
  std::map<std::string, Run> runs_;  // Written or about to be.
  std::uint64_t bytes_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::size_t, std::function<void()>>> queue_;
  std::size_t queued_bytes_ = 0;
  bool closed_ = false, warned_ = false;
  std::thread thread_;
};

}  // namespace lily
