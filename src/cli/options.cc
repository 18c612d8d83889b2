// The command line: every command, its options, their bounds and their help; `bench` is in options_bench.cc.
#include "cli/options.h"

#include "cli/option_parts.h"
#include "cli/terminal.h"

namespace lily::cli {
namespace {

constexpr int kUsageStatus = 2;

void add_sampling_options(CLI::App& app, SamplingFlags& flags) {
  constexpr auto kGroup = "Sampling";
  auto* preset = app.add_option("--preset", flags.preset,
                                "Settings of the model card: thinking, precise or instruct")
                     ->check(CLI::IsMember({"thinking", "precise", "instruct"}))
                     ->group(kGroup);
  auto* greedy =
      app.add_flag("--greedy", flags.greedy, "Always the most likely token")->group(kGroup);
  auto* temperature =
      app.add_option("--temperature", flags.temperature, "0 is greedy")->group(kGroup);
  greedy->excludes(temperature)->excludes(preset);
  app.add_option("--top-p", flags.top_p, "Smallest set of tokens with this much probability")
      ->group(kGroup);
  app.add_option("--top-k", flags.top_k, "The k most likely tokens; 0 is off")->group(kGroup);
  app.add_option("--min-p", flags.min_p, "Tokens at least this likely against the best one")
      ->group(kGroup);
  app.add_option("--repetition-penalty", flags.repetition_penalty,
                 "Above 1: less of what was there")
      ->group(kGroup);
  app.add_option("--presence-penalty", flags.presence_penalty, "Taken from tokens of the answer")
      ->group(kGroup);
  app.add_option("--frequency-penalty", flags.frequency_penalty,
                 "Taken for each time in the answer")
      ->group(kGroup);
  app.add_option("--seed", flags.seed, "The same seed draws the same answer; without it a new one")
      ->check(not_negative)
      ->group(kGroup);
  app.add_option("--logit-bias", flags.logit_bias, "ID:VALUE, added to a token's logit; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kGroup);
}

void add_answer_options(CLI::App& app, AnswerFlags& flags) {
  add_engine_options(app, flags.engine);
  add_sampling_options(app, flags.sampling);
  app.add_option("--system", flags.system, "System message");
  app.add_option("--max-tokens", flags.max_tokens,
                 "Longest answer, thinking included; 0 is until the context is full")
      ->check(CLI::Range(0, kMostTokens));
  app.add_option("--stop", flags.stop, "End the answer before this text; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--no-thinking", flags.no_thinking, "Answer at once");
  app.add_flag("-q,--quiet", flags.quiet, "Only the answer and errors");
}

struct AllFlags {
  RunFlags run;
  ChatFlags chat;
  ServeFlags serve;
  InfoFlags info;
  DoctorFlags doctor;
  TokenizeFlags tokenize;
  DetokenizeFlags detokenize;
  RenderFlags render;
  EvalFlags eval;
  SynthFlags synth;
  BenchFamily bench;
  std::string help_topic;
};

void describe_answers(CLI::App& run, CLI::App& chat, AllFlags& flags) {
  add_answer_options(run, flags.run.answer);
  auto* prompt =
      run.add_option("-p,--prompt", flags.run.prompt, "The question; - reads standard input");
  auto* file =
      run.add_option("--prompt-file", flags.run.prompt_file, "Read the question from a file")
          ->check(not_empty);
  prompt->excludes(file);
  run.add_flag("--raw", flags.run.raw, "No chat template: continue the text");
  run.add_flag("--json", flags.run.json, "One JSON object instead of the text");
  run.add_option("--top-logprobs", flags.run.answer.sampling.n_top,
                 "Alternatives listed for each token, with --json")
      ->check(CLI::Range(0, 20));
  run.footer(
      "The answer goes to standard output; thinking, speed and warnings go to standard error.");
  add_answer_options(chat, flags.chat.answer);
  chat.add_option("--save", flags.chat.save, "Write the conversation here after every answer")
      ->check(not_empty);
  chat.add_option("--resume", flags.chat.resume,
                  "Go on with a saved conversation, and keep it saved there")
      ->check(not_empty);
  chat.footer("/help lists what can be typed; Ctrl-C stops an answer, Ctrl-D ends.");
}

void describe_serve(CLI::App& serve, ServeFlags& flags) {
  constexpr auto kAccess = "Access";
  add_engine_options(serve, flags.engine);
  serve.add_option("--host", flags.host, "Address to listen on; others than loopback need --api-key")
      ->check(not_empty)
      ->capture_default_str()
      ->group(kAccess);
  serve.add_option("--port", flags.port, "Port; 0 is a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str()
      ->group(kAccess);
  serve.add_option("--api-key", flags.api_key, "Callers have to send this key")
      ->check(not_empty)
      ->group(kAccess);
  serve.add_option("--cors", flags.origins, "A site whose pages may call, such as https://chat.example; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(kAccess);
  serve.add_option("--state-dir", flags.state_dir, "Folder in which states for reuse survive a restart")
      ->check(not_empty);
  serve.add_option("--parallel", flags.max_running, "Answers computed at a time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  serve.add_option("--queue", flags.max_waiting, "Answers that may wait; one more is told to come back")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  serve.add_option("--cache-mib", flags.cache_mebibytes, "Memory for states that are kept for reuse; 0 is a share of what there is")
      ->check(CLI::Range(0, 1 << 24));
  serve.add_option("--grace", flags.grace_seconds, "Seconds that running answers get at the end")
      ->check(CLI::Range(0, 3600))
      ->capture_default_str();
  serve.add_flag("--no-thinking", flags.no_thinking, "Answer at once, unless a request asks for thinking");
  serve.add_flag("--keep-billing-line", flags.keep_billing_line,
                 "Do not drop the line x-anthropic-billing-header from system texts");
  serve.add_flag("--replay", flags.replay, "For tests: a request may bring its own answer in the field replay");
  serve.add_option("--replay-script", flags.replay_script,
                   "For tests: a JSON list of texts, the answers of requests with tools in turn")
      ->check(not_empty);
  serve.add_flag("-v,--verbose", flags.verbose, "A line for each request, without its text");
}

void describe_machine(CLI::App& info, CLI::App& doctor, AllFlags& flags) {
  info.add_option("model", flags.info.model, "Checkpoint folder; without it the pocket checkpoint");
  info.add_flag("--json", flags.info.json, "One JSON object");
  auto* model = doctor.add_option("--model", flags.doctor.model,
                                  "Checkpoint folder; without it the pocket checkpoint");
  doctor
      .add_option("--spec", flags.doctor.spec, "Plan for a shape, without its files: 35b or pocket")
      ->excludes(model);
  doctor.add_option("--memory", flags.doctor.memory,
                    "Plan for a machine of this size: 24G, 24GiB, 16000M");
  doctor
      .add_option("--context", flags.doctor.context_tokens,
                  "Plan for this many positions; 0 is as many as fit")
      ->check(CLI::Range(0, kMostTokens));
  doctor.add_flag("--verify", flags.doctor.verify,
                  "Read the packed image and compare every block's checksum");
  doctor.add_flag("--json", flags.doctor.json, "One JSON object");
  auto* report = doctor
                     .add_option("--mac-report", flags.doctor.mac_report,
                                 "Try everything on this Mac's GPU and write what was found here")
                     ->check(not_empty);
  doctor
      .add_option("--answers", flags.doctor.n_answers,
                  "Recorded answers that the report asks for again")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->needs(report);
}

void describe_text(CLI::App& tokenize, CLI::App& detokenize, CLI::App& render, AllFlags& flags) {
  constexpr auto kTokenizer = "tokenizer.json; without it the pocket checkpoint's";
  tokenize.add_option("--tokenizer", flags.tokenize.tokenizer, kTokenizer)->check(not_empty);
  tokenize.add_flag("--json", flags.tokenize.json, R"(Print {"ids": [...]})");
  tokenize.add_flag("--plain", flags.tokenize.plain,
                    "Spellings such as <|im_end|> are ordinary text");
  detokenize.add_option("--tokenizer", flags.detokenize.tokenizer, kTokenizer)->check(not_empty);
  detokenize.add_flag("--json", flags.detokenize.json,
                      R"(Print {"text": ..., "visible": ...}: visible leaves special tokens out)");
  detokenize.footer(R"(Reads {"ids": [...]} or ids with white space between.)");
  render.add_option("--tokenizer", flags.render.tokenizer, kTokenizer)->check(not_empty);
  render.add_flag("--ids", flags.render.ids, "Print the token ids as JSON");
  render.footer(R"(Reads {"messages": [...], "tools": [...], "options": {...}}.)");
}

void describe_eval(CLI::App& eval, EvalFlags& flags) {
  add_engine_options(eval, flags.engine);
  auto* golden = eval.add_option("--golden", flags.golden, "Recorded truth: .json or .safetensors")->check(not_empty);
  auto* text = eval.add_option("--text", flags.text, "Any text; each token is predicted from those before it")
                   ->check(not_empty)
                   ->excludes(golden);
  eval.add_option("--positions", flags.positions, "How many tokens of the text are predicted; 0 is all")
      ->check(CLI::Range(0, kMostTokens))
      ->capture_default_str()
      ->needs(text);
  auto* against = eval.add_option("--against", flags.against, "Another backend whose numbers these are compared with, layer by layer")
                      ->check(not_empty);
  eval.add_flag("--against-exact", flags.against_exact, "The other's activations in 32-bit floats")->needs(against);
  eval.add_flag("--json", flags.json, "One JSON object");
  eval.add_flag("-q,--quiet", flags.quiet, "No progress");
}

void describe_figures(CLI::App& eval, CLI::App& synth, AllFlags& flags) {
  describe_eval(eval, flags.eval);
  synth.add_option("--spec", flags.synth.spec, "35b or pocket")->required();
  synth.add_option("--out", flags.synth.out, "Folder to write")->required()->check(not_empty);
  synth.add_option("--layers", flags.synth.n_layers, "Only the first N layers; 0 is all")
      ->check(CLI::Range(0, 1024));
  synth.add_option("--tokenizer-folder", flags.synth.tokenizer_folder,
                   "Folder whose tokenizer is copied; without it the pocket checkpoint");
  synth.add_option("--seed", flags.synth.seed, "Of the random weights")
      ->check(not_negative)
      ->capture_default_str();
  synth.add_flag("-q,--quiet", flags.synth.quiet, "No progress");
}

void describe(CLI::App& app, AllFlags& flags, ParsedLine& line) {
  auto& run = add_command(app, "run", "One answer", flags.run, line);
  auto& chat = add_command(app, "chat", "A conversation in the terminal", flags.chat, line);
  describe_answers(run, chat, flags);
  describe_serve(add_command(app, "serve", "The API for clients, and a chat page", flags.serve, line), flags.serve);
  auto& info = add_command(app, "info", "What a checkpoint is, and whether it fits this machine",
                           flags.info, line);
  auto& doctor =
      add_command(app, "doctor", "Machine, backends, memory plan, self-test", flags.doctor, line);
  describe_machine(info, doctor, flags);
  auto& tokenize =
      add_command(app, "tokenize", "Text on standard input to token ids", flags.tokenize, line);
  auto& detokenize =
      add_command(app, "detokenize", "Token ids on standard input to text", flags.detokenize, line);
  auto& render = add_command(app, "render", "A conversation in JSON to the prompt the model sees",
                             flags.render, line);
  describe_text(tokenize, detokenize, render, flags);
  auto& eval = add_command(app, "eval", "Numbers against recorded truth", flags.eval, line);
  auto& synth = add_command(app, "synth", "A checkpoint of random weights in the family's shape",
                            flags.synth, line);
  describe_figures(eval, synth, flags);
  describe_bench(app, flags.bench, line);
  app.add_subcommand("help", "This text, or that of a command")
      ->add_option("command", flags.help_topic, "A command");
}

// "run", "bench limits": the innermost command that was named.
std::string name_of(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) return "";
  const auto inner = name_of(*chosen.front());
  return chosen.front()->get_name() + (inner.empty() ? "" : " " + inner);
}

int complain(const std::string& name, const std::string& message) {
  const std::string who = name.empty() ? "lily" : "lily " + name;
  print_note(who + ": " + message + "\nTry: " + who + " --help\n");
  return kUsageStatus;
}

// What main says of a failed write comes after it.
int print_help(const std::string& text) {
  print_out(text);
  return 0;
}

// `top` is the help of the program, made before a command was parsed: afterwards it would be that
// command's.
int print_topic(CLI::App& app, const std::string& top, const std::string& topic) {
  if (topic.empty()) return print_help(top);
  for (auto* command :
       app.get_subcommands([&](const CLI::App* one) { return one->get_name() == topic; })) {
    return print_help(command->help("lily"));
  }
  return complain("help", "'" + topic + "' is no command");
}

}  // namespace

void add_engine_options(CLI::App& app, EngineFlags& flags) {
  app.add_option("--model", flags.model, "Checkpoint folder; without it the pocket checkpoint")
      ->check(not_empty)
      ->group("Model");
  app.add_option("--backend", flags.backend,
                 "What computes: cpu, metal (the GPU of a Mac), cuda (NVIDIA), emulator (GPU kernels on this processor), or "
                 "reference (plain loops)")
      ->capture_default_str()
      ->group("Model");
  app.add_option("--threads", flags.threads, "Threads; 0 is one for each core")
      ->check(CLI::Range(0, 1024))
      ->group("Model");
  app.add_option("--chunk", flags.chunk_tokens, "Prompt tokens computed at a time")
      ->check(CLI::Range(1, 2048))
      ->capture_default_str()
      ->group("Model");
  app.add_option("--context", flags.context_tokens,
                 "Positions to make room for; 0 is as many as fit")
      ->check(CLI::Range(0, kMostTokens))
      ->group("Model");
  app.add_flag("--beyond-declared", flags.beyond_declared,
               "Let --context go beyond what the model was made for")
      ->group("Model");
  app.add_option("--isa", flags.isa,
                 "Instruction set instead of the best one: avx512, avx2, neon-i8mm, neon, portable")
      ->group("Model");
  app.add_flag("--no-pack", flags.no_pack, "Keep packed weights in memory and write nothing")
      ->group("Model");
  app.add_flag("--exact", flags.exact, "Activations in 32-bit floats instead of 8-bit integers")
      ->group("Model");
  app.add_option("--mechanism", flags.mechanisms,
                 "NAME=on or NAME=off: switch a mechanism of a GPU's pass; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Model");
}

ParsedLine parse_command_line(int argc, char** argv) {
  CLI::App app("Lily runs Qwen3.6-35B-A3B and its family on this machine.", "lily");
  app.set_version_flag("--version", std::string("lily ") + LILY_VERSION);
  app.require_subcommand(
      0, 1);  // Without one the leftover word is named; none at all is caught below.
  app.get_formatter()->column_width(32);
  ParsedLine line;
  AllFlags flags;
  describe(app, flags, line);
  const std::string top = app.help();
  if (argc < 2) {
    print_note(top);
    line.exit_status = kUsageStatus;
    return line;
  }
  try {
    app.parse(argc, argv);
    line.name = name_of(app);
    if (!line.command) line.exit_status = print_topic(app, top, flags.help_topic);
  } catch (const CLI::CallForVersion& asked) {
    line.command.reset();
    line.exit_status = print_help(std::string(asked.what()) + "\n");
  } catch (const CLI::Success&) {  // --help, of the command that was named
    line.command.reset();
    line.name = name_of(app);
    line.exit_status = print_help(app.help());
  } catch (const CLI::ParseError& error) {
    line.command.reset();
    line.exit_status = complain(name_of(app), error.what());
  }
  return line;
}

}  // namespace lily::cli
