# prometheus-cpp::core from pkg-config's prometheus-cpp-core: the package's own CMake configuration brings a web server along.
pkg_check_modules(PC_prometheus_cpp_core QUIET IMPORTED_TARGET prometheus-cpp-core)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(prometheus-cpp-core REQUIRED_VARS PC_prometheus_cpp_core_FOUND VERSION_VAR PC_prometheus_cpp_core_VERSION)
if(prometheus-cpp-core_FOUND AND NOT TARGET prometheus-cpp::core)
  add_library(prometheus-cpp::core ALIAS PkgConfig::PC_prometheus_cpp_core)
endif()
