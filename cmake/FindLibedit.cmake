# Libedit::libedit from pkg-config's libedit: the package ships no CMake configuration.
pkg_check_modules(PC_Libedit QUIET IMPORTED_TARGET libedit)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libedit REQUIRED_VARS PC_Libedit_FOUND VERSION_VAR PC_Libedit_VERSION)
if(Libedit_FOUND AND NOT TARGET Libedit::libedit)
  add_library(Libedit::libedit ALIAS PkgConfig::PC_Libedit)
endif()
