# xxHash::xxhash from pkg-config's libxxhash: the package ships no CMake configuration.
pkg_check_modules(PC_xxHash QUIET IMPORTED_TARGET libxxhash)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(xxHash REQUIRED_VARS PC_xxHash_FOUND VERSION_VAR PC_xxHash_VERSION)
if(xxHash_FOUND AND NOT TARGET xxHash::xxhash)
  add_library(xxHash::xxhash ALIAS PkgConfig::PC_xxHash)
endif()
