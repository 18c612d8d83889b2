# utf8proc::utf8proc from pkg-config's libutf8proc: the package ships no CMake configuration.
pkg_check_modules(PC_utf8proc QUIET IMPORTED_TARGET libutf8proc)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(utf8proc REQUIRED_VARS PC_utf8proc_FOUND VERSION_VAR PC_utf8proc_VERSION)
if(utf8proc_FOUND AND NOT TARGET utf8proc::utf8proc)
  add_library(utf8proc::utf8proc ALIAS PkgConfig::PC_utf8proc)
endif()
