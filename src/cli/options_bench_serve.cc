// The command line of `bench serve`.
#include "cli/option_parts.h"

namespace lily::cli {

void describe_serve_load(CLI::App& serve, BenchServeFlags& flags) {
  constexpr double kMostSeconds = 1e6;
  serve.add_option("url", flags.url, "The server, such as http://127.0.0.1:8080")
      ->required()
      ->check(not_empty);
  serve.add_option("--api-key", flags.api_key, "Sent as a bearer token")->check(not_empty);
  serve.add_option("--model-name", flags.model, "Sent in requests; without it the server's first")
      ->check(not_empty);
  serve.add_option("--clients", flags.clients, "Conversations at a time, at most")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  auto* requests = serve.add_option("--requests", flags.requests, "End behind so many requests")
                       ->check(CLI::Range(1, 10'000'000));
  serve.add_option("--seconds", flags.seconds, "Begin none after so many seconds")
      ->check(CLI::Range(0.001, kMostSeconds))
      ->excludes(requests);
  serve.add_option("--rate", flags.rate,
                   "Conversations a second, at random times; without it each client begins its next "
                   "at once")
      ->check(CLI::Range(1e-6, 1e6));
  serve.add_option("--seed", flags.seed, "Of the times and the drawn questions")
      ->check(not_negative)
      ->capture_default_str();
  auto* trace = serve.add_option("--trace", flags.trace, "Conversations to hold, JSON objects a line")
                    ->check(not_empty);
  serve.add_option("--prompt-words", flags.prompt_words, "Words of a drawn question")
      ->check(CLI::Range(0, 65'535))
      ->capture_default_str()
      ->excludes(trace);
  serve.add_option("--max-tokens", flags.max_tokens, "Longest answer")
      ->check(CLI::Range(1, kMostTokens))
      ->capture_default_str();
  serve.add_option("--retries", flags.retries,
                   "Times that a request comes back when the server is full (429), when it says")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  serve.add_option("--time-limit", flags.time_limit_s, "Seconds that a request may take")
      ->check(CLI::Range(0.001, kMostSeconds))
      ->capture_default_str();
  serve.add_flag("--json", flags.json, "One JSON object");
  serve.add_flag("-q,--quiet", flags.quiet, "No progress");
  serve.footer("Without --requests and --seconds, 100 requests. Ctrl-C ends and prints what was measured.");
}

}  // namespace lily::cli
