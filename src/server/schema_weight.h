// What a schema costs to make a grammar of, guessed from its words before anybody tries: the
// maker's own time and memory know no bound.
#pragma once

#include <string>

#include "base/result.h"
#include "text/chat_json.h"

namespace lily::server {

// Adds up over all schemas in a schema. A unit is about 25 microseconds of a core at the family's
// vocabulary, so that the bound is a few seconds.
class SchemaWeight {
 public:
  // kInvalidArgument where it gets too much. `n_pattern_places`: of the schema's patterns.
  Result<void> add(const Json& schema, int n_pattern_places, const std::string& place);

 private:
  double units_ = 0;
};

}  // namespace lily::server
