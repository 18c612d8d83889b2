// A machine over the answer's bytes: most of the way it lets through one of a few texts, inside
// values everything but the end.
#include "server/call_constraint.h"

#include <algorithm>

#include "server/json_build.h"

namespace lily::server {
namespace {

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
    const auto is_name = [&](const Json& one) {
      return one.is(JsonKind::kString) && one.text == name;
    };
    const bool needed =
        required != nullptr && std::any_of(required->items.begin(), required->items.end(), is_name);
    out.push_back({name, needed});
  }
  return out;
}

// What the constraints of one request share.
struct Plan {
  const Engine& engine;
  std::vector<Callable> tools;
  FreeText value;  // As it is before a value.
};

class CallConstraint final : public TokenConstraint {
 public:
  explicit CallConstraint(std::shared_ptr<const Plan> plan)
      : plan_(std::move(plan)), value_(plan_->value) {
    expect(Part::kOpening, {std::string(kCallOpening)});
  }

  void allowed(std::span<std::uint32_t> bits) override {
    if (part_ == Part::kValue) return value_.allowed(bits);
    std::fill(bits.begin(), bits.end(), 0u);
    if (part_ == Part::kDone) {
      for (const TokenId id : plan_->engine.spec().end_tokens) set_bit(bits, id);
    } else {
      allow_texts(bits);
    }
  }

  bool accept(TokenId token) override {
    if (part_ == Part::kDone) return is_end(plan_->engine, token);
    if (part_ == Part::kValue) {
      const auto state = value_.accept(token);
      if (state == FreeText::State::kEnded) expect_parameter();
      return state != FreeText::State::kRefused;
    }
    const std::string_view bytes = plan_->engine.tokenizer().token_bytes(token);
    return !bytes.empty() && accept_text(bytes);
  }

 private:
  enum class Part { kOpening, kName, kParameter, kValue, kDone };

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
    const Tokenizer& tokenizer = plan_->engine.tokenizer();
    for (TokenId id = 0; id < tokenizer.n_ids(); ++id) {
      const std::string_view bytes = tokenizer.token_bytes(id);
      if (!bytes.empty() && fits(bytes)) set_bit(bits, id);
    }
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
      for (const Callable& tool : plan_->tools)
        names.push_back(std::string(tool.name).append(">\n"));
      expect(Part::kName, std::move(names));
    } else if (part_ == Part::kName) {
      const std::string_view name = std::string_view(text).substr(0, text.size() - 2);
      const auto named = [&](const Callable& tool) { return tool.name == name; };
      left_ = std::find_if(plan_->tools.begin(), plan_->tools.end(), named)->parameters;
      expect_parameter();
    } else if (text == kClosing) {
      part_ = Part::kDone;
    } else {
      std::erase_if(left_, [&](const Parameter& one) { return opening_of(one) == text; });
      part_ = Part::kValue;
      value_.begin("\n");  // The line end of the opening may be that of the closing.
    }
  }

  static std::string opening_of(const Parameter& one) {
    return std::string("<parameter=").append(one.name).append(">\n");
  }

  void expect_parameter() {
    std::vector<std::string> texts;
    for (const Parameter& one : left_) texts.push_back(opening_of(one));
    const bool may_close =
        std::none_of(left_.begin(), left_.end(), [](const Parameter& one) { return one.required; });
    if (may_close) texts.emplace_back(kClosing);
    expect(Part::kParameter, std::move(texts));
  }

  std::shared_ptr<const Plan> plan_;
  FreeText value_;
  Part part_ = Part::kOpening;
  std::vector<std::string> texts_;  // One of them has to come.
  std::size_t n_matched_ = 0;       // Bytes of it that are there.
  std::vector<Parameter> left_;     // Not yet given.
};

}  // namespace

Constraints call_constraints(const Engine& engine, const ToolList& tools,
                             const ToolChoice& choice) {
  auto plan = std::make_shared<Plan>(Plan{engine, {}, FreeText(engine, kValueEnd)});
  for (const ToolSpec& spec : tools.specs) {
    const Json& function = *spec.json.find("function");
    const std::string name(text_at(function, "name"));
    if (choice.kind != ToolChoice::Kind::kNamed || choice.name == name) {
      plan->tools.push_back({name, parameters_of(function)});
    }
  }
  return [plan] { return std::make_shared<CallConstraint>(plan); };
}

}  // namespace lily::server
