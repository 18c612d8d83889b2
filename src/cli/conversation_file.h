// A conversation on disk: the JSON that `lily render` reads, written whole or not at all.
#pragma once

#include "base/file.h"
#include "base/result.h"
#include "text/chat_types.h"

namespace lily::cli {

Result<void> save_conversation(const Path& path, const Conversation& conversation);

// kCorrupt: a file that is no saved conversation, with the place; read_file's errors.
Result<Conversation> load_conversation(const Path& path);

// A message of one text.
Message text_message(Role role, const std::string& text);

// The texts of a message, joined.
std::string text_of(const Message& message);

}  // namespace lily::cli
