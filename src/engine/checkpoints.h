// States of earlier prompts and answers, for prompts that begin as they did. A state cannot be cut back, so it is kept at chosen
// positions: the recurrent part in the machine's memory, the KV rows in pages that are shared with whoever goes on from them. With a folder
// they are on disk as well, where they outlive the process and what memory has no room for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "engine/checkpoint_files.h"
#include "engine/reuse.h"
#include "model/state.h"
#include "spec/model_spec.h"

namespace lily {

// The tokens of one prompt with its answer, and what is kept or was given up along them.
class Chat {
 public:
  const std::vector<TokenId>& tokens() const { return tokens_; }

 private:
  friend class Checkpoints;
  struct Kept {
    int position;
    std::shared_ptr<const std::vector<std::byte>> state;  // Null: on disk only.
    ModelState::Pages pages;
    std::uint64_t used;  // When, counted in uses.
    std::shared_ptr<CheckpointFiles::Saved> saved;  // Null: in memory only.

    bool on_disk() const { return saved && saved->what == CheckpointFiles::Saved::What::kThere; }
  };
  struct Lost {
    int position;
    ReuseLimit why;
  };
  std::vector<TokenId> tokens_;
  std::vector<Kept> kept_;
  std::vector<Lost> lost_;
  bool running_ = false;
  std::uint64_t used_ = 0;
};

struct CheckpointCounts {
  std::uint64_t evictions = 0, over_budget = 0;
  std::uint64_t held = 0, bytes = 0;  // In memory.
  std::uint64_t disk_bytes = 0;
};

class Checkpoints {
 public:
  // The budget is for recurrent states and the pages of their positions together, pages that several share counted once; on disk four
  // times as much is kept. `files` may be null.
  Checkpoints(Backend& backend, ModelState& state, std::size_t budget, std::unique_ptr<CheckpointFiles> files);
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  // The deepest position that a prompt could begin at, short of its last token, whose logits are wanted.
  int deepest(std::span<const TokenId> prompt) const;
  // A chat that begins with the prompt. Its sequence, which is empty, and the slot are brought to the deepest kept position; the report
  // says to which. What other chats keep along the prompt belongs to this one from now on.
  struct Begun {
    Chat* chat;
    ReuseReport reuse;
  };
  enum class From { kDeepest, kStart };  // kStart: nothing is reused.
  Result<Begun> begin(std::span<const TokenId> prompt, int sequence, int slot, From from = From::kDeepest);
  // The chat went on by a token.
  void extend(Chat& chat, TokenId token) { chat.tokens_.push_back(token); }
  // Keeps the state of `slot` and the pages of `sequence`, both at `position` of the chat's tokens. False: the budget has no room.
  Result<bool> keep(Chat& chat, int position, int sequence, int slot);
  // The chat's answer is there; it may go when room is needed.
  void end(Chat& chat) { chat.running_ = false; }
  // Nothing along these tokens is to be trusted.
  void forget(std::span<const TokenId> tokens);
  // Gives up states until so many pages are free. False: there are not enough.
  bool make_room(int n_pages);
  // Pages that are free or would be if all was given up.
  int pages_within_reach() const;

  CheckpointCounts counts() const;
  std::size_t budget() const { return budget_; }

 private:
  using Chats = std::list<Chat>;
  Result<bool> adopt(Chat& chat, int position, int sequence, int slot);
  Result<bool> load(Chat& chat, Chat::Kept& kept);
  Result<void> save(const Chat& chat, Chat::Kept& kept);
  void trim_files();
  bool drop_oldest_file();
  void remove_file(Chat::Kept& kept);
  void account(const Chat::Kept& kept);
  Chat::Kept* find(std::span<const TokenId> tokens, int position, Chat** owner);
  ReuseReport report(std::span<const TokenId> prompt, int reused) const;
  void inherit(Chat& chat);
  bool evict(bool sparing);
  void lose(Chat& chat, int position, ReuseLimit why);
  void let_go(Chat::Kept& kept);
  std::size_t new_bytes(std::span<const std::int32_t> pages) const;
  void drop_oldest_chats();

  Backend& backend_;
  ModelState& state_;
  const std::size_t budget_;
  std::unique_ptr<CheckpointFiles> files_;
  Chats chats_;
  std::vector<int> page_uses_;  // [pages] Of states that are kept.
  std::uint64_t uses_ = 0;
  CheckpointCounts counts_;
};

// How many tokens two texts begin with in common.
int common_prefix(std::span<const TokenId> a, std::span<const TokenId> b);

}  // namespace lily
