// The fields of one JSON object, read with their limits. The first fault is kept and later reads give harmless values, so a
// reader lists its fields in one straight run and asks once at the end.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "weights/json.h"

namespace lily {

struct WholeRange {
  int low, high;
  int multiple_of = 1;
};

class Fields {
 public:
  // `where` is put before a field's name in messages: "config.json: text_config."
  Fields(const JsonValue& object, std::string where) : object_(object), where_(std::move(where)) {}

  // A whole number within the range; required, or with a value to use when the field is absent or null.
  int whole(std::string_view name, WholeRange range);
  int whole_or(std::string_view name, int fallback, WholeRange range);
  double real(std::string_view name, double low, double high);
  double real_or(std::string_view name, double fallback, double low, double high);
  std::optional<double> optional_real(std::string_view name, double low, double high);
  std::string word_or(std::string_view name, std::string fallback);

  // Fields that may be absent or null but must have the one value that the kernels are written for.
  void fixed_bool(std::string_view name, bool value);
  void fixed_number(std::string_view name, double value);
  void fixed_word(std::string_view name, std::string_view value);
  // A list that must be empty, a field that must be absent or null.
  void no_items(std::string_view name);
  void absent(std::string_view name, std::string_view supported);

  // The member, or null when absent or JSON null.
  const JsonValue* find(std::string_view name) const;
  // Records "where.name: found X, supported: Y".
  void refuse(std::string_view name, std::string_view found, std::string_view supported);
  Result<void> outcome() const;

 private:
  bool number_in(std::string_view name, const JsonValue& value, double low, double high);

  const JsonValue& object_;
  std::string where_;
  std::optional<Error> error_;
};

}  // namespace lily
