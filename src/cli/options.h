// What a command line asks for, as plain structs. options.cc fills them; each command takes its
// own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/file.h"
#include "measure/sweep_record.h"

namespace lily::cli {

// Which model, and how it is run.
struct EngineFlags {
  Path model;  // Empty: the pocket checkpoint.
  std::string backend = "cpu";
  int threads = 0;  // 0: all cores that this process may use.
  int chunk_tokens = 512;
  int context_tokens = 0;  // 0: as many as fit.
  bool beyond_declared = false;
  std::string isa;  // Empty: the best there is.
  bool no_pack = false;
  bool exact = false;  // Activations stay f32.
  std::vector<std::string> mechanisms;  // "NAME=on" or "NAME=off"
};

struct SamplingFlags {
  std::string preset;  // Empty: what generation_config.json says.
  bool greedy = false;
  std::optional<float> temperature, top_p, min_p;
  std::optional<float> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int> top_k;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> logit_bias;  // "id:value"
  int n_top = 0;
};

// What run and chat share.
struct AnswerFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  std::string system;
  std::vector<std::string> stop;
  int max_tokens = 0;  // 0: until the context is full.
  bool no_thinking = false;
  bool quiet = false;
};

struct RunFlags {
  AnswerFlags answer;
  std::optional<std::string> prompt;  // "-": standard input.
  Path prompt_file;
  bool raw = false;
  bool json = false;
};

struct ChatFlags {
  AnswerFlags answer;
  Path save;    // Written after every answer.
  Path resume;  // Read at the start.
};

struct ServeFlags {
  EngineFlags engine;
  std::string host = "127.0.0.1";
  int port = 8080;
  std::string api_key;
  std::vector<std::string> origins;
  Path state_dir;
  int max_running = 8;
  int max_waiting = 64;
  int cache_mebibytes = 0;  // 0: a share of the memory.
  int grace_seconds = 10;
  bool no_thinking = false;
  bool keep_billing_line = false;
  bool replay = false;
  Path replay_script;
  bool verbose = false;
};

struct InfoFlags {
  Path model;
  bool json = false;
};

struct DoctorFlags {
  Path model;
  std::string spec;    // "35b" or "pocket": plan for a shape instead of a checkpoint.
  std::string memory;  // "24G"; empty: this machine.
  int context_tokens = 0;
  bool verify = false;
  bool json = false;
  Path mac_report;     // Empty: no report.
  int n_answers = 40;  // Asked for it.
};

struct TokenizeFlags {
  Path tokenizer;  // Empty: the pocket checkpoint's.
  bool json = false;
  bool plain = false;  // Spellings of added tokens are ordinary text.
};

struct DetokenizeFlags {
  Path tokenizer;
  bool json = false;
};

struct RenderFlags {
  Path tokenizer;
  bool ids = false;
};

struct EvalFlags {
  EngineFlags engine;
  Path golden;           // Or:
  Path text;
  int positions = 192;   // Of the text; 0: all.
  std::string against;   // Another backend; empty: none.
  bool against_exact = false;
  bool json = false;
  bool quiet = false;
};

struct SynthFlags {
  std::string spec;
  Path out;
  Path tokenizer_folder;  // Empty: the pocket checkpoint's.
  int n_layers = 0;       // 0: all.
  std::uint64_t seed = 1;
  bool quiet = false;
};

struct BenchFlags {
  EngineFlags engine;
  std::vector<int> prefill = {128, 512};
  int decode_tokens = 64;
  std::vector<int> depths = {128};  // Positions that lie in the cache when decoding starts.
  int repeat = 3;
  bool json = false;
};

struct LimitsFlags {
  Path model;        // Empty: random weights of a shape.
  std::string spec;  // Empty: one that the backend is quick enough for.
  int n_layers = 4;  // 0: all.
  bool no_pack = false;
  std::string backend = "cpu";
  int threads = 0;
  std::string isa;                      // Empty: the best there is.
  std::vector<std::string> mechanisms;  // "NAME=on" or "NAME=off"
  int mebibytes = 1024;
  int rows = 512;
  int depth = 4096;
  int repeat = 5;
  bool json = false;
  std::vector<std::string> given;  // All of it, as words of a command line.
};

struct WorkerFlags {
  EngineFlags engine;
  std::vector<std::string> given;  // The engine's options as words of a command line.
};

struct SweepFlags {
  EngineFlags engine;                     // Checked here, used by the workers.
  std::vector<std::string> engine_words;  // As words of a command line.
  SweepOptions options;                   // Without engines.
  std::vector<std::string> lily, peers;   // "NAME=FLAGS", "NAME=COMMAND"
  Path out;
};

struct AblateFlags {
  EngineFlags engine;
  std::vector<std::string> given;  // The engine's options as words of a command line.
  std::vector<int> prefill = {512, 2048};
  std::vector<int> depths = {128, 3840, 32768};
  int decode_tokens = 64;
  int rounds = 5;
  std::vector<std::string> only;  // Empty: all.
  Path out;                       // Empty: the table alone.
  bool json = false;
};

struct PlotFlags {
  Path folder;
};

struct BenchServeFlags {
  std::string url;
  std::string api_key;
  std::string model;  // Empty: the first that the server lists.
  int clients = 8;
  int requests = 0;
  double seconds = 0;
  double rate = 0;
  std::uint64_t seed = 1;
  Path trace;
  int prompt_words = 64;
  int max_tokens = 64;
  int retries = 0;
  double time_limit_s = 600;
  bool json = false;
  bool quiet = false;
};

using Command =
    std::variant<RunFlags, ChatFlags, ServeFlags, InfoFlags, DoctorFlags, TokenizeFlags, DetokenizeFlags,
                 RenderFlags, EvalFlags, SynthFlags, BenchFlags, LimitsFlags, WorkerFlags, SweepFlags, AblateFlags, PlotFlags, BenchServeFlags>;

struct ParsedLine {
  std::string name;                // "run": what messages begin with.
  std::optional<Command> command;  // Empty: help or a complaint was printed, and the program ends.
  int exit_status = 0;
};

ParsedLine parse_command_line(int argc, char** argv);

}  // namespace lily::cli
