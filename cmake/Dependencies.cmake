# Third-party libraries: the installed package where there is one (Debian, Homebrew), else a pinned archive.
# What each is for, and why it was chosen: docs/decisions/0001-libraries.md.
find_package(PkgConfig)

find_package(tl-expected REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PCRE2 REQUIRED)
find_package(utf8proc REQUIRED)
find_package(xxHash REQUIRED)
find_package(Libedit REQUIRED)
find_package(prometheus-cpp-core REQUIRED)
if(LILY_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
