// Tokens as text and as bytes.
#include "server/token_json.h"

#include "server/json_build.h"

namespace lily::server {
namespace {

Json one(const Tokenizer& tokenizer, TokenId id, float log_prob) {
  Json bytes = Json::array();
  for (const char byte : tokenizer.token_bytes(id)) {
    bytes.items.push_back(json_int(static_cast<unsigned char>(byte)));
  }
  return json_object({{"token", json_text(tokenizer.token_text(id))},
                      {"logprob", json_real(log_prob)},
                      {"bytes", std::move(bytes)}});
}

}  // namespace

Json token_json(const Tokenizer& tokenizer, const TokenRecord& record) {
  Json top = Json::array();
  for (std::size_t i = 0; i < record.top_ids.size(); ++i) {
    top.items.push_back(one(tokenizer, record.top_ids[i], record.top_log_probs[i]));
  }
  Json out = one(tokenizer, record.token, record.log_prob);
  out.set("top_logprobs", std::move(top));
  return out;
}

Json logprobs_json(const Tokenizer& tokenizer, const std::vector<TokenRecord>& records) {
  Json content = Json::array();
  for (const TokenRecord& record : records) {
    if (!record.in_thinking) content.items.push_back(token_json(tokenizer, record));
  }
  return json_object({{"content", std::move(content)}, {"refusal", json_null()}});
}

}  // namespace lily::server
