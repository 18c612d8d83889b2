// Finding, keeping and giving up. Tokens are compared one by one: two prompts are the same only where their tokens are.
#include "engine/checkpoints.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/log.h"
#include "base/size.h"

namespace lily {
namespace {

// Chats that are remembered, so that the next prompt can be told why nothing of it is there any more.
constexpr std::size_t kMostChats = 256;
constexpr std::uint64_t kDiskBudgets = 4;
constexpr std::size_t kMostLost = 64;  // Of a chat, the newest.

int last_start(std::span<const TokenId> prompt) { return static_cast<int>(prompt.size()) - 1; }

}  // namespace

int common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto [mine, theirs] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<int>(mine - a.begin());
}

Checkpoints::Checkpoints(Backend& backend, ModelState& state, std::size_t budget, std::unique_ptr<CheckpointFiles> files)
    : backend_(backend), state_(state), budget_(budget), files_(std::move(files)) {
  page_uses_.resize(size(state.limits().n_pages));
  if (!files_) return;
  for (auto& found : files_->list(kMostChats / 2)) {
    Chat& chat = chats_.emplace_back();
    chat.tokens_ = std::move(found.tokens);
    chat.used_ = ++uses_;
    chat.kept_.push_back({static_cast<int>(chat.tokens_.size()), nullptr, {}, uses_, std::move(found.saved)});
  }
}

Checkpoints::~Checkpoints() {
  for (const Chat& chat : chats_) {
    for (const auto& kept : chat.kept_) state_.release(kept.pages);
  }
}

int Checkpoints::deepest(std::span<const TokenId> prompt) const {
  int best = 0;
  for (const Chat& chat : chats_) {
    const int limit = std::min(common_prefix(prompt, chat.tokens_), last_start(prompt));
    for (const auto& kept : chat.kept_) {
      if (kept.position <= limit && (kept.state || kept.on_disk())) best = std::max(best, kept.position);
    }
  }
  return best;
}

Result<Checkpoints::Begun> Checkpoints::begin(std::span<const TokenId> prompt, int sequence, int slot, From from) {
  int reused = from == From::kStart ? 0 : deepest(prompt);
  for (; reused > 0; reused = deepest(prompt)) {
    Chat* owner = nullptr;
    Chat::Kept* const kept = find(prompt, reused, &owner);
    LILY_CHECK(kept != nullptr);
    if (kept->state) break;
    LILY_TRY(const bool loaded, load(*owner, *kept));
    if (loaded) break;
  }
  Chat& chat = chats_.emplace_back();
  chat.tokens_.assign(prompt.begin(), prompt.end());
  chat.used_ = ++uses_;
  ReuseReport reuse = report(prompt, reused);
  inherit(chat);
  drop_oldest_chats();
  if (reused > 0) {
    LILY_TRY(const bool adopted, adopt(chat, reused, sequence, slot));
    if (!adopted) reuse = {.matched = reuse.matched, .reused = 0, .limit = ReuseLimit::kEvicted};
  }
  while (counts_.bytes > budget_ && evict(false)) {
  }
  chat.running_ = true;
  return Begun{&chat, reuse};
}

// The sequence begins at a kept position. False: there is no page for the copy of one that ends in its middle.
Result<bool> Checkpoints::adopt(Chat& chat, int position, int sequence, int slot) {
  const auto kept = std::find_if(chat.kept_.begin(), chat.kept_.end(), [&](const Chat::Kept& k) { return k.position == position; });
  LILY_CHECK(kept != chat.kept_.end() && kept->state);
  kept->used = uses_;
  // Whoever makes room, this one stays.
  const auto state = kept->state;
  const auto pages = kept->pages;
  state_.hold(pages);
  const bool room = make_room(1);
  const auto adopted = room ? state_.adopt(backend_, sequence, pages, position) : Result<void>();
  state_.release(pages);
  LILY_RETURN_IF_ERROR(adopted);
  if (room) state_.import_slot(backend_, slot, *state);
  return room;
}

// A state that is on disk only comes into memory. False: it cannot, and is no longer there to be found.
Result<bool> Checkpoints::load(Chat& chat, Chat::Kept& kept) {
  const int n_pages = ModelState::pages_for(kept.position);
  auto contents = files_->load(std::span(chat.tokens_).first(size(kept.position)), *kept.saved);
  const bool room = contents && make_room(n_pages);
  if (!room) {
    log_warning(contents ? "a state of " + std::to_string(kept.position) + " tokens finds no room in memory" : contents.error().message);
    remove_file(kept);
    lose(chat, kept.position, ReuseLimit::kEvicted);
    chat.kept_.erase(chat.kept_.begin() + (&kept - chat.kept_.data()));
    return false;
  }
  LILY_TRY(kept.pages, state_.take(n_pages));
  state_.import_pages(backend_, kept.pages, contents->pages);
  kept.state = std::move(contents->state);
  account(kept);
  return true;
}

