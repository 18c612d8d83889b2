// The format of the files, the thread that writes them, and what is found at the start.
//
//   head    Head, 72 bytes
//   tokens  int32 [n_tokens]: all of a state's prompt and answer, or the 1,024 of a run
//   body    a state: its recurrent part, then the pages behind its last whole run; a run: its pages
#include "engine/checkpoint_files.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "backend/args.h"
#include "base/log.h"
#include "base/size.h"
#include "weights/hash.h"

namespace lily {
namespace {

constexpr std::uint64_t kMagic = 0x54504b594c494c31;  // "1LILYKPT"
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kState = 1, kRun = 2;
constexpr int kRunTokens = 1024;
constexpr int kRunPages = kRunTokens / kKvPageTokens;
// More than this waiting to be written, and what comes is not saved.
constexpr std::size_t kMostQueuedBytes = std::size_t{1} << 30;

struct Head {
  std::uint64_t magic, kind_and_version, model, n_tokens, body_bytes, tokens_sum, body_sum, unused, head_sum;
};
static_assert(sizeof(Head) == 72);

std::uint64_t sum_of(const Head& head) { return checksum(std::as_bytes(std::span(&head, 1)).first(offsetof(Head, head_sum))); }

// The name of what is known of these tokens.
std::string name_of(std::span<const TokenId> tokens, const char* suffix) {
  std::string out = hex(checksum(std::as_bytes(tokens)));
  out += suffix;
  return out;
}

int n_runs(std::size_t n_tokens) { return static_cast<int>(n_tokens) / kRunTokens; }

std::vector<std::string> run_names(std::span<const TokenId> tokens) {
  std::vector<std::string> out;
  for (int i = 0; i < n_runs(tokens.size()); ++i) out.push_back(name_of(tokens.first(size(i + 1) * kRunTokens), ".run"));
  return out;
}

Error damaged(const Path& path, const std::string& what) {
  return {ErrorCode::kCorrupt, path.string() + ": skipped: " + what};
}

// A file of ours: its tokens, and its body if that is wanted.
struct Read {
  MappedFile file;
  std::vector<TokenId> tokens;
  std::span<const std::byte> body;
};

Result<Read> read_file_of(const Path& path, std::uint64_t kind, std::uint64_t model, bool with_body) {
  LILY_TRY(auto file, MappedFile::open(path));
  const auto bytes = file.bytes();
  Head head{};
  if (bytes.size() < sizeof head) return damaged(path, std::to_string(bytes.size()) + " bytes, expected a head of " + std::to_string(sizeof head));
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kMagic || head.head_sum != sum_of(head)) return damaged(path, "the head's checksum is wrong");
  if (head.kind_and_version != (kind << 32 | kVersion)) return damaged(path, "another version or kind of file");
  if (head.model != model) return damaged(path, "a state of another model");
  const std::size_t rest = bytes.size() - sizeof head;
  if (head.n_tokens > rest / sizeof(TokenId) || head.body_bytes != rest - head.n_tokens * sizeof(TokenId)) {
    return damaged(path, std::to_string(bytes.size()) + " bytes, the head says otherwise");
  }
  const auto token_bytes = bytes.subspan(sizeof head, head.n_tokens * sizeof(TokenId));
  const auto body = bytes.subspan(sizeof head + token_bytes.size());
  if (checksum(token_bytes) != head.tokens_sum) return damaged(path, "the tokens' checksum is wrong");
  if (with_body && checksum(body) != head.body_sum) return damaged(path, "the checksum is wrong");
  std::vector<TokenId> tokens(head.n_tokens);
  if (!tokens.empty()) std::memcpy(tokens.data(), token_bytes.data(), token_bytes.size());
  return Read{std::move(file), std::move(tokens), body};
}

// The last modified last.
std::vector<Path> files_by_age(const Path& folder, const std::string& suffix) {
  std::vector<std::pair<std::filesystem::file_time_type, Path>> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const auto time = entry->last_write_time(error);
    if (entry->path().extension() == suffix) found.emplace_back(time, entry->path());
    error.clear();
  }
  std::sort(found.begin(), found.end());
  std::vector<Path> out;
  for (auto& [time, path] : found) out.push_back(std::move(path));
  return out;
}

void remove_quietly(const Path& path) {
  std::error_code error;
  std::filesystem::remove(path, error);
}

}  // namespace

