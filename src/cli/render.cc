// lily render: a conversation to the exact text, or the ids, that the model is given.
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/terminal.h"
#include "engine/chat.h"
#include "text/chat_parse.h"

namespace lily::cli {

Result<int> execute(const RenderFlags& flags) {
  LILY_TRY(const auto input, read_stdin(kMaxJsonBytes));
  LILY_TRY(const auto conversation, parse_conversation(input));
  if (!flags.ids) {
    LILY_TRY(const auto prompt, render_chat(conversation));
    print_out(prompt.text());
    return 0;
  }
  LILY_TRY(const auto tokenizer, load_tokenizer(flags.tokenizer));
  LILY_TRY(const auto prompt, encode_chat(tokenizer, conversation));
  print_out(nlohmann::json{{"ids", prompt.tokens}}.dump() + "\n");
  return 0;
}

}  // namespace lily::cli
