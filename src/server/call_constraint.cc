// A machine over the answer's bytes: most of the way it lets through one of a few texts, inside
// thinking and values everything but the end.
#include "server/call_constraint.h"

#include <algorithm>

#include "server/json_build.h"

namespace lily::server {
namespace {

constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kCallOpening = "<tool_call>\n<function=";
constexpr std::string_view kValueEnd = "\n</parameter>\n";
constexpr std::string_view kClosing = "</function>\n</tool_call>";

struct Parameter {
  std::string name;
  bool required = false;
};
struct Callable {
  std::string name;
  std::vector<Parameter> parameters;
};

std::vector<Parameter> parameters_of(const Json& function) {
  std::vector<Parameter> out;
  const Json* schema = function.find("parameters");
  if (is_null(schema)) schema = function.find("input_schema");
  const Json* properties = schema == nullptr ? nullptr : schema->find("properties");
  if (properties == nullptr) return out;
  const Json* required = schema->find("required");
  for (const std::string& name : properties->keys) {
    const auto is_name = [&](const Json& one) { return one.is(JsonKind::kString) && one.text == name; };
    out.push_back({name, required != nullptr && std::any_of(required->items.begin(), required->items.end(), is_name)});
  }
  return out;
}

// What the constraints of one request share.
struct Plan {
  Tokenizer tokenizer;
  std::vector<TokenId> ends;
  std::vector<Callable> tools;
  bool in_thinking;
  // Where anything goes: tokens that can complete what ends it, and need a closer look.
  std::vector<TokenId> borderline;
};

void set_bit(std::span<std::uint32_t> bits, TokenId id) {
  const auto at = static_cast<std::size_t>(id);
  bits[at / 32] |= std::uint32_t{1} << (at % 32);
}

void clear_bit(std::span<std::uint32_t> bits, TokenId id) {
  const auto at = static_cast<std::size_t>(id);
  bits[at / 32] &= ~(std::uint32_t{1} << (at % 32));
}

class CallConstraint final : public TokenConstraint {
 public:
  explicit CallConstraint(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {
    if (plan_->in_thinking) {
      part_ = Part::kThinking;
    } else {
      expect(Part::kOpening, {std::string(kCallOpening)});
    }
  }

  void allowed(std::span<std::uint32_t> bits) override {
    std::fill(bits.begin(), bits.end(), 0u);
    if (part_ == Part::kDone) {
      for (const TokenId id : plan_->ends) set_bit(bits, id);
    } else if (is_free()) {
      allow_free(bits);
    } else {
      allow_texts(bits);
    }
  }

  bool accept(TokenId token) override {
    if (part_ == Part::kDone) {
      return std::find(plan_->ends.begin(), plan_->ends.end(), token) != plan_->ends.end();
    }
    const std::string_view bytes = plan_->tokenizer.token_bytes(token);
    if (bytes.empty()) return false;
    return is_free() ? accept_free(bytes) : accept_text(bytes);
  }

 private:
  enum class Part { kThinking, kOpening, kName, kParameter, kValue, kDone };

  bool is_free() const { return part_ == Part::kThinking || part_ == Part::kValue; }
  std::string_view end_of_free() const { return part_ == Part::kThinking ? kThinkEnd : kValueEnd; }

  void expect(Part part, std::vector<std::string> texts) {
    part_ = part;
    texts_ = std::move(texts);
    n_matched_ = 0;
  }

  bool fits(std::string_view bytes) const {
    return std::any_of(texts_.begin(), texts_.end(), [&](const std::string& text) {
      return std::string_view(text).substr(n_matched_).starts_with(bytes);
    });
  }

  void allow_texts(std::span<std::uint32_t> bits) const {
    for (TokenId id = 0; id < plan_->tokenizer.n_ids(); ++id) {
      const std::string_view bytes = plan_->tokenizer.token_bytes(id);
      if (!bytes.empty() && fits(bytes)) set_bit(bits, id);
    }
  }

  // Everything but control tokens, and tokens that go on behind what ends this part: there
  // something else is expected.
  void allow_free(std::span<std::uint32_t> bits) const {
    const Tokenizer& tokenizer = plan_->tokenizer;
    for (TokenId id = 0; id < tokenizer.n_ids(); ++id) {
      if (!tokenizer.token_bytes(id).empty() && !tokenizer.is_special(id)) set_bit(bits, id);
    }
    for (const TokenId id : plan_->ends) clear_bit(bits, id);
    for (const TokenId id : plan_->borderline) {
      const std::string text = tail_ + std::string(tokenizer.token_bytes(id));
      const auto end = text.find(end_of_free());
      if (end != std::string::npos && end + end_of_free().size() < text.size()) clear_bit(bits, id);
    }
  }

  bool accept_free(std::string_view bytes) {
    tail_ += bytes;
    const auto end = tail_.find(end_of_free());
    if (end != std::string::npos) {
      if (end + end_of_free().size() != tail_.size()) return false;
      if (part_ == Part::kThinking) {
        expect(Part::kOpening, {std::string("\n\n").append(kCallOpening)});
      } else {
        expect_parameter();
      }
      return true;
    }
    tail_.erase(0, tail_.size() - std::min(tail_.size(), end_of_free().size() - 1));
    return true;
  }

  bool accept_text(std::string_view bytes) {
    if (!fits(bytes)) return false;
    std::erase_if(texts_, [&](const std::string& text) {
      return !std::string_view(text).substr(n_matched_).starts_with(bytes);
    });
    n_matched_ += bytes.size();
    const auto whole = std::find_if(texts_.begin(), texts_.end(), [&](const std::string& text) {
      return text.size() == n_matched_;
    });
    if (whole != texts_.end()) go_on(std::string(*whole));
    return true;
  }

  // One of the expected texts is complete.
  void go_on(const std::string& text) {
    if (part_ == Part::kOpening) {
      std::vector<std::string> names;
      for (const Callable& tool : plan_->tools) names.push_back(tool.name + ">\n");
      expect(Part::kName, std::move(names));
    } else if (part_ == Part::kName) {
      const auto named = [&](const Callable& tool) { return tool.name + ">\n" == text; };
      left_ = std::find_if(plan_->tools.begin(), plan_->tools.end(), named)->parameters;
      expect_parameter();
    } else if (text == kClosing) {
      part_ = Part::kDone;
    } else {
      std::erase_if(left_, [&](const Parameter& one) { return opening_of(one) == text; });
      part_ = Part::kValue;
      tail_.assign(1, '\n');  // The line end of the opening may be that of the closing.
    }
  }

  static std::string opening_of(const Parameter& one) { return std::string("<parameter=").append(one.name).append(">\n"); }

  void expect_parameter() {
    std::vector<std::string> texts;
    for (const Parameter& one : left_) texts.push_back(opening_of(one));
    const bool may_close = std::none_of(left_.begin(), left_.end(), [](const Parameter& one) { return one.required; });
    if (may_close) texts.emplace_back(kClosing);
    expect(Part::kParameter, std::move(texts));
  }

  std::shared_ptr<const Plan> plan_;
  Part part_ = Part::kThinking;
  std::vector<std::string> texts_;  // One of them has to come.
  std::size_t n_matched_ = 0;       // Bytes of it that are there.
  std::string tail_;                // Of a free part: its last bytes.
  std::vector<Parameter> left_;     // Not yet given.
};

}  // namespace

std::function<std::shared_ptr<TokenConstraint>()> call_constraints(const Engine& engine,
                                                                   const ToolList& tools,
                                                                   const ToolChoice& choice,
                                                                   bool in_thinking) {
  auto plan = std::make_shared<Plan>(Plan{engine.tokenizer(), {}, {}, in_thinking, {}});
  plan->ends.assign(engine.spec().end_tokens.begin(), engine.spec().end_tokens.end());
  for (const ToolSpec& spec : tools.specs) {
    const Json& function = *spec.json.find("function");
    const std::string name(text_at(function, "name"));
    if (choice.kind == ToolChoice::Kind::kAny || choice.name == name) {
      plan->tools.push_back({name, parameters_of(function)});
    }
  }
  for (TokenId id = 0; id < plan->tokenizer.n_ids(); ++id) {
    if (plan->tokenizer.token_bytes(id).find('>') != std::string_view::npos ||
        plan->tokenizer.token_bytes(id).find('\n') != std::string_view::npos) {
      plan->borderline.push_back(id);
    }
  }
  return [plan] { return std::make_shared<CallConstraint>(plan); };
}

}  // namespace lily::server
