# cmake -DSOURCE=dir -DGIVEN=text -DTO=commit.cc -P Commit.cmake: the commit that is built, as a file that changes only where the commit does.
# GIVEN is taken where it is not empty; else git is asked, but only about SOURCE itself, not about a repository around it.
set(commit "${GIVEN}")
find_program(git git)
if(commit STREQUAL "" AND git)
  execute_process(COMMAND "${git}" -C "${SOURCE}" rev-parse --show-prefix
                  OUTPUT_VARIABLE below OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed EQUAL 0 AND below STREQUAL "")
    execute_process(COMMAND "${git}" -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude=*
                    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
if(NOT commit MATCHES "^[0-9a-zA-Z._-]+$")
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT "${TO}" CONTENT "// Made by cmake/Commit.cmake.
#include \"measure/commit.h\"

namespace lily {

std::string_view built_commit() {
  return \"${commit}\";
}

}  // namespace lily
")
