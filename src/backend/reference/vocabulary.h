// One row of logits as a distribution: finite or not, its log-sum, its largest entries.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lily::reference {

bool all_finite(std::span<const float> logits);

// log(sum of exp(logit)); a log-probability is a logit less this.
double log_sum(std::span<const float> logits);

// Ids of the n largest in descending order (n at most the size); of equal logits the lower id
// first.
std::vector<std::int32_t> top_ids(std::span<const float> logits, int n);

}  // namespace lily::reference