ReuseReport Checkpoints::report(std::span<const TokenId> prompt, int reused) const {
  ReuseReport out{.matched = 0, .reused = reused};
  // The new chat stands at the end and holds nothing yet.
  const auto end = std::prev(chats_.end());
  for (auto chat = chats_.begin(); chat != end; ++chat) out.matched = std::max(out.matched, common_prefix(prompt, chat->tokens_));
  const int limit = std::min(out.matched, last_start(prompt));
  if (out.matched == 0) return out;
  if (reused == limit) {
    out.limit = out.matched > limit ? ReuseLimit::kWhole : ReuseLimit::kDiffers;
    return out;
  }
  out.limit = ReuseLimit::kNoCheckpoint;
  int deepest_lost = reused;
  for (auto chat = chats_.begin(); chat != end; ++chat) {
    const int common = std::min(common_prefix(prompt, chat->tokens_), limit);
    for (const auto& lost : chat->lost_) {
      if (lost.position <= deepest_lost || lost.position > common) continue;
      deepest_lost = lost.position;
      out.limit = lost.why;
    }
  }
  return out;
}

// What is kept along the tokens of the newest chat moves to it; chats that keep nothing and say nothing new go.
void Checkpoints::inherit(Chat& chat) {
  for (auto other = chats_.begin(); &*other != &chat;) {
    const int common = common_prefix(chat.tokens_, other->tokens_);
    const auto along = [&](const auto& at) { return at.position <= common; };
    for (auto& kept : other->kept_) {
      if (along(kept)) chat.kept_.push_back(std::move(kept));
    }
    std::erase_if(other->kept_, along);
    if (common == static_cast<int>(other->tokens_.size()) && !other->running_) {
      for (const auto& lost : other->lost_) lose(chat, lost.position, lost.why);
      other = chats_.erase(other);
    } else {
      ++other;
    }
  }
}

void Checkpoints::drop_oldest_chats() {
  while (chats_.size() > kMostChats) {
    auto oldest = chats_.end();
    for (auto chat = chats_.begin(); chat != std::prev(chats_.end()); ++chat) {
      if (!chat->running_ && (oldest == chats_.end() || chat->used_ < oldest->used_)) oldest = chat;
    }
    if (oldest == chats_.end()) return;
    for (auto& kept : oldest->kept_) {
      counts_.evictions += kept.state != nullptr;
      let_go(kept);
      remove_file(kept);
    }
    chats_.erase(oldest);
  }
}

Chat::Kept* Checkpoints::find(std::span<const TokenId> tokens, int position, Chat** owner) {
  const auto wanted = tokens.first(size(position));
  for (Chat& chat : chats_) {
    for (auto& kept : chat.kept_) {
      if (kept.position != position || common_prefix(wanted, chat.tokens_) < position) continue;
      *owner = &chat;
      return &kept;
    }
  }
  return nullptr;
}

// Bytes that a state with these pages would add.
std::size_t Checkpoints::new_bytes(std::span<const std::int32_t> pages) const {
  const auto fresh = std::count_if(pages.begin(), pages.end(), [&](std::int32_t page) { return page_uses_[size(page)] == 0; });
  return state_.slot_bytes() + static_cast<std::size_t>(fresh) * state_.page_bytes();
}

void Checkpoints::lose(Chat& chat, int position, ReuseLimit why) {
  if (chat.lost_.size() == kMostLost) chat.lost_.erase(chat.lost_.begin());
  chat.lost_.push_back({position, why});
}

