# PCRE2::8BIT from pkg-config's libpcre2-8: the package ships no CMake configuration.
pkg_check_modules(PC_PCRE2 QUIET IMPORTED_TARGET libpcre2-8)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(PCRE2 REQUIRED_VARS PC_PCRE2_FOUND VERSION_VAR PC_PCRE2_VERSION)
if(PCRE2_FOUND AND NOT TARGET PCRE2::8BIT)
  add_library(PCRE2::8BIT ALIAS PkgConfig::PC_PCRE2)
endif()
