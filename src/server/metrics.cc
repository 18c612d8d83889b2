// Counters of prometheus-cpp; the scheduler's own figures are read when somebody asks.
#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace lily::server {
namespace {

// A family with one member.
template <typename T, typename... Args>
T& single(prometheus::Registry& registry, prometheus::detail::Builder<T> builder, const char* name,
          const char* help, Args&&... args) {
  return builder.Name(name).Help(help).Register(registry).Add({}, std::forward<Args>(args)...);
}

const prometheus::Histogram::BucketBoundaries kSeconds{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};
const prometheus::Histogram::BucketBoundaries kRates{1, 3, 10, 30, 100, 300, 1000};

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests = prometheus::BuildCounter()
                                                          .Name("lily_http_requests_total")
                                                          .Help("Requests by route and status")
                                                          .Register(registry);
  prometheus::Histogram& first_token =
      single(registry, prometheus::BuildHistogram(), "lily_prefill_seconds",
             "From an answer's start to its first token", kSeconds);
  prometheus::Histogram& decode_rate =
      single(registry, prometheus::BuildHistogram(), "lily_decode_tokens_per_second",
             "Speed of an answer behind its first token", kRates);
};

namespace {

using Samples = std::vector<prometheus::MetricFamily>;

void put(Samples& out, const char* name, const char* help, double value,
         prometheus::MetricType type) {
  prometheus::ClientMetric metric;
  (type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  family.metric.push_back(std::move(metric));
  out.push_back(std::move(family));
}

struct Row {
  const char* name;
  const char* help;
  double value;
};

void put_scheduler(Samples& out, const SchedulerStats& s, int n_connections) {
  const Row gauges[] = {
      {"lily_requests_running", "Answers that are being computed", static_cast<double>(s.running)},
      {"lily_requests_waiting", "Answers in the queue", static_cast<double>(s.waiting)},
      {"lily_connections", "Open connections", static_cast<double>(n_connections)},
      {"lily_checkpoints", "States kept for reuse", static_cast<double>(s.checkpoints)},
      {"lily_checkpoint_bytes", "Bytes of them", static_cast<double>(s.checkpoint_bytes)}};
  const Row counters[] = {
      {"lily_answers_submitted_total", "Answers that were asked for",
       static_cast<double>(s.submitted)},
      {"lily_answers_refused_total", "Answers that found the queue full",
       static_cast<double>(s.refused)},
      {"lily_answers_finished_total", "Answers that ended by themselves",
       static_cast<double>(s.finished)},
      {"lily_answers_cancelled_total", "Answers that were stopped",
       static_cast<double>(s.cancelled)},
      {"lily_answers_failed_total", "Answers that failed", static_cast<double>(s.failed)},
      {"lily_prompt_tokens_total", "Prompt tokens computed", static_cast<double>(s.prompt_tokens)},
      {"lily_reused_tokens_total", "Prompt tokens that were there already",
       static_cast<double>(s.reused_tokens)},
      {"lily_generated_tokens_total", "Tokens generated", static_cast<double>(s.generated_tokens)},
      {"lily_prefix_hits_total", "Answers that reused a part of their prompt",
       static_cast<double>(s.prefix_hits)},
      {"lily_checkpoint_evictions_total", "Checkpoints that made room",
       static_cast<double>(s.evictions)},
      {"lily_checkpoints_over_budget_total", "Checkpoints that were too big to keep",
       static_cast<double>(s.over_budget)}};
  for (const Row& row : gauges)
    put(out, row.name, row.help, row.value, prometheus::MetricType::Gauge);
  for (const Row& row : counters)
    put(out, row.name, row.help, row.value, prometheus::MetricType::Counter);
}

}  // namespace

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::count_request(const std::string& route, int status) {
  impl_->requests.Add({{"route", route}, {"status", std::to_string(status)}}).Increment();
}

void Metrics::observe_answer(const GenerateResult& result) {
  impl_->first_token.Observe(result.prefill_seconds);
  if (result.decode_seconds <= 0 || result.tokens.size() < 2) return;
  impl_->decode_rate.Observe(static_cast<double>(result.tokens.size() - 1) / result.decode_seconds);
}

std::string Metrics::text(const SchedulerStats& stats, int n_connections) const {
  Samples samples = impl_->registry.Collect();
  put_scheduler(samples, stats, n_connections);
  return prometheus::TextSerializer().Serialize(samples);
}

}  // namespace lily::server
