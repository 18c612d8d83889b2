// The commit that this program was built from.
#pragma once

#include <string_view>

namespace lily {

// "6f4fb71c2a90", with "-dirty" behind it where files differed from it; "unknown" where nobody could
// tell. Made by the build (cmake/Commit.cmake).
std::string_view built_commit();

}  // namespace lily