std::unique_ptr<CheckpointFiles> CheckpointFiles::open(const Path& folder, const Form& form) {
  Hasher hasher;
  for (const std::uint64_t part : {form.model, std::uint64_t{form.slot_bytes}, std::uint64_t{form.page_bytes}}) hasher.add(part);
  Form own = form;
  own.model = hasher.value();
  const Path inner = folder / hex(own.model);
  std::error_code error;
  std::filesystem::create_directories(inner, error);
  if (error) {
    log_warning("states are not saved: making " + inner.string() + ": " + error.message());
    if (!std::filesystem::is_directory(inner, error)) return nullptr;
  }
  return std::unique_ptr<CheckpointFiles>(new CheckpointFiles(inner, own));
}

CheckpointFiles::CheckpointFiles(Path folder, const Form& form) : folder_(std::move(folder)), form_(form) {
  thread_ = std::thread([this] { work(); });
}

CheckpointFiles::~CheckpointFiles() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::vector<CheckpointFiles::Found> CheckpointFiles::list(std::size_t most) {
  for (const Path& path : files_by_age(folder_, ".part")) remove_quietly(path);
  auto paths = files_by_age(folder_, ".state");
  const std::size_t n_old = paths.size() > most ? paths.size() - most : 0;
  for (std::size_t i = 0; i < n_old; ++i) remove_quietly(paths[i]);
  std::vector<Found> out;
  for (std::size_t i = n_old; i < paths.size(); ++i) {
    auto read = read_file_of(paths[i], kState, form_.model, false);
    if (!read) {
      log_warning(read.error().message);
      continue;
    }
    auto saved = std::make_shared<Saved>();
    saved->what = Saved::What::kThere;
    saved->name = paths[i].filename().string();
    saved->bytes = read->file.bytes().size();
    saved->runs = run_names(read->tokens);
    hold(*saved);
    out.push_back({std::move(read->tokens), std::move(saved)});
  }
  for (const Path& path : files_by_age(folder_, ".run")) {
    if (runs_.count(path.filename().string()) == 0) remove_quietly(path);
  }
  return out;
}

void CheckpointFiles::hold(const Saved& saved) {
  bytes_ += saved.bytes;
  for (const auto& name : saved.runs) {
    Run& run = runs_[name];
    if (run.users++ == 0) bytes_ += run.bytes = sizeof(Head) + kRunTokens * sizeof(TokenId) + kRunPages * form_.page_bytes;
  }
}

CheckpointFiles::Bytes CheckpointFiles::file_of(std::uint64_t kind, std::span<const TokenId> tokens,
                                                std::span<const std::span<const std::byte>> body) const {
  const std::size_t body_at = sizeof(Head) + tokens.size_bytes();
  std::size_t at = body_at;
  for (const auto part : body) at += part.size();
  Bytes out(at);
  const auto put = [&out](std::size_t to, std::span<const std::byte> bytes) {
    std::copy(bytes.begin(), bytes.end(), out.begin() + static_cast<std::ptrdiff_t>(to));
  };
  put(sizeof(Head), std::as_bytes(tokens));
  at = body_at;
  for (const auto part : body) put(at, part), at += part.size();
  const auto rest = std::span<const std::byte>(out).subspan(body_at);
  Head head{.magic = kMagic, .kind_and_version = kind << 32 | kVersion, .model = form_.model, .n_tokens = tokens.size(),
            .body_bytes = rest.size(), .tokens_sum = checksum(std::as_bytes(tokens)), .body_sum = checksum(rest), .unused = 0, .head_sum = 0};
  head.head_sum = sum_of(head);
  std::memcpy(out.data(), &head, sizeof head);
  return out;
}