Result<bool> Checkpoints::keep(Chat& chat, int position, int sequence, int slot) {
  std::shared_ptr<CheckpointFiles::Saved> saved;
  Chat* owner = nullptr;
  if (Chat::Kept* same = find(chat.tokens_, position, &owner)) {
    same->used = ++uses_;
    if (same->state && owner == &chat) return true;
    Chat::Kept moved = std::move(*same);
    owner->kept_.erase(owner->kept_.begin() + (same - owner->kept_.data()));
    if (moved.state) {
      chat.kept_.push_back(std::move(moved));
      return true;
    }
    saved = std::move(moved.saved);
  }
  auto pages = state_.share(sequence, position);
  const bool could = state_.slot_bytes() + pages.size() * state_.page_bytes() <= budget_;
  while (could && counts_.bytes + new_bytes(pages) > budget_ && evict(true)) {
  }
  if (!could || counts_.bytes + new_bytes(pages) > budget_) {
    state_.release(pages);
    ++counts_.over_budget;
    log_info("a state of " + std::to_string(position) + " tokens is not kept: the budget of " + std::to_string(budget_) +
             " bytes has no room for it");
    lose(chat, position, ReuseLimit::kOverBudget);
    if (saved) chat.kept_.push_back({position, nullptr, {}, uses_, std::move(saved)});
    return false;
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(state_.slot_bytes());
  auto exported = state_.export_slot(backend_, slot, *bytes);
  if (!exported) {
    state_.release(pages);
    return std::move(exported).error();
  }
  chat.kept_.push_back({position, std::move(bytes), std::move(pages), ++uses_, std::move(saved)});
  account(chat.kept_.back());
  if (!chat.kept_.back().saved) LILY_RETURN_IF_ERROR(save(chat, chat.kept_.back()));
  trim_files();
  return true;
}

void Checkpoints::account(const Chat::Kept& kept) {
  counts_.bytes += new_bytes(kept.pages);
  ++counts_.held;
  for (const auto page : kept.pages) ++page_uses_[size(page)];
}

Result<void> Checkpoints::save(const Chat& chat, Chat::Kept& kept) {
  if (!files_) return {};
  const auto read = [&](int first, int n) -> Result<CheckpointFiles::Bytes> {
    CheckpointFiles::Bytes out(size(n) * state_.page_bytes());
    LILY_RETURN_IF_ERROR(state_.export_pages(backend_, std::span(kept.pages).subspan(size(first), size(n)), out));
    return out;
  };
  LILY_TRY(kept.saved, files_->save(std::span(chat.tokens_).first(size(kept.position)), kept.state, read));
  return {};
}

void Checkpoints::remove_file(Chat::Kept& kept) {
  if (kept.saved) files_->remove(*kept.saved);
  kept.saved.reset();
}

// Files that could not be written are no files, and the least recently used make room for others.
void Checkpoints::trim_files() {
  if (!files_) return;
  for (Chat& chat : chats_) {
    for (auto& kept : chat.kept_) {
      if (kept.saved && kept.saved->what == CheckpointFiles::Saved::What::kLost) remove_file(kept);
    }
    std::erase_if(chat.kept_, [](const Chat::Kept& kept) { return !kept.state && !kept.saved; });
  }
  while (files_->bytes() > kDiskBudgets * budget_ && drop_oldest_file()) {
  }
}

bool Checkpoints::drop_oldest_file() {
  Chat* from = nullptr;
  Chat::Kept* oldest = nullptr;
  for (Chat& chat : chats_) {
    for (auto& kept : chat.kept_) {
      if (kept.saved && (!oldest || kept.used < oldest->used)) from = &chat, oldest = &kept;
    }
  }
  if (!oldest) return false;
  remove_file(*oldest);
  if (!oldest->state) {
    lose(*from, oldest->position, ReuseLimit::kEvicted);
    from->kept_.erase(from->kept_.begin() + (oldest - from->kept_.data()));
  }
  return true;
}

// The memory of a state.
void Checkpoints::let_go(Chat::Kept& kept) {
  if (!kept.state) return;
  for (const auto page : kept.pages) --page_uses_[size(page)];
  counts_.bytes -= new_bytes(kept.pages);
  --counts_.held;
  state_.release(kept.pages);
  kept.pages.clear();
  kept.state.reset();
}

// The memory of the least recently used goes. `sparing`: not of the last one of a chat that runs, or of the chat used last.
bool Checkpoints::evict(bool sparing) {
  std::uint64_t last_used = 0;
  for (const Chat& chat : chats_) last_used = std::max(last_used, chat.used_);
  const auto in_memory = [](const Chat::Kept& kept) { return kept.state != nullptr; };
  Chat* from = nullptr;
  Chat::Kept* oldest = nullptr;
  for (Chat& chat : chats_) {
    const bool last_one = std::count_if(chat.kept_.begin(), chat.kept_.end(), in_memory) == 1;
    if (sparing && last_one && (chat.running_ || chat.used_ == last_used)) continue;
    for (auto& kept : chat.kept_) {
      if (kept.state && (!oldest || kept.used < oldest->used)) from = &chat, oldest = &kept;
    }
  }
  if (!oldest) return false;
  log_info("a state of " + std::to_string(oldest->position) + " tokens makes room for others");
  ++counts_.evictions;
  let_go(*oldest);
  if (oldest->saved) return true;
  lose(*from, oldest->position, ReuseLimit::kEvicted);
  from->kept_.erase(from->kept_.begin() + (oldest - from->kept_.data()));
  return true;
}

void Checkpoints::forget(std::span<const TokenId> tokens) {
  for (Chat& chat : chats_) {
    const int common = common_prefix(tokens, chat.tokens_);
    for (auto& kept : chat.kept_) {
      if (kept.position > common) continue;
      let_go(kept);
      remove_file(kept);
    }
    std::erase_if(chat.kept_, [&](const Chat::Kept& kept) { return kept.position <= common; });
  }
}

bool Checkpoints::make_room(int n_pages) {
  while (state_.free_pages() < n_pages) {
    if (!evict(true) && !evict(false)) return false;
  }
  return true;
}

int Checkpoints::pages_within_reach() const {
  int n = state_.free_pages();
  for (std::size_t page = 0; page < page_uses_.size(); ++page) {
    n += page_uses_[page] > 0 && page_uses_[page] == state_.holders(static_cast<std::int32_t>(page));
  }
  return n;
}

CheckpointCounts Checkpoints::counts() const {
  CheckpointCounts out = counts_;
  if (files_) out.disk_bytes = files_->bytes();
  return out;
}

}  // namespace lily
