// Logging for the whole project: lines on standard error, a level, nothing else. Library code never prints itself.
#pragma once

#include <string_view>

namespace lily {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void set_log_level(LogLevel level);
void log(LogLevel level, std::string_view message);

inline void log_debug(std::string_view message) { log(LogLevel::kDebug, message); }
inline void log_info(std::string_view message) { log(LogLevel::kInfo, message); }
inline void log_warning(std::string_view message) { log(LogLevel::kWarning, message); }

}  // namespace lily