Result<std::shared_ptr<CheckpointFiles::Saved>> CheckpointFiles::save(std::span<const TokenId> tokens, std::shared_ptr<const Bytes> state,
                                                                      const ReadPages& read_pages) {
  auto saved = std::make_shared<Saved>();
  saved->name = name_of(tokens, ".state");
  saved->runs = run_names(tokens);
  auto files = std::make_shared<std::vector<Write>>();
  const auto new_run = [&](int i) { return runs_.count(saved->runs[size(i)]) == 0; };
  std::size_t bytes = state->size() + tokens.size() * sizeof(TokenId);
  for (int i = 0; i < n_runs(tokens.size()); ++i) bytes += new_run(i) ? kRunPages * form_.page_bytes : 0;
  {
    const std::lock_guard lock(mutex_);
    if (queued_bytes_ > 0 && queued_bytes_ + bytes > kMostQueuedBytes) return std::shared_ptr<Saved>();
  }
  for (int i = 0; i < n_runs(tokens.size()); ++i) {
    if (!new_run(i)) continue;
    LILY_TRY(const Bytes pages, read_pages(i * kRunPages, kRunPages));
    const std::span<const std::byte> body(pages);
    files->push_back({path_of(saved->runs[size(i)]), file_of(kRun, tokens.subspan(size(i) * kRunTokens, kRunTokens), {&body, 1})});
  }
  const int first = n_runs(tokens.size()) * kRunPages;
  const int n_pages = (static_cast<int>(tokens.size()) + kKvPageTokens - 1) / kKvPageTokens;
  LILY_TRY(const Bytes tail, read_pages(first, n_pages - first));
  const std::span<const std::byte> body[] = {*state, tail};
  files->push_back({path_of(saved->name), file_of(kState, tokens, body)});
  saved->bytes = files->back().bytes.size();
  hold(*saved);
  enqueue(bytes, [this, files, saved] {
    const auto written = write_all(*files, *saved);
    saved->what = written ? Saved::What::kThere : Saved::What::kLost;
    if (!written && !std::exchange(warned_, true)) log_warning("states are not saved: " + written.error().message);
    if (written) warned_ = false;
  });
  return saved;
}

// Runs first: a state is there only with all that it needs.
Result<void> CheckpointFiles::write_all(const std::vector<Write>& files, const Saved& saved) const {
  for (const Write& file : files) {
    if (&file == &files.back()) {
      std::error_code error;
      for (const auto& name : saved.runs) {
        if (!std::filesystem::exists(path_of(name), error)) return Error{ErrorCode::kIo, path_of(name).string() + ": not there"};
      }
    }
    LILY_TRY(auto out, AtomicFile::create(file.path));
    LILY_RETURN_IF_ERROR(out.append(file.bytes));
    LILY_RETURN_IF_ERROR(out.commit());
  }
  return {};
}

Result<CheckpointFiles::Contents> CheckpointFiles::load(std::span<const TokenId> tokens, const Saved& saved) const {
  const Path path = path_of(saved.name);
  LILY_TRY(const Read read, read_file_of(path, kState, form_.model, true));
  const int n_pages = (static_cast<int>(tokens.size()) + kKvPageTokens - 1) / kKvPageTokens;
  const std::size_t tail = size(n_pages - n_runs(tokens.size()) * kRunPages) * form_.page_bytes;
  if (!std::equal(tokens.begin(), tokens.end(), read.tokens.begin(), read.tokens.end())) return damaged(path, "other tokens");
  if (read.body.size() != form_.slot_bytes + tail) return damaged(path, "a body of another size");
  Contents out;
  out.pages.reserve(size(n_pages) * form_.page_bytes);
  for (std::size_t i = 0; i < saved.runs.size(); ++i) {
    const Path run_path = path_of(saved.runs[i]);
    LILY_TRY(const Read run, read_file_of(run_path, kRun, form_.model, true));
    const auto own = tokens.subspan(i * kRunTokens, kRunTokens);
    const bool fits = run.body.size() == kRunPages * form_.page_bytes && std::equal(own.begin(), own.end(), run.tokens.begin(), run.tokens.end());
    if (!fits) return damaged(run_path, "rows of other tokens");
    out.pages.insert(out.pages.end(), run.body.begin(), run.body.end());
  }
  const auto state = read.body.first(form_.slot_bytes), rest = read.body.subspan(form_.slot_bytes);
  out.pages.insert(out.pages.end(), rest.begin(), rest.end());
  out.state = std::make_shared<const Bytes>(state.begin(), state.end());
  return out;
}

void CheckpointFiles::remove(const Saved& saved) {
  std::vector<Path> paths{path_of(saved.name)};
  bytes_ -= saved.bytes;
  for (const auto& name : saved.runs) {
    const auto run = runs_.find(name);
    if (run == runs_.end() || --run->second.users > 0) continue;
    bytes_ -= run->second.bytes;
    runs_.erase(run);
    paths.push_back(path_of(name));
  }
  enqueue(0, [paths] {
    for (const Path& path : paths) remove_quietly(path);
  });
}

void CheckpointFiles::enqueue(std::size_t bytes, std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.emplace_back(bytes, std::move(work));
    queued_bytes_ += bytes;
  }
  changed_.notify_all();
}

void CheckpointFiles::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto [bytes, job] = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
    queued_bytes_ -= bytes;
  }
}

}  // namespace lily
