// A regular expression of a JSON schema, before a grammar is made of it: read as ECMAScript's, held
// to a size, and written again in the few words that every reader takes alike.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace lily::server {

struct SchemaPattern {
  std::string
      text;  // As JSON spells it: literals as \u{...}, classes as ranges of them, groups, alternatives, counts.
  int n_places = 0;  // Characters that it names, repetitions written out; one of a large class
                     // counts as several.
};

// kUnsupported: what a grammar cannot express (looking around, references back, word borders);
// kInvalidArgument: what means nothing, or over kMaxPatternPlaces.
Result<SchemaPattern> read_schema_pattern(std::string_view pattern, const std::string& place);

}  // namespace lily::server
