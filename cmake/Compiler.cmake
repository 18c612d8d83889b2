# Language level, warnings, floating-point rules and sanitizers, for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

add_library(lily_options INTERFACE)
target_include_directories(lily_options INTERFACE "${PROJECT_SOURCE_DIR}/src")
target_compile_options(lily_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Werror
  # A product and a sum become one rounding only where the code says fma: results are the same in every build.
  -ffp-contract=off)
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Several files as one are no header to each other, though g++ takes them for that.
  target_compile_options(lily_options INTERFACE -Wno-subobject-linkage)
endif()
find_package(Threads REQUIRED)
target_link_libraries(lily_options INTERFACE Threads::Threads)

if(LILY_LIBCXX)
  add_compile_options(-stdlib=libc++)
  add_link_options(-stdlib=libc++)
endif()
if(LILY_SANITIZE)
  # More optimising, or more than line numbers to debug with, takes g++ minutes a file once every access is checked.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -DNDEBUG")
  add_compile_options(-fsanitize=${LILY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LILY_SANITIZE})
endif()
if(LILY_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link -fprofile-instr-generate -fcoverage-mapping)
  add_link_options(-fprofile-instr-generate)
endif()

find_program(LILY_CCACHE ccache)
if(LILY_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${LILY_CCACHE}")
endif()
